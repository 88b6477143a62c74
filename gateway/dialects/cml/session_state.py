"""The state of a console session: its phase, its requests, and its polling.

`TRANSITIONS` is the table of states. `console_poller` and `console_calls` process
replies.
"""

from __future__ import annotations

import enum
import itertools
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.dialects.cml.codec import write_message
from gateway.dialects.cml.console_config import ConsoleConfig, Matching
from gateway.dialects.cml.console_pace import Pace, Readings, Schedule
from gateway.dialects.cml.console_tree import Known, Runs, Tree, Views
from gateway.dialects.cml.messages import InspectReply, MethodReply, ModifyReply, Request, SchemaRequest
from gateway.dialects.console import Outbox, Pending, Transitions
from gateway.dialects.session import NEVER, Effect, Send
from gateway.model.observations import SourceState
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.times import MILLISECOND, SECOND


class State(enum.Enum):
    """The phase of a console session."""

    DISCONNECTED = "disconnected"  # no link
    LEARNING = "learning"  # the schema is requested
    UNREACHED = "unreached"  # requests are not accepted, or there is no schema; it will be tried again
    WALKING = "walking"  # from object 0 down the tree; a resync is under way
    SYNCHRONISED = "synchronised"  # all visible objects are known, and polled
    DEGRADED = "degraded"  # something does not answer: the rest is polled, and walked again later


class Signal(enum.Enum):
    """The events that change the state of a console session."""

    CONNECTED = "connected"
    LEARNED = "learned"  # the schema arrived, or one from before is used
    TURNED_AWAY = "turned away"  # a request was returned, or there is no schema
    WALKED = "walked"
    FELL_SHORT = "fell short"  # an object was given up in a walk
    SILENT = "silent"  # an object, or the broker, does not answer any more
    BEGIN = "begin"  # again: requested, the broker restarted, or time to retry
    DISCONNECTED = "disconnected"


_CONNECTED: Final = tuple(state for state in State if state is not State.DISCONNECTED)

TRANSITIONS: Final = Transitions(
    {
        (State.DISCONNECTED, Signal.CONNECTED): State.LEARNING,
        (State.LEARNING, Signal.LEARNED): State.WALKING,
        (State.WALKING, Signal.WALKED): State.SYNCHRONISED,
        (State.WALKING, Signal.FELL_SHORT): State.DEGRADED,
        (State.SYNCHRONISED, Signal.SILENT): State.DEGRADED,
        **{
            (state, Signal.TURNED_AWAY): State.UNREACHED
            for state in _CONNECTED
            if state is not State.UNREACHED
        },
        **{(state, Signal.BEGIN): State.LEARNING for state in _CONNECTED},
        **{(state, Signal.DISCONNECTED): State.DISCONNECTED for state in State},
    }
)


