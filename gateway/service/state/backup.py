"""A backup of the state folder: one file, made also while the gateway runs.

It is a tar whose first member, the manifest, lists the others with sizes and checksums; the second is the
checksum of the first. Checksums protect against damage, not against a forger who can write the file. A backup
is read as a file of unknown origin: every member must be a plain file that the manifest names, and nothing is
taken whose name, size or checksum is another than listed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, BinaryIO, Literal

from pydantic import Field, ValidationError, model_validator

from gateway.config.files import CAPTURES
from gateway.durable_files import RESERVE, replaced_durably
from gateway.file_owners import reason_of
from gateway.inventory.instance_file import copy_index
from gateway.shipped_files import version
from gateway.starts import STARTS
from gateway.state_folder import (
    AGENTS,
    COUNTER_OFFSETS,
    EVENT_COUNTS,
    FEED_PLACE,
    FEED_SOCKET,
    MAX_BOOTS,
    REPLAY,
    RUNNING,
    RUNNING_ADDRESSES,
    RUNNING_FILES,
    SESSION_LOGS,
    StateError,
    StateFolder,
)
from gateway.yaml_documents import StrictModel

INDEX = "instances.sqlite3"
SECRETS = "secrets"

_LEFT_OUT = frozenset(
    {
        "LOCK",
        AGENTS,
        COUNTER_OFFSETS,
        EVENT_COUNTS,
        FEED_PLACE,
        FEED_SOCKET,
        "feed.objects",
        "log",
        SESSION_LOGS,
        CAPTURES,
        "lost+found",
        REPLAY,
        RUNNING,
        RUNNING_ADDRESSES,
        RUNNING_FILES,
        RESERVE,
        STARTS,
    }
    | {INDEX, f"{INDEX}-wal", f"{INDEX}-shm"}
)
"""Names in the state folder that a backup leaves out.

The index is copied by its own means; logs and captures are no state, and have their own lives.
"""


@dataclass(frozen=True, slots=True)
class BackedUp:
    """The result of a backup.

    Attributes:
        manifest: the manifest of the file.
        octets: the size of the file, in bytes.
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
    """Write a backup, mode 0600; the file exists only once it is complete and on the disk.

    Every file of the folder is always replaced whole, so each is in the backup as it was at one
    moment; the index is, too. They need not be the same moment: nothing in one depends on another that could
    not be a little older or newer.

    Args:
        state: the folder; a gateway may run on it.
        to: the file.
        now: the time, with its zone.
        with_secrets: whether generated secrets are in it.
        replace: whether ``to`` may exist already.
        progress: called with the pages of the index that are done, and with all.

    Raises:
        StateError: the folder cannot be read, or the file not be written.
        InstanceIndexError: the index is damaged, or cannot be read.
    """
    if os.path.lexists(to) and not replace:
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
                gateway_version=version(),
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
    """Return the files of a state folder without the index, each read once, and the names left out."""
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
            raise StateError(f"{path}: cannot be read: {reason_of(error, folder)}") from error
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


MANIFEST, CHECKSUM = "manifest.json", "manifest.sha256"
REQUIRED = frozenset({"VERSION", "identity", "boots"})

MAX_FILES = 10_000
MAX_MANIFEST_OCTETS = 8 * 1024 * 1024
MAX_FILE_OCTETS = 4 * 1024**3

_CHUNK = 1024 * 1024
_MODE = 0o600
_PART = r"[A-Za-z0-9][A-Za-z0-9._+@=-]{0,99}"
NAME = rf"^{_PART}(/{_PART}){{0,3}}$"
"""The pattern of a file's name in a backup: below the folder, never hidden, never upwards."""


