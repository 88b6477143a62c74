"""The record of the event log, version 3: a JSON object on a line, a row of Parquet; and a readable line.

The form is published (`docs/event-log.md`): fields are added, never changed or removed. A field that
does not apply is left out on the line and null in Parquet; absent is never zero. Times with the suffix
``_ts`` are text as in RFC 3339, UTC, with six digits of a second and a ``Z``; those with ``_ns`` are integer
nanoseconds (since 1970 UTC where they are a time). 64-bit numbers stay numbers, unsigned ones up to 2^64-1.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from gateway.escapes import escaped, printable, printable_json
from gateway.feed.values import FeedValue, ObjectLink, as_json
from gateway.model.times import since_epoch, utc_time
from gateway.model.values import ValueType

VERSION: Final = 3
"""Version of the form; each segment's first record and each file of the lake have it.

2: ``audit``, ``audit_hash`` and ``resend``, and the kinds ``login`` and ``audit``. 3: of a counter's change
``undone``, and one without ``delta``, where it is not known. Readers take older forms as they are: fields are
only added.
"""

COMMIT_KIND: Final = "_commit"
"""``kind`` of the line after each block; readers of records pass over it."""


class RecordKind(enum.StrEnum):
    """The kind of a record.

    ``start``: the first record of each segment: form, gateway, boot, why the segment begins. ``schema``: a
    class or an event as it is known from here on. ``source``, ``agent``: the state of a source, or of an
    agent. ``create``, ``update``, ``delete``: a change of an object. ``snapshot``: the state of an object at
    a segment's head; no change. ``event``: an event. ``operation``: a change made through the gateway.
    ``login``: a user logged in at a front end. ``audit``: a signed statement of the gateway about its log.
    ``gap``: a time in which something was missed, or not recorded.
    """

    START = "start"
    SCHEMA = "schema"
    SOURCE = "source"
    AGENT = "agent"
    SNAPSHOT = "snapshot"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    EVENT = "event"
    OPERATION = "operation"
    LOGIN = "login"
    AUDIT = "audit"
    GAP = "gap"


AUDITED_KINDS: Final = frozenset({RecordKind.START, RecordKind.OPERATION, RecordKind.LOGIN, RecordKind.AUDIT})
"""The kinds of records that are chained by hash. ``start`` is one, so that the chain goes through each
segment, and a segment that is removed is missed even if no user did anything meanwhile."""


class Delta(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The change of a counter since its last record. The sum of all never exceeds what was counted.

    Attributes:
        delta: the amount counted; with ``reset`` only what was counted since the break, as far as that is
            known. Left out where nothing is known. Negative only with ``undone``.
        interval_ns: the time between the two samples, by the agent's clock; left out where it is not known.
        reset: it did not go on from its last record: it began again, or a part of its count is not known.
        undone: it was less than recorded before: ``delta`` takes back what was added too much.
    """

    delta: int | None = None
    interval_ns: int | None = None
    reset: bool = False
    undone: bool = False


