"""Whose answer a message is, and what it means where it is nobody's: the ear of a console."""

from __future__ import annotations

from typing import Final

from gateway.dialects.cml.console_calls import Caller
from gateway.dialects.cml.console_config import Matching
from gateway.dialects.cml.console_conversation import Conversation
from gateway.dialects.cml.console_poller import Poller
from gateway.dialects.cml.console_requests import Asked
from gateway.dialects.cml.messages import InspectReply, Notify, Received, SchemaReply
from gateway.dialects.cml.reader import read_message
from gateway.dialects.errors import ProtocolError
from gateway.dialects.session import Delivery
from gateway.model.events import Severity
from gateway.model.observations import EventSeen

_SEVERITIES: Final = {"E": Severity.MAJOR, "W": Severity.WARNING, "I": Severity.INFO}


class Listener:
    """Understands messages on behalf of a conversation."""

    def __init__(self, conversation: Conversation, poller: Poller, caller: Caller) -> None:
        self._talk = conversation
        self._poller = poller
        self._caller = caller
        self._errors = 0

    def hear(self, delivery: Delivery) -> None:
        """Take in what arrived."""
        message: Received | ProtocolError
        try:
            message = read_message(delivery.body)
        except ProtocolError as error:
            message = error
            self._errors += 1
            where = f"{delivery.exchange}/{delivery.routing_key}"
            self._talk.note("protocol-error", f"{where}: {error}; {self._errors} so far")
        if delivery.exchange and delivery.exchange == self._talk.config.notify_exchange:
            self._hear_notification(message)
            return
        asked = self._asked(delivery.message_id, message)
        if asked is None:
            self._talk.note("unmatched-reply", f"nothing waits for it: {type(message).__name__}")
            return
        self._talk.heard_at = self._talk.now
        self._talk.end(asked)
        if asked.operation is not None:
            self._caller.answered(asked, message)
        elif asked.known is None:
            self._hear_schema(message)
        elif self._talk.tree.find(asked.known.number) is asked.known:
            if isinstance(message, InspectReply):
                self._poller.inspected(asked.known, message)
            else:
                self._poller.failed(asked.known, f"the answer is a {type(message).__name__}")

    def _asked(self, message_id: str, message: Received | ProtocolError) -> Asked | None:
        """What a message answers; it is not waited for any more."""
        requests = self._talk.requests
        if message_id:
            return requests.end(message_id)
        asked = requests.only()
        if asked is not None and self._begins_one_by_one(asked, message):
            self._talk.note(
                "no-message-ids", "replies carry no message id: one request at a time from now on"
            )
            self._talk.one_by_one()
        if asked is None or not self._talk.one_at_a_time or not self._can_answer(asked, message):
            return None
        return requests.end(asked.message_id)

    def _begins_one_by_one(self, asked: Asked, message: Received | ProtocolError) -> bool:
        finding_out = self._talk.config.matching is Matching.FIND_OUT and not self._talk.one_at_a_time
        return finding_out and asked.known is None and isinstance(message, SchemaReply)

    def _can_answer(self, asked: Asked, message: Received | ProtocolError) -> bool:
        """Whether a message without an id answers the only request there is, and not one before it.

        While an answer may still come that was given up, only those are taken that name the object inspected:
        an old one of these tells the same as a new one.
        """
        if self._talk.now >= self._talk.strays_until:
            return True
        if asked.known is None:
            return isinstance(message, SchemaReply)
        if asked.operation is not None or not isinstance(message, InspectReply):
            return False
        return message.object_id == asked.known.number

    def _hear_schema(self, message: Received | ProtocolError) -> None:
        if isinstance(message, SchemaReply):
            self._poller.told_schema(message)
        else:
            self._poller.no_schema(f"the answer to the request for the schema is a {type(message).__name__}")

    def _hear_notification(self, message: Received | ProtocolError) -> None:
        if not isinstance(message, Notify) or self._talk.views is None:
            return
        letter, colon, text = message.text.partition(":")
        severity = _SEVERITIES.get(letter.strip()) if colon else None
        shown = text.strip() if severity is not None else message.text
        event = EventSeen(
            self._talk.views.event.key,
            self._talk.config.agent,
            self._talk.now,
            severity if severity is not None else Severity.INFO,
            (self._talk.config.secrets.masked_uris(shown),),
        )
        self._talk.observations.append(event)
