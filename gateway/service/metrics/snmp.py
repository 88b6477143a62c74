"""Readings of the SNMP process: requests, rows, and receivers of notifications."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.feed.replica import FeedStatus
from gateway.model.operations import Outcome
from gateway.service.metrics import families
from gateway.service.metrics.process import feed_readings
from gateway.service.metrics.readings import Reading
from gateway.snmp.commands.table import CommandHealth
from gateway.snmp.notifications.delivery import MAX_WAITING
from gateway.snmp.notifications.receiver import TargetHealth
from gateway.snmp.set_requests import MAX_REMEMBERED, MAX_RUNNING, SetRequests
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.tables.health import ShownCounts
from gateway.snmp.writable import STATUS_NAMES

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


def set_readings(counters: SnmpCounters, sets: SetRequests) -> Iterator[Reading]:
    """Of SETs."""
    for status, name in STATUS_NAMES.items():
        yield families.SNMP_SETS.at(counters.set_statuses[status], name)
    yield families.SNMP_SET_VARIABLES.at(counters.set_variables)
    yield families.SNMP_SET_RETRANSMISSIONS.at(counters.set_retransmissions)
    yield families.SNMP_SETS_WITHOUT_ROOM.at(counters.sets_without_room)
    yield families.SNMP_SETS_RUNNING.at(sets.running)
    yield families.SNMP_SETS_RUNNING_MAX.at(MAX_RUNNING)
    yield families.SNMP_SETS_REMEMBERED.at(sets.remembered)
    yield families.SNMP_SETS_REMEMBERED_MAX.at(MAX_REMEMBERED)


def command_readings(health: CommandHealth) -> Iterator[Reading]:
    """Of the command table."""
    yield families.SNMP_COMMANDS.at(health.rows)
    yield families.SNMP_COMMANDS_RUNNING.at(health.running)
    for outcome in Outcome:
        yield families.SNMP_COMMANDS_ENDED.at(health.ended[outcome], outcome.value)


def row_readings(status: FeedStatus, health: ShownCounts) -> Iterator[Reading]:
    """Of what is shown, and of the feed that it comes from."""
    yield from feed_readings(status, PROCESS)
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
