"""All operations of the core: requests in, records, calls, answers out. Nothing else changes anything south.

Told the time; what is to be done is returned as effects, in order. Of each operation a record is told before
anything is sent, and no call is ever given to a source twice.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from gateway.feed.audit_rate_limiter import Attempt, AuditRateLimiter, CountedAttempts
from gateway.feed.operations import (
    NorthRefusal,
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
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.operations.audit import Audit
from gateway.operations.effects import Effect, Reply, ReplyTo, Send, Tell
from gateway.operations.operation import CallNext, Ended, ModifyNext, Next, Operation, ReadNext
from gateway.operations.planning import Planner, Target, check_reachable
from gateway.operations.policy import Policy
from gateway.operations.reconciler import Reconciler, fetch_of
from gateway.operations.validation import Refusal


class Turns:
    """The operations of one source by their numbers.

    Args:
        limit: that are under way at once; as many more may wait.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: dict[int, Hashable] = {}
        self._waiting: dict[int, Hashable] = {}

    @property
    def is_full(self) -> bool:
        """Whether no other operation may come in."""
        return len(self._waiting) >= self._limit

    @property
    def running(self) -> int:
        """Operations under way."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Operations that wait for their turn."""
        return len(self._waiting)

    def enter(self, number: int, alone_with: Hashable = None) -> None:
        """Another operation; it is not full.

        Args:
            number: of the operation.
            alone_with: no other one with the same is under way while this one is; ``None`` for any.
        """
        self._waiting[number] = alone_with

    def leave(self, number: int) -> None:
        """An operation is over, or will never be tried."""
        self._running.pop(number, None)
        self._waiting.pop(number, None)

    def take(self) -> list[int]:
        """The operations whose turn has come, in order; they are under way from now on."""
        taken: list[int] = []
        held = {key for key in self._running.values() if key is not None}
        for number, key in list(self._waiting.items()):
            if len(self._running) >= self._limit:
                break
            if key is not None:
                if key in held:
                    continue
                held.add(key)
            del self._waiting[number]
            self._running[number] = key
            taken.append(number)
        return taken


KEEP: Final = 60 * 10**9
"""Nanoseconds for which a request is known again, from its first coming on, or while it is carried out.

No longer than a north knows its own: the same reference may mean another request after that.
"""

MAX_REMEMBERED: Final = 4096
"""Operations that have ended; beyond it the one that ended first is forgotten."""

_Key = tuple[str, str]


class Repeats:
    """Operations by principal and what their north calls them; without such a name none is known."""

    def __init__(self) -> None:
        self._running: dict[_Key, tuple[int, int]] = {}
        self._ended: OrderedDict[_Key, tuple[OperationAnswer, int]] = OrderedDict()

    def begin(self, request: OperationRequest, number: int, now: int) -> None:
        """The operation of this number carries ``request`` out."""
        if request.reference:
            self._running[_key(request)] = number, now

    def end(self, request: OperationRequest, answer: OperationAnswer) -> None:
        """It has ended so."""
        begun = self._running.pop(_key(request), None)
        if begun is not None:
            self._ended[_key(request)] = answer, begun[1]
            if len(self._ended) > MAX_REMEMBERED:
                self._ended.popitem(last=False)

    def running(self, request: OperationRequest) -> int | None:
        """The number of the operation that carries the same request out now."""
        number, _ = self._running.get(_key(request), (None, 0))
        return number

    def ended(self, request: OperationRequest, now: int) -> OperationAnswer | None:
        """What was answered to the same request."""
        answer, began = self._ended.get(_key(request), (None, 0))
        if answer is not None and now - began >= KEEP:
            del self._ended[_key(request)]
            return None
        return answer


def _key(request: OperationRequest) -> _Key:
    return str(request.principal), request.reference


Objection: TypeAlias = Callable[["MethodCall | ObjectModify"], "Answer | None"]
"""What a source would answer at once if this were asked of it now; ``None`` where it would send it."""


