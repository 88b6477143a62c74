"""The forms of all that outlives a process, as text: fields, columns, tables and keys, without their prose.

Each has a version, by which an older gateway refuses it. `tests/data/state/forms.json` has the digest of the
form of each version: a form that changed under the same version is found.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from pydantic import BaseModel, TypeAdapter

from gateway import starts
from gateway.eventlog import audit_statements, ownership, parquet, record, segment
from gateway.eventlog.block import CommitLine
from gateway.feed.access import Quoted
from gateway.feed.records import AlarmRecord
from gateway.inventory import alarms, instance_file
from gateway.inventory.instances import InstanceIndex
from gateway.links import capture_file
from gateway.model.observations import Severity
from gateway.model.schema import ClassSchema
from gateway.protection import keys, replay_file
from gateway.service.processes import jmx, objects
from gateway.service.state import backup, cached_schemas, event_counts, snmp_security
from gateway.snmp.notifications import saved
from gateway.snmp.oid_registry import OidRegistry
from gateway.state_folder import VERSION as STATE_VERSION

PINS = Path(__file__).parents[1] / "data" / "state" / "forms.json"
"""Digests by form and version."""

_OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


@dataclass(frozen=True, slots=True)
class StoredForm:
    """The form of something on the disk.

    Attributes:
        name: its name.
        version: the version that its readers compare.
        where: the place of that number.
        older: where older forms are read, or brought up to date.
        form: returns the form, as JSON has it.
    """

    name: str
    version: int
    where: str
    older: str
    form: Callable[[], object]

    @property
    def text(self) -> str:
        """The form as text."""
        return json.dumps(self.form(), indent=1, sort_keys=True)

    @property
    def digest(self) -> str:
        """The digest of the form, hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]


def shape_of(*roots: Any) -> dict[str, object]:  # noqa: ANN401  types, and their parts
    """Return fields or members of types and of all types in them, by the name of the type."""
    found: dict[str, object] = {}
    waiting = list(roots)
    while waiting:
        kind = waiting.pop()
        waiting += typing.get_args(kind)
        if not isinstance(kind, type) or kind.__name__ in found:
            continue
        if issubclass(kind, enum.Enum):
            found[kind.__name__] = [member.value for member in kind]
        elif issubclass(kind, BaseModel):
            found[kind.__name__] = _without_prose(kind.model_json_schema())
        elif issubclass(kind, msgspec.Struct):
            hints = typing.get_type_hints(kind)
            found[kind.__name__] = [
                str(kind.__struct_config__.tag),
                *(
                    f"{field.encode_name}: {type_text(hints[field.name])}"
                    for field in msgspec.structs.fields(kind)
                ),
            ]
            waiting += hints.values()
        elif dataclasses.is_dataclass(kind):
            hints = typing.get_type_hints(kind)
            found[kind.__name__] = [
                f"{field.name}: {type_text(hints[field.name])}" for field in dataclasses.fields(kind)
            ]
            waiting += hints.values()
    return found


def type_text(kind: Any) -> str:  # noqa: ANN401  any annotation
    """Return a type as text that is the same on each Python."""
    arguments = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return type_text(arguments[0])
    if origin is typing.Literal:
        return f"one of {sorted(map(str, arguments))}"
    inner = [type_text(argument) for argument in arguments]
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(sorted(inner))
    name = getattr(origin or kind, "__name__", str(kind))
    return f"{name} of {', '.join(inner)}" if inner else str(name)


def _without_prose(schema: Any) -> Any:  # noqa: ANN401  JSON
    if isinstance(schema, Mapping):
        return {
            key: _without_prose(value)
            for key, value in schema.items()
            if not (key in {"title", "description"} and isinstance(value, str))
        }
    return [_without_prose(one) for one in schema] if isinstance(schema, list) else schema


def _state_files() -> list[str]:
    """Return the files of the state folder, as documented."""
    section = _OPERATIONS.read_text("utf-8").partition("\n## State\n")[2].partition("\n\n**")[0]
    return sorted(re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE))


def _numbered_starts() -> list[list[str]]:
    """Return the files that numbers of starts are taken from, and the keys of that of the reserved ones."""
    with TemporaryDirectory() as folder:
        run = starts.ReservedStarts(Path(folder), 0)
        keys = sorted(json.loads((Path(folder) / starts.STARTS).read_text("ascii")))
        run.close()
    return [[starts.BOOTS, starts.ENGINE, starts.STARTS], keys]


def _alarm_fields() -> list[str]:
    """Return the keys of an alarm in the instance index."""
    stored: list[str] = []

    class Index:
        def keep_alarm(self, _source: int, _number: int, text: str) -> None:
            stored.extend(json.loads(text))

    alarm = AlarmRecord(1, 1, "memoryAlarm", "memoryAlarm", Severity.MAJOR, None, "text", "gw.1.1", 1)
    alarms.store_alarm(typing.cast("InstanceIndex", Index()), alarm)
    return stored


