"""Calls, modifications and fetches of a console of agents before AM2."""

from __future__ import annotations

import struct

import pytest

from gateway.dialects.qmf.am01.console_calls import MAX_RETURNED
from gateway.dialects.qmf.am01.messages import ASKED, ClassDescription, MethodRequest, Revision
from gateway.dialects.qmf.am01.schemas import described_class
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    CommandComplete,
    GetQuery,
    MethodResponse,
    SchemaRequest,
)
from gateway.dialects.session import NotSent
from gateway.model.observations import ObjectSeen
from gateway.model.operations import Answer, Outcome
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    Method,
)
from gateway.model.values import Reference, Value, ValueType
from tests.dialects.qmf.am01.examples import KEY, OBJECT_ID, PROPERTY_OCTETS, STATISTIC_OCTETS
from tests.dialects.qmf.am01.playbook import FIRST, Play
from tests.dialects.qmf.playbook import QUEUE, START

REVISIONS = pytest.mark.parametrize("revision", list(Revision), ids=lambda one: one.value)
ARGUMENTS = b"\0\0\0\x07" + b"\0\0\0\x02ab"
"""The arguments of ``drain(7, "ab")``: a long string has a length of 32 bits."""
OUTPUTS = b"\0\0\0\x06" + struct.pack(">d", 2.5)
UNANSWERED = "no answer came in time: it may have been carried out, or may still be"


def play(revision: Revision, **settings: object) -> Play:
    made = Play(revision, settings)
    made.synchronised()
    return made


# Calls.


@pytest.mark.parametrize(
    ("revision", "routing_key", "reply_queue"),
    [
        (Revision.DESIGN_NOTES, "method.shop.tank.drain", ""),
        (Revision.NOVEMBER_2007, "method.shop.tank.drain", QUEUE),
        (Revision.JANUARY_2008, "method.shop.tank.drain", ""),
        (Revision.FEBRUARY_2008, "agent.method.shop.tank.drain", ""),
        (Revision.MARCH_2008, "agent.method.shop.tank.drain", ""),
    ],
)
def test_all_arguments_are_sent_under_the_method_s_key(
    revision: Revision, routing_key: str, reply_queue: str
) -> None:
    scene = play(revision)
    scene.calls()
    request = MethodRequest(FIRST, OBJECT_ID, ClassKey("shop", "tank"), "drain", ARGUMENTS, reply_queue)
    scene.leaves((routing_key, request))
    assert (scene.sent[-1].reply_to, scene.sent[-1].not_after) == (QUEUE, scene.now + 10 * 10**9)
    scene.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    scene.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (6, 2.5)))


@REVISIONS
@pytest.mark.parametrize(
    ("status", "text", "outcome"),
    [
        (1, "UnknownObject", Outcome.OBJECT_GONE),
        (2, "UnknownMethod", Outcome.UNKNOWN_ELEMENT),
        (3, "NotImplemented", Outcome.REMOTE_FAILURE),
    ],
)
def test_what_an_agent_refuses_is_reported(
    revision: Revision, status: int, text: str, outcome: Outcome
) -> None:
    scene = play(revision)
    scene.calls()
    scene.left()
    scene.arrives(MethodResponse(FIRST, status, text))
    scene.leaves(Answer(1, outcome, text, status))


def test_a_method_that_fails_may_return_its_outputs_all_the_same() -> None:
    scene = play(Revision.JANUARY_2008)
    scene.calls()
    scene.left()
    scene.arrives(MethodResponse(FIRST, 3, "NotImplemented", OUTPUTS))
    scene.leaves(Answer(1, Outcome.REMOTE_FAILURE, "NotImplemented", 3, (6, 2.5)))


@REVISIONS
def test_answers_are_matched_by_number_in_any_order_and_once(revision: Revision) -> None:
    scene = play(revision)
    scene.calls(1)
    scene.calls(2)
    scene.left()
    scene.arrives(MethodResponse(FIRST + 1, 0, "OK", OUTPUTS), MethodResponse(FIRST, 0, "OK", OUTPUTS))
    scene.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS), MethodResponse(77, 0, "OK", OUTPUTS))
    assert [one.token for one in scene.answers()] == [2, 1]


@REVISIONS
def test_a_call_without_an_answer_is_unknown_until_a_late_one_comes(revision: Revision) -> None:
    scene = play(revision)
    scene.calls(seconds=5)
    scene.left()
    scene.time_passes(6)
    assert Answer(1, Outcome.UNKNOWN, UNANSWERED) in scene.left()
    scene.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    scene.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (6, 2.5)))


