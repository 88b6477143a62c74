"""Documents in every valid form, and invalid forms."""

from __future__ import annotations

import pytest

from gateway.dialects.cml import documents
from gateway.dialects.cml.documents import (
    MAX_ATTRIBUTES,
    MAX_BODY,
    MAX_NESTING,
    Element,
    read_document,
)
from gateway.dialects.errors import ProtocolError


def _outline(element: Element) -> object:
    """Return the name, attributes, own text and child elements of an element."""
    return element.name, element.attributes, element.text, [_outline(child) for child in element.children]


SAME: object = ("a", {"x": "1", "y": "2"}, "t", [("b", {}, "", [])])


@pytest.mark.parametrize(
    "body",
    [
        b'<a x="1" y="2">t<b/></a>',
        b"<a x='1' y='2'>t<b></b></a>",
        b'<a x = "1"\n\ty= "2" >t<b / ></ a ></a>'.replace(b"</ a >", b""),
        b'<a x="1"y="2">t<b/></ a\n>',
        b'<?xml version="1.0"?><?xml version="1.0"?>\n<a x="1" y="2">t<b/></a>\r\n',
        b'<!DOCTYPE a SYSTEM "x>y"><a x="1" y="2">t<b/></a>',
        b"<!DOCTYPE a PUBLIC '>' \">\"><a x='1' y='2'>t<b/></a>",
        b'<a x="0" x="1" y="2">t<b/></a>',
        b'<a x="1" y="2"><!-- -- > --><!---->t<?pi ?><b><!-- <c> --></b></a><!-- end -->',
        b'<a x="1" y="2"><![CDATA[t]]><b/></a>',
        b'<a x="1" y="2">t<b/></a>\0<garbage',
        b'\xef\xbb\xbf<a x="1" y="2">t<b/></a>',
        '<a x="1" y="2">t<b/></a>'.encode("utf-16"),
        b"\xfe\xff" + '<a x="1" y="2">t<b/></a>'.encode("utf-16-be"),
    ],
)
def test_the_same_document_in_many_forms(body: bytes) -> None:
    assert _outline(read_document(body)) == SAME


def test_markup_in_values_is_text_where_openamq_takes_it() -> None:
    found = read_document(b'<a x="a<b>c" y=\'"\'>1 < 2 > 0 && <3</a>')
    assert found.attributes == {"x": "a<b>c", "y": '"'}
    assert found.text == "1 < 2 > 0 && <3"


def test_cdata_is_taken_as_it_stands() -> None:
    assert read_document(b"<a>&amp;<![CDATA[&amp;<b>]]></a>").text == "&&amp;<b>"


def test_references_are_not_made_of_pieces() -> None:
    assert read_document(b"<a>&am<!-- -->p;</a>").text == "&amp;"


@pytest.mark.parametrize("name", [b"ISO-8859-1", b"latin1"])
def test_declared_latin_1_is_latin_1(name: bytes) -> None:
    body = b'<?xml version="1.0" encoding="' + name + b"\"?><a x='\xc3'>\xe9\xc3\xa9</a>"
    found = read_document(body)
    assert (found.attributes, found.text) == ({"x": "Ã"}, "éÃ©")


def test_other_declared_encodings_are_not_trusted() -> None:
    # OpenAMQ ignores every declaration, so that this one may say anything.
    body = '<?xml version="1.0" encoding="UTF-16"?><a>é</a>'.encode()
    assert read_document(body).text == "é"


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        (b"", 0),
        (b"hello", 0),
        (b"<", 0),
        (b"<?xml version='1.0'?>", 21),
        (b"<a>", 3),
        (b"<a><b></a></b>", 6),
        (b"<a></b>", 3),
        (b"</a>", 0),
        (b"<a/><b/>", 4),
        (b"<a/>text", 4),
        (b"<a x=1/>", 0),
        (b"<a x/>", 0),
        (b'<a x="1/>', 0),
        (b"<a", 0),
        (b"<a></", 3),
        (b"<a><!-- ", 3),
        (b"<a><!-->", 3),
        (b"<a><![CDATA[", 3),
        (b"<![CDATA[x]]><a/>", 13),
        (b"<?", 0),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", 0),
        (b"<a><!DOCTYPE a></a>", 3),
        (b"<!D>", 0),
        (b"\xff\xfe<", 0),
        (b"\xff\xfe\x00\xd8", 0),
    ],
)
def test_what_is_no_document_is_one_error_that_says_where(body: bytes, offset: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_document(body)
    assert caught.value.offset == offset


def test_entities_cannot_be_declared_and_so_never_grow() -> None:
    bomb = b'<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><b>&b;</b>'
    with pytest.raises(ProtocolError, match="without declarations"):
        read_document(bomb)


@pytest.mark.parametrize(
    "body",
    [
        b"<a>" * (MAX_NESTING + 1) + b"</a>" * (MAX_NESTING + 1),
        b"<a%b/>" % (b' a="1"' * (MAX_ATTRIBUTES + 1)),
        b"<a>%b</a>" % (b" " * MAX_BODY),
    ],
)
def test_nesting_attributes_and_length_are_bounded(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="at most"):
        read_document(body)


def test_what_is_just_within_the_bounds_is_read() -> None:
    assert read_document(b"<a>" * MAX_NESTING + b"</a>" * MAX_NESTING).name == "a"
    assert read_document(b"<a%b/>" % (b' a="1"' * MAX_ATTRIBUTES)).attributes == {"a": "1"}


def test_markup_is_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_MARKUP", 100)
    assert len(read_document(b"<a>%b</a>" % (b"<b/>" * 98)).children) == 98
    for inside in (b"<b/>" * 99, b"<!---->" * 99, (b"<a%b/>" % (b' a="1"' * 60)) * 2):
        with pytest.raises(ProtocolError, match="at most"):
            read_document(b"<a>%b</a>" % inside)
