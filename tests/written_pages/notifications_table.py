"""The tables of ``docs/mibs.md`` on notifications, written from registries and mappings.

A test compares the page with what is written here, so that it cannot drift.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.mapping.rules import Mapping
from gateway.snmp.mib.clauses import plain
from gateway.snmp.oid_registry import OidRegistry, Status

_HEAD = ("| notification | severity | what happened | own objects |", "| --- | --- | --- | --- |")


def notifications_table(mapping: Mapping, registry: OidRegistry) -> str:
    """One row in Markdown for each current notification of a package, in the order of their numbers."""
    return "\n".join([*_HEAD, *_rows(mapping, registry)]) + "\n"


def _rows(mapping: Mapping, registry: OidRegistry) -> Iterator[str]:
    for event in sorted(registry.events, key=lambda event: event.arc):
        rule = mapping.events.get(event.name)
        if rule is None or event.status is not Status.CURRENT:
            continue
        severity = rule.severity.name.lower() if rule.severity is not None else "as the source says"
        objects = [
            f"`{name}`"
            for argument in registry.arguments_of(event)
            if argument.current
            for name in argument.descriptors
        ]
        said = plain(rule.description or rule.label).replace("|", "/")
        yield f"| `{event.descriptor}` ({event.arc}) | {severity} | {said} | {', '.join(objects)} |"
