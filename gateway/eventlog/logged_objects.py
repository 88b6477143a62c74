"""An object in the log: its recorded values, and its values that wait to be recorded.

The position of an element is a bit in masks of waiting and of recorded values. Values wait merged to the
latest, so an object takes the same room however long it waits.
"""

from __future__ import annotations

import contextlib
import heapq
from functools import lru_cache
from typing import Any, Final

import msgspec

from gateway.eventlog.logged_events import LoggedClass
from gateway.eventlog.record import (
    AnyRecord,
    Delta,
    LogRecord,
    ObjectChange,
    RecordKind,
    encoded_identity,
    known_time,
    link_text,
    object_id,
)
from gateway.feed.records import DeleteRecord, ObjectRecord, UpdateRecord
from gateway.feed.values import FeedValue
from gateway.model.observations import Counting

_SPREAD: Final = 0x9E37_79B9  # 2^32 / golden ratio: multiples of it lie evenly between 0 and 2^32
_32_BITS: Final = 0xFFFF_FFFF
_CHANGED: Final = ("sample_ts", "sample_ns", "reset_ts", "values", "absent", "deltas")
"""The fields of an `ObjectChange` that hold the change, in its order."""

_NOT_CONTINUED: Final = frozenset({Counting.BEGAN, Counting.UNKNOWN})
_BEGAN_AGAIN: Final = "began again"
"""A mark in place of the former value of a counter that has begun again and has no value yet."""


