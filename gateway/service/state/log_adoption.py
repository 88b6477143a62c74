"""The way out for a gateway whose folder has a log that it must not continue: a new log begins there.

The former log is completed, and goes into the lake, where it can be read and verified. Until the last step,
which replaces ``LOG``, it is as it was, and the adoption can be tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.clock import Clock
from gateway.eventlog.audit_statements import Adoption, line_of
from gateway.eventlog.committer import SegmentWriter, look
from gateway.eventlog.compaction import Compacted, CompactionError, Compactor
from gateway.eventlog.disk import Disk, EventLogError, try_lock
from gateway.eventlog.ownership import ForeignLogError, LastWriter, LogOwner, check_owner, last_writer
from gateway.eventlog.retention import LogFileSettings, time_text
from gateway.eventlog.segment import (
    VERSION,
    LogIdentity,
    compactable,
    identity_path,
    lake_files,
    list_segments,
    read_identity,
)
from gateway.eventlog.writer import EventLog
from gateway.feed.records import EventLogRecord, EventLogState
from gateway.file_owners import reason_of
from gateway.inventory.instances import InstanceIndex
from gateway.service.state.audit_key import audit_key
from gateway.service.state.restore import LEAST_ROWS, LEAST_SOURCES
from gateway.state_folder import LOG_PLACE, StateFolder

_WRITES: Final = frozenset({EventLogState.WRITING, EventLogState.SLOW, EventLogState.UPKEEP})


@dataclass(frozen=True, slots=True)
class Adopted:
    """The result of an adoption.

    Attributes:
        former: the log that was found, and its owner, in words.
        log_id: the identity of the new log.
    """

    former: str
    log_id: str


def adopt(
    state: StateFolder,
    folder: Path,
    principal: str,
    clock: Clock,
    progress: Callable[[Compacted], None] = lambda _: None,
) -> Adopted | None:
    """Begin a new log in a folder whose log does not belong to this state, but for its first records.

    `record_adoption` writes these; where it fails, the next start of the gateway does.

    Args:
        state: the state folder, locked by the caller.
        folder: the folder of the log.
        principal: who requested it.
        clock: of the gateway.
        progress: called for each segment that went into the lake.

    Returns:
        The result; ``None`` where the gateway can continue the log, and nothing was changed.

    Raises:
        EventLogError, StateError, InstanceIndexError, CompactionError: it cannot be done; ``LOG`` is as it
            was, and the adoption can be tried again.
    """
    with _locked(folder):
        identity = read_identity(folder)
        if identity is None:
            raise EventLogError(f"{folder}: there is no log to adopt: the gateway begins one when it starts")
        try:
            check_owner(folder, LogOwner(state.identity, state.highest_start + 1, state.path / LOG_PLACE))
        except ForeignLogError:
            pass
        else:
            return None
        former = last_writer(folder, identity) or LastWriter("", 0)
        identity = _completed(folder, identity)
        _compact(folder, progress)
        if former.gateway == state.identity and former.boot > state.boots:
            _skip_numbers(state, former.boot)
        log_id = str(uuid.uuid4())
        statement = _statement(state, folder, identity, former, log_id, time_text(clock.now()))
        begun = LogIdentity(
            version=VERSION,
            log_id=log_id,
            # Names of files have a seq and not always the log: no number of this folder is used twice.
            next_seq=identity.next_seq,
            standing_seq=identity.next_seq,
            gateway=state.identity,
            boot=state.boots,
            adopted=statement,
            adopted_by=principal,
        )
        try:
            Disk().replace_text(identity_path(folder), begun.text())
            _give(identity_path(folder), folder)
        except OSError as error:
            raise EventLogError(
                f"{identity_path(folder)}: cannot be written: {reason_of(error, folder)}"
            ) from error
        return Adopted(f"{identity.log_id} of the gateway {former.gateway or '(not known)'}", log_id)


async def record_adoption(state: StateFolder, folder: Path, clock: Clock, settings: LogFileSettings) -> None:
    """Write the first records of a log that was adopted: the start, and the adoption.

    Raises:
        EventLogError: the log cannot be written.
    """
    facts = {"gateway": state.identity, "boot": state.boots}
    trouble: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def stands(log: EventLogRecord) -> None:
        if log.state not in _WRITES and not trouble.done():
            trouble.set_result(log.detail)

    async with EventLog(folder, settings, clock, lambda: iter(()), stands, facts=lambda: facts) as log:
        written = asyncio.ensure_future(log.reached(log.audited[1]))
        # Not longer: while the disk takes nothing the log tries it for ever.
        either: set[asyncio.Future[Any]] = {written, trouble}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not written.done():
            written.cancel()
            raise EventLogError(
                f"{folder}: the log {log.log_id} is begun, and the former one is in the lake, but the first "
                f"records of the new one cannot be written: {trouble.result()}: correct that, and start "
                "the gateway, which writes them"
            )
        await written
    for path in (segment.path for segment in list_segments(folder)):
        _give(path, folder)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        lock = try_lock(folder)
    except OSError as error:
        raise EventLogError(f"{folder}: cannot be locked: {reason_of(error, folder)}") from error
    if lock is None:
        raise EventLogError(f"{folder}: another gateway writes this log: stop it first")
    try:
        yield
    finally:
        os.close(lock)


def _completed(folder: Path, identity: LogIdentity) -> LogIdentity:
    """Complete the segments that the last writer left; return the content of ``LOG`` afterwards."""
    writer = SegmentWriter(folder, identity, Disk(), 0, look(folder).unclosed)
    writer.close()
    if writer.unclosed:
        raise EventLogError(f"the former log cannot be completed: {writer.unclosed_because}")
    return writer.identity


def _compact(folder: Path, progress: Callable[[Compacted], None]) -> None:
    """Make files of the lake of all segments."""
    try:
        with Compactor(folder, wait=True) as compactor:
            for segment in compactable(folder):
                done = compactor.compact(segment)
                if done is not None:
                    progress(done)
        left = list_segments(folder)
    except OSError as error:
        raise EventLogError(f"{error.filename or folder}: {reason_of(error, folder)}") from error
    if left:
        raise CompactionError(f"{left[0].path}: cannot go into the lake: amqp-gateway log verify says why")


def _skip_numbers(state: StateFolder, boot: int) -> None:
    """Skip the numbers that the log has of starts that this state does not know, as a restored state does."""
    with contextlib.closing(InstanceIndex(state.instances, must_exist=state.boots > 0)) as index:
        index.jump_ahead(LEAST_ROWS, LEAST_SOURCES, boot)
    # Last: until then the log is still one of an unknown start, and all of this is done again.
    state.skip_boots(boot)


def _statement(
    state: StateFolder, folder: Path, identity: LogIdentity, former: LastWriter, log_id: str, time: str
) -> str:
    """Return the signed line about the former log, as it is in the lake now."""
    files = [file.first_seq for file in lake_files(folder) if file.log_id == identity.log_id]
    unsigned = Adoption(
        gateway=state.identity,
        log_id=log_id,
        former_log_id=identity.log_id,
        former_gateway=former.gateway,
        first_seq=min(files, default=identity.next_seq),
        seq=identity.next_seq - 1,
        audit=identity.audit,
        hash=identity.audit_hash,
        time=time,
    )
    return line_of(audit_key(state).adoption(unsigned))


def _give(path: Path, folder: Path) -> None:
    """Give a file that root wrote to the owner of the folder."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
