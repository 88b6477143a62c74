"""Reads documents: XML as written by hand, and OpenAMQ's, which no XML parser accepts.

It accepts what either side accepts: single quotes, blanks around ``=``, none between attributes, comments,
CDATA, processing instructions, a DOCTYPE without declarations, names of undeclared entities, raw
``<`` and bare ``&`` in values, and a NUL that ends the document. Each octet is examined a fixed number of
times, so time is linear in the length; nothing is ever expanded, so memory is bounded by the length.

OpenAMQ reads every octet as a Latin-1 character, and writes those with a name in HTML 3.2 as entities,
so the two octets of an "é" in UTF-8 become ``&Atilde;&copy;``. That is neither well-formed XML (the
names are not declared) nor UTF-8. Decoded node by node, each entity is one octet, and the octets
are UTF-8 again, except where a value is Latin-1 itself or was cut inside a character: such text is a
`Latin1Text`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.entities import codepoint2name
from typing import Final

from gateway.dialects.errors import LocalProtocolError, ProtocolError

MAX_BODY: Final = 8 << 20
"""Octets of a body: twice the listing of 100,000 queues. OpenAMQ itself accepts less than 2 MiB."""
MAX_MARKUP: Final = 1 << 18
"""Tags, comments and similar; also attributes. They, and not text, take memory and time."""
MAX_NESTING: Final = 256
"""Levels of nesting; OpenAMQ accepts 5,000 and overflows its stack somewhere before 100,000."""
MAX_ATTRIBUTES: Final = 4096
"""Attributes of one element."""
_MAX_PIECES: Final = 4096
"""Parts of a text, or a DOCTYPE, that are matched at once: a repeated group takes 128 octets each time."""

_SHOWN: Final = 40

# Possessive: a failed match is not retried in another way, which keeps time linear. Groups are
# not, because Python 3.11.2 (Debian 12) has a bug there; each can match in one way only.
_NAME: Final = rb"[A-Za-z_:\x80-\xff][-A-Za-z0-9_:.\x80-\xff]*+"
_BLANKS: Final = rb"[ \t\r\n]*+"
_ATTRIBUTE_FORM: Final = _BLANKS + b"%b" + _BLANKS + b"=" + _BLANKS + b"(?:\"%b\"|'%b')"
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE_FORM % (b"(%b)" % _NAME, b'([^"]*+)', b"([^']*+)"))
_ANY_ATTRIBUTES: Final = b"(?:%b){0,%d}" % (
    _ATTRIBUTE_FORM % (_NAME, b'[^"]*+', b"[^']*+"),
    MAX_ATTRIBUTES + 1,
)
_OPENING: Final = re.compile(rb"<(%b)(%b)%b(/?+)%b>" % (_NAME, _ANY_ATTRIBUTES, _BLANKS, _BLANKS))
# Most of every document: an element that contains only text, from end to end.
_LEAF: Final = re.compile(rb"<(%b)(%b)%b>([^<]*+)</\1%b>" % (_NAME, _ANY_ATTRIBUTES, _BLANKS, _BLANKS))
_CLOSING: Final = re.compile(rb"</%b(%b)%b>" % (_BLANKS, _NAME, _BLANKS))
_DOCTYPE: Final = re.compile(rb"<!DOCTYPE(?:[^\[<>\"']++|\"[^\"]*+\"|'[^']*+'){0,%d}>" % _MAX_PIECES)
# A < that cannot begin markup is text: OpenAMQ accepts it in values unescaped.
_TEXT: Final = re.compile(rb"(?:[^<]++|<(?![/!?A-Za-z_:\x80-\xff])){1,%d}" % _MAX_PIECES)
_DECLARATION: Final = re.compile(
    rb"<\?xml[ \t\r\n][^>]{0,200}?encoding%b=%b[\"']([-A-Za-z0-9._]{1,40})[\"']" % (_BLANKS, _BLANKS)
)
_LATIN_1: Final = frozenset((b"iso-8859-1", b"latin1", b"latin-1", b"iso8859-1"))
_BLANK: Final = b" \t\r\n"
_COMMON_NAMES: Final = {
    name.encode(): name
    for name in ("field", "name", "id", "class", "object", "status", "label", "type", "modify", "method")
}
# The specification's own example begins with schema-reply and ends with schema.
_ENDS_OF: Final = {"schema-reply": "schema"}


@dataclass(slots=True)
class Element:
    """An element that is being read.

    Attributes:
        offset: octets from the start of the body to its ``<``.
        attributes: the attributes by name; of several with one name the last one, as in OpenAMQ.
        pieces: the octets of its own text, without the text of elements in it.
        lead: the octets before the first element in it.
    """

    name: str
    offset: int
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    lead: bytes = b""

    @property
    def text(self) -> str:
        """Its own text, with references replaced."""
        return text_of(b"".join(self.pieces))


def read_document(body: bytes) -> Element:
    """Return the root of a document.

    Raises:
        ProtocolError: the body is too long, malformed, or exceeds a bound.
    """
    if len(body) > MAX_BODY:
        raise ProtocolError(f"a body of at most {MAX_BODY} octets", f"{len(body)}")
    return _Reading(_in_utf8(body)).document()


def _in_utf8(body: bytes) -> bytes:
    """Return the body up to a NUL, without byte order mark; it may contain invalid UTF-8."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            body = body.decode("utf-16").encode()
        except UnicodeError as error:
            raise ProtocolError("UTF-16, as the byte order mark says") from error
    body = body.removeprefix(b"\xef\xbb\xbf")
    end = body.find(b"\0")
    if end >= 0:
        body = body[:end]
    declared = _DECLARATION.match(body)
    # Other declared encodings are wrong in practice, and OpenAMQ ignores them all.
    if declared is not None and declared[1].lower() in _LATIN_1:
        return body.decode("latin-1").encode()
    return body


