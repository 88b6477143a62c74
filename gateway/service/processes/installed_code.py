"""The installed code: whether it was replaced under the running gateway, and can be started in its place.

A process that starts then would have other code than those that run: it may not understand them, and would
show nothing for ever. So the supervisor starts none, and starts the whole gateway again when the files are
complete.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import csv
import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from gateway.service.processes.systemd import MODULE
from gateway.shipped_files import DISTRIBUTION

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 2.0
"""Seconds between two looks at the installed code."""

WHOLE_LOOKS: Final = 3
"""Other code that was seen complete so often, one look after the other, is started."""

TRIAL_SECONDS: Final = 60.0
"""Seconds that other code may take to say its version; also between two trials."""

_PLACE: Final = Path(__file__).parents[3]
_RECORDS: Final = "*.dist-info/RECORD"
_OWN_RECORDS: Final = f"{DISTRIBUTION.replace('-', '_')}-{_RECORDS}"
_Looked: TypeAlias = tuple[tuple[int, int], ...]


class InstalledCode:
    """The code that is installed now, compared with what it was when this object was made.

    Each installed package has a file RECORD with the digest of each of its files, which a package manager
    replaces with them (Recording installed projects, packaging.python.org). A checkout has none, and is never
    other code: who edits it decides when it is used.

    Args:
        place: the folder of the installed packages.
    """

    def __init__(self, place: Path = _PLACE) -> None:
        self._place = place
        self.is_installed = bool(self._own_records())
        self._began_with = self.digest()
        self._looked = self._look()
        self._is_other = False

    def is_other(self) -> bool:
        """Return whether other code is installed now, or none; the files may be incomplete still."""
        if self.is_installed and (look := self._look()) != self._looked:
            self._looked, self._is_other = look, self.digest() != self._began_with
        return self._is_other

    def digest(self) -> str:
        """Return a digest of the code of all packages, by their records."""
        found = hashlib.blake2b(digest_size=16)
        for record in sorted(self._place.glob(_RECORDS)) if self.is_installed else ():
            with contextlib.suppress(OSError):  # it is being replaced
                found.update(record.parent.name.encode() + record.read_bytes())
        return found.hexdigest()

    def is_whole(self) -> bool:
        """Return whether the files of all packages are there, and the gateway's are as recorded."""
        own = self._own_records()
        try:
            return len(own) == 1 and all(
                self._is_as_recorded(*line, reads=record in own)
                for record in self._place.glob(_RECORDS)
                for line in self._lines(record)
            )
        except (OSError, ValueError):
            return False

    def _own_records(self) -> list[Path]:
        return [*self._place.glob(_OWN_RECORDS)]

    def _look(self) -> _Looked:
        """Return what is cheap to see, and differs when packages were replaced."""
        found = []
        for path in (self._place, *self._own_records()):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_ino, status.st_ctime_ns))
        return tuple(found)

    @staticmethod
    def _lines(record: Path) -> Iterator[tuple[str, str, str]]:
        """Yield path, digest and size of the files that a record has both of, in the folder of packages.

        Programs are elsewhere; a package manager may write another interpreter into them.
        """
        with record.open(encoding="utf-8", newline="") as lines:
            for path, digest, size in csv.reader(lines):
                if digest and size and not path.startswith(".."):
                    yield path, digest, size

    def _is_as_recorded(self, name: str, digest: str, size: str, *, reads: bool) -> bool:
        path = self._place / name
        if path.stat().st_size != int(size):
            return False
        if not reads:
            return True
        algorithm, _, wanted = digest.partition("=")
        found = hashlib.new(algorithm, path.read_bytes()).digest()
        return base64.urlsafe_b64encode(found).decode().rstrip("=") == wanted


async def until_other_can_start(code: InstalledCode) -> None:
    """Wait until other code is installed, is complete, and can be started; its troubles are logged."""
    while True:
        while not code.is_other():  # noqa: ASYNC110  nothing says when files are replaced
            await asyncio.sleep(LOOK_SECONDS)
        log.warning(
            "code-replaced", reason="other code is installed; when it is complete, the gateway restarts"
        )
        whole = 0
        while code.is_other() and whole < WHOLE_LOOKS:
            await asyncio.sleep(LOOK_SECONDS)
            whole = whole + 1 if await asyncio.to_thread(code.is_whole) else 0
        if not code.is_other():
            continue
        trouble = await _trouble_of_trial()
        if not trouble:
            return
        log.warning("code-not-started", reason=trouble, advice="install it again, or restart the gateway")
        await asyncio.sleep(TRIAL_SECONDS)


async def _trouble_of_trial() -> str:
    """Return why the installed code cannot be started; empty if it says its version."""
    try:
        trial = await asyncio.create_subprocess_exec(
            *(*MODULE, "--version"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return str(error)
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            _, errors = await trial.communicate()
    except TimeoutError:
        trial.kill()
        await trial.wait()
        return f"it does not say its version within {TRIAL_SECONDS:g} s"
    last = errors.decode(errors="replace").strip().rpartition("\n")[2]
    return f"it ended with {trial.returncode}: {last}" if trial.returncode else ""