@REVISIONS
def test_what_was_not_sent_is_reported_as_that(revision: Revision) -> None:
    scene = play(revision)
    scene.calls()
    scene.left()
    scene.take(scene.session.handle(NotSent(scene.sent, "the link went down"), scene.now))
    scene.leaves(Answer(1, Outcome.SOURCE_DOWN, "not sent: the link went down"))


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"method": "fill"}, Outcome.UNKNOWN_ELEMENT),
        ({"arguments": (7,)}, Outcome.WRONG_VALUE),
        ({"arguments": ("x", "ab")}, Outcome.WRONG_TYPE),
        ({"native_id": "nonsense"}, Outcome.OBJECT_GONE),
        ({"native_id": "0-1-1-0-5"}, Outcome.OBJECT_GONE),
        ({"key": ClassKey("shop", "ship", b"s" * 16)}, Outcome.NOT_NOW),
        ({"deadline": START}, Outcome.NOT_NOW),
    ],
)
def test_what_the_schema_does_not_allow_is_not_sent(changes: dict[str, object], outcome: Outcome) -> None:
    scene = play(Revision.FEBRUARY_2008)
    scene.calls(changes=changes)
    (answer,) = scene.left()
    assert isinstance(answer, Answer)
    assert answer.outcome is outcome
    assert answer.text.startswith("not sent: ")


def test_nothing_is_sent_without_a_link() -> None:
    scene = play(Revision.JANUARY_2008)
    scene.disconnects()
    scene.left()
    scene.calls()
    scene.leaves(Answer(1, Outcome.SOURCE_DOWN, "not sent: there is no connection to the broker"))


def test_no_call_is_sent_while_its_form_is_not_known() -> None:
    scene = Play(Revision.JANUARY_2008, known=False)
    scene.listed()
    scene.calls(1)
    scene.fetches(2)
    spoken = "not sent: it is not known yet which form of calls the agent has: 2007-11, 2008-01"
    unknown = "not sent: the revision of the agent is not known yet"
    scene.leaves(Answer(1, Outcome.NOT_NOW, spoken), Answer(2, Outcome.NOT_NOW, unknown))
    scene.arrives(MethodResponse(0, 1, "UnknownObject"))
    scene.left()
    scene.calls(3)
    (sent,) = scene.left()
    assert isinstance(sent, tuple)


ECHO = ClassSchema(
    ClassKey("shop", "tank"),
    (
        Element("name", ValueType.STRING, access=Access.READ_WRITE, index=True),
        Element("owner", ValueType.REFERENCE, access=Access.READ_WRITE),
    ),
    (),
    (
        Method(
            "drain",
            (
                Argument("body", ValueType.STRING, Direction.INOUT),
                Argument("count", ValueType.U32, Direction.INOUT),
                Argument("note", ValueType.STRING),
            ),
        ),
    ),
)


def echoing(**settings: object) -> Play:
    """Return a play with a class whose method returns a text, and whose name can be set."""
    scene = Play(Revision.DESIGN_NOTES, settings)
    definition, _ = described_class(ECHO)
    scene.connects()
    scene.publishes(ClassDescription(0, ClassDefinition.of(definition.schema, definition.forms)))
    scene.left()
    return scene


def test_what_would_come_back_and_overflow_the_agent_s_buffer_is_not_sent() -> None:
    scene = echoing()
    scene.calls(1, changes={"arguments": ("x" * (MAX_RETURNED + 1), 1, "")})
    scene.calls(2, changes={"arguments": ("x" * MAX_RETURNED, 1, "y" * 10_000)})
    scene.calls(3, changes={"arguments": ("", 1, "y" * 65_536)})
    steps = scene.left()
    text = f"not sent: {MAX_RETURNED + 1} octets of arguments would come back, and agents take {MAX_RETURNED}"
    assert steps[0] == Answer(1, Outcome.WRONG_LENGTH, text)
    assert isinstance(steps[1], tuple)
    assert isinstance(steps[2], Answer)
    assert steps[2].outcome is Outcome.WRONG_LENGTH