# No garbage collection (`gc=False`) of records: they refer to plain values only, and there are many.
class LogRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A record without its place; the writer puts ``log_id`` and ``seq`` before these fields.

    Attributes:
        kind: its kind.
        ingest_ts: the time of recording, by the gateway's clock; never goes back within a segment.
        source: the name of the source; left out where the gateway itself is meant.
        dialect: the kind of the source (``rabbitmq``, ``qmf``).
        package: the package of the class, or of the event.
        class_name: the class of the object, or of the object that an event concerns; ``class`` on the line.
        object_id: ``SOURCE/PACKAGE:CLASS/ROW``: one object's for ever. ``ROW`` is its row number in SNMP.
        object_name: its stable name; an object that is made again under the same name has the same.
        parent_id: ``object_id`` of the object that it belongs to.
        row: its row number in SNMP.
        native_id: its identifier at the agent.
        agent: the agent that reported it.
        lifetime: ``durable`` or ``transient``.
        event_id: of an event: the same in trap, notification and log.
        event: name of the event.
        severity: the severity of an event, in words.
        state: of an event ``raised``, ``cleared`` or ``one-shot``; of a source or agent its state; of an
            operation ``begun``, ``ended`` or ``settled``.
        condition: the condition that a raising event begins and a clearing one ends.
        text: one line for people.
        sample_ts: the time of the values, by the agent's clock: of statistics where there are any.
        sample_ns: the same, exactly.
        create_ts: the object's time of creation, by the agent's clock.
        delete_ts: its time of deletion, by the agent's clock; left out where it is not known.
        reset_ts: the last time when its counters began again, as far as known.
        inferred: of ``delete``: its end was not reported, it was missing from a complete reading; of
            ``snapshot`` and ``update``: it is taken for the object of its name from before a gap.
        from_ts: the begin of a gap, by the gateway's clock.
        to_ts: the end of a gap.
        lost: the number of missing records, where it is known.
        principal: the principal of an operation: ``jmx:operator``; of ``login`` the user.
        outcome: the outcome of the operation.
        operation_id: of an operation: the same in every front end and in the log.
        operation: ``set``, ``invoke`` or ``read``.
        origin: the origin of the principal's request; of ``login`` the address.
        method: the method that was called.
        element: the element that the outcome is about, where it is not about all.
        code: the agent's own status.
        latency_ns: the time from the request to the outcome; until now while the operation is under way.
        former: elements before they were set, by name; of ``snapshot`` the counters that have not been read
            since the gateway was started, as they were recorded last; of it and ``create`` 0 for those that
            count from zero and have not been read; of it and ``update`` ``None`` for those that began again,
            the last value of those that are absent, and a list for those that fell: behind the last value, if
            they are absent, what they had before and have not reached again.
        found: the values read back, or a method's outputs, by name.
        attempts: the number of refused operations, or of logins, that the record stands for, where it is more
            than one.
        audit: the number of an audited record in the chain: 1, 2 and so on in each log.
        audit_hash: SHA-256 over the chain until here, hexadecimal (`gateway.eventlog.audit_chain`).
        values: elements, or arguments of an event, by name: of ``snapshot`` and ``create`` all there are, of
            ``update`` those that changed. Of ``schema`` the class itself, of ``start`` and ``source`` facts.
        absent: elements that have no value any more; of ``snapshot`` the counters among them.
        deltas: counters among ``values``, by name; of ``create`` those that are not zero.
        delivery: source and identity of a message from a durable subscription, on the last of the records
            made of it: the gateway uses it to record nothing twice.
        resend: of an event: what the gateway needs to send it later (`gateway.eventlog.logged_events`).
    """

    kind: RecordKind
    ingest_ts: str
    source: str | None = None
    dialect: str | None = None
    package: str | None = None
    class_name: str | None = msgspec.field(name="class", default=None)
    object_id: str | None = None
    object_name: str | None = None
    parent_id: str | None = None
    row: int | None = None
    native_id: str | None = None
    agent: str | None = None
    lifetime: str | None = None
    event_id: str | None = None
    event: str | None = None
    severity: str | None = None
    state: str | None = None
    condition: str | None = None
    text: str | None = None
    sample_ts: str | None = None
    sample_ns: int | None = None
    create_ts: str | None = None
    delete_ts: str | None = None
    reset_ts: str | None = None
    inferred: bool | None = None
    from_ts: str | None = None
    to_ts: str | None = None
    lost: int | None = None
    principal: str | None = None
    outcome: str | None = None
    values: dict[str, object] | None = None
    absent: list[str] | None = None
    deltas: dict[str, Delta] | None = None
    delivery: str | None = None
    operation_id: str | None = None
    operation: str | None = None
    origin: str | None = None
    method: str | None = None
    element: str | None = None
    code: int | None = None
    latency_ns: int | None = None
    former: dict[str, object] | None = None
    found: dict[str, object] | None = None
    attempts: int | None = None
    audit: int | None = None
    audit_hash: str | None = None
    resend: dict[str, object] | None = None


class ObjectChange(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An ``update`` of an object whose place is unchanged; most records are such.

    It is encoded like the `LogRecord` that `record` returns, in a fraction of the time: it has only the
    fields that change, and the identifying fields of the object were encoded before.

    Attributes:
        kind: ``update``.
        ingest_ts: as in a `LogRecord`, and so are the others.
        identity: `encoded_identity` of the object.
    """

    kind: RecordKind
    ingest_ts: str
    identity: msgspec.Raw = msgspec.field(name="source")
    sample_ts: str | None = None
    sample_ns: int | None = None
    reset_ts: str | None = None
    values: dict[str, object] | None = None
    absent: list[str] | None = None
    deltas: dict[str, Delta] | None = None
    delivery: str | None = None
    former: dict[str, object] | None = None

    def record(self) -> LogRecord:
        """Return the same record with all fields.

        Raises:
            TypeError, ValueError: a value has no form in JSON.
        """
        return msgspec.json.decode(_ENCODER.encode(self), type=LogRecord)


