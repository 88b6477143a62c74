"""Durable writing of files: after any failure a file has its whole old content or its whole new one.

The new content is written beside the file, brought to the disk, and put in its place by one rename; then the
folder is brought to the disk too. A power cut leaves at most a hidden draft, which no program reads.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600
"""The mode of files that only the gateway's user may read; the default."""

PUBLIC = 0o644
"""The mode of files that others may read, too."""


def write_durably(path: Path, text: str, mode: int = PRIVATE) -> None:
    """Replace a file, or make it.

    Raises:
        OSError: it cannot be written; it has the old text then.
    """
    with replaced_durably(path, mode) as draft:
        draft.write(text.encode())


def create_durably(path: Path, text: str) -> None:
    """Make a file, mode 0600; one that is there stays as it is, also if it was made a moment ago.

    Raises:
        OSError: it cannot be made.
    """
    with _draft(path, PRIVATE) as (draft, file):
        file.write(text.encode())
        _sync(file)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    sync_folder(path.parent)


@contextmanager
def replaced_durably(path: Path, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Yield a file for the new content of ``path``, which it replaces when the block ends without error.

    Raises:
        OSError: it cannot be written; ``path`` is as it was then.
    """
    with _draft(path, mode) as (draft, file):
        yield file
        _sync(file)
        draft.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk.

    Raises:
        OSError: it cannot be done.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _draft(path: Path, mode: int) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield a new file beside ``path``; it is removed at the end unless it was renamed."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # whatever the umask is
            yield draft, file
    finally:
        draft.unlink(missing_ok=True)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
