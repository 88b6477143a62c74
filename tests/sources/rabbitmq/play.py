"""A console that calls methods of the agent, and a broker whose answers a test gives."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    GetQuery,
    MethodRequest,
    MethodResponse,
    Received,
)
from gateway.dialects.qmf.model_values import with_marks
from gateway.dialects.qmf.schema_records import described_class
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues
from gateway.dialects.session import Delivery, Effect, Send
from gateway.mapping.files import class_schemas
from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import Document, NotFound
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Lookup,
    Purge,
)
from gateway.sources.rabbitmq.source_events import CallAnswered, Work, WorkContinues
from tests.sources.rabbitmq.imitation import MAPPING, NODE, World
from tests.sources.rabbitmq.story import world

DEFINITIONS = {name: described_class(with_marks(schema)) for name, schema in class_schemas(MAPPING).items()}
KNOWN = Definitions()
for _definition in DEFINITIONS.values():
    KNOWN.add(_definition)
PURGE = Purge("/", "orders")
BEFORE_PURGE = Lookup(
    "queues/%2F/orders?columns=vhost,name,messages_ready,messages_unacknowledged,message_stats.publish,"
    "message_stats.deliver_get",
    as_writer=True,
)
BEFORE_DELETION = Lookup("queues/%2F/orders?columns=vhost,name", as_writer=True)


def is_orders(document: Json) -> bool:
    """Return whether a document is that of the queue ``orders``."""
    names = ("/", "orders")
    return isinstance(document, Mapping) and (document.get("vhost"), document.get("name")) == names


class Play:
    """A console that calls methods, and a broker whose answers a test gives."""

    def __init__(self, *, writer: str = "writer", lockout: frozenset[str] = frozenset()) -> None:
        self.world: World = world(writer=writer, lockout=lockout)
        self.said: list[Received] = []
        self._sequence = 0
        if writer:
            self.reads_limits([])

    @property
    def now(self) -> int:
        return self.world.now

    def _does(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.said.extend(read_body(effect.body, KNOWN))

    def _source_does(self, effects: list[Effect]) -> None:
        self.world.note(effects)
        self._does(self.world.agent.publish(effects, self.now))

    def _asks(self, message: MethodRequest | GetQuery, seconds: float) -> None:
        delivery = Delivery(
            *("qpid.management", "agent.1.0", write(message), "console-1", "loopback"),
            timestamp=self.now,
            expiration=int(seconds * 1000),
        )
        self._does(self.world.agent.handle(delivery, self.now))

    def id_of(self, class_name: str, leaf: str) -> ObjectId:
        (known,) = [one for one in self.world.source.known(class_name) if one.name.leaf == leaf]
        return ObjectId.of(sequence=2, number=known.number)

    def calls(
        self, class_name: str, leaf: str, method: str, *arguments: QmfValue, seconds: float = 10
    ) -> None:
        self._sequence += 1
        definition = DEFINITIONS[class_name]
        octets = definition.inputs[method].write(arguments)
        target = self.id_of(class_name, leaf)
        self._asks(MethodRequest(self._sequence, target, definition.key, method, octets), seconds)

    def asks_for(self, class_name: str, leaf: str) -> None:
        self._sequence += 1
        self._asks(GetQuery(self._sequence, {"_objectid": str(self.id_of(class_name, leaf))}), 10)

    def time_passes(self, seconds: float) -> None:
        self.world.run(seconds)

    def request(self) -> BrokerRequest | None:
        """Return the present request to the broker."""
        self._source_does(self.world.source.handle(WorkContinues(Work.CALLS), self.now))
        return self.world.source.next_call_request()

    def answers(self, answer: BrokerAnswer) -> None:
        self._source_does(self.world.source.handle(CallAnswered(answer), self.now))

    def asked(self, expected: BrokerRequest, answer: BrokerAnswer) -> None:
        """Check that the broker receives this request, and answer it."""
        assert self.request() == expected
        self.answers(answer)
        is_meant = isinstance(answer, Document) and is_orders(answer.body)
        if expected == BEFORE_PURGE and is_meant:
            self.looks("queues/%2F/orders?disable_stats=true&enable_queue_totals=true", NotFound())

    def purges(self, answer: BrokerAnswer, **before: Json) -> None:
        """Check that the queue ``orders`` is read, then purged, and answer both."""
        self.asked(BEFORE_PURGE, queue(**before))
        self.asked(PURGE, answer)

    def looks(self, collection: str, answer: BrokerAnswer) -> None:
        """Check that the broker receives a lookup in this collection, and answer it."""
        request = self.request()
        assert isinstance(request, Lookup)
        assert request.target.startswith(collection), request
        self.answers(answer)

    def lacks(self, path: str) -> None:
        """Check that the broker is asked for an object, and for a listing that may have it; both lack it."""
        self.looks(path, NotFound())
        self.looks(f"{path.partition('/')[0]}?", Document([]))

    def reads_limits(self, limits: list[Json]) -> None:
        self.looks("vhost-limits", Document(limits))

    def outputs(self, class_name: str, method: str, response: MethodResponse) -> QmfValues:
        """Return the outputs of a method."""
        values, _ = DEFINITIONS[class_name].outputs[method].read(response.arguments, 0)
        return tuple(values)

    def reported(self) -> list[Received]:
        """Return the messages to consoles since the last time."""
        said, self.said = self.said, []
        return said

    def response(self) -> MethodResponse:
        (response,) = [one for one in self.reported() if isinstance(one, MethodResponse)]
        return response

    def is_idle(self) -> bool:
        return self.request() is None


def queue(**more: Json) -> Document:
    """Return the broker's document on the queue ``orders``."""
    shown: dict[str, Json] = {
        "vhost": "/",
        "name": "orders",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
    }
    return Document({**shown, "type": "classic", "node": NODE, **more})


def passed(play: Play, seconds: float, shown: BrokerAnswer) -> None:
    """Let time pass in which the queue is only looked up, and ``shown`` is the answer."""
    until = play.now + int(seconds * SECOND)
    while play.now < until:
        request = play.request()
        if request is None:
            play.time_passes(0.25)
            continue
        assert isinstance(request, Lookup), "it is sent once"
        play.answers(shown if request.target.startswith("queues/") else Document([]))
