"""What happens in Python between a body of a peer and what a manager reads: calls, and files they are in."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import gateway
from gateway.dialects.effects import Delivery, Effect, Observed
from gateway.dialects.qmf.definitions import EventDefinition
from gateway.dialects.qmf.messages import (
    ClassIndication,
    ClassKind,
    CommandComplete,
    EventIndication,
    Message,
    SchemaResponse,
)
from gateway.dialects.qmf.writer import write
from gateway.feed.messages import VERSION, FrameReader, encode
from gateway.feed.records import FeedMessage, Hello
from gateway.feed.subscription import Subscription
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from tests.dialects.qmf.console_story import PUSHED, filled, got, listed
from tests.dialects.qmf.examples import LEAK, shop
from tests.dialects.qmf.playbook import AGENT_USER, START, ConsolePlay
from tests.snmp.mib.shop import Gateway

_CODE = str(Path(gateway.__file__).parent)


@dataclass(slots=True)
class Trace:
    """The calls of functions of the gateway, in their order: names of files and functions."""

    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def files(self) -> set[str]:
        """The files that the functions are in."""
        return {file for file, _ in self.calls}

    @property
    def changes(self) -> int:
        """How often a call is in another file than the one before it."""
        return sum(one != other for (one, _), (other, _) in zip(self.calls, self.calls[1:], strict=False))


@contextmanager
def traced() -> Iterator[Trace]:
    """Trace the calls of the block; of generators and comprehensions each resumption is one."""
    trace = Trace()

    def called(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(_CODE):
            trace.calls.append((name.removeprefix(f"{_CODE}/"), frame.f_code.co_qualname))

    sys.setprofile(called)
    try:
        yield trace
    finally:
        sys.setprofile(None)


class Chain(ConsolePlay):
    """A console session, an inventory, the feed's octets and SNMP's projection, without I/O between them.

    Args:
        index: of the inventory.
    """

    def __init__(self, index: InstanceIndex) -> None:
        super().__init__()
        self.snmp = Gateway()
        self._reader, self._subscription = FrameReader(), Subscription(1)
        self._inventory = Inventory("gw", 1, ClassRegistry({}), index, self._subscription.offer)
        self._source = self._inventory.add_source("shop", "qmf")
        self._send(Hello(VERSION, 1, "gw", START))
        self._subscription.start_snapshot(*self._inventory.snapshot())
        self._pass_on()

    def take(self, effects: Sequence[Effect]) -> None:
        """Apply what the session observed, up to SNMP's cells."""
        super().take(effects)
        self._apply(effects)

    def deliver(self, key: str, body: bytes) -> None:
        """Take a body up to SNMP's cells and receivers."""
        delivery = Delivery("qpid.management", key, body, user_id=AGENT_USER)
        self._apply(self.session.receive(delivery, self.now))

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Observed):
                self._inventory.observed(self._source, effect.observations, self.now)
        self._pass_on()

    def _pass_on(self) -> None:
        while (message := self._subscription.take()) is not None:
            self._send(message)

    def _send(self, message: FeedMessage) -> None:
        for received in self._reader.feed(encode(message)):
            self.snmp.received(received)


def traces() -> dict[str, Trace]:
    """Trace what one body makes happen when everything is known and quiet, by what it contains."""
    with TemporaryDirectory() as folder, closing(InstanceIndex(Path(folder) / "instances")) as index:
        chain = Chain(index)
        listed(chain)
        chain.arrives(got(5))
        chain.arrives(CommandComplete(5))
        chain.arrives(ClassIndication(0, ClassKind.EVENT, LEAK.key), key="schema.class")
        chain.arrives(SchemaResponse(6, EventDefinition.of(LEAK)))
        return {
            "statistics of an object, to an SNMP cell": _trace(chain, PUSHED, filled(61.0), filled(62.0)),
            "an event, to a notification": _trace(chain, "console.event.1.0.shop.leak", *[LEAKED] * 2),
        }


def _trace(chain: Chain, key: str, first: Message, second: Message) -> Trace:
    """Trace the second of two messages: with the first one, caches are filled and classes are bound."""
    chain.deliver(key, write(first, shop()))
    body = write(second, shop())
    with traced() as trace:
        chain.deliver(key, body)
    return trace


LEAKED = EventIndication(0, LEAK.key, START, 3, ("t1", 5))
