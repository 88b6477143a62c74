"""The file of a backup: a tar whose first member says what the others are, with sizes and checksums.

The second is the checksum of the first. They are against damage: whoever can write the file can forge them.

It is read as something that anybody may have made: every member must be a plain file that the manifest
names, and nothing is taken whose name, size or checksum is another than listed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, BinaryIO, Literal

from pydantic import Field, ValidationError, model_validator

from gateway.state_folder import MAX_BOOTS, StateError
from gateway.yaml_documents import StrictModel

MANIFEST, CHECKSUM = "manifest.json", "manifest.sha256"
REQUIRED = frozenset({"VERSION", "identity", "boots"})

MAX_FILES = 10_000
MAX_MANIFEST_OCTETS = 8 * 1024 * 1024
MAX_FILE_OCTETS = 4 * 1024**3

_CHUNK = 1024 * 1024
_MODE = 0o600
_PART = r"[A-Za-z0-9][A-Za-z0-9._+@=-]{0,99}"
NAME = rf"^{_PART}(/{_PART}){{0,3}}$"
"""Of a file in a backup: below the folder, never hidden, never upwards."""


class FileEntry(StrictModel):
    """What one file must be; ``sha256`` in hexadecimal."""

    size: Annotated[int, Field(ge=0, le=MAX_FILE_OCTETS)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(StrictModel):
    """What a backup holds.

    Attributes:
        format: of the backup.
        made: when.
        gateway_version: of the program that made it.
        state_version: of the state folder's layout.
        identity: the gateway's uuid.
        boots: how often it had been started.
        with_secrets: whether ``secrets/`` is in it.
        files: by their names in the state folder.
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
    """Size and checksum of all that can be read."""
    digest = hashlib.sha256()
    while piece := content.read(_CHUNK):
        digest.update(piece)
    return FileEntry(size=content.tell(), sha256=digest.hexdigest())


def checksum_of(manifest: bytes) -> bytes:
    """As ``sha256sum`` writes it."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n".encode()


def write_backup(to: BinaryIO, manifest: Manifest, contents: Mapping[str, BinaryIO]) -> None:
    """Write a backup.

    Args:
        to: the open file.
        manifest: of exactly these files.
        contents: by name, each open at its start.

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
        manifest: what it says it holds; `members` checks it.
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
        """Each file's name and its content in pieces, to be read to the end before the next.

        What was read is right if, and only if, the whole iteration ends without an error.

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
        """One of the members that every backup begins with."""
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
    """Whatever tarfile thinks of hostile octets is one error."""
    try:
        yield
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise StateError(f"{path}: is not a gateway's backup, or is damaged") from error
