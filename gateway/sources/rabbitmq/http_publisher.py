"""Publishing through the management API, which works while an alarm blocks messages over AMQP."""

from __future__ import annotations

import asyncio
import base64
import json
from types import TracebackType
from typing import Self

import httpx
import structlog

from gateway.dialects.session import Send
from gateway.links.publishing import FallbackError
from gateway.links.reconnecting import NodeChoice
from gateway.mapping.paths import text_at
from gateway.model.texts import error_line
from gateway.sources.rabbitmq.http_reader import (
    ManagementEndpoint,
    address_of,
    management_client,
    response_answer,
)
from gateway.sources.rabbitmq.management_api import (
    PAUSE_DEMANDED,
    Answer,
    Broken,
    Document,
    NotManagement,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.path_proof import path_of

log = structlog.get_logger(__name__)

DEADLINE_SECONDS = 5.0
CUT_OFF_SECONDS = 2.0
"""Seconds for which a connection is looked up to close it; it is listed up to 5 s after it was opened."""
_RETRY_SECONDS = 0.2
_PERSISTENT = 2
"""AMQP 0-9-1 ``delivery-mode``."""


class HttpPublisher:
    """A `gateway.links.publishing.HttpFallback` by ``POST /api/exchanges/VHOST/EXCHANGE/publish``.

    It is an asynchronous context manager. Messages carry the user's name as ``user_id``, which the broker
    checks as it does over AMQP.

    Args:
        endpoint: the management API, with the user who also publishes over AMQP: it needs the tag
            ``management``, and the same permissions.
        virtual_host: the virtual host of the exchanges.

    Raises:
        TlsFileError: a file of TLS cannot be used.
    """

    def __init__(self, endpoint: ManagementEndpoint, virtual_host: str) -> None:
        self._user = endpoint.user
        self._host = virtual_host
        self._client = management_client(endpoint)
        self._nodes = NodeChoice(endpoint.urls)
        self._wanted = asyncio.Event()
        self._unwanted = asyncio.Event()
        self._unwanted.set()
        self._blocked = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    def want(self, *, wanted: bool) -> None:
        """Use HTTP from now on, or AMQP again."""
        if wanted != self.wanted:
            log.info("publishing-by-http" if wanted else "publishing-by-amqp")
        begun, ended = (self._wanted, self._unwanted) if wanted else (self._unwanted, self._wanted)
        begun.set()
        ended.clear()

    async def refusal(self) -> str:
        """Return why this user may not use the management API; empty if it may, or if that is unknown."""
        try:
            answer = await self._request("GET", "whoami")
        except FallbackError:
            return ""
        return answer.reason if isinstance(answer, Refused) else ""

    # As a detour.

    @property
    def wanted(self) -> bool:
        """Whether messages go over HTTP."""
        return self._wanted.is_set()

    async def until(self, *, wanted: bool) -> None:
        """Wait until messages go over HTTP, or over AMQP again."""
        await (self._wanted if wanted else self._unwanted).wait()

    def blocked(self) -> None:
        """Take note that the broker seems to block the connection."""
        self._blocked.set()

    async def until_blocked(self) -> None:
        """Wait until the broker seems to block the connection, since the last call or from now on."""
        await self._blocked.wait()
        self._blocked.clear()

    async def cut_off(self, connection_name: str) -> bool:
        """Have the broker close the connection of this name, and drop what it has not read from it.

        A user may close its own connections.
        """
        try:
            async with asyncio.timeout(CUT_OFF_SECONDS):
                while True:
                    name = await self._connection(connection_name)
                    if name:
                        answer = await self._request(
                            "DELETE",
                            path_of("connections", name),
                            headers={"X-Reason": "blocked by an alarm"},
                        )
                        return answer is None
                    await asyncio.sleep(_RETRY_SECONDS)
        except (TimeoutError, FallbackError):
            return False

    async def _connection(self, provided_name: str) -> str:
        """Return the broker's name of the connection, empty if it does not list it."""
        answer = await self._request(
            "GET", f"{path_of('vhosts', self._host, 'connections')}?columns=name,user_provided_name"
        )
        listed = answer.body if isinstance(answer, Document) else None
        for connection in listed if isinstance(listed, list) else ():
            if isinstance(connection, dict) and connection.get("user_provided_name") == provided_name:
                return text_at(connection, "name")
        return ""

    async def publish(self, send: Send, timestamp: int) -> None:
        """Publish a message; ``timestamp`` is the time in seconds since 1970.

        Raises:
            FallbackError: it was not published.
        """
        properties = {
            "user_id": self._user,
            "timestamp": timestamp,
            "content_type": send.content_type,
            "correlation_id": send.correlation_id,
            "reply_to": send.reply_to,
            "message_id": send.message_id,
            "expiration": str(send.expiration) if send.expiration else "",
            "delivery_mode": _PERSISTENT if send.persistent else 0,
        }
        content = {
            "properties": {name: value for name, value in properties.items() if value},
            "routing_key": send.routing_key,
            "payload": base64.b64encode(send.body).decode("ascii"),
            "payload_encoding": "base64",
        }
        target = path_of("exchanges", self._host, send.exchange, "publish")
        answer = await self._request("POST", target, content=json.dumps(content).encode())
        if isinstance(answer, Document):
            return
        if isinstance(answer, Refused):
            raise FallbackError(f"{answer.reason}: {_NEEDED}", permanent=True)
        reason = answer.reason if isinstance(answer, NotManagement) else "no such exchange"
        # The management API itself publishes over AMQP, and reports why that was refused.
        refused = "ACCESS_REFUSED" in reason
        raise FallbackError(f"{reason}: {_NEEDED}" if refused else reason, permanent=refused)

    async def _request(self, method: str, target: str, **more: object) -> Answer | None:
        """Send a request; return ``None`` for an answer without contents (204).

        Raises:
            FallbackError: there is no answer.
        """
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                response = await self._reach(method, target, **more)
        except TimeoutError as error:
            self._nodes.failed(self._nodes.preferred)
            raise FallbackError(f"no answer within {DEADLINE_SECONDS:g} s", permanent=True) from error
        except httpx.HTTPError as error:
            raise FallbackError(error_line(error), permanent=True) from error
        except Exception as error:  # of this message: an address of a peer may be in it
            raise FallbackError(error_line(error), permanent=False) from error
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        answer = response_answer(response, response.content)
        if isinstance(answer, Unavailable) and answer.pause:
            text = f"{PAUSE_DEMANDED} ({answer.reason})"
            raise FallbackError(text, permanent=True, pause=answer.pause)
        if isinstance(answer, Unavailable | Broken):
            raise FallbackError(answer.reason, permanent=True)
        return answer

    async def _reach(self, method: str, target: str, **more: object) -> httpx.Response:
        """Send a request to the first node that accepts a connection: nothing is sent twice."""
        *first, last = self._nodes.in_order()
        for node in first:
            try:
                return await self._client.request(method, address_of(node, target), **more)  # type: ignore[arg-type]
            except (httpx.ConnectError, httpx.ConnectTimeout):
                self._nodes.failed(node)
        return await self._client.request(method, address_of(last, target), **more)  # type: ignore[arg-type]


_NEEDED = "the user needs the tag 'management', and the permissions that docs/rights.md lists"
