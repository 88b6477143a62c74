"""Each segment, read alone, contains the whole state, and deltas add up, with any feed."""

from __future__ import annotations

import datetime as dt

import msgspec
from hypothesis import event as observed
from hypothesis import given
from hypothesis import strategies as st

from gateway.eventlog.logged_objects import SLOT
from gateway.eventlog.record import AnyRecord, LogRecord, RecordKind, microseconds_text
from gateway.eventlog.recorder import RecorderSettings
from gateway.eventlog.waiting import Pressure
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import Counting
from gateway.model.times import SECOND
from tests.eventlog.feeds import (
    DELIVERED,
    DEPTH,
    NAME,
    PAUSED,
    PUBLISHED,
    QUEUE,
    T0,
    VHOST,
    Shop,
    deletion,
    queue,
    update,
)
from tests.eventlog.records import with_all_fields
from tests.eventlog.replay import Replayed, assert_deltas_add_up

ROWS = st.integers(1, 3)
NUMBERS = st.integers(0, 9)
VALUES = st.fixed_dictionaries(
    {},
    optional={PAUSED: st.booleans(), DEPTH: NUMBERS, PUBLISHED: NUMBERS, DELIVERED: NUMBERS},
)
ABSENT = st.sets(st.sampled_from([PAUSED, DEPTH, PUBLISHED, DELIVERED]), max_size=2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reported"), ROWS, VALUES),
        st.tuples(st.just("updated"), ROWS, VALUES, ABSENT, st.booleans()),
        st.tuples(st.just("deleted"), ROWS),
        st.tuples(st.just("moved"), ROWS, st.integers(1, 2)),
        st.tuples(st.just("waited"), st.integers(1, 90 * SECOND)),
        st.tuples(st.just("pressed"), st.sampled_from(Pressure)),
        st.tuples(st.just("segment"), st.integers(0, 9)),
    ),
    max_size=40,
)


class Ledger:
    """The expected state of a shop, and its records, in segments."""

    def __init__(self, interval: int) -> None:
        self.shop = Shop(RecorderSettings(interval))
        self.values: dict[int, dict[int, FeedValue]] = {}
        self.parents: dict[int, ObjectLink] = {}
        self.resets: dict[int, int] = {}
        self.incarnations: dict[int, int] = {}
        self.segments: list[list[LogRecord]] = [self.shop.began]
        self.created = self.deleted = 0
        self.cuts: set[str] = set()
        """The times at which counters did not go on: what waited was recorded before."""

    @property
    def log(self) -> list[LogRecord]:
        """The records of all segments."""
        return [record for segment in self.segments for record in segment]

    def step(self, kind: str, *arguments: object) -> None:
        """Carry out one step."""
        self.shop.now += 1
        getattr(self, f"_{kind}")(*arguments)

    def settle(self) -> None:
        """Let time pass until no record waits any more."""
        self.shop.mirror.pressure = Pressure.NONE
        self.segments[-1] += self.shop.wait(120 * SECOND)

    def _record(self, records: list[AnyRecord] | list[LogRecord]) -> None:
        self.segments[-1] += with_all_fields(records)

    def _reported(self, row: int, values: dict[int, FeedValue]) -> None:
        if row not in self.values:
            self.created += 1
            self.incarnations[row] = self.incarnations.get(row, 0) + 1
            self.parents[row] = ObjectLink("shop:vhost", 1, "/")
        # Told again, it came back: under another native id, and its counters began again.
        self.resets[row] = self.resets.get(row, T0) + SECOND
        self.values[row] = {NAME: f"q{row}", VHOST: self.parents[row], **values}
        self._publish_whole(row, f"n{row}.{self.resets[row]}")

    def _publish_whole(self, row: int, native_id: str) -> None:
        record = msgspec.structs.replace(
            queue(row, dict(self.values[row]), self.shop.now),
            native_id=native_id,
            # What all rows but the odd ones had counted before the shop was read is not known.
            created=T0 + self.incarnations[row] * SECOND if row % 2 else T0 - SECOND,
            reset=self.resets[row],
            parent=self.parents[row],
            counting=Counting.BEGAN,
        )
        self._record(self.shop.publish(record))

    def _updated(
        self,
        row: int,
        values: dict[int, FeedValue],
        absent: set[int],
        restarted: bool,  # noqa: FBT001  drawn
    ) -> None:
        kept = self.values.get(row)
        if kept is None:
            return
        values = {p: v for p, v in values.items() if p not in absent}
        fell = any(
            p in (PUBLISHED, DELIVERED) and isinstance(v, int) and p in kept and v < int(str(kept[p]))
            for p, v in values.items()
        )
        if fell or restarted:
            self.resets[row] += SECOND
            self.cuts.add(microseconds_text(self.shop.now) or "")
        for position in absent:
            kept.pop(position, None)
        kept.update(values)
        record = update(values, *sorted(absent), row=row, now=self.shop.now, reset=self.resets[row])
        counting = Counting.BEGAN if restarted else Counting.GO_ON
        self._record(self.shop.publish(msgspec.structs.replace(record, counting=counting)))

    def _deleted(self, row: int) -> None:
        if self.values.pop(row, None) is not None:
            self.deleted += 1
            self._record(self.shop.publish(deletion(row)))

    def _moved(self, row: int, parent: int) -> None:
        if row in self.values:
            self.parents[row] = self.values[row][VHOST] = ObjectLink("shop:vhost", parent, f"v{parent}")
            self._publish_whole(row, f"n{row}.{self.resets[row]}")

    def _waited(self, nanoseconds: int) -> None:
        self._record(self.shop.wait(nanoseconds))

    def _pressed(self, pressure: Pressure) -> None:
        self.shop.mirror.pressure = pressure

    def _segment(self, interrupted: int) -> None:
        """Begin a segment whose head is interrupted by the end of one object, and a change of another."""
        head = self.shop.mirror.head(lambda: self.shop.now)
        self.segments.append([])
        for number, record in enumerate(head):
            self._record([record])
            if number == interrupted:
                self._deleted(1)
                self._updated(2, {PUBLISHED: 5, PAUSED: True}, set(), restarted=False)

    def standing(self) -> Replayed:
        """Return the whole state as the feed reported it."""
        names = [element.name for element in QUEUE.schema.elements]
        return Replayed(
            {
                f"shop/shop:queue/{row}": {
                    names[p]: f"shop/shop:vhost/{v.row}" if isinstance(v, ObjectLink) else v
                    for p, v in values.items()
                }
                for row, values in self.values.items()
            },
            {f"shop/shop:queue/{row}": f"shop/shop:vhost/{self.parents[row].row}" for row in self.values},
        )


