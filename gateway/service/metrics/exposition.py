"""Readings as Prometheus reads them, by prometheus-client: what is told stands in `families` only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.service.metrics.families import FAMILIES
from gateway.service.metrics.readings import Family, Kind, Reading

_BY_NAME = {family.name: family for family in FAMILIES}


def exposed(readings: Iterable[Reading], accept: str) -> tuple[bytes, str]:
    """Body and content type of an answer.

    Args:
        readings: of all processes; those of families that are not known here are left out.
        accept: the request's header, which chooses between Prometheus' text and OpenMetrics.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_Readings(readings)), content_type


class _Readings(Collector):
    """Readings as prometheus-client wants them: family by family, in the families' order."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._of_family: dict[str, list[Reading]] = {name: [] for name in _BY_NAME}
        for reading in readings:
            of_family = self._of_family.get(reading.family)
            if of_family is not None:  # a process of another version, started while we were replaced
                of_family.append(reading)

    def collect(self) -> Iterator[Metric]:
        for name, readings in self._of_family.items():
            if readings:
                yield _metric(_BY_NAME[name], readings)


def _metric(family: Family, readings: Iterable[Reading]) -> Metric:
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind.value)
    for reading in readings:
        labels = (*family.labels, "le") if reading.suffix == "_bucket" else family.labels
        metric.add_sample(
            family.name + reading.suffix, dict(zip(labels, reading.labels, strict=True)), reading.value
        )
    return metric
