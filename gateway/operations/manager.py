"""The manager of all operations of the core. Nothing else changes a broker.

The time is an argument, and effects to be carried out are returned, in order. The record of an operation is
published before anything is sent, and no call is given to a source twice.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from gateway.feed.audit_rate_limiter import Attempt, AuditRateLimiter, CountedAttempts
from gateway.feed.operations import (
    FrontEndRefusal,
    OperationAnswer,
    OperationKind,
    OperationRecord,
    OperationRequest,
    kind_of,
)
from gateway.feed.records import Record
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.model.observations import SourceState
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome, Principal
from gateway.model.times import SECOND
from gateway.operations.audit import Audit
from gateway.operations.operation import (
    CallNext,
    Effect,
    Ended,
    ModifyNext,
    Next,
    Operation,
    Publish,
    ReadNext,
    Reply,
    ReplyTo,
    Send,
)
from gateway.operations.planning import Planner, Rejected, Target, check_reachable
from gateway.operations.reconciler import Reconciler, fetch_of
from gateway.policy.decisions import Policy
from gateway.policy.marks import Marks

Precheck: TypeAlias = Callable[["MethodCall | ObjectModify"], "Answer | None"]
"""Returns the immediate answer of a source to this request; ``None`` where it would send the request."""

_UNREACHED: Final = frozenset({SourceState.CONNECTING, SourceState.DOWN})


class ManagerSettings(msgspec.Struct, frozen=True):
    """Limits of operations, as configured.

    Attributes:
        deadline: the maximum nanoseconds of an operation.
        max_running: the number of operations of one source under way; as many more wait.
    """

    deadline: int = 10 * SECOND
    max_running: int = 64


class _UnderWay(msgspec.Struct):
    """An operation that is not over.

    ``token`` belongs to the step that it waits for; ``others`` are repetitions of its request.
    """

    request: OperationRequest
    reply: ReplyTo
    operation: Operation
    record: OperationRecord
    is_recorded: bool
    has_turn: bool = False
    token: int = 0
    trouble: str = ""
    others: list[tuple[OperationRequest, ReplyTo]] = msgspec.field(default_factory=list)


class OperationManager:
    """Manages the operations of all sources.

    Args:
        inventory: has the objects.
        classes: has the mappings' rules of classes.
        policy: decides whether a principal may carry out a request.
        marks: what mappings call private or dangerous.
        audit: makes the records.
        settings: the configured limits.

    Attributes:
        counters: the number of operations that ended, by outcome.
    """

    def __init__(
        self,
        inventory: Inventory,
        classes: ClassRegistry,
        policy: Policy,
        marks: Marks,
        audit: Audit,
        settings: ManagerSettings | None = None,
    ) -> None:
        self.counters: Counter[Outcome] = Counter()
        self._planner = Planner(inventory, classes, policy, marks)
        self._audit = audit
        self._settings = settings or ManagerSettings()
        self._numbers = itertools.count(1)
        self._tokens = itertools.count(1)
        self._prechecks: dict[int, Precheck] = {}
        self._turns: dict[int, Turns] = {}
        self._under_way: dict[int, _UnderWay] = {}
        self._waiting_for: dict[int, int] = {}
        # Attempts that are refused cost the client nothing, and must not fill the log.
        self._refusals = AuditRateLimiter()
        self._repeats = Repeats()
        self._reconciler = Reconciler(
            audit, self._settings.deadline, lambda: next(self._tokens), classes.class_name
        )

    @property
    def running(self) -> int:
        """The number of operations that were sent, or are about to be."""
        return sum(turns.running for turns in self._turns.values())

    @property
    def waiting(self) -> int:
        """The number of operations that wait for their turn."""
        return sum(turns.waiting for turns in self._turns.values())

    @property
    def pending_outcomes(self) -> int:
        """The number of ended operations whose outcome is unknown, and may still be determined."""
        return len(self._reconciler)

    @property
    def wake_at(self) -> int | None:
        """The time to call `tick`, in nanoseconds of the gateway's clock; ``None`` for never."""
        times = [one.operation.deadline for one in self._under_way.values()]
        times += [time for time in (self._reconciler.wake_at, self._refusals.due_at) if time is not None]
        return min(times, default=None)

    def change_policy(self, policy: Policy) -> None:
        """Decide by another policy from now on; what is under way goes on."""
        self._planner.change_policy(policy)

    def is_seen(self, principal: Principal, source: int, class_name: str, row: int) -> bool:
        """Return whether an object exists for a principal; takes as long for one that is not there."""
        return bool(self._planner.look_up(principal, source, class_name, row).readable)

    def connect(self, source: int, precheck: Precheck = lambda _message: None) -> None:
        """Send calls to the source of this number from now on; ``precheck`` returns its immediate answers."""
        self._prechecks[source] = precheck

    def recover(self, begun: Iterable[OperationRecord], now: int) -> list[Effect]:
        """Publish the end of operations that an earlier core began and did not finish."""
        return [Publish(self._audit.given_up(next(self._numbers), record, now)) for record in begun]

    def submit(self, request: OperationRequest, reply: ReplyTo, now: int) -> list[Effect]:
        """Take a request of a front end; it is answered once."""
        if request.refusal is not None:
            return self._reported(request, request.refusal, reply, now)
        # Before anything is checked: a repetition is not refused because the first one has changed the
        # object.
        repeated = self._repeated(request, reply, now)
        if repeated is not None:
            return repeated
        try:
            target = self._planner.resolve(request)
            plan = self._planner.plan(request, target)
            self._check_possible(request, target)
            operation = Operation(plan, now + min(request.timeout, self._settings.deadline))
            check_with_source(operation, self._prechecks[request.source])
        except Rejected as refusal:
            return self._refused(request, reply, refusal, now)
        if request.check_only:
            return [Reply(reply, OperationAnswer(request.request, "", Outcome.APPLIED))]
        number = next(self._numbers)
        record = self._audit.begun(number, request, operation, now)
        durable = plan.kind is not OperationKind.READ  # a lost reading has changed nothing
        self._under_way[number] = _UnderWay(request, reply, operation, record, is_recorded=not durable)
        self._repeats.begin(request, number, now)
        # Two sets at once would each find the other's value when they read back. Calls may take long, and
        # have no value to compare.
        alone_with = (target.class_name, target.row) if plan.kind is OperationKind.SET else None
        self._turns_of(request.source).enter(number, alone_with)
        return [Publish(record, durable), *self._go_on(request.source, now)]

    def recorded(self, number: int, now: int, trouble: str = "") -> list[Effect]:
        """Continue an operation whose begin is in the log, or cannot be.

        Args:
            number: the number of the operation.
            now: nanoseconds of the gateway's clock.
            trouble: the reason why it is not in the log; part of the text of the operation's end.
        """
        one = self._under_way.get(number)
        if one is None or one.is_recorded:
            return []
        one.is_recorded, one.trouble = True, trouble
        return [*self._start(one, now), *self._go_on(one.request.source, now)]

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        """Take the answer of a source to a call, modification or fetch."""
        number = self._waiting_for.pop(answer.token, None)
        if number is None:
            return self._reconciler.answered(answer, now)
        one = self._under_way[number]
        effects = self._take(one, one.operation.answered(answer, now), now)
        return [*effects, *self._go_on(one.request.source, now)]

    def noticed(self, records: Iterable[Record], now: int) -> list[Effect]:
        """Examine published records: an object's values may show the outcome of an operation."""
        return self._reconciler.noticed(records, now)

    def tick(self, now: int) -> list[Effect]:
        """Do the work that is due at `wake_at`."""
        effects: list[Effect] = []
        for one in [one for one in self._under_way.values() if one.operation.deadline <= now]:
            effects += self._take(one, one.operation.expired(), now)
        # The ends of operations above may have made room.
        for source in self._turns:
            effects += self._go_on(source, now)
        return effects + self._reconciler.tick(now) + self._counted(self._refusals.due(now), now)

    def close(self, now: int) -> list[Effect]:
        """Publish, at the end of the core, the attempts that were only counted so far."""
        return self._counted(self._refusals.due(now, ending=True), now)

    def _repeated(self, request: OperationRequest, reply: ReplyTo, now: int) -> list[Effect] | None:
        """Answer a request that repeats an earlier one; ``None`` for a new one."""
        if not request.reference:
            return None
        number, answer = self._repeats.running(request), self._repeats.ended(request, now)
        if number is None and answer is None:
            return None
        if request.check_only:  # it was accepted before, and its outcome will be the answer
            return [Reply(reply, OperationAnswer(request.request, "", Outcome.APPLIED))]
        if number is not None:
            self._under_way[number].others.append((request, reply))
            return []
        assert answer is not None
        return [Reply(reply, msgspec.structs.replace(answer, request=request.request))]

    def _check_possible(self, request: OperationRequest, target: Target) -> None:
        source = target.source
        if request.source not in self._prechecks or source.state in _UNREACHED:
            detail = source.detail or "it takes no operations"
            text = f"the source {source.identity.name} cannot be reached: {detail}"
            raise Rejected(Outcome.SOURCE_DOWN, text)
        check_reachable(target)
        if self._turns_of(request.source).is_full:
            text = f"too many operations of the source {source.identity.name} are under way"
            raise Rejected(Outcome.NOT_NOW, text)
        # The request waited in the feed for as long as the front end gave it: its client has gone on.
        if request.timeout <= 0:
            text = "its time was over before the gateway's core could look at it: nothing was sent"
            raise Rejected(Outcome.NOT_NOW, text)

    def _refused(
        self,
        request: OperationRequest,
        reply: ReplyTo,
        refusal: Rejected,
        now: int,
    ) -> list[Effect]:
        text, element, code = refusal.text, refusal.element, refusal.code
        answer = OperationAnswer(request.request, "", refusal.outcome, text, element, code)
        # SNMP knows the variable that failed, and records such a refusal itself; a refusal by the policy is
        # always recorded here.
        is_unrecorded = request.check_only or request.reports_failed_check
        if is_unrecorded and refusal.outcome is not Outcome.REFUSED:
            return [Reply(reply, answer)]
        return [*self._record_rejected(request, refusal, now), Reply(reply, answer)]

    def _reported(
        self, request: OperationRequest, reported: FrontEndRefusal, reply: ReplyTo, now: int
    ) -> list[Effect]:
        """Record a refusal by a front end."""
        refusal = Rejected(reported.outcome, reported.text, reported.element)
        records = self._record_rejected(request, refusal, now, reported.attempts)
        return [*records, Reply(reply, OperationAnswer(request.request, "", Outcome.APPLIED))]

    def _record_rejected(
        self,
        request: OperationRequest,
        refusal: Rejected,
        now: int,
        attempts: int = 1,
    ) -> list[Effect]:
        """Record a refused request, with an object that does not exist for its principal, too.

        Where a principal has too many of them it is only counted for now.
        """
        target = self._planner.found(request)
        if target is None:
            request = self._planner.recordable(request)
        self.counters[refusal.outcome] += attempts
        attempt = Attempt(request.principal, kind_of(request.action), refusal.outcome, refusal.text, attempts)
        if not self._refusals.admit(attempt, now):
            return []
        return [Publish(self._audit.refused(next(self._numbers), request, target, refusal, now))]

    def _counted(self, counted: Iterable[CountedAttempts], now: int) -> list[Effect]:
        return [Publish(self._audit.counted(next(self._numbers), one, now)) for one in counted]

    def _turns_of(self, source: int) -> Turns:
        turns = self._turns.get(source)
        if turns is None:
            turns = self._turns[source] = Turns(self._settings.max_running)
        return turns

    def _go_on(self, source: int, now: int) -> Iterator[Effect]:
        """Start the operations whose turn it is; one that ends at once gives its turn to the next."""
        turns = self._turns_of(source)
        while numbers := turns.take():
            for number in numbers:
                one = self._under_way[number]
                one.has_turn = True
                yield from self._start(one, now)

    def _start(self, one: _UnderWay, now: int) -> list[Effect]:
        if not (one.is_recorded and one.has_turn):
            return []
        return self._take(one, one.operation.start(), now)

    def _take(self, one: _UnderWay, step: Next, now: int) -> list[Effect]:
        """Do the next step of an operation."""
        # The answer to an earlier step must not be taken for that of this one.
        self._waiting_for.pop(one.token, None)
        while not isinstance(step, Ended):
            one.token = next(self._tokens)
            message = message_of(one.operation, one.token, step)
            if message is not None:
                self._waiting_for[one.token] = one.record.number
                return [Send(one.request.source, message)]
            # Not sent: the operation goes on as if the source had answered so.
            step = one.operation.answered(_unreachable(one), now)
        return self._end(one, step, now)

    def _end(self, one: _UnderWay, ended: Ended, now: int) -> list[Effect]:
        number, plan = one.record.number, one.operation.plan
        del self._under_way[number]
        self._turns_of(one.request.source).leave(number)
        self.counters[ended.outcome] += 1
        record = self._audit.ended(one.record, one.operation, ended, one.trouble, now)
        is_final = ended.reported and plan.target.entry is None  # nothing will show more of it
        if ended.outcome is Outcome.UNKNOWN and plan.kind is not OperationKind.READ and not is_final:
            self._reconciler.add(
                # With the token of the call a late answer to it is recognised.
                one.operation,
                record,
                0 if ended.reported else one.token,
                now,
                reported=ended.reported,
            )
        answer = OperationAnswer(
            one.request.request,
            record.operation_id,
            ended.outcome,
            record.text,
            ended.element,
            ended.code,
            self._planner.shown(one.request.principal, plan.target.source, self._audit.shown(plan, ended)),
        )
        self._repeats.end(one.request, answer)
        others = [
            Reply(reply, msgspec.structs.replace(answer, request=again.request))
            for again, reply in one.others
        ]
        return [Publish(record), Reply(one.reply, answer), *others]