@pytest.mark.parametrize("revision", [Revision.FEBRUARY_2008, Revision.MARCH_2008, Revision.DESIGN_NOTES])
def test_an_answer_that_cannot_be_read_leaves_a_call_unknown(revision: Revision) -> None:
    scene = play(revision)
    scene.calls()
    scene.left()
    head = b"AM01m\0" if revision is Revision.FEBRUARY_2008 else b"AM01R\0"
    head = b"AM1m" if revision is Revision.MARCH_2008 else head
    scene.arrives_octets(head + FIRST.to_bytes(4, "big") + b"\0")
    note, answer = scene.left()
    assert note == "protocol-error"
    assert isinstance(answer, Answer)
    assert answer.outcome is Outcome.UNKNOWN
    assert answer.text.startswith("the answer cannot be read: ")


# Sets.


@REVISIONS
def test_no_set_is_sent_to_a_peer_that_is_not_configured_for_it(revision: Revision) -> None:
    scene = play(revision)
    scene.modifies({"size": 200})
    text = "not sent: agents before AM2 have no set, unless `get_and_set` says that this one has"
    scene.leaves(Answer(1, Outcome.READ_ONLY, text))


@REVISIONS
def test_a_set_names_what_changes(revision: Revision) -> None:
    scene = play(revision, get_and_set=True)
    scene.modifies({"size": 200})
    routing_key, request = scene.message()
    assert routing_key.endswith("method.shop.tank.set")
    assert isinstance(request, MethodRequest)
    assert request.arguments == b"\x04size\0\xc8"
    scene.arrives(MethodResponse(FIRST, 0, "OK"))
    scene.leaves(Answer(1, Outcome.APPLIED, "OK", 0))


@pytest.mark.parametrize(
    ("values", "outcome", "text"),
    [
        (
            {"weight": 1},
            Outcome.UNKNOWN_ELEMENT,
            "not sent: shop:tank has no property 'weight' at this agent",
        ),
        ({"name": "t2"}, Outcome.READ_ONLY, "not sent: the agent declares that name is not to be set"),
        ({"size": None}, Outcome.WRONG_VALUE, "not sent: size cannot be absent"),
        ({"size": "big"}, Outcome.WRONG_TYPE, "not sent: size: "),
        ({"size": 0}, Outcome.WRONG_VALUE, "not sent: size: "),
    ],
)
def test_what_cannot_be_set_is_not_sent(values: dict[str, Value | None], outcome: Outcome, text: str) -> None:
    scene = play(Revision.DESIGN_NOTES, get_and_set=True)
    scene.modifies(values)
    (answer,) = scene.left()
    assert isinstance(answer, Answer)
    assert answer.outcome is outcome
    assert answer.text.startswith(text)


def test_what_cannot_travel_is_not_sent() -> None:
    scene = echoing(get_and_set=True)
    scene.modifies({"name": "x" * 65_536}, 1)
    scene.modifies({"owner": Reference("nobody")}, 2)
    long, reference = scene.answers()
    assert (long.outcome, reference.outcome) == (Outcome.WRONG_LENGTH, Outcome.WRONG_VALUE)


def test_a_set_without_an_answer_may_have_been_carried_out() -> None:
    scene = play(Revision.MARCH_2008, get_and_set=True)
    scene.modifies({"size": 200}, seconds=5)
    scene.time_passes(6)
    assert Answer(1, Outcome.UNKNOWN, UNANSWERED) in scene.left()


# Fetches.


@REVISIONS
def test_an_object_is_read_by_get_where_that_is_configured(revision: Revision) -> None:
    scene = play(revision, get_and_set=True)
    scene.fetches()
    routing_key, request = scene.message()
    assert routing_key.endswith("method.shop.tank.get")
    assert isinstance(request, MethodRequest)
    assert request.arguments == b""
    scene.arrives(MethodResponse(FIRST, 0, "OK", PROPERTY_OCTETS + STATISTIC_OCTETS))
    seen, answer = scene.left()
    assert isinstance(seen, ObjectSeen)
    assert (seen.properties, seen.statistics) == (("t1", Reference("0-0-0-0-9"), 100), (7, 50.0, "hi"))
    assert (seen.native_id, seen.sampled, seen.created) == (str(OBJECT_ID), 0, 0)
    assert answer == Answer(1, Outcome.APPLIED, "", 0)


def test_a_get_that_fails_or_cannot_be_read_is_reported_as_that() -> None:
    scene = play(Revision.DESIGN_NOTES, get_and_set=True)
    scene.fetches(1)
    scene.fetches(2)
    scene.left()
    scene.arrives(MethodResponse(FIRST, 1, "UnknownObject"), MethodResponse(FIRST + 1, 0, "OK", b"\x09"))
    gone, note, unreadable = scene.left()
    assert gone == Answer(1, Outcome.OBJECT_GONE, "UnknownObject", 1)
    assert note == "protocol-error"
    assert isinstance(unreadable, Answer)
    assert unreadable.outcome is Outcome.REMOTE_FAILURE


