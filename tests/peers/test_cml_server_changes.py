"""Property changes and method calls that consoles request of a CML server."""

from __future__ import annotations

import pytest

from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    Spelling,
    Status,
)
from gateway.dialects.session import Called, ModifyAsked, Note
from gateway.model.schema import ClassKey
from gateway.model.values import Reference
from tests.peers.cml_server import ServerConfig
from tests.peers.cml_server_changes import MAX_WAITING
from tests.peers.cml_server_play import SECOND, START, WRITER, ServerPlay, fields, tank

_TANK = ClassKey("example.org.shop", "tank")
_SHOP = ClassKey("example.org.shop", "shop")
_SELL = MethodRequest(0, "sell", (*fields(litres="7", to="Ann"), Field("tank", "7")))


def test_a_setting_is_the_programs_to_make_and_then_answered() -> None:
    play = ServerPlay()
    play.asks(ModifyRequest(7, fields(high="90", state="1")))
    assert play.left() == [
        ModifyAsked(1, _TANK, 7, {"limits.high": 90, "state": 1}, WRITER, START + 4 * SECOND)
    ]
    play.does(1, notice="To activate the new setting, restart 100% of it")
    assert play.replies() == [
        ModifyReply(Status.OK, 7, "tank", "To activate the new setting, restart 100\uff05 of it")
    ]
    play.does(1)
    assert play.left() == []


def test_a_field_in_a_group_goes_by_either_name() -> None:
    play = ServerPlay()
    for name in ("high", "limits.high"):
        play.asks(ModifyRequest(7, (Field(name, "90"),)))
        [change] = play.asked()
        assert isinstance(change, ModifyAsked)
        assert change.values == {"limits.high": 90}
        play.does(change.handle)
        play.left()


def test_a_call_has_the_arguments_of_the_schema() -> None:
    play = ServerPlay()
    play.asks(_SELL)
    assert play.left() == [
        Called(1, _SHOP, 0, "sell", (7, "Ann", Reference("7")), WRITER, START + 4 * SECOND)
    ]
    play.does(1, Status.INVALID, "sold out")
    assert play.replies() == [MethodReply(Status.INVALID, 0, "shop", "sold out")]


def test_an_object_as_an_argument_goes_by_text_or_number() -> None:
    play = ServerPlay()
    play.asks_octets(
        b'<cml><method-request object="0" name="sell"><field name="litres">7</field><field name="to"/>'
        b'<field name="tank" id="8"/></method-request></cml>'
    )
    [call] = play.asked()
    assert isinstance(call, Called)
    assert call.arguments == (7, "", Reference("8"))


@pytest.mark.parametrize(
    ("request_", "notice"),
    [
        (ModifyRequest(7, fields(colour="red")), "'colour' cannot be set"),
        (ModifyRequest(7, fields(name="t9")), "'name' cannot be set"),
        (ModifyRequest(7, (*fields(high="1"), Field("limits.high", "2"))), "'limits.high' is there twice"),
        (ModifyRequest(7, fields(high="many")), "limits.high: a value of type u32 was expected"),
        (ModifyRequest(7, fields(high="")), "limits.high: a value of type u32 was expected"),
        (ModifyRequest(7, fields(high="4294967296")), "limits.high: a value of type u32 was expected"),
        (ModifyRequest(7, fields(state="2")), "state: 2 is none of shut (0), on (1)"),
        (ModifyRequest(0, fields(tags="a")), "'tags' cannot be set"),
        (MethodRequest(0, "buy"), "shop has no such method"),
        (MethodRequest(0, "sell", fields(litres="7", tank="7")), "the argument to is missing"),
        (MethodRequest(0, "sell", fields(price="7")), "sell has no argument 'price'"),
        (MethodRequest(0, "sell", (Field("to", "a"), Field("to", "b"))), "'to' is there twice"),
    ],
)
def test_what_the_schema_has_not_is_invalid(request_: ModifyRequest | MethodRequest, notice: str) -> None:
    play = ServerPlay()
    play.asks(request_)
    [reply] = play.replies()
    assert isinstance(reply, ModifyReply | MethodReply)
    assert (reply.status, reply.notice, reply.object_id) == (Status.INVALID, notice, request_.object_id)


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        ("x" * 256, "secret: 256 octets, 255 are taken"),
        ("&#x20ac;" * 100, "secret: 300 octets, 255 are taken"),
        ("\ufdd0" * 85 + "é", "secret: 257 octets, 255 are taken"),
    ],
)
def test_what_is_too_long_is_refused_and_never_cut(text: str, notice: str) -> None:
    play = ServerPlay()
    play.asks_octets(
        f'<cml><modify-request object="7"><field name="secret">{text}</field></modify-request></cml>'.encode()
    )
    [reply] = play.replies()
    assert reply == ModifyReply(Status.INVALID, 7, "tank", notice)