def stored_forms() -> Iterator[StoredForm]:
    """Yield the form of each kind of file that another version of the gateway may read."""
    of_log = "readers of gateway/eventlog take older records as they are: fields are only added"
    shape = shape_of
    yield StoredForm(
        *("records of the event log", record.VERSION, "gateway.eventlog.record.VERSION", of_log),
        lambda: [shape(record.LogRecord, CommitLine), sorted(record.AUDITED_KINDS)],
    )
    yield StoredForm(
        *("files of the lake", record.VERSION, "gateway.eventlog.record.VERSION", of_log),
        lambda: [list(parquet.COLUMNS.items()), sorted(parquet.FILE_METADATA)],
    )
    yield StoredForm(
        *("LOG", segment.VERSION, "gateway.eventlog.segment.VERSION", "gateway.eventlog.segment.LogIdentity"),
        lambda: shape(segment.LogIdentity),
    )
    yield StoredForm(
        *("signed statements", 1, "the tag of the struct", "gateway/eventlog/audit_statements.py"),
        lambda: shape(audit_statements.Head, audit_statements.Deletion, audit_statements.Adoption),
    )
    yield StoredForm(
        *(
            "the state folder",
            STATE_VERSION,
            "gateway.state_folder.VERSION",
            "gateway.state_folder.MIGRATIONS",
        ),
        lambda: [_state_files(), *_numbered_starts()],
    )
    yield StoredForm(
        "the instance index",
        *(len(instance_file.STEPS), "the number of gateway.inventory.instance_file.STEPS"),
        "a further script in STEPS; alarms in gateway.inventory.alarms.restored_alarms",
        lambda: [[" ".join(step.split()) for step in instance_file.STEPS], _alarm_fields(), shape(Quoted)],
    )
    yield StoredForm(
        "notifications.json",
        *(saved.VERSION, "gateway.snmp.notifications.saved.VERSION", "gateway/snmp/notifications/saved.py"),
        lambda: _without_prose(TypeAdapter(saved.SavedNotifications).json_schema()),
    )
    yield StoredForm(
        *("log-place", ownership.PLACE_VERSION, "gateway.eventlog.ownership.PLACE_VERSION", "read_place"),
        lambda: shape(ownership.LogPlace),
    )
    yield StoredForm(
        *("event-counts", event_counts.VERSION, "gateway.service.state.event_counts.VERSION", "_read"),
        lambda: shape(event_counts.Cores),
    )
    yield StoredForm(
        *(
            "counter-offsets.json",
            1,
            "gateway.service.processes.objects.CounterOffsets",
            "CounterOffsetsFile",
        ),
        lambda: shape(objects.CounterOffsets),
    )
    for name, model in (
        ("jmx-events.json", jmx._Place),  # noqa: SLF001  its form is pinned here
        ("snmp-engine.json", snmp_security.StoredEngine),
        ("snmp-users.json", snmp_security._StoredUsers),  # noqa: SLF001  likewise
        ("provisional.oids.yaml", OidRegistry),
        ("the manifest of a backup", backup.Manifest),
    ):
        field = model.model_fields.get("version") or model.model_fields["format"]
        yield StoredForm(
            *(name, field.default, f"the field of {model.__module__}.{model.__name__}", model.__module__),
            partial(shape, model),
        )
    # Not running.yaml, running-files.json and running-addresses.json, which each start replaces before they
    # are read.
    yield StoredForm(
        "cached classes",
        *(
            1,
            "gateway.service.state.cached_schemas._CLASSES_LINE",
            "a file that cannot be read is made again",
        ),
        lambda: [shape(ClassSchema), cached_schemas._CLASSES_LINE, cached_schemas._DEFINITIONS_LINE],  # noqa: SLF001  likewise
    )
    yield StoredForm(
        *("replay windows", 1, "gateway.protection.replay_file._MAGIC", "a file without it is not used"),
        lambda: [
            replay_file._MAGIC.decode(),  # noqa: SLF001  likewise
            *(form.format for form in (replay_file._HEAD, *replay_file._FORMS.values())),  # noqa: SLF001
        ],
    )
    yield StoredForm(
        *("key rings", 1, "JSON Web Keys (RFC 7517), without a version", "gateway.protection.keys.read_ring"),
        lambda: shape(keys._JwkSet),  # noqa: SLF001  likewise
    )
    yield StoredForm(
        *("captures", capture_file.VERSION, "gateway.links.capture_file.VERSION", "docs/capture.md"),
        lambda: shape(capture_file.CaptureHead),
    )
