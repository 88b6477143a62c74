"""Calls of methods and fresh reads: the next request to send, and the processing of its answer. No I/O.

One request is sent at a time. A call that has begun proceeds without others in between until it pauses, so
that the values that it has read are current when it changes them. No change is made twice, none is begun
after its deadline, and none is reported as failed unless that is certain.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gateway.dialects.qmf.console_calls import OUTCOMES
from gateway.dialects.qmf.messages import FAILED, Status
from gateway.dialects.session import Answered, Effect, Note
from gateway.mapping.paths import Json
from gateway.model.operations import Answer, MethodCall, ObjectFetch, Outcome
from gateway.model.schema import Argument, Direction
from gateway.model.texts import peer_line
from gateway.model.times import SECOND
from gateway.model.validation import validate
from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.broker_view import BrokerView
from gateway.sources.rabbitmq.cluster import listing_columns
from gateway.sources.rabbitmq.events import BrokerEvent, Deleted
from gateway.sources.rabbitmq.management_answers import ManagementAnswers
from gateway.sources.rabbitmq.management_api import Document, NotFound, Refused
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    Changed,
    Lookup,
    NotSent,
    PendingDeletions,
    Purge,
    Purged,
    Rejected,
    Unanswered,
)
from gateway.sources.rabbitmq.method_steps import (
    CallFailedError,
    Invocation,
    Method,
    Pause,
    Result,
    ResultSteps,
    Step,
    limits_of,
    read_single,
)
from gateway.sources.rabbitmq.methods import METHODS
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import number_of
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.source_events import BrokerEventReceived

LOOK_AGAIN = 250_000_000
"""Nanoseconds between two reads that check whether the broker shows the result of a change."""
SETTLING = 6 * SECOND
"""Nanoseconds for which the broker is read; by default it renews statistics every 5 s."""
ANSWERING = SECOND
"""Nanoseconds before a call's deadline at which it is answered, while its console still waits."""
EVENTS_FIRST = SECOND
"""Nanoseconds for which the event of an end is awaited; it reports more than that the object is gone."""
MAX_RUNNING = 1_000
"""Maximum number of calls and fresh reads without an answer; more are refused."""
EVENT_DELAY = 5 * SECOND
"""Nanoseconds for which the event is awaited that says who deleted an object that is gone."""
DELETION_TIMEOUT = 24 * 3600 * SECOND
"""Nanoseconds for which an end is awaited after a deletion that may have been made."""
LIMITS_INTERVAL = 10 * SECOND
LIMITS_BUDGET = 0.01
"""Share of time that reading the limits of virtual hosts may take."""

NO_WRITER = (
    "no account may change this broker: give the gateway one, under 'writing' in the"
    " configuration of the source"
)
TOO_LATE = "not carried out: its time was over before the broker could be asked for it"
NO_ANSWER = "no answer came in time"

_Running: TypeAlias = Generator[Step, Json, None]


@dataclass(slots=True)
class _Task:
    """A call or read in progress.

    Attributes:
        steps: its steps; each is sent the answer to the one before.
        deadline: after this it must not begin to change anything (ns); 0 for no deadline.
        due: when it continues (ns).
        request: the request whose answer it awaits.
        sent: a change was handed out.
    """

    steps: _Running
    deadline: int
    due: int
    request: BrokerRequest | None = None
    begun: bool = False
    sent: bool = False


