"""An object in the log: its recorded values, and its values that wait to be recorded.

The position of an element is a bit in masks of waiting and of recorded values. Values wait merged to the
latest, so an object takes the same room however long it waits.
"""

from __future__ import annotations

import contextlib
import heapq
from array import array
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from gateway.eventlog.counter_breaks import FROM_ZERO, NO_RISE, UNKNOWN, Fall, Restart, after_fall
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
from gateway.model.observations import SETTLED_AFTER, SETTLED_BY, Counting

_SPREAD: Final = 0x9E37_79B9  # 2^32 / golden ratio: multiples of it lie evenly between 0 and 2^32
_32_BITS: Final = 0xFFFF_FFFF
_CHANGED: Final = ("sample_ts", "sample_ns", "reset_ts", "values", "absent", "deltas")
"""The fields of an `ObjectChange` that hold the change, in its order."""

_RESTARTS: Final = {Counting.BEGAN: FROM_ZERO, Counting.UNKNOWN: UNKNOWN}
_Recorded: TypeAlias = "FeedValue | Restart"
"""The last recorded value of a counter, or what stands for it where it does not go on from that."""

_NO_FALLS: Final[Mapping[int, Fall]] = MappingProxyType({})
_NOTHING_LEFT: Final[Mapping[int, FeedValue]] = MappingProxyType({})


