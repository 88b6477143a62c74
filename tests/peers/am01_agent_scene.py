"""An agent session before AM2, and the consoles that communicate with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from gateway.dialects.qmf.am01.codec import read, write
from gateway.dialects.qmf.am01.keys import method_key
from gateway.dialects.qmf.am01.messages import Message, MethodRequest, Received, Revision
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.session import Delivery, Effect, Send, TimerExpired
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.dialects.qmf.am01.between import tank_object
from tests.dialects.qmf.am01.examples import KEY, leak, tank
from tests.dialects.qmf.playbook import CONSOLE_USER, QUEUE, START
from tests.peers.am01_agent import Am01AgentConfig, Am01AgentSession

BROKER = UUID(int=7)
ONE = ObjectId(0, 1)
REVISIONS = pytest.mark.parametrize("revision", list(Revision), ids=lambda one: one.value)
ARGUMENTS = b"\0\0\0\x07" + b"\0\0\0\x02ab"


class Scene:
    """An agent session, and functions that write the messages of consoles."""

    def __init__(self, revision: Revision, settings: Mapping[str, object] | None = None) -> None:
        config = Am01AgentConfig(
            revision, allowed_users=frozenset({CONSOLE_USER}), broker=BROKER, package="shop"
        )
        config = replace(config, **settings or {})  # type: ignore[arg-type]  # its fields
        self.session = Am01AgentSession(config, [tank()], [leak()])
        self.revision = revision
        self.now = START
        (self.key,) = (one.definition.key for one in self.session.objects.classes.values())

    def starts(self) -> list[Effect]:
        self.session.put(tank_object(1))
        return self.session.start(self.now)

    def published(self, seconds: float = 10) -> list[tuple[str, Received]]:
        """Let time pass; return the messages that are published at the end of it."""
        self.now += int(seconds * SECOND)
        return self.messages(self.session.handle(TimerExpired(), self.now))

    def messages(self, effects: list[Effect]) -> list[tuple[str, Received]]:
        sends = [one for one in effects if isinstance(one, Send)]
        return [(one.routing_key, self.read(one)) for one in sends]

    def read(self, send: Send) -> Received:
        revisions = frozenset((self.revision,))
        known = self.session.definitions
        return read(send.routing_key, send.body, known, revisions, extended=True).message

    def asks(self, message: Message, key: str = "agent", **delivery: str) -> list[Effect]:
        return self.asks_octets(write(message, self.revision, self.session.definitions), key, **delivery)

    def asks_octets(
        self, body: bytes, key: str = "agent", user: str = CONSOLE_USER, reply_to: str = QUEUE
    ) -> list[Effect]:
        delivery = Delivery("qpid.management", key, body, reply_to, user)
        return self.session.handle(delivery, self.now)

    def calls(
        self,
        method: str = "drain",
        arguments: bytes = ARGUMENTS,
        number: int = 1,
        key: ClassKey = KEY,
        sequence: int = 5,
        queue: str = QUEUE,
    ) -> list[Effect]:
        bare = self.revision is Revision.NOVEMBER_2007
        request = MethodRequest(sequence, ObjectId(0, number), key, method, arguments, queue if bare else "")
        return self.asks(request, method_key(self.revision, key, method), reply_to="" if bare else queue)


def started(revision: Revision, settings: Mapping[str, object] | None = None) -> Scene:
    scene = Scene(revision, settings)
    scene.starts()
    scene.published()
    return scene
