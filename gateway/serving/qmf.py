"""The serving role ``qmf``: the objects of one source, published as AM2 by an agent. Without I/O.

The role takes the records that the inventory publishes (`gateway.feed.records`), and keeps an agent session
in step with them: any source can be served, whatever its dialect. The request of a console becomes an
operation of the gateway, with the same checks, limits and records as one of any other front end.

A console deletes the objects that the answer of an agent lacks. Therefore the role publishes nothing before
the source has been read completely, and while one of its agents is stale.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Protocol, TypeAlias

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.event_backlog import EventBacklog, Loss
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.statuses import UNKNOWN_OBJECT, Status
from gateway.dialects.session import (
    Binding,
    Called,
    CalledUnseen,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    LossSuspected,
    Note,
    NotSent,
    ReadAsked,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.feed.operations import (
    Action,
    FrontEndRefusal,
    InvokeMethod,
    OperationAnswer,
    OperationRecord,
    OperationRequest,
    OperationState,
    ReadFresh,
)
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    ObjectRecord,
    Record,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.own_events import PACKAGE as OWN_PACKAGE
from gateway.model.observations import TRUSTED, Counting, Severity
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value, Values, ValueType

SETTLING: Final = SECOND
"""Nanoseconds from the beginning of service to the first event: consoles first request its objects."""
OVERLAP: Final = 2_000_000_000
"""Nanoseconds before the last sign of another serving agent, whose events are published again."""
EVENTS_LOST: Final = "eventsLost"
"""The event by which a source reports that events were lost; it also reports events lost here."""
_ENDED: Final = 10_000
"""Numbers of recently ended objects that are kept, because events refer to them."""
_UNDECIDED: Final = 128
"""Calls of unknown outcome that may wait for their answer; the session counts them as under way."""

_STATUSES: Final[Mapping[Outcome, Status]] = {
    Outcome.APPLIED: Status.OK,
    Outcome.OBJECT_GONE: Status.UNKNOWN_OBJECT,
    Outcome.UNKNOWN_ELEMENT: Status.UNKNOWN_METHOD,
    Outcome.REFUSED: Status.FORBIDDEN,
    Outcome.WRONG_TYPE: Status.INVALID_PARAMETER,
    Outcome.WRONG_LENGTH: Status.INVALID_PARAMETER,
    Outcome.WRONG_VALUE: Status.INVALID_PARAMETER,
}
"""The status of an answer that has no code of its own; of every other outcome it is `Status.EXCEPTION`."""


@dataclass(frozen=True, slots=True)
class Submit:
    """An operation that a console requests; its answer goes to `QmfRole.operation_answered`."""

    request: OperationRequest


RoleEffect: TypeAlias = Effect | Submit
"""The outputs of the role."""


class InventoryObject(Protocol):
    """A living object of the inventory."""

    @property
    def record(self) -> ObjectRecord:
        """The record of the object with its present values."""
        ...

    @property
    def class_record(self) -> ClassRecord:
        """The record of its class."""
        ...


FindObject: TypeAlias = Callable[[str, int], InventoryObject | None]
"""Returns the living object of the served source that has a row number in a class (``package:name``)."""

SeesObject: TypeAlias = Callable[[Principal, int, str, int], bool]
"""Returns whether an object exists for a principal: source, class (``package:name``), row (0: no object).

