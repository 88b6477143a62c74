"""What console sessions of every dialect have in common.

States, effects, timers, operations that wait for an answer.
"""

from __future__ import annotations

import enum
import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import NEVER, Answered, Effect, Note, Observed, Send, WakeAt
from gateway.model.observations import Observation, SourceState, SourceStateSeen
from gateway.model.operations import Answer, Outcome

StateT = TypeVar("StateT", bound=enum.Enum)
SignalT = TypeVar("SignalT", bound=enum.Enum)


class Transitions(Generic[StateT, SignalT]):
    """The states of a session, as one table.

    Args:
        table: from state and signal to the next state; any other pair is a mistake of the gateway.
    """

    def __init__(self, table: Mapping[tuple[StateT, SignalT], StateT]) -> None:
        self.table = table

    def after(self, state: StateT, signal: SignalT) -> StateT:
        """Return the next state.

        Raises:
            LocalProtocolError: the table has none.
        """
        following = self.table.get((state, signal))
        if following is None:
            raise LocalProtocolError(f"{signal.value} means nothing while {state.value}")
        return following

    def __str__(self) -> str:
        """Return the table as text, a line for each transition."""
        rows = ((before.value, signal.value, after.value) for (before, signal), after in self.table.items())
        return "\n".join(f"{before:<13} {signal:<13} -> {after}" for before, signal, after in rows)


class Outbox:
    """Effects in the order in which they come about, with one `Observed` in front of them.

    Attributes:
        observations: what was observed, in order.
    """

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self._effects: list[Effect] = []
        self._source_state: SourceStateSeen | None = None
        self._wake_at = NEVER

    def report_state(self, state: SourceState, detail: str = "") -> None:
        """Observe the source's state, if that is news."""
        seen = SourceStateSeen(state, detail)
        if seen != self._source_state:
            self._source_state = seen
            self.observations.append(seen)

    def note(self, event: str, detail: str) -> None:
        """Leave a note for operators."""
        self._effects.append(Note(event, detail))

    def send(self, send: Send) -> None:
        """Send a message."""
        self._effects.append(send)

    def answer(self, answer: Answer) -> None:
        """Answer an operation, behind what this event led to observing."""
        self._effects.append(Answered(answer))

    def awake(self) -> None:
        """The timer is spent, even if the clock was set back meanwhile and its time has not come."""
        self._wake_at = NEVER

    def take_effects(self) -> list[Effect]:
        """Return all there is."""
        effects, self._effects = self._effects, []
        if self.observations:
            effects.insert(0, Observed(tuple(self.observations)))
            self.observations = []
        return effects

    def hand_out(self, wake_at: int, now: int) -> list[Effect]:
        """Return all there is, and when to be woken: at ``wake_at``, unless a timer ends sooner."""
        effects = self.take_effects()
        # Each message moves the deadlines on; an early tick costs less than a timer set again each time.
        if wake_at != NEVER and (wake_at < self._wake_at or self._wake_at <= now):
            self._wake_at = wake_at
            effects.append(WakeAt(wake_at))
        return effects


NameT = TypeVar("NameT", bound=Hashable)
PendingT = TypeVar("PendingT")


class Timers(Generic[NameT]):
    """Times at which something is due, by its name; nanoseconds. The first one is always at hand.

    One that is put off is found when its earlier time comes, so that putting it off costs next to nothing.
    """

    def __init__(self) -> None:
        self._times: dict[NameT, int] = {}
        self._heap: list[tuple[int, int, NameT]] = []  # an entry of each name is not behind its time
        self._count = 0

    def set(self, name: NameT, time: int) -> None:
        """``name`` is due at ``time``, and at no other."""
        before = self._times.get(name, NEVER)
        self._times[name] = time
        if time < before:
            self._push(name, time)

    def cancel(self, name: NameT) -> None:
        """``name`` is not due any more."""
        self._times.pop(name, None)

    @property
    def first(self) -> int:
        """When the first one is due; `NEVER` where none is."""
        while self._heap:
            time, _, name = self._heap[0]
            due = self._times.get(name)
            if due == time:
                return time
            heapq.heappop(self._heap)
            if due is not None and due > time:
                self._push(name, due)
        return NEVER

    def take(self, now: int) -> list[NameT]:
        """Return those that are due, in the order of their times; they are not any more."""
        due: list[NameT] = []
        while self.first <= now:
            _, _, name = heapq.heappop(self._heap)
            del self._times[name]
            due.append(name)
        return due

    def _push(self, name: NameT, time: int) -> None:
        self._count += 1
        heapq.heappush(self._heap, (time, self._count, name))


REMEMBERED: Final = 1_000
"""Operations without an answer that are known still, the latest ones."""


class Pending(Generic[NameT, PendingT]):
    """What was sent once and waits for its answer.

    One that is not answered in time is known a while longer: a late answer still says what became of it.
    """

    def __init__(self) -> None:
        self._waiting: dict[NameT, PendingT] = {}
        self._unanswered: OrderedDict[NameT, PendingT] = OrderedDict()
        self._timers: Timers[NameT] = Timers()

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, name: NameT, what: PendingT, deadline: int) -> None:
        """Wait for an answer until ``deadline`` (nanoseconds)."""
        self._waiting[name] = what
        self._timers.set(name, deadline)

    def find(self, name: NameT) -> PendingT | None:
        """Return what has no answer yet; ``None`` where there is none of this name, or not any more."""
        return self._waiting.get(name) or self._unanswered.get(name)

    def end(self, name: NameT) -> PendingT | None:
        """Return what has its answer now; ``None`` as of `find`."""
        self._timers.cancel(name)
        return self._waiting.pop(name, None) or self._unanswered.pop(name, None)

    def values(self) -> Iterable[PendingT]:
        """Return all that are waited for, in the order in which they were begun."""
        return self._waiting.values()

    def overdue(self, now: int) -> list[PendingT]:
        """Return those whose time is over: they are waited for no longer."""
        return self._give_up(self._timers.take(now))

    def abandon(self) -> list[PendingT]:
        """Return all that are waited for: they are not any more."""
        return self._give_up(list(self._waiting))

    def forget(self, chosen: Callable[[PendingT], bool]) -> list[PendingT]:
        """Return those chosen that are waited for; a late answer to one of them says nothing any more."""
        for name in [name for name, what in self._unanswered.items() if chosen(what)]:
            del self._unanswered[name]
        names = [name for name, what in self._waiting.items() if chosen(what)]
        for name in names:
            self._timers.cancel(name)
        return [self._waiting.pop(name) for name in names]

    def _give_up(self, names: list[NameT]) -> list[PendingT]:
        for name in names:
            self._timers.cancel(name)
        given_up = [self._waiting.pop(name) for name in names]
        self._unanswered.update(zip(names, given_up, strict=True))
        while len(self._unanswered) > REMEMBERED:
            self._unanswered.popitem(last=False)
        return given_up

    @property
    def next_deadline(self) -> int:
        """When `overdue` has something to return; `NEVER` where nothing is waited for."""
        return self._timers.first


class NotSentError(Exception):
    """Nothing is sent of an operation, with this outcome; ``text`` says why, for people."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        self.outcome = outcome
        self.text = text
        super().__init__(text)

    def answer(self, token: int) -> Answer:
        """Return the answer to the operation of this token."""
        return Answer(token, self.outcome, f"not sent: {self.text}")
