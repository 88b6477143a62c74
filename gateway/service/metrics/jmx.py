"""What the JMX process tells: objects, deliveries, logins, and its virtual machine."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

from gateway.jmx.delivery import MAX_WAITING, Delivery
from gateway.jmx.java_runtime import MachineEndedError
from gateway.jmx.projection import Projection
from gateway.jmx.virtual_machine import JavaMachine
from gateway.service.metrics import families
from gateway.service.metrics.gateway import usage
from gateway.service.metrics.process import feed_readings
from gateway.service.metrics.readings import Reading

PROCESS = "jmx"
MACHINE = "java"

_MILLISECONDS = 1000


class LoginOutcome(enum.StrEnum):
    """How an attempt to log in ended."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


def agent_readings(starts: int, logins: Mapping[LoginOutcome, int], buffer: int) -> Iterator[Reading]:
    """Of what outlives a virtual machine; ``buffer`` is how many notifications one keeps."""
    yield families.JMX_STARTS.at(starts)
    yield families.JMX_BUFFER.at(buffer)
    for outcome in LoginOutcome:
        yield families.JMX_LOGINS.at(logins.get(outcome, 0), outcome.value)


def delivery_readings(projection: Projection, delivery: Delivery) -> Iterator[Reading]:
    """Of what one virtual machine is told."""
    health, counts = projection.health, projection.counts
    yield from feed_readings(projection.status, PROCESS)
    yield families.NORTH_OBJECTS.at(counts["Objects"], PROCESS)
    yield families.NORTH_STALE.at(counts["StaleObjects"], PROCESS)
    yield families.NORTH_WITHHELD.at(counts["WithheldObjects"], PROCESS)
    yield families.JMX_WAITING.at(projection.waiting)
    yield families.JMX_WAITING_MAX.at(MAX_WAITING)
    yield families.JMX_FAILED.at(delivery.failed)
    yield families.JMX_EMITTED.at(health.emitted)
    yield families.JMX_UNFIT.at(health.unfit)


async def machine_readings(machine: JavaMachine) -> Iterable[Reading]:
    """Of the virtual machine itself; nothing of one that has ended."""
    try:
        used, pid = await machine.usage(), machine.pid
    except MachineEndedError:
        return ()
    return (
        families.JMX_CLIENTS.at(used.clients),
        families.JMX_CLIENTS_MAX.at(used.max_clients),
        families.JMX_OPERATIONS.at(used.operations),
        families.JMX_OPERATIONS_MAX.at(used.max_operations),
        families.JMX_HEAP.at(used.heap),
        families.JMX_HEAP_MAX.at(used.max_heap),
        families.JMX_GC_SECONDS.at(used.collection_milliseconds / _MILLISECONDS),
        families.JMX_GC_COLLECTIONS.at(used.collections),
        families.JMX_THREADS.at(used.threads),
        *usage(MACHINE, pid),
    )
