"""The console session of CML: reads a broker's schema, walks its objects, and polls them from then on.

`session_state` has the table of states. Sources: "AMQP Console Interface" (2006), the wiki's "3-CML",
OpenAMQ 1.4c1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.console_calls import RpcClient
from gateway.dialects.cml.console_config import ConsoleConfig, Matching
from gateway.dialects.cml.console_poller import Poller
from gateway.dialects.cml.messages import InspectReply, Notify, Received, SchemaReply
from gateway.dialects.cml.session_state import Asked, SessionState, State
from gateway.dialects.console import sending_last
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
from gateway.model.observations import EventSeen, Severity
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify

__all__ = ["ConsoleConfig", "ConsoleSession"]


_SEVERITIES: Final = {"E": Severity.MAJOR, "W": Severity.WARNING, "I": Severity.INFO}


class MessageHandler:
    """Processes messages for a console session."""

    def __init__(self, state: SessionState, poller: Poller, client: RpcClient) -> None:
        self._state = state
        self._poller = poller
        self._client = client
        self._errors = 0

    def take(self, delivery: Delivery) -> None:
        """Process a message."""
        message: Received | ProtocolError
        try:
            message = read_message(delivery.body)
        except ProtocolError as error:
            message = error
            self._errors += 1
            where = f"{delivery.exchange}/{delivery.routing_key}"
            self._state.note("protocol-error", f"{where}: {error}; {self._errors} so far")
        if delivery.exchange and delivery.exchange == self._state.config.notify_exchange:
            self._take_notification(message)
            return
        asked = self._asked(delivery.message_id, message)
        if asked is None:
            self._state.note("unmatched-reply", f"nothing waits for it: {type(message).__name__}")
            return
        self._state.received_at = self._state.now
        self._state.end(asked)
        if asked.operation is not None:
            self._client.answered(asked, message)
        elif asked.known is None:
            self._take_schema(message)
        elif self._state.tree.find(asked.known.number) is asked.known:
            if isinstance(message, InspectReply):
                self._poller.inspected(asked.known, message, asked.sent)
            else:
                self._poller.failed(asked.known, f"the answer is a {type(message).__name__}")
            self._client.inspected(asked.known)

    def _asked(self, message_id: str, message: Received | ProtocolError) -> Asked | None:
        """End and return the request that a message answers; ``None`` where there is none."""
        requests = self._state.requests
        if message_id:
            return requests.end(message_id)
        asked = requests.only()
        if asked is not None and self._begins_one_by_one(asked, message):
            self._state.note(
                "no-message-ids", "replies carry no message id: one request at a time from now on"
            )
            self._state.one_by_one()
        if asked is None or not self._state.one_at_a_time or not self._can_answer(asked, message):
            return None
        return requests.end(asked.message_id)

    def _begins_one_by_one(self, asked: Asked, message: Received | ProtocolError) -> bool:
        finding_out = self._state.config.matching is Matching.FIND_OUT and not self._state.one_at_a_time
        return finding_out and asked.known is None and isinstance(message, SchemaReply)

    def _can_answer(self, asked: Asked, message: Received | ProtocolError) -> bool:
        """Return whether a message without an id answers the only request, and no earlier one.

        While the answer to a request that was given up may still arrive, only inspect-replies with the number
        of the requested object are accepted: of these, an old one is as good as a new one.
        """
        if self._state.now >= self._state.strays_until:
            return True
        if asked.known is None:
            return isinstance(message, SchemaReply)
        if asked.operation is not None or not isinstance(message, InspectReply):
            return False
        return message.object_id == asked.known.number

    def _take_schema(self, message: Received | ProtocolError) -> None:
        if isinstance(message, SchemaReply):
            self._poller.schema_received(message)
        else:
            self._poller.no_schema(f"the answer to the request for the schema is a {type(message).__name__}")

    def _take_notification(self, message: Received | ProtocolError) -> None:
        if not isinstance(message, Notify) or self._state.views is None:
            return
        letter, colon, text = message.text.partition(":")
        severity = _SEVERITIES.get(letter.strip()) if colon else None
        shown = text.strip() if severity is not None else message.text
        event = EventSeen(
            self._state.views.event.key,
            self._state.config.agent,
            self._state.now,
            severity if severity is not None else Severity.INFO,
            (self._state.config.secrets.masked_uris(shown),),
        )
        self._state.observations.append(event)


class ConsoleSession:
    """A console of one broker that speaks CML, without I/O.

    The observations of one event are one `Observed`. Requests are sent as mandatory, and `NotSent` is
    passed for those that are returned.
    """

    def __init__(self, config: ConsoleConfig) -> None:
        self._config = config
        self._state = SessionState(config)
        self._poller = Poller(self._state)
        self._client = RpcClient(self._state, self._poller)
        self._handler = MessageHandler(self._state, self._poller, self._client)
        self._refused = 0
        if config.schema is not None:
            try:
                self._poller.know(config.schema)
            except ProtocolError as error:
                self._state.note("saved-schema", f"it cannot be used: {error}")

    @property
    def schema(self) -> SchemaReply | None:
        """The schema in use, from the broker or from before, to be kept for `ConsoleConfig`."""
        return None if self._state.views is None else self._state.views.schema

    @property
    def state(self) -> State:
        """The state of the session."""
        return self._state.state

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """Return the bindings of the queue of this name before `LinkUp`; its name is the reply key."""
        replies = Binding(self._config.reply_exchange, queue)
        if not self._config.notify_exchange:
            return (replies,)
        return (replies, Binding(self._config.notify_exchange, self._config.notify_key))

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event; as `Session.handle`, for events of a link to a broker and for operations.

        An operation is carried out once. After ``SOURCE_DOWN`` and the outcomes of a check, nothing was sent.
        ``UNKNOWN`` stands for no answer until the deadline, or until the link went down; a late answer may
        follow it. ``APPLIED`` is the broker's answer: OpenAMQ sends it whatever it did, so set values must
        be read back. Values that were read are observed before the answer.
        """
        self._state.now = now
        match event:
            case Delivery():
                return self._receive(event)
            case TimerExpired():
                return self._pass_time()
            case MethodCall() | ObjectModify() | ObjectFetch():
                with sending_last():
                    self._client.take(event)
            case LinkUp(reply_to):
                self._state.connect(reply_to)
                self._poller.connected()
            case LinkDown(detail):
                for asked in self._state.requests.abandon():
                    self._client.leave_open(asked, "the link went down before an answer came")
                self._poller.disconnected(detail)
            case LossSuspected(reason, since):
                # While disconnected that waits for the link.
                if self._state.state is not State.DISCONNECTED:
                    self._poller.loss_suspected(reason, since)
            case NotSent(sends, reason):
                self._take_back(sends, reason)
            case _:
                raise EventNotTakenError(self, event)
        return self._finish()

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Return what `ConsoleSession.precheck` of every dialect documents."""
        self._state.now = now
        return self._client.precheck(request)

    def _take_back(self, sends: Iterable[Send], reason: str) -> None:
        """End the requests that certainly were not sent, or were returned."""
        returned = False
        for send in sends:
            asked = self._state.requests.end(send.message_id)
            if asked is not None:
                self._state.miss(asked)
                if asked.operation is not None:
                    self._client.unsent(asked.operation, reason)
                returned |= asked.operation is None
        if returned:
            where = f"exchange {self._config.system_exchange} with key {self._config.routing_key}"
            self._poller.turned_away(f"{where} takes no requests: {reason}")

    def _pass_time(self) -> list[Effect]:
        """Inspect objects that are due, detect missing answers, and retry."""
        self._state.timer_expired()
        if self._state.state is State.DISCONNECTED:
            return []
        overdue = self._state.requests.overdue(self._state.now)
        for asked in overdue:
            self._state.miss(asked)
            if asked.operation is not None:
                self._client.leave_open(asked, "no answer came in time")
        for asked in overdue:
            if asked.operation is None:
                self._poller.missed(asked)
                if asked.known is not None:
                    self._client.inspected(asked.known)
        self._client.pass_time()
        self._poller.pass_time()
        return self._finish()

    def _receive(self, delivery: Delivery) -> list[Effect]:
        if self._state.state is State.DISCONNECTED:
            return []
        if self._config.trusted_users is not None and delivery.user_id not in self._config.trusted_users:
            self._refused += 1
            return [
                Note("refused-sender", f"message of {delivery.user_id!r} ignored, {self._refused} so far")
            ]
        self._handler.take(delivery)
        return self._finish()

    def _finish(self) -> list[Effect]:
        self._client.launch()
        self._poller.report()
        return self._state.flush(min(self._client.next_deadline, self._poller.report_due))