class LoggedObject:
    """A living object.

    Args:
        record: its whole feed record.
        logged_class: its class.
        source: the name of its source.
        dialect: the kind of its source.

    Attributes:
        pending: bits of the positions whose current values are not recorded.
        moved: its parent, native id, agent or time of creation differs from the recorded one.
        alive: it was not deleted.
        slot: the number of its slot in the schedule; 0 where it is not scheduled.
    """

    __slots__ = (
        "_agent",
        "_created",
        "_dialect",
        "_encoded_identity",
        "_is_sum",
        "_lifetime",
        "_name",
        "_native_id",
        "_parent_id",
        "_presumed",
        "_properties_sampled",
        "_recorded",
        "_recorded_counters",
        "_recorded_reset",
        "_recorded_sample",
        "_reset",
        "_source",
        "_statistics_sampled",
        "_undated",
        "_unread",
        "_values",
        "alive",
        "logged_class",
        "moved",
        "pending",
        "row",
        "slot",
    )

    def __init__(self, record: ObjectRecord, logged_class: LoggedClass, source: str, dialect: str) -> None:
        self.logged_class: Final = logged_class
        self.row: Final = record.row
        self._source = source
        self._dialect = dialect
        self._name = record.stable_name
        self._encoded_identity = b""
        # By position, and what is recorded and waiting as bits: there may be a hundred thousand objects.
        self._values: list[FeedValue | None] = [None] * len(logged_class.elements)
        self._recorded = 0
        self._recorded_counters: list[FeedValue | None] = [None] * logged_class.counter_bits.bit_count()
        self._recorded_sample = 0
        self._recorded_reset = 0
        self._undated = 0  # counters recorded at another time than the last sample
        self._unread = 0  # counters recorded before the start, or counted from zero, and not read since
        self._reset = record.reset
        self._is_sum = record.counting is Counting.SUM
        self._presumed = False  # that it is the object recorded before; the next record says so
        self.pending = 0
        self.moved = False
        self.alive = True
        self.slot = 0
        self._take_place(record)
        for position, value in record.values.items():
            self._values[position] = value
            self.pending |= 1 << position

    def count_from_zero(self) -> None:
        """Let its counters begin with 0: it was created while the log observed its source."""
        for position in _positions(self.logged_class.counter_bits):
            self._recorded_counters[self.logged_class.elements[position].counter] = 0
        self._unread = self._undated = self.logged_class.counter_bits
        self._recorded_reset = self._reset

    def resume(self, former: LogRecord, counting: Counting, *, presumed: bool) -> int:
        """Continue from the last record of the object before the gateway's start.

        Args:
            former: that record.
            counting: how its counters that are statistics relate to the recorded ones.
            presumed: it is not known whether this is the same object.

        Returns:
            The bits of the counters that have changed since.
        """
        self._presumed = presumed
        moved = 0
        unread, absent = former.former or {}, frozenset(former.absent or ())
        values = {**unread, **(former.values or {})}
        for position in _positions(self.logged_class.counter_bits):
            element = self.logged_class.elements[position]
            value = values.get(element.name)
            if not self.logged_class.properties >> position & 1 and counting in _NOT_CONTINUED:
                began = counting is Counting.BEGAN and (value is not None or element.name in absent)
                self._recorded_counters[element.counter] = _BEGAN_AGAIN if began else None
                moved |= (self._values[position] is not None) << position
            elif isinstance(value, int) and not isinstance(value, bool):
                self._recorded_counters[element.counter] = value
                self._recorded |= 1 << position
                self._undated |= (element.name in unread) << position
                self._unread |= (self._values[position] is None) << position
                moved |= (self._values[position] not in {None, value}) << position
            elif element.name in absent:
                began = element.name in unread  # without a value
                self._recorded_counters[element.counter] = _BEGAN_AGAIN if began else None
                moved |= (self._values[position] is not None) << position
        self._recorded_sample = former.sample_ns or 0
        # A record without a delta has the discontinuity that is the reason.
        self._recorded_reset = 0 if counting in _NOT_CONTINUED else self._reset
        return moved

    def succeed(self, before: LoggedObject, counting: Counting) -> int:
        """Go on from the same object in another version of its class.

        Return the bits of the properties to be recorded at once.
        """
        earlier = {element.name: position for position, element in enumerate(before.logged_class.elements)}
        for position, element in enumerate(self.logged_class.elements):
            former = earlier.get(element.name)
            if former is None:
                continue
            bit, mark = 1 << position, 1 << former
            was, counter = before.logged_class.elements[former], element.counter
            if counter >= 0 and was.counter >= 0:
                self._recorded_counters[counter] = before._recorded_counters[was.counter]
                self._undated |= bit if before._undated & mark else 0
                self._unread |= bit if before._unread & mark else 0
            if before._recorded & mark:
                self._recorded |= bit
                is_same = before._values[former] == self._values[position]
                self.pending = self.pending & ~bit if is_same else self.pending | bit
        self._recorded_sample, self._recorded_reset = before._recorded_sample, before._recorded_reset
        self._presumed = before._presumed
        self._restarted(counting)
        self.moved = before._place() != self._place()
        return self.pending & self.logged_class.properties

    # ---- from the feed --------------------------------------------------------------------------------

    def refresh(self, record: ObjectRecord) -> int:
        """Take the whole object again; return the bits of the positions to be recorded at once.

        Another native id means that the object came back or is another one: then all changes are to be
        recorded at once.
        """
        came_back = record.native_id != self._native_id
        if came_back and not (record.created and self._created):
            self._presumed = True
        began_again = record.reset != self._reset
        place = self._place()
        self._take_place(record)
        self.moved = self.moved or self._place() != place
        for position, former in enumerate(self._values):
            value = record.values.get(position)
            if value != former:
                self._values[position] = value
                self.pending |= 1 << position
        if began_again:
            self.pending |= self._restarted(record.counting)
        return self.pending if came_back else self.pending & self.logged_class.properties

    def update(self, record: UpdateRecord) -> int:
        """Take changed values; return the bits of the positions to be recorded at once."""
        changed = 0
        values = self._values
        for position, value in record.values.items():
            values[position] = value
            changed |= 1 << position
        for position in record.absent:
            values[position] = None
            changed |= 1 << position
        self._properties_sampled = record.properties_sampled
        self._statistics_sampled = record.statistics_sampled
        at_once = changed & self.logged_class.properties
        if record.reset != self._reset:
            self._reset = record.reset
            changed |= self._restarted(record.counting)
            if record.counting is Counting.BEGAN:  # on the disk before what shows why
                at_once |= sum(1 << position for position in record.absent)
        self.pending |= changed
        return at_once

    def _restarted(self, counting: Counting) -> int:
        """Take note of a discontinuity; return the bits of the recorded counters that are statistics.

        All of them are recorded then: one with its former value has reached it again.
        """
        counters = self.logged_class.counter_bits & ~self.logged_class.properties
        if counting is Counting.UNKNOWN:
            for position in _positions(counters):
                self._recorded_counters[self.logged_class.elements[position].counter] = None
            self._unread &= ~counters
        return self._recorded & counters

    def _take_place(self, record: ObjectRecord) -> None:
        parent = record.parent
        self._parent_id = None if parent is None else link_text(parent, self._source)
        self._native_id = record.native_id
        self._agent = record.agent
        self._created = record.created
        self._lifetime = record.lifetime.value
        self._properties_sampled = record.properties_sampled
        self._statistics_sampled = record.statistics_sampled
        self._reset = record.reset

    # ---- to the log -----------------------------------------------------------------------------------

    def phase(self, interval: int) -> int:
        """Return its due time as an offset in each interval; the offsets of objects are evenly spread."""
        return (self.row * _SPREAD & _32_BITS) * interval >> 32

    def _identity(self) -> dict[str, Any]:
        """Return the fields that every record of the object has."""
        return {
            "source": self._source,
            "dialect": self._dialect,
            "package": self.logged_class.package,
            "class_name": self.logged_class.class_name,
            "object_id": object_id(self._source, self.logged_class.name, self.row),
            "object_name": self._name,
        }

    def _place(self) -> dict[str, Any]:
        """Return the fields of its place; an ``update`` has them where they changed."""
        return {
            "parent_id": self._parent_id,
            "native_id": self._native_id or None,
            "agent": self._agent or None,
            "create_ts": known_time(self._created),
        }

    def whole(self, kind: RecordKind, ingest_ts: str) -> LogRecord:
        """Return the ``create`` or ``snapshot`` record with all its fields."""
        # Not what has no value: a counter that has none yet goes on from its former value when it has one.
        present = sum(1 << position for position, value in enumerate(self._values) if value is not None)
        values, _, deltas = self._recorded_now(present)
        sample = self._statistics_sampled or self._properties_sampled
        presumed, self._presumed = self._presumed, False
        return LogRecord(
            kind=kind,
            ingest_ts=ingest_ts,
            row=self.row,
            lifetime=self._lifetime,
            inferred=presumed or None,
            sample_ts=known_time(sample),
            sample_ns=sample or None,
            reset_ts=known_time(self._reset),
            values=values,
            absent=self._absent_counters() or None,
            deltas={name: delta for name, delta in deltas.items() if delta.delta} or None,
            former=self._unread_counters() or None,
            **self._identity(),
            **self._place(),
        )

    def _unread_counters(self) -> dict[str, object]:
        """Return the last recorded values of counters that have none since the gateway's start.

        Those of an object that counts from zero are 0 until they have a value, those that began again are
        ``None``.
        """
        elements = [self.logged_class.elements[position] for position in _positions(self._unread)]
        recorded = {element.name: self._recorded_counters[element.counter] for element in elements}
        unread = {name: value for name, value in recorded.items() if isinstance(value, int)}
        return unread | self._begun_again(self.logged_class.counter_bits)

    def _begun_again(self, bits: int) -> dict[str, object]:
        """Return the counters among ``bits`` that began again and have no value since, each with ``None``."""
        counters = self._recorded_counters
        if _BEGAN_AGAIN not in counters:  # of nearly all objects
            return {}
        elements = [self.logged_class.elements[p] for p in _positions(bits & self.logged_class.counter_bits)]
        return {one.name: None for one in elements if counters[one.counter] is _BEGAN_AGAIN}

    def _absent_counters(self) -> list[str]:
        """Return the counters that were recorded as absent: their next value was counted from zero.

        Others without a value may not have been read yet.
        """
        elements, recorded = self.logged_class.elements, self._recorded_counters
        positions = _positions(self.logged_class.counter_bits & ~self._recorded & ~self._unread)
        return [elements[p].name for p in positions if recorded[elements[p].counter] is not None]

    def change(self, bits: int, ingest_ts: str) -> AnyRecord | None:
        """Return the ``update`` record of the changes among ``bits``; ``None`` where there are none.

        Args:
            bits: positions among ``pending``; they wait no longer.
            ingest_ts: the time of the record.
        """
        statistics = bits & ~self.logged_class.properties
        moved = self.moved
        reset = statistics and self._reset != self._recorded_reset
        sample = self._statistics_sampled if statistics else self._properties_sampled
        values, absent, deltas = self._recorded_now(bits)
        if not values and not absent and not moved:
            return None
        changed = (
            known_time(sample),
            sample or None,
            known_time(self._reset) if reset else None,
            values or None,
            absent or None,
            deltas or None,
        )
        begun_again = self._begun_again(bits) if reset and absent else {}
        identity = b"" if moved or begun_again else self._encoded_identity or self._encode_identity()
        if identity:
            return ObjectChange(RecordKind.UPDATE, ingest_ts, msgspec.Raw(identity), *changed)
        place = self._place() if moved else {}
        fields: dict[str, Any] = dict(zip(_CHANGED, changed, strict=True), former=begun_again or None)
        if moved:
            fields["inferred"], self._presumed = self._presumed or None, False
        return LogRecord(kind=RecordKind.UPDATE, ingest_ts=ingest_ts, **self._identity(), **place, **fields)

    def end(self, record: DeleteRecord, ingest_ts: str) -> LogRecord:
        """Return its ``delete`` record."""
        return LogRecord(
            kind=RecordKind.DELETE,
            ingest_ts=ingest_ts,
            row=self.row,
            lifetime=self._lifetime,
            delete_ts=known_time(record.deleted),
            inferred=True if record.inferred else None,
            **self._identity(),
            **self._place(),
        )

    def _encode_identity(self) -> bytes:
        """Encode its identifying fields as JSON, when they are first needed: most objects are at rest.

        Empty where a name has no form in JSON; the writer of the record reports that.
        """
        identified = LogRecord(kind=RecordKind.UPDATE, ingest_ts="", **self._identity())
        with contextlib.suppress(ValueError):
            self._encoded_identity = encoded_identity(identified)
        return self._encoded_identity

    def _recorded_now(self, bits: int) -> tuple[dict[str, object], list[str], dict[str, Delta]]:
        """Note that the values at these positions are recorded, and return them.

        The result is the values by name, the names of elements that lost their value since their last record,
        and the deltas of counters. A counter without a former or a present value has no delta. One that was
        absent for a while continues from its earlier value.
        """
        logged_class = self.logged_class
        elements, present, counters = logged_class.elements, self._values, self._recorded_counters
        properties = logged_class.properties
        statistics_began_again = self._reset != self._recorded_reset
        elapsed = self._statistics_sampled - self._recorded_sample if self._recorded_sample else 0
        values: dict[str, object] = {}
        absent: list[str] = []
        deltas: dict[str, Delta] = {}
        recorded = self._recorded
        if statistics_began_again and bits & ~properties:
            self._begin_absent_counters_again()
        for position in _positions(bits):
            name, convert, counter = elements[position]
            value = present[position]
            bit = 1 << position
            shown = value if convert is None or value is None else convert(value, self._source)
            if shown is not None:
                values[name] = shown
                recorded |= bit
            elif recorded & bit:
                absent.append(name)
                recorded ^= bit
            if counter < 0 or value is None:
                continue
            former = counters[counter]
            counters[counter] = value
            # A peer may send anything where its schema says counter: such a value is recorded, but has no
            # delta.
            if not isinstance(value, int) or value < 0:
                continue
            if isinstance(former, int) and former >= 0 and not self._lacks_part(former, value):
                is_property = bit & properties
                reset = value < former or (statistics_began_again and not is_property)
                dated = self._recorded & bit & ~self._undated
                # A property's counter has no sample time of its own, and a clock that was set back gives no
                # interval.
                interval = elapsed if elapsed > 0 and dated and not is_property else None
                deltas[name] = Delta(value if reset else value - former, interval, reset)
            elif former is _BEGAN_AGAIN:
                deltas[name] = Delta(value, None, reset=True)
        self._recorded = recorded
        self._unread &= ~bits
        self._undated &= ~bits
        self.pending &= ~bits
        if bits & ~properties:
            self._recorded_sample, self._recorded_reset = self._statistics_sampled, self._reset
            # Counters without a value in this sample keep their older one: the next delta has no known
            # interval.
            self._undated |= self._unread
        self.moved = False
        return values, absent, deltas

    def _lacks_part(self, former: int, value: int) -> bool:
        """Return whether a sum fell since before the gateway's start: a part of it is missing."""
        return self._is_sum and value < former and self._reset == self._recorded_reset

    def _begin_absent_counters_again(self) -> None:
        """Mark counters without a value as begun again, when all are: their next value was counted since."""
        counters = self.logged_class.counter_bits & ~self.logged_class.properties
        for position in _positions(counters):
            counter = self.logged_class.elements[position].counter
            if self._values[position] is None and self._recorded_counters[counter] is not None:
                self._recorded_counters[counter] = _BEGAN_AGAIN


