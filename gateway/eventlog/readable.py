"""A record as one line for people: when, what, which object, how it is. Programs read the log itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from gateway.eventlog.record import RecordKind

DETAIL_LENGTH = 200
"""Characters of values that a line shows unless all are asked for."""

_WITH_STATE = frozenset({RecordKind.SOURCE, RecordKind.AGENT})
_ESCAPED = re.compile(r"\\(?:[tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})")
_KIND_WIDTH = max(len(kind) for kind in RecordKind)


def readable_line(record: Mapping[str, object], *, whole: bool = False) -> str:
    """Return one line without its end, and without control characters.

    Args:
        record: the fields of a line of the log by name; whatever is in it gives a line.
        whole: show all values, however long they are.
    """
    subject = " ".join(_subject(record))
    details = " ".join(_details(record))
    if not whole and len(details) > DETAIL_LENGTH:
        details = f"{details[:DETAIL_LENGTH]}…"
    kind = str(record.get("kind", "?"))
    line = f"{_time(record.get('ingest_ts'))}  {kind:<{_KIND_WIDTH}}  {subject}"
    return harmless(f"{line}  {details}" if details else line).rstrip()


def harmless(text: str) -> str:
    """Return the text with what is not printable as escapes, because names come from peers."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def unescaped(text: str) -> str:
    """Return the text that `harmless` was given, for names that were copied from a line."""
    return _ESCAPED.sub(lambda found: found[0].encode("ascii").decode("unicode_escape"), text)


def _time(text: object) -> str:
    """``2026-11-20 14:05:06.123``, UTC, of a time on a line."""
    return str(text)[:23].replace("T", " ") if isinstance(text, str) else "-" * 23


def _subject(record: Mapping[str, object]) -> Iterator[str]:
    """Return what the record is about: source, event, class and name."""
    if "source" in record:
        yield str(record["source"])
    if record.get("kind") == RecordKind.EVENT:
        yield from (str(record[name]) for name in ("severity", "event", "state") if name in record)
    if record.get("kind") == RecordKind.SCHEMA:
        yield ":".join(str(record[name]) for name in ("package", "class", "event") if name in record)
    elif "class" in record:
        yield str(record["class"])
    if "object_name" in record:
        yield str(record["object_name"])
    elif record.get("kind") == RecordKind.AGENT and "agent" in record:
        yield str(record["agent"])


def _details(record: Mapping[str, object]) -> Iterator[str]:
    """How it is, or what came of it."""
    if str(record.get("kind")) in _WITH_STATE and "state" in record:
        yield str(record["state"])
    if "from_ts" in record or "to_ts" in record:
        yield f"from {_time(record.get('from_ts'))} to {_time(record.get('to_ts'))}"
    if "lost" in record:
        yield f"{record['lost']} lost"
    if record.get("inferred"):
        yield "inferred"
    if "principal" in record:
        yield f"by {record['principal']}"
    yield from (str(record[name]) for name in ("outcome", "text") if name in record)
    if record.get("kind") != RecordKind.SCHEMA:
        yield from _values(record)


def _values(record: Mapping[str, object]) -> Iterator[str]:
    values, deltas, absent = record.get("values"), record.get("deltas"), record.get("absent")
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield f"{name}={_value(value)}{_step(deltas, name)}"
    if isinstance(absent, list) and absent:
        yield f"absent: {', '.join(map(str, absent))}"


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _step(deltas: object, name: object) -> str:
    """How a counter went on: ``(+3)``, or ``(reset, +3)``."""
    delta = deltas.get(name) if isinstance(deltas, Mapping) else None
    if not isinstance(delta, Mapping) or "delta" not in delta:
        return ""
    return f" ({'reset, ' if delta.get('reset') else ''}+{delta['delta']})"
