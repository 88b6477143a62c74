"""The console session of CML: learns a broker's schema, walks its objects, and polls them from then on.

`console_states` has the table. Sources: "AMQP Console Interface" (2006), the wiki's "3-CML", OpenAMQ 1.4c1.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.dialects.cml.console_config import ConsoleConfig
from gateway.dialects.cml.console_states import State
from gateway.dialects.cml.messages import SchemaReply
from gateway.dialects.effects import Binding, Delivery, Effect, Send
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify

__all__ = ["ConsoleConfig", "ConsoleSession"]


class ConsoleSession:
    """A console of one broker that speaks CML, without I/O.

    Every method returns what is to be done: requests to send, observations to apply (one `Observed` for
    each call), notes, and when to call `tick`. Nothing that arrives makes a method raise. ``now`` is the
    gateway's clock in nanoseconds. Requests are sent as mandatory: what comes back is for `unsent`.
    """

    def __init__(self, config: ConsoleConfig) -> None:
        self._config = config
        self._state = State.DISCONNECTED

    @property
    def schema(self) -> SchemaReply | None:
        """The schema in use, as the broker told it or as it was saved: worth keeping for `ConsoleConfig`."""
        return self._config.schema

    @property
    def state(self) -> State:
        """Where the session stands."""
        return self._state

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """What the queue of this name must be bound to before `connected`; its name is the reply key."""
        replies = Binding(self._config.reply_exchange, queue)
        if not self._config.notify_exchange:
            return (replies,)
        return (replies, Binding(self._config.notify_exchange, self._config.notify_key))

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        """The queue ``reply_to`` is declared, bound and consumed: ask for the schema.

        Raises:
            LocalProtocolError: the session is connected already.
        """
        raise NotImplementedError

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        """The link is down; ``detail`` says why, for people."""
        raise NotImplementedError

    def resync(self, reason: str, now: int, since: int = 0) -> list[Effect]:
        """Begin again: what is known may be wrong. Nothing while disconnected, as `connected` does it.

        ``since``: from when on messages may have been lost; 0 where none was.
        """
        raise NotImplementedError

    def unsent(self, sends: Iterable[Send], reason: str, now: int) -> list[Effect]:
        """These certainly were not sent, and will not be, or came back; ``reason`` says why, for people."""
        raise NotImplementedError

    def call(self, call: MethodCall, now: int) -> list[Effect]:
        """Call a method, once; `Answered` says what came of it, in the end and perhaps at once."""
        raise NotImplementedError

    def modify(self, modify: ObjectModify, now: int) -> list[Effect]:
        """Set properties of an object, once, in one request; as `call`."""
        raise NotImplementedError

    def fetch(self, fetch: ObjectFetch, now: int) -> list[Effect]:
        """Read an object anew, asking once; as `call`. What was read is observed before it is answered."""
        raise NotImplementedError

    def tick(self, now: int) -> list[Effect]:
        """Time has passed: inspect what is due, miss answers, try again."""
        raise NotImplementedError

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """A message arrived."""
        raise NotImplementedError
