"""What prometheus-client does for the gateway's own metrics: the page, and the usage of processes."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.process_collector import ProcessCollector

from gateway.prometheus.objects import encode
from gateway.service.metrics import families
from gateway.service.metrics.readings import Family, Kind, Reading
from gateway.shipped_files import version

_BY_NAME = {family.name: family for family in families.FAMILIES}
_OF_THE_SYSTEM: Mapping[str, Family] = {
    "process_start_time_seconds": families.PROCESS_START,
    "process_cpu_seconds_total": families.PROCESS_CPU,
    "process_resident_memory_bytes": families.PROCESS_MEMORY,
    "process_open_fds": families.PROCESS_FILES,
    "process_max_fds": families.PROCESS_MAX_FILES,
}
"""Families by the names that prometheus-client has for them."""


def exposed(readings: Iterable[Reading], accept: str) -> tuple[bytes, str]:
    """Return body and content type of the page, with the families in the order of `FAMILIES`.

    Args:
        readings: of all processes.
        accept: the request's header, as for `gateway.prometheus.objects.encode`.
    """
    of_family: dict[str, list[Reading]] = {name: [] for name in _BY_NAME}
    for reading in readings:
        # During an upgrade a process may run another version, and have families that are not known here.
        if reading.family in of_family:
            of_family[reading.family].append(reading)
    return encode((_metric(_BY_NAME[name], found) for name, found in of_family.items() if found), accept)


def build() -> Reading:
    """Read which version of the gateway and of Python runs."""
    return families.BUILD.at(1, version(), platform.python_version())


def usage(process: str, pid: int) -> Iterator[Reading]:
    """Read what the system knows of a process; nothing of one that has ended."""
    for metric in ProcessCollector(pid=lambda: pid, registry=None).collect():
        for sample in metric.samples:
            family = _OF_THE_SYSTEM.get(sample.name)
            if family is not None:
                yield family.at(sample.value, process)


def _metric(family: Family, readings: Iterable[Reading]) -> Metric:
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind.value)
    for reading in readings:
        labels = (*family.labels, "le") if reading.suffix == "_bucket" else family.labels
        metric.add_sample(
            family.name + reading.suffix, dict(zip(labels, reading.labels, strict=True)), reading.value
        )
    return metric
