"""Calls of methods and fresh reads: the next request to send, and the processing of its answer. No I/O.

One request is sent at a time. A call that has begun proceeds without others in between until it pauses, so
that the values that it has read are current when it changes them. No change is made twice, none is begun
after its deadline, and none is reported as failed unless that is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial

from gateway.dialects.qmf.statuses import FAILED, OUTCOMES, Status
from gateway.dialects.session import Answered, Effect, Note
from gateway.mapping.paths import Json
from gateway.model.operations import NOT_READ, Answer, MethodCall, ObjectFetch, Outcome
from gateway.model.texts import error_line, peer_line
from gateway.model.times import SECOND
from gateway.model.values import Values
from gateway.sources.rabbitmq.broker_view import BrokerView
from gateway.sources.rabbitmq.change_proofs import (
    CERTAIN_AFTER,
    COUNTED_AFTER,
    EVENTS_FIRST,
    FIRST_READING,
    FOLLOWED,
    LAST_PAUSE,
    MAX_PENDING,
    MEASURED_AFTER,
    MEASURING,
    PROOF_PAUSE,
    SETTLING,
    AwaitedEffect,
    AwaitedEnds,
)
from gateway.sources.rabbitmq.cluster import listing_columns
from gateway.sources.rabbitmq.events import BrokerEvent, Deleted
from gateway.sources.rabbitmq.management_answers import ManagementAnswers
from gateway.sources.rabbitmq.management_api import PAUSE_DEMANDED, Unavailable
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    Lookup,
    NotSent,
    Purge,
)
from gateway.sources.rabbitmq.method_steps import (
    CallFailedError,
    Invocation,
    Method,
    Pause,
    Result,
    ResultSteps,
    Running,
    Step,
    Task,
    check_missing,
    invalid_call,
    limits_of,
    named_arguments,
    read_single,
    reply_to,
)
from gateway.sources.rabbitmq.methods import METHODS
from gateway.sources.rabbitmq.object_lives import EVENT_DELAY, KnownObject
from gateway.sources.rabbitmq.object_names import number_of
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.path_proof import path_of
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.source_events import BrokerEventReceived

LOOK_AGAIN = 250_000_000
"""Nanoseconds between two reads that check whether the broker shows the result of a change."""
ANSWERING = SECOND
"""Nanoseconds before a call's deadline at which it is answered, while its console still waits."""
MAX_RUNNING = 1_000
"""Maximum number of calls and fresh reads without an answer; more are refused."""
LIMITS_INTERVAL = 10 * SECOND
LIMITS_BUDGET = 0.01
"""Share of time that reading the limits of virtual hosts may take."""

NO_WRITER = (
    "no account may change this broker: give the gateway one, under 'writing' in the"
    " configuration of the source"
)
TOO_LATE = "not carried out: its time was over before the broker could be asked for it"
NO_ANSWER = "no answer came in time"


