"""A backup of the state folder: one file, made also while the gateway runs."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import io
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gateway.config.files import CAPTURES
from gateway.durable_files import replaced_durably
from gateway.inventory.instance_file import copy_index
from gateway.service.processes.running_configuration import FILE as RUNNING
from gateway.service.sources.session_logs import FOLDER as SESSION_LOGS
from gateway.service.state.backup_file import MAX_FILE_OCTETS, NAME, Manifest, entry_of, write_backup
from gateway.state_folder import AGENTS, StateError, StateFolder

INDEX = "instances.sqlite3"
SECRETS = "secrets"

_LEFT_OUT = frozenset(
    {"LOCK", AGENTS, "feed.sock", "feed.objects", "log", SESSION_LOGS, CAPTURES, "lost+found", RUNNING}
    | {INDEX, f"{INDEX}-wal", f"{INDEX}-shm"}
)
"""Of the folder itself. The index is copied by its own means; logs and captures are no state, and have their
own lives.
"""


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What a backup got.

    Attributes:
        manifest: of the file.
        octets: of the file.
        left_out: files of the folder whose names no gateway gave, so that they are not in the backup.
    """

    manifest: Manifest
    octets: int
    left_out: tuple[str, ...]


def back_up(
    state: StateFolder,
    to: Path,
    now: dt.datetime,
    *,
    with_secrets: bool = True,
    replace: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _pages: None,
) -> BackedUp:
    """Write a backup, mode 0600; the file is there when it is complete and on the disk, and not before.

    Every file of the folder is replaced whole by whoever writes it, so each is in the backup as it was at one
    moment; the index is, too. They need not be the same moment: nothing in one depends on another that could
    not be a little older or newer.

    Args:
        state: the folder; a gateway may run on it.
        to: the file.
        now: the time, with its zone.
        with_secrets: whether what was generated as a secret is in it.
        replace: whether ``to`` may be there already.
        progress: called with pages of the index done, and in all.

    Raises:
        StateError: the folder cannot be read, or the file not be written.
        InstanceIndexError: the index is damaged, or cannot be read.
    """
    if to.exists() and not replace:
        raise StateError(f"{to}: is there already: take another name, or say --replace")
    boots = state.boots
    with ExitStack() as stack:
        contents, left_out = _contents(state.path, stack, with_secrets=with_secrets)
        try:
            if boots or state.instances.exists():
                folder = stack.enter_context(
                    tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}.")
                )
                copy_index(state.instances, Path(folder) / INDEX, progress)
                contents[INDEX] = stack.enter_context((Path(folder) / INDEX).open("rb"))
            manifest = Manifest(
                made=now,
                gateway_version=importlib.metadata.version("amqp-management-gateway"),
                state_version=state.read_version(),
                identity=state.identity,
                boots=boots,
                with_secrets=with_secrets,
                files={name: entry_of(content) for name, content in contents.items()},
            )
            for content in contents.values():
                content.seek(0)
            with replaced_durably(to) as file:
                write_backup(file, manifest, contents)
                octets = file.tell()
        except OSError as error:
            raise StateError(f"{to}: cannot be written: {error.strerror}") from error
    return BackedUp(manifest, octets, left_out)


def _contents(
    folder: Path, stack: ExitStack, *, with_secrets: bool
) -> tuple[dict[str, BinaryIO], tuple[str, ...]]:
    """The files of a state folder but for the index, each read once, and the names that are not taken."""
    contents: dict[str, BinaryIO] = {}
    left_out = []
    for path in sorted(_files(folder, with_secrets=with_secrets)):
        name = path.relative_to(folder).as_posix()
        if not re.fullmatch(NAME, name):
            left_out.append(name)
            continue
        try:
            if path.stat().st_size > MAX_FILE_OCTETS:
                raise StateError(f"{path}: is too long to be state of the gateway: move it away")
            contents[name] = stack.enter_context(io.BytesIO(path.read_bytes()))
        except FileNotFoundError:
            continue  # a draft that has become a file meanwhile
        except OSError as error:
            raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    return contents, tuple(left_out)


def _files(folder: Path, *, with_secrets: bool) -> Iterator[Path]:
    skipped = _LEFT_OUT if with_secrets else _LEFT_OUT | {SECRETS}
    for path in folder.iterdir():
        if path.name in skipped or path.name.startswith("."):
            continue
        if path.is_dir():
            yield from (inner for inner in path.rglob("[!.]*") if inner.is_file())
        elif path.is_file():
            yield path