def message_of(
    operation: Operation, token: int, step: CallNext | ModifyNext | ReadNext
) -> MethodCall | ObjectModify | ObjectFetch | None:
    """The message of a step; ``None`` where the object cannot be named any more."""
    fetch = fetch_of(operation.plan.target, token, operation.deadline)
    if fetch is None or isinstance(step, ReadNext):
        return fetch
    which = (fetch.token, fetch.key, fetch.agent, fetch.native_id)
    if isinstance(step, ModifyNext):
        return ObjectModify(*which, step.values, fetch.deadline)
    return MethodCall(*which, step.method, step.arguments, fetch.deadline)


def check_with_source(operation: Operation, objection: Objection) -> None:
    """Whether the source would send what would be asked of it, the object being as it is known to be.

    Schema and policy know nothing of what a dialect, or a peer of it, cannot be told.

    Raises:
        Refusal: it would not.
    """
    for element, step in operation.foreseen():
        message = message_of(operation, 0, step)
        found = None if message is None or isinstance(message, ObjectFetch) else objection(message)
        if found is not None:
            raise Refusal(found.outcome, found.text, element)


_UNREACHED: Final = frozenset({SourceState.CONNECTING, SourceState.DOWN})


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """What is configured.

    Attributes:
        deadline: nanoseconds that an operation has at most.
        max_running: operations of one source under way; as many more wait.
    """

    deadline: int = 10 * 10**9
    max_running: int = 64


@dataclass(slots=True)
class _UnderWay:
    """An operation that is not over.

    ``token`` is of the step that it waits for; ``others`` asked for the same again meanwhile.
    """

    request: OperationRequest
    reply: ReplyTo
    operation: Operation
    record: OperationRecord
    is_recorded: bool
    has_turn: bool = False
    token: int = 0
    trouble: str = ""
    others: list[tuple[OperationRequest, ReplyTo]] = field(default_factory=list)


