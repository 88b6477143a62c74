"""Records of objects for the feed, made from the reports of agents, and the reverse.

Reports are compared with the known values. A reference becomes a link; one whose target is not known is
absent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import msgspec

from gateway.feed.records import (
    ClassRecord,
    DeleteRecord,
    Lifetime,
    ObjectRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.objects import Entry
from gateway.model.observations import Counting, ObjectSeen
from gateway.model.schema import ClassSchema
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
        unread_since=seen.unread_since or 0,
        counting=Counting.UNKNOWN if seen.inherited else seen.counting,
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
    is_first = seen.statistics is not None and not record.statistics_sampled
    counting = Counting.UNKNOWN if seen.inherited and is_first else seen.counting
    is_cut = counting is not Counting.GO_ON or _any_fell(entry, values)
    return UpdateRecord(
        source=record.source,
        class_number=record.class_number,
        row=record.row,
        properties_sampled=sampled if seen.properties is not None else record.properties_sampled,
        statistics_sampled=sampled if seen.statistics is not None else record.statistics_sampled,
        reset=discontinuity(record.reset, sampled) if is_cut else record.reset,
        changed=now if property_changed else record.changed,
        values=values,
        absent=tuple(absent),
        counting=counting,
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


def _any_fell(entry: Entry, values: Mapping[int, FeedValue]) -> bool:
    """Return whether a counter is less than before: rates of what front ends show must not span this moment.

    One that was absent for a while goes on from the value that it had.
    """
    known, lost = entry.record.values, entry.lost_counters
    counters = entry.class_record.schema.counters.intersection(values)
    return any(_fell(known.get(position, lost.get(position)), values[position]) for position in counters)


def _fell(former: FeedValue | None, value: FeedValue) -> bool:
    return isinstance(former, int | float) and isinstance(value, int | float) and value < former


def in_other_version(
    entry: Entry, record: ObjectRecord, schema: ClassSchema
) -> tuple[ObjectRecord, Mapping[int, FeedValue]]:
    """Let an object that goes on in another version of its class keep what is known of it, by name and type.

    Statistics that were not reported yet keep their values. Counters go on.

    Args:
        entry: the object as it was.
        record: its record, made of the report.
        schema: the version of the class that the record is of.

    Returns:
        The record, and the last values of counters that had a value once and have none now, by position.
    """
    known, former = entry.record, entry.class_record.schema
    values, lost, fell = dict(record.values), dict[int, FeedValue](), False
    for position, element in enumerate(schema.elements):
        earlier = former.positions.get(element.name)
        if earlier is None or former.elements[earlier].type is not element.type:
            continue
        before = known.values.get(earlier)
        if not record.statistics_sampled and position >= len(schema.properties) and before is not None:
            values[position] = before
        if position in schema.counters:
            value, last = values.get(position), known.values.get(earlier, entry.lost_counters.get(earlier))
            if value is None and last is not None:
                lost[position] = last
            elif value is not None:
                fell |= _fell(last, value)
    is_cut = fell or record.counting is not Counting.GO_ON
    reset = discontinuity(known.reset, record.statistics_sampled) if is_cut else known.reset
    sampled = record.statistics_sampled or known.statistics_sampled
    return msgspec.structs.replace(record, reset=reset, statistics_sampled=sampled, values=values), lost


def merged(earlier: ObjectSeen, later: ObjectSeen) -> ObjectSeen:
    """Merge two reports about one object: the later one's groups where it has them."""
    return dataclasses.replace(
        later,
        properties=later.properties if later.properties is not None else earlier.properties,
        statistics=later.statistics if later.statistics is not None else earlier.statistics,
        unread_since=later.unread_since if later.unread_since is not None else earlier.unread_since,
        counting=max(earlier.counting, later.counting),
        inherited=earlier.inherited or later.inherited,
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
        unread_since=record.unread_since,
    )


def discontinuity(former: int, time: int) -> int:
    """Return the time of a discontinuity of counters: later than the former one, whatever the clock."""
    return max(time, former + _DISCONTINUITY_STEP)
