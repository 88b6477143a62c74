"""A console that polls a broker over the loopback; the yardstick sends the same and only parses the XML.

The broker is scripted: each request has its reply ready, with queues like one recorded from OpenAMQ.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from time import process_time
from typing import Final
from xml.etree import ElementTree as ET

from gateway.clock import SystemClock
from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.console import ConsoleConfig, ConsoleSession
from gateway.dialects.cml.console_config import Budget, Intervals
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    SchemaRequest,
    Spelling,
    Status,
)
from gateway.dialects.session import Delivery, Effect, Event, LinkUp, Send, Session
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import ObjectSeen, Observation
from gateway.tasks import until_one_ends
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.components.loopback import carry
from tests.dialects.cml.recordings import exchange

_POLL: Final = Case("cml-poll", "inspects/s", Reading.RATE)
_YARDSTICK: Final = "yardstick"
_QUEUES: Final = 1_000
_IN_FLIGHT: Final = 16
_QUEUE: Final = "console"


class CmlPollPart:
    """A broker with a thousand queues, inspected one after the other as fast as possible."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._count = run.count(20_000, 200)
        self._script = _script(run.count(_QUEUES, 20))

    def measure(self) -> None:
        """Measure both sides, in processor time of both ends and the loopback between them."""
        for side, make in ((OURS, _OurConsole), (_YARDSTICK, _Yardstick)):
            asyncio.run(self._polled(side, make))

    async def _polled(self, side: str, make: Callable[[Callable[[], None]], _Polling]) -> None:
        clock, enough = SystemClock(), asyncio.Event()
        begun, seen = 0.0, 0

        def count() -> None:
            nonlocal begun, seen
            seen += 1
            if seen == self._count // 10:  # the schema and the first listing are over
                begun = process_time()
            elif seen == self._count + self._count // 10:
                enough.set()

        polling = make(count)
        console = MessageDriver("console", polling.session, polling.observed, clock, Counter())
        broker = MessageDriver("broker", _Broker(self._script), lambda _: None, clock, Counter())
        console.perform(polling.begin(clock.now()))
        await until_one_ends(carry(console, broker, clock), carry(broker, console, clock), _until(enough))
        self._run.record(_POLL, side, self._count / (process_time() - begun))
        console.stop()
        broker.stop()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


class _Polling:
    """A polling client: its session, and its first requests."""

    session: Session

    def begin(self, now: int) -> list[Effect]:
        """Return the effects that send the first requests."""
        raise NotImplementedError

    def observed(self, observations: tuple[Observation, ...]) -> None:
        """Receive the observations of the session."""


class _OurConsole(_Polling):
    def __init__(self, count: Callable[[], None]) -> None:
        budget = Budget(rate=1e9, in_flight=_IN_FLIGHT, share=1)
        self.session = self._console = ConsoleSession(
            ConsoleConfig(
                budget=budget, intervals=Intervals(by_class={"broker": 10**9}, others=1, second_look=1)
            )
        )
        self._count = count

    def begin(self, now: int) -> list[Effect]:
        return self._console.handle(LinkUp(_QUEUE), now)

    def observed(self, observations: tuple[Observation, ...]) -> None:
        for one in observations:
            if isinstance(one, ObjectSeen):
                self._count()


class _Yardstick(_Polling):
    """A client that parses each reply, and asks for the next."""

    def __init__(self, count: Callable[[], None]) -> None:
        self.session = self
        self._count = count
        self._body = write_message(InspectRequest(100, "queue"), Spelling.OPENAMQ)

    def begin(self, now: int) -> list[Effect]:  # noqa: ARG002  as the other side's
        return [self._request(str(number)) for number in range(_IN_FLIGHT)]

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002  as sessions have it
        if not isinstance(event, Delivery):
            return []
        ET.fromstring(event.body.removesuffix(b"\0"))  # noqa: S314  ours
        self._count()
        return [self._request(event.message_id)]

    def _request(self, message_id: str) -> Send:
        return Send("amq.system", "amq.console", self._body, _QUEUE, message_id=message_id)


class _Broker:
    """A broker that answers each body with the reply of the script."""

    def __init__(self, script: dict[bytes, bytes]) -> None:
        self._script = script

    def handle(self, event: Event, now: int) -> list[Effect]:  # noqa: ARG002  as sessions have it
        if not isinstance(event, Delivery):
            return []
        body = self._script[event.body]
        return [Send("amq.direct", event.reply_to, body, message_id=event.message_id)]


def _script(queues: int) -> dict[bytes, bytes]:
    """Return replies by requests: the recorded schema, a broker, and queues like a recorded one."""
    recorded = read_message(exchange("inspect-queue-00").replies[0])
    assert isinstance(recorded, InspectReply)
    fields = tuple(field for field in recorded.fields if field.name != "queue_binding")
    numbers = range(100, 100 + queues)
    script = {_request(): exchange("schema-002").replies[0]}
    root = (Field("name", "OpenAMQ"), *(Field("queue", str(number)) for number in numbers))
    script[_request(0)] = _reply(0, "broker", root)
    for number in numbers:
        script[_request(number, "queue")] = _reply(number, "queue", fields)
    return script


def _request(number: int | None = None, class_name: str = "") -> bytes:
    request = SchemaRequest() if number is None else InspectRequest(number, class_name)
    return write_message(request, Spelling.OPENAMQ)


def _reply(number: int, class_name: str, fields: tuple[Field, ...]) -> bytes:
    return write_message(InspectReply(Status.OK, number, class_name, fields), Spelling.OPENAMQ)
