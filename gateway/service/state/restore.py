"""Restores a state folder from a backup, so that no number is given twice.

Between the backup and the loss of the original, the gateway may have been started, and may have numbered
objects, sources and events; how many is unknown. So the restored gateway skips so many numbers of each kind
that the original cannot have used more. The leap is computed from the time since the backup, so that the same
backup can be restored once more later, and leaps further then.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.durable_files import PRIVATE, sync_folder, write_durably
from gateway.inventory.instances import InstanceIndex
from gateway.service.state.backup import INDEX, REQUIRED, Backup, Manifest, open_backup
from gateway.starts import RESERVED, skip_starts
from gateway.state_folder import (
    AGENTS,
    MAX_BOOTS,
    VERSION,
    StateError,
    StateFolder,
    check_owners,
    held,
    is_empty,
)

LEAST_BOOTS, LEAST_ROWS, LEAST_SOURCES = 100_000, 1_000_000, 1_000
"""The least numbers that are skipped, even with a wrong clock.

The starts are those of seven hours in which the gateway is killed every `RUN_SECONDS`.
"""

RUN_SECONDS = 5
"""The least seconds of a run of the gateway that is killed and started again, as service managers do it.

It leaves the numbers unused that it had reserved (`gateway.starts.RESERVED`).
"""

ROWS_A_SECOND = 100
"""Rows of one class that are skipped for each second since the backup.

It is twenty times the average that a busy broker's connections need.
"""

MAX_ROWS = 2**30
"""The largest leap of rows, half of all row numbers: a larger one would end near its beginning."""

_SECONDS_AN_HOUR = 3600
_VERSION_UNTIL_COMPLETE = ".VERSION"


@dataclass(frozen=True, slots=True)
class Leap:
    """The numbers that are skipped: of starts, of rows of each class, of sources."""

    boots: int
    rows: int
    sources: int

    @classmethod
    def over(cls, time: dt.timedelta) -> Leap:
        """Return the leap over all numbers that a gateway can have used in ``time``.

        No time has passed where a clock was set back.
        """
        seconds = max(0, int(time.total_seconds()))
        return cls(
            boots=LEAST_BOOTS + RESERVED * seconds // RUN_SECONDS,
            rows=min(LEAST_ROWS + ROWS_A_SECOND * seconds, MAX_ROWS),
            sources=LEAST_SOURCES + seconds // _SECONDS_AN_HOUR,
        )


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore.

    Attributes:
        manifest: the manifest of the backup.
        boots: the number of starts from which the next start counts on.
        leap: the numbers that were skipped.
        aside: the place of the previous folder, if there was one.
    """

    manifest: Manifest
    boots: int
    leap: Leap
    aside: Path | None


