"""The sides of the benchmark: each watches one broker for as long as it is let."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterable
from typing import Final, Protocol

import httpx
from pydantic import SecretStr

from gateway.agents.rabbitmq.agent_config import RabbitMqAgentConfig
from gateway.agents.rabbitmq.http_reader import HttpReader, ManagementEndpoint
from gateway.agents.rabbitmq.prometheus_reader import PrometheusReader
from gateway.agents.rabbitmq.prometheus_statistics import StatisticsConfig
from gateway.agents.rabbitmq.runner import SourceRunner
from gateway.agents.rabbitmq.source import RabbitMqSource
from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.dialects.effects import Effect
from gateway.mapping.files import load_shipped_mappings

_SCRAPE_SECONDS: Final = 15.0
"""Prometheus' usual interval in RabbitMQ's own examples."""
_PAGE_SECONDS: Final = 5.0
"""The management page's own interval."""
_PAGE: Final = (
    "overview",
    "queues?page=1&page_size=100&name=&use_regex=false&pagination=true",
    "vhosts",
    "nodes",
)
"""What the page with the list of queues asks for each time."""


class Watcher(Protocol):
    """Watches a broker."""

    async def watch(self) -> None:
        """Until it is cancelled; goes on where it was when called again."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether it has read everything once."""
        ...


class Nobody:
    """Leaves the broker alone."""

    is_settled = True

    async def watch(self) -> None:
        """Wait."""
        await asyncio.Event().wait()


class Polling:
    """Asks for the same every some seconds, as a program that keeps nothing.

    Args:
        urls: what it asks for.
        seconds: between the beginnings of two times.
        login: user and password; ``None`` to send none.
    """

    is_settled = True

    def __init__(self, urls: Iterable[str], seconds: float, login: tuple[str, str] | None = None) -> None:
        self._urls = tuple(urls)
        self._seconds = seconds
        self._login = login

    async def watch(self) -> None:
        """Ask until cancelled."""
        async with httpx.AsyncClient(auth=self._login, timeout=120, trust_env=False) as client:
            while True:
                pause = asyncio.create_task(asyncio.sleep(self._seconds))
                for url in self._urls:
                    (await client.get(url)).raise_for_status()
                await pause


class Source:
    """The gateway's source, without what comes behind it.

    Args:
        broker: that it reads.
        metrics: whether it may read Prometheus' metrics.
    """

    def __init__(self, broker: PrivateBroker, *, metrics: bool) -> None:
        self._broker = broker
        login = broker.administrator
        config = RabbitMqAgentConfig(
            user=login.name, statistics=StatisticsConfig(broker.management_url, enabled=metrics)
        )
        self._source = RabbitMqSource(config, load_shipped_mappings()["rabbitmq"])
        self._metrics = metrics
        self._endpoint = ManagementEndpoint(
            broker.management_url, login.name, SecretStr(login.password), deadline=120
        )

    async def watch(self) -> None:
        """Read until cancelled."""
        async with HttpReader(self._endpoint) as reader, PrometheusReader(deadline=120) as scraper:
            await SourceRunner(self._source, reader, _no_effects, SystemClock(), scraper=scraper).run()

    @property
    def is_settled(self) -> bool:
        """Whether everything was read once, and the metrics too."""
        statistics = self._source.statistics
        wanted = self._metrics and statistics is not None and not statistics.trouble
        return self._source.synchronised and (not wanted or (statistics is not None and statistics.active))

    def ages(self) -> tuple[float, float]:
        """How old the values of queues are: seconds, the median and the most; 0 where there are none."""
        now = SystemClock().now()
        ages = [(now - known.sampled) / 1e9 for known in self._source.known("queue")] or [0.0]
        return statistics.median(ages), max(ages)


def scrape(broker: PrivateBroker) -> Polling:
    """Prometheus, which scrapes the metrics of every object."""
    url = f"http://127.0.0.1:{broker.ports.prometheus}/metrics/per-object"
    return Polling([url], _SCRAPE_SECONDS)


def management_page(broker: PrivateBroker) -> Polling:
    """A browser that shows the list of queues, which its user does not touch."""
    login = broker.administrator
    urls = (f"{broker.management_url}/api/{path}" for path in _PAGE)
    return Polling(urls, _PAGE_SECONDS, (login.name, login.password))


def _no_effects(_effects: Iterable[Effect]) -> None:
    """Nobody is behind the source."""
