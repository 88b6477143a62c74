"""Calls of methods and fresh reads: which request is made next, and what consoles are answered. Without I/O.

One request at a time. A call that was begun goes on without others in between until it pauses, so that what
it read is what it changes. No change is made twice, none is begun after its deadline, and none is told as
failed of which nobody can say so.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gateway.agents.rabbitmq.broker_view import BrokerView
from gateway.agents.rabbitmq.known_objects import KnownObject
from gateway.agents.rabbitmq.management_answers import ManagementAnswers, listing_columns
from gateway.agents.rabbitmq.management_api import Document, NotFound, Refused
from gateway.agents.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    Changed,
    Lookup,
    NotSent,
    Rejected,
    Unanswered,
)
from gateway.agents.rabbitmq.methods.steps import CallFailedError, Invocation, Method, Pause, Step
from gateway.agents.rabbitmq.methods.table import METHODS
from gateway.agents.rabbitmq.object_names import ObjectName
from gateway.agents.rabbitmq.reading import ClassReader
from gateway.agents.rabbitmq.service import ConsoleService
from gateway.agents.rabbitmq.single_reads import limits_of, read_single
from gateway.dialects.effects import Called, Effect, Note, ReadAsked
from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.model.schema import Direction
from gateway.model.values import Value

SECOND = 1_000_000_000
LOOK_AGAIN = 250_000_000
"""Until the broker is asked again whether it shows what a change led to."""
SETTLING = 6 * SECOND
"""For so long it is asked: by default it renews statistics every 5 s."""
ANSWERING = SECOND
"""What is left of a call's time when its answer leaves, or its console has given up waiting."""
EVENTS_FIRST = SECOND
"""For so long the event that tells of an end is waited for: it tells more than that the object is gone."""
LIMITS_INTERVAL = 10 * SECOND
LIMITS_BUDGET = 0.01
"""Share of time that reading the limits of virtual hosts may take."""

NO_WRITER = (
    "nobody may change this broker: give the gateway an account for that, under 'writing' in the"
    " configuration of the source"
)
TOO_LATE = "not carried out: its time was over before the broker could be asked for it"

_Running: TypeAlias = Generator[Step, Json, None]


@dataclass(slots=True)
class _Task:
    """A call or read under way.

    Attributes:
        steps: what it does; sent the answer to each step.
        deadline: it must not change anything for the first time later (ns); 0 for no deadline.
        due: when it goes on (ns).
        request: what it waits to have made.
        sent: whether a change was handed out to be made.
    """

    steps: _Running
    deadline: int
    due: int
    request: BrokerRequest | None = None
    begun: bool = False
    sent: bool = False