class MethodCalls:
    """Carries out calls and fresh reads, in the order in which they arrive.

    Args:
        readers: the reader of each class.
        view: the known objects of the broker.
        answers: takes the objects that were read.
        stream: publishes what changes.
        writer: the user who changes the broker; empty for none, and every method is refused.
        lockout: the virtual hosts and users whom the configuration allows to be locked out.
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        view: BrokerView,
        answers: ManagementAnswers,
        stream: ObservationStream,
        writer: str,
        lockout: frozenset[str] = frozenset(),
    ) -> None:
        self._readers = readers
        self._view = view
        self._answers = answers
        self._stream = stream
        self._writer = writer
        self._lockout = lockout
        self._tasks: list[_Task] = []
        self._current: _Task | None = None
        self._effects: list[Effect] = []
        self._now = 0
        self._limits_due = 0
        self._deadlines: dict[int, int] = {}
        self._pending_deletions = PendingDeletions(writer)

    # Requests of users.

    def precheck(self, call: MethodCall, now: int) -> Answer | None:
        """Return why a call cannot be carried out, if that is known without the broker; else ``None``."""
        return self._invalid(call) or self._refusal(call) or self._no_room(call, now)

    def _invalid(self, call: MethodCall) -> Answer | None:
        """Return the answer to a call that does not match the schema; ``None`` if it does."""
        inputs = self._inputs(call)
        if inputs is None:
            text = f"not sent: {call.key} has no method {call.method!r}"
            return Answer(call.token, Outcome.UNKNOWN_ELEMENT, text)
        if len(inputs) != len(call.arguments):
            text = f"not sent: {call.method} takes {len(inputs)} arguments, {len(call.arguments)} were given"
            return Answer(call.token, Outcome.WRONG_VALUE, text)
        for argument, value in zip(inputs, call.arguments, strict=True):
            wrong = None if value is None else validate(argument, value)
            if wrong is not None:
                return Answer(call.token, wrong.outcome, f"not sent: {argument.name}: {wrong.text}")
        return None

    def _refusal(self, call: MethodCall) -> Answer | None:
        """Return why a valid call cannot be carried out; ``None`` if it can."""
        if call.method not in METHODS.get(call.key.name, {}):
            return _answered(call.token, Status.NOT_IMPLEMENTED, "NotImplemented").answer
        if not self._writer:
            return _answered(call.token, Status.FORBIDDEN, NO_WRITER).answer
        if self._found(call.key.name, call.native_id) is None:
            return _answered(call.token, Status.UNKNOWN_OBJECT, "UnknownObject").answer
        return None

    def begin(self, operation: MethodCall | ObjectFetch, now: int) -> list[Effect]:
        """Begin a call or a fresh read, or answer at once why it is not begun."""
        self._now = now
        if isinstance(operation, ObjectFetch):
            refusal = self._no_room(operation, now)
        else:
            refusal = self.precheck(operation, now)
        if refusal is not None:
            return [Answered(refusal)]
        if isinstance(operation, ObjectFetch):
            task = _Task(self._fetch(operation), 0, now)
        else:
            method = METHODS[operation.key.name][operation.method]
            target = self._found(operation.key.name, operation.native_id)
            assert target is not None  # `precheck` has found it
            invocation = Invocation(target.name, target.created, self._named(operation), self._lockout)
            task = _Task(self._call(operation, target, method, invocation), operation.deadline, now)
        self._deadlines[operation.token] = operation.deadline
        self._tasks.append(task)
        return []

    @property
    def wake_at(self) -> int:
        """The time at which `overdue` must be called (ns); 0 if it need not."""
        return min(self._deadlines.values(), default=0)

    def overdue(self, now: int) -> list[Effect]:
        """Answer the operations whose time is over: their outcome is unknown. Another answer may follow."""
        late = [token for token, deadline in self._deadlines.items() if deadline <= now]
        for token in late:
            del self._deadlines[token]
        return [Answered(Answer(token, Outcome.UNKNOWN, NO_ANSWER)) for token in late]

    def abandon(self, reason: str) -> list[Effect]:
        """Answer all waiting operations with an unknown outcome and ``reason``, and do nothing more."""
        waiting = list(self._deadlines)
        self._deadlines.clear()
        return [Answered(Answer(token, Outcome.UNKNOWN, reason)) for token in waiting]

    def _no_room(self, request: MethodCall | ObjectFetch, now: int) -> Answer | None:
        if request.deadline <= now:
            return Answer(request.token, Outcome.NOT_NOW, "not sent: no time was left for it")
        if len(self._tasks) >= MAX_RUNNING:
            text = f"not sent: {MAX_RUNNING} operations are under way"
            return Answer(request.token, Outcome.NOT_NOW, text)
        return None

    def _inputs(self, call: MethodCall) -> list[Argument] | None:
        """Return the arguments that a method takes; ``None`` if there is no such method."""
        reader = self._readers.get(call.key.name)
        methods = reader.schema.methods if reader is not None else ()
        method = next((one for one in methods if one.name == call.method), None)
        if method is None:
            return None
        return [one for one in method.arguments if one.direction is not Direction.OUT]

    def broker_event(self, received: BrokerEventReceived, event: BrokerEvent, now: int) -> None:
        """Notice that limits of a virtual host were changed, or that an object was deleted on request.

        Args:
            received: the message.
            event: the event in it.
            now: the time (ns).
        """
        key, headers = received.key, received.headers
        is_set = key in {"parameter.set", "parameter.cleared"}
        if key == "vhost.created" or (is_set and headers.get("component") == "vhost-limits"):
            self._limits_due = now
        if isinstance(event, Deleted):
            self._pending_deletions.ended(event.name, headers.get("user_who_performed_action"))

    def answers_again(self, now: int) -> None:
        """Read the limits again: the management API answers again."""
        self._limits_due = now

    # For the runner, which sends the requests.

    @property
    def due(self) -> int:
        """The time at which `next_request` has something to do (ns)."""
        if self._current is not None:
            return 0
        limits_due = 0 if self._view.hosts.limits_wanted else self._limits_due
        return min([limits_due, *(task.due for task in self._tasks)])

    def advance(self, now: int) -> list[Effect]:
        """Run all tasks that are due, until one has a request to send or nothing is due."""
        self._now = now
        if now >= self._limits_due or self._view.hosts.limits_wanted:
            self._view.hosts.limits_wanted = False
            self._limits_due = now + LIMITS_INTERVAL
            self._tasks.append(_Task(self._read_limits(now), 0, now))
        while self._current is None:
            ready = [task for task in self._tasks if task.due <= now]
            if not ready:
                break
            task = min(ready, key=lambda one: one.due)
            self._tasks.remove(task)
            self._go_on(task, None)
        return self._taken()

    def next_request(self) -> BrokerRequest | None:
        """Return the request to send now; its answer must be passed to `answered` before the next."""
        task = self._current
        if task is None or task.request is None:
            return None
        task.sent |= isinstance(task.request, Change | Purge)
        return task.request

    def answered(self, answer: BrokerAnswer, now: int) -> list[Effect]:
        """Take the answer to the request."""
        self._now = now
        task, self._current = self._current, None
        if task is None or task.request is None:
            return []
        request, task.request = task.request, None
        try:
            reply = self._reply(request, answer)
        except CallFailedError as failure:
            self._go_on(task, None, failure)
        else:
            self._go_on(task, reply)
        return self._taken()

    def _taken(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _go_on(self, task: _Task, reply: Json, failure: CallFailedError | None = None) -> None:
        """Run a task to its next step: a request makes it the current task, a pause gives others a turn."""
        try:
            if task.begun and failure is None and self._is_late(task):
                failure = CallFailedError(Status.EXCEPTION, TOO_LATE)
            step = self._step(task, reply) if failure is None else task.steps.throw(failure)
        except StopIteration:
            return
        if isinstance(step, Pause):
            task.due = self._now + step.duration
            self._tasks.append(task)
        else:
            task.request = step
            self._current = task

    def _step(self, task: _Task, reply: Json) -> Step:
        if not task.begun:
            task.begun = True
            return next(task.steps)
        return task.steps.send(reply)

    def _is_late(self, task: _Task) -> bool:
        return bool(task.deadline) and not task.sent and self._now >= task.deadline

    def _reply(self, request: BrokerRequest, answer: BrokerAnswer) -> Json:
        """Return the part of an answer that is passed to the steps.

        Raises:
            CallFailedError: the steps cannot continue with it.
        """
        match answer:
            case Document(body) if isinstance(request, Lookup):
                return body
            case Changed():
                return None
            case Purged(messages):
                return messages
            case NotFound():
                if isinstance(request, Lookup):
                    return None
                raise CallFailedError(Status.UNKNOWN_OBJECT, "the broker knows no such object")
            case Refused():
                raise CallFailedError(Status.FORBIDDEN, self._refusal_text(request, answer))
            case Rejected(reason):
                raise CallFailedError(Status.EXCEPTION, reason)
            case NotSent(reason):
                text = f"not carried out: the broker's management API cannot be reached ({reason})"
                raise CallFailedError(Status.EXCEPTION, text)
            case Unanswered(reason):
                text = f"no answer of the broker ({reason}): it may have been carried out"
                raise CallFailedError(Status.OUTCOME_UNKNOWN, text)
        reason = getattr(answer, "reason", "it answers something else")
        raise CallFailedError(Status.EXCEPTION, f"not carried out: the broker cannot be read ({reason})")

    def _refusal_text(self, request: BrokerRequest, refusal: Refused) -> str:
        if isinstance(request, Lookup) and not request.as_writer:
            return f"the broker may not be read ({refusal.reason})"
        if refusal.login:
            return (
                f"the management API refuses user {self._writer!r} ({refusal.reason}): check name and"
                " password under 'writing'"
            )
        return (
            f"user {self._writer!r} may not do that ({refusal.reason}): it needs the tag 'administrator', and"
            " for queues and exchanges a permission in their virtual host"
        )

    # Calls.

    def _call(
        self, call: MethodCall, target: KnownObject, method: Method, invocation: Invocation
    ) -> _Running:
        status, text = Status.OK, "OK"
        outputs: Values = ()
        try:
            self._begin(call, target, method)
            result = yield from self._watched(target, method.steps(invocation))
            if result is not None:
                text, outputs = result.text, result.outputs
            if result is not None and result.confirmed:
                self._end(_answered(call.token, status, text, outputs))
                # The caller has the broker's confirmation; the object is read until it shows the same.
                yield from self._settle(call, target, method, invocation)
                return
            if not (yield from self._settle(call, target, method, invocation)) and method.unsettled:
                text = f"{text}; {method.unsettled}"
        except CallFailedError as failure:
            status, text = failure.status, failure.text
            if status in {Status.UNKNOWN_OBJECT, Status.OUTCOME_UNKNOWN}:
                self._answers.plan.poll_soon(self._now, call.key.name)
            if status == Status.UNKNOWN_OBJECT:
                yield from self._look_for(invocation)
            if status == Status.OUTCOME_UNKNOWN and method.ends:
                # Without a status: an agent sends nothing now; the answer to its console follows.
                self._end(Answered(Answer(call.token, Outcome.UNKNOWN, peer_line(text))))
                if (yield from self._ends_later(target)):
                    status, text = Status.OK, f"it is gone; before: {text}"
        for class_name in method.lists if status == Status.OK else ():
            self._answers.plan.poll_soon(self._now, class_name)
        self._end(_answered(call.token, status, text, outputs))

    def _ends_later(self, target: KnownObject) -> Generator[Step, Json, bool]:
        """Wait for the end of an object; return whether an event reported that the gateway's user deleted it.

        A cluster without a majority deletes it when it has one again. No request is sent meanwhile.
        """
        pending = self._pending_deletions.follow(target.name)
        if pending is None:
            return False
        until = self._now + DELETION_TIMEOUT
        while self._now < until and not pending.is_ours:
            yield Pause(SECOND)
            if self._present(target) is None:
                until = min(until, self._now + EVENT_DELAY)
        self._pending_deletions.forget(pending)
        return pending.is_ours

    def _end(self, answered: Answered) -> None:
        """Answer, after what the call or read caused."""
        self._deadlines.pop(answered.answer.token, None)
        self._effects.append(answered)

    def _watched(self, target: KnownObject, steps: ResultSteps) -> Generator[Step, Json, Result | None]:
        """Run ``steps``, and stop them when the object ends while they pause."""
        reply: Json = None
        failure: CallFailedError | None = None
        while True:
            try:
                step = steps.throw(failure) if failure is not None else steps.send(reply)
            except StopIteration as end:
                result: Result | None = end.value
                return result
            failure = None
            try:
                reply = yield step
                if isinstance(step, Pause):
                    self._refuse_if_gone(target)
            except CallFailedError as error:
                failure = error

    def _begin(self, call: MethodCall, target: KnownObject, method: Method) -> None:
        if self._now >= call.deadline:
            raise CallFailedError(Status.EXCEPTION, TOO_LATE)
        self._refuse_if_gone(target)
        if method.ends:
            self._pending_deletions.asked(target.name)

    def _refuse_if_gone(self, target: KnownObject) -> None:
        if self._present(target) is None:
            raise CallFailedError(Status.UNKNOWN_OBJECT, "the object has come to its end")

    def _settle(
        self, call: MethodCall, target: KnownObject, method: Method, invocation: Invocation
    ) -> Generator[Step, Json, bool]:
        """Read the object until it shows the result of the method, or for some seconds.

        Returns:
            Whether it shows the result.
        """
        changed = self._now
        limit = max(changed, min(changed + SETTLING, call.deadline - ANSWERING))
        while True:
            try:
                document = yield from self._read(invocation, awaited=method.ends)
            except CallFailedError as failure:
                self._effects.append(Note("not-read-after-call", f"{invocation.target}: {failure.text}"))
                return False
            known = self._present(target)
            if method.ends:
                if known is None:
                    return True
                if document is None and self._now >= min(limit, changed + EVENTS_FIRST):
                    gone = self._view.known.deleted(known.name, self._now, self._now, by_event=False)
                    self._effects += self._stream.apply(gone)
                    return True
            elif document is None or method.settled(document):
                return True
            if self._now >= limit:
                return False
            yield Pause(LOOK_AGAIN)

    def _look_for(self, invocation: Invocation) -> _Running:
        """Read an object that the broker denies, so that it is not shown any longer."""
        try:
            yield from self._read(invocation)
        except CallFailedError:
            return  # it is listed soon

    # Reading.

    def _fetch(self, fetch: ObjectFetch) -> _Running:
        target = self._found(fetch.key.name, fetch.native_id)
        failure = ""
        if target is not None:
            try:
                document = yield from self._read(Invocation(target.name))
                if document is None and self._present(target) is not None:
                    failure = "the broker does not list it yet"
            except CallFailedError as error:
                failure = error.text
        known = self._present(target) if target is not None else None
        if failure:
            answer = Answer(fetch.token, Outcome.REMOTE_FAILURE, peer_line(failure), FAILED)
        elif known is None:
            answer = Answer(fetch.token, Outcome.OBJECT_GONE, "the broker has no such object", 0)
        else:
            self._effects += self._stream.current(known)
            answer = Answer(fetch.token, Outcome.APPLIED, "", 0)
        self._end(Answered(answer))

    def _read(
        self, invocation: Invocation, *, awaited: bool = False
    ) -> Generator[Step, Json, Mapping[str, Json] | None]:
        """Read the object again, and apply the answer; return ``None`` if it is gone.

        ``awaited``: its end is expected; an event will report more than that the object is gone.
        """
        name = invocation.target
        began = self._now
        reader = self._readers[name.class_name]
        document = yield from read_single(name, reader.rule.listing, listing_columns(reader))
        if name.class_name == "vhost" and document is not None:
            yield from self._read_limits(began)
        late = self._answers.plan.is_holding(self._now)  # events that wait report the end with its time
        if document is None and not awaited and not late:
            gone = self._view.not_found(name, began, self._now)
            self._effects += self._stream.apply(gone)
        elif document is not None:
            self._effects += self._answers.single(name.class_name, document, began, self._now)
        return document

    def _read_limits(self, began: int) -> Generator[Step, Json, None]:
        """Read the limits of all virtual hosts, of which each has few or none."""
        limits = None
        try:
            limits = limits_of((yield Lookup("vhost-limits")))
        except CallFailedError as failure:
            if failure.status != Status.FORBIDDEN:
                return  # `ManagementAnswers` notices that the broker does not answer
        self._effects += self._stream.apply(self._view.learn_limits(limits))
        self._limits_due = self._now + max(LIMITS_INTERVAL, int((self._now - began) / LIMITS_BUDGET))

    def _found(self, class_name: str, native: str) -> KnownObject | None:
        """Return the object of a native id, by a search in its class, once for each call."""
        number = number_of(native)
        if number is None or class_name not in self._readers:
            return None
        return next((one for one in self._view.known.of_class(class_name) if one.number == number), None)

    def _present(self, target: KnownObject) -> KnownObject | None:
        """Return the object as it is known now; ``None`` if it ended, even if another has its name."""
        known = self._view.known.get(target.name)
        return known if known is not None and known.number == target.number else None

    def _named(self, call: MethodCall) -> dict[str, Value]:
        """Return the arguments by name, without absent ones, and without optional ones that are empty.

        AM2 cannot distinguish an absent argument from an empty one, and a call means the same either way.
        """
        inputs = self._inputs(call) or []
        return {
            argument.name: value
            for argument, value in zip(inputs, call.arguments, strict=True)
            if value is not None and not (argument.optional and not value)
        }


def _answered(token: int, status: Status, text: str, outputs: Values = ()) -> Answered:
    outcome = OUTCOMES.get(status, Outcome.REMOTE_FAILURE)
    return Answered(Answer(token, outcome, peer_line(text), int(status), outputs))
