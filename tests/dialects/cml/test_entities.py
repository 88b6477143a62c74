"""Conversion between octets, entities and text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cml.documents import (
    Latin1Text,
    decode_text,
    escape_for_openamq,
    escape_for_xml,
    octets_of,
)
from gateway.dialects.errors import LocalProtocolError

# Octets as OpenAMQ was seen to write them, and what its users had meant.
SEEN = [
    (b"", ""),
    (b"q.shared", "q.shared"),
    (b"&Atilde;&copy;", "é"),
    (b"&aelig;\x97&yen;&aelig;\x9c&not;&egrave;&ordf;\x9e", "日本語"),
    (b"q&eth;\x9f\x98\x80", "q😀"),
    (b"a&amp;b", "a&b"),
    (b"a&lt;b&gt;c", "a<b>c"),
    (b"a&quot;b'c", "a\"b'c"),
    (b"a\x01b", "a\x01b"),
    (b"&amp;#65;", "&#65;"),
    (b"&Atilde;\x97", "\xd7"),
]
SEEN_LATIN_1 = [
    (b"&yuml;&thorn;", "ÿþ"),
    (b"&eacute;", "é"),
    (b"\x80\x81\x90&lsquo;&rsquo;\x9f\xa0", "\x80\x81\x90\x91\x92\x9f\xa0"),
    (b"&times;&divide;", "\xd7\xf7"),
]


@pytest.mark.parametrize(("octets", "text"), SEEN)
def test_text_as_openamq_writes_it(octets: bytes, text: str) -> None:
    assert decode_text(octets) == text
    assert not isinstance(decode_text(octets), Latin1Text)
    assert escape_for_openamq(text).encode("latin-1") == octets


@pytest.mark.parametrize(("octets", "text"), SEEN_LATIN_1)
def test_what_is_no_utf_8_is_latin_1_and_says_so(octets: bytes, text: str) -> None:
    found = decode_text(octets)
    assert found == Latin1Text(text)
    assert str(found) == text
    assert escape_for_openamq(found).encode("latin-1") == octets


def test_a_value_cut_inside_a_character_keeps_all_its_octets() -> None:
    cut = ("é" * 128).encode()[:255]
    found = decode_text(escape_for_openamq(Latin1Text(cut.decode("latin-1"))).encode("latin-1"))
    assert isinstance(found, Latin1Text)
    assert octets_of(found) == cut


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"&#65;&#x42;&#8364;", "AB€"),
        (b"&apos;", "'"),
        (b"a&nbsp;b", "a b"),
        (b"&amp;amp;", "&amp;"),  # once only
        (b"&nosuch; & &; &#; &AMP; &#x;", "&nosuch; & &; &#; &AMP; &#x;"),
        (b"&#0; &#xD800; &#x110000; &#99999999;", "&#0; &#xD800; &#x110000; &#99999999;"),
    ],
)
def test_references_of_xml_are_read_and_what_is_none_stays(octets: bytes, text: str) -> None:
    assert decode_text(octets) == text


def test_text_of_other_octets_is_other_text() -> None:
    assert Latin1Text("é") != "é"
    plain = "é"
    assert plain != Latin1Text("é")
    assert Latin1Text("é") == Latin1Text("é")
    assert len({Latin1Text("é"), Latin1Text("é"), "é"}) == 2
    assert repr(Latin1Text("é")) == "Latin1Text('é')"


def test_xml_is_written_so_that_parser_and_shell_can_read_it() -> None:
    # OpenAMQ's shell hands values to printf: a % must not reach it.
    assert escape_for_xml('100 % of "é" & <b>\n') == "100 &#37; of &quot;é&quot; &amp; &lt;b&gt;&#10;"


@pytest.mark.parametrize("text", ["\0", "a\x01", "\ufffe", "\ud800"])
def test_what_xml_cannot_carry_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        escape_for_xml(text)


@pytest.mark.parametrize("text", ["a\0b", "\udc80", Latin1Text("€")])
def test_what_no_octets_stand_for_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError):
        escape_for_openamq(text)


@given(st.binary(max_size=40))
def test_any_octets_are_text_that_stands_for_them(octets: bytes) -> None:
    text = decode_text(octets.replace(b"&", b"&amp;"))
    assert octets_of(text) == octets


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_any_text_comes_back_from_entities(text: str) -> None:
    assert decode_text(escape_for_openamq(text).encode("latin-1")) == text


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cn"]), max_size=40))
def test_any_text_comes_back_from_xml(text: str) -> None:
    assert decode_text(escape_for_xml(text).encode()) == text