Wanted: TypeAlias = MethodCall | ObjectModify | ObjectFetch
AboutObject: TypeAlias = InspectReply | ModifyReply | MethodReply


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A user's request, which is sent once or never.

    Attributes:
        wanted: the user's request.
        known: the object.
        request: the message to send.
        reply: the type of its answer.
        body: the encoded message.
    """

    wanted: Wanted
    known: Known
    request: Request
    reply: type[AboutObject]
    body: bytes

    def answer(self, outcome: Outcome, text: str, code: int | None = None) -> Answer:
        """Return the answer to the user's request."""
        return Answer(self.wanted.token, outcome, text, code)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A request that was sent.

    Attributes:
        known: the object; ``None`` for the schema.
        operation: the operation that it belongs to; ``None`` for the session's own requests.
        alongside: the number of requests in flight with it, including itself.
        sent: the time at which it was sent, nanoseconds.
        deadline: the time until which its answer is awaited, nanoseconds.
    """

    message_id: str
    known: Known | None
    operation: Operation | None
    alongside: int
    sent: int
    deadline: int


class Requests:
    """The open requests; their ids are a prefix and a number that is never reused."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)
        # All have the same time limit, so they are in the order of their deadlines.
        self._polls: OrderedDict[str, Asked] = OrderedDict()
        self._operations: Pending[str, Asked] = Pending()

    def __len__(self) -> int:
        return len(self._polls) + len(self._operations)

    @property
    def operations(self) -> int:
        """The number of open operations."""
        return len(self._operations)

    def next_id(self) -> str:
        """Return an id for the next request."""
        return f"{self._prefix}{next(self._numbers)}"

    def add(self, asked: Asked) -> None:
        """Wait for the answer to a request that was sent."""
        if asked.operation is None:
            self._polls[asked.message_id] = asked
        else:
            self._operations.begin(asked.message_id, asked, asked.deadline)

    def end(self, message_id: str) -> Asked | None:
        """End and return a request; ``None`` if it is neither open nor remembered."""
        return self._polls.pop(message_id, None) or self._operations.end(message_id)

    def only(self) -> Asked | None:
        """Return the only open request; of several the first, ``None`` if there is none."""
        return next(iter((*self._polls.values(), *self._operations.values())), None)

    def forget_polls(self) -> list[Asked]:
        """Remove and return the session's own requests."""
        forgotten = list(self._polls.values())
        self._polls.clear()
        return forgotten

    def overdue(self, now: int) -> list[Asked]:
        """Return the requests whose deadline has passed; they are no longer open."""
        late: list[Asked] = []
        while self._polls and next(iter(self._polls.values())).deadline <= now:
            late.append(self._polls.popitem(last=False)[1])
        return [*late, *self._operations.overdue(now)]

    def abandon(self) -> list[Asked]:
        """Return the open operations; they are no longer open, but remembered for a late answer."""
        return self._operations.abandon()

    @property
    def next_deadline(self) -> int:
        """The time at which `overdue` returns something; `NEVER` for never."""
        first = next(iter(self._polls.values())).deadline if self._polls else NEVER
        return min(first, self._operations.next_deadline)


POLLING: Final = frozenset({State.WALKING, State.SYNCHRONISED, State.DEGRADED})
"""States in which objects are inspected."""

_CONTENT_TYPE: Final = "text/xml"
_STRAYS: Final = 3
"""Number of deadlines during which a missing answer may still arrive."""