class FileEntry(StrictModel):
    """The required size and checksum of one file; ``sha256`` in hexadecimal."""

    size: Annotated[int, Field(ge=0, le=MAX_FILE_OCTETS)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(StrictModel):
    """The content of a backup.

    Attributes:
        format: the format of the backup.
        made: the time of the backup.
        gateway_version: the version of the program that made it.
        state_version: the version of the state folder's layout.
        identity: the gateway's uuid.
        boots: the number of starts of the gateway before.
        with_secrets: whether ``secrets/`` is in it.
        files: the files by their names in the state folder.
    """

    format: Literal[1] = 1
    made: dt.datetime
    gateway_version: Annotated[str, Field(max_length=100)]
    state_version: Annotated[int, Field(ge=1)]
    identity: Annotated[str, Field(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    boots: Annotated[int, Field(ge=0, lt=MAX_BOOTS)]
    with_secrets: bool
    files: Annotated[
        dict[Annotated[str, Field(pattern=NAME)], FileEntry], Field(min_length=1, max_length=MAX_FILES)
    ]

    @model_validator(mode="after")
    def _complete(self) -> Manifest:
        missing = REQUIRED - self.files.keys()
        if missing:
            raise ValueError(f"lacks {', '.join(sorted(missing))}")
        if not self.files.keys().isdisjoint({MANIFEST, CHECKSUM}):
            raise ValueError("names itself")
        if self.made.tzinfo is None:
            raise ValueError("made: lacks its time zone")
        return self


def entry_of(content: BinaryIO) -> FileEntry:
    """Return size and checksum of all that can be read from ``content``."""
    digest = hashlib.sha256()
    while piece := content.read(_CHUNK):
        digest.update(piece)
    return FileEntry(size=content.tell(), sha256=digest.hexdigest())


def checksum_of(manifest: bytes) -> bytes:
    """Return the checksum of the manifest, as ``sha256sum`` writes it."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n".encode()


def write_backup(to: BinaryIO, manifest: Manifest, contents: Mapping[str, BinaryIO]) -> None:
    """Write a backup.

    Args:
        to: the open file.
        manifest: the manifest of exactly these files.
        contents: the files by name, each open at its start.

    Raises:
        OSError: it cannot be written.
    """
    time = int(manifest.made.timestamp())
    with tarfile.open(fileobj=to, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        text = manifest.model_dump_json(indent=1).encode()
        for name, octets in ((MANIFEST, text), (CHECKSUM, checksum_of(text))):
            tar.addfile(_header(name, len(octets), time), io.BytesIO(octets))
        for name, entry in manifest.files.items():
            tar.addfile(_header(name, entry.size, time), contents[name])


class Backup:
    """An open backup whose manifest was read.

    Attributes:
        manifest: the stated content of the backup; `members` checks it.
    """

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self._path = path
        self._tar = tar
        text = self._first(MANIFEST)
        if self._first(CHECKSUM) != checksum_of(text):
            raise StateError(f"{path}: its manifest is not what was written: the file is damaged")
        try:
            self.manifest = Manifest.model_validate_json(text)
        except ValidationError as error:
            first_error = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first_error["loc"])
            raise StateError(f"{path}: manifest: {place}: {first_error['msg']}") from error

    def members(self) -> Iterator[tuple[str, Iterable[bytes]]]:
        """Yield each file's name and its content in pieces, to be read to the end before the next.

        The content is right if, and only if, the whole iteration ends without an error.

        Raises:
            StateError: a file is not what the manifest says, is missing, or too many.
        """
        missing = dict(self.manifest.files)
        with _explained(self._path):
            while (member := self._tar.next()) is not None:
                entry = missing.pop(member.name, None)
                if entry is None or not member.isreg() or member.issparse():
                    raise StateError(
                        f"{self._path}: holds what its manifest does not name: {member.name!r:.80}"
                    )
                if member.size != entry.size:
                    raise self._is_not(member.name)
                yield member.name, self._pieces(member, entry)
        if missing:
            raise StateError(f"{self._path}: is cut off: it lacks {', '.join(sorted(missing)[:3])}")

    def _first(self, name: str) -> bytes:
        """Read one of the members with which every backup begins."""
        with _explained(self._path):
            member = self._tar.next()
            if member is None or member.name != name or not member.isreg():
                raise StateError(f"{self._path}: is not a gateway's backup")
            if member.size > MAX_MANIFEST_OCTETS:
                raise StateError(f"{self._path}: its {name} is too long")
            return _content(self._tar, member).read()

    def _pieces(self, member: tarfile.TarInfo, entry: FileEntry) -> Iterator[bytes]:
        digest, left = hashlib.sha256(), entry.size
        content = _content(self._tar, member)
        while left:
            with _explained(self._path):
                piece = content.read(min(left, _CHUNK))
            if not piece:
                raise StateError(f"{self._path}: is cut off in {member.name}")
            digest.update(piece)
            left -= len(piece)
            yield piece
        if digest.hexdigest() != entry.sha256:
            raise self._is_not(member.name)

    def _is_not(self, name: str) -> StateError:
        return StateError(f"{self._path}: {name} is not what was backed up: the file is damaged")


@contextmanager
def open_backup(path: Path) -> Iterator[Backup]:
    """Open a backup and read its manifest.

    Raises:
        StateError: it cannot be read, or is not a backup.
    """
    with _explained(path):
        file = path.open("rb")
    with file:
        with _explained(path):
            tar = tarfile.open(fileobj=file, mode="r|")  # noqa: SIM115  closed below, not where errors are explained
        with tar:
            yield Backup(path, tar)


def _header(name: str, size: int, time: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mtime, header.mode = size, time, _MODE
    return header


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    assert content is not None, "a plain file has content"
    return content


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn any error of reading, or of tarfile about hostile input, into a `StateError`."""
    try:
        yield
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise StateError(f"{path}: is not a gateway's backup, or is damaged") from error
