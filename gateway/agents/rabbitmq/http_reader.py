"""Requests to the management API over HTTP: one at a time, each with a deadline and a limit of size."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import httpx
from pydantic import SecretStr

from gateway.agents.rabbitmq.management_api import (
    Answer,
    Broken,
    NotManagement,
    Unavailable,
    answer_of,
    is_administrative,
)

MAX_BODY_OCTETS = 16 * 1024 * 1024
"""A page of 500 queues with all columns is 0.7 MB."""


@dataclass(frozen=True, slots=True)
class ManagementEndpoint:
    """Where the management API is and who reads it.

    Attributes:
        url: ``http://host:15672`` or ``https://...``, without ``/api`` and without user info.
        user: a user with the tag ``monitoring``.
        ca_file: certificates that the server's is checked with; the system's where none is given.
        deadline: seconds that a request may take altogether.
    """

    url: str
    user: str
    password: SecretStr
    ca_file: Path | None = None
    deadline: float = 20.0


def management_client(endpoint: ManagementEndpoint) -> httpx.AsyncClient:
    """A client of the management API with one connection; targets are relative to ``/api/``.

    Raises:
        OSError: the CA file cannot be read.
        ssl.SSLError: the CA file holds no certificates.
    """
    return httpx.AsyncClient(
        base_url=f"{endpoint.url.rstrip('/')}/api/",
        auth=httpx.BasicAuth(endpoint.user, endpoint.password.get_secret_value()),
        verify=ssl.create_default_context(cafile=endpoint.ca_file),
        # The broker's processors are dearer than the network between it and us.
        headers={"accept-encoding": "identity", "user-agent": "amqp-gateway"},
        timeout=endpoint.deadline,
        limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        # A password goes where the configuration says, and nowhere else.
        trust_env=False,
        follow_redirects=False,
    )


class Target(Protocol):
    """What is asked for, such as a `gateway.agents.rabbitmq.management_api.ManagementRequest`."""

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        ...


class HttpReader:
    """Reads from the management API. Use it as an asynchronous context manager.

    Args:
        endpoint: where it is and who reads it.
        administrator: the same with a user who may read what monitoring is not enough for, if there is one.

    Raises:
        OSError: the CA file cannot be read.
        ssl.SSLError: the CA file holds no certificates.
    """

    def __init__(self, endpoint: ManagementEndpoint, administrator: ManagementEndpoint | None = None) -> None:
        self._deadline = endpoint.deadline
        self._client = management_client(endpoint)
        self._administrator = management_client(administrator) if administrator else self._client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()
        await self._administrator.aclose()

    async def read(self, request: Target) -> Answer:
        """Make ``request``; whatever goes wrong is an answer too."""
        try:
            async with asyncio.timeout(self._deadline):
                client = self._administrator if is_administrative(request) else self._client
                return await self._read(client, request.target)
        except (TimeoutError, httpx.TimeoutException):
            return Unavailable(f"no answer within {self._deadline:g} s")
        except httpx.RemoteProtocolError as error:
            return _broken_off(error)
        except httpx.HTTPError as error:
            return Unavailable(one_line(error))
        except httpx.InvalidURL as error:
            return NotManagement(one_line(error))

    async def _read(self, client: httpx.AsyncClient, target: str) -> Answer:
        async with client.stream("GET", target) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                return NotManagement("it compresses what was not to be compressed")
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BODY_OCTETS:
                    # Some collections come whole, however large: that is no reason to give up the others.
                    return Broken(f"an answer of more than {MAX_BODY_OCTETS} octets", lasting=True)
            return answer_of(response.status_code, bytes(body))


def _broken_off(error: httpx.RemoteProtocolError) -> Answer:
    """Either the server ended the connection, which a broker that stops does, or it speaks no HTTP."""
    text = one_line(error)
    if "disconnected" in text or "closed" in text:
        return Unavailable(text)
    return NotManagement(f"it speaks no HTTP: {text}")


def one_line(error: Exception) -> str:
    """What ``error`` says, for people."""
    return " ".join(str(error).split())[:200] or type(error).__name__
