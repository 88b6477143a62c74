"""Parts that console sessions of every dialect share: states, effects, timers, and pending operations."""

from __future__ import annotations

import contextlib
import enum
import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
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
        table: from state and signal to the next state; any other pair is an error of the gateway.
    """

    def __init__(self, table: Mapping[tuple[StateT, SignalT], StateT]) -> None:
        self.table = table

    def after(self, state: StateT, signal: SignalT) -> StateT:
        """Return the next state.

        Raises:
            LocalProtocolError: the table has no such transition.
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
    """Collects effects in their order, with one `Observed` before them.

    Attributes:
        observations: the observations so far, in order.
    """

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self._effects: list[Effect] = []
        self._source_state: SourceStateSeen | None = None
        self._wake_at = NEVER

    def report_state(self, state: SourceState, detail: str = "") -> None:
        """Observe the source's state if it has changed."""
        seen = SourceStateSeen(state, detail)
        if seen != self._source_state:
            self._source_state = seen
            self.observations.append(seen)

    def note(self, event: str, detail: str) -> None:
        """Add a note for operators."""
        self._effects.append(Note(event, detail))

    def send(self, send: Send) -> None:
        """Add a message to send."""
        self._effects.append(send)

    def answer(self, answer: Answer) -> None:
        """Answer an operation, after the observations of the same event."""
        self._effects.append(Answered(answer))

    def timer_expired(self) -> None:
        """Note that the timer has expired, even if the clock was set back and its time has not come."""
        self._wake_at = NEVER

    def take_effects(self) -> list[Effect]:
        """Return all effects so far, and forget them."""
        effects, self._effects = self._effects, []
        if self.observations:
            effects.insert(0, Observed(tuple(self.observations)))
            self.observations = []
        return effects

    def hand_out(self, wake_at: int, now: int) -> list[Effect]:
        """Return all effects so far, and a timer for ``wake_at`` unless an earlier one is set."""
        effects = self.take_effects()
        # Each message postpones the deadlines: an early expiry costs less than setting a timer each time.
        if wake_at != NEVER and (wake_at < self._wake_at or self._wake_at <= now):
            self._wake_at = wake_at
            effects.append(WakeAt(wake_at))
        return effects


NameT = TypeVar("NameT", bound=Hashable)
PendingT = TypeVar("PendingT")


class Timers(Generic[NameT]):
    """Deadlines by name, in nanoseconds, with the earliest one at hand.

    A postponed deadline stays in the heap until its earlier time comes, so that postponing costs next to
    nothing.
    """

    def __init__(self) -> None:
        self._times: dict[NameT, int] = {}
        # each name has an entry that is not later than its time
        self._heap: list[tuple[int, int, NameT]] = []
        self._count = 0

    def set(self, name: NameT, time: int) -> None:
        """Set the deadline ``name`` to ``time``, in place of any earlier one."""
        before = self._times.get(name, NEVER)
        self._times[name] = time
        if time < before:
            self._push(name, time)

    def cancel(self, name: NameT) -> None:
        """Remove the deadline ``name``; unknown names are ignored."""
        self._times.pop(name, None)

    @property
    def first(self) -> int:
        """The time of the earliest deadline; `NEVER` where there is none."""
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
        """Remove the deadlines that are due, and return their names in the order of their times."""
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
"""Operations without an answer that are still known, the latest ones."""


class Pending(Generic[NameT, PendingT]):
    """Requests that were sent once and wait for their answers.

    A request without an answer in time is remembered for a while: a late answer still has its outcome.
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
        """Return a request without an answer; ``None`` where it is unknown or no longer remembered."""
        return self._waiting.get(name) or self._unanswered.get(name)

    def end(self, name: NameT) -> PendingT | None:
        """Remove and return a request that is answered; ``None`` as of `find`."""
        self._timers.cancel(name)
        return self._waiting.pop(name, None) or self._unanswered.pop(name, None)

    def values(self) -> Iterable[PendingT]:
        """Return all requests that wait, in the order in which they were begun."""
        return self._waiting.values()

    def overdue(self, now: int) -> list[PendingT]:
        """Return the requests whose deadline has passed; they no longer wait."""
        return self._give_up(self._timers.take(now))

    def abandon(self) -> list[PendingT]:
        """Return all requests that wait; they no longer do."""
        return self._give_up(list(self._waiting))

    def forget(self, chosen: Callable[[PendingT], bool]) -> list[PendingT]:
        """Return the chosen requests that wait, and forget them: a late answer to one of them is ignored."""
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
        """The time at which `overdue` returns something; `NEVER` where no request waits."""
        return self._timers.first


class NotSentError(Exception):
    """An operation cannot be sent, and has this outcome; ``text`` is the reason, for people."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        self.outcome = outcome
        self.text = text
        super().__init__(text)

    def answer(self, token: int) -> Answer:
        """Return the answer to the operation of this token."""
        return Answer(token, self.outcome, f"not sent: {self.text}")


class UnsentError(Exception):
    """An internal error, its cause, has ended an operation of which nothing is to be sent."""


@contextlib.contextmanager
def sending_last() -> Iterator[None]:
    """Raise any error of the block, whose last step queues a request to be sent, as an `UnsentError`."""
    try:
        yield
    except Exception as error:
        raise UnsentError(str(error)) from error
