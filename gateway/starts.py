"""The numbers of starts that the supervisor gives to its processes: reserved in one write, many ahead.

Each start of the core has a number, which is the epoch in every event id; each start of the SNMP process has
one, which is snmpEngineBoots (RFC 3414, 2.2). None may be used twice. A process cannot note its number on a
disk that takes nothing, so it gets one from the supervisor, which lives on and has reserved it before. The
file ``starts`` has, for each process, the number up to which a run may give them, and the first that the core
got of it; a run that ends in order gives back what it did not use, and one that was killed leaves up to
`RESERVED` unused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.durable_files import write_durably
from gateway.file_owners import reason_of

RESERVED: Final = 20
"""The number of starts of each process that are reserved at once.

Each kill of a gateway leaves so many unused, which a restored state has to leap over: few, therefore.
"""

STARTS: Final = "starts"
"""The name of the file in the state folder; no part of a backup, after which numbers are skipped anyway."""

BOOTS: Final = "boots"
"""The name of the file with the last start of the core that was noted."""

ENGINE: Final = "snmp-engine.json"
"""The name of the file with the SNMP engine's id, and the last of its starts that was noted."""

_MAX: Final = 2**31 - 1
"""The maximum of snmpEngineBoots, at which it stays (RFC 3414, 2.3)."""

CORE, SNMP = "core", "snmp"
"""The processes whose starts have numbers."""

_FIRST: Final = "first"
"""Stands for the number that the first core of a run has."""

RESTORE: Final = "restore a backup with `amqp-gateway state restore`"


class StartsError(Exception):
    """Starts have no numbers: their file cannot be read or written; the text says what to do."""


def highest_start(folder: Path, boots: int) -> int:
    """Return the highest number that a start of the core can have had.

    Args:
        folder: the state folder.
        boots: the last start that was noted.

    Raises:
        StartsError: the file cannot be read.
    """
    return max(boots, _reserved(folder).get(CORE, 0))


def start_before(folder: Path, start: int, noted: int) -> int:
    """Return the number of the core that ran before another one.

    Of an earlier run that is the last that was noted: the others that it had reserved it did not use. Where
    its disk took nothing at the end it may have used some.

    Args:
        folder: the state folder.
        start: the number of that other core.
        noted: the last start that was noted before it; 0 for none.

    Raises:
        StartsError: the file cannot be read.
    """
    return noted if _reserved(folder).get(_FIRST) == start else start - 1


def skip_starts(folder: Path, boots: int, leap: int) -> None:
    """Skip starts in a folder that was made from a backup.

    Args:
        folder: the state folder.
        boots: the start of the core from which the next run counts on.
        leap: the number of starts of the SNMP engine that are skipped.

    Raises:
        OSError: it cannot be written.
    """
    upto = {CORE: boots, SNMP: min(_engine_boots(folder) + leap, _MAX)}
    write_durably(folder / STARTS, f"{json.dumps(upto)}\n")


class ReservedStarts:
    """The numbers of the starts of one run of the gateway, which holds the lock of its state folder.

    Args:
        folder: the state folder.
        least_engine_boots: the least that snmpEngineBoots may be now (`gateway.snmp.v3.engine.next_boots`).

    Raises:
        StartsError: the file cannot be read, or the disk takes no reservation.
    """

    def __init__(self, folder: Path, least_engine_boots: int) -> None:
        self._folder = folder
        self._last = {
            CORE: highest_start(folder, _noted(folder / BOOTS, int)),
            SNMP: max(_engine_boots(folder), _reserved(folder).get(SNMP, 0), least_engine_boots - 1),
        }
        self._first = self._last[CORE] + 1
        self._upto: Mapping[str, int] = {}
        self._write({name: _behind(last) for name, last in self._last.items()})

    def next(self, process: str) -> int | None:
        """Return the number of the next start of a process; ``None`` for one whose starts have none.

        Raises:
            StartsError: all are used that the disk took.
        """
        last = self._last.get(process)
        if last is None:
            return None
        if self._upto[process] - last <= RESERVED // 2:
            try:
                self._write({**self._upto, process: _behind(last)})
            except StartsError:
                if last >= self._upto[process]:
                    raise
        self._last[process] = min(last + 1, _MAX)
        return self._last[process]

    def close(self) -> None:
        """Give back the numbers that were not used, where the disk takes it."""
        with suppress(StartsError):
            self._write(dict(self._last))

    def _write(self, upto: Mapping[str, int]) -> None:
        path = self._folder / STARTS
        try:
            write_durably(path, f"{json.dumps({**upto, _FIRST: self._first})}\n")
        except OSError as error:
            reason = reason_of(error, self._folder)
            text = f"{path}: cannot be written, so that no start has a number: {reason}"
            raise StartsError(text) from error
        self._upto = upto


def _behind(last: int) -> int:
    """Return up to which number starts are reserved after this one."""
    return min(last + RESERVED, _MAX)


def _reserved(folder: Path) -> dict[str, int]:
    """Return up to which numbers starts may have been given, by process; none where there is no file.

    Raises:
        StartsError: it cannot be read: numbers that were not noted could be given again.
    """
    path = folder / STARTS
    try:
        found = json.loads(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return {}
    except PermissionError as error:
        raise StartsError(f"{path}: cannot be read: {reason_of(error, folder)}") from error
    except (OSError, ValueError, RecursionError) as error:
        reason = reason_of(error, folder) if isinstance(error, OSError) else "it is not JSON"
        raise StartsError(f"{path}: cannot be read: {reason}: {RESTORE}") from error
    if not isinstance(found, dict) or not all(type(n) is int and 0 <= n <= _MAX for n in found.values()):
        raise StartsError(f"{path}: should have numbers from 0 to {_MAX}: {RESTORE}")
    return found


def _engine_boots(folder: Path) -> int:
    return _noted(folder / ENGINE, lambda text: json.loads(text)["boots"])


def _noted(path: Path, read: Callable[[str], int]) -> int:
    """Return the number in a file; 0 where there is none, or one that its own process refuses."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        return int(read(path.read_text(encoding="ascii")))
    return 0
