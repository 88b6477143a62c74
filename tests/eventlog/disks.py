"""Disks that fail, hang, or lose their power."""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.eventlog.disk import Disk

PAGE = 512


class WatchedDisk(Disk):
    """A disk that calls `before` and `after` around each of its calls; both may raise."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}

    def before(self, call: str, path: Path) -> None:
        """Act before the call."""

    def after(self, call: str, path: Path) -> None:
        """Act after the call."""

    @contextmanager
    def _reported(self, call: str, path: Path) -> Iterator[None]:
        self.before(call, path)
        yield
        self.after(call, path)

    def make_folder(self, path: Path) -> None:
        if not path.is_dir():
            with self._reported("make_folder", path):
                super().make_folder(path)

    def create(self, path: Path) -> int:
        self.before("create", path)
        descriptor = super().create(path)
        self._paths[descriptor] = path
        try:
            self.after("create", path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray]) -> None:
        for octets in pieces:
            half = len(octets) // 2
            for part in (octets[:half], octets[half:]):
                with self._reported("write", self._paths[descriptor]):
                    super().write(descriptor, (part,))

    def sync(self, descriptor: int) -> None:
        with self._reported("sync", self._paths[descriptor]):
            super().sync(descriptor)

    def shorten(self, path: Path, octets: int) -> None:
        with self._reported("shorten", path):
            super().shorten(path, octets)

    def copy_tail(self, path: Path, offset: int, target: Path) -> None:
        with self._reported("copy_tail", path):
            super().copy_tail(path, offset, target)

    def rename(self, path: Path, target: Path) -> None:
        with self._reported("rename", path):
            super().rename(path, target)

    def delete(self, path: Path) -> None:
        with self._reported("delete", path):
            super().delete(path)

    def replace_text(self, path: Path, text: str) -> None:
        with self._reported("replace_text", path):
            super().replace_text(path, text)


class FailingDisk(WatchedDisk):
    """A disk that fails while ``fails`` is true of a call: before it (``sync``) or after (``sync done``)."""

    def __init__(self, fails: Callable[[str], bool], error: int = errno.EIO) -> None:
        super().__init__()
        self.fails = fails
        self.error = error
        self.failures = 0

    def before(self, call: str, path: Path) -> None:
        if self.fails(call):
            self.failures += 1
            raise OSError(self.error, os.strerror(self.error), str(path))

    def after(self, call: str, path: Path) -> None:
        self.before(f"{call} done", path)

    def check_free(self, folder: Path, octets: int) -> None:
        self.before("check_free", folder)
        super().check_free(folder, octets)


class HangingDisk(WatchedDisk):
    """A disk that answers no sync between `hang` and `answer`."""

    def __init__(self) -> None:
        super().__init__()
        self._answers = threading.Event()
        self._answers.set()

    def hang(self) -> None:
        self._answers.clear()

    def answer(self) -> None:
        self._answers.set()

    def sync(self, descriptor: int) -> None:
        self._answers.wait()
        super().sync(descriptor)


@dataclass(frozen=True)
class Image:
    """The content of a disk when its power was cut.

    Attributes:
        folder: a copy of that content.
        acknowledged: seq of the last record that had been reported as being on the disk.
        instant: for messages.
    """

    folder: Path
    acknowledged: int
    instant: str


class PowerCutDisk(WatchedDisk):
    """A disk that makes images of its content after a power cut at an instant.

    Everything that was synced is there. Of everything that was written since, any part is there: none, some,
    with holes of zeros, in whatever order the disk took it. One sync in twenty fails, and its octets are
    forgotten: no later sync of the same file brings them to the disk.
    """

    def __init__(
        self, folder: Path, images: Path, choice: random.Random, acknowledged: Callable[[], int], every: int
    ) -> None:
        super().__init__()
        self.made: list[Image] = []
        self._folder = folder
        self._images = images
        self._choice = choice
        self._acknowledged = acknowledged
        self._every = every
        self._synced: dict[str, int] = {}
        self._forgotten: set[int] = set()
        self._failed_last = False

    def before(self, call: str, path: Path) -> None:
        self._perhaps(f"before {call} of {path.name}")

    def sync(self, descriptor: int) -> None:
        path = self._paths[descriptor]
        if not self._failed_last and self._choice.randrange(20) == 0:
            self._forgotten.add(path.stat().st_ino)
        self._failed_last = path.stat().st_ino in self._forgotten
        if self._failed_last:
            raise OSError(errno.EIO, "forgotten", str(path))
        super().sync(descriptor)

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        self._forgotten.discard(os.fstat(descriptor).st_ino)
        self._synced.pop(_seq(path), None)
        return descriptor

    def after(self, call: str, path: Path) -> None:
        if call == "sync":
            self._synced[_seq(path)] = path.stat().st_size
        self._perhaps(f"after {call} of {path.name}")

    def _perhaps(self, instant: str) -> None:
        if self._choice.randrange(self._every):
            return
        acknowledged = self._acknowledged()
        image = self._images / f"{len(self.made)}"
        shutil.copytree(self._folder, image)
        for path in image.glob("segments/*"):
            synced = self._synced.get(_seq(path), 0)
            octets = path.read_bytes()
            path.write_bytes(octets[:synced] + self._remains(octets[synced:]))
        self.made.append(Image(image, acknowledged, instant))

    def _remains(self, octets: bytes) -> bytes:
        choose = self._choice
        rest = bytearray(octets[: choose.choice([0, choose.randint(0, len(octets)), len(octets)])])
        if choose.random() < 0.5:
            for start in range(0, len(rest), PAGE):
                if choose.random() < 0.3:
                    rest[start : start + PAGE] = bytes(len(rest[start : start + PAGE]))
        return bytes(rest)


def _seq(path: Path) -> str:
    return path.name.partition(".")[0]
