"""Headers of the broker's events as JSON, with what came as Erlang text or character codes made readable."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from gateway.mapping.paths import Json
from gateway.model.secrets import mask_uris
from gateway.sources.rabbitmq.erlang_terms import address_of_text, protocol_of_text, table_of_texts

_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000
_MAX_DEPTH = 32
_MAX_REASON_CHARACTERS = 1_000
_QUOTED = re.compile(r"[\[{<\"]")
_TERM = re.compile(r"\{([a-z][a-z_]{0,63}),")
"""An Erlang tuple that begins with an atom, which is the broker's own word."""


def plain_headers(headers: Mapping[str, object]) -> dict[str, Json]:
    """Headers as an AMQP client delivers them, in JSON's types; what has no like in JSON is left out."""
    plain: dict[str, Json] = {}
    for key, value in headers.items():
        converted = _plain(value, 0)
        if converted is not None:
            plain[str(key)] = converted
    return plain


def _plain(value: object, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        return None
    match value:
        case bool() | int() | float() | str():
            return value
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "replace")
        case Mapping():
            return {str(key): _plain(inner, depth + 1) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner, depth + 1) for inner in value]
    return None


def event_time(headers: Mapping[str, object], timestamp: datetime | None) -> int:
    """When the event happened (ns, the broker's clock), by its header or AMQP timestamp; 0 unknown."""
    milliseconds = headers.get("timestamp_in_ms")
    if isinstance(milliseconds, int) and 0 < milliseconds < 2**64 // _MILLISECOND:
        return milliseconds * _MILLISECOND
    if timestamp is not None and timestamp.tzinfo is not None:
        return max(0, int(timestamp.timestamp())) * _SECOND
    return 0


def readable_headers(plain: Mapping[str, Json]) -> dict[str, Json]:
    """``plain`` with tables, addresses, protocols and reasons as the management API has them."""
    readable = dict(plain)
    for header, decode in _DECODERS.items():
        if header in readable:
            readable[header] = decode(readable[header])
    return readable


def _table(value: Json) -> Json:
    return table_of_texts(value)[0] if isinstance(value, list) else value


def _text_by(decode: Callable[[str], str]) -> Callable[[Json], Json]:
    return lambda value: decode(value) if isinstance(value, str) else value


def _reason(value: Json) -> Json:
    """Why a login failed: an Erlang string, which arrives as a list of its characters' codes.

    Where RabbitMQ quotes what the client sent, as an Erlang term, that may hold a password: it is cut there.
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
    "client_properties": _table,
    "arguments": _table,
    "host": _text_by(address_of_text),
    "peer_host": _text_by(address_of_text),
    "protocol": _text_by(protocol_of_text),
    "error": _reason,
    "reason": _reason,
}