class MethodCalls:
    """Carries out calls and fresh reads, in the order in which they arrive.

    Args:
        readers: the reader of each class.
        view: the known objects of the broker.
        answers: takes the objects that were read.
        stream: publishes what changes.
        writer: the user who changes the broker; empty for none, and every method is refused.
        lockout: the virtual hosts and users whom the configuration allows to be locked out.
        changes_wait: returns whether the broker may carry out changes much later than it answers.
        received_until: returns until when all events were received (ns).
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        view: BrokerView,
        answers: ManagementAnswers,
        stream: ObservationStream,
        writer: str,
        lockout: frozenset[str] = frozenset(),
        changes_wait: Callable[[], bool] = lambda: False,
        received_until: Callable[[], int] = lambda: 0,
    ) -> None:
        self._readers = readers
        self._view = view
        self._answers = answers
        self._stream = stream
        self._writer = writer
        self._lockout = lockout
        self._tasks: list[Task] = []
        self._current: Task | None = None
        self._effects: list[Effect] = []
        self._now = 0
        self._limits_due = 0
        self._deadlines: dict[int, int] = {}
        self._changes_wait = changes_wait
        self._received_until = received_until
        self._ends = AwaitedEnds(writer)
        self._followed = 0

    # Requests of users.

    def precheck(self, call: MethodCall, now: int) -> Answer | None:
        """Return why a call cannot be carried out, if that is known without the broker; else ``None``."""
        reader = self._readers.get(call.key.name)
        return invalid_call(reader, call) or self._refusal(call) or self._no_room(call, now)

    def _refusal(self, call: MethodCall) -> Answer | None:
        """Return why a valid call cannot be carried out; ``None`` if it can."""
        if call.method not in METHODS.get(call.key.name, {}):
            return _answered(call.token, Status.NOT_IMPLEMENTED, "NotImplemented").answer
        if not self._writer:
            return _answered(call.token, Status.FORBIDDEN, NO_WRITER).answer
        target = self._found(call.key.name, call.native_id)
        if target is None:
            return self._unknown(call.token)
        if self._view.same_names.is_ambiguous(target.name):
            text = "nothing was sent: several connections have this name, and the management API closes any"
            return _answered(call.token, Status.EXCEPTION, f"{text} of them").answer
        fault = self._answers.visibility.paths.fault(path_of(*target.name.plain.parts))
        if fault and all(target.name.parts):
            return _answered(call.token, Status.EXCEPTION, f"not sent: {fault}").answer
        return None

    def _unknown(self, token: int) -> Answer:
        """Return the answer about an object that is not known: it is gone only if everything was read."""
        if self._answers.visibility.was_complete:
            return _answered(token, Status.UNKNOWN_OBJECT, "UnknownObject").answer
        return Answer(token, Outcome.SOURCE_DOWN, f"not sent: {NOT_READ}")

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
            task = Task(self._fetch(operation), 0, now, operation.token)
        else:
            method = METHODS[operation.key.name][operation.method]
            target = self._found(operation.key.name, operation.native_id)
            assert target is not None  # `precheck` has found it
            arguments = named_arguments(self._readers.get(operation.key.name), operation)
            invocation = Invocation(target.name, target.created, arguments, self._lockout)
            steps = self._call(operation, target, method, invocation)
            task = Task(steps, operation.deadline, now, operation.token)
        self._deadlines[operation.token] = operation.deadline
        self._tasks.append(task)
        return []

    @property
    def wake_at(self) -> int:
        """The time at which `overdue` must be called (ns); 0 if it need not."""
        return min(self._deadlines.values(), default=0)

    def overdue(self, now: int) -> list[Effect]:
        """Answer the operations whose time is over.

        A call of which nothing was sent is not carried out. The outcome of others is unknown, and another
        answer may follow.
        """
        for task in [one for one in self._tasks if one.deadline and not one.sent]:
            if self._deadlines.get(task.token, now + 1) <= now:
                self._drop(task, _answered(task.token, Status.EXCEPTION, TOO_LATE))
        for token in [token for token, deadline in self._deadlines.items() if deadline <= now]:
            self._end(Answered(Answer(token, Outcome.UNKNOWN, NO_ANSWER)))
        return self._taken()

    def _hindered(self) -> list[Task]:
        """Return the operations of which nothing was sent, and to which a demanded pause leaves no time."""
        until = self._answers.plan.demanded_until
        latest = until + ANSWERING
        unsent = (task for task in self._tasks if not task.sent) if until else ()
        return [task for task in unsent if self._deadlines.get(task.token, latest) < latest]

    def _drop(self, task: Task, answered: Answered) -> None:
        """Answer an operation of which nothing was sent, and do nothing more for it."""
        self._tasks.remove(task)
        task.steps.close()
        self._end(answered)

    def abandon(self, reason: str) -> list[Effect]:
        """Answer all waiting operations, and do nothing more for them: the source ends for this reason.

        The outcome of those of which something was sent is unknown.
        """
        under_way = self._tasks if self._current is None else [self._current, *self._tasks]
        unsent = {task.token for task in under_way if not task.sent}
        for token in list(self._deadlines):
            answer = Answer(token, Outcome.UNKNOWN, f"not known whether it was carried out: {reason}")
            if token in unsent:
                answer = Answer(token, Outcome.SOURCE_DOWN, f"not sent: {reason}")
            self._end(Answered(answer))
        self._tasks.clear()
        self._current = None
        return self._taken()

    def _no_room(self, request: MethodCall | ObjectFetch, now: int) -> Answer | None:
        if request.deadline <= now:
            return Answer(request.token, Outcome.NOT_NOW, "not sent: no time was left for it")
        if request.deadline - ANSWERING < self._answers.plan.demanded_until:
            return Answer(request.token, Outcome.NOT_NOW, f"not sent: {PAUSE_DEMANDED}")
        if len(self._tasks) >= MAX_RUNNING:
            text = f"not sent: {MAX_RUNNING} operations are under way"
            return Answer(request.token, Outcome.NOT_NOW, text)
        return None

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
        self._ends.was_set(key, headers)
        if isinstance(event, Deleted):
            self._ends.ended(event.name, headers.get("user_who_performed_action"))

    def answers_again(self, now: int) -> None:
        """Read the limits again: the management API answers again."""
        self._limits_due = now

    # For the runner, which sends the requests.

    @property
    def due(self) -> int:
        """The time at which `next_request`, or a demanded pause that begins, has something to do (ns)."""
        if self._current is not None or self._hindered():
            return 0
        limits_due = 0 if self._view.hosts.limits_wanted else self._limits_due
        soonest = min([limits_due, *(task.due for task in self._tasks)])
        return max(soonest, self._answers.plan.demanded_until)

    def advance(self, now: int) -> list[Effect]:
        """Run all tasks that are due, until one has a request to send or nothing is due."""
        self._now = now
        for task in self._hindered():
            self._drop(task, Answered(Answer(task.token, Outcome.NOT_NOW, f"not sent: {PAUSE_DEMANDED}")))
        if now < self._answers.plan.demanded_until:
            return self._taken()
        if now >= self._limits_due or self._view.hosts.limits_wanted:
            self._view.hosts.limits_wanted = False
            self._limits_due = now + LIMITS_INTERVAL
            self._tasks.append(Task(self._read_limits(now), 0, now))
        while self._current is None:
            ready = [task for task in self._tasks if task.due <= now]
            if not ready:
                break
            task = min(ready, key=lambda one: one.due)
            self._tasks.remove(task)
            if task.request is not None:  # it is sent again, after a pause that was demanded
                self._current = task
            else:
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
        if self._waits(task, answer):
            return []
        request, task.request = task.request, None
        try:
            reply = reply_to(request, answer, self._writer)
        except CallFailedError as failure:
            self._go_on(task, None, failure)
        else:
            self._go_on(task, reply)
        return self._taken()

    def _waits(self, task: Task, answer: BrokerAnswer) -> bool:
        """Return whether a request is sent again later, because an answer demands a pause.

        That is so if nothing was changed, and the operation has the time.
        """
        pause = answer.pause if isinstance(answer, Unavailable | NotSent) else 0
        if not pause:
            return False
        until = self._now + pause
        self._answers.plan.demand(until)
        # One that was answered, and only looks for its effect, has all the time; what is repeated needs none.
        deadline = self._deadlines.get(task.token, FOLLOWED + until) if task.token else 0
        if until > deadline - ANSWERING:
            return False
        task.due = until
        self._tasks.append(task)
        return True

    def _taken(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _go_on(self, task: Task, reply: Json, failure: CallFailedError | None = None) -> None:
        """Run a task to its next step: a request makes it the current task, a pause gives others a turn."""
        try:
            if task.begun and failure is None and self._is_late(task):
                failure = CallFailedError(Status.EXCEPTION, TOO_LATE)
            step = self._step(task, reply) if failure is None else task.steps.throw(failure)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001  an error in one operation is no end of the source
            self._failed(task, error)
            return
        if isinstance(step, Pause):
            task.due = self._now + step.duration
            self._tasks.append(task)
        else:
            task.request = step
            self._current = task

    def _failed(self, task: Task, error: Exception) -> None:
        """Answer an operation that an internal error has ended."""
        text = f"internal error {type(error).__name__}"
        self._effects.append(Note("operation-failed", f"{text}: {error_line(error)}"))
        if task.token:
            status = Status.OUTCOME_UNKNOWN if task.sent else Status.EXCEPTION
            after = "it may have been carried out" if task.sent else "nothing was sent"
            self._end(_answered(task.token, status, f"{text}: {after}; see the log"))

    def _step(self, task: Task, reply: Json) -> Step:
        if not task.begun:
            task.begun = True
            return next(task.steps)
        return task.steps.send(reply)

    def _is_late(self, task: Task) -> bool:
        return bool(task.deadline) and not task.sent and self._now >= task.deadline

    # Calls.

    def _call(self, call: MethodCall, target: KnownObject, method: Method, invocation: Invocation) -> Running:
        status, text = Status.OK, "OK"
        outputs: Values = ()
        failure: CallFailedError | None = None
        end = self._ends.await_end(target.name, target.number, is_to_end=method.ends)
        are_received = not self._answers.visibility.events_missing
        invocation = replace(invocation, user=self._writer if are_received else "", settings=end.settings)
        awaited = AwaitedEffect(target, method, invocation, end, self._now)
        try:
            try:
                self._begin(call, target)
                result = yield from self._watched(target, method.steps(invocation))
            except CallFailedError as error:
                failure, result = error, None
                status, text = error.status, error.text
            if result is not None:
                text, outputs = result.text, result.outputs
            if result is not None and result.confirmed:
                self._end(_answered(call.token, status, text, outputs))
                # The caller has the broker's confirmation; the object is read until it shows the same.
                yield from self._shown(awaited, call.deadline)
                return
            if (method.ends or method.empties) and (failure is None or failure.sent):
                status, text = yield from self._proved(call, awaited, failure, text)
            elif failure is None:
                yield from self._read_back(invocation)
        finally:
            self._ends.forget(awaited.end)
        if status in {Status.UNKNOWN_OBJECT, Status.OUTCOME_UNKNOWN}:
            self._answers.plan.poll_soon(self._now, call.key.name)
        if status == Status.UNKNOWN_OBJECT:
            found = yield from self._read_back(invocation)  # so that it is not shown any longer
            if found and failure is not None and not failure.sent and self._present(target) is not None:
                status, text = Status.EXCEPTION, f"nothing was sent: {found}"
        for class_name in method.lists if status == Status.OK else ():
            self._answers.plan.poll_soon(self._now, class_name)
        self._end(_answered(call.token, status, text, outputs))
        yield from self._figures_follow(awaited)

    def _figures_follow(self, awaited: AwaitedEffect) -> Generator[Step, Json, None]:
        """Read a queue whose purge its present depth has proved, until its figures show the same."""
        if awaited.invocation.evidence.is_purged:
            yield from self._shown(awaited, self._now + MEASURING + ANSWERING)

    def _proved(
        self, call: MethodCall, awaited: AwaitedEffect, failure: CallFailedError | None, text: str
    ) -> Generator[Step, Json, tuple[Status, str]]:
        """Return status and text of a change that was sent, by what the broker shows and reports of it.

        Args:
            call: the call.
            awaited: the effect of the change.
            failure: the failure that was answered; ``None`` where the change was reported as done.
            text: the text of the answer.
        """
        method, evidence = awaited.method, awaited.invocation.evidence
        if failure is not None and failure.status != Status.OUTCOME_UNKNOWN:
            return (yield from self._refused(awaited, failure))
        answered = self._now
        # Then it may have to be asked whether it is the same.
        reserved = 0 if evidence.life is None else ANSWERING
        shown = yield from self._shown(awaited, call.deadline - reserved)
        if shown:
            evidence.is_purged = False  # its figures need not be awaited
        elif evidence.is_purged:
            shown = True
        at_once = failure is None and method.ends and not method.slow and not self._changes_wait()
        if at_once and shown is False:
            at_once = yield from self._is_same(awaited, answered)
        # What is not answered may still be under way, to another object of the name.
        is_doubtful = failure is not None and method.ends and awaited.end.is_of_other
        if shown is None or is_doubtful or not (shown or at_once):
            # Without a status: an agent sends nothing now; the answer to its console follows.
            seen = "the broker lists one of its name" if shown is False and method.ends else ""
            unseen = text if failure is not None else f"{text}; {seen or 'the broker does not show it yet'}"
            self._end(Answered(Answer(call.token, Outcome.UNKNOWN, peer_line(unseen))))
            shown = yield from self._followed_up(awaited, is_answered=failure is None)
        if shown and failure is None:
            if method.ends:
                self._ends.claim(awaited.end)
            return Status.OK, text
        if shown:
            return self._done_by(awaited, text)
        if shown is False:
            reported = "it was reported as done" if failure is None else text
            still = "still lists it" if method.ends else "still shows its messages"
            return Status.NOT_APPLIED, f"{reported}, but the broker {still}"
        return Status.OUTCOME_UNKNOWN, text

    def _refused(
        self, awaited: AwaitedEffect, failure: CallFailedError
    ) -> Generator[Step, Json, tuple[Status, str]]:
        """Return status and text of a change that the broker refused, as far as that is true."""
        if awaited.method.ends:
            shown = yield from self._look(awaited, 0)
            until = self._now + EVENTS_FIRST
            while shown and awaited.end.unclaimed is None and self._now < until:
                yield Pause(LOOK_AGAIN)
            if shown and awaited.end.unclaimed is not None and self._ends.claim(awaited.end):
                return Status.OK, f"it is gone; before: {failure.text}"
            if shown is False and failure.status == Status.UNKNOWN_OBJECT:
                return Status.NOT_APPLIED, f"the answer was: {failure.text}; but it lists it"
        return failure.status, failure.text

    def _done_by(self, awaited: AwaitedEffect, text: str) -> tuple[Status, str]:
        """Return status and text of a change without a certain answer whose effect is shown."""
        if not awaited.method.ends:
            return Status.OK, f"the queue is empty; before: {text}"
        user = awaited.end.first_user
        if awaited.end.is_of_other:
            return Status.UNKNOWN_OBJECT, f"user {user!r} has ended it; before: {text}"
        if not self._ends.claim(awaited.end):
            return Status.UNKNOWN_OBJECT, f"another operation has ended it; before: {text}"
        if user not in {"", self._writer}:
            return Status.OK, f"user {user!r} had ended it, and this the next of its name; before: {text}"
        return Status.OK, f"it is gone; before: {text}"

    def _shown(self, awaited: AwaitedEffect, deadline: int) -> Generator[Step, Json, bool | None]:
        """Read the object until it shows the effect, or for some seconds.

        Returns:
            Whether it shows it; ``None`` if that cannot be seen.
        """
        began = self._now
        patience = SETTLING if awaited.method.ends else MEASURING
        limit = max(began, min(began + patience, deadline - ANSWERING))
        while True:
            at_last = self._now >= limit
            shown = yield from self._look(awaited, 0 if at_last else began)
            if shown or at_last:
                return shown
            yield Pause(LOOK_AGAIN)

    def _is_same(self, awaited: AwaitedEffect, seen_at: int) -> Generator[Step, Json, bool]:
        """Return whether what is still there is the object that was to end, not the next one of its name.

        Args:
            awaited: the effect of the change.
            seen_at: when an object of the name was seen that the change will not end any more (ns).
        """
        if self._are_reported(awaited.began, seen_at + EVENT_DELAY):
            return True
        return (yield from awaited.is_same(seen_at, self._now))

    def _are_reported(self, since: int, until: int) -> bool:
        """Return whether all events between two times (ns) were received."""
        visibility = self._answers.visibility
        arrive = not (visibility.events_missing or visibility.catching_up)
        return arrive and visibility.unbroken_since <= since and self._received_until() >= until

    def _followed_up(
        self, awaited: AwaitedEffect, *, is_answered: bool
    ) -> Generator[Step, Json, bool | None]:
        """Look for the effect of a change for as long as it may still be made; return as `_shown`.

        A cluster without a majority deletes an object when it has one again. ``is_answered``: the change was
        reported as done.
        """
        if self._followed >= MAX_PENDING:
            return None
        began, gone_at, there_at, pause = self._now, 0, 0, FIRST_READING
        read_at, ends = began + pause, awaited.method.ends
        certain, until = (CERTAIN_AFTER, FOLLOWED) if ends else (MEASURED_AFTER, 2 * MEASURED_AFTER)
        self._followed += 1
        try:
            while self._now < began + until:
                yield Pause(SECOND)
                if ends and self._present(awaited.target) is None:
                    gone_at = gone_at or self._now
                    if self._now >= gone_at + awaited.end.patience:
                        return True
                elif self._now >= read_at:
                    shown = yield from self._look(awaited, 0)
                    since = self._now - began
                    if shown and not ends:
                        return True
                    if shown is False and (is_answered or since >= certain):
                        there_at = there_at or self._now
                    is_certain = shown is False and since >= certain and not self._changes_wait()
                    if is_certain and (yield from self._is_same(awaited, there_at)):
                        return False
                    is_soon = there_at and self._now < there_at + COUNTED_AFTER
                    pause = PROOF_PAUSE if is_soon else min(2 * pause, LAST_PAUSE)
                    read_at = self._now + (min(pause, certain - since) if since < certain else pause)
        finally:
            self._followed -= 1
        return None

    def _look(self, awaited: AwaitedEffect, began: int) -> Generator[Step, Json, bool | None]:
        """Read the object once; return whether it shows the effect, ``None`` if that cannot be seen.

        Args:
            awaited: the effect of a change.
            began: since when it is looked for (ns), while an event or newer figures may still come; else 0.
        """
        target, method = awaited.target, awaited.method
        try:
            document = yield from self._read(awaited.invocation, awaited=method.ends)
        except CallFailedError as failure:
            self._effects.append(Note("not-read-after-call", f"{target.name}: {failure.text}"))
            return True if method.ends and self._present(target) is None else None
        if method.ends:
            known = self._present(target)
            if known is None:
                return True
            if document is not None or self._now < began + EVENTS_FIRST:
                return False
            if self._view.is_out_of_reach(known.name, awaited.began, self._now):
                self._answers.plan.poll_soon(self._now, "node")
                return None
            gone = self._view.known.deleted(known.name, self._now, self._now, by_event=False)
            self._effects += self._stream.apply(gone)
            return True
        return True if document is None else (yield from awaited.is_emptied(document, self._now))

    def _end(self, answered: Answered) -> None:
        """Answer, after what the call or read caused."""
        self._deadlines.pop(answered.answer.token, None)
        self._effects.append(answered)

    def _watched(self, target: KnownObject, steps: ResultSteps) -> Generator[Step, Json, Result | None]:
        """Run ``steps``, and stop them when the object ends while they pause before the change is sent."""
        reply: Json = None
        is_sent = False
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
                is_sent |= isinstance(step, Change | Purge)
                if isinstance(step, Pause) and not is_sent:
                    self._refuse_if_gone(target)
            except CallFailedError as error:
                failure = error

    def _begin(self, call: MethodCall, target: KnownObject) -> None:
        if self._now >= call.deadline:
            raise CallFailedError(Status.EXCEPTION, TOO_LATE)
        self._refuse_if_gone(target)

    def _refuse_if_gone(self, target: KnownObject) -> None:
        if self._present(target) is None:
            raise CallFailedError(Status.UNKNOWN_OBJECT, "the object has come to its end")

    def _read_back(self, invocation: Invocation) -> Generator[Step, Json, str]:
        """Read an object that was changed, or that the broker denies; return why that failed, or nothing."""
        try:
            yield from self._read(invocation)
        except CallFailedError as failure:  # it is listed soon
            self._effects.append(Note("not-read-after-call", f"{invocation.target}: {failure.text}"))
            return failure.text
        return ""

    # Reading.

    def _fetch(self, fetch: ObjectFetch) -> Running:
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
        elif target is None:
            answer = self._unknown(fetch.token)
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
        name_of = partial(self._view.name_of, name.class_name)
        document = yield from read_single(name, reader.rule.listing, listing_columns(reader), name_of)
        if document is None and not awaited and reader.rule.listing and name.class_name != "vhost":
            # What a method ends was read at its place right before, so that its absence there is true.
            known = sum(1 for _ in self._view.known.of_class(name.class_name))
            yield from check_missing(name, reader.rule.listing, known, name_of)
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
        """Read the limits of all virtual hosts, of which each has few or none.

        If that fails again and again, they are stale, as other readings are.
        """
        limits = None
        try:
            limits = limits_of((yield Lookup("vhost-limits")))
        except CallFailedError as failure:
            if failure.status != Status.FORBIDDEN:
                return  # `ManagementAnswers` notices that the broker does not answer
        self._effects += self._stream.apply(self._view.learn_limits(limits, began))
        interval = max(LIMITS_INTERVAL, int((self._now - began) / LIMITS_BUDGET))
        self._answers.limits_interval = interval
        self._limits_due = self._now + interval

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


def _answered(token: int, status: Status, text: str, outputs: Values = ()) -> Answered:
    outcome = OUTCOMES.get(status, Outcome.REMOTE_FAILURE)
    return Answered(Answer(token, outcome, peer_line(text), int(status), outputs))
