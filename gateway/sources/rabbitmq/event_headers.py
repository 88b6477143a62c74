"""Headers of the broker's events as JSON.

Nested values arrive as Erlang terms in text, or as lists of character codes. `readable_headers` gives them
the form that the management API has. `read_term` reads the terms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv6Address
from typing import TypeAlias

from gateway.dialects.errors import ProtocolError
from gateway.mapping.paths import Json
from gateway.model.secrets import mask_uris
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.object_names import ByteName

MAX_TERM_CHARACTERS = 65_536
MAX_TERM_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Atom:
    """An Erlang atom, process identifiers included."""

    name: str


Term: TypeAlias = "int | float | str | Atom | tuple[Term, ...] | list[Term]"
"""An Erlang term; binaries and strings are ``str``."""

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400}([eE][-+]?[0-9]{1,3})?)?")
_ATOM = re.compile(r"[a-z][A-Za-z0-9_@]*")
_PROCESS = re.compile(r"<[A-Za-z0-9_@.-]+>")
_STRING = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTED_ATOM = re.compile(r"'(?P<text>(?:[^'\\]|\\.)*)'", re.DOTALL)
_OCTETS = re.compile(r"[0-9]{1,3}(,[0-9]{1,3})*")
_ESCAPE = re.compile(
    r"\\(?:x\{(?P<hex>[0-9A-Fa-f]{1,6})\}|(?P<octal>[0-7]{1,3})|(?P<character>.))", re.DOTALL
)
_ESCAPED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "s": " ",
    "d": "\x7f",
}


def read_term(text: str) -> Term:
    """Read ``text`` as one term.

    Raises:
        ProtocolError: it is none, is too long or too deep; the offset counts characters.
    """
    if len(text) > MAX_TERM_CHARACTERS:
        raise ProtocolError(f"a term of at most {MAX_TERM_CHARACTERS} characters", f"{len(text)}")
    reader = _TermReader(text)
    term = reader.term(0)
    reader.skip_space()
    if reader.position != len(text):
        raise reader.error("the end of the term")
    return term


class _TermReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0

    def error(self, expected: str) -> ProtocolError:
        found = self._text[self.position : self.position + 20]
        return ProtocolError(expected, repr(found) if found else "the end of the text", self.position)

    def skip_space(self) -> None:
        self.position = self._match(_SPACE).end()

    def term(self, depth: int) -> Term:  # noqa: PLR0911  one return for each form of a term
        if depth > MAX_TERM_DEPTH:
            raise self.error(f"at most {MAX_TERM_DEPTH} levels")
        self.skip_space()
        text, start = self._text, self.position
        if text.startswith("<<", start):
            return self._binary()
        match text[start : start + 1]:
            case "{":
                return tuple(self._sequence("}", depth))
            case "[":
                return self._sequence("]", depth)
            case '"':
                return _unescaped(self._match(_STRING)["text"])
            case "'":
                return Atom(_unescaped(self._match(_QUOTED_ATOM)["text"]))
            case "<":
                return Atom(self._match(_PROCESS)[0])
            case "-" | "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9":
                number = self._match(_NUMBER)[0]
                return float(number) if "." in number else int(number)
        return Atom(self._match(_ATOM)[0])

    def _sequence(self, closing: str, depth: int) -> list[Term]:
        self.position += 1
        terms: list[Term] = []
        self.skip_space()
        if self._take(closing):
            return terms
        while True:
            terms.append(self.term(depth + 1))
            self.skip_space()
            if self._take(closing):
                return terms
            if not self._take(","):
                raise self.error(f"',' or {closing!r}")

    def _binary(self) -> str:
        self.position += 2
        if self._take(">>"):
            return ""
        if self._text.startswith('"', self.position):
            text = _unescaped(self._match(_STRING)["text"])
            self._take("/utf8")
        else:
            octets = [int(octet) for octet in self._match(_OCTETS)[0].split(",")]
            if max(octets) > 255:  # noqa: PLR2004  the largest octet
                raise self.error("numbers up to 255")
            text = bytes(octets).decode("utf-8", "replace")  # a value, as listings have it
        if not self._take(">>"):
            raise self.error("'>>'")
        return text

    def _take(self, token: str) -> bool:
        if self._text.startswith(token, self.position):
            self.position += len(token)
            return True
        return False

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self.position)
        if match is None:
            raise self.error("an Erlang term")
        self.position = match.end()
        return match


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text) if "\\" in text else text


def _escaped_character(escape: re.Match[str]) -> str:
    if escape["hex"] or escape["octal"]:
        code = int(escape["hex"], 16) if escape["hex"] else int(escape["octal"], 8)
        return chr(code) if code <= 0x10FFFF else "\ufffd"  # noqa: PLR2004  Unicode's last code point
    return _ESCAPED.get(escape["character"], escape["character"])


def table_of_texts(texts: Iterable[object]) -> tuple[dict[str, Json], int]:
    """Return an AMQP table whose entries came as texts, and the number of entries that could not be read."""
    table: dict[str, Json] = {}
    unread = 0
    for text in texts:
        try:
            table.update(_table([read_term(text if isinstance(text, str) else "")]))
        except ProtocolError:
            unread += 1
    return table, unread


def list_of_text(text: str) -> list[Json]:
    """Return a list that came as text, with its items as JSON.

    Raises:
        ProtocolError: the text is no list.
    """
    term = read_term(text)
    if not isinstance(term, list):
        raise ProtocolError("a list", text[:20])
    return [_json_of_term(item) for item in term]


def address_of_text(text: str) -> str:
    """Return an IP address that came as a tuple of its numbers; return other text unchanged."""
    numbers = _numbers(text)
    if len(numbers) == 4:  # noqa: PLR2004  octets of IPv4
        return ".".join(str(number) for number in numbers)
    if len(numbers) == 8:  # noqa: PLR2004  groups of IPv6
        return _ipv6_text(numbers)
    return text


def _ipv6_text(groups: tuple[int, ...]) -> str:
    """Return the form of `inet:ntoa`: the longest run of zero groups shortened, mapped IPv4 dotted."""
    packed = b"".join((group & 0xFFFF).to_bytes(2, "big") for group in groups)
    address = IPv6Address(packed)
    # Python does so itself from 3.13 on.
    return str(address) if address.ipv4_mapped is None else f"::ffff:{address.ipv4_mapped}"


def protocol_of_text(text: str) -> str:
    """Return the name of a protocol that came as its version; return other text unchanged.

    ``{0,9,1}`` is ``AMQP 0-9-1``, ``{'Direct',{0,9,1}}`` is ``Direct 0-9-1``, and ``{'MQTT',"3.1.1"}``
    (3.10) is ``MQTT 3.1.1``.
    """
    try:
        term = read_term(text)
    except ProtocolError:
        return text
    match term:
        case (int(), int()) | (int(), int(), int()):
            return "AMQP " + "-".join(str(number) for number in term)
        case (Atom(name) | str(name), (int(), *_) as version):
            return f"{name} " + "-".join(str(number) for number in version)
        case (Atom(name) | str(name), str(version)):
            return f"{name} {version}"
    return text


def _numbers(text: str) -> tuple[int, ...]:
    try:
        term = read_term(text)
    except ProtocolError:
        return ()
    if isinstance(term, tuple):
        numbers = tuple(number for number in term if isinstance(number, int))
        return numbers if len(numbers) == len(term) else ()
    return ()


def _table(entries: list[Term]) -> dict[str, Json]:
    table: dict[str, Json] = {}
    for entry in entries:
        match entry:
            case (str(key), Atom(type_), value):
                table[key] = _typed(type_, value)
            case _:
                raise ProtocolError("an entry {Key, Type, Value} of an AMQP table")
    return table


def _typed(type_: str, value: Term) -> Json:
    """Return a field value of an AMQP table as JSON; ``type_`` is a type name of rabbit_framing."""
    match type_, value:
        case "table", list(entries):
            return _table(entries)
        case "array", list(items):
            return [_typed(*_array_item(item)) for item in items]
        case "void", _:
            return None
        case "decimal", (int(places), int(unscaled)) if 0 <= places <= 255:  # noqa: PLR2004  an octet
            return float(f"{unscaled}e-{places}")
    return _json_of_term(value)


def _array_item(item: Term) -> tuple[str, Term]:
    match item:
        case (Atom(type_), value):
            return type_, value
    raise ProtocolError("an item {Type, Value} of an AMQP array")


def _json_of_term(term: Term) -> Json:
    match term:
        case Atom("true"):
            return True
        case Atom("false"):
            return False
        case Atom("undefined"):
            return None
        case Atom(name):
            return name
        case tuple() | list():
            return [_json_of_term(item) for item in term]
    return term


_MAX_DEPTH = 32
_MAX_REASON_CHARACTERS = 1_000
_QUOTED = re.compile(r"[\[{<\"]")
_TERM = re.compile(r"\{([a-z][a-z_]{0,63}),")
"""The beginning of an Erlang tuple whose first element is an atom, which the broker has chosen itself."""


def plain_headers(headers: Mapping[str, object]) -> dict[str, Json]:
    """Return the headers that an AMQP client delivers in JSON's types, without values that JSON lacks."""
    plain: dict[str, Json] = {}
    for key, value in headers.items():
        converted = _json_of_amqp(value, 0)
        if converted is not None:
            plain[str(key)] = converted
    return plain


