"""What the SNMP process tells: requests, rows, and receivers of notifications."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.service.metrics import families
from gateway.service.metrics.readings import Reading
from gateway.snmp.counters import SnmpCounters
from gateway.snmp.notifications.waiting import MAX_WAITING
from gateway.snmp.tables.health import FeedHealth
from gateway.snmp.tables.targets import TargetHealth

PROCESS = "snmp"

_REQUESTS = {
    "get": "get_requests",
    "get_next": "get_nexts",
    "get_bulk": "get_bulks",
    "set": "set_requests",
}
_FAILURES = (
    "bad_versions",
    "bad_community_names",
    "bad_community_uses",
    "parse_errors",
    "silent_drops",
    "unknown_pdu_handlers",
    "internal_errors",
    "unsent",
)


def request_readings(counters: SnmpCounters) -> Iterator[Reading]:
    """Of the requests so far."""
    yield families.SNMP_PACKETS.at(counters.in_packets)
    for kind, counter in _REQUESTS.items():
        yield families.SNMP_REQUESTS.at(getattr(counters, counter), kind)
    for reason in _FAILURES:
        yield families.SNMP_FAILURES.at(getattr(counters, reason), reason)


def row_readings(health: FeedHealth) -> Iterator[Reading]:
    """Of what is shown, and of the feed that tells it."""
    yield families.NORTH_CONNECTED.at(health.connected, PROCESS)
    yield families.NORTH_MESSAGES.at(health.messages, PROCESS)
    yield families.NORTH_SNAPSHOTS.at(health.snapshots, PROCESS)
    yield families.NORTH_REFUSED.at(health.refused, PROCESS)
    yield families.NORTH_OBJECTS.at(health.rows, PROCESS)
    yield families.NORTH_STALE.at(health.stale, PROCESS)
    yield families.NORTH_WITHHELD.at(health.withheld, PROCESS)
    yield families.SNMP_NOT_SHOWN.at(health.classes_not_shown, "classes")
    yield families.SNMP_NOT_SHOWN.at(health.elements_not_shown, "elements")
    yield families.SNMP_NOT_SHOWN.at(health.events_not_shown, "events")
    yield families.SNMP_PROVISIONAL.at(health.provisional_classes, "classes")
    yield families.SNMP_PROVISIONAL.at(health.provisional_events, "events")


def notification_readings(targets: Mapping[str, TargetHealth]) -> Iterator[Reading]:
    """Of every receiver."""
    for name, health in targets.items():
        yield families.NOTIFICATIONS_SENT.at(health.sent, name)
        yield families.NOTIFICATIONS_ACKNOWLEDGED.at(health.acknowledged, name)
        yield families.NOTIFICATIONS_SUPPRESSED.at(health.suppressed, name)
        yield families.NOTIFICATIONS_FAILED.at(health.failed, name)
        yield families.NOTIFICATIONS_WAITING.at(health.waiting, name)
    yield families.NOTIFICATIONS_WAITING_MAX.at(MAX_WAITING)
