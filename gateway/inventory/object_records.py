"""Records of objects for the feed, made from the reports of agents, and the reverse.

Reports are compared with the known values. A reference becomes a link; one whose target is not known is
absent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from gateway.feed.records import (
    ClassRecord,
    DeleteRecord,
    Lifetime,
    ObjectRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.objects import Entry
from gateway.model.observations import ObjectSeen
from gateway.model.stable_names import leaf_name
from gateway.model.values import Reference, Value, Values

FindLink = Callable[[str], ObjectLink | None]
"""Returns the object that a native id leads to; ``None`` where it is not known."""

_DISCONTINUITY_STEP = 100_000_000
"""Nanoseconds between two discontinuities of one row: SNMP has their times in tenths of a second."""


def new_record(  # noqa: PLR0913  what a record has and no report
    seen: ObjectSeen,
    class_record: ClassRecord,
    link: FindLink,
    *,
    source: int,
    row: int,
    name: str,
    durable: bool,
    now: int,
    parents: Iterable[int] = (),
) -> ObjectRecord:
    """Make the record of an object that begins with ``seen``.

    ``link`` resolves its references; the first of the positions ``parents`` that has an object
    is its parent.
    """
    schema = class_record.schema
    values = _known_values(seen.properties or (), 0, link)
    if seen.statistics is not None:
        values |= _known_values(seen.statistics, len(schema.properties), link)
    links = map(values.get, parents)
    return ObjectRecord(
        source=source,
        class_number=class_record.number,
        row=row,
        stable_name=name,
        leaf_name=leaf_name(schema, seen.properties or (), class_record.name_element, seen.native_id),
        parent=next((link for link in links if isinstance(link, ObjectLink)), None),
        native_id=seen.native_id,
        agent=seen.agent,
        lifetime=Lifetime.DURABLE if durable else Lifetime.TRANSIENT,
        created=seen.created,
        properties_sampled=seen.sampled or now,
        statistics_sampled=(seen.sampled or now) if seen.statistics is not None else 0,
        reset=now,
        changed=now,
        values=values,
        presumed=seen.presumed,
    )


def _known_values(reported: Values, start: int, link: FindLink) -> dict[int, FeedValue]:
    if Reference not in map(type, reported):  # as of most groups; this is decided in C
        return {p: v for p, v in enumerate(reported, start) if v is not None}
    links = ((p, link(v.native_id) if isinstance(v, Reference) else v) for p, v in enumerate(reported, start))
    return {position: value for position, value in links if value is not None}


def update_record(entry: Entry, seen: ObjectSeen, link: FindLink, now: int) -> UpdateRecord:
    """Make the record of the changes of an object by ``seen``."""
    record, schema = entry.record, entry.class_record.schema
    values: dict[int, FeedValue] = {}
    absent: list[int] = []
    if seen.properties is not None:
        _compare(record.values, seen.properties, 0, link, values, absent)
    property_changed = bool(values or absent)
    if seen.statistics is not None:
        _compare(record.values, seen.statistics, len(schema.properties), link, values, absent)
    sampled = seen.sampled or now  # without a sample time, receipt stands for it
    counters = schema.counters.intersection(values)
    restarted = bool(counters) and _restarted(entry, values, counters)
    return UpdateRecord(
        source=record.source,
        class_number=record.class_number,
        row=record.row,
        properties_sampled=sampled if seen.properties is not None else record.properties_sampled,
        statistics_sampled=sampled if seen.statistics is not None else record.statistics_sampled,
        reset=discontinuity(record.reset, sampled) if restarted else record.reset,
        changed=now if property_changed else record.changed,
        values=values,
        absent=tuple(absent),
    )


def _compare(
    known: Mapping[int, FeedValue],
    reported: Values,
    start: int,
    link: FindLink,
    values: dict[int, FeedValue],
    absent: list[int],
) -> None:
    """Add to ``values`` and ``absent`` the changes by a group of values that begins at ``start``."""
    for position, value in enumerate(reported, start):
        shown = link(value.native_id) if isinstance(value, Reference) else value
        if known.get(position) != shown:
            if shown is None:
                absent.append(position)
            else:
                values[position] = shown


def _restarted(entry: Entry, values: Mapping[int, FeedValue], counters: Iterable[int]) -> bool:
    """Return whether a counter fell, or came back after it was absent: rates must not span this moment."""
    for position in counters:
        former, value = entry.record.values.get(position), values[position]
        if position in entry.lost_counters:
            return True
        if isinstance(former, int | float) and isinstance(value, int | float) and value < former:
            return True
    return False


def merged(earlier: ObjectSeen, later: ObjectSeen) -> ObjectSeen:
    """Merge two reports about one object: the later one's groups where it has them."""
    return dataclasses.replace(
        later,
        properties=later.properties if later.properties is not None else earlier.properties,
        statistics=later.statistics if later.statistics is not None else earlier.statistics,
    )


def link_record(record: ObjectRecord, position: int, link: ObjectLink | None, now: int) -> UpdateRecord:
    """Make the record of a reference at ``position`` that now leads to another object, or to none."""
    return UpdateRecord(
        source=record.source,
        class_number=record.class_number,
        row=record.row,
        properties_sampled=record.properties_sampled,
        statistics_sampled=record.statistics_sampled,
        reset=record.reset,
        changed=now,
        values={} if link is None else {position: link},
        absent=(position,) if link is None else (),
    )


def delete_record(
    record: ObjectRecord, number: int, deleted: int, *, inferred: bool, now: int
) -> DeleteRecord:
    """Make the record of the end of an object; ``number`` is that of the end."""
    return DeleteRecord(
        source=record.source,
        class_number=record.class_number,
        row=record.row,
        stable_name=record.stable_name,
        deleted=deleted,
        inferred=inferred,
        number=number,
        leaf_name=record.leaf_name,
        native_id=record.native_id,
        agent=record.agent,
        lifetime=record.lifetime,
        created=record.created,
        received=now,
    )


def as_reported(entry: Entry, targets: Mapping[int, str]) -> ObjectSeen:
    """Return the report that an agent would send of an object in its known state.

    Args:
        entry: the object.
        targets: the native ids that its references lead to, by position.
    """
    record, schema = entry.record, entry.class_record.schema
    values: list[Value | None] = []
    for position in range(len(schema.elements)):
        value = record.values.get(position)
        target = targets.get(position)
        if target is not None:
            values.append(Reference(target))
        else:
            values.append(None if isinstance(value, ObjectLink) else value)
    count = len(schema.properties)
    return ObjectSeen(
        schema.key,
        record.agent,
        record.native_id,
        record.statistics_sampled or record.properties_sampled,
        record.created,
        0,
        tuple(values[:count]),
        tuple(values[count:]) if record.statistics_sampled else None,
    )


def discontinuity(former: int, time: int) -> int:
    """Return the time of a discontinuity of counters: later than the former one, whatever the clock."""
    return max(time, former + _DISCONTINUITY_STEP)
