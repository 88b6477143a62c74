"""The CML console from its connection until all visible objects are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.cml.codec import write_message
from gateway.dialects.cml.console import ConsoleConfig, ConsoleSession
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    Invalid,
    ModifyReply,
    SchemaClass,
    SchemaField,
    SchemaMethod,
    SchemaReply,
    SchemaRequest,
    Spelling,
    Status,
)
from gateway.dialects.cml.session_state import TRANSITIONS, State
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import Binding, LossSuspected, NotSent, TimerExpired
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.times import SECOND
from tests.dialects.cml.console_story import (
    CONFIG,
    CONNECTING,
    SYNCHRONISED,
    SYNCHRONISING,
    reported,
    seen,
    states,
    synchronised,
    the_broker,
)
from tests.dialects.cml.playbook import QUEUE, SCHEMA, START, ConsolePlay, Shop, shop

BROKER_0 = InspectRequest(0)


def test_a_console_learns_the_schema_and_walks_down_the_tree() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.leaves(CONNECTING, SchemaRequest())
    play.answers()
    steps = play.left()
    learned = [one.schema.key.name for one in steps if isinstance(one, ClassLearned)]
    assert learned == [
        "broker",
        "config",
        "queue",
        "queue_connection",
        "queue_binding",
        "connection",
        "connection_queue",
    ]
    assert steps[-3:] == [
        next(one for one in steps if isinstance(one, EventLearned)),
        SYNCHRONISING,
        BROKER_0,
    ]

    play.answers()
    play.leaves(ResyncBegan(), the_broker(), InspectRequest(1, "config"))
    play.answers()
    play.leaves(seen(1, "config", "shop.cfg", "5672", None, None, None, None))
    # Queues may be private, and connections come and go: they are inspected when they were listed twice.
    play.time_passes(2)
    classes = ("broker", "config", "queue", "connection", "queue_binding")
    minute = dict.fromkeys([f"shop:{name}" for name in classes], play.now + 60 * SECOND)
    play.leaves(
        BROKER_0,
        the_broker(),
        InspectRequest(7, "queue"),
        InspectRequest(9, "connection"),
        seen(7, "queue", "orders", 3, False),
        InspectRequest(8, "queue_binding"),
        seen(9, "connection", "till", 0),
        seen(8, "queue_binding", "orders", parent=7),
        HeartbeatSeen("broker", play.now, {**minute, "shop:config": START + 60 * SECOND}),
        ResyncEnded(complete=True),
        SYNCHRONISED,
    )
    play.stands(State.SYNCHRONISED)
    assert play.session.schema == SCHEMA


def test_requests_go_to_the_brokers_console_and_come_back_if_it_is_not_there() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    (send,) = play.sent
    assert (send.exchange, send.routing_key, send.reply_to) == ("amq.system", "amq.console", QUEUE)
    assert (send.content_type, send.message_id) == ("text/xml", "c-1")
    assert send.mandatory
    assert play.session.bindings(QUEUE) == (Binding("amq.direct", QUEUE), Binding("amq.notify", "#"))


def test_notifications_can_be_left_out() -> None:
    session = ConsoleSession(ConsoleConfig(notify_exchange="", reply_exchange="replies"))
    assert session.bindings("q") == (Binding("replies", "q"),)


def test_a_console_connects_once_at_a_time() -> None:
    play = synchronised()
    with pytest.raises(LocalProtocolError, match="connected means nothing while synchronised"):
        play.connects()


def test_the_table_of_states_can_be_printed() -> None:
    assert "disconnected  connected     -> learning\n" in str(TRANSITIONS)


# Returned, refused, not answered.


def test_a_returned_request_says_what_is_missing_and_is_tried_again() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.left()
    play.take(play.session.handle(NotSent([play.waiting.popleft()], "no queue is bound there"), play.now))
    play.leaves(
        SourceStateSeen(
            SourceState.DOWN,
            "exchange amq.system with key amq.console takes no requests: no queue is bound there;"
            " next attempt in 5 s",
        )
    )
    play.stands(State.UNREACHED)
    play.time_passes(5, answering=False)
    play.leaves("resync", SchemaRequest())
    play.time_passes(4)
    play.stands(State.SYNCHRONISED)


def test_each_further_attempt_waits_longer() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    for seconds in (5, 10, 20, 40, 80, 160, 300):
        play.take(play.session.handle(NotSent([play.waiting.popleft()], "no route"), play.now))
        assert states(play.left())[-1].detail.endswith(f"next attempt in {seconds} s")
        play.time_passes(seconds, answering=False)
        play.left()
        play.stands(State.LEARNING)


def test_what_has_no_waiting_requester_may_come_back() -> None:
    play = synchronised()
    old = play.sent[0]
    play.take(play.session.handle(NotSent([old], "no route"), play.now))
    play.leaves()


def test_a_broker_that_does_not_answer_is_asked_three_times() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.time_passes(30, answering=False)
    play.leaves(
        CONNECTING,
        SchemaRequest(),
        SchemaRequest(),
        SchemaRequest(),
        SourceStateSeen(
            SourceState.DOWN,
            "no answer on exchange amq.system with key amq.console: is it a broker that speaks CML, and"
            " may its user send requests?; next attempt in 5 s",
        ),
    )
    play.waiting.clear()
    play.time_passes(9)
    play.stands(State.SYNCHRONISED)


def test_a_class_with_what_has_no_name_is_read_and_the_rest_is_counted() -> None:
    nameless = SchemaClass("", fields=(SchemaField("name"),))
    classes = [
        replace(one, fields=(*one.fields, SchemaField("")), methods=(*one.methods, SchemaMethod("")))
        for one in SCHEMA.classes
    ]
    broker = replace(shop(), schema=replace(SCHEMA, classes=(*classes, nameless)))
    broker.objects[7][1][""] = "in a field without a name"
    play = ConsolePlay(CONFIG, broker)
    play.connects()
    play.time_passes(2)
    play.stands(State.SYNCHRONISED)
    steps = play.left()
    assert seen(7, "queue", "orders", 3, False) in steps
    assert [one for one in steps if isinstance(one, str)] == ["schema-left-out", "doubtful-value"]
    queue = next(
        one.schema for one in steps if isinstance(one, ClassLearned) and one.schema.key.name == "queue"
    )
    assert [one.name for one in queue.methods] == ["purge"]


def test_a_schema_of_classes_without_a_name_is_none() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.left()
    play.answers(SchemaReply(Status.OK, "s", "1", (SchemaClass(""),)))
    (down,) = states(play.left())
    assert down.state is SourceState.DOWN
    assert "expected a class with a name of its own" in down.detail


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (SchemaReply(Status.NO_ACCESS), "the broker does not send its schema ('noaccess')"),
        (
            SchemaReply(Status.INVALID, notice="what?"),
            "the broker does not send its schema ('invalid': 'what?')",
        ),
        (SchemaReply(Status.OK), "the broker does not send its schema ('ok')"),
        (SchemaReply(""), "the broker does not send its schema ('nothing')"),
        (Invalid(), "the answer to the request for the schema is a Invalid"),
        (ModifyReply(Status.OK), "the answer to the request for the schema is a ModifyReply"),
        (
            SchemaReply(Status.OK, "s", "1", (SchemaClass("a"), SchemaClass("a"))),
            "the broker's schema cannot be read: at offset 0: expected a class with a name of its own",
        ),
    ],
)
def test_without_a_schema_nothing_is_read(reply: SchemaReply, reason: str) -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.left()
    play.answers(reply)
    (down,) = states(play.left())
    assert down.state is SourceState.DOWN
    assert down.detail.startswith(reason)
    assert down.detail.endswith("; next attempt in 5 s")


def test_a_schema_has_a_bound() -> None:
    play = ConsolePlay(replace(CONFIG, class_limit=6))
    play.connects()
    play.answers()
    assert "at most 6 classes, found 7" in states(play.left())[-1].detail


def test_a_class_has_a_bound() -> None:
    many = SchemaClass("broker", fields=tuple(SchemaField(f"f{number}") for number in range(4_097)))
    play = ConsolePlay(CONFIG, Shop(SchemaReply(Status.OK, "s", "1", (many,))))
    play.connects()
    play.answers()
    assert "classes of at most 4096 fields, found one of 4097" in states(play.left())[-1].detail


def test_fields_that_are_lists_are_shown_as_lists() -> None:
    fields = (SchemaField("name"), SchemaField("alias", repeat=True))
    broker = Shop(SchemaReply(Status.OK, "shop", "1", (SchemaClass("broker", fields=fields),)))
    broker.put(0, "broker", name="s")
    broker.objects[0][2].extend([("alias", "amqp://u:secret@h"), ("alias", "t")])  # type: ignore[list-item]
    play = ConsolePlay(CONFIG, broker)
    play.connects()
    play.answers_all()
    (seen_one,) = [one for one in play.left() if isinstance(one, ObjectSeen)]
    assert seen_one.properties == ("s", ("amqp://***@h", "t"))


def test_a_body_that_cannot_be_read_is_no_schema() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.left()
    play.arrives(b"<cml", "c-1")
    steps = play.left()
    assert states(steps)[-1].detail.startswith("the answer to the request for the schema is a ProtocolError")
    assert steps[-1] == "protocol-error"


# A schema that was saved.


def test_the_classes_of_a_saved_schema_are_known_at_once_and_verified() -> None:
    play = ConsolePlay(replace(CONFIG, schema=SCHEMA))
    play.connects()
    steps = play.left()
    assert sum(isinstance(one, ClassLearned) for one in steps) == 7
    play.answers()
    play.leaves(SYNCHRONISING, BROKER_0)


def test_another_schema_than_the_saved_one_takes_its_place() -> None:
    saved = replace(SCHEMA, version="0.9", classes=SCHEMA.classes[1:])
    play = ConsolePlay(replace(CONFIG, schema=saved))
    play.connects()
    play.left()
    play.answers()
    steps = play.left()
    assert steps[-2:] == ["schema-differs", BROKER_0]
    assert sum(isinstance(one, ClassLearned) for one in steps) == 7
    assert play.session.schema == SCHEMA


def test_where_the_broker_does_not_report_its_schema_the_saved_one_has_to_do() -> None:
    play = ConsolePlay(replace(CONFIG, schema=SCHEMA))
    play.connects()
    play.left()
    play.answers(SchemaReply(Status.NO_ACCESS))
    play.leaves(SYNCHRONISING, "schema-not-verified", BROKER_0)


def test_a_saved_schema_that_is_none_is_reported() -> None:
    play = ConsolePlay(
        replace(CONFIG, schema=SchemaReply("", "s", "1", (SchemaClass("a"), SchemaClass("a"))))
    )
    assert play.session.schema is None
    play.connects()
    assert "saved-schema" in play.notes()


# The walk falls short.


def test_an_object_that_does_not_answer_leaves_the_walk_incomplete() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.spoils = {InspectRequest(1, "config"): Invalid()}
    play.time_passes(15)
    steps = play.left()
    assert ResyncEnded(complete=False) in steps
    assert states(steps)[-1] == SourceStateSeen(
        SourceState.DEGRADED,
        "the reading was incomplete: object 1 '': the answer is a Invalid; next attempt in 5 s",
    )
    play.stands(State.DEGRADED)
    play.spoils.clear()
    play.time_passes(10)
    play.stands(State.SYNCHRONISED)


def test_a_broker_that_falls_silent_in_a_walk_ends_it_and_its_return_begins_another() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.answers()
    play.left()
    play.time_passes(10, answering=False)
    play.leaves(
        SourceStateSeen(
            SourceState.DEGRADED,
            "the reading was incomplete: the broker has not answered for 10 s; next attempt in 5 s",
        )
    )
    play.waiting.clear()
    play.time_passes(8)
    steps = play.left()
    assert steps[0] == "resync"
    assert steps[-2:] == [ResyncEnded(complete=True), SYNCHRONISED]


def test_the_end_of_a_connection_ends_a_walk() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.answers()
    play.answers()
    play.left()
    play.disconnects()
    play.leaves(ResyncEnded(complete=False), SourceStateSeen(SourceState.DOWN, "connection reset"))
    assert play.session.handle(TimerExpired(), play.now) == []
    play.arrives(b"late")
    play.leaves()
    play.disconnects("again")
    play.leaves(SourceStateSeen(SourceState.DOWN, "again"))


def test_after_a_pause_what_was_listed_before_is_inspected_at_once_and_the_pause_is_a_gap() -> None:
    play = synchronised()
    received = play.now
    play.disconnects()
    play.now += SECOND
    play.connects()
    play.answers_all()
    steps = play.left()
    assert isinstance(steps[1], Gap)
    assert (steps[1].end, steps[1].reason) == (received + SECOND, "not connected")
    assert reported(steps) == ["0", "1", "7", "9", "8"]
    assert ResyncBegan() in steps
    assert steps[-2:] == [ResyncEnded(complete=True), SYNCHRONISED]


def test_doubts_of_others_begin_a_walk_and_say_what_may_be_lost() -> None:
    play = synchronised()
    play.time_passes(4)
    play.left()
    play.take(play.session.handle(LossSuspected("queue overflowed", play.now - SECOND), play.now))
    play.leaves(Gap(play.now - SECOND, play.now, "queue overflowed"), "resync", SchemaRequest())
    # A walk that began just now is as good as another one.
    play.take(play.session.handle(LossSuspected("again", play.now - 1), play.now))
    play.leaves(Gap(play.now - 1, play.now, "again"))
    play.time_passes(3)
    assert play.left()[-1] == SYNCHRONISED
    play.disconnects()
    play.left()
    play.take(play.session.handle(LossSuspected("nothing to ask", 1), play.now))
    play.leaves()


# The form of replies.


def test_class_and_object_may_be_missing_from_replies() -> None:
    """Examples of 2006 omit them; the request then identifies the object."""
    play = ConsolePlay(CONFIG, Shop())
    play.connects()
    play.answers()
    play.left()
    fields = (Field("name", "shop"), Field("config", object_id=1))
    play.arrives(_specified(InspectReply(Status.OK, None, "", fields)), "c-2")
    play.answers(InspectReply("", None, "", (Field("name", "c"),)), to=play.sent[-1])
    assert [one.key.name for one in play.left() if isinstance(one, ObjectSeen)] == ["broker", "config"]


def test_a_schema_without_a_name_is_of_the_configured_package() -> None:
    schema = SchemaReply(Status.OK, "", "", (SchemaClass("server", fields=(SchemaField("name"),)),))
    broker = Shop(schema)
    broker.put(0, "server", name="s")
    play = ConsolePlay(replace(CONFIG, package="mine"), broker)
    play.connects()
    play.answers_all()
    steps = play.left()
    assert [str(one.schema.key) for one in steps if isinstance(one, ClassLearned | EventLearned)] == [
        "mine:server",
        "mine:notify",
    ]
    # A broker that does not tell when it was started has plain numbers for names.
    assert [one.native_id for one in steps if isinstance(one, ObjectSeen)] == ["0"]
    assert play.now == START


def _specified(reply: InspectReply) -> bytes:
    return write_message(reply, Spelling.SPECIFICATION)