@lru_cache(maxsize=4096)
def _positions(bits: int) -> tuple[int, ...]:
    """Return the numbers of the set bits, the lowest first; most changes are of the same elements."""
    return tuple(position for position in range(bits.bit_length()) if bits >> position & 1)


SLOT: Final = 100_000_000
"""The length of a slot in nanoseconds; an object is recorded up to so much later than it is due."""

_FEW: Final = 64


class Schedule:
    """The objects to be recorded, by slot; each is in one at most, `LoggedObject.slot`."""

    def __init__(self) -> None:
        self._slots: dict[int, dict[LoggedObject, None]] = {}
        self._order: list[int] = []

    @property
    def wake_at(self) -> int | None:
        """The time when the first slot is due, in nanoseconds; ``None`` while there is none."""
        while self._order:
            if self._slots.get(self._order[0]):
                return self._order[0] * SLOT
            self._slots.pop(heapq.heappop(self._order), None)
        return None

    def add(self, logged: LoggedObject, due: int) -> None:
        """Add an object that is in no slot to the slot of ``due`` (nanoseconds)."""
        # Rounded up: nothing is recorded before it is due.
        number = -(-due // SLOT)
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            heapq.heappush(self._order, number)
        slot[logged] = None
        logged.slot = number

    def remove(self, logged: LoggedObject) -> None:
        """Remove an object from its slot, if it is in one."""
        if not logged.slot:
            return
        slot = self._slots[logged.slot]
        del slot[logged]
        if not slot:
            del self._slots[logged.slot]
            if len(self._order) > _FEW + 2 * len(self._slots):
                self._order = sorted(self._slots)  # else short-lived objects would fill it for an interval
        logged.slot = 0

    def take(self, now: int) -> LoggedObject | None:
        """Take out an object that is due; ``None`` where there is none."""
        due = self.wake_at
        if due is None or due > now:
            return None
        logged, _ = self._slots[self._order[0]].popitem()
        logged.slot = 0
        return logged

    def take_all(self) -> list[LoggedObject]:
        """Take out all objects."""
        taken = [logged for slot in self._slots.values() for logged in slot]
        for logged in taken:
            logged.slot = 0
        self._slots.clear()
        self._order.clear()
        return taken
