"""Text and the octets that stand for it in documents: OpenAMQ's recipe of entities, and XML's.

OpenAMQ takes every octet for a Latin-1 character and writes those that HTML 3.2 has a name for as entities,
so the two octets of an "é" in UTF-8 become ``&Atilde;&copy;``. That is neither well-formed XML (nothing
declares those names) nor UTF-8. Read node by node it is simple: each entity is the one octet, and the octets
are UTF-8 again, except where a value is Latin-1 itself or was cut inside a character: such text is a
`Latin1Text`.
"""

from __future__ import annotations

import re
from html.entities import codepoint2name
from typing import Final

from gateway.dialects.errors import LocalProtocolError


class Latin1Text(str):
    """Text whose octets are no UTF-8, read as Latin-1: one character for each octet.

    It is written as those octets again, and equals no plain text of the same characters, which would be
    written as others. ``str(text)`` is the plain text.
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
# `apos` is XML's and never written by OpenAMQ; it reads `nbsp`, which it never writes either, as a blank.
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
    # The shell hands values to printf, and crashes at %s; numeric references it leaves as they are.
    ord("%"): "&#37;",
}
_REPLACEMENT: Final = "\ufffd"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_XML: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def decode_text(octets: bytes) -> str:
    """Return what the octets of a text node or attribute value say: each reference is replaced, once.

    What is no reference that is known (``&nosuch;``, a bare ``&``) stays as it is. The result is a
    `Latin1Text` where the octets are no UTF-8.
    """
    return text_of(replace_references(octets))


def replace_references(octets: bytes) -> bytes:
    """Return the octets of a text node, each reference that is known replaced, once."""
    return _REFERENCE.sub(_replaced, octets) if b"&" in octets else octets


def text_of(octets: bytes) -> str:
    """Return octets without references as text: UTF-8, or a `Latin1Text` where they are none."""
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
    """Return the octets that ``text`` stands for: of a `Latin1Text` its characters, else UTF-8.

    Raises:
        LocalProtocolError: there is no such octet, or a surrogate without its other half.
    """
    try:
        return text.encode("latin-1" if isinstance(text, Latin1Text) else "utf-8")
    except UnicodeEncodeError as error:
        raise LocalProtocolError("a text has characters that no octets stand for") from error


def escape_for_openamq(text: str) -> str:
    """Return ``text`` as OpenAMQ would write it, one character for each octet; raises as `octets_of`.

    Raises:
        LocalProtocolError: it has a NUL, which ends a document for OpenAMQ.
    """
    if "\0" in text:
        raise LocalProtocolError("a text has a NUL, which no document can carry")
    if not text.isascii():
        text = octets_of(text).decode("latin-1")
    return text.translate(_OPENAMQ)


def escape_for_xml(text: str) -> str:
    """Return ``text`` as any XML parser reads it, for a document in UTF-8.

    Raises:
        LocalProtocolError: it has a character that XML 1.0 cannot carry, such as a control character.
    """
    octets_of(text)
    if found := _NOT_XML.search(text):
        raise LocalProtocolError(f"a text has the character U+{ord(found[0]):04X}, which XML cannot carry")
    return text.translate(_XML)


def carried_by_openamq(text: str) -> str:
    """Return ``text`` with U+FFFD in place of what `escape_for_openamq` refuses."""
    return _without_surrogates(text).replace("\0", _REPLACEMENT)


def carried_by_xml(text: str) -> str:
    """Return ``text`` with U+FFFD in place of what `escape_for_xml` refuses."""
    return _NOT_XML.sub(_REPLACEMENT, _without_surrogates(text))


def _without_surrogates(text: str) -> str:
    # Also of text that means octets: they are Latin-1 characters, and no surrogates.
    return text if isinstance(text, Latin1Text) or text.isascii() else _SURROGATE.sub(_REPLACEMENT, text)
