"""An issuer of tokens for a RabbitMQ: a token endpoint of OAuth 2 on the loopback, with a key of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey

from gateway.demo.broker import PrivateBroker

SCOPES = ("tag:administrator", "configure:*/*", "read:*/*/*", "write:*/*/*")
"""The permissions of a token at a RabbitMQ, without the name of the resource.

The third part is the routing key: a scope without it permits no binding to a topic exchange.
"""
KEY = "key-1"


class TokenIssuer:
    """Issues tokens to one client.

    Attributes:
        client: the name of the client, which is the user's at the broker.
        secret: its secret.
        lifetime: seconds until a token expires.
        answer: status and body of each answer, in the place of a token; ``None`` to issue tokens.
        issued: the tokens.
        refused: the number of requests with another secret.
        forms: the contents of the requests.
    """

    def __init__(self, client: str, secret: str, lifetime: float) -> None:
        self.client = client
        self.secret = secret
        self.lifetime = lifetime
        self.answer: tuple[int, bytes] | None = None
        self.issued: list[str] = []
        self.refused = 0
        self.forms: list[dict[str, list[str]]] = []
        self.url = ""
        self._key = RSAKey.generate_key(2048)

    def trust(self, broker: PrivateBroker) -> None:
        """Have a broker with the plugin ``rabbitmq_auth_backend_oauth2`` take the tokens."""
        key = base64.b64encode(self._key.as_pem(private=False)).decode()
        plugin = "rabbitmq_auth_backend_oauth2"
        keys = f'#{{<<"{KEY}">> => {{pem, base64:decode(<<"{key}">>)}}}}'
        for application, name, value in (
            (plugin, "resource_server_id", '<<"rabbitmq">>'),
            (plugin, "key_config", f'[{{default_key, <<"{KEY}">>}}, {{signing_keys, {keys}}}]'),
            ("rabbit", "auth_backends", "[rabbit_auth_backend_internal, rabbit_auth_backend_oauth2]"),
        ):
            broker.rabbitmqctl("eval", f"application:set_env({application}, {name}, {value}).")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve the token endpoint during the context."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        form = parse_qs((await reader.readexactly(int(headers["content-length"]))).decode())
        self.forms.append(form)
        login = base64.b64encode(f"{self.client}:{self.secret}".encode()).decode().lower()
        status, body = self.answer or (200, b"")
        if self.answer is None and headers.get("authorization") != f"basic {login}":
            self.refused += 1
            status, body = 401, b'{"error": "invalid_client"}'
        elif self.answer is None:
            body = json.dumps({"access_token": self._token(), "expires_in": self.lifetime}).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\nlocation: /other\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body
        )
        await writer.drain()
        writer.close()

    def _token(self) -> str:
        claims = {
            "aud": ["rabbitmq"],
            "sub": self.client,
            "client_id": self.client,
            "exp": int(time.time() + self.lifetime),
            "jti": str(len(self.issued)),
            "scope": [f"rabbitmq.{scope}" for scope in SCOPES],
        }
        self.issued.append(jwt.encode({"alg": "RS256", "kid": KEY}, claims, self._key))
        return self.issued[-1]
