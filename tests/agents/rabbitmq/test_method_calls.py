"""Calls as the agent carries them out: what the broker is asked, what consoles are told, whatever happens."""

from __future__ import annotations

import pytest

from gateway.agents.rabbitmq.management_api import Document, NotFound, Refused, Unavailable
from gateway.agents.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    Changed,
    Lookup,
    NotSent,
    Rejected,
    Unanswered,
)
from gateway.agents.rabbitmq.methods.table import METHODS
from gateway.dialects.effects import Delivery, Effect, Send
from gateway.dialects.qmf import absence
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.messages import (
    CommandComplete,
    GetQuery,
    MethodRequest,
    MethodResponse,
    ObjectContent,
    PropertyContent,
    Received,
    StatisticContent,
    Status,
)
from gateway.dialects.qmf.object_id import ObjectId
from gateway.dialects.qmf.reader import read_body
from gateway.dialects.qmf.schema_records import described_class
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.dialects.qmf.writer import write
from gateway.mapping.files import class_schemas
from gateway.mapping.paths import Json
from tests.agents.rabbitmq.imitation import MAPPING, NODE, World
from tests.agents.rabbitmq.story import CONNECTED_AT, world

DEFINITIONS = {
    name: described_class(absence.with_absence(schema)) for name, schema in class_schemas(MAPPING).items()
}
KNOWN = Definitions()
for _definition in DEFINITIONS.values():
    KNOWN.add(_definition)
PURGE = Change("DELETE", "queues/%2F/orders/contents")


class Play:
    """A console that calls, and a broker that answers when it is told to."""

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

    def _asks(self, message: MethodRequest | GetQuery, seconds: float) -> None:
        delivery = Delivery(
            *("qpid.management", "agent.1.0", write(message), "console-1", "loopback"),
            timestamp=self.now,
            expiration=int(seconds * 1000),
        )
        self._does(self.world.agent.receive(delivery, self.now))

    def id_of(self, class_name: str, leaf: str) -> ObjectId:
        (known,) = [one for one in self.world.agent.known(class_name) if one.name.leaf == leaf]
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
        """What the broker is asked now."""
        self._does(self.world.agent.advance_calls(self.now))
        return self.world.agent.next_call_request()

    def answers(self, answer: BrokerAnswer) -> None:
        self._does(self.world.agent.call_answered(answer, self.now))

    def asked(self, expected: BrokerRequest, answer: BrokerAnswer) -> None:
        """The broker is asked just this, and answers."""
        assert self.request() == expected
        self.answers(answer)

    def looks(self, collection: str, answer: BrokerAnswer) -> None:
        """The broker is asked for something, and answers."""
        request = self.request()
        assert isinstance(request, Lookup)
        assert request.target.startswith(collection), request
        self.answers(answer)

    def reads_limits(self, limits: list[Json]) -> None:
        self.looks("vhost-limits", Document(limits))

    def told(self) -> list[Received]:
        """What consoles were told since the last time."""
        said, self.said = self.said, []
        return said

    def response(self) -> MethodResponse:
        (response,) = [one for one in self.told() if isinstance(one, MethodResponse)]
        return response

    def is_idle(self) -> bool:
        return self.request() is None


def queue(**more: Json) -> Document:
    """What the broker shows of the queue ``orders``."""
    shown: dict[str, Json] = {
        "vhost": "/",
        "name": "orders",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
    }
    return Document({**shown, "type": "classic", "node": NODE, **more})


def test_a_purge_is_answered_when_the_statistics_know_of_it() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, Changed())
    play.looks("queues/%2F/orders?columns=", queue(messages=3, messages_ready=3))
    assert play.is_idle()
    assert not [one for one in play.told() if isinstance(one, MethodResponse)]
    play.time_passes(0.25)
    play.looks("queues/%2F/orders?columns=", queue(messages=0, messages_ready=0))
    told = play.told()
    assert isinstance(told[-1], MethodResponse)
    assert (told[-1].status, told[-1].text) == (Status.OK, "OK")
    assert isinstance(told[-2], StatisticContent)


def test_a_queue_that_fills_again_at_once_is_purged_all_the_same() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, Changed())
    looks = 0
    while not any(isinstance(one, MethodResponse) for one in play.said):
        request = play.request()
        if request is None:
            play.time_passes(0.25)
            continue
        assert isinstance(request, Lookup)
        play.answers(queue(messages_ready=9) if request.target.startswith("queues") else Document([]))
        looks += 1
    assert play.response().status == Status.OK
    assert 20 < looks < 30