def test_nothing_to_set_is_done_at_once() -> None:
    play = ServerPlay()
    play.asks(ModifyRequest(7))
    assert play.replies() == [ModifyReply(Status.OK, 7, "tank")]


def test_who_sets_and_asks_without_waiting_sees_what_was_set() -> None:
    play = ServerPlay()
    play.asks(
        ModifyRequest(7, fields(state="1")),
        InspectRequest(7),
        ModifyRequest(7, fields(state="0")),
        InspectRequest(7),
        InspectRequest(2),
    )
    first, overtaking = play.left()
    assert isinstance(first, ModifyAsked)  # and the answer of another object does not wait
    play.session.put(tank(level=6))
    play.does(first.handle)
    ok, seen, second = play.left()
    assert isinstance(second, ModifyAsked)
    play.session.put(tank(level=7))
    play.does(second.handle)
    play.take([overtaking, ok, seen, *play.left()])
    replies = play.replies()
    assert [type(each) for each in replies] == [
        InspectReply, ModifyReply, InspectReply, ModifyReply, InspectReply
    ]  # fmt: skip
    levels = [
        each.fields[1].text for each in replies if isinstance(each, InspectReply) and each.object_id == 7
    ]
    assert levels == ["6", "7"]


def test_what_takes_too_long_may_have_been_done_so_that_no_status_would_be_true() -> None:
    play = ServerPlay()
    play.asks(_SELL, InspectRequest(0))
    play.left()
    play.time_passes(7.9)
    assert play.left() == []
    play.time_passes(0.2)
    given_up, inspected = play.left()
    assert given_up == Note("gave-up", "not answered: shop 0: it took too long")
    play.take([inspected])
    (reply,) = play.replies()
    assert isinstance(reply, InspectReply)
    play.does(1)
    assert play.left() == []


def test_the_rest_is_waited_for_when_one_is_given_up() -> None:
    play = ServerPlay()
    play.asks(_SELL)
    play.time_passes(1)
    play.asks(ModifyRequest(7, fields(state="1")))
    play.left()
    play.time_passes(7.5)
    assert [type(one) for one in play.left()] == [Note]
    play.time_passes(1)
    assert [type(one) for one in play.left()] == [Note]


def test_a_change_that_waited_too_long_is_not_begun() -> None:
    play = ServerPlay()
    play.asks(_SELL, sent=START - 3 * SECOND, expiration=2_000)
    play.asks(_SELL, sent=START - 60 * SECOND)  # by its own clock, and it does not mind
    late, begun = play.left()
    play.take([late])
    text = "not carried out: it came after the time that it was given"
    assert play.replies() == [MethodReply(Status.INVALID, 0, "shop", text)]
    play.asks(_SELL)
    play.now += 5 * SECOND
    assert isinstance(begun, Called)
    play.does(begun.handle)
    assert play.replies() == [
        MethodReply(Status.OK, 0, "shop"),
        MethodReply(Status.INVALID, 0, "shop", text),
    ]


def test_a_deadline_is_the_senders_where_it_says_one() -> None:
    play = ServerPlay()
    play.asks(_SELL, sent=START - SECOND, expiration=3_000)
    [call] = play.asked()
    assert call.deadline == START + 2 * SECOND


def test_so_much_waits_and_no_more() -> None:
    play = ServerPlay()
    for number in range(10, 10 + MAX_WAITING // 2):
        play.session.put(tank(number))
        play.asks(ModifyRequest(number, fields(state="1")))
    assert len(play.asked()) == MAX_WAITING // 2
    for _ in range(MAX_WAITING // 2):
        play.asks(InspectRequest(10))
    assert play.left() == []
    play.asks(InspectRequest(10), ModifyRequest(7, fields(state="1")))
    text = f"not carried out: {MAX_WAITING} requests are under way already"
    assert play.replies() == [
        InspectReply(Status.INVALID, 10, "tank", (), text),
        ModifyReply(Status.INVALID, 7, "tank", text),
    ]
    play.does(1)
    assert len(play.replies()) == 1 + MAX_WAITING // 2
    play.asks(ModifyRequest(7, fields(state="1")))
    assert len(play.asked()) == 1


def test_a_change_that_ended_the_object_names_it_all_the_same() -> None:
    """OpenAMQ's shell ends if a reply with status ok does not name the object."""
    play = ServerPlay(ServerConfig(Spelling.SPECIFICATION, writers=None))
    play.asks(ModifyRequest(7, fields(state="1")), user="")
    play.left()
    play.session.delete(7)
    play.does(1)
    assert play.replies() == [ModifyReply(Status.OK, 7, "tank")]