def test_march_2008_is_asked_for_all_objects_of_the_class() -> None:
    scene = play(Revision.MARCH_2008)
    scene.fetches()
    scene.leaves(("agent", GetQuery(FIRST, {"_class": "tank"})))
    scene.arrives(scene.got(FIRST, ObjectId(0, 5)), scene.got(FIRST), CommandComplete(FIRST))
    assert scene.answers() == [Answer(1, Outcome.APPLIED, "", 0)]


def test_an_object_that_march_2008_does_not_report_is_gone() -> None:
    scene = play(Revision.MARCH_2008)
    scene.fetches()
    scene.arrives(scene.got(FIRST, ObjectId(0, 5)), CommandComplete(FIRST))
    assert scene.answers() == [Answer(1, Outcome.OBJECT_GONE, "the agent has no such object", 0)]


def test_an_object_that_cannot_be_read_is_not_reported_as_gone() -> None:
    scene = play(Revision.MARCH_2008)
    scene.fetches()
    scene.arrives_octets(b"AM1g" + FIRST.to_bytes(4, "big") + b"\x04shop\x04tank" + b"T" * 16 + b"\0")
    scene.arrives(CommandComplete(FIRST))
    (answer,) = scene.answers()
    assert answer.outcome is Outcome.REMOTE_FAILURE
    assert answer.text.startswith("the answer cannot be read: ")


def test_february_2008_publishes_what_is_fetched_when_it_has_answered_for_its_schema() -> None:
    scene = play(Revision.FEBRUARY_2008)
    scene.fetches()
    scene.leaves(("agent", SchemaRequest(0, KEY)))
    scene.publishes(scene.config(), scene.inst())
    assert scene.answers() == [], "told before it had a reason to tell everything"
    scene.arrives(scene.described())
    scene.publishes(scene.config(object_id=ObjectId(0, 5)), scene.inst(object_id=ObjectId(0, 5)))
    scene.publishes(scene.config())
    assert scene.answers() == [], "statistics come behind"
    scene.publishes(scene.inst())
    assert scene.answers() == [Answer(1, Outcome.APPLIED, "")]
    scene.publishes(scene.inst())
    assert scene.answers() == []


def test_an_agent_that_reports_everything_at_times_is_waited_for() -> None:
    scene = play(Revision.JANUARY_2008, republish_interval=10 * 10**9)
    scene.fetches()
    scene.leaves()
    scene.publishes(scene.config(), scene.inst())
    assert scene.answers() == [Answer(1, Outcome.APPLIED, "")]


def test_an_object_that_is_deleted_meanwhile_is_gone() -> None:
    scene = play(Revision.FEBRUARY_2008)
    scene.fetches()
    scene.arrives(scene.described())
    scene.publishes(scene.config(deleted=START + 1))
    assert scene.answers() == [Answer(1, Outcome.OBJECT_GONE, "the agent deleted it")]


def test_a_schema_of_another_class_is_no_reason_to_report_this_one() -> None:
    scene = play(Revision.FEBRUARY_2008)
    scene.fetches()
    scene.left()
    other, _ = described_class(ClassSchema(ClassKey("shop", "ship"), (Element("name", ValueType.STRING),)))
    scene.arrives(ClassDescription(0, other))
    scene.publishes(scene.config(), scene.inst())
    assert scene.answers() == []


def test_fetches_without_a_waiting_requester_are_forgotten() -> None:
    scene = play(Revision.FEBRUARY_2008, operation_limit=2_000)
    for token in range(1_001):
        scene.fetches(token, seconds=1)
    scene.time_passes(2)
    scene.left()
    scene.arrives(scene.described())
    scene.publishes(scene.config(), scene.inst())
    assert [one.token for one in scene.answers()] == list(range(1, 1_001))


@pytest.mark.parametrize("revision", [one for one in Revision if one not in ASKED], ids=lambda one: one.value)
def test_agents_that_cannot_be_asked_are_not_asked_for_an_object(revision: Revision) -> None:
    scene = play(revision)
    scene.fetches()
    text = "not read: agents until January 2008 send values only of their own accord"
    scene.leaves(Answer(1, Outcome.NOT_NOW, text))
