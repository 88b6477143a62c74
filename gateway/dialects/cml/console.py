"""The console session of CML: learns a broker's schema, walks its objects, and polls them from then on.

`console_states` has the table. Sources: "AMQP Console Interface" (2006), the wiki's "3-CML", OpenAMQ 1.4c1.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.dialects.cml.console_calls import Caller
from gateway.dialects.cml.console_config import ConsoleConfig
from gateway.dialects.cml.console_conversation import Conversation
from gateway.dialects.cml.console_hearing import Listener
from gateway.dialects.cml.console_poller import Poller
from gateway.dialects.cml.console_states import State
from gateway.dialects.cml.messages import SchemaReply
from gateway.dialects.errors import ProtocolError
from gateway.dialects.session import (
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
    Send,
    TimerExpired,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify

__all__ = ["ConsoleConfig", "ConsoleSession"]


class ConsoleSession:
    """A console of one broker that speaks CML, without I/O.

    What is observed by one event is one `Observed`. Requests are sent as mandatory, and `NotSent` is handed
    in for those that come back.
    """

    def __init__(self, config: ConsoleConfig) -> None:
        self._config = config
        self._talk = Conversation(config)
        self._poller = Poller(self._talk)
        self._caller = Caller(self._talk, self._poller)
        self._listener = Listener(self._talk, self._poller, self._caller)
        self._refused = 0
        if config.schema is not None:
            try:
                self._poller.know(config.schema)
            except ProtocolError as error:
                self._talk.note("saved-schema", f"it cannot be used: {error}")

    @property
    def schema(self) -> SchemaReply | None:
        """The schema in use, as the broker told it or as it was saved: worth keeping for `ConsoleConfig`."""
        return None if self._talk.views is None else self._talk.views.schema

    @property
    def state(self) -> State:
        """Where the session stands."""
        return self._talk.state

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """What the queue of this name must be bound to before `LinkUp`; its name is the reply key."""
        replies = Binding(self._config.reply_exchange, queue)
        if not self._config.notify_exchange:
            return (replies,)
        return (replies, Binding(self._config.notify_exchange, self._config.notify_key))

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in what happened; as `Session.handle`, for events of a link to a broker and for operations.

        An operation is carried out once. ``SOURCE_DOWN`` and the outcomes of a check: nothing was sent.
        ``UNKNOWN``: no answer until the deadline, or until the link went down; another answer may follow when
        it comes late. ``APPLIED`` is what the broker says: OpenAMQ says so whatever it did, so what was set
        is to be read back. What was read is observed before it is answered.
        """
        self._talk.now = now
        match event:
            case Delivery():
                return self._receive(event)
            case TimerExpired():
                return self._pass_time()
            case MethodCall() | ObjectModify() | ObjectFetch():
                self._caller.take(event)
            case LinkUp(reply_to):
                self._talk.connect(reply_to)
                self._poller.connected()
            case LinkDown(detail):
                for asked in self._talk.requests.abandon():
                    self._caller.leave_open(asked, "the link went down before an answer came")
                self._poller.disconnected(detail)
            case LossSuspected(reason, since):
                # While disconnected that waits for the link.
                if self._talk.state is not State.DISCONNECTED:
                    self._poller.doubted(reason, since)
            case NotSent(sends, reason):
                self._take_back(sends, reason)
            case _:
                raise EventNotTakenError(self, event)
        return self._finish()

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """As `ConsoleSession.precheck` of every dialect."""
        self._talk.now = now
        return self._caller.precheck(request)

    def _take_back(self, sends: Iterable[Send], reason: str) -> None:
        """Wait no more for answers to what certainly was not sent, or came back."""
        returned = False
        for send in sends:
            asked = self._talk.requests.end(send.message_id)
            if asked is not None:
                self._talk.miss(asked)
                if asked.operation is not None:
                    self._caller.unsent(asked.operation, reason)
                returned |= asked.operation is None
        if returned:
            where = f"exchange {self._config.system_exchange} with key {self._config.routing_key}"
            self._poller.turned_away(f"{where} takes no requests: {reason}")

    def _pass_time(self) -> list[Effect]:
        """Inspect what is due, miss answers, try again."""
        self._talk.awake()
        if self._talk.state is State.DISCONNECTED:
            return []
        overdue = self._talk.requests.overdue(self._talk.now)
        for asked in overdue:
            self._talk.miss(asked)
            if asked.operation is not None:
                self._caller.leave_open(asked, "no answer came in time")
        for asked in overdue:
            if asked.operation is None:
                self._poller.missed(asked)
        self._caller.pass_time()
        self._poller.pass_time()
        return self._finish()

    def _receive(self, delivery: Delivery) -> list[Effect]:
        if self._talk.state is State.DISCONNECTED:
            return []
        if self._config.believed is not None and delivery.user_id not in self._config.believed:
            self._refused += 1
            return [
                Note("refused-sender", f"message of {delivery.user_id!r} ignored, {self._refused} so far")
            ]
        self._listener.hear(delivery)
        return self._finish()

    def _finish(self) -> list[Effect]:
        self._caller.launch()
        return self._talk.finish(self._caller.next_deadline)
