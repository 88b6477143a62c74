"""Erlang terms as RabbitMQ's event exchange writes them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import ProtocolError
from gateway.sources.rabbitmq.event_headers import (
    MAX_TERM_CHARACTERS,
    Atom,
    Term,
    address_of_text,
    list_of_text,
    protocol_of_text,
    read_term,
    table_of_texts,
)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("7", 7),
        ("-7", -7),
        ("1.5", 1.5),
        ("1.0e-5", 1.0e-5),
        ("true", Atom("true")),
        ("'Direct'", Atom("Direct")),
        (r"'it\'s'", Atom("it's")),
        ("<rabbit@host.1795163225.1201.0>", Atom("<rabbit@host.1795163225.1201.0>")),
        ('<<"x-max">>', "x-max"),
        ('<<"d\\"x">>', 'd"x'),
        ('<<"é"/utf8>>', "é"),
        ("<<195,169>>", "é"),
        ("<<255,254>>", "\ufffd\ufffd"),
        ("<<>>", ""),
        ('"a\\tb\\x{e9}\\101\\s."', "a\tbéA ."),
        ("{0,9,1}", (0, 9, 1)),
        ("{}", ()),
        ("[]", []),
        ('[{<<"a">>, bool , true}]\n', [("a", Atom("bool"), Atom("true"))]),
    ],
)
def test_terms_are_read(text: str, term: Term) -> None:
    assert read_term(text) == term


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0),
        ("{1,2", 4),
        ("{1;2}", 2),
        ("<<1,2", 5),
        ("<<300>>", 5),
        ('<<"a"', 5),
        ('"a', 0),
        ("Upper", 0),
        ("7 8", 2),
        ("#Ref<0.1>", 0),
        ("[1|2]", 2),
    ],
)
def test_what_is_no_term_is_refused_with_its_place(text: str, offset: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        read_term(text)
    assert refused.value.offset == offset


def test_terms_too_long_or_too_deep_are_refused() -> None:
    for text in ("1" * (MAX_TERM_CHARACTERS + 1), "[" * 1000, "{" * 40 + "}" * 40):
        with pytest.raises(ProtocolError):
            read_term(text)


@given(st.text(alphabet="{}[]<>\",'\\0129abcx./ ", max_size=60) | st.text(max_size=60))
def test_any_text_is_a_term_or_refused(text: str) -> None:
    with suppress(ProtocolError):
        read_term(text)


def test_an_amqp_table_is_read_from_its_entries() -> None:
    table, unread = table_of_texts(
        [
            '{<<"x-max-priority">>,byte,3}',
            '{<<"x-dead-letter-exchange">>,longstr,<<"dead">>}',
            '{<<"nested">>,table,[{<<"ok">>,bool,true},{<<"none">>,void,undefined}]}',
            '{<<"list">>,array,[{byte,1},{longstr,<<"two">>},{table,[{<<"a">>,long,-3}]}]}',
            '{<<"price">>,decimal,{2,1999}}',
            '{<<"at">>,timestamp,1700000000}',
        ]
    )
    assert table == {
        "x-max-priority": 3,
        "x-dead-letter-exchange": "dead",
        "nested": {"ok": True, "none": None},
        "list": [1, "two", {"a": -3}],
        "price": 19.99,
        "at": 1700000000,
    }
    assert unread == 0


def test_entries_that_cannot_be_read_are_counted_and_left_out() -> None:
    texts = ['{<<"a">>,long,1}', "{broken", '{<<"b">>,long}', 7, '{<<"c">>,array,[1]}']
    assert table_of_texts(texts) == ({"a": 1}, 4)


def test_lists_become_plain() -> None:
    assert list_of_text('[<<"a">>,true,undefined,{1,two}]') == ["a", True, None, [1, "two"]]
    with pytest.raises(ProtocolError):
        list_of_text("{1}")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("{127,0,0,1}", "127.0.0.1"),
        ("{0,0,0,0,0,0,0,1}", "::1"),
        ("{8193,3512,0,0,0,0,0,1}", "2001:db8::1"),
        ("{0,0,0,0,0,65535,32512,1}", "::ffff:127.0.0.1"),
        ("unknown", "unknown"),
        ("{1,2}", "{1,2}"),
        ("broker.example", "broker.example"),
    ],
)
def test_addresses_become_text(text: str, address: str) -> None:
    assert address_of_text(text) == address


@pytest.mark.parametrize(
    ("text", "protocol"),
    [
        ("{0,9,1}", "AMQP 0-9-1"),
        ("{1,0,0}", "AMQP 1-0-0"),
        ("{'Direct',{0,9,1}}", "Direct 0-9-1"),
        ('{<<"MQTT">>,{3,1,1}}', "MQTT 3-1-1"),
        ("{'MQTT',\"3.1.1\"}", "MQTT 3.1.1"),
        ("AMQP 0-9-1", "AMQP 0-9-1"),
        ("stream", "stream"),
    ],
)
def test_protocols_become_text(text: str, protocol: str) -> None:
    assert protocol_of_text(text) == protocol