class MethodCalls:
    """Carries calls and fresh reads out, in the order in which they came.

    Args:
        readers: the reader of each class.
        view: what is known of the broker.
        answers: takes what is read.
        service: tells consoles.
        writer: the user who changes the broker; empty where nobody does, and every method is refused.
        lockout: the virtual hosts and users whom the configuration allows to be locked out.
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        view: BrokerView,
        answers: ManagementAnswers,
        service: ConsoleService,
        writer: str,
        lockout: frozenset[str] = frozenset(),
    ) -> None:
        self._readers = readers
        self._view = view
        self._answers = answers
        self._service = service
        self._writer = writer
        self._lockout = lockout
        self._tasks: list[_Task] = []
        self._current: _Task | None = None
        self._effects: list[Effect] = []
        self._now = 0
        self._limits_due = 0

    # What consoles want.

    def called(self, call: Called, now: int) -> list[Effect]:
        """A console called a method."""
        self._now = now
        session = self._service.session
        method = METHODS.get(call.key.name, {}).get(call.method)
        target = self._found(call.key.name, call.number)
        if method is None:
            return session.method_done(call.handle, Status.NOT_IMPLEMENTED, "NotImplemented")
        if not self._writer:
            return session.method_done(call.handle, Status.FORBIDDEN, NO_WRITER)
        if target is None:
            return session.method_done(call.handle, Status.UNKNOWN_OBJECT, "UnknownObject")
        invocation = Invocation(target.name, target.created, self._named(call), self._lockout)
        self._tasks.append(_Task(self._call(call, method, invocation), call.deadline, now))
        return []

    def asked(self, read: ReadAsked, now: int) -> list[Effect]:
        """A console asked for an object, which is to be read anew."""
        self._tasks.append(_Task(self._fetch(read), 0, now))
        return []

    def heard(self, event: str, headers: Mapping[str, object], now: int) -> None:
        """An event of the broker: limits of a virtual host may have been changed, or have come with it."""
        is_set = event in {"parameter.set", "parameter.cleared"}
        if event == "vhost.created" or (is_set and headers.get("component") == "vhost-limits"):
            self._limits_due = now

    def answers_again(self, now: int) -> None:
        """The management API is of use again: nothing is known of limits."""
        self._limits_due = now

    # Whoever makes the requests.

    @property
    def due(self) -> int:
        """When `next_request` has something to do (ns)."""
        if self._current is not None:
            return 0
        return min([self._limits_due, *(task.due for task in self._tasks)])

    def advance(self, now: int) -> list[Effect]:
        """Go on with whatever can go on, until a request is to be made or nothing is due."""
        self._now = now
        if now >= self._limits_due:
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
        """The request to make now; what came of it is told by `answered` before the next."""
        task = self._current
        if task is None or task.request is None:
            return None
        task.sent |= isinstance(task.request, Change)
        return task.request

    def answered(self, answer: BrokerAnswer, now: int) -> list[Effect]:
        """What came of the request."""
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
        """Run a task to its next step: a request makes it the current one, a pause gives others a turn."""
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
        """What the steps are told of an answer.

        Raises:
            CallFailedError: it is none that they can go on with.
        """
        match answer:
            case Document(body) if isinstance(request, Lookup):
                return body
            case Changed():
                return None
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

    def _call(self, call: Called, method: Method, invocation: Invocation) -> _Running:
        status, text = Status.OK, "OK"
        try:
            self._refuse_if_late(call)
            self._refuse_if_gone(call, invocation)
            yield from self._watched(call, invocation, method.steps(invocation))
            if not (yield from self._settle(call, method, invocation)) and method.unsettled:
                text = f"{text}; {method.unsettled}"
        except CallFailedError as failure:
            status, text = failure.status, failure.text
            if status in {Status.UNKNOWN_OBJECT, Status.OUTCOME_UNKNOWN}:
                self._answers.plan.hurry(self._now, call.key.name)
            if status == Status.UNKNOWN_OBJECT:
                yield from self._look_for(invocation)
        for class_name in method.lists if status == Status.OK else ():
            self._answers.plan.hurry(self._now, class_name)
        session = self._service.session
        self._effects += session.tell(call.number, self._now)
        self._effects += session.method_done(call.handle, status, text)

    def _watched(self, call: Called, invocation: Invocation, steps: _Running) -> _Running:
        """``steps``, ended when the object comes to its end while they pause."""
        reply: Json = None
        failure: CallFailedError | None = None
        while True:
            try:
                step = steps.throw(failure) if failure is not None else steps.send(reply)
            except StopIteration:
                return
            failure = None
            try:
                reply = yield step
                if isinstance(step, Pause):
                    self._refuse_if_gone(call, invocation)
            except CallFailedError as error:
                failure = error

    def _refuse_if_late(self, call: Called) -> None:
        if self._now >= call.deadline:
            raise CallFailedError(Status.EXCEPTION, TOO_LATE)

    def _refuse_if_gone(self, call: Called, invocation: Invocation) -> None:
        if self._present(invocation.target, call.number) is None:
            raise CallFailedError(Status.UNKNOWN_OBJECT, "the object has come to its end")

    def _settle(self, call: Called, method: Method, invocation: Invocation) -> Generator[Step, Json, bool]:
        """Read the object until what is shown of it is what the method led to, or for some seconds.

        Returns:
            Whether it is.
        """
        changed = self._now
        limit = max(changed, min(changed + SETTLING, call.deadline - ANSWERING))
        while True:
            try:
                document = yield from self._read(invocation, awaited=method.ends)
            except CallFailedError as failure:
                self._effects.append(Note("not-read-after-call", f"{invocation.target}: {failure.text}"))
                return False
            known = self._present(invocation.target, call.number)
            if method.ends:
                if known is None:
                    return True
                if document is None and self._now >= min(limit, changed + EVENTS_FIRST):
                    gone = self._view.known.deleted(known.name, self._now, self._now)
                    self._effects += self._service.apply(gone, self._now)
                    return True
            elif document is None or method.settled(document):
                return True
            if self._now >= limit:
                return False
            yield Pause(LOOK_AGAIN)

    def _look_for(self, invocation: Invocation) -> _Running:
        """The broker says that the object is not there: see to it that it is not shown either."""
        try:
            yield from self._read(invocation)
        except CallFailedError:
            return  # it is listed soon

    # Reading.

    def _fetch(self, read: ReadAsked) -> _Running:
        known = self._found(read.key.name, read.number)
        failure = ""
        if known is not None:
            try:
                document = yield from self._read(Invocation(known.name))
                if document is None and self._present(known.name, read.number) is not None:
                    failure = "the broker does not list it yet"
            except CallFailedError as error:
                failure = error.text
        self._effects += self._service.session.read_done(read.handle, failure)

    def _read(
        self, invocation: Invocation, *, awaited: bool = False
    ) -> Generator[Step, Json, Mapping[str, Json] | None]:
        """Read the object anew, and take what the broker says; ``None`` where it is gone.

        ``awaited``: its end is, and an event tells more of it than that the object is not there.
        """
        name = invocation.target
        began = self._now
        reader = self._readers[name.class_name]
        document = yield from read_single(name, reader.rule.listing, listing_columns(reader))
        if name.class_name == "vhost" and document is not None:
            yield from self._read_limits(began)
        if document is None and not awaited:
            gone = self._view.known.not_found(name, began, self._now)
            self._effects += self._service.apply(gone, self._now)
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
                return  # a broker that does not answer is noticed elsewhere
        self._effects += self._service.apply(self._view.learn_limits(limits), self._now)
        self._limits_due = self._now + max(LIMITS_INTERVAL, int((self._now - began) / LIMITS_BUDGET))

    def _found(self, class_name: str, number: int) -> KnownObject | None:
        """The object that has a number; looked for among all of its class, once for each call."""
        return next((one for one in self._view.known.of_class(class_name) if one.number == number), None)

    def _present(self, name: ObjectName, number: int) -> KnownObject | None:
        """The object, as long as it is there and no other has its name."""
        known = self._view.known.get(name)
        return known if known is not None and known.number == number else None

    def _named(self, call: Called) -> dict[str, Value]:
        """The arguments by name; what is absent is left out."""
        schema = self._readers[call.key.name].schema
        method = next(one for one in schema.methods if one.name == call.method)
        inputs = (one.name for one in method.arguments if one.direction is not Direction.OUT)
        named = dict(zip(inputs, call.arguments, strict=True))
        return {name: value for name, value in named.items() if value is not None}