@given(STEPS, st.sampled_from([1, 10 * SECOND, 60 * SECOND]))
def test_each_segment_alone_says_how_everything_stands(
    steps: list[tuple[str, object]], interval: int
) -> None:
    ledger = Ledger(interval)
    for step in steps:
        if step[0] == "segment":
            ledger.settle()
            assert_stands(ledger)
        ledger.step(*step)
    ledger.settle()
    assert_stands(ledger)
    whole = Replayed().read(ledger.log)
    assert (whole.created, whole.deleted) == (ledger.created, ledger.deleted)
    assert ledger.shop.mirror.refused == 0
    observed(f"deltas: {assert_deltas_add_up(ledger.log) > 0}")


def assert_stands(ledger: Ledger) -> None:
    """Check that the last segment alone, and all of them, contain the state that the feed reported."""
    expected = ledger.standing()
    for records in (ledger.segments[-1], ledger.log):
        found = Replayed().read(records)
        assert found.values == expected.values
        assert found.parents == expected.parents


@given(STEPS)
def test_properties_are_never_behind(steps: list[tuple[str, object]]) -> None:
    ledger = Ledger(60 * SECOND)
    for step in steps:
        if step[0] == "pressed":
            continue
        ledger.step(*step)
        found = Replayed().read(ledger.log).values
        expected = ledger.standing().values
        assert found.keys() == expected.keys()
        for identifier, values in expected.items():
            for name in ("name", "vhost", "paused"):
                assert found[identifier].get(name) == values.get(name)


@given(STEPS, st.sampled_from([SECOND, 60 * SECOND]))
def test_statistics_of_an_object_are_reported_once_in_an_interval(
    steps: list[tuple[str, object]], interval: int
) -> None:
    """The exceptions are a head, an end, a return, and counters that do not go on from what waited."""
    ledger = Ledger(interval)
    for step in steps:
        if step[0] in {"updated", "waited"} or (step[0] == "reported" and step[1] not in ledger.values):
            ledger.step(*step)
    ledger.settle()
    last: dict[str, dt.datetime] = {}
    for record in ledger.log:
        reported = {*(record.values or {}), *(record.absent or ())}
        if record.kind is RecordKind.UPDATE and reported & {"depth", "published", "delivered"}:
            assert record.object_id is not None
            if record.ingest_ts in ledger.cuts:
                continue
            recorded = dt.datetime.fromisoformat(record.ingest_ts)
            apart = recorded - last.get(record.object_id, dt.datetime.min.replace(tzinfo=dt.UTC))
            assert apart >= dt.timedelta(microseconds=(interval - SLOT) // 1000)
            last[record.object_id] = recorded