def _json_of_amqp(value: object, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        return None
    match value:
        case bool() | int() | float() | str():
            return value
        case bytes() | bytearray():
            return ByteName.of(bytes(value))
        case Mapping():
            return {str(key): _json_of_amqp(inner, depth + 1) for key, inner in value.items()}
        case list() | tuple():
            return [_json_of_amqp(inner, depth + 1) for inner in value]
    return None


def event_time(headers: Mapping[str, object], timestamp: datetime | None) -> int:
    """Return the time of an event (ns, the broker's clock), by header or AMQP timestamp; 0 if unknown."""
    milliseconds = headers.get("timestamp_in_ms")
    if isinstance(milliseconds, int) and 0 < milliseconds < 2**64 // MILLISECOND:
        return milliseconds * MILLISECOND
    if timestamp is not None and timestamp.tzinfo is not None:
        return max(0, int(timestamp.timestamp())) * SECOND
    return 0


def readable_headers(plain: Mapping[str, Json]) -> dict[str, Json]:
    """Return ``plain`` with tables, addresses, protocols and reasons in the form of the management API."""
    readable = dict(plain)
    for header, decode in _DECODERS.items():
        if header in readable:
            readable[header] = decode(readable[header])
    return readable


def _decoded_table(value: Json) -> Json:
    return table_of_texts(value)[0] if isinstance(value, list) else value


def _text_by(decode: Callable[[str], str]) -> Callable[[Json], Json]:
    return lambda value: decode(value) if isinstance(value, str) else value


def _reason(value: Json) -> Json:
    """Return a reason, as of a failed login: an Erlang string, which arrives as a list of character codes.

    RabbitMQ may quote the client's data as an Erlang term, which may contain a password: the text is cut
    there.
    """
    if isinstance(value, list):
        codes = value[:_MAX_REASON_CHARACTERS]
        value = "".join(
            chr(code)
            for code in codes
            if isinstance(code, int) and 0 <= code <= 0x10FFFF  # noqa: PLR2004  Unicode
        )
    if not isinstance(value, str):
        return None
    atom = _TERM.match(value)
    return atom[1] if atom else mask_uris(_QUOTED.split(value, maxsplit=1)[0]).strip()


_DECODERS: Mapping[str, Callable[[Json], Json]] = {
    "client_properties": _decoded_table,
    "arguments": _decoded_table,
    "host": _text_by(address_of_text),
    "peer_host": _text_by(address_of_text),
    "protocol": _text_by(protocol_of_text),
    "error": _reason,
    "reason": _reason,
}