See `gateway.operations.manager.OperationManager.is_seen`.
"""


@dataclass(frozen=True, slots=True)
class RoleConfig:
    """The settings of a role. Durations are nanoseconds.

    Attributes:
        session: the settings of the agent session.
        source: the number of the served source.
        name: the name of the role; operations are recorded as those of ``qmf:USER``, with this origin.
        numbered_by_facts: whether the native ids of the source are made of facts of the broker alone, 16
            hexadecimal digits each. Their numbers are then those of the AM2 object ids, also where another
            gateway serves the same broker. For other sources the numbers are made of class and row, which
            this gateway keeps.
        flush_delay: the time from a creation or deletion to its publication, so that related ones are
            published together.
        missed_since: since when events of the source were not received when the role was made (ns since 1970
            UTC); 0 where none are missing.
    """

    session: AgentConfig
    source: int
    name: str
    numbered_by_facts: bool
    flush_delay: int = 20_000_000
    missed_since: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """An operation that a console waits for: the number of its object, and the outputs of its method."""

    handle: int
    number: int
    outputs: tuple[Argument, ...] | None


class QmfRole:
    """Serves one source to consoles as an AM2 agent.

    Args:
        config: the settings.
        find: returns an object of the source.
        sees: decides which objects exist for a console that calls their methods.
    """

    def __init__(self, config: RoleConfig, find: FindObject, sees: SeesObject) -> None:
        self.session = AgentSession(config.session, (), sees=self._is_seen)
        self._sees = sees
        self.is_serving = False
        self._config = config
        self._find = find
        self._linked = False
        self._is_read = False
        self._stale_agents: set[str] = set()
        self._outdated: dict[str, dict[str, int]] = {}
        self._classes: dict[int, ClassSchema] = {}
        self._event_keys: dict[int, EventClassRecord] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._rows: dict[int, tuple[str, int]] = {}
        self._unnamed: set[tuple[str, int]] = set()
        self._inherited: set[int] = set()  # numbers of objects that may count on where others ended
        self._ended: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._backlog: EventBacklog[Send] = EventBacklog()
        self._lost_event: EventClassRecord | None = None
        self._missed_since = config.missed_since
        self._asked: dict[int, _Asked] = {}
        self._undecided: dict[str, _Asked] = {}
        self._requests = 0
        self._last_end: int | None = None
        self._settled_at = 0
        self._creations_wait = False
        self._flush_at = 0
        self._session_wake = 0
        self._woken_at = 0

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The bindings that the queue of the link needs."""
        return self.session.bindings()

    # ---- records of the inventory ------------------------------------------------------------------------

    def take(self, records: Iterable[Record], now: int) -> list[RoleEffect]:
        """Publish the records of the served source in a batch of the inventory."""
        effects: list[RoleEffect] = []
        for record in records:
            effects += self._take(record, now)
        return self._awake([*effects, *self._begin_or_suspend(now)])

    def _take(self, record: Record, now: int) -> list[RoleEffect]:  # noqa: C901, PLR0911  one branch a record
        source = self._config.source
        match record:
            case ClassRecord():
                return self._learn(record)
            case EventClassRecord():
                return self._learn_event(record)
            case UpdateRecord() if record.source == source:
                return self._updated(record, now)
            case ObjectRecord() if record.source == source:
                return self._shown(record, now)
            case DeleteRecord() if record.source == source:
                return self._deleted(record, now)
            case EventRecord() if record.source == source:
                return self._event(record, now)
            case AgentRecord() if record.source == source:
                return self._agent_received(record, now)
            case AgentGoneRecord() if record.source == source:
                self._stale_agents.discard(record.agent)
                self._outdated.pop(record.agent, None)
            case SourceRecord() if record.number == source:
                self._is_read = record.state in TRUSTED
            case OperationRecord() if record.state is OperationState.SETTLED:
                return self._settled(record)
        return []

    def _agent_received(self, record: AgentRecord, now: int) -> list[RoleEffect]:
        former = self._outdated.get(record.agent, {})
        outdated = {
            name: former.get(name) or record.current_until[name] for name in record.outdated_classes(now)
        }
        is_fresh = record.fresh and "" not in outdated
        (self._stale_agents.discard if is_fresh else self._stale_agents.add)(record.agent)
        changed = outdated.keys() ^ former.keys()
        if not changed:
            return []
        self._outdated[record.agent] = outdated
        effects: list[RoleEffect] = []
        for key in [key for key in self._numbers if key[0] in changed]:
            known = self._find(*key)
            if known is not None and known.record.agent == record.agent:
                effects += self._put(known.record, known.class_record.schema, self._numbers[key])
        return effects

    def _learn(self, record: ClassRecord) -> list[RoleEffect]:
        if record.schema.key.package == OWN_PACKAGE:  # consoles of an agent have no use for it
            return []
        self._classes[record.number] = record.schema
        try:
            return [*self.session.learn_class(record.schema)]
        except LocalProtocolError as error:
            return [Note("unservable-class", f"{record.schema.key}: {error}")]

    def _learn_event(self, record: EventClassRecord) -> list[RoleEffect]:
        key = record.schema.key
        if key.package == OWN_PACKAGE:
            return []
        try:
            effects = self.session.learn_event(record.schema)
        except LocalProtocolError as error:
            return [Note("unservable-event", f"{key}: {error}")]
        self._event_keys[record.number] = record
        if key.name == EVENTS_LOST:
            self._lost_event = record
        return [*effects]

    # ---- objects -----------------------------------------------------------------------------------------

    def _shown(self, record: ObjectRecord, now: int) -> list[RoleEffect]:
        schema = self._classes.get(record.class_number)
        if schema is None:
            return []
        key = (schema.class_name, record.row)
        if _lacks_owner(record, schema):
            self._unnamed.add(key)
            return []
        self._unnamed.discard(key)
        number = self._numbers.get(key)
        if number is not None and self._config.numbered_by_facts and self._number(record, key) != number:
            # Another incarnation of a durable object, whose end was not reported: it has another id.
            self._remove(key, record.created or now, now)
            number = None
        is_new = number is None
        if number is None:
            number = self._number(record, key)
            if number in self._rows:
                return [Note("unservable-object", f"{record.stable_name}: its number is that of another")]
            self._numbers[key], self._rows[number] = number, key
            if record.counting is Counting.UNKNOWN:
                self._inherited.add(number)
        effects = self._put(record, schema, number)
        if is_new and self.is_serving:
            self._flush_at = self._flush_at or now + self._config.flush_delay
            self._creations_wait = True
        return effects

    def _number(self, record: ObjectRecord, key: tuple[str, int]) -> int:
        if self._config.numbered_by_facts:
            return int(record.native_id, 16)
        digest = blake2b(f"{key[0]}|{key[1]}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "big")

    def _updated(self, update: UpdateRecord, now: int) -> list[RoleEffect]:
        schema = self._classes.get(update.class_number)
        key = ("", 0) if schema is None else (schema.class_name, update.row)
        number, known = self._numbers.get(key), self._find(*key)
        if schema is not None and known is not None and key in self._unnamed:
            return self._shown(known.record, now)
        # What follows in the same batch may have ended the object, and given its row to another.
        if schema is None or number is None or known is None:
            return []
        if self._config.numbered_by_facts and self._number(known.record, key) != number:
            return []
        return self._put(known.record, known.class_record.schema, number)

    def _put(self, record: ObjectRecord, schema: ClassSchema, number: int) -> list[RoleEffect]:
        values = tuple(self._on_wire(record.values.get(at)) for at in range(len(schema.elements)))
        count = len(schema.properties)
        outdated_since = self._outdated.get(record.agent, {}).get(schema.class_name, 0)
        stale_since = min(filter(None, (record.unread_since, outdated_since)), default=0)
        if stale_since:  # consoles that do not know the mark must not take old statistics for current
            values = values[:count] + (None,) * len(schema.statistics)
        sampled = record.statistics_sampled or record.properties_sampled
        managed = ManagedObject(
            schema.key,
            number,
            record.created,
            values[:count],
            values[count:],
            sampled,
            stale_since,
            number in self._inherited,
        )
        try:
            self.session.put(managed)
        except LocalProtocolError as error:
            return [Note("unservable-object", f"{schema.key} {record.stable_name}: {error}")]
        return []

    def _deleted(self, record: DeleteRecord, now: int) -> list[RoleEffect]:
        schema = self._classes.get(record.class_number)
        key = ("", 0) if schema is None else (schema.class_name, record.row)
        self._unnamed.discard(key)
        self._last_end = max(self._last_end or 0, record.number) or None
        if key not in self._numbers:
            return []
        if record.number:
            # An end without a time is one that was noticed only; AM2 takes 0 for "lives".
            self._remove(key, record.deleted or record.received or now, now)
        else:  # the object lives on in another version of its class, which follows
            number = self._numbers.pop(key)
            del self._rows[number]
            self.session.forget(number)
        return []

    def _remove(self, key: tuple[str, int], deleted: int, now: int) -> None:
        number = self._numbers.pop(key)
        del self._rows[number]
        self._inherited.discard(number)
        self._ended[key] = number
        if len(self._ended) > _ENDED:
            self._ended.popitem(last=False)
        self.session.delete(number, deleted)
        if self.is_serving:
            self._flush_at = self._flush_at or now + self._config.flush_delay

    def _on_wire(self, value: FeedValue | None) -> Value | None:
        """Return ``value`` with an object id in place of a link; ``None`` for a link to no object."""
        if not isinstance(value, ObjectLink):
            return value
        key = (value.class_name, value.row)
        number = self._numbers.get(key, self._ended.get(key))
        return None if number is None else Reference(str(self.session.object_id(number)))

    # ---- events ------------------------------------------------------------------------------------------

    def _event(self, record: EventRecord, now: int) -> list[RoleEffect]:
        event_class = self._event_keys.get(record.class_number)
        if event_class is None:
            return []
        count = len(event_class.schema.arguments)
        arguments = tuple(self._on_wire(record.values.get(at)) for at in range(count))
        identity = record.cause or record.event_id
        return self._raise(event_class.schema.key, record.time, record.severity, arguments, identity, now)

    def _raise(
        self, key: ClassKey, time: int, severity: Severity, arguments: Values, identity: str, now: int
    ) -> list[RoleEffect]:
        """Publish an event: at once, or when its objects have been published, or consoles can be reached.

        Consoles recognise an event by ``identity``, also where another agent publishes it.
        """
        try:
            message = self.session.event_message(key, time, severity, arguments)
        except LocalProtocolError as error:
            return [Note("unservable-event", f"{key}: {error}")]
        self._backlog.add(replace(message, message_id=identity), identity, time, severity)
        return self._publish_events(now)

    def _events_lost(self, loss: Loss, now: int) -> list[RoleEffect]:
        """Report events that were dropped here."""
        reason = f"{loss.count} could not be published while no console could be reached"
        return [Note("events-lost", reason), *self._report_loss(loss, reason, now)]

    def _report_loss(self, loss: Loss, reason: str, now: int) -> list[RoleEffect]:
        if self._lost_event is None:
            return []
        arguments = (loss.first or None, loss.last or None, loss.count or None, reason)
        identity = f"{self._config.session.broker.hex}-{now}"
        key = self._lost_event.schema.key
        return self._raise(key, now, Severity.WARNING, arguments, identity, now)

    def unsent(self, messages: Iterable[Send]) -> None:
        """Publish the events among these messages again, which the link could not send."""
        self._backlog.give_back(message.message_id for message in messages if message.message_id)

    def _publish_events(self, now: int) -> list[RoleEffect]:
        """Publish the events that wait, if it is their time."""
        if now >= self._settled_at:
            self._settled_at = 0
        if not self.is_serving or self._settled_at or self._creations_wait or not len(self._backlog):
            return []
        effects: list[RoleEffect] = [*self._backlog.take(now)]
        loss = self._backlog.take_loss()
        if loss is not None:
            effects += self._events_lost(loss, now)
        return effects

    # ---- when to serve -----------------------------------------------------------------------------------

    def _begin_or_suspend(self, now: int) -> list[RoleEffect]:
        if self._stale_agents:
            self._suspend()
            return []
        if self.is_serving or not self._linked or not self._is_read:
            return []
        self.is_serving = True
        self._settled_at = now + SETTLING
        effects: list[RoleEffect] = [*self._kept(self.session.start(now)), *self.session.flush(now)]
        missed_since, self._missed_since = self._missed_since, 0
        if missed_since:
            effects += self._report_loss(Loss(0, missed_since, now), "the agent was not running", now)
        return effects

    def _suspend(self) -> None:
        if self.is_serving:
            self.is_serving = self._creations_wait = False
            self.session.suspend()
            self._flush_at = self._session_wake = 0

    def distrust(self, reason: str) -> None:
        """Refuse every request for ``reason``, until called with an empty one."""
        self.session.distrust(reason)

    def console_bound(self, now: int) -> list[RoleEffect]:
        """Publish everything again soon, because a console bound its queue."""
        return self._awake(self._kept(self.session.console_bound(now)))

    # ---- the link ----------------------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> list[RoleEffect]:
        """Process an event; as `Session.handle`, for all events of a link to a broker."""
        match event:
            case Delivery():
                return self._receive(event, now)
            case TimerExpired():
                return self._pass_time(now)
            case LinkUp():
                self._linked = True
                return self._awake(self._begin_or_suspend(now))
            case LinkDown():
                self._linked = False
                self._suspend()
                return []
            case NotSent():
                return []  # `unsent` gets all messages that were not sent
            case LossSuspected():
                # Requests may have been lost: everything is published again for their senders.
                return self.console_bound(now)
            case _:
                raise EventNotTakenError(self, event)

    def stand_by(self, now: int) -> None:
        """Leave service to another agent, whose events are not published again by this one."""
        self._missed_since = 0
        self._backlog.forget_before(now - OVERLAP)
        self.session.stand_by()

    def _receive(self, delivery: Delivery, now: int) -> list[RoleEffect]:
        """Answer the request of a console, or submit the operation that it requests."""
        effects: list[RoleEffect] = []
        for effect in self._kept(self.session.handle(delivery, now)):
            match effect:
                case Called():
                    effects += self._called(effect, now)
                case CalledUnseen():
                    effects.append(self._called_unseen(effect))
                case ReadAsked():
                    action = ReadFresh()
                    asked = _Asked(effect.handle, effect.number, None)
                    effects += self._submit(asked, action, effect.user_id, effect.deadline - now)
                case _:
                    effects.append(effect)
        return self._awake(effects)

    def _pass_time(self, now: int) -> list[RoleEffect]:
        """Publish changes and events that are due."""
        self._woken_at = 0
        effects: list[RoleEffect] = []
        if self._flush_at and now >= self._flush_at:
            self._flush_at = 0
            self._creations_wait = False
            effects += self.session.flush(now)
        if self._session_wake and now >= self._session_wake:
            self._session_wake = 0
            effects += self._kept(self.session.handle(TimerExpired(), now))
        return self._awake(effects + self._publish_events(now))

    def _kept(self, effects: Iterable[Effect]) -> list[RoleEffect]:
        """Return ``effects`` without the timers of the session, which become part of the role's."""
        others: list[RoleEffect] = []
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._session_wake = effect.time
            else:
                others.append(effect)
        return others

    def _awake(self, effects: list[RoleEffect]) -> list[RoleEffect]:
        """Return ``effects`` with the role's timer, if that has changed."""
        events_at = self._settled_at if self.is_serving and len(self._backlog) else 0
        times = [time for time in (self._flush_at, self._session_wake, events_at) if time]
        wake = min(times, default=0)
        if wake and wake != self._woken_at:
            self._woken_at = wake
            effects.append(WakeAt(wake))
        return effects

    # ---- operations --------------------------------------------------------------------------------------

    def _called(self, called: Called, now: int) -> list[RoleEffect]:
        class_name, row = self._rows[called.number]
        known = self._find(class_name, row)
        methods = () if known is None else known.class_record.schema.methods
        method = next((one for one in methods if one.name == called.method), None)
        if method is None:
            gone = "the object is gone, or its class has another version by now"
            return [*self.session.method_done(called.handle, Status.UNKNOWN_OBJECT, gone)]
        inputs = [one for one in method.arguments if one.direction is not Direction.OUT]
        arguments = {
            argument.name: self._link(value, called.user_id)
            for argument, value in zip(inputs, called.arguments, strict=True)
        }
        outputs = tuple(one for one in method.arguments if one.direction is not Direction.IN)
        asked = _Asked(called.handle, called.number, outputs)
        action = InvokeMethod(called.method, arguments)
        return self._submit(asked, action, called.user_id, called.deadline - now)

    def _is_seen(self, user: str, key: ClassKey, number: int | None) -> bool:
        class_name, row = (self._named_class(key), 0) if number is None else self._rows[number]
        return self._sees(self._principal(user), self._config.source, class_name, row)

    def _called_unseen(self, called: CalledUnseen) -> Submit:
        """Let a call that was answered as one of no object be recorded, with its object where it has one."""
        number = called.number
        class_name, row = (self._named_class(called.key), 0) if number is None else self._rows[number]
        refusal = FrontEndRefusal(Outcome.OBJECT_GONE, "there is no such object", called.method)
        self._requests += 1
        where = (self._principal(called.user_id), self._config.source, class_name, row)
        return Submit(
            OperationRequest(self._requests, *where, InvokeMethod(called.method, {}), 0, refusal=refusal)
        )

    def _named_class(self, key: ClassKey) -> str:
        """Return the class that a console named; empty where this role serves no such class."""
        is_served = (key.package, key.name) in self.session.objects.classes
        return f"{key.package}:{key.name}" if is_served else ""

    def _principal(self, user: str) -> Principal:
        return Principal("qmf", user, self._config.name)

    def _link(self, value: Value | None, user: str) -> FeedValue | None:
        """Return ``value`` with a link in place of an object id.

        The link has no class or object where the id is unknown, and where the user does not see its object.
        """
        if not isinstance(value, Reference):
            return value
        found = self._rows.get(int(value.native_id.rpartition("-")[2] or 0))
        known = None if found is None else self._find(*found)
        where = ("", 0) if found is None else found
        is_seen = self._sees(self._principal(user), self._config.source, *where)
        if found is None or known is None or not is_seen:
            return ObjectLink("", 0, value.native_id)
        return ObjectLink(*found, known.record.stable_name)

    def _submit(self, asked: _Asked, action: Action, user: str, timeout: int) -> list[RoleEffect]:
        class_name, row = self._rows[asked.number]
        self._requests += 1
        self._asked[self._requests] = asked
        where = (self._principal(user), self._config.source, class_name, row)
        request = OperationRequest(self._requests, *where, action, timeout, ends=self._last_end)
        return [Submit(request)]

    def operation_answered(self, answer: OperationAnswer, now: int) -> list[RoleEffect]:
        """Report the outcome of an operation to its console, after all changes that it made."""
        asked = self._asked.pop(answer.request, None)
        if asked is None:
            return []
        if asked.outputs is None:
            failed = answer.outcome not in {Outcome.APPLIED, Outcome.OBJECT_GONE}
            failure = answer.text if failed else ""
            return self._awake(self._kept(self.session.read_done(asked.handle, failure)))
        if answer.outcome is Outcome.UNKNOWN and answer.code is None:
            return self._left_undecided(answer, asked, now)
        is_absent = answer.has_failed_check and answer.outcome is Outcome.OBJECT_GONE
        text = UNKNOWN_OBJECT if is_absent else answer.text
        return self._done(asked, answer.outcome, answer.code, text, answer.values, now)

    def _left_undecided(self, answer: OperationAnswer, asked: _Asked, now: int) -> list[RoleEffect]:
        """Answer later, when the outcome is found out: consoles have deadlines, and accept late answers."""
        self._undecided[answer.operation_id] = asked
        if len(self._undecided) <= _UNDECIDED:
            return []
        oldest = self._undecided.pop(next(iter(self._undecided)))
        text = "what came of it was not found out: it may have been carried out"
        return self._done(oldest, Outcome.UNKNOWN, Status.OUTCOME_UNKNOWN, text, {}, now)

    def _settled(self, record: OperationRecord) -> list[RoleEffect]:
        asked = self._undecided.pop(record.operation_id, None)
        if asked is None or record.outcome is None:
            return []
        return self._done(asked, record.outcome, record.code, record.text, record.found, record.ended)

    def _done(
        self,
        asked: _Asked,
        outcome: Outcome,
        code: int | None,
        text: str,
        values: Mapping[str, FeedValue],
        now: int,
    ) -> list[RoleEffect]:
        status = _STATUSES.get(outcome, Status.EXCEPTION) if code is None else code
        found = tuple(self._on_wire(values.get(argument.name)) for argument in asked.outputs or ())
        outputs = found if outcome is Outcome.APPLIED else ()
        changed = self.session.publish(asked.number, now)
        return [*changed, *self.session.method_done(asked.handle, status, text, outputs)]


def _lacks_owner(record: ObjectRecord, schema: ClassSchema) -> bool:
    """Return whether an object is not known to which the name of this one refers.

    Consoles make names of references, too, and would give it another one.
    """
    return any(
        record.values.get(at) is None
        for at in schema.index_positions
        if schema.elements[at].type is ValueType.REFERENCE and not schema.elements[at].optional
    )
