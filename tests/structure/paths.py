"""The calls in Python between a body of a peer and a manager's reading, and the files that they are in."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import gateway
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import (
    ClassIndication,
    ClassKind,
    CommandComplete,
    EventIndication,
    Message,
    MethodResponse,
    ObjectContent,
    SchemaResponse,
)
from gateway.dialects.session import Answered, Delivery, Effect, Observed, Send
from gateway.feed.messages import VERSION, FrameReader, RequestReader, encode
from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.feed.records import FeedMessage, Hello
from gateway.feed.subscription import Subscription
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify
from gateway.model.schema import Argument, Direction, Method
from gateway.model.secrets import SecretRules
from gateway.model.values import ValueType
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import OperationManager
from gateway.operations.operation import Effect as OperationEffect
from gateway.operations.operation import Publish, Reply
from gateway.operations.operation import Send as SendToSource
from gateway.policy.marks import Marks
from gateway.snmp import ber
from gateway.snmp.requests import Access, Responder
from gateway.snmp.set_requests import SetRequests, SetSettings
from gateway.snmp.standard_groups import SnmpCounters
from gateway.yaml_documents import parse_document
from tests.components.permissions import Permission, policy_of
from tests.dialects.qmf.console_story import PUSHED, filled, got, listed
from tests.dialects.qmf.examples import LEAK, TANK, shop
from tests.dialects.qmf.playbook import AGENT_USER, QUEUE, START, ConsolePlay
from tests.snmp.datagrams import read_answer
from tests.snmp.mib.shop import SITE_ENTRY, Gateway
from tests.snmp.set.shop import WRITER, set_request

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
        """The number of calls in another file than that of the call before."""
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


@contextmanager
def untraced() -> Iterator[None]:
    """Trace nothing in the block: what the peer does is no part of the way."""
    profiler = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(profiler)


class Chain(ConsolePlay):
    """A console session, an inventory, the feed's bytes and SNMP's projection, without I/O between them.

    Args:
        index: of the inventory.
        classes: what mappings say of classes.
        known: the classes that the peer has.
    """

    def __init__(
        self, index: InstanceIndex, classes: ClassRegistry | None = None, known: Definitions | None = None
    ) -> None:
        super().__init__(known=known)
        self.snmp = Gateway()
        self._reader, self._subscription = FrameReader(), Subscription(1)
        classes = classes or ClassRegistry({})
        self._inventory = Inventory("gw", 1, classes, index, self._subscription.offer)
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
        self._apply(self.session.handle(delivery, self.now))

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
            "a SET, to the broker and back": _set_trace(Path(folder)),
        }


class SetChain(Chain):
    """A `Chain` whose tank can be labelled by SNMP, with the core's operations and a peer that applies them.

    Args:
        index: of the inventory.
    """

    def __init__(self, index: InstanceIndex) -> None:
        classes, known = ClassRegistry({"shop": LABELS}), Definitions()
        known.add(ClassDefinition.of(LABELLED))
        super().__init__(index, classes, known)
        policy = policy_of([Permission(frozenset({"snmp:operator"}), set=("note",))])
        audit = Audit("gw", 1, Redaction(SecretRules()))
        self.operations = OperationManager(self._inventory, classes, policy, Marks({"shop": LABELS}), audit)
        self.operations.connect(1, lambda request: self.session.precheck(request, self.now))
        self.label = "wet"
        self._requests, self._answers = RequestReader(), FrameReader()
        sets = SetRequests(
            self.snmp.projection, (), self._ask, SnmpCounters(), SetSettings(10**10), lambda: self.now
        )
        self.responder = Responder(
            {WRITER: Access(self.snmp.store, "operator")}, SnmpCounters(), _raise, sets=sets
        )

    def content(self, sequence: int) -> ObjectContent:
        """The tank as its agent reports it."""
        return replace(got(sequence), properties=("t1", 100, self.label, None))

    def set(self, datagram: bytes) -> bytes:
        """The answer to a SET."""
        response = self.responder.answer(datagram, ("192.0.2.1", 40_000))
        assert isinstance(response, Coroutine)
        try:
            response.send(None)
        except StopIteration as ended:
            answer: bytes = ended.value
            return answer
        raise AssertionError("nothing that it waits for takes time")

    async def _ask(self, request: OperationRequest) -> OperationAnswer:
        answers: list[OperationAnswer] = []
        for received in self._requests.feed(encode(request)):
            assert isinstance(received, OperationRequest)
            self._perform(self.operations.submit(received, answers.append, self.now))
        (answer,) = (each for octets in map(encode, answers) for each in self._answers.feed(octets))
        assert isinstance(answer, OperationAnswer)
        return answer

    def _perform(self, effects: Sequence[OperationEffect]) -> None:
        for effect in effects:
            match effect:
                case Publish(record, lasting):
                    self._inventory.publish_operation(record)
                    self._pass_on()
                    if lasting:
                        self._perform(self.operations.recorded(record.number, self.now))
                case SendToSource(_, message):
                    self._carry_out(message)
                case Reply(to, answer):
                    to(answer)

    def _carry_out(self, message: MethodCall | ObjectModify | ObjectFetch) -> None:
        """Send what the session sends, and take the answer of the agent."""
        if isinstance(message, MethodCall):
            effects, self.label = self.session.handle(message, self.now), str(message.arguments[0])
        else:
            assert isinstance(message, ObjectFetch)
            effects = self.session.handle(message, self.now)
        (sent,) = (effect for effect in effects if isinstance(effect, Send))
        sequence = int.from_bytes(sent.body[4:8], "big")
        if isinstance(message, MethodCall):
            answers: tuple[Message, ...] = (MethodResponse(sequence, 0, "OK"),)
        else:
            answers = self.content(sequence), CommandComplete(sequence)
        with untraced():
            body = b"".join(write(answer, self._known) for answer in answers)
        delivery = Delivery("amq.direct", QUEUE, body, user_id=AGENT_USER)
        received = self.session.handle(delivery, self.now)
        self._apply(received)
        for effect in received:
            if isinstance(effect, Answered):
                self._perform(self.operations.answered(effect.answer, self.now))


def _set_trace(folder: Path) -> Trace:
    """Trace the second of two SETs of one object, each of which changes it."""
    with closing(InstanceIndex(folder / "labelled")) as index:
        chain = SetChain(index)
        listed(chain, LABELLED)
        chain.arrives(chain.content(5))
        chain.arrives(CommandComplete(5))
        (name,) = (
            SITE_ENTRY[:-2] + rest
            for rest, value in chain.snmp.walk(SITE_ENTRY[:-2]).items()
            if value == ber.encode_octets(b"wet")
        )
        answers = []
        for number, label in enumerate((b"dry", b"clean")):
            datagram = set_request([(name, ber.encode_octets(label))], request_id=number)
            with traced() as trace:
                answers.append(read_answer(chain.set(datagram)).status)
        assert (answers, chain.label) == ([0, 0], "clean")
        return trace


def _raise(error: Exception) -> None:
    raise error


def _trace(chain: Chain, key: str, first: Message, second: Message) -> Trace:
    """Trace the second of two messages: with the first one, caches are filled and classes are bound."""
    chain.deliver(key, write(first, shop()))
    body = write(second, shop())
    with traced() as trace:
        chain.deliver(key, body)
    return trace


LEAKED = EventIndication(0, LEAK.key, START, 3, ("t1", 5))

LABELLED = replace(
    TANK, methods=(*TANK.methods, Method("relabel", (Argument("label", ValueType.STRING, Direction.IN),)))
)
"""A tank whose note is set by a method."""

LABELS = parse_document(
    """
version: 1
package: shop
module: SHOP-MIB
prefix: shop
classes:
  tank:
    methods:
      relabel: {arguments: {label: {type: string}}}
    properties:
      note: {type: string, optional: true, access: read-write, set_by: {method: relabel, argument: label}}
""",
    MappingFile,
    Path("shop.yaml"),
)
