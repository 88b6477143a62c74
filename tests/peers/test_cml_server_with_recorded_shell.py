"""Recorded requests of OpenAMQ's shell get the same octets from our server, if it has the same objects."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.messages import (
    InspectReply,
    InspectRequest,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    SchemaReply,
    Spelling,
    Status,
)
from gateway.dialects.cml.safety import shell_would_end
from gateway.dialects.cml.schema import read_classes
from gateway.dialects.session import Called, Delivery, Effect, ModifyAsked, Send
from gateway.model.values import Reference, Value
from tests.dialects.cml.recordings import Exchange, exchanges
from tests.peers.cml_server import ServerConfig, ServerSession
from tests.peers.cml_server_objects import ServedObject

_QUEUE = "amq.gen-1"


class _Broker:
    """A server of the recorded schema that takes the objects of each recorded reply before its request."""

    def __init__(self, spelling: Spelling) -> None:
        schema = next(read_message(each.replies[0]) for each in exchanges() if b"schema-req" in each.request)
        assert isinstance(schema, SchemaReply)
        self._classes = {each.schema.key.name: each for each in read_classes(schema)}
        self._parents: dict[int, int] = {}
        self.session = ServerSession(ServerConfig(spelling, writers=frozenset({"super"})), schema)
        self.session.start()

    def becomes(self, reply: InspectReply) -> None:
        """Set the object and its list of others as in this reply."""
        assert reply.object_id is not None
        number, described = reply.object_id, self._classes[reply.class_name]
        self.session.delete(number)
        read = described.read_object(reply.fields, self._parents.get(number))
        self.session.put(ServedObject(number, reply.class_name, read.values))
        for child, parent in list(self._parents.items()):
            if parent == number:
                self.session.delete(child)
                del self._parents[child]
        for listing, child in read.children:
            # One object may be listed twice: a queue's consumer is its connection's, too, by another number.
            self._parents[child] = number
            schema = self._classes[listing.class_name].schema
            values: list[Value | None] = [None] * len(schema.elements)
            values[schema.positions["parentRef"]] = Reference(str(number))
            self.session.put(ServedObject(child, listing.class_name, tuple(values)))

    def exists(self, number: int, class_name: str) -> None:
        if number not in self.session.objects:
            elements = self._classes[class_name].schema.elements
            self.session.put(ServedObject(number, class_name, (None,) * len(elements)))

    def answers(self, exchange: Exchange, message_id: str = "") -> list[Effect]:
        """Return the effects of a request of the shell; the program carries out changes as OpenAMQ did."""
        # The last one was asked by a guest of a broker that gave guests the rights of all.
        user = "super" if exchange.id == "shell-0325" else exchange.user
        delivery = Delivery(
            "amq.system", "amq.console", exchange.request, _QUEUE, user, message_id=message_id
        )
        effects = self.session.handle(delivery, 0)
        for effect in effects:
            if isinstance(effect, Called | ModifyAsked):
                recorded = read_message(exchange.replies[0])
                assert isinstance(recorded, ModifyReply | MethodReply)
                return self.session.done(effect.handle, Status(recorded.status), 0, recorded.notice)
        return effects


def _prepared(broker: _Broker, exchange: Exchange) -> None:
    request, reply = read_message(exchange.request), read_message(exchange.replies[0])
    assert isinstance(request, InspectRequest | ModifyRequest | MethodRequest)
    assert isinstance(request.object_id, int)
    if isinstance(reply, InspectReply) and reply.status == Status.OK:
        broker.becomes(reply)
    else:
        broker.exists(request.object_id, request.class_name)


def _by_shell() -> list[Exchange]:
    return [each for each in exchanges() if each.by_shell and len(each.replies) == 1]


def test_each_request_of_the_shell_is_answered_with_the_octets_of_openamq() -> None:
    broker = _Broker(Spelling.OPENAMQ)
    assert len(_by_shell()) == 174
    for each in _by_shell():
        _prepared(broker, each)
        # With a message-id, so that it is no shell to the server, which would be told less.
        [sent] = broker.answers(each, "m1")
        assert isinstance(sent, Send)
        # The shell set a flag to 2, and OpenAMQ shows that.
        assert sent.body == each.replies[0].replace(b'"locked">2<', b'"locked">1<'), each.id
        assert (sent.exchange, sent.routing_key, sent.message_id) == ("amq.direct", _QUEUE, "m1")
        assert sent.content_type == "text/xml"


def test_the_shell_survives_every_answer_of_either_spelling() -> None:
    for spelling in Spelling:
        broker = _Broker(spelling)
        for each in _by_shell():
            _prepared(broker, each)
            [sent] = broker.answers(each)
            assert isinstance(sent, Send)
            reply = read_message(sent.body)
            assert isinstance(reply, InspectReply | ModifyReply | MethodReply)
            assert not shell_would_end(reply, spelling), each.id


def test_a_client_of_the_specification_reads_every_answer_with_any_parser() -> None:
    broker, children = _Broker(Spelling.SPECIFICATION), 0
    for each in _by_shell():
        _prepared(broker, each)
        [sent] = broker.answers(each, "m1")
        assert isinstance(sent, Send)
        root = ET.fromstring(sent.body)  # noqa: S314  ours
        assert (root.tag, root.get("version"), len(root)) == ("cml", "1.0", 1)
        assert root[0].tag in {"inspect-reply", "modify-reply", "method-reply"}
        assert {"class", "object", "status"} <= set(root[0].keys())
        for field in root[0].iter("field"):
            children += field.get("id") is not None
            assert field.get("id") in (None, field.text)
    assert children > 500
