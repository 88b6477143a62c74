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
from gateway.dialects.effects import Binding, Delivery, Effect, Note, Send
from gateway.dialects.errors import ProtocolError
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify

__all__ = ["ConsoleConfig", "ConsoleSession"]


class ConsoleSession:
    """A console of one broker that speaks CML, without I/O.

    Every method returns what is to be done: requests to send, observations to apply (one `Observed` for
    each call), notes, and when to call `tick`. Nothing that arrives makes a method raise. ``now`` is the
    gateway's clock in nanoseconds. Requests are sent as mandatory: what comes back is for `unsent`.
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
        """What the queue of this name must be bound to before `connected`; its name is the reply key."""
        replies = Binding(self._config.reply_exchange, queue)
        if not self._config.notify_exchange:
            return (replies,)
        return (replies, Binding(self._config.notify_exchange, self._config.notify_key))

    # What the link tells.

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        """The queue ``reply_to`` is declared, bound and consumed: ask for the schema.

        Raises:
            LocalProtocolError: the session is connected already.
        """
        self._talk.now = now
        self._talk.connect(reply_to)
        self._poller.connected()
        return self._finish()

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        """The link is down; ``detail`` says why, for people."""
        self._talk.now = now
        for asked in self._talk.requests.abandon():
            self._caller.leave_open(asked, "the link went down before an answer came")
        self._poller.disconnected(detail)
        return self._finish()

    def resync(self, reason: str, now: int, since: int = 0) -> list[Effect]:
        """Begin again: what is known may be wrong. Nothing while disconnected, as `connected` does it.

        Nor where it has begun just now. ``since``: from when on messages may have been lost; 0 for none.
        """
        self._talk.now = now
        if self._talk.state is not State.DISCONNECTED:
            self._poller.doubted(reason, since)
        return self._finish()

    def unsent(self, sends: Iterable[Send], reason: str, now: int) -> list[Effect]:
        """These certainly were not sent, and will not be, or came back; ``reason`` says why, for people.

        To be told before `disconnected`, which leaves open what became of all others.
        """
        self._talk.now = now
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
        return self._finish()

    def tick(self, now: int) -> list[Effect]:
        """Time has passed: inspect what is due, miss answers, try again."""
        self._talk.now = now
        self._talk.awake()
        if self._talk.state is State.DISCONNECTED:
            return []
        overdue = self._talk.requests.overdue(now)
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

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """A message arrived."""
        self._talk.now = now
        if self._talk.state is State.DISCONNECTED:
            return []
        if self._config.believed is not None and delivery.user_id not in self._config.believed:
            self._refused += 1
            return [
                Note("refused-sender", f"message of {delivery.user_id!r} ignored, {self._refused} so far")
            ]
        self._listener.hear(delivery)
        return self._finish()

    # What users want done.

    def call(self, call: MethodCall, now: int) -> list[Effect]:
        """Call a method, once; `Answered` says what came of it, in the end and perhaps at once.

        ``SOURCE_DOWN`` and the outcomes of a check: nothing was sent. ``UNKNOWN``: no answer until the
        deadline, or until the link went down; another answer may follow when it comes late.
        """
        return self._take(call, now)

    def modify(self, modify: ObjectModify, now: int) -> list[Effect]:
        """Set properties of an object, once, in one request; as `call`.

        ``APPLIED`` is what the broker says: OpenAMQ says so whatever it did, so it is to be read back.
        """
        return self._take(modify, now)

    def fetch(self, fetch: ObjectFetch, now: int) -> list[Effect]:
        """Read an object again, asking once; as `call`. What was read is observed before it is answered."""
        return self._take(fetch, now)

    def objection(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """What `call` or `modify` would answer at once; ``None`` where it would be sent. Sends nothing."""
        self._talk.now = now
        return self._caller.objection(request)

    def _take(self, wanted: MethodCall | ObjectModify | ObjectFetch, now: int) -> list[Effect]:
        self._talk.now = now
        self._caller.take(wanted)
        return self._finish()

    def _finish(self) -> list[Effect]:
        self._caller.launch()
        return self._talk.finish(self._caller.next_deadline)
