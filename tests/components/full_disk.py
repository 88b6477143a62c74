"""Full disks: a simulation for this process, and small file systems that are mounted by root."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@contextmanager
def full_disk(octets: int = 0) -> Iterator[None]:
    """Limit the size of each file that this process writes to so many octets; existing files can be read."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def unreadable_disk(file: Path) -> Iterator[None]:
    """Let reads of a file fail that this process has open, as on a damaged disk; its name is not touched."""
    found = [
        int(link.name)
        for link in Path("/proc/self/fd").iterdir()
        if link.is_symlink() and link.readlink() == file.resolve()
    ]
    assert found, f"{file} is not open"
    kept = {descriptor: os.dup(descriptor) for descriptor in found}
    write_only = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in kept:
            os.dup2(write_only, descriptor, inheritable=False)
        yield
    finally:
        for descriptor, was in kept.items():
            os.dup2(was, descriptor, inheritable=False)
            os.close(was)
        os.close(write_only)


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A mounted file system of a few MiB.

    Attributes:
        folder: where it is mounted.
        filler: the file that fills it.
    """

    folder: Path

    @property
    def filler(self) -> Path:
        """The file that fills it."""
        return self.folder / "filler"

    def fill(self) -> None:
        """Leave no octet to anyone."""
        with self.filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def empty(self) -> None:
        """Remove what filled it."""
        self.filler.unlink()

    def remount(self, mode: str) -> None:
        """Make it read-only (``ro``), which needs that no file is open for writing, or not (``rw``)."""
        subprocess.run(["mount", "-o", f"remount,{mode}", self.folder], check=True)  # noqa: S603, S607

    def turn_read_only(self) -> None:
        """Have the system take it for damaged: nothing can be written, also by who has files open (ext4)."""
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
        device = next(line.split()[0] for line in lines if line.split()[1] == str(self.folder))
        Path("/sys/fs/ext4", os.path.basename(device), "trigger_fs_error").write_text("test")  # noqa: PTH119


@contextmanager
def small_disk(folder: Path, octets: int) -> Iterator[SmallDisk]:
    """Mount a file system in memory at ``folder``, which is made; the user must be root."""
    with _mounted(folder, "-t", "tmpfs", "-o", f"size={octets}", "tmpfs"):
        yield SmallDisk(folder)


@contextmanager
def small_ext4_disk(folder: Path, octets: int) -> Iterator[SmallDisk]:
    """Mount a file system in a file beside ``folder``, which is made; the user must be root."""
    image = folder.with_name(f"{folder.name}.ext4")
    with image.open("wb") as file:
        file.truncate(octets)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)  # noqa: S603, S607
    with _mounted(folder, "-o", "loop,errors=remount-ro", str(image)):
        yield SmallDisk(folder)


@contextmanager
def _mounted(folder: Path, *words: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *words, folder], capture_output=True, text=True, check=False)  # noqa: S603, S607
    assert not done.returncode, f"run these tests as root, who may mount: {done.stderr}"
    try:
        folder.chmod(0o700)
        yield
    finally:
        # Lazily: what a test has left may run for some moments.
        subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S603, S607
