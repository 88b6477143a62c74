"""The console session: learns all that the agents of one broker manage, and keeps it current.

It greets (B), lists packages and classes (P, Q), asks for schemas it does not know (S), then gets all
objects (G), class by class and agent by agent. From then on it lives on what agents push (c, i, e, h),
and begins again whenever it has reason to doubt. `console_states` has the table. Sources: QMF AM2
protocol; what qpidd, Apache Qpid M4, agents of 0.6 and the Java broker do where they differ from it.
"""

from __future__ import annotations

import contextlib
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.addresses import agent_of_key
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.dialects.qmf.console_conversation import Conversation
from gateway.dialects.qmf.console_messages import Listener
from gateway.dialects.qmf.console_requests import FetchObjects, FetchSchema
from gateway.dialects.qmf.console_states import State
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.reader import read_body
from gateway.dialects.session import (
    BacklogFollows,
    Binding,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    LossSuspected,
    Note,
    NotSent,
    PropertiesMissing,
    TimerExpired,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify

__all__ = ["ConsoleConfig", "ConsoleSession"]


class ConsoleSession:
    """A console of one broker's agents, without I/O.

    What is observed by one event is one `Observed`, so one for each message body.

    Args:
        config: see `ConsoleConfig`.
        talk: the conversation, and
        listener: who understands what is said in it, of a version other than AM2.
    """

    def __init__(
        self, config: ConsoleConfig, talk: Conversation | None = None, listener: Listener | None = None
    ) -> None:
        self._config = config
        self._talk = talk or Conversation(config)
        self._listener = listener or Listener(self._talk)
        self._refused = 0
        self._errors = 0
        self._listener.learn(config.definitions)

    @property
    def definitions(self) -> tuple[ClassDefinition | EventDefinition, ...]:
        """The classes and events known: worth keeping for `ConsoleConfig.definitions`."""
        return tuple(self._talk.definitions)

    @property
    def state(self) -> State:
        """Where the session stands."""
        return self._talk.state

    @property
    def broker(self) -> UUID | None:
        """The incarnation of the management broker that answered last."""
        return self._talk.restarts.broker

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """What the queue of this name must be bound to before `LinkUp`; its name is the reply key."""
        objects = ["console.obj.#", "console.event.#"]
        if self._config.packages is not None:
            packages = sorted(self._config.packages)
            objects = [f"console.{sort}.*.*.{name}.#" for sort in ("obj", "event") for name in packages]
        keys = [*objects, "console.heartbeat.#", "schema.#"]
        exchange = self._config.management_exchange
        replies = Binding(self._config.direct_exchange, queue)
        return (replies, *(Binding(exchange, key) for key in keys))

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: C901  a case for each event
        """Take in what happened; as `Session.handle`, for events of a link to a broker and for operations.

        After `BacklogFollows` nothing is asked until `LinkUp`, and answers to what was asked before are not
        taken in. `PropertiesMissing` is dealt with when the next event comes: an agent of Apache Qpid 0.6
        publishes no properties that it has published already to another console that asked.

        An operation is carried out once. ``SOURCE_DOWN`` and the outcomes of a check: nothing was sent.
        ``UNKNOWN``: no answer until the deadline, or until the link went down; another answer may follow when
        it comes late. What was read is observed before it is answered.
        """
        self._talk.now = now
        if isinstance(event, Delivery):
            return self._receive(event)
        self._talk.stir()
        match event:
            case TimerExpired():
                return self._pass_time()
            case MethodCall():
                self._listener.caller.call(event)
            case ObjectModify():
                self._listener.caller.modify(event)
            case ObjectFetch():
                self._listener.caller.fetch(event)
            case LinkUp(reply_to):
                self._talk.connect(reply_to)
            case LinkDown(detail):
                self._talk.disconnect(detail)
            case BacklogFollows(missed, waiting):
                self._talk.resume(missed, waiting)
            case LossSuspected(reason, since):
                self._suspect_loss(reason, since)
            case NotSent(sends, reason):
                self._listener.caller.unsent(sends, reason)
            case PropertiesMissing():
                self._talk.read_the_unnamed()
                return []
            case _:
                raise EventNotTakenError(self, event)
        return self._talk.finish()

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """As `ConsoleSession.precheck` of every dialect."""
        self._talk.now = now
        return self._listener.caller.precheck(request)

    def _suspect_loss(self, reason: str, since: int) -> None:
        """Begin again: what is known may be wrong. While disconnected that waits for the link."""
        if self._talk.state is State.DISCONNECTED:
            return
        if since:
            self._talk.miss(since, reason)
        if self._talk.state is not State.CATCHING_UP:
            self._talk.greet(reason)

    def _pass_time(self) -> list[Effect]:
        """Ask again, give up, miss heartbeats, try again."""
        if self._talk.state in (State.DISCONNECTED, State.CATCHING_UP):
            return []
        self._talk.pass_time()
        return self._talk.finish()

    def _receive(self, delivery: Delivery) -> list[Effect]:
        if self._talk.state is State.DISCONNECTED:
            return []
        if not self._config.believe_anyone and delivery.user_id not in self._config.believed:
            self._refused += 1
            return [
                Note("refused-sender", f"message of {delivery.user_id!r} ignored, {self._refused} so far")
            ]
        if self._talk.state is State.CATCHING_UP and delivery.exchange == self._config.direct_exchange:
            return self._receive_late(delivery)
        self._talk.arrived(delivery.timestamp)
        try:
            self._hear(delivery)
        except (ProtocolError, LocalProtocolError) as error:
            self._note_error(delivery, error)
        return self._talk.finish()

    def _hear(self, delivery: Delivery) -> None:
        sender = agent_of_key(delivery.routing_key)
        for message in read_body(delivery.body, self._talk.definitions):
            self._listener.hear(message, sender)

    def _receive_late(self, delivery: Delivery) -> list[Effect]:
        """An answer to what was asked before the link went down: it says what became of a call."""
        self._talk.stir()
        with contextlib.suppress(ProtocolError, LocalProtocolError):
            self._listener.hear_answers(read_body(delivery.body, self._talk.definitions))
        return self._talk.finish()

    def _note_error(self, delivery: Delivery, error: Exception) -> None:
        self._errors += 1
        self._talk.stir()
        where = f"{delivery.exchange}/{delivery.routing_key} from {delivery.user_id!r}"
        self._talk.note("protocol-error", f"{where}: {error}; {self._errors} so far")
        self._listener.caller.unreadable(delivery.body, error)
        sequence = int.from_bytes(delivery.body[4:8], "big")
        subject = self._talk.requests.subject(sequence)
        if delivery.body[:4] == b"AM2s" and isinstance(subject, FetchSchema):
            # The broker keeps broken schemas of other agents: all but this class can still be complete.
            self._talk.requests.complete(sequence)
            self._talk.give_class_up(subject.key)
            return
        # What a body has not told must not be taken for gone.
        told_by = agent_of_key(delivery.routing_key)
        agent = subject.agent if isinstance(subject, FetchObjects) else told_by
        self._talk.fall_short("a message could not be read", agent)
        if delivery.exchange != self._config.direct_exchange:
            self._talk.read_the_unread()