class LoggedObject:
    """A living object.

    Args:
        record: its whole feed record.
        logged_class: its class.
        source: the name of its source.
        dialect: the kind of its source.

    Attributes:
        pending: bits of the positions whose current values are not recorded.
        held: those among them of counters that fell, and may return: they are not recorded yet.
        urgent: those among them of counters that were recorded with too much: a later start of the gateway
            would not know that.
        moved: its parent, native id, agent or time of creation differs from the recorded one.
        alive: it was not deleted.
        slot: the number of its slot in the schedule; 0 where it is not scheduled.
    """

    __slots__ = (
        "_agent",
        "_created",
        "_dialect",
        "_doubted_sample",
        "_encoded_identity",
        "_falls",
        "_left",
        "_lifetime",
        "_name",
        "_native_id",
        "_parent_id",
        "_presumed",
        "_properties_read",
        "_properties_sampled",
        "_recorded",
        "_recorded_counters",
        "_recorded_reset",
        "_recorded_sample",
        "_reset",
        "_rises",
        "_source",
        "_statistics_read",
        "_statistics_sampled",
        "_undated",
        "_unread",
        "_values",
        "alive",
        "held",
        "logged_class",
        "moved",
        "pending",
        "row",
        "slot",
        "urgent",
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
        self._recorded_counters: list[_Recorded | None] = [None] * logged_class.counter_bits.bit_count()
        # From the first rise on: by counter what it had before its last rise, then by counter the number of
        # readings before that rise.
        self._rises: array[int] | None = None
        self._statistics_read = self._properties_read = 0  # the number of readings
        self._falls: Mapping[int, Fall] = _NO_FALLS  # by position; of nearly all objects none
        self._left: Mapping[int, FeedValue] = _NOTHING_LEFT  # last values of counters that are absent
        self._doubted_sample = 0  # a sample of before something happened after which nothing is known
        self._recorded_sample = 0
        self._recorded_reset = 0
        self._undated = 0  # counters recorded at another time than the last sample
        self._unread = 0  # counters recorded before the start, or counted from zero, and not read since
        self._reset = record.reset
        self._presumed = False  # that it is the object recorded before; the next record says so
        self._properties_sampled = record.properties_sampled
        self._statistics_sampled = record.statistics_sampled
        self.pending = self.held = self.urgent = 0
        self.moved = False
        self.alive = True
        self.slot = 0
        self._take_place(record)
        for position, value in record.values.items():
            self._values[position] = value
            self.pending |= 1 << position

    def count_from_zero(self, counting: Counting) -> None:
        """Let its counters begin with 0: it was created while the log observed its source.

        With ``UNKNOWN`` they may go on with those of another object: then their first values are not known.
        """
        is_known = counting is not Counting.UNKNOWN
        for position in _positions(self.logged_class.counter_bits):
            self._recorded_counters[self.logged_class.places[position]] = 0 if is_known else UNKNOWN
        self._unread = self._undated = self.logged_class.counter_bits if is_known else 0
        self._recorded_reset = self._reset

    def resume(self, former: LogRecord, counting: Counting, now: int, *, presumed: bool) -> int:
        """Continue from the last record of the object before the gateway's start.

        Args:
            former: that record.
            counting: how its counters that are statistics relate to the recorded ones.
            now: nanoseconds since 1970-01-01 UTC, the gateway's clock.
            presumed: it is not known whether this is the same object.

        Returns:
            The bits of the counters that have changed since.
        """
        self._presumed = presumed
        moved = 0
        unread, absent = former.former or {}, frozenset(former.absent or ())
        values = former.values or {}
        for position in _positions(self.logged_class.counter_bits):
            element, value = self.logged_class.elements[position], self._values[position]
            name, bit = element.name, 1 << position
            left = unread.get(name)
            marks = [int(str(one)) for one in left] if isinstance(left, list) else []
            if name not in values and marks:
                left = marks.pop(0)
            recorded = values.get(name, left)
            restart = _RESTARTS.get(counting) if not self.logged_class.properties & bit else None
            began_before = name in unread and unread[name] is None
            if began_before or (restart and (recorded is not None or name in absent)):
                known = FROM_ZERO if began_before and restart is not UNKNOWN else restart
                self._recorded_counters[element.counter] = known
                moved |= (value is not None) << position
            elif isinstance(recorded, int) and not isinstance(recorded, bool):
                self._recorded_counters[element.counter] = recorded
                self._recorded |= bit if name not in absent else 0
                self._undated |= bit if name not in values else 0
                self._unread |= bit if value is None and name not in absent else 0
                if marks:
                    self._falls = {**self._falls, position: Fall(NO_RISE, 0, recorded, 0, marks=tuple(marks))}
                moved |= self._resume_counter(position, recorded, now) << position
            elif name in absent:  # it is not known from where it went on
                self._recorded_counters[element.counter] = UNKNOWN
                moved |= (value is not None) << position
        self._recorded_sample = former.sample_ns or 0
        # A record without a delta has the discontinuity that is the reason.
        self._recorded_reset = 0 if counting in _RESTARTS else self._reset
        return moved

    def _resume_counter(self, position: int, recorded: int, now: int) -> bool:
        """Compare a counter with its value before the start; return whether it differs."""
        value = self._values[position]
        if type(value) is int and 0 <= value < recorded:
            self._fell(position, recorded, value, now)
        elif type(value) is int:
            self._reached(position, value)
        return value not in {None, recorded}

    def succeed(self, before: LoggedObject, counting: Counting, now: int) -> int:
        """Go on from the same object in another version of its class, whose falls are settled.

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
                if former in before._falls:
                    self._falls = {**self._falls, position: before._falls[former]}
            if before._recorded & mark:
                self._recorded |= bit
                is_same = before._values[former] == self._values[position]
                self.pending = self.pending & ~bit if is_same else self.pending | bit
        self._recorded_sample, self._recorded_reset = before._recorded_sample, before._recorded_reset
        self._presumed = before._presumed
        self._restarted(counting)
        for position in _positions(self.logged_class.counter_bits):
            recorded = self._recorded_counters[self.logged_class.places[position]]
            if isinstance(recorded, int):
                self._resume_counter(position, recorded, now)
        self.moved = before._place() != self._place()
        return self.pending & self.logged_class.properties

    # ---- from the feed --------------------------------------------------------------------------------

    def refresh(self, record: ObjectRecord, now: int) -> int:
        """Take the whole object again; return the bits of the positions to be recorded at once.

        Another native id means that the object came back or is another one: then all changes are to be
        recorded at once.

        Args:
            record: the object.
            now: nanoseconds since 1970-01-01 UTC, the gateway's clock.
        """
        came_back = record.native_id != self._native_id
        if came_back and not (record.created and self._created):
            self._presumed = True
        compared = self.logged_class.counter_bits
        if record.reset != self._reset and record.counting in _RESTARTS:
            self.pending |= self._restarted(record.counting)
            if record.counting is Counting.BEGAN:
                compared &= self.logged_class.properties
            elif record.statistics_sampled == self._statistics_sampled:
                self._doubted_sample = record.statistics_sampled  # as in `update`
        before = self._statistics_sampled, self._properties_sampled
        place = self._place()
        self._take_place(record)
        self.moved = self.moved or self._place() != place
        for position, former in enumerate(self._values):
            value = record.values.get(position)
            if value != former:
                if compared >> position & 1:
                    self._take_counter(position, former, value, now)
                self._values[position] = value
                self.pending |= 1 << position
        self._note_reading(before, now)
        return self.pending & (-1 if came_back or self.urgent else self.logged_class.properties)

    def update(self, record: UpdateRecord, now: int) -> int:
        """Take changed values; return the bits of the positions to be recorded at once.

        Args:
            record: the changes.
            now: nanoseconds since 1970-01-01 UTC, the gateway's clock.
        """
        changed = at_once = 0
        values, compared = self._values, self.logged_class.counter_bits
        if record.reset != self._reset and record.counting in _RESTARTS:
            changed = self._restarted(record.counting)
            if record.counting is Counting.BEGAN:  # on the disk before what shows why
                at_once, compared = -1, compared & self.logged_class.properties
            elif record.statistics_sampled == self._statistics_sampled:
                self._doubted_sample = record.statistics_sampled  # the next one is not known, too
        rises, places, held = self._rises, self.logged_class.places, self.held
        is_property, read = self.logged_class.properties, (self._statistics_read, self._properties_read)
        for position, value in record.values.items():
            bit = 1 << position
            if bit & compared:
                was = values[position]
                # As most do. A call for each value would double the time of an update.
                if type(value) is type(was) is int and 0 <= was < value <= NO_RISE and not bit & held:
                    if rises is None:
                        rises = self._rises = self._no_rises()
                    counter = places[position]
                    rises[counter] = was
                    rises[counter + len(self._recorded_counters)] = read[is_property >> position & 1]
                else:
                    self._take_counter(position, was, value, now)
            values[position] = value
            changed |= bit
        if record.absent:
            changed |= self._take_absent(record.absent, compared, now)
        sampled = self._statistics_sampled, self._properties_sampled
        self._properties_sampled = record.properties_sampled
        self._statistics_sampled = record.statistics_sampled
        self._reset = record.reset
        self.pending |= changed
        self._note_reading(sampled, now)
        # Statistics have one interval, so that they are recorded together.
        return self.pending & (-1 if self.urgent else at_once | changed & self.logged_class.properties)

    def _take_absent(self, absent: tuple[int, ...], compared: int, now: int) -> int:
        """Take out the values at these positions; return their bits."""
        for position in absent:
            if compared >> position & 1:
                self._take_counter(position, self._values[position], None, now)
            self._values[position] = None
        return sum(1 << position for position in absent)

    def is_cut_off(self, record: ObjectRecord | UpdateRecord, now: int) -> bool:
        """Return whether what waits is to be recorded before a change: a counter does not go on from it.

        Not where one fell to no less than before its last rise, which is likely to be taken back.
        """
        if self._falls:
            self.settle_due(now)
        if record.reset == self._reset:  # as of nearly all changes
            return False
        if record.counting in _RESTARTS:
            self.settle()
        waiting = self.pending & ~self.held & self.logged_class.counter_bits
        if record.counting is Counting.BEGAN:
            return waiting > 0
        return any(self._is_undone(p) or self._loses(p, record) for p in _positions(waiting))

    def _is_undone(self, position: int) -> bool:
        """Return whether a counter is less than recorded, which is to be taken back."""
        recorded = self._recorded_counters[self.logged_class.places[position]]
        return _is_less(self._values[position], recorded)

    def _loses(self, position: int, record: ObjectRecord | UpdateRecord) -> bool:
        """Return whether a counter falls to less than before its last rise."""
        value, before_rise = record.values.get(position), self._before_rise_of(position)
        if record.counting is Counting.UNKNOWN or not _is_less(value, self._values[position]):
            return False
        return _is_less(value, before_rise)

    # ---- counters that do not simply go on ------------------------------------------------------------

    def _take_counter(
        self, position: int, former: FeedValue | None, value: FeedValue | None, now: int
    ) -> None:
        """Take note of the change of a counter, before it has its new value."""
        if value is None:
            if former is not None:
                self._left = {**self._left, position: former}
            return
        was = former if former is not None else self._last(position)
        if type(value) is not int or type(was) is not int or was < 0:
            return
        if value < was:
            self._fell(position, was, max(value, 0), now)
        elif value > was and not self.held >> position & 1:
            self._rose(position, was)

    def _last(self, position: int) -> FeedValue | None:
        """Return the last value of a counter that was absent: it goes on from that."""
        if position in self._left:
            last = self._left[position]
            self._left = {p: value for p, value in self._left.items() if p != position} or _NOTHING_LEFT
            return last
        recorded = self._recorded_counters[self.logged_class.places[position]]
        return None if isinstance(recorded, Restart) else recorded

    def _rose(self, position: int, former: int) -> None:
        """Note what a counter had before it rose."""
        if self._rises is None:
            self._rises = self._no_rises()
        if 0 <= former < NO_RISE:
            counter = self.logged_class.places[position]
            self._rises[counter] = former
            self._rises[counter + len(self._recorded_counters)] = self._read_of(position)

    def _no_rises(self) -> array[int]:
        return array("Q", [NO_RISE]) * (2 * len(self._recorded_counters))

    def _read_of(self, position: int) -> int:
        """Return the number of readings of an element before the present one."""
        is_property = self.logged_class.properties >> position & 1
        return self._properties_read if is_property else self._statistics_read

    def _before_rise_of(self, position: int) -> int:
        """Return what a counter had before a last rise that may be wrong.

        `NO_RISE` where that is not known, or where so many readings showed the rise that it stays.
        """
        if self._rises is None:
            return NO_RISE
        counter = self.logged_class.places[position]
        before, read = self._rises[counter], self._rises[counter + len(self._recorded_counters)]
        return NO_RISE if self._read_of(position) - read >= SETTLED_BY else before

    def _fell(self, position: int, top: int, value: int, now: int) -> None:
        """Note that a counter fell from ``top``: it waits whether it returns."""
        before_rise, fall = self._before_rise_of(position), self._falls.get(position)
        if fall is None:
            fall = Fall(before_rise, 0, value, now)
            self._falls = {**self._falls, position: fall}
        fall.fell(top, value, before_rise, now)
        self.held |= 1 << position

    def _note_reading(self, sampled: tuple[int, int], now: int) -> None:
        """Count the present values as a reading; the arguments are those of `_read_falls`."""
        self._statistics_read += self._statistics_sampled != sampled[0]
        self._properties_read += self._properties_sampled != sampled[1]
        if self._falls:
            self._read_falls(sampled, now)

    def _read_falls(self, sampled: tuple[int, int], now: int) -> None:
        """Let the present values count as a reading of the counters that fell.

        Args:
            sampled: the times of the statistics and properties before.
            now: nanoseconds since 1970-01-01 UTC, the gateway's clock.
        """
        properties = self.logged_class.properties
        read = properties if self._properties_sampled != sampled[1] else 0
        read |= ~properties if self._statistics_sampled != sampled[0] else 0
        for position, fall in list(self._falls.items()):
            value = self._values[position]
            if type(value) is not int or not read >> position & 1:
                continue
            if not fall.waits:
                self._reached(position, value)
            elif fall.read(value):
                self._returned(position, fall, value)
            elif fall.is_due(now):
                self._settle(position, fall)

    def _returned(self, position: int, fall: Fall, value: int) -> None:
        """Let a counter go on that was never less."""
        self.held &= ~(1 << position)
        if value > fall.top:
            self._rose(position, fall.top)
        fall.top = 0
        self._is_as_recorded(position)
        self._reached(position, value)

    def _is_as_recorded(self, position: int) -> None:
        """Let a counter not wait to be recorded that has its recorded value again."""
        recorded = self._recorded_counters[self.logged_class.places[position]]
        if self._recorded >> position & 1 and self._values[position] == recorded:
            self.pending &= ~(1 << position)

    def _reached(self, position: int, value: int) -> None:
        """Take note that a counter has reached what it had before a fall: it may have jumped there."""
        fall = self._falls.get(position)
        if fall is None or fall.waits:
            return
        if fall.reaches(value):
            self._recorded_counters[self.logged_class.places[position]] = UNKNOWN
            self.pending |= 1 << position
        self._forget(position, fall)

    def _no_rise(self, position: int) -> None:
        if self._rises is not None:
            self._rises[self.logged_class.places[position]] = NO_RISE

    def _forget(self, position: int, fall: Fall) -> None:
        """Forget a fall that does not wait, where it left no mark."""
        if not fall.marks:
            self._falls = {one: other for one, other in self._falls.items() if one != position} or _NO_FALLS

    def settle_due(self, now: int) -> None:
        """Let falls stay that have waited long enough at ``now`` (ns)."""
        for position, fall in list(self._falls.items()):
            if fall.waits and fall.is_due(now):
                self._settle(position, fall)

    def settle(self) -> None:
        """Let all falls stay: the object ends, or goes on in another version of its class."""
        for position, fall in list(self._falls.items()):
            if fall.waits:
                self._settle(position, fall)

    @property
    def settles_at(self) -> int:
        """The time at which the last counter that waits is settled (ns); 0 while none waits."""
        return max((fall.since + SETTLED_AFTER for fall in self._falls.values() if fall.waits), default=0)

    def _settle(self, position: int, fall: Fall) -> None:
        self.held &= ~(1 << position)
        self.pending |= 1 << position
        counter, value = self.logged_class.places[position], self._values[position]
        base = fall.settle(value if isinstance(value, int) else fall.lowest)
        if base is not None:
            self._recorded_counters[counter] = after_fall(self._recorded_counters[counter], base)
            self._no_rise(position)
            return
        self._is_as_recorded(position)
        self.urgent |= self._is_undone(position) << position
        self._forget(position, fall)

    def _restarted(self, counting: Counting) -> int:
        """Let all counters that are statistics not go on; return the bits of those that are recorded.

        All of them are recorded then: one with its former value has reached it again.
        """
        counters = self.logged_class.counter_bits & ~self.logged_class.properties
        restart = _RESTARTS.get(counting)
        if restart is None:
            return 0
        for position in _positions(counters):
            counter = self.logged_class.places[position]
            if self._recorded_counters[counter] is not None:
                self._recorded_counters[counter] = restart
        self.held &= ~counters
        self._unread &= ~counters
        self._rises = None
        self._left = _NOTHING_LEFT
        falls: dict[int, Fall] = {}
        for position, fall in self._falls.items():
            if counters >> position & 1:
                if restart is FROM_ZERO:
                    continue
                if fall.waits:  # where a part is missing, that part may return at once
                    fall.break_off(fall.lowest)
            falls[position] = fall
        self._falls = falls or _NO_FALLS
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
        held = self._recorded & self.held
        values, _, deltas = self._recorded_now(present & ~self.held)
        elements = [self.logged_class.elements[position] for position in _positions(held)]
        values |= {one.name: self._recorded_counters[one.counter] for one in elements}
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
            absent=(kind is RecordKind.SNAPSHOT and self._absent_counters()) or None,
            deltas={name: delta for name, delta in deltas.items() if delta.delta or delta.reset} or None,
            former=self._former_of(self.logged_class.counter_bits) or None,
            **self._identity(),
            **self._place(),
        )

    def _former_of(self, bits: int) -> dict[str, object]:
        """Return what else is to be known of counters among ``bits``, for a later start of the gateway.

        Of those without a value: their last recorded one, from which they go on; that is 0 of an object that
        counts from zero, and ``None`` of those that began again. Of those that fell: the values before (see
        `Fall`), as a list behind the last recorded one.
        """
        found: dict[str, object] = {}
        without = self._unread | ~self._recorded
        for position in _positions(bits & self.logged_class.counter_bits):
            name, _, counter = self.logged_class.elements[position]
            recorded, fall = self._recorded_counters[counter], self._falls.get(position)
            marks = list(fall.marks) if fall is not None else []
            is_without = bool(without >> position & 1)
            if is_without and isinstance(recorded, int):
                found[name] = [recorded, *marks] if marks else recorded
            elif is_without and recorded is FROM_ZERO:
                found[name] = None
            elif not is_without and marks:
                found[name] = marks
        return found

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
        bits &= ~self.held
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
        former = self._former_of(bits) if absent or self._falls else {}
        identity = b"" if moved else self._encoded_identity or self._encode_identity()
        if identity:
            raw = msgspec.Raw(identity)
            return ObjectChange(RecordKind.UPDATE, ingest_ts, raw, *changed, former=former or None)
        place = self._place() if moved else {}
        fields: dict[str, Any] = dict(zip(_CHANGED, changed, strict=True), former=former or None)
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
        elapsed = self._statistics_sampled - self._recorded_sample if self._recorded_sample else 0
        values: dict[str, object] = {}
        absent: list[str] = []
        deltas: dict[str, Delta] = {}
        recorded = self._recorded
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
            # A peer may send anything where its schema says counter: such a value is recorded, but has no
            # delta, and the counter goes on from the one before.
            if counter < 0 or not isinstance(value, int) or value < 0:
                continue
            former = counters[counter]
            if former is not UNKNOWN or self._statistics_sampled != self._doubted_sample:
                counters[counter] = value
            if former is UNKNOWN:
                self._no_rise(position)  # what counts for nothing is not taken back
            # A property's counter has no sample time of its own, and a clock that was set back gives no
            # interval.
            is_dated = elapsed > 0 and self._recorded & bit and not (self._undated | properties) & bit
            delta = _delta(former, value, elapsed if is_dated else None)
            if delta is not None:
                deltas[name] = delta
        self._recorded = recorded
        self._unread &= ~bits
        self._undated &= ~bits
        self.pending &= ~bits
        self.urgent &= ~bits
        if bits & ~properties:
            self._recorded_sample, self._recorded_reset = self._statistics_sampled, self._reset
            # Counters without a value in this sample keep their older one: the next delta has no known
            # interval.
            self._undated |= self._unread | self.held
        self.moved = False
        return values, absent, deltas


def _delta(former: _Recorded | None, value: int, interval: int | None) -> Delta | None:
    """Return the change of a counter from what is recorded of it; ``None`` where there is nothing yet."""
    if former is FROM_ZERO:
        return Delta(value, interval, reset=True)
    if isinstance(former, Restart):
        gained = None if former.base is None else value - former.base or None
        return Delta(gained, interval if gained else None, reset=True)
    if not isinstance(former, int) or former < 0:
        return None
    if value < former:
        return Delta(value - former, undone=True)
    return Delta(value - former, interval)


def _is_less(value: object, than: object) -> bool:
    return type(value) is int and type(than) is int and value < than


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
