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
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.systemd import MODULE
from gateway.shipped_files import DISTRIBUTION

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 2.0
"""Seconds between two looks at the installed code."""

WHOLE_LOOKS: Final = 3
"""Other code that was seen complete so often, one look after the other, is started."""

TRIAL_SECONDS: Final = 60.0
"""Seconds that a trial of other code may take; also between two trials, and between two reports."""

SETTLED_SECONDS: Final = 600.0
"""Seconds after which other code is tried that is not as recorded: it may never be."""

_PLACE: Final = Path(__file__).parents[3]
_RECORDS: Final = "*.dist-info/RECORD"
_OWN_RECORDS: Final = f"{DISTRIBUTION.replace('-', '_')}-{_RECORDS}"
_Looked: TypeAlias = tuple[tuple[int, int], ...]
_Digests: TypeAlias = dict[str, bytes]
"""The digest of the record of each installed package, by the name of its folder."""


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
        self._began_with = self._digests()
        self._looked = self._look()
        self._is_other = False

    def is_other(self) -> bool:
        """Return whether other code is installed now, or none; the files may be incomplete still."""
        if self.is_installed and (look := self._look()) != self._looked:
            self._looked, self._is_other = look, self._digests() != self._began_with
        return self._is_other

    def trouble(self) -> str:
        """Return what is not as recorded, of the gateway and of the packages that were replaced; else empty.

        A file of another package may have been changed, or be two packages' own, before the gateway began.
        """
        try:
            if len(self._own_records()) != 1:
                return f"{self._place} has no record of the gateway, or several"
            now, own = self._digests(), {record.parent.name for record in self._own_records()}
            replaced = {name for name, digest in now.items() if self._began_with.get(name) != digest}
            for package in sorted(replaced | own):
                for line in self._lines(self._place / package / "RECORD"):
                    if not self._is_as_recorded(*line, reads=package in own):
                        return f"{self._place / line[0]} is not as recorded"
        except (OSError, ValueError, csv.Error) as error:
            return str(error)
        return ""

    def _digests(self) -> _Digests:
        found: _Digests = {}
        with contextlib.suppress(OSError):  # the folder cannot be entered
            for record in sorted(self._place.glob(_RECORDS)) if self.is_installed else ():
                with contextlib.suppress(OSError):  # it is being replaced
                    found[record.parent.name] = hashlib.blake2b(record.read_bytes(), digest_size=16).digest()
        return found

    def _own_records(self) -> list[Path]:
        try:
            return [*self._place.glob(_OWN_RECORDS)]
        except OSError:  # the folder cannot be entered
            return []

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


async def until_other_can_start(
    code: InstalledCode,
    words: Sequence[str],
    name: str = "gateway",
    trouble_of: Callable[[], str] = lambda: "",
) -> None:
    """Wait until other code is installed, is complete, and can be started; its troubles are logged.

    Args:
        code: the installed code.
        words: the command that starts the other code; it is tried with ``--trial``.
        name: what restarts.
        trouble_of: returns why it cannot be restarted now, though the code could; empty for nothing.
    """
    while True:
        while not code.is_other():  # noqa: ASYNC110  nothing says when files are replaced
            await asyncio.sleep(LOOK_SECONDS)
        log.warning(
            "code-replaced", reason=f"other code is installed; when it is complete, the {name} restarts"
        )
        if not await _is_whole(code, name):
            continue
        if trouble := trouble_of():
            log.warning("code-not-started", reason=trouble, advice=f"restart the {name}")
            while trouble_of():  # noqa: ASYNC110  as above
                await asyncio.sleep(LOOK_SECONDS)
            continue
        trouble, ended_with = await _trouble_of_trial(words)
        if not trouble:
            return
        _not_started(trouble, name, ended_with)
        await asyncio.sleep(TRIAL_SECONDS)


async def _is_whole(code: InstalledCode, name: str) -> bool:
    """Wait until other code is complete; return whether it is other code still."""
    began = reported = time.monotonic()
    whole, trouble = 0, ""
    while whole < WHOLE_LOOKS and time.monotonic() - began < SETTLED_SECONDS:
        await asyncio.sleep(LOOK_SECONDS)
        if not code.is_other():
            return False
        former, trouble = trouble, await asyncio.to_thread(code.trouble)
        whole = 0 if trouble else whole + 1
        if trouble != former:
            began = time.monotonic()
        if trouble and time.monotonic() - reported >= TRIAL_SECONDS:
            reported = time.monotonic()
            _not_started(trouble, name)
    return True


def _not_started(trouble: str, name: str, code: int | None = None) -> None:
    """Log why the installed code is not started; ``code`` is that with which its trial ended."""
    advice = f"install it again, or restart the {name}"
    if code == ExitCode.STATE:  # an end would be for good
        advice = f"mend that, and leave the {name} as it is until then: it could not start again"
    log.warning("code-not-started", reason=trouble, advice=advice)


async def _trouble_of_trial(words: Sequence[str]) -> tuple[str, int | None]:
    """Return why the installed code cannot be started, and the exit code of its trial, if it has ended.

    The reason is empty if it takes the configuration, and a start can be noted.
    """
    try:
        trial = await asyncio.create_subprocess_exec(
            *(*MODULE, *words, "--trial"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return str(error), None
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            _, errors = await trial.communicate()
    except TimeoutError:
        trial.kill()
        await trial.wait()
        return f"it has not looked at its configuration within {TRIAL_SECONDS:g} s", None
    last = errors.decode(errors="replace").strip().rpartition("\n")[2]
    code = trial.returncode
    return f"it ended with {code}: {last}" if code else "", code
