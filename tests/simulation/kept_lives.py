"""The invariants of the log of sources with a durable subscription: it has no gap while no core runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from gateway.eventlog.record import LogRecord, RecordKind, nanoseconds_of
from tests.simulation.scheduler import FURTHEST_OFF
from tests.simulation.truth import Thing, Truth, mark_of

_NOTICED = 2 * FURTHEST_OFF
"""The tolerance of times, because two clocks may be off in opposite directions."""

_UNREAD = "the management API did not answer"
"""The reason of a gap in values, whether or not events arrived."""

_OVERTAKEN = "an object was read before the events of an earlier one of its name"
"""The reason of a gap in lives: a listing showed the successor before the broker delivered the events.

The row and the name are the successor's by then, and records are in the order of time. So the earlier life is
in no record, and the log says so.
"""

_WITHOUT_OWNER = "an object came and went before that was read to which it belongs"
"""The reason of a gap in lives: the event of the owner's creation was lost before."""

_UNNAMED = frozenset({"rabbitmq:channel", "rabbitmq:consumer"})
"""The classes whose events name a channel by its Erlang process, which a new core cannot resolve."""

_Gap = tuple[int, int]


class KeptLives:
    """The comparison of the log with the events that the broker kept.

    Args:
        truth: the true state.
        reported_again: records of deliveries that a killed core recorded in part and the next one repeats.
    """

    def __init__(self, truth: Truth, reported_again: Iterable[LogRecord]) -> None:
        self._truth = truth
        self._reported_again = Counter(map(_event_of, reported_again))
        self._things: dict[str, Thing] = {}
        self._inferred: list[Thing] = []
        self._gaps: dict[str, list[_Gap]] = {}
        self._events: Counter[bytes] = Counter()

    def differences(self, log: Iterable[LogRecord]) -> Iterator[str]:
        """Yield the differences between the log and the true state."""
        for record in log:
            if record.source not in self._truth.kept:
                continue
            if record.kind is RecordKind.GAP:
                yield from self._gap(record.source, record)
            elif record.kind is RecordKind.EVENT:
                self._events[_event_of(record)] += 1
            else:
                self._life(record)
        yield from self._ends()
        for event, times in self._events.items():
            if times > 1 + self._reported_again[event]:
                yield f"the log tells an event {times} times: {event.decode()}"

    def _gap(self, source: str, record: LogRecord) -> Iterator[str]:
        """Yield a difference if a gap has no loss of the broker as its cause."""
        since, until = nanoseconds_of(record.from_ts), nanoseconds_of(record.to_ts)
        self._gaps.setdefault(source, []).append((since, until))
        if record.text == _UNREAD or self._is_overtaken(source, since, until, record.text):
            return
        unkept = self._truth.kept[source].unkept()
        if not any(since - _NOTICED <= end and begin <= until + _NOTICED for begin, end in unkept):
            yield f"the log has a gap, and the broker kept all events: {record}"

    def _is_overtaken(self, source: str, since: int, until: int, reason: str | None) -> bool:
        """Return whether an object came and went in this time, as a gap for this reason needs it."""
        if reason not in {_OVERTAKEN, _WITHOUT_OWNER}:
            return False
        things = [thing for thing in self._truth.things.values() if thing.source == source]
        last = {(thing.class_name, thing.name): thing.serial for thing in things}
        return any(
            since - _NOTICED <= thing.created <= thing.ended <= until + _NOTICED
            and (reason == _WITHOUT_OWNER or last[thing.class_name, thing.name] != thing.serial)
            for thing in things
        )

    def _life(self, record: LogRecord) -> None:
        if record.object_id is None:
            return
        if record.kind in {RecordKind.CREATE, RecordKind.SNAPSHOT}:
            class_name = f"{record.package}:{record.class_name}"
            mark = mark_of((record.values or {}).get(self._truth.marks.get(class_name, "")))
            thing = self._truth.marked(record.source or "", class_name, mark)
            if thing is not None:
                self._things[record.object_id] = thing
        elif record.kind is RecordKind.DELETE and record.inferred and record.object_id in self._things:
            self._inferred.append(self._things[record.object_id])

    def _ends(self) -> Iterator[str]:
        """Yield the ends that the log infers although the broker reported them while no core ran."""
        for thing in self._inferred:
            kept = self._truth.kept[thing.source]
            is_reported = thing.serial in kept.reported and thing.class_name not in _UNNAMED
            is_kept = is_reported and not thing.hidden_until and not thing.hidden
            absent = any(since <= thing.ended <= until for since, until in kept.absences)
            gaps = self._gaps.get(thing.source, ())
            missed = any(since - _NOTICED <= thing.ended <= until + _NOTICED for since, until in gaps)
            if is_kept and absent and not missed:
                yield f"the log infers the end of {thing}, which the broker reported"


def _event_of(record: LogRecord) -> bytes:
    """Return the content and the time of an event, independent of the core that recorded it."""
    return msgspec.json.encode(
        (record.event, record.object_name, record.condition, record.values, record.state, record.sample_ns)
    )
