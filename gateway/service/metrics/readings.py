"""A metric family, one reading of it, and what a process is asked for: all of its readings."""

from __future__ import annotations

import asyncio
import enum
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec
import structlog

log = structlog.get_logger(__name__)

SLOW_SECONDS = 1.0
"""How long a process waits for others before it answers without them."""


class Kind(enum.StrEnum):
    """How values of a family behave (Prometheus: metric types)."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Reading(NamedTuple):
    """One sample of a family.

    Attributes:
        family: its name.
        suffix: what a histogram's sample adds to it: ``_bucket``, ``_sum``, ``_count``; else empty.
        labels: values of the family's labels, in their order; of a bucket, its upper bound after them.
    """

    family: str
    suffix: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family.

    Attributes:
        name: complete, so that of a counter ends in ``_total``.
        help: one sentence for people.
        labels: their names. Values come from configuration and code only, so there are few.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def at(self, value: float, *labels: str) -> Reading:
        """A reading of this family; ``True`` is 1."""
        assert len(labels) == len(self.labels), self.name
        return Reading(self.name, "", labels, float(value))


class Histogram:
    """How long something took, counted in buckets.

    Args:
        family: of kind histogram.
        bounds: upper ends of the buckets, ascending, in the family's unit.
        labels: values of the family's labels.
    """

    def __init__(self, family: Family, bounds: Sequence[float], *labels: str) -> None:
        assert family.kind is Kind.HISTOGRAM
        assert len(labels) == len(family.labels), family.name
        self._family = family
        self._bounds = tuple(bounds)
        self._labels = labels
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def readings(self) -> Iterator[Reading]:
        """As it stands."""
        name, count = self._family.name, 0
        for bound, more in zip((*self._bounds, float("inf")), self._counts, strict=True):
            count += more
            end = "+Inf" if bound == float("inf") else repr(float(bound))
            yield Reading(name, "_bucket", (*self._labels, end), count)
        yield Reading(name, "_sum", self._labels, self._sum)
        yield Reading(name, "_count", self._labels, count)


Collector: TypeAlias = Callable[[], Iterable[Reading]]
"""Reads counters that are there anyway: quickly, because it holds the loop."""

SlowCollector: TypeAlias = Callable[[], Awaitable[Iterable[Reading]]]
"""Waits for another process; an answer that takes longer than `SLOW_SECONDS` is left out."""


class Metrics:
    """The readings of a process. A collector replaces an earlier one of the same name."""

    def __init__(self) -> None:
        self._collectors: dict[str, Collector] = {}
        self._slow: dict[str, SlowCollector] = {}

    def add(self, name: str, collector: Collector) -> None:
        """Ask ``collector`` too, from now on."""
        self._collectors[name] = collector

    def add_slow(self, name: str, collector: SlowCollector) -> None:
        """The same for one that has to wait for its answer."""
        self._slow[name] = collector

    def remove(self, name: str) -> None:
        """Do not ask it any more; one that is not there is passed over."""
        self._collectors.pop(name, None)
        self._slow.pop(name, None)

    async def collect(self) -> list[Reading]:
        """Everything. A collector that fails is left out, and logged."""
        readings: list[Reading] = []
        for name, collector in tuple(self._collectors.items()):
            try:
                readings += list(collector())  # all of one collector, or nothing
            except Exception:  # measuring must never end the work that is measured
                log.exception("metrics-failed", collector=name)
        for name, slow in tuple(self._slow.items()):
            try:
                async with asyncio.timeout(SLOW_SECONDS):
                    readings += list(await slow())
            except TimeoutError:
                log.warning("metrics-missing", collector=name, seconds=SLOW_SECONDS)
            except Exception:
                log.exception("metrics-failed", collector=name)
        return readings


def continued(earlier: Iterable[Reading], life: Iterable[Reading]) -> list[Reading]:
    """Return the readings of a process that continue the counts of its earlier lives.

    Args:
        earlier: the readings over all earlier lives.
        life: the readings of the present life, which counts from 0 on.
    """
    readings = {reading[:3]: reading for reading in earlier}
    for reading in life:
        before = readings.get(reading[:3])
        is_counted = bool(reading.suffix) or reading.family.endswith("_total")
        value = before.value + reading.value if before is not None and is_counted else reading.value
        readings[reading[:3]] = reading._replace(value=value)
    return list(readings.values())


_decoder = msgspec.msgpack.Decoder(list[Reading])


def encode_readings(readings: Iterable[Reading]) -> bytes:
    """Return the readings as bytes for another process of the same gateway."""
    return msgspec.msgpack.encode(list(readings))


def decode_readings(octets: bytes) -> list[Reading]:
    """Return the readings that `encode_readings` encoded.

    Raises:
        ValueError: the bytes are something else.
    """
    return _decoder.decode(octets)
