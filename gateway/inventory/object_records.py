"""Feed records of objects out of what an agent told of them, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gateway.feed.records import (
    ClassRecord,
    DeleteRecord,
    Lifetime,
    ObjectRecord,
    UpdateRecord,
)
from gateway.feed.values import ObjectLink
from gateway.inventory.objects import Entry
from gateway.inventory.values import changes, resolved
from gateway.model.observations import ObjectSeen
from gateway.model.stable_names import leaf_name
from gateway.model.values import Reference, Value

_DISCONTINUITY_STEP = 100_000_000
"""Nanoseconds between two discontinuities of one row: SNMP tells their times in tenths of a second."""


def new_record(  # noqa: PLR0913  what a record has that no message tells
    seen: ObjectSeen,
    class_record: ClassRecord,
    link: Callable[[str], ObjectLink | None],
    *,
    source: int,
    row: int,
    name: str,
    durable: bool,
    now: int,
    parents: Iterable[int] = (),
) -> ObjectRecord:
    """The record of an object that begins with ``seen``.

    ``link`` finds what its references lead to; the first of the positions ``parents`` that has an object
    tells what it belongs to.
    """
    schema = class_record.schema
    values = {p: v for p, v in resolved(schema, seen, link).items() if v is not None}
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
    )


def update_record(
    entry: Entry, seen: ObjectSeen, link: Callable[[str], ObjectLink | None], now: int
) -> UpdateRecord:
    """What ``seen`` changes of an object."""
    record, schema = entry.record, entry.class_record.schema
    change = changes(schema, record.values, resolved(schema, seen, link), entry.lost_counters)
    sampled = seen.sampled or now  # no sample time told: receipt stands for it
    return UpdateRecord(
        source=record.source,
        class_number=record.class_number,
        row=record.row,
        properties_sampled=sampled if seen.properties is not None else record.properties_sampled,
        statistics_sampled=sampled if seen.statistics is not None else record.statistics_sampled,
        reset=discontinuity(record.reset, sampled) if change.restarted else record.reset,
        changed=now if change.property_changed else record.changed,
        values=change.values,
        absent=change.absent,
    )


def link_record(record: ObjectRecord, position: int, link: ObjectLink | None, now: int) -> UpdateRecord:
    """The reference at ``position`` leads to another object, or to none."""
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
    """The end of an object as it was last told; ``number`` is that of the end."""
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
        heard=now,
    )


def as_reported(entry: Entry, targets: Mapping[int, str]) -> ObjectSeen:
    """Return what an agent would report of an object as it is known now.

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
    """When counters began again: never the former time, whichever clock it was told by."""
    return max(time, former + _DISCONTINUITY_STEP)
