"""What the supervisor tells: which processes there are, how often they died, what they use."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Mapping

from prometheus_client.process_collector import ProcessCollector

from gateway.service.metrics import families
from gateway.service.metrics.readings import Family, Reading

_OF_THE_SYSTEM: Mapping[str, Family] = {
    "process_start_time_seconds": families.PROCESS_START,
    "process_cpu_seconds_total": families.PROCESS_CPU,
    "process_resident_memory_bytes": families.PROCESS_MEMORY,
    "process_open_fds": families.PROCESS_FILES,
    "process_max_fds": families.PROCESS_MAX_FILES,
}
"""What prometheus-client reads of a process in /proc, by its name for it."""


def build() -> Reading:
    """What runs."""
    version = importlib.metadata.version("amqp-management-gateway")
    return families.BUILD.at(1, version, platform.python_version())


def usage(process: str, pid: int) -> Iterator[Reading]:
    """What the system says of a process; nothing of one that has ended."""
    for metric in ProcessCollector(pid=lambda: pid, registry=None).collect():
        for sample in metric.samples:
            family = _OF_THE_SYSTEM.get(sample.name)
            if family is not None:
                yield family.at(sample.value, process)