def _decode_name(octets: bytes) -> str:
    return _COMMON_NAMES.get(octets) or decode_text(octets)


class _Reading:
    """The reading of one document; ``_position`` is that of the next piece."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0
        self._open: list[Element] = []
        self._markup_seen = 0
        self._attributes_seen = 0
        self._root: Element | None = None

    def document(self) -> Element:
        body = self._body
        while self._position < len(body):
            if self._open and (leaf := _LEAF.match(body, self._position)):
                self._leaf(leaf)
            elif text := _TEXT.match(body, self._position):
                self._text(replace_references(text[0]))
                self._position = text.end()
            else:
                self._markup()
        if self._open:
            raise ProtocolError(f"the end of {self._open[-1].name}", "the end of the body", len(body))
        if self._root is None:
            raise ProtocolError("an element", "none", len(body))
        return self._root

    def _text(self, octets: bytes) -> None:
        if self._open:
            self._open[-1].pieces.append(octets)
        elif octets.strip(_BLANK):
            raise self._error("nothing but blanks outside the root")

    def _markup(self) -> None:
        body, position = self._body, self._position
        self._count_markup(1)
        if body.startswith(b"</", position):
            self._closing()
        elif body.startswith(b"<!--", position):
            self._skip(b"-->", 4)
        elif body.startswith(b"<?", position):
            self._skip(b"?>", 2)
        elif body.startswith(b"<![CDATA[", position):
            self._character_data()
        elif body.startswith(b"<!", position):
            self._doctype()
        else:
            self._opening()

    def _count_markup(self, count: int) -> None:
        self._markup_seen += count
        if self._markup_seen > MAX_MARKUP:
            raise self._error(f"at most {MAX_MARKUP} tags and the like")

    def _leaf(self, found: re.Match[bytes]) -> None:
        self._count_markup(2)
        name, attributes, octets = found.groups()
        element = self._begin(name, attributes)
        if octets:
            element.pieces.append(replace_references(octets))
        self._position = found.end()

    def _opening(self) -> None:
        found = _OPENING.match(self._body, self._position)
        if found is None:
            raise self._error("a tag with quoted attributes and an end")
        element = self._begin(found[1], found[2])
        if not found[3]:
            self._open.append(element)
        self._position = found.end()

    def _begin(self, name: bytes, attributes: bytes) -> Element:
        """Add an element to its parent; the caller opens it if it is not closed."""
        element = Element(_decode_name(name), self._position, self._attributes(attributes))
        if self._open:
            parent = self._open[-1]
            if len(self._open) == MAX_NESTING:
                raise self._error(f"at most {MAX_NESTING} levels")
            if not parent.children:
                parent.lead = b"".join(parent.pieces)
            parent.children.append(element)
        elif self._root is None:
            self._root = element
        else:
            raise self._error("one root")
        return element

    def _attributes(self, octets: bytes) -> dict[str, str]:
        attributes = {}
        for count, found in enumerate(_ATTRIBUTES.finditer(octets)):
            self._attributes_seen += 1
            if count == MAX_ATTRIBUTES or self._attributes_seen > MAX_MARKUP:
                raise self._error(f"at most {MAX_ATTRIBUTES} attributes, and {MAX_MARKUP} in all")
            name, double, single = found.groups()
            attributes[_decode_name(name)] = decode_text(single if double is None else double)
        return attributes

    def _closing(self) -> None:
        found = _CLOSING.match(self._body, self._position)
        if found is None or not self._open:
            raise self._error("a tag, or nothing more")
        name = self._open.pop().name
        if decode_text(found[1]) not in (name, _ENDS_OF.get(name)):
            raise self._error(f"the end of {name[:_SHOWN]}")
        self._position = found.end()

    def _character_data(self) -> None:
        start = self._position + len(b"<![CDATA[")
        self._skip(b"]]>", start - self._position)
        self._text(self._body[start : self._position - len(b"]]>")])

    def _doctype(self) -> None:
        found = _DOCTYPE.match(self._body, self._position)
        if found is None or self._root is not None:
            # Its declarations could be entities that grow without bounds; OpenAMQ accepts none either.
            raise self._error("a comment, CDATA, or a DOCTYPE before the root and without declarations")
        self._position = found.end()

    def _skip(self, end: bytes, length: int) -> None:
        """Move behind the next ``end`` that begins ``length`` octets from here or later."""
        found = self._body.find(end, self._position + length)
        if found < 0:
            raise self._error(end.decode())
        self._position = found + len(end)

    def _error(self, expected: str) -> ProtocolError:
        found = self._body[self._position : self._position + _SHOWN]
        return ProtocolError(expected, repr(found)[1:], self._position)


class Latin1Text(str):
    """Text whose octets are not UTF-8, read as Latin-1: one character for each octet.

    It is written as those octets again, and does not equal plain text of the same characters, which has
    other octets. ``str(text)`` is the plain text.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Latin1Text) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __repr__(self) -> str:
        return f"Latin1Text({str.__repr__(self)})"


