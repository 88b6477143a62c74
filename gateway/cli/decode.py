"""``amqp-gateway decode``."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

import click
import yaml

from gateway.cli.clearance import configured, require_everything
from gateway.cli.printing import json_option, say, say_json
from gateway.dialects.decoding.plain import Body, Decoded, Decoder
from gateway.dialects.decoding.qmf import Am01Decoder, Am2Decoder, am1_decoder
from gateway.dialects.decoding.text import AmiDecoder, CmlDecoder
from gateway.dialects.errors import ProtocolError
from gateway.service.processes.exit_codes import CommandError, ExitCode

DECODERS: Final[dict[str, Callable[[], Decoder]]] = {
    "cml": CmlDecoder,
    "am01": Am01Decoder,
    "am1": am1_decoder,
    "am2": Am2Decoder,
    "ami": AmiDecoder,
}
MAX_BODY: Final = 64 << 20
"""The largest body, in bytes."""
MAX_LINE: Final = 2 * MAX_BODY
"""The longest line, in characters: a body in base64 and the other fields."""
_BESIDE: Final = ("exchange", "routing_key", "reply_to")


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--dialect", type=click.Choice(list(DECODERS)), required=True, help="The dialect of the bodies."
)
@click.option(
    "--jsonl",
    "field",
    metavar="FIELD",
    help="FILE has one JSON object on each line, with the body as base64 in this field.",
)
@click.option("--routing-key", default="", help="The routing key of the body, by which am01 is recognised.")
@json_option
def decode(file: IO[bytes], dialect: str, field: str | None, routing_key: str, *, as_json: bool) -> None:
    """Decode a body of a management protocol.

    FILE (default: standard input) is one body as it was sent; for ami it consists of lines. With --jsonl it
    contains captured bodies in their order, and each line printed is {"ok": true, "messages": [...],
    "reencoded": true|false|null} or {"ok": false, "error": "..."}. Schemas and calls of earlier lines are
    used, and the fields exchange, routing_key and reply_to of each line.
    """
    require_everything(configured(None), "a body of a protocol")
    decoder = DECODERS[dialect]()
    if field is not None:
        for line in _lines(file):
            say_json(document_of_line(decoder, line, field))
        return
    octets = file.read(MAX_BODY + 1)
    try:
        found = decoder.decode(_body(octets, {"routing_key": routing_key}))
    except (ProtocolError, ValueError) as error:
        raise CommandError(ExitCode.WRONG_VALUE, f"this is no body of {dialect}: {error}") from None
    if as_json:
        say_json(_document(found))
        return
    say(lines_of(found))


def lines_of(found: Decoded) -> list[str]:
    """Return the lines that are printed of a body for people: its messages in YAML."""
    text: str = yaml.safe_dump_all(found.messages, sort_keys=False, allow_unicode=True, width=100)
    return text.splitlines()


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines; a line that is too long is cut just behind the limit."""
    while line := file.readline(MAX_LINE + 1):
        yield line
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)


def document_of_line(decoder: Decoder, line: bytes, field: str) -> dict[str, Any]:
    """Return the document that is printed of a line of JSON, which has the body as base64 in a field."""
    try:
        document = _parsed(line)
        found = decoder.decode(_body(_octets(document, field), document))
    except (ProtocolError, ValueError) as error:
        return {"ok": False, "error": str(error)}
    return _document(found)


def _document(found: Decoded) -> dict[str, Any]:
    return {"ok": True, "messages": found.messages, "reencoded": found.reencoded}


def _parsed(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise ValueError(f"a line of more than {MAX_LINE} bytes")
    try:
        document = json.loads(line.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, RecursionError):
        raise ValueError("the line is no JSON in UTF-8") from None
    if not isinstance(document, dict):
        raise ValueError("the line is no JSON object")  # noqa: TRY004  of the input, not of a caller
    return document


def _octets(document: dict[str, Any], field: str) -> bytes:
    text = document.get(field)
    if not isinstance(text, str):
        raise ValueError(f"no text in the field {field!r}")  # noqa: TRY004  of the input, not of a caller
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"the field {field!r} is no base64: {error}") from None


def _body(octets: bytes, document: dict[str, Any]) -> Body:
    if len(octets) > MAX_BODY:
        raise ValueError(f"a body of more than {MAX_BODY} bytes")
    beside = {name: document.get(name) for name in _BESIDE}
    texts = {name: text for name, text in beside.items() if isinstance(text, str)}
    connection = document.get("connection")  # of a capture of bytes
    stream = f"{connection} {document.get('dir')}" if isinstance(connection, int) else ""
    return Body(octets, **texts, stream=stream)
