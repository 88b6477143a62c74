"""Operations that users requested, their effects, and the outcomes that users received.

Each operation has a mark of its own where there is a place for one. An operation without one, such as the
purge of a queue, is counted by object and method.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.eventlog.record import LogRecord
from gateway.feed.operations import OperationRecord, OperationState
from gateway.feed.records import Batch
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from tests.simulation.recording import OperationDisk
from tests.simulation.scheduler import Scheduler
from tests.simulation.truth import Plain, Timeline
from tests.simulation.violations import demand

FIRST_MARK = 1_000_000
MARKED = "operation "
SECRET = "opensesame"

Key: TypeAlias = "int | str"
"""The key of an operation: the mark, else object and method."""

_ORDER = [state.value for state in OperationState]

UNCERTAIN = frozenset({Outcome.UNKNOWN, Outcome.APPLIED_DIFFERENTLY})
"""Outcomes after which the operation may or may not have been carried out."""


class Reported(enum.Enum):
    """The outcome that a user received."""

    DONE = "done"
    NOT_DONE = "not done"
    UNCERTAIN = "uncertain"

    @classmethod
    def of(cls, outcome: Outcome) -> Reported:
        """Return the member for an outcome."""
        if outcome is Outcome.APPLIED:
            return cls.DONE
        return cls.UNCERTAIN if outcome in UNCERTAIN else cls.NOT_DONE


def mark_in(values: Mapping[str, object]) -> int | None:
    """Return the mark among arguments or values, or ``None``."""
    for value in values.values():
        if isinstance(value, int) and value >= FIRST_MARK:
            return value
        if isinstance(value, str) and value.startswith(MARKED):
            return int(value.removeprefix(MARKED))
    return None


def key_of(class_name: str, name: str, method: str, values: Mapping[str, object]) -> Key:
    """Return the key of an operation on the object ``name``."""
    mark = mark_in(values)
    return mark if mark is not None else f"{class_name} {name.partition('#')[0]} {method}"


@dataclass
class Ledger:
    """The account of operations.

    Attributes:
        done: the number of times that each was carried out.
        done_at: the time at which each was last carried out.
        answers: the outcomes that users received, with their texts.
        final: the last record of each operation from the core, by its id.
        begun: the number of operations begun with each key.
        repeated: the number of requests for each that reached a further SNMP process. A request that this
            process refuses by itself, because it has not received everything yet, may have been carried out
            before.
        forgotten: the number of these that came over a further core, which cannot recognise a retransmission
            either.
        is_empty: whether the queue of this name has lately been empty.
        at: called when an operation comes to a point at which a process may be killed.
    """

    scheduler: Scheduler
    disk: OperationDisk
    done: Counter[Key] = field(default_factory=Counter)
    done_at: dict[Key, int] = field(default_factory=dict)
    answers: list[tuple[Key, Reported, str]] = field(default_factory=list)
    final: dict[str, OperationRecord] = field(default_factory=dict)
    begun: Counter[Key] = field(default_factory=Counter)
    repeated: Counter[Key] = field(default_factory=Counter)
    forgotten: Counter[Key] = field(default_factory=Counter)
    is_empty: Callable[[str], bool] = lambda _: False
    at: Callable[[str], None] = lambda _: None
    _elements: dict[Key, Timeline] = field(default_factory=dict)
    _reported_by: dict[str, int] = field(default_factory=dict)

    def carried_out(self, key: Key, element: Timeline | None = None) -> None:
        """Record that an operation was carried out now; ``element`` is the element that was set."""
        self.at("done")
        if element is not None:
            self._elements[key] = element
        self.scheduler.note("ledger", f"carried out {key}")
        self.done[key] += 1
        self.done_at[key] = self.scheduler.now
        # No write is carried out twice, and none that nobody asked for.
        most = 1 + self.forgotten[key] if isinstance(key, int) else self.begun[key]
        demand(self.done[key] <= most, f"{key} is done {self.done[key]} times, begun {self.begun[key]}")
        # Of each change a record is on the disk before anything is sent, unless the disk is in trouble.
        recorded = any(_key(record.values, key) for record in self.disk.records)
        troubled = self.scheduler.now - self.disk.trouble_at < 60 * SECOND
        demand(
            recorded or troubled or isinstance(key, str),
            f"{key} is done, and no record of its begin is there",
        )

    def reported(self, key: Key, reported: Reported, text: str) -> None:
        """Record the answer to a user."""
        self.scheduler.note("user", f"{key}: {reported.value}: {text}")
        self.answers.append((key, reported, text))
        if reported is Reported.DONE:
            # Nothing is told as done that was not.
            is_so = self.done[key] > 0 or any(_found_empty(one, key) for one in self.final.values())
            demand(is_so, f"{key} is told as done and was not: {text}")

    def shown(self, key: Key, value: Plain) -> None:
        """Check the value that a front end shows of an element when it reports that it was set."""
        # Who reads after the answer reads what was set, or what came after it.
        element = self._elements[key]
        is_newer = value is None or element.held(value, self.done_at[key], self.scheduler.now)
        demand(is_newer, f"{key} is told as done, and {value!r} is shown: it is {element.now!r}")

    def published(self, batch: Batch) -> None:
        """Record the operations of a batch of the core."""
        for record in batch.records:
            if isinstance(record, OperationRecord):
                self._operation(record, batch.epoch)

    def check(self) -> None:
        """Check all operations after their end."""
        applied: Counter[Key] = Counter()
        uncertain: Counter[Key] = Counter()
        for record in self.final.values():
            key = _key_of_record(record)
            if record.outcome is Outcome.APPLIED and not _found_empty(record, key):
                applied[key] += 1
            elif record.outcome in {None, Outcome.APPLIED, *UNCERTAIN} or _is_reported(record):
                uncertain[key] += 1
        for key in self.begun.keys() | self.done.keys():
            # None is reported as done that was not, and none as not done that was.
            # Who asks for a value that is there already is told that it is, and nothing is done.
            least = min(applied[key], 1) if isinstance(key, int) else applied[key]
            most = applied[key] + uncertain[key]
            demand(
                least <= self.done[key] <= most,
                f"{key} was done {self.done[key]} times, and is told as done {least} to {most} times",
            )
        differently = {_key_of_record(one) for one in self.final.values() if _is_reported(one)}
        for key, reported, text in self.answers:
            is_reported_so = (
                reported is Reported.NOT_DONE and key not in differently and not self.repeated[key]
            )
            wrong = is_reported_so and isinstance(key, int) and self.done[key] > 0
            demand(not wrong, f"{key} is told as not done and was: {text}")
        self._check_disk()

    def _check_disk(self) -> None:
        states: defaultdict[str, list[str]] = defaultdict(list)
        last: dict[str, LogRecord] = {}
        for record in self.disk.records:
            assert record.operation_id is not None
            assert record.state is not None
            states[record.operation_id].append(record.state)
            last[record.operation_id] = record
            demand(SECRET not in repr(record), f"the log tells a secret: {record}")
        for operation_id, reported in states.items():
            # Each operation that was begun has one end in the log, by a later core if need be.
            in_order = list(dict.fromkeys(reported))
            ends = reported.count(OperationState.ENDED.value), reported.count(OperationState.SETTLED.value)
            demand(ends[0] == 1 and ends[1] <= 1, f"{operation_id} is told in the log as {reported}")
            demand(
                in_order == sorted(in_order, key=_ORDER.index), f"{operation_id}: the log tells {reported}"
            )
            # The log says what norths were told, or that nobody knows.
            outcome, final = last[operation_id].outcome, self.final[operation_id].outcome
            agree = final is not None and outcome in {final.value, Outcome.UNKNOWN.value}
            demand(agree, f"{operation_id}: the log says {outcome}, norths were told {final}")

    def _operation(self, record: OperationRecord, epoch: int) -> None:
        former = self.final.get(record.operation_id)
        key = _key_of_record(record)
        self.at(record.state.value)
        demand(SECRET not in repr(record), f"{record} tells a secret")
        if record.state is OperationState.BEGUN:
            demand(former is None, f"{record} is begun twice")
            self.begun[key] += 1
        elif former is not None:
            if epoch != self._reported_by[record.operation_id] and self._is_given_up(record, former):
                return
            # What is known of an operation does not change any more, and it has one end.
            expected = OperationState.BEGUN if record.state is OperationState.ENDED else OperationState.ENDED
            demand(former.state is expected, f"{record} follows {former}")
            known = former.outcome not in {None, Outcome.UNKNOWN}
            demand(not known, f"{record} contradicts {former}")
        if _found_empty(record, key):
            demand(self.is_empty(record.stable_name), f"{record} of a queue with messages")
        self.final[record.operation_id] = record
        self._reported_by[record.operation_id] = epoch

    def _is_given_up(self, record: OperationRecord, former: OperationRecord) -> bool:
        """Return whether a core gave up an operation whose end by a former core did not reach the disk."""
        if former.outcome is None or record.state is not OperationState.ENDED:
            return False
        known = [one.state for one in self.disk.records if one.operation_id == record.operation_id]
        is_open = set(known) == {OperationState.BEGUN.value}
        return is_open and record.outcome is Outcome.UNKNOWN


def _is_reported(record: OperationRecord) -> bool:
    """Return whether an operation was reported as done and had no effect."""
    is_gone = record.outcome is Outcome.UNKNOWN and "the object is gone" in record.text
    return is_gone or record.outcome is Outcome.APPLIED_DIFFERENTLY


def _found_empty(record: OperationRecord, key: Key) -> bool:
    """Return whether an operation is the purge ``key`` without an answer, of a queue that was found empty."""
    is_empty = record.outcome is Outcome.APPLIED and record.text.startswith("the queue is empty")
    return is_empty and _key_of_record(record) == key


def _key_of_record(record: OperationRecord) -> Key:
    return key_of(record.class_name, record.stable_name, record.method, record.values)


def _key(values: Mapping[str, object] | None, key: Key) -> bool:
    return mark_in(values or {}) == key
