"""The tables of ``docs/mibs.md`` on notifications, written from locks and mappings.

A test compares the page with what is written here, so that it cannot drift.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.mapping.rules import Mapping
from gateway.snmp.lock import Lock
from gateway.snmp.lock_entries import Status
from gateway.snmp.mib.clauses import plain

_HEAD = ("| notification | severity | what happened | own objects |", "| --- | --- | --- | --- |")


def notifications_table(mapping: Mapping, lock: Lock) -> str:
    """One row in Markdown for each current notification of a package, in the order of their numbers."""
    return "\n".join([*_HEAD, *_rows(mapping, lock)]) + "\n"


def _rows(mapping: Mapping, lock: Lock) -> Iterator[str]:
    for event_lock in sorted(lock.events, key=lambda event_lock: event_lock.arc):
        rule = mapping.events.get(event_lock.name)
        if rule is None or event_lock.status is not Status.CURRENT:
            continue
        severity = rule.severity.name.lower() if rule.severity is not None else "as the source says"
        objects = [
            f"`{name}`"
            for argument in lock.arguments_of(event_lock)
            if argument.current
            for name in argument.descriptors
        ]
        said = plain(rule.description or rule.label).replace("|", "/")
        yield f"| `{event_lock.descriptor}` ({event_lock.arc}) | {severity} | {said} | {', '.join(objects)} |"