_NAMES: Final = {
    **{code: codepoint2name[code] for code in range(0xA1, 0x100)},
    ord("&"): "amp",
    ord("<"): "lt",
    ord(">"): "gt",
    ord('"'): "quot",
    0x91: "lsquo",
    0x92: "rsquo",
}
_OPENAMQ: Final = {code: f"&{name};" for code, name in _NAMES.items()}
# `apos` is XML's and never written by OpenAMQ; it reads `nbsp`, which it never writes, as a blank.
_OCTETS: Final = {name.encode(): bytes((code,)) for code, name in _NAMES.items()} | {
    b"apos": b"'",
    b"nbsp": b" ",
}
_REFERENCE: Final = re.compile(rb"&(?:#([0-9]{1,8})|#x([0-9A-Fa-f]{1,6})|([A-Za-z][A-Za-z0-9]{1,7}));")
_SURROGATES: Final = range(0xD800, 0xE000)
_UNICODE_END: Final = 0x110000

_XML: Final = {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord('"'): "&quot;",
    ord("\t"): "&#9;",
    ord("\n"): "&#10;",
    ord("\r"): "&#13;",
    # The shell passes values to printf, and crashes at %s; it leaves numeric references as they are.
    ord("%"): "&#37;",
}
_REPLACEMENT: Final = "\ufffd"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_XML: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def decode_text(octets: bytes) -> str:
    """Return the text of a text node or attribute value, with each reference replaced, once.

    Unknown references (``&nosuch;``, a bare ``&``) stay unchanged. The result is a
    `Latin1Text` where the octets are not UTF-8.
    """
    return text_of(replace_references(octets))


def replace_references(octets: bytes) -> bytes:
    """Return the octets of a text node with each known reference replaced, once."""
    return _REFERENCE.sub(_replaced, octets) if b"&" in octets else octets


def text_of(octets: bytes) -> str:
    """Return octets without references as text: UTF-8, or a `Latin1Text` where they are not."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return Latin1Text(octets.decode("latin-1"))


def _replaced(found: re.Match[bytes]) -> bytes:
    decimal, hexadecimal, name = found.groups()
    if name is not None:
        return _OCTETS.get(name, found[0])
    code = int(decimal) if decimal is not None else int(hexadecimal, 16)
    if not 0 < code < _UNICODE_END or code in _SURROGATES:
        return found[0]
    return chr(code).encode()


def octets_of(text: str) -> bytes:
    """Return the octets of ``text``: of a `Latin1Text` its characters, else UTF-8.

    Raises:
        LocalProtocolError: a character has no such octet, or is a lone surrogate.
    """
    try:
        return text.encode("latin-1" if isinstance(text, Latin1Text) else "utf-8")
    except UnicodeEncodeError as error:
        raise LocalProtocolError("a text has characters that cannot be encoded") from error


def escape_for_openamq(text: str) -> str:
    """Return ``text`` as OpenAMQ would write it, one character for each octet; raise as `octets_of`.

    Raises:
        LocalProtocolError: it has a NUL, which ends a document in OpenAMQ.
    """
    if "\0" in text:
        raise LocalProtocolError("a text has a NUL, which no document can contain")
    if not text.isascii():
        text = octets_of(text).decode("latin-1")
    return text.translate(_OPENAMQ)


def escape_for_xml(text: str) -> str:
    """Return ``text`` escaped for any XML parser, for a document in UTF-8.

    Raises:
        LocalProtocolError: it has a character that XML 1.0 forbids, such as a control character.
    """
    octets_of(text)
    if found := _NOT_XML.search(text):
        raise LocalProtocolError(f"a text has the character U+{ord(found[0]):04X}, which XML forbids")
    return text.translate(_XML)


def carried_by_openamq(text: str) -> str:
    """Return ``text`` with U+FFFD in place of what `escape_for_openamq` rejects."""
    return _without_surrogates(text).replace("\0", _REPLACEMENT)


def carried_by_xml(text: str) -> str:
    """Return ``text`` with U+FFFD in place of what `escape_for_xml` rejects."""
    return _NOT_XML.sub(_REPLACEMENT, _without_surrogates(text))


def _without_surrogates(text: str) -> str:
    # Text whose octets are Latin-1 has no surrogates.
    return text if isinstance(text, Latin1Text) or text.isascii() else _SURROGATE.sub(_REPLACEMENT, text)