class OperationManager:
    """Operations of all sources.

    Args:
        inventory: where objects are.
        classes: what mappings say of classes.
        policy: who may do what.
        audit: makes the records.
        settings: what is configured.

    Attributes:
        counters: operations that ended, by outcome.
    """

    def __init__(
        self,
        inventory: Inventory,
        classes: ClassRegistry,
        policy: Policy,
        audit: Audit,
        settings: ManagerSettings | None = None,
    ) -> None:
        self.counters: Counter[Outcome] = Counter()
        self._planner = Planner(inventory, classes, policy)
        self._audit = audit
        self._settings = settings or ManagerSettings()
        self._numbers = itertools.count(1)
        self._tokens = itertools.count(1)
        self._objections: dict[int, Objection] = {}
        self._turns: dict[int, Turns] = {}
        self._under_way: dict[int, _UnderWay] = {}
        self._waiting_for: dict[int, int] = {}
        self._refusals = AuditRateLimiter()
        self._repeats = Repeats()
        self._settling = Reconciler(
            audit, self._settings.deadline, lambda: next(self._tokens), classes.class_name
        )

    @property
    def running(self) -> int:
        """Operations that were sent, or are about to be."""
        return sum(turns.running for turns in self._turns.values())

    @property
    def waiting(self) -> int:
        """Operations that wait for their turn."""
        return sum(turns.waiting for turns in self._turns.values())

    @property
    def unsettled(self) -> int:
        """Operations that ended without anybody knowing what came of them."""
        return len(self._settling)

    @property
    def wake_at(self) -> int | None:
        """When `tick` has something to do, nanoseconds of the gateway's clock; ``None`` for never."""
        times = [one.operation.deadline for one in self._under_way.values()]
        times += [time for time in (self._settling.wake_at, self._refusals.due_at) if time is not None]
        return min(times, default=None)

    def connect(self, source: int, objection: Objection = lambda _message: None) -> None:
        """The source of this number takes calls from now on; ``objection`` says what it would not send."""
        self._objections[source] = objection

    def recover(self, begun: Iterable[OperationRecord], now: int) -> list[Effect]:
        """A core before this one began these and ended before they did; to be told before anything else."""
        return [Tell(self._audit.given_up(next(self._numbers), record, now)) for record in begun]

    def asked(self, request: OperationRequest, reply: ReplyTo, now: int) -> list[Effect]:
        """A north asks for something; it is answered once."""
        target: Target | None = None
        if request.refusal is not None:
            return self._reported(request, request.refusal, reply, now)
        repeated = self._repeated(request, reply, now)
        if repeated is not None:
            return repeated
        try:
            target = self._planner.target(request)
            plan = self._planner.plan(request, target)
            self._check_possible(request, target)
            operation = Operation(plan, now + min(request.timeout, self._settings.deadline))
            check_with_source(operation, self._objections[request.source])
        except Refusal as refusal:
            return self._refused(request, reply, target, refusal, now)
        if request.check_only:
            return [Reply(reply, OperationAnswer(request.request, "", Outcome.APPLIED))]
        number = next(self._numbers)
        record = self._audit.begun(number, request, operation, now)
        lasting = plan.kind is not OperationKind.READ  # nobody needs to know of a reading that was lost
        self._under_way[number] = _UnderWay(request, reply, operation, record, is_recorded=not lasting)
        self._repeats.begin(request, number, now)
        alone_with = (target.class_name, target.row) if plan.kind is OperationKind.SET else None
        self._turns_of(request.source).enter(number, alone_with)
        return [Tell(record, lasting), *self._go_on(request.source, now)]

    def recorded(self, number: int, now: int, trouble: str = "") -> list[Effect]:
        """The log has the begin of an operation, or cannot have it.

        Args:
            number: of the operation.
            now: nanoseconds of the gateway's clock.
            trouble: why it has not; told with the operation's end.
        """
        one = self._under_way.get(number)
        if one is None or one.is_recorded:
            return []
        one.is_recorded, one.trouble = True, trouble
        return [*self._start(one, now), *self._go_on(one.request.source, now)]

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        """A source brought an answer to a call, modification or fetch."""
        number = self._waiting_for.pop(answer.token, None)
        if number is None:
            return self._settling.answered(answer, now)
        one = self._under_way[number]
        effects = self._take(one, one.operation.answered(answer, now), now)
        return [*effects, *self._go_on(one.request.source, now)]

    def noticed(self, records: Iterable[Record], now: int) -> list[Effect]:
        """Something was told to all norths: what objects are may tell what came of an operation."""
        return self._settling.noticed(records, now)

    def tick(self, now: int) -> list[Effect]:
        """The time that was asked for has come."""
        effects: list[Effect] = []
        for one in [one for one in self._under_way.values() if one.operation.deadline <= now]:
            effects += self._take(one, one.operation.expired(), now)
        for source in self._turns:
            effects += self._go_on(source, now)
        return effects + self._settling.tick(now) + self._counted(self._refusals.due(now), now)

    def close(self, now: int) -> list[Effect]:
        """Nothing comes after this: what was counted only is told."""
        return self._counted(self._refusals.due(now, ending=True), now)

    def _repeated(self, request: OperationRequest, reply: ReplyTo, now: int) -> list[Effect] | None:
        """What becomes of a request that is not the first under its reference; ``None`` of one that is."""
        if not request.reference:
            return None
        number, answer = self._repeats.running(request), self._repeats.ended(request, now)
        if number is None and answer is None:
            return None
        if request.check_only:  # whatever speaks against it by now: it will be told what came of it
            return [Reply(reply, OperationAnswer(request.request, "", Outcome.APPLIED))]
        if number is not None:
            self._under_way[number].others.append((request, reply))
            return []
        assert answer is not None
        return [Reply(reply, msgspec.structs.replace(answer, request=request.request))]

    def _check_possible(self, request: OperationRequest, target: Target) -> None:
        source = target.source
        if request.source not in self._objections or source.state in _UNREACHED:
            detail = source.detail or "it takes no operations"
            text = f"the source {source.identity.name} cannot be reached: {detail}"
            raise Refusal(Outcome.SOURCE_DOWN, text)
        check_reachable(target)
        if self._turns_of(request.source).is_full:
            text = f"too many operations of the source {source.identity.name} are under way"
            raise Refusal(Outcome.NOT_NOW, text)
        if request.timeout <= 0:
            text = "its time was over before the gateway's core could look at it: nothing was sent"
            raise Refusal(Outcome.NOT_NOW, text)

    def _refused(
        self,
        request: OperationRequest,
        reply: ReplyTo,
        target: Target | None,
        refusal: Refusal,
        now: int,
    ) -> list[Effect]:
        answer = OperationAnswer(request.request, "", refusal.outcome, refusal.text, refusal.element)
        is_unrecorded = request.check_only or request.reports_failed_check
        if is_unrecorded and refusal.outcome is not Outcome.REFUSED:
            return [Reply(reply, answer)]
        return [*self._told(request, target, refusal, now), Reply(reply, answer)]

    def _reported(
        self, request: OperationRequest, reported: NorthRefusal, reply: ReplyTo, now: int
    ) -> list[Effect]:
        """A north has refused something, and tells so."""
        try:
            target: Target | None = self._planner.target(request)
        except Refusal:
            target = None
        refusal = Refusal(reported.outcome, reported.text, reported.element)
        told = self._told(request, target, refusal, now, reported.attempts)
        return [*told, Reply(reply, OperationAnswer(request.request, "", Outcome.APPLIED))]

    def _told(
        self,
        request: OperationRequest,
        target: Target | None,
        refusal: Refusal,
        now: int,
        attempts: int = 1,
    ) -> list[Effect]:
        """The record of what was refused; nothing yet where its principal has had many told already."""
        self.counters[refusal.outcome] += attempts
        attempt = Attempt(request.principal, kind_of(request.action), refusal.outcome, refusal.text, attempts)
        if not self._refusals.admit(attempt, now):
            return []
        return [Tell(self._audit.refused(next(self._numbers), request, target, refusal, now))]

    def _counted(self, counted: Iterable[CountedAttempts], now: int) -> list[Effect]:
        return [Tell(self._audit.counted(next(self._numbers), one, now)) for one in counted]

    def _turns_of(self, source: int) -> Turns:
        turns = self._turns.get(source)
        if turns is None:
            turns = self._turns[source] = Turns(self._settings.max_running)
        return turns

    def _go_on(self, source: int, now: int) -> Iterator[Effect]:
        """Start whoever has a turn now, in order; one that ends at once gives its turn to the next."""
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
        """Do what an operation wants next."""
        self._waiting_for.pop(one.token, None)
        while not isinstance(step, Ended):
            one.token = next(self._tokens)
            message = message_of(one.operation, one.token, step)
            if message is not None:
                self._waiting_for[one.token] = one.record.number
                return [Send(one.request.source, message)]
            step = one.operation.answered(_unreachable(one), now)
        return self._end(one, step, now)

    def _end(self, one: _UnderWay, ended: Ended, now: int) -> list[Effect]:
        number, plan = one.record.number, one.operation.plan
        del self._under_way[number]
        self._turns_of(one.request.source).leave(number)
        self.counters[ended.outcome] += 1
        record = self._audit.ended(one.record, one.operation, ended, one.trouble, now)
        if ended.outcome is Outcome.UNKNOWN and plan.kind is not OperationKind.READ:
            self._settling.add(
                one.operation, record, 0 if ended.reported else one.token, now, reported=ended.reported
            )
        answer = OperationAnswer(
            one.request.request,
            record.operation_id,
            ended.outcome,
            record.text,
            ended.element,
            ended.code,
            self._audit.shown(plan, ended),
        )
        self._repeats.end(one.request, answer)
        others = [
            Reply(reply, msgspec.structs.replace(answer, request=again.request))
            for again, reply in one.others
        ]
        return [Tell(record), Reply(one.reply, answer), *others]


def _unreachable(one: _UnderWay) -> Answer:
    """What stands for the answer of an object that nothing can be sent to."""
    if one.operation.plan.target.entry is None:
        return Answer(one.token, Outcome.OBJECT_GONE, "it is gone")
    text = "its agent was restarted, and its objects are being read again"
    return Answer(one.token, Outcome.NOT_NOW, text)