def _unreachable(one: _UnderWay) -> Answer:
    """Return the answer for an object to which nothing can be sent."""
    if one.operation.plan.target.entry is None:
        return Answer(one.token, Outcome.OBJECT_GONE, "it is gone")
    text = "its agent was restarted, and its objects are being read again"
    return Answer(one.token, Outcome.NOT_NOW, text)


# ---- turns, repeated requests, messages ------------------------------------------------------------------


class Turns:
    """The turns of one source's operations: a limited number under way, and one set of an object at a time.

    Args:
        limit: the number of operations under way at once; as many more may wait.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: dict[int, Hashable] = {}
        self._waiting: dict[int, Hashable] = {}

    @property
    def is_full(self) -> bool:
        """Whether no other operation may enter."""
        return len(self._waiting) >= self._limit

    @property
    def running(self) -> int:
        """The number of operations under way."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of operations that wait for their turn."""
        return len(self._waiting)

    def enter(self, number: int, alone_with: Hashable = None) -> None:
        """Let another operation wait; `is_full` is false.

        Args:
            number: the number of the operation.
            alone_with: operations with the same key are not under way together; ``None`` for no key.
        """
        self._waiting[number] = alone_with

    def leave(self, number: int) -> None:
        """Remove an operation that is over, or will never be tried."""
        self._running.pop(number, None)
        self._waiting.pop(number, None)

    def take(self) -> list[int]:
        """Return the operations whose turn has come, in order; they are under way from now on."""
        taken: list[int] = []
        held = {key for key in self._running.values() if key is not None}
        for number, key in list(self._waiting.items()):
            if len(self._running) >= self._limit:
                break
            if key is not None:
                # It keeps its place, and what waits behind it for another object may overtake it.
                if key in held:
                    continue
                held.add(key)
            del self._waiting[number]
            self._running[number] = key
            taken.append(number)
        return taken


