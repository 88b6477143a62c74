"""Reads the metrics of a broker's nodes over HTTP, as they arrive, giving way to others all the time."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from gateway.dialects.errors import ProtocolError
from gateway.links.introduction import user_agent
from gateway.model.texts import error_line
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import (
    NotScraped,
    Scraped,
    ScrapeRequest,
    Sheet,
)

MAX_BODY_BYTES: Final = 512 * 1024 * 1024
"""500,000 queues are 450 MB; nothing of a body is kept but the values."""
PART_BYTES: Final = 16 * 1024
"""Read at a time, in about a millisecond."""
CONNECT_SECONDS: Final = 3.0


class PrometheusReader:
    """Reads metrics. Use it as an asynchronous context manager.

    No login is sent: the endpoint asks for none, and whoever answers at a listener's address is not known.

    Args:
        ca_file: certificates that a server's is checked with; the system's where none is given.
        deadline: seconds that a request may take altogether.
        source: name of the source or agent that reads, for the broker's log; may be empty.

    Raises:
        OSError: the CA file cannot be read.
        ssl.SSLError: the CA file holds no certificates.
    """

    def __init__(self, ca_file: Path | None = None, deadline: float = 20.0, source: str = "") -> None:
        self._deadline = deadline
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context(cafile=ca_file),
            headers={"accept-encoding": "identity", "user-agent": user_agent(source)},
            timeout=httpx.Timeout(deadline, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=8, max_keepalive_connections=8),
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def scrape(
        self, request: ScrapeRequest, sheet: Sheet, names: dict[bytes, ObjectName | None]
    ) -> Scraped | NotScraped:
        """Ask a node; whatever goes wrong is an answer too.

        Args:
            request: what to ask whom.
            sheet: takes the metrics of interest.
            names: the objects that labels name, as far as that is known; added to.
        """
        try:
            async with asyncio.timeout(self._deadline):
                return await self._scrape(request, sheet, names)
        except httpx.ConnectTimeout:
            return NotScraped("no connection in time")
        except (TimeoutError, httpx.TimeoutException):
            return NotScraped(f"no answer within {self._deadline:.2g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return NotScraped(error_line(error))
        except ProtocolError as error:
            return NotScraped(f"expected {error.expected}, found {error.found}")

    async def _scrape(
        self, request: ScrapeRequest, sheet: Sheet, names: dict[bytes, ObjectName | None]
    ) -> Scraped | NotScraped:
        clock = asyncio.get_running_loop().time
        began = clock()
        reading, size = 0.0, 0
        async with self._client.stream("GET", request.address) as response:
            waited = clock() - began
            if response.status_code != httpx.codes.OK:
                return NotScraped(f"status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                return NotScraped("it compresses what was not to be compressed")
            async for body in response.aiter_raw():
                size += len(body)
                if size > MAX_BODY_BYTES:
                    return NotScraped(f"an answer of more than {MAX_BODY_BYTES} bytes")
                here = clock()
                for start in range(0, len(body), PART_BYTES):
                    sheet.feed(body[start : start + PART_BYTES])
                    await asyncio.sleep(0)
                reading += clock() - here
        busy = clock() - began - reading
        sheet.finish()
        for _ in sheet.resolve(names):
            await asyncio.sleep(0)
        return Scraped(sheet, int(waited * 1e9), int(busy * 1e9), size)