class SessionState(Outbox):
    """The state and the requests of a console session between messages.

    ``now`` is set before any call; `flush` returns the effects.

    Attributes:
        received_at: when the broker last answered; 0 for never.
        retry_at: when to begin again; `NEVER` where that is not needed.
        one_at_a_time: whether replies have no message id, so that only one request may be open.
        strays_until: the time until which an answer without id may belong to a request that was given up.
    """

    def __init__(self, config: ConsoleConfig) -> None:
        super().__init__()
        self.config = config
        self.now = 0
        self.state = State.DISCONNECTED
        self.reply_to = ""
        self.received_at = 0
        self.views: Views | None = None
        self.runs = Runs()
        self.tree = Tree(config)
        self.requests = Requests(config.message_id_prefix)
        self.one_at_a_time = config.matching is Matching.ONE_AT_A_TIME
        self.strays_until = 0
        self.pace = Pace(config.budget)
        self.schedule = Schedule(config.intervals)
        self.readings = Readings(config)
        self.retry_at = NEVER
        self.retry_reason = ""
        self._shortfalls = 0

    # The states.

    def move(self, signal: Signal) -> None:
        """Change the state; raise `LocalProtocolError` if the table has no such transition."""
        self.state = TRANSITIONS.after(self.state, signal)

    def retry_later(self, state: SourceState, reason: str) -> None:
        """Begin again after a while, longer each time; report the reason."""
        self._shortfalls += 1
        delay = self.config.retry_after(self._shortfalls)
        self.retry_at, self.retry_reason = self.now + delay, reason
        self.report_state(state, f"{reason}; next attempt in {delay // SECOND} s")

    def succeeded(self) -> None:
        """Note that a walk was complete."""
        self._shortfalls = 0
        self.retry_at = NEVER

    def connect(self, reply_to: str) -> None:
        """Begin with this key for replies; raise `LocalProtocolError` if connected."""
        self.move(Signal.CONNECTED)
        self.reply_to = reply_to
        self.one_at_a_time = self.config.matching is Matching.ONE_AT_A_TIME
        self._shortfalls = 0

    def restart_polling(self) -> None:
        """Drop the session's own requests, and begin a new tree and schedule."""
        for asked in self.requests.forget_polls():
            _free(asked)
        self.tree = Tree(self.config, self.tree.numbers())
        self.schedule = Schedule(self.config.intervals)
        self.readings = Readings(self.config)
        self.pace = Pace(self.config.budget)
        if self.one_at_a_time:
            self.pace.one_at_a_time()
        self.retry_at = NEVER

    def one_by_one(self) -> None:
        """Send one request at a time from now on, because replies have no message ids."""
        self.one_at_a_time = True
        self.pace.one_at_a_time()

    # Requests.

    def ask_schema(self) -> None:
        """Request the schema; no other request is open then."""
        body = write_message(SchemaRequest(), self.config.spelling)
        self._send_own(None, body)

    def send_operation(self, operation: Operation) -> None:
        """Send an operation, which is never repeated."""
        message_id = self.requests.next_id()
        self.pace.charge()
        self.schedule.drop(operation.known.number)
        operation.known.busy = True
        wanted = operation.wanted
        self.requests.add(Asked(message_id, operation.known, operation, 1, self.now, wanted.deadline))
        self._send(operation.body, message_id, not_after=wanted.deadline)

    def end(self, asked: Asked) -> None:
        """End a request that is answered."""
        _free(asked)
        if asked.operation is None:
            self.pace.answered(self.now - asked.sent, asked.alongside)
            if asked.known is not None:
                self.readings.answered(asked.known.class_name, self.now - asked.sent, asked.alongside)
        else:
            self._inspect_after(asked.operation)

    def miss(self, asked: Asked) -> None:
        """End a request that is not answered."""
        _free(asked)
        if asked.operation is None:
            self.pace.missed()
        else:
            self._inspect_after(asked.operation)
        if self.one_at_a_time:
            self.strays_until = self.now + _STRAYS * self.config.request_deadline

    def _inspect_after(self, operation: Operation) -> None:
        """Inspect the effect of a call soon; but not an object that the call may be ending."""
        known = operation.known
        if self.tree.find(known.number) is not known:
            return
        if isinstance(operation.wanted, MethodCall) and not self.tree.may_end(known):
            self.schedule.soon(known.number, self.now)
        else:
            self.schedule.again(known.number, known.class_name, self.now)

    def _send_own(self, known: Known | None, body: bytes) -> None:
        message_id = self.requests.next_id()
        alongside = self.pace.asked()
        deadline = self.now + self.config.request_deadline
        self.requests.add(Asked(message_id, known, None, alongside, self.now, deadline))
        self._send(body, message_id)

    def _send(self, body: bytes, message_id: str, not_after: int = 0) -> None:
        config = self.config
        self.send(
            Send(
                config.system_exchange,
                config.routing_key,
                body,
                reply_to=self.reply_to,
                content_type=_CONTENT_TYPE,
                expiration=0 if not_after else max(1, config.request_deadline // MILLISECOND),
                message_id=message_id,
                not_after=not_after,
                mandatory=True,
            )
        )

    # Effects.

    def flush(self, due: int = NEVER) -> list[Effect]:
        """Inspect objects that are due; return the effects of an event.

        ``due``: when the next waiting operation expires, or something is to be reported.
        """
        if self.state in POLLING:
            self._inspect_due()
        wake_at = min(self.requests.next_deadline, self.retry_at, due, self._next_poll())
        return self.hand_out(wake_at, self.now)

    def _inspect_due(self) -> None:
        while self.pace.may_ask(self.now) and not (self.one_at_a_time and self.requests):
            number = self.schedule.take(self.now, in_turns=self.state is not State.WALKING)
            if number is None:
                return
            known = self.tree.find(number)
            assert known is not None  # removed objects are not scheduled
            known.busy = True
            self._send_own(known, self.tree.inspection(known))

    def _next_poll(self) -> int:
        if self.state not in POLLING or (self.one_at_a_time and self.requests):
            return NEVER
        return max(self.schedule.next_due, self.pace.next_time(self.now))


def _free(asked: Asked) -> None:
    if asked.known is not None:
        asked.known.busy = False
