"""Conversations with a CML server: the requests of consoles, the program's work, and the messages sent."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.messages import (
    Field,
    NamedText,
    Received,
    Request,
    SchemaClass,
    SchemaField,
    SchemaGroup,
    SchemaMethod,
    SchemaReply,
    Spelling,
    Status,
)
from gateway.dialects.session import Called, Delivery, Effect, ModifyAsked, Note, Send, TimerExpired, WakeAt
from gateway.model.values import Reference, Value
from tests.peers.cml_server import ServerConfig, ServerSession
from tests.peers.cml_server_objects import ServedObject

SECOND = 10**9
START = 1_700_000_000 * SECOND
QUEUE = "console-1"
READER, WRITER = "guest", "super"

SHOP = SchemaReply(
    Status.OK,
    "example.org/shop",
    "1.0",
    (
        SchemaClass(
            "shop",
            fields=(
                SchemaField("name"),
                SchemaField("open", "bool", modify=True),
                SchemaField("opened", "time"),
                SchemaField("tags", repeat=True, modify=True),
                SchemaField("tank", "objref", repeat=True),
                SchemaField("office", "objref"),
            ),
            methods=(
                SchemaMethod(
                    "sell",
                    fields=(SchemaField("litres", "int"), SchemaField("to"), SchemaField("tank", "objref")),
                ),
            ),
        ),
        SchemaClass(
            "tank",
            fields=(
                SchemaField("name"),
                SchemaField("level", "int"),
                SchemaField("secret", inspect=False, modify=True),
                SchemaField(
                    "state", "int", modify=True, values=(NamedText("shut", "0"), NamedText("on", "1"))
                ),
                SchemaGroup("limits", (SchemaField("high", "int", modify=True),)),
            ),
        ),
        SchemaClass("office", fields=(SchemaField("name"),)),
    ),
)


def shop(
    *, is_open: bool | None = True, opened: int | None = None, tags: Value | None = None
) -> ServedObject:
    """Return the root: name, open, opened, tags, and its office, which is object 2."""
    return ServedObject(0, "shop", ("corner", is_open, opened, tags, Reference("2")))


def tank(
    number: int = 7, name: Value | None = "t1", level: Value | None = 5, parent: int = 0
) -> ServedObject:
    return ServedObject(number, "tank", (Reference(str(parent)), name, level, None, None, None))


class ServerPlay:
    """A server session with a shop, two tanks and an office, and functions that write consoles' requests."""

    def __init__(self, config: ServerConfig | None = None) -> None:
        self.now = START
        self.wake_at = 0
        self.config = config or ServerConfig(writers=frozenset({WRITER}))
        self.session = ServerSession(self.config, SHOP)
        for served in (shop(), tank(), tank(8, "t2", 9), ServedObject(2, "office", (Reference("0"), "o"))):
            self.session.put(served)
        self.session.start()
        self._steps: list[Effect] = []

    def take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WakeAt):
                self.wake_at = effect.time
            else:
                self._steps.append(effect)

    def asks(
        self,
        *requests: Request,
        user: str = WRITER,
        message_id: str = "m1",
        reply_to: str = QUEUE,
        sent: int = 0,
        expiration: int = 0,
    ) -> None:
        """Send requests of a console, each in a message of its own, in the specification's spelling."""
        for request in requests:
            body = write_message(request, Spelling.SPECIFICATION)
            self.asks_octets(
                body, user=user, message_id=message_id, reply_to=reply_to, sent=sent, expiration=expiration
            )

    def asks_octets(
        self,
        body: bytes,
        user: str = WRITER,
        message_id: str = "m1",
        reply_to: str = QUEUE,
        sent: int = 0,
        expiration: int = 0,
    ) -> None:
        delivery = Delivery(
            "amq.system",
            "amq.console",
            body,
            reply_to,
            user,
            timestamp=sent,
            expiration=expiration,
            message_id=message_id,
        )
        self.take(self.session.handle(delivery, self.now))

    def does(self, handle: int, status: Status = Status.OK, notice: str = "") -> None:
        """Report the result of a change by the program."""
        self.take(self.session.done(handle, status, self.now, notice))

    def time_passes(self, seconds: float) -> None:
        until = self.now + int(seconds * SECOND)
        while self.now < self.wake_at <= until:
            self.now = self.wake_at
            self.take(self.session.handle(TimerExpired(), self.now))
        self.now = until

    def left(self) -> list[Effect]:
        """Return all effects since the last time."""
        steps, self._steps = self._steps, []
        return steps

    def asked(self) -> list[Called | ModifyAsked]:
        """Return the changes that the program was asked for since the last time; fail at any other effect."""
        asked = []
        for step in self.left():
            assert isinstance(step, Called | ModifyAsked)
            asked.append(step)
        return asked

    def replies(self) -> list[Received]:
        """Return the messages since the last time; fail at any other effect but notes."""
        replies = []
        for step in self.left():
            assert isinstance(step, Send | Note)
            if isinstance(step, Send):
                assert (step.exchange, step.routing_key) == ("amq.direct", QUEUE)
                replies.append(read_message(step.body))
        return replies


def fields(**values: str) -> tuple[Field, ...]:
    """Return the fields of a request."""
    return tuple(Field(name, text) for name, text in values.items())