KEEP: Final = 60 * SECOND
"""Nanoseconds from its arrival for which a request is recognised again; at least while it is carried out.

A front end may use a reference for another request when this time has passed since the answer
(`gateway.snmp.set_requests.KEEP`), which is later.
"""

MAX_REMEMBERED: Final = 4096
"""The maximum number of ended operations that are remembered; the oldest is dropped first."""

_Key = tuple[str, str]


class Repeats:
    """Requests that arrive again: a front end that was restarted does not know that it has sent them before.

    A request is known by its principal and reference; without a reference it is always new.
    """

    def __init__(self) -> None:
        self._running: dict[_Key, tuple[int, int]] = {}
        self._ended: OrderedDict[_Key, tuple[OperationAnswer, int]] = OrderedDict()

    def begin(self, request: OperationRequest, number: int, now: int) -> None:
        """Note that the operation of this number carries ``request`` out."""
        if request.reference:
            self._running[_key(request)] = number, now

    def end(self, request: OperationRequest, answer: OperationAnswer) -> None:
        """Note the answer to ``request``."""
        begun = self._running.pop(_key(request), None)
        if begun is not None:
            self._ended[_key(request)] = answer, begun[1]
            if len(self._ended) > MAX_REMEMBERED:
                self._ended.popitem(last=False)

    def running(self, request: OperationRequest) -> int | None:
        """Return the number of the operation that carries the same request out now."""
        number, _ = self._running.get(_key(request), (None, 0))
        return number

    def ended(self, request: OperationRequest, now: int) -> OperationAnswer | None:
        """Return the answer to the same request; ``None`` where it is not known."""
        answer, began = self._ended.get(_key(request), (None, 0))
        if answer is not None and now - began >= KEEP:
            del self._ended[_key(request)]
            return None
        return answer


def _key(request: OperationRequest) -> _Key:
    return str(request.principal), request.reference


def message_of(
    operation: Operation, token: int, step: CallNext | ModifyNext | ReadNext
) -> MethodCall | ObjectModify | ObjectFetch | None:
    """Return the message of a step; ``None`` where the object cannot be named any more."""
    fetch = fetch_of(operation.plan.target, token, operation.deadline)
    if fetch is None or isinstance(step, ReadNext):
        return fetch
    which = (fetch.token, fetch.key, fetch.agent, fetch.native_id)
    if isinstance(step, ModifyNext):
        return ObjectModify(*which, step.values, fetch.deadline)
    return MethodCall(*which, step.method, step.arguments, fetch.deadline)


def check_with_source(operation: Operation, precheck: Precheck) -> None:
    """Check that the source would send the operation's requests, with the object in its known state.

    Schema and policy do not show the limits of a dialect or a peer.

    Raises:
        Rejected: it would not send it.
    """
    for element, step in operation.foreseen():
        message = message_of(operation, 0, step)
        found = None if message is None or isinstance(message, ObjectFetch) else precheck(message)
        if found is not None:
            raise Rejected(found.outcome, found.text, element, found.code)