def test_an_answer_leaves_before_its_console_gives_up() -> None:
    play = Play()
    play.calls("queue", "orders", "purge", seconds=2)
    play.asked(PURGE, Changed())
    for _ in range(5):
        play.looks("queues/", queue(messages_ready=9))
        play.time_passes(0.25)
    assert play.response().status == Status.OK


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (Rejected("queue 'orders' in vhost '/' in use"), Status.EXCEPTION, "in use"),
        (Refused(login=False, reason="Access refused."), Status.FORBIDDEN, "the tag 'administrator'"),
        (Refused(login=True, reason="Login failed"), Status.FORBIDDEN, "password"),
        (NotSent("connection refused"), Status.EXCEPTION, "not carried out"),
        (Unanswered("no answer within 20 s"), Status.OUTCOME_UNKNOWN, "may have been carried out"),
    ],
)
def test_whatever_comes_of_a_change_it_is_made_once(answer: BrokerAnswer, status: Status, text: str) -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, answer)
    response = play.response()
    assert response.status == status
    assert text in response.text
    assert play.is_idle()


def test_an_object_that_the_broker_does_not_know_is_not_shown_any_more() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, NotFound())
    play.looks("queues/%2F/orders", NotFound())
    told = play.told()
    assert isinstance(told[0], PropertyContent)
    assert told[0].deleted
    assert isinstance(told[-1], MethodResponse)
    assert told[-1].status == Status.UNKNOWN_OBJECT
    assert "queue" not in str(play.world.names("queue"))


def test_a_call_that_could_not_be_begun_in_time_is_not_begun() -> None:
    play = Play()
    play.calls("queue", "orders", "purge", seconds=10)
    play.calls("vhost", "/", "setMaxQueues", 5, seconds=3)
    assert play.request() == PURGE
    play.time_passes(4)
    play.answers(Unanswered("no answer within 20 s"))
    assert play.response().status == Status.OUTCOME_UNKNOWN
    while (request := play.request()) is not None:
        assert not isinstance(request, Change)
        play.answers(Document([]))
    late = play.response()
    assert late.status == Status.EXCEPTION
    assert "not carried out" in late.text


def test_calls_are_carried_out_one_after_the_other() -> None:
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    play.calls("vhost", "/", "setDescription", "new")
    vhost: dict[str, Json] = {
        "name": "/",
        "description": "old",
        "tags": ["a"],
        "tracing": False,
        "default_queue_type": "undefined",
    }
    play.asked(Lookup("vhosts/%2F", as_writer=True), Document(vhost))
    play.asked(Change("PUT", "vhosts/%2F", {"description": "old", "tags": ["a"], "tracing": True}), Changed())
    play.looks("vhosts?", Document({"items": [{**vhost, "tracing": True}]}))
    play.looks("vhost-limits", Document([]))
    assert play.response().status == Status.OK
    play.asked(Lookup("vhosts/%2F", as_writer=True), Document({**vhost, "tracing": True}))
    play.asked(Change("PUT", "vhosts/%2F", {"description": "new", "tags": ["a"], "tracing": True}), Changed())


def test_nothing_is_changed_of_what_cannot_be_read_before() -> None:
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    play.asked(Lookup("vhosts/%2F", as_writer=True), Unavailable("connection refused"))
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert "not carried out" in response.text
    play.calls("vhost", "/", "setTracing", True)
    play.asked(Lookup("vhosts/%2F", as_writer=True), NotFound())
    play.looks("vhosts?", Document({"items": []}))
    assert play.response().status == Status.UNKNOWN_OBJECT


def test_a_change_that_cannot_be_looked_at_afterwards_is_done_all_the_same() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, Changed())
    play.looks("queues/", Unavailable("connection refused"))
    assert play.response().status == Status.OK


def test_a_deleted_queue_is_told_by_its_event_and_else_a_second_later() -> None:
    play = Play()
    play.calls("queue", "orders", "delete", True, False)
    play.asked(Change("DELETE", "queues/%2F/orders?if-empty=true"), Changed())
    play.looks("queues/", NotFound())
    assert play.is_idle()
    play.world.event("queue.deleted", vhost="/", name="orders")
    play.time_passes(0.25)
    play.looks("queues/", NotFound())
    assert play.response().status == Status.OK


def test_a_deleted_queue_of_which_no_event_tells_is_gone_too() -> None:
    play = Play()
    play.calls("queue", "orders", "delete", False, False)
    play.asked(Change("DELETE", "queues/%2F/orders"), Changed())
    for _ in range(4):
        play.looks("queues/", NotFound())
        play.time_passes(0.25)
    play.looks("queues/", NotFound())
    told = play.told()
    assert any(isinstance(one, PropertyContent) and one.deleted for one in told)
    assert isinstance(told[-1], MethodResponse)
    assert told[-1].status == Status.OK


