"""The state to which a log belongs: no other gateway continues it, and none that was set back.

``LOG`` names the gateway that writes the log, and the start that opened it last. A log is continued by a
later start of that gateway only. A state that has another uuid, or knows fewer starts, would give event ids,
rows and places in the chain of audited records to other things than those that the log has under them.

The other way round, the state remembers how far its log was (`LogPlace`): a log that was set back to an older
copy would use seqs again.
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gateway.durable_files import FOR_STARTS, write_durably
from gateway.eventlog.disk import EventLogError
from gateway.eventlog.record import RecordKind
from gateway.eventlog.segment import (
    LogIdentity,
    first_line,
    identity_path,
    lake_files,
    list_segments,
    read_identity,
)
from gateway.file_owners import reason_of

PLACE_VERSION: Final = 1
"""The version of the file of a `LogPlace`."""

_MAX_OCTETS: Final = 4096
_MEMORY_MEBIBYTES: Final = 128
_WAY_OUT: Final = (
    "if this gateway is to go on in this folder, `amqp-gateway log adopt` begins a new log there, and keeps "
    "the former one to be read"
)


class ForeignLogError(EventLogError):
    """The log does not belong to this state; the text says what to do."""


@dataclass(frozen=True, slots=True)
class LogOwner:
    """The writer of a log.

    Attributes:
        gateway: the gateway's uuid.
        boot: the number of its start.
        place: the file of its state that has how far it has seen its log (`LogPlace`).
    """

    gateway: str
    boot: int
    place: Path


class LogPlace(msgspec.Struct, frozen=True, kw_only=True):
    """How far a state has seen its log; one file of the state folder.

    Attributes:
        version: the version of the file.
        log_id: the identity of the log.
        next_seq: ``next_seq`` of ``LOG``.
    """

    version: int = PLACE_VERSION
    log_id: str = ""
    next_seq: int = 1


def read_place(path: Path) -> LogPlace:
    """Return the place in the file; an empty one where there is none that can be read."""
    unread = (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
    with contextlib.suppress(*unread), path.open("rb") as file:
        return msgspec.json.decode(file.read(_MAX_OCTETS), type=LogPlace)
    return LogPlace()


def write_place(path: Path, place: LogPlace) -> None:
    """Write the file.

    Raises:
        OSError: it cannot be written.
    """
    write_durably(path, msgspec.json.encode(place).decode() + "\n", leaves=FOR_STARTS)


def check_owner(folder: Path, owner: LogOwner) -> None:
    """Check that a start of a gateway may write the log in ``folder``.

    Args:
        folder: the log's folder; it need not exist.
        owner: the gateway, and the start that is about to write.

    Raises:
        ForeignLogError: the log belongs to another state, or was set back.
        EventLogError: ``LOG`` is damaged, or of a newer version, or cannot be read.
    """
    identity = read_identity(folder)
    if identity is None:
        return
    path, last, place = identity_path(folder), last_writer(folder, identity), read_place(owner.place)
    if last is not None and last.gateway != owner.gateway:
        raise ForeignLogError(
            f"{path}: this log belongs to the gateway {last.gateway[:64]}, and this state to "
            f"{owner.gateway}: give this gateway a log.folder of its own; {_WAY_OUT}"
        )
    if last is not None and last.boot >= owner.boot:
        raise ForeignLogError(
            f"{path}: start {last.boot} of this gateway wrote this log, and its state knows "
            f"{owner.boot - 1} starts: the state was set back, or a copy of it was used. Restore it with "
            f"`amqp-gateway state restore`, which skips used numbers; {_WAY_OUT}"
        )
    if identity.log_id == place.log_id and identity.next_seq < place.next_seq:
        raise ForeignLogError(
            f"{path}: this log ends before seq {place.next_seq}, which its gateway has written: the log was "
            f"set back, and would use numbers again. Put the newer log back; {_WAY_OUT}"
        )


class LastWriter(msgspec.Struct, frozen=True):
    """The last writer of a log: the gateway's uuid, and the number of its start."""

    gateway: str
    boot: int


def last_writer(folder: Path, identity: LogIdentity) -> LastWriter | None:
    """Return the last writer of a log; ``None`` where nothing says who that was.

    Raises:
        EventLogError: the log cannot be read.
    """
    if identity.gateway:
        return LastWriter(identity.gateway, identity.boot)
    # A log of version 1: the first record of each segment names the writer.
    try:
        for segment in reversed(list_segments(folder)):
            with contextlib.suppress(FileNotFoundError):
                if (owner := _owner_in(first_line(segment.path))) is not None:
                    return owner
        files = [file.path for file in lake_files(folder) if file.log_id == identity.log_id]
        return _owner_in_lake(folder, files[-1]) if files else None
    except OSError as error:
        raise EventLogError(
            f"{error.filename or folder}: the event log cannot be read: {reason_of(error, folder)}"
        ) from error


class _Start(msgspec.Struct):
    kind: str
    values: LastWriter


_START: Final = msgspec.json.Decoder(_Start)


def _owner_in(line: bytes) -> LastWriter | None:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        start = _START.decode(line)
        if start.kind == RecordKind.START.value:
            return start.values
    return None


def _owner_in_lake(folder: Path, file: Path) -> LastWriter | None:
    """Return the writer that the first record of a file of the lake names."""
    # Imported here: DuckDB takes 60 MB, and no log of version 2 needs it for this.
    parquet = importlib.import_module("gateway.eventlog.parquet")
    with parquet.database(folder, memory_mebibytes=_MEMORY_MEBIBYTES, threads=1) as opened:
        try:
            found = opened.execute(
                "SELECT \"values\" FROM read_parquet($1) WHERE kind = 'start' ORDER BY seq LIMIT 1",
                [str(file)],
            ).fetchone()
        except Exception:  # noqa: BLE001  whatever is wrong with the file: it does not say who wrote it
            return None
    return None if found is None else _owner_in(b'{"kind":"start","values":%s}' % str(found[0]).encode())