def restore(
    file: Path,
    folder: Path,
    now: dt.datetime,
    *,
    replace: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Restored:
    """Make the state folder ``folder`` from the backup ``file``.

    Args:
        file: a backup.
        folder: missing or empty, unless ``replace``.
        now: the time, with its zone.
        replace: a folder that holds something is kept beside, under a name with the time.
        progress: called with the next step.

    Raises:
        StateError: the backup is damaged or newer than this gateway, the folder is in use or not empty, or
            cannot be written. It is as it was before then.
        InstanceIndexError: the backup's index cannot be used; likewise.
    """
    with open_backup(file) as backup:
        manifest = backup.manifest
        if manifest.state_version > VERSION:
            raise StateError(
                f"{file}: state of version {manifest.state_version}, this gateway knows {VERSION}: "
                "use the gateway that wrote it, or a newer one"
            )
        leap = Leap.over(now - manifest.made)
        boots = manifest.boots + leap.boots
        if boots >= MAX_BOOTS:
            raise StateError(
                f"{file}: its gateway cannot be started often enough: make a new one with `init`"
            )
        aside = None
        _check_place(folder, replace=replace)
        with _taken(folder):
            if is_empty(folder):
                _fill(folder, folder.stat(), backup, boots, leap, progress)
            else:
                _check_place(folder, replace=replace)
                aside = _take_the_place(folder, backup, boots, leap, now, progress)
        return Restored(manifest, boots, leap, aside)


def _check_place(folder: Path, *, replace: bool) -> None:
    """Refuse a folder that cannot become a state folder, before anything is made there."""
    try:
        if not folder.exists() or is_empty(folder):
            return
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise StateError(f"{folder}: cannot be read: {error.strerror}") from error
    if not replace:
        raise StateError(
            f"{folder}: is not empty: with --replace the backup takes its place, and what is there is kept "
            "beside it"
        )
    if names.isdisjoint(REQUIRED | {INDEX}):
        raise StateError(f"{folder}: holds something else than a gateway's state: it is not replaced")


@contextlib.contextmanager
def _taken(folder: Path) -> Iterator[None]:
    """Hold the folder alone within the block; make it if missing, and then remove it after a failure."""
    missing = not folder.exists()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{folder}: cannot be made: {error.strerror}") from error
    try:
        check_owners(folder)
        with held(folder, patience_seconds=0):
            yield
    except BaseException:
        if missing:
            with contextlib.suppress(OSError):
                (folder / "LOCK").unlink(missing_ok=True)
                folder.rmdir()
        raise


def _take_the_place(
    folder: Path, backup: Backup, boots: int, leap: Leap, now: dt.datetime, progress: Callable[[str], None]
) -> Path:
    """Fill a folder beside, and exchange it for the existing one; return the new place of that one."""
    aside = folder.with_name(f"{folder.name}.replaced-{now:%Y%m%dT%H%M%SZ}")
    staging = folder.with_name(f".{folder.name}.restoring-{secrets.token_hex(4)}")
    if aside.exists():
        raise StateError(f"{aside}: is there already: wait a second, and say it again")
    try:
        staging.mkdir(mode=0o700)
        _fill(staging, folder.stat(), backup, boots, leap, progress)
        folder.rename(aside)
        try:
            staging.rename(folder)
        except OSError:
            aside.rename(folder)
            raise
        sync_folder(folder.parent)
    except OSError as error:
        raise StateError(
            f"{folder}: cannot be replaced: {error.strerror}: where it is a mounted volume, empty it, and "
            "restore without --replace"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return aside


def _fill(
    folder: Path,
    owner: os.stat_result,
    backup: Backup,
    boots: int,
    leap: Leap,
    progress: Callable[[str], None],
) -> None:
    """Write everything into an empty folder, ``VERSION`` last: until then it cannot be used."""
    manifest = backup.manifest
    try:
        for name, pieces in backup.members():
            progress(f"{name}, {manifest.files[name].size:,} bytes")
            _write(folder / (_VERSION_UNTIL_COMPLETE if name == "VERSION" else name), pieces)
        progress("row numbers, checked and advanced")
        with contextlib.closing(InstanceIndex(folder / INDEX, must_exist=INDEX in manifest.files)) as index:
            index.jump_ahead(leap.rows, leap.sources, boots)
        write_durably(folder / "boots", f"{boots}\n")
        skip_starts(folder, boots, leap.boots)
        _give(folder, owner)
        for inner in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            sync_folder(inner)
        (folder / _VERSION_UNTIL_COMPLETE).rename(folder / "VERSION")
        sync_folder(folder)
        state = StateFolder(folder)
        _check(state, manifest)
        # A gateway of before would not read the numbers that were skipped just now.
        state.migrate()
    except BaseException as error:
        _empty(folder)
        if isinstance(error, OSError):
            raise StateError(f"{folder}: cannot be written: {error.strerror}") from error
        raise


def _check(state: StateFolder, manifest: Manifest) -> None:
    if (state.read_version(), state.identity) != (manifest.state_version, manifest.identity):
        raise StateError(f"{state.path}: the backup's manifest is another gateway's than its files")


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(descriptor)


def _give(folder: Path, owner: os.stat_result) -> None:
    """Give the files that root restored to the owner of the folder."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _empty(folder: Path) -> None:
    """Delete everything that was written, so that the folder is as it was: empty."""
    for path in folder.iterdir():
        if path.is_dir() and path.name not in {"lost+found", AGENTS}:
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file() and path.name != "LOCK":
            path.unlink(missing_ok=True)