CLOSE = Change("DELETE", "connections/peer%20-%3E%20us", reason="bye")
LISTED = Lookup("connections/peer%20-%3E%20us?columns=name,connected_at", as_writer=True)


def connection(opened: int = CONNECTED_AT) -> Document:
    return Document({"name": "peer -> us", "connected_at": opened})


def test_a_connection_is_closed_when_the_broker_lists_it() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, NotFound())
    assert play.is_idle()
    play.time_passes(0.25)
    play.asked(LISTED, connection())
    play.asked(CLOSE, Changed())


def test_a_connection_that_is_not_listed_in_time_is_not_closed() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye", seconds=1)
    for _ in range(4):
        play.asked(LISTED, NotFound())
        play.time_passes(0.25)
    assert play.is_idle()
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert "not carried out" in response.text


def test_a_connection_that_ends_by_itself_is_waited_for_no_longer() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, NotFound())
    play.world.event("connection.closed", name="peer -> us", pid="<x.1.2.3>", node=NODE)
    play.time_passes(0.25)
    assert play.request() is None or isinstance(play.request(), Lookup)
    play.looks("connections/", NotFound())
    assert play.response().status == Status.UNKNOWN_OBJECT


def test_another_connection_of_the_same_name_is_left_alone() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, connection(CONNECTED_AT + 7))
    play.looks("connections/", connection(CONNECTED_AT + 7))
    assert play.response().status == Status.UNKNOWN_OBJECT


def test_a_reason_of_several_lines_is_refused() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye\r\nX-Evil: 1")
    assert play.is_idle()
    assert play.response().status == Status.INVALID_PARAMETER


def test_no_limit_and_no_connections_at_all() -> None:
    play = Play()
    play.calls("vhost", "/", "setMaxConnections", -1)
    play.asked(Change("DELETE", "vhost-limits/%2F/max-connections"), Changed())
    play = Play()
    play.calls("vhost", "/", "setMaxConnections", 0)
    assert play.is_idle()
    assert play.response().status == Status.FORBIDDEN
    play = Play(lockout=frozenset({"/"}))
    play.calls("vhost", "/", "setMaxConnections", 0)
    play.asked(Change("PUT", "vhost-limits/%2F/max-connections", {"value": 0}), Changed())


def test_nobody_may_change_a_broker_without_an_account_for_it() -> None:
    play = Play(writer="")
    play.calls("queue", "orders", "purge")
    response = play.response()
    assert response.status == Status.FORBIDDEN
    assert "'writing'" in response.text


def test_limits_are_read_every_ten_seconds_and_when_an_event_tells() -> None:
    play = Play()
    assert play.world.value("vhost", "/", "maxConnections") == -1
    assert play.is_idle()
    play.world.event("parameter.set", component="vhost-limits", name="limits", vhost="/", value={})
    play.reads_limits([{"vhost": "/", "value": {"max-connections": 5, "max-queues": -9}}])
    assert play.world.value("vhost", "/", "maxConnections") == 5
    assert play.world.value("vhost", "/", "maxQueues") == -1
    play.time_passes(10)
    play.looks("vhost-limits", Unavailable("connection refused"))
    assert play.world.value("vhost", "/", "maxConnections") == 5
    play.time_passes(10)
    play.looks("vhost-limits", Refused(login=False, reason="Not monitor user"))
    assert play.world.value("vhost", "/", "maxConnections") is None


def test_an_object_is_read_before_it_is_told_to_who_asks_for_it() -> None:
    play = Play(writer="")
    play.reads_limits([])
    play.told()
    play.asks_for("queue", "orders")
    play.looks("queues/%2F/orders?columns=", queue(messages=77))
    (content,) = [one for one in play.said if isinstance(one, ObjectContent)]
    assert content.statistics is not None
    assert content.statistics[0] == 77
    assert play.told()[-1] == CommandComplete(1)
    play.asks_for("queue", "orders")
    play.looks("queues/", Unavailable("connection refused"))
    end = play.told()[-1]
    assert isinstance(end, CommandComplete)
    assert end.code == 1
    play.asks_for("queue", "orders")
    play.looks("queues/", NotFound())
    assert play.world.names("queue") == []
    assert play.told()[-1] == CommandComplete(3)


def test_the_mapping_and_the_agent_know_the_same_methods() -> None:
    mapped = {name: set(rule.methods) for name, rule in MAPPING.classes.items() if rule.methods}
    assert {name: set(methods) for name, methods in METHODS.items()} == mapped
