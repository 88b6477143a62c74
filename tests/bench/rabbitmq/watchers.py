"""The sides of the benchmark: each watches one broker until it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import httpx
from pydantic import SecretStr

from gateway.demo.broker import PrivateBroker
from gateway.dialects.session import Effect
from gateway.mapping.files import load_shipped_mappings
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint, PrometheusReader
from gateway.sources.rabbitmq.runner import SourceRunner
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig, StatisticsConfig

_SCRAPE_SECONDS: Final = 15.0
"""The usual interval of Prometheus in RabbitMQ's own examples."""
_PAGE_SECONDS: Final = 5.0
"""The interval of the management page."""
_PAGE: Final = (
    "overview",
    "queues?page=1&page_size=100&name=&use_regex=false&pagination=true",
    "vhosts",
    "nodes",
)
"""The requests that the page with the list of queues sends each time."""


class Watcher(Protocol):
    """A watcher of a broker."""

    async def watch(self) -> None:
        """Watch until cancelled; continue when called again."""
        ...

    async def settled(self) -> None:
        """Wait until it has read everything once; `watch` must run in that time."""
        ...


class Unwatched:
    """A watcher that leaves the broker alone."""

    async def settled(self) -> None:
        """Return at once."""

    async def watch(self) -> None:
        """Wait."""
        await asyncio.Event().wait()


class Polling:
    """A watcher that repeats its requests at an interval, as a program without state does.

    Args:
        urls: the URLs that it requests.
        seconds: the interval between the beginnings of two rounds.
        login: user and password; ``None`` to send none.
    """

    def __init__(self, urls: Iterable[str], seconds: float, login: tuple[str, str] | None = None) -> None:
        self._urls = tuple(urls)
        self._seconds = seconds
        self._login = login

    async def settled(self) -> None:
        """Return at once."""

    async def watch(self) -> None:
        """Ask until cancelled."""
        async with httpx.AsyncClient(auth=self._login, timeout=120, trust_env=False) as client:
            while True:
                pause = asyncio.create_task(asyncio.sleep(self._seconds))
                for url in self._urls:
                    (await self._answer(client, url)).raise_for_status()
                await pause

    @staticmethod
    async def _answer(client: httpx.AsyncClient, url: str) -> httpx.Response:
        try:
            return await client.get(url)
        except httpx.RemoteProtocolError:  # the connection was closed meanwhile: a browser asks again, too
            return await client.get(url)


class TurnClock:
    """A clock that stands while it is not a side's turn, so that no due work accumulates."""

    def __init__(self) -> None:
        self._behind = 0
        self._stopped_at = time.time_ns()

    def now(self) -> int:
        """Return the nanoseconds since 1970-01-01 UTC, less those of all pauses."""
        return (self._stopped_at or time.time_ns()) - self._behind

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the clock for as long as the context lasts."""
        self._behind += time.time_ns() - self._stopped_at
        self._stopped_at = 0
        try:
            yield
        finally:
            self._stopped_at = time.time_ns()


class Source:
    """The gateway's source, without the later stages.

    Args:
        broker: the broker that it reads.
        queues: the number of queues of the broker.
        metrics: whether it may read Prometheus' metrics.

    Attributes:
        milestones: seconds from the first request to each milestone, by its name.
    """

    def __init__(self, broker: PrivateBroker, queues: int, *, metrics: bool) -> None:
        login = broker.administrator
        config = RabbitMqSourceConfig(
            user=login.name, statistics=StatisticsConfig(broker.management_url, enabled=metrics)
        )
        self._source = RabbitMqSource(config, load_shipped_mappings()["rabbitmq"])
        self._queues = queues
        self._metrics = metrics
        self._endpoint = ManagementEndpoint(
            broker.management_url, login.name, SecretStr(login.password), deadline=120
        )
        self._clock = TurnClock()
        self._began = self._clock.now()
        self._settled = asyncio.Event()
        self.milestones: dict[str, float] = {}

    async def watch(self) -> None:
        """Read until cancelled."""
        async with HttpReader(self._endpoint) as reader, PrometheusReader(deadline=120) as scraper:
            runner = SourceRunner(self._source, reader, self._performed, self._clock, scraper=scraper)
            with self._clock.running():
                await runner.run()

    async def settled(self) -> None:
        """Wait until everything was read once, including the metrics."""
        await self._settled.wait()

    def ages(self) -> tuple[float, float]:
        """Return the median and highest age of the values of queues in seconds; 0 if there are none."""
        now = self._clock.now()
        ages = [(now - known.sampled) / 1e9 for known in self._source.known("queue")] or [0.0]
        return statistics.median(ages), max(ages)

    def _performed(self, _effects: Iterable[Effect]) -> None:
        """Ignore the effects, and note the milestones that the source has reached."""
        if self._settled.is_set():
            return
        known = sum(1 for _ in self._source.known("queue"))
        self._reached("first rows", known > 0)
        self._reached("all rows", known >= self._queues)
        self._reached("synchronised", self._source.synchronised)
        if not self._source.reads_first and self._has_metrics():
            self._reached("all values", True)
            self._settled.set()

    def _has_metrics(self) -> bool:
        """Return whether metrics were read, or need not be."""
        metrics = self._source.statistics
        return not self._metrics or metrics is None or bool(metrics.trouble) or metrics.applied > 0

    def _reached(self, what: str, is_so: bool) -> None:  # noqa: FBT001  the milestone is a sentence's subject
        if is_so:
            self.milestones.setdefault(what, (self._clock.now() - self._began) / 1e9)


def scrape(broker: PrivateBroker) -> Polling:
    """Return a watcher like Prometheus, which scrapes the metrics of every object."""
    url = f"http://127.0.0.1:{broker.ports.prometheus}/metrics/per-object"
    return Polling([url], _SCRAPE_SECONDS)


def management_page(broker: PrivateBroker) -> Polling:
    """Return a watcher like a browser that shows the list of queues, without input by its user."""
    login = broker.administrator
    urls = (f"{broker.management_url}/api/{path}" for path in _PAGE)
    return Polling(urls, _PAGE_SECONDS, (login.name, login.password))
