"""The answers of a CML server to clients of the specification and to OpenAMQ's shell."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.documents import carried_by_xml, escape_for_xml
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    Invalid,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    MonitorRequest,
    Notify,
    SchemaReply,
    SchemaRequest,
    Spelling,
    Status,
)
from gateway.dialects.cml.safety import MAX_SHOWN, shell_would_end
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import Binding, Called, LinkDown, LinkUp, LossSuspected, ModifyAsked, Note, Send
from gateway.model.observations import Severity
from gateway.model.values import Reference
from tests.peers.cml_server import ServerConfig, ServerSession
from tests.peers.cml_server_objects import ServedObject
from tests.peers.cml_server_play import QUEUE, READER, SECOND, SHOP, START, ServerPlay, fields, shop, tank


def _inspected(play: ServerPlay, number: int = 7, message_id: str = "m1") -> InspectReply:
    play.asks(InspectRequest(number), message_id=message_id)
    [reply] = play.replies()
    assert isinstance(reply, InspectReply)
    return reply


def test_the_schema_is_reported_with_the_message_id_of_the_request() -> None:
    play = ServerPlay()
    play.asks(SchemaRequest(), message_id="é" * 100)
    [sent] = play.left()
    assert isinstance(sent, Send)
    assert read_message(sent.body) == SHOP
    assert (sent.routing_key, sent.message_id, sent.content_type) == (QUEUE, "é" * 100, "text/xml")


def test_an_object_is_shown_in_the_order_of_the_schema() -> None:
    play = ServerPlay()
    play.session.put(shop(is_open=False, opened=90 * SECOND, tags=("a", "b")))
    assert _inspected(play, 0) == InspectReply(
        Status.OK,
        0,
        "shop",
        (
            *fields(name="corner", open="0", opened="90"),
            Field("tags", "a"),
            Field("tags", "b"),
            Field("tank", object_id=7),
            Field("tank", object_id=8),
            Field("office", object_id=2),
        ),
    )


def test_absent_is_empty_and_what_may_not_be_read_is_not_there() -> None:
    play = ServerPlay()
    assert _inspected(play) == InspectReply(
        Status.OK, 7, "tank", fields(name="t1", level="5", state="", high="")
    )
    play.session.put(shop(is_open=None))
    assert _inspected(play, 0).fields[1:4] == fields(open="", opened="", tags="")


def test_objects_come_and_go() -> None:
    play = ServerPlay()
    play.session.put(tank(9, parent=8))
    play.session.put(tank(8, parent=9))  # was the shop's
    assert play.session.delete(7)
    assert not play.session.delete(7)
    assert [field.name for field in _inspected(play, 0).fields if field.object_id] == ["office"]
    play.asks(InspectRequest(7))
    assert play.replies() == [InspectReply(Status.NOT_FOUND)]
    assert len(play.session.objects) == 4
    assert play.session.delete(8)
    assert play.session.delete(2)
    assert play.session.objects.find(2) is None
    assert play.session.objects.find(9) == tank(9, parent=8)


def test_a_repeated_request_gets_what_is_true_by_now() -> None:
    play = ServerPlay()
    for _ in range(2):
        assert [field.object_id for field in _inspected(play, 0).fields if field.name == "tank"] == [7, 8]
    play.session.put(tank(9))
    assert [field.object_id for field in _inspected(play, 0).fields if field.name == "tank"] == [7, 8, 9]
    play.session.put(tank(9, parent=8))
    assert [field.object_id for field in _inspected(play, 0).fields if field.name == "tank"] == [7, 8]
    assert _inspected(play).fields[1].text == "5"
    play.session.put(tank(level=6))
    assert _inspected(play).fields[1].text == "6"
    play.session.delete(7)
    assert [field.object_id for field in _inspected(play, 0).fields if field.name == "tank"] == [8]
    play.session.put(tank(7, "t9"))
    assert _inspected(play).fields[0].text == "t9"


@pytest.mark.parametrize(
    "wrong",
    [
        ServedObject(7, "pump", ()),
        ServedObject(-1, "office", (None, "o")),
        ServedObject(1 << 64, "office", (None, "o")),
        ServedObject(7, "office", (None, "o")),
        ServedObject(3, "office", ("o",)),
        ServedObject(3, "office", (Reference("x"), "o")),
        tank(level=1 << 32),
        tank(level="5"),
        tank(name=5),
        ServedObject(0, "shop", ("corner", True, None, None, Reference("0"))),
        ServedObject(0, "shop", ("corner", True, None, None, Reference("x"))),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(wrong: ServedObject) -> None:
    play = ServerPlay()
    with pytest.raises(LocalProtocolError):
        play.session.put(wrong)
    assert _inspected(play).fields[0] == Field("name", "t1")


def test_the_root_is_in_no_other() -> None:
    play = ServerPlay()
    play.session.delete(0)
    with pytest.raises(LocalProtocolError):
        play.session.put(tank(0, parent=7))


def test_a_schema_that_cannot_be_reported_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        ServerSession(ServerConfig(), replace(SHOP, version="1\x01"))


def test_numbers_of_openamq_have_32_bits() -> None:
    play = ServerPlay(ServerConfig(Spelling.OPENAMQ))
    with pytest.raises(LocalProtocolError):
        play.session.put(tank(1 << 32))


def test_characters_that_no_document_carries_are_replaced() -> None:
    play = ServerPlay()
    play.session.put(tank(name="a\x01b\ud800c"))
    assert _inspected(play).fields[0].text == "a\ufffdb\ufffdc"
    play = ServerPlay(ServerConfig(Spelling.OPENAMQ))
    play.session.put(tank(name="a\x01b\0c"))
    assert _inspected(play).fields[0].text == "a\x01b\ufffdc"


def test_what_would_end_the_shell_is_not_sent_to_what_may_be_the_shell() -> None:
    for spelling in Spelling:
        play = ServerPlay(ServerConfig(spelling))
        long = "é%s" * 100
        play.session.put(shop(tags=(long,)))
        whole = _inspected(play, 0)
        assert whole.fields[3] == Field("tags", long)
        assert not whole.notice
        reported = _inspected(play, 0, message_id="")
        assert not shell_would_end(reported, spelling)
        assert len(reported.fields[3].text.encode()) <= MAX_SHOWN
        assert reported.fields[3].text.endswith("...")
        assert reported.notice == "shortened for amq_shell, whole with a message-id: tags"


def test_a_percent_sign_goes_to_the_shell_as_another_one() -> None:
    play = ServerPlay(ServerConfig(Spelling.OPENAMQ))
    play.session.put(tank(name="50%"))
    play.session.put(shop(tags=("50%",)))
    assert _inspected(play, 0, message_id="").fields[3].text == "50\uff05"
    assert _inspected(play, 7, message_id="").fields[0].text == "50%"  # the shell prints names as they are


def test_what_is_no_request_is_invalid() -> None:
    play = ServerPlay()
    for body in (b"", b"<cml>", b"<cml><other/></cml>", b"<cml><inspect-reply/></cml>", b"\xff" * 9):
        play.asks_octets(body)
    play.asks(MonitorRequest(0))
    assert play.replies() == [Invalid()] * 6


def test_what_is_no_document_leaves_a_note() -> None:
    play = ServerPlay()
    play.asks_octets(b"<cml>")
    note, _ = play.left()
    assert note == Note(
        "protocol-error",
        "request from 'super': at offset 5: expected the end of cml, found the end of the body",
    )


@given(st.binary() | st.text().map(str.encode))
def test_any_octets_are_answered_once(octets: bytes) -> None:
    play = ServerPlay()
    play.asks_octets(octets)
    assert len(play.replies()) == 1


_Asked: TypeAlias = tuple[str, str, str, list[tuple[str, str]]]
_CHANGES: list[_Asked] = [
    ("modify", "7", "", [("state", "1"), ("high", "9")]),
    ("method", "0", "sell", [("litres", "1"), ("to", "Ann"), ("tank", "7")]),
]
_NAMES = st.sampled_from(["", "state", "high", "open", "tags", "sell", "litres", "to", "name", "nosuch"])
_FIELDS = st.lists(
    st.tuples(_NAMES, st.text(max_size=4) | st.sampled_from(["0", "1", "x" * 256])), max_size=4
)
_REQUESTS = st.tuples(
    st.sampled_from(["inspect", "modify", "method", "schema", "monitor"]),
    st.sampled_from(["0", "2", "7", "8", "99", "", "-1", str(1 << 64), "x"]),
    _NAMES,
    _FIELDS,
)


@given(st.lists(_REQUESTS | st.sampled_from(_CHANGES), max_size=12), st.sampled_from(Spelling))
def test_whatever_is_asked_is_answered_once(requests: list[_Asked], spelling: Spelling) -> None:
    """A change that the program never ends (here in OpenAMQ's spelling) leaves a note and no answer."""
    play = ServerPlay(ServerConfig(spelling, writers=None))
    replies = 0
    for kind, number, name, given_ in requests:
        content = "".join(
            f'<field name="{name}">{escape_for_xml(carried_by_xml(text))}</field>' for name, text in given_
        )
        play.asks_octets(
            f'<cml><{kind}-request object="{number}" name="{name}">{content}</{kind}-request></cml>'.encode()
        )
        for effect in play.left():
            replies += isinstance(effect, Send)
            if isinstance(effect, Called | ModifyAsked) and spelling is Spelling.SPECIFICATION:
                play.does(effect.handle)
    play.time_passes(3600)
    assert replies + len(play.left()) == len(requests)


def test_a_request_is_read_in_either_spelling() -> None:
    play = ServerPlay()
    play.asks_octets(b'<cml version = "1.0">\n <inspect-request object = "2" />\n</cml>\n')
    play.asks_octets(
        b'<?xml version="1.0"?><cml version="1.0" xmlns="http://www.openamq.org/schema/cml">'
        b'<inspect-request class="office" object="2"/></cml>\0'
    )
    assert play.replies() == [InspectReply(Status.OK, 2, "office", fields(name="o"))] * 2


def test_requests_without_object_or_method_are_invalid() -> None:
    play = ServerPlay()
    for command in (
        b"<inspect-request/>",
        b'<inspect-request object="abc"/>',
        b'<modify-request object=""/>',
        b'<method-request object="7"/>',
        b'<method-request object="7" name=""/>',
    ):
        play.asks_octets(b"<cml>%b</cml>" % command)
    assert [getattr(each, "status", None) for each in play.replies()] == [Status.INVALID] * 5


def test_a_guest_reads_and_changes_nothing() -> None:
    play = ServerPlay()
    play.asks(
        InspectRequest(2),
        ModifyRequest(7, fields(state="1")),
        MethodRequest(0, "nosuch"),
        MethodRequest(99, "sell"),
        user=READER,
    )
    assert play.replies() == [
        InspectReply(Status.OK, 2, "office", fields(name="o")),
        ModifyReply(Status.NO_ACCESS, 7, "tank"),
        MethodReply(Status.NO_ACCESS, 0, "shop"),
        MethodReply(Status.NOT_FOUND),
    ]


def test_strangers_learn_nothing() -> None:
    play = ServerPlay(ServerConfig(readers=frozenset({READER}), writers=None))
    play.asks(SchemaRequest(), InspectRequest(2), ModifyRequest(7, fields(state="1")), user="")
    assert [getattr(each, "status", None) for each in play.replies()] == [Status.NO_ACCESS] * 3
    play.asks(SchemaRequest(), user=READER)
    assert play.replies() == [SHOP]


def test_failures_are_bare_in_openamqs_spelling() -> None:
    play = ServerPlay(ServerConfig(Spelling.OPENAMQ))
    play.asks(ModifyRequest(7, fields(state="1")), ModifyRequest(99, fields(state="1")))
    assert play.replies() == [ModifyReply(Status.NO_ACCESS), ModifyReply(Status.NOT_FOUND)]


def test_nothing_is_answered_before_the_objects_are_known() -> None:
    play = ServerPlay()
    play.session.suspend()
    play.asks(InspectRequest(0))
    [note] = play.left()
    assert isinstance(note, Note)
    assert note.event == "not-ready"
    play.session.start()
    assert _inspected(play).status == Status.OK


def test_who_names_no_queue_is_answered_nothing_and_served_all_the_same() -> None:
    play = ServerPlay()
    play.asks(InspectRequest(0), ModifyRequest(7, fields(state="1")), reply_to="")
    [change] = play.asked()
    play.does(change.handle)
    assert play.left() == []


def test_notifications_have_a_letter_and_a_key_that_the_example_binds() -> None:
    play = ServerPlay()
    reported = []
    for severity in Severity:
        [sent] = play.session.notify(severity, "queue exceeded\0 limit")
        assert isinstance(sent, Send)
        assert sent.exchange == "amq.notify"
        notify = read_message(sent.body)
        assert isinstance(notify, Notify)
        reported.append((severity.name, sent.routing_key, notify.text))
    assert reported == [
        (name, f"amq.{word}", f"{letter}: queue exceeded\ufffd limit")
        for name, word, letter in (
            ("CLEARED", "info", "I"),
            ("INFO", "info", "I"),
            ("WARNING", "warning", "W"),
            ("MINOR", "warning", "W"),
            ("MAJOR", "error", "E"),
            ("CRITICAL", "error", "E"),
        )
    ]


def test_a_link_binds_its_queue_and_changes_nothing_else() -> None:
    session = ServerPlay(ServerConfig(system_exchange="shop.system", routing_key="shop.console")).session
    assert session.bindings("q") == (Binding("shop.system", "shop.console"),)
    assert not [
        *session.handle(LinkUp("q"), START),
        *session.handle(LinkDown(""), START),
        *session.handle(LossSuspected(""), START),
    ]


def test_a_schema_of_our_own_is_read_by_who_asks() -> None:
    play = ServerPlay()
    play.asks(SchemaRequest())
    [reply] = play.replies()
    assert isinstance(reply, SchemaReply)
    assert replace(reply, classes=()) == SchemaReply(Status.OK, "example.org/shop", "1.0")