AnyRecord: TypeAlias = LogRecord | ObjectChange
"""A record that the log takes."""


def encoded_identity(record: LogRecord) -> bytes:
    """Return the fields that identify an object, encoded as they stand on the line behind ``"source":``.

    Args:
        record: with ``source``, the other identifying fields, and no more.

    Raises:
        ValueError: a name has no form in JSON.
    """
    # Fields are encoded in their order: what identifies the object follows kind and time, and begins with the
    # source.
    return _ENCODER.encode(record).partition(b'"source":')[2][:-1]


_ENCODER: Final = msgspec.json.Encoder()


_MICROSECONDS: Final = len("2026-11-20T14:05:06.123456")
_NANOSECONDS: Final = len("2026-11-20T14:05:06.123456789")
_CACHED_TIMES: Final = 1024  # objects that were read together have one time


@lru_cache(maxsize=_CACHED_TIMES)
def microseconds_text(time: int) -> str | None:
    """Return a time as `gateway.model.times.utc_time` does, cut to the microsecond."""
    return utc_time(time, 6)


def known_time(time: int) -> str | None:
    """Return a time of the feed, to the microsecond; ``None`` for 0, which stands for an unknown time."""
    return microseconds_text(time) if time else None


def nanoseconds_of(text: object) -> int:
    """Return a time of the log as nanoseconds since 1970-01-01 UTC; 0 for any other value."""
    return time_value(text) or 0


def time_value(text: object) -> int | None:
    """Return the value of an element that is a time, as `nanoseconds_of`; ``None`` for any other value."""
    if not isinstance(text, str):
        return None
    try:
        time = since_epoch(dt.datetime.fromisoformat(text))
    except (ValueError, TypeError):  # the latter without a zone
        return None
    digits = text[_MICROSECONDS:_NANOSECONDS].removesuffix("Z")
    return time + (int(digits.ljust(3, "0")) if digits.isdecimal() else 0)


Convert: TypeAlias = Callable[["FeedValue", str], object]
"""Converts a value of the feed and the name of its source to a value for JSON; ``None`` for absent."""


def object_id(source: str, class_name: str, row: int) -> str:
    """Return ``SOURCE/PACKAGE:CLASS/ROW``: one object's for ever.

    Args:
        source: the name of the source.
        class_name: ``package:class``.
        row: the number of its row.
    """
    return f"{source}/{class_name}/{row}"


def link_text(link: ObjectLink, source: str) -> str:
    """Return the ``object_id`` of a reference; the stable name where no row of it was ever seen."""
    return object_id(source, link.class_name, link.row) if link.row else link.stable_name


def converter(value_type: ValueType) -> Convert | None:
    """Return the converter of values of this type to JSON; ``None`` where JSON can hold them as they are."""
    return _CONVERTERS.get(value_type)


def json_value(value: FeedValue, source: str) -> object:
    """Convert a value of unknown type, such as one inside a map."""
    if isinstance(value, ObjectLink):
        return link_text(value, source)
    if isinstance(value, Mapping):
        return {str(key): json_value(inner, source) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [json_value(inner, source) for inner in value]
    return as_json(value)


def _time(value: FeedValue, source: str) -> object:
    if not isinstance(value, int):
        return json_value(value, source)
    # Beyond the year 9999 no calendar has a text for it: the number is all there is.
    return utc_time(value) or value


def _float(value: FeedValue, source: str) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return json_value(value, source)


_CONVERTERS: Final[Mapping[ValueType, Convert]] = {
    ValueType.F32: _float,
    ValueType.F64: _float,
    ValueType.BYTES: json_value,
    ValueType.UUID: json_value,
    ValueType.TIME: _time,
    ValueType.REFERENCE: json_value,
    ValueType.MAP: json_value,
    ValueType.LIST: json_value,
}


DETAIL_LENGTH = 200
"""The maximum length of the values that a line shows, in characters, unless all are requested."""

_WITH_STATE = frozenset({RecordKind.SOURCE, RecordKind.AGENT})
_KIND_WIDTH = max(len(kind) for kind in RecordKind)


def readable_line(record: Mapping[str, object], *, whole: bool = False) -> str:
    """Return a readable line of a record, without its end and without control characters.

    Args:
        record: the fields of a line of the log by name; any content gives a line.
        whole: show all values, however long they are.
    """
    subject = " ".join(_subject(record))
    details = " ".join(_details(record))
    if not whole and len(details) > DETAIL_LENGTH:
        details = f"{details[:DETAIL_LENGTH]}…"
    kind = str(record.get("kind", "?"))
    line = f"{_shown_time(record.get('ingest_ts'))}  {kind:<{_KIND_WIDTH}}  {subject}"
    return printable(f"{line}  {details}" if details else line).rstrip()


def _shown_time(text: object) -> str:
    """Return the time of a line as ``2026-11-20 14:05:06.123``, UTC."""
    return str(text)[:23].replace("T", " ") if isinstance(text, str) else "-" * 23


def _subject(record: Mapping[str, object]) -> Iterator[str]:
    """Yield the subject of a record: source, event, class and name."""
    if "source" in record:
        yield str(record["source"])
    if record.get("kind") == RecordKind.EVENT:
        yield from (str(record[name]) for name in ("severity", "event", "state") if name in record)
    if record.get("kind") == RecordKind.SCHEMA:
        yield ":".join(str(record[name]) for name in ("package", "class", "event") if name in record)
    elif "class" in record:
        yield str(record["class"])
    if "object_name" in record:
        yield escaped(str(record["object_name"]))
    elif record.get("kind") == RecordKind.AGENT and "agent" in record:
        yield str(record["agent"])


def _details(record: Mapping[str, object]) -> Iterator[str]:
    """Yield the details of a record: state, times, outcome and values."""
    if str(record.get("kind")) in _WITH_STATE and "state" in record:
        yield str(record["state"])
    if "from_ts" in record or "to_ts" in record:
        yield f"from {_shown_time(record.get('from_ts'))} to {_shown_time(record.get('to_ts'))}"
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
    if isinstance(value, str):
        return escaped(value)
    return printable_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _step(deltas: object, name: object) -> str:
    """Return the change of a counter: ``(+3)``, ``(reset, +3)``, ``(reset)`` or ``(undone, -3)``."""
    delta = deltas.get(name) if isinstance(deltas, Mapping) else None
    if not isinstance(delta, Mapping):
        return ""
    said = [word for word in ("reset", "undone") if delta.get(word)]
    gained = delta.get("delta")
    if isinstance(gained, int):
        said.append(f"{gained:+}")
    return f" ({', '.join(said)})" if said else ""
