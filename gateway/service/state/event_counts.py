"""How many events the cores have made: a file that a core writes with each batch, for the next core.

The event log may be off, or may not be written, and what a core recorded last is not yet on the disk when it
is killed. The next core has the number in any case, so that front ends count exactly what they have missed.
The number stands at the begin of the file and is overwritten in its place, which a full disk permits. It is
not synced: a kill of the core leaves it whole; after a failure of the machine it is a lower bound.

A disk that turned read-only keeps an old number, and nothing on it says that later cores ran: none of them
could note its start. So the file is written again and again while a core lives, and its time says until when
it held. Where that was long ago, the core may have made more, and later ones may have made some.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec
import structlog

from gateway.durable_files import FOR_STARTS, machine_start, write_durably
from gateway.eventlog.last_state import MAX_CORES
from gateway.file_owners import reason_of
from gateway.model.times import SECOND

log = structlog.get_logger(__name__)

VERSION: Final = 1
KEEP: Final = 10 * SECOND
"""The interval at which a core that lives writes the file again."""

LAPSE: Final = 300 * SECOND
"""The age of the file from which on it is not known what its core, and later ones, have made.

A gateway that is killed is started again before, as a rule.
"""

_DIGITS: Final = 20
_MAKES, _ENDED = "makes", "ended"  # of one length


@dataclass(frozen=True, slots=True)
class EventsMade:
    """The numbers of events of former cores.

    Attributes:
        numbers: the number of the last event by the epoch of its core; 0 for none.
        uncertain: the epoch of the last core that may have made more than that; 0 for none.
    """

    numbers: Mapping[int, int] = field(default_factory=dict)
    uncertain: int = 0


class Cores(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The second line of the file.

    Attributes:
        epoch: the epoch of the core that writes it.
        machine: what the system calls its present start; empty where it does not say that.
        logged: the core writes the event log.
        former: the numbers of the cores before it.
        uncertain: as of `EventsMade`.
    """

    epoch: int
    machine: str
    logged: bool
    former: dict[int, int]
    uncertain: int
    version: Literal[1] = VERSION


@dataclass(frozen=True, slots=True)
class _Stored:
    """The content of the file of a former core.

    Attributes:
        cores: its second line.
        number: the number of the last event of that core.
        has_ended: it makes no more.
        kept_at: when it was written last, in nanoseconds since 1970 UTC.
    """

    cores: Cores
    number: int
    has_ended: bool
    kept_at: int


class EventCounts:
    """The file of one core.

    Args:
        path: the file.
        epoch: the epoch of the core.
        before: the epoch of the core before it (`gateway.starts.start_before`); 0 for none.
        logged: it writes the event log, which then says how many events it made, but for the last moments.
        was_paused: a former core could not write the event log when it ended.
        in_log: the numbers of former cores that the log has.
        now: nanoseconds since 1970 UTC.

    Attributes:
        former: what former cores have made.
    """

    def __init__(
        self,
        path: Path,
        epoch: int,
        before: int,
        *,
        logged: bool,
        was_paused: bool,
        in_log: Mapping[int, int],
        now: int,
    ) -> None:
        self._path = path
        self._file: int | None = None
        self._noted = 0
        self._kept_at = now
        machine = _machine()
        stored = _read(path)
        self.former = _former(
            stored, epoch, before, machine, logged=logged, was_paused=was_paused, in_log=in_log, now=now
        )
        if self.former.uncertain == epoch - 1 > 0:
            log.warning(
                "events-in-doubt", path=str(path), detail="former cores may have made more than it has"
            )
        self._cores = Cores(epoch, machine, logged, dict(self.former.numbers), self.former.uncertain)
        try:
            self._make()
        except OSError as error:
            self._give_up(error)

    def note(self, number: int) -> None:
        """Write the number of events that this core has made; neither raises nor waits for the disk."""
        if number != self._noted:
            self._noted = number
            if self._file is not None:
                self._write(ended=False)

    def keep(self, now: int) -> None:
        """Show that this core lives; make the file again where the disk did not take it, and does now.

        Args:
            now: nanoseconds since 1970 UTC; called once a second.
        """
        if 0 <= now - self._kept_at < KEEP:
            return
        self._kept_at = now
        if self._file is not None:
            self._write(ended=False)
            return
        self._make_again()

    def close(self) -> None:
        """Note that this core makes no more events, whatever happens to the machine."""
        if self._file is None:
            self._make_again()
        if self._file is not None:
            self._write(ended=True)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _make(self, leaves: int = 0) -> None:
        text = f"{_first_line(self._noted)}{msgspec.json.encode(self._cores).decode()}\n"
        write_durably(self._path, text, leaves=leaves)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)

    def _make_again(self) -> None:
        with contextlib.suppress(OSError):
            self._make(FOR_STARTS)
            log.info("events-counted-again", path=str(self._path))

    def _write(self, *, ended: bool) -> None:
        assert self._file is not None
        try:
            os.pwrite(self._file, _first_line(self._noted, ended=ended).encode(), 0)
        except OSError as error:
            os.close(self._file)
            self._file = None
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Remove the file, since its number is not true any more: the next core takes it as not known.

        It stays on a read-only disk, and becomes old.
        """
        log.warning(
            "events-not-counted",
            path=str(self._path),
            reason=reason_of(error, self._path.parent),
            detail="what front ends miss over a restart of the core is counted from the event log alone",
        )
        with contextlib.suppress(OSError):
            self._path.unlink()


def _first_line(number: int, *, ended: bool = False) -> str:
    return f"{number:0{_DIGITS}d} {_ENDED if ended else _MAKES}\n"


def _former(
    stored: _Stored | None,
    epoch: int,
    before: int,
    machine: str,
    *,
    logged: bool,
    was_paused: bool,
    in_log: Mapping[int, int],
    now: int,
) -> EventsMade:
    numbers, uncertain = dict(in_log), 0
    # What the log has of a core is all that it made, but for the last moments.
    is_known = logged and not was_paused
    if stored is not None:
        cores = stored.cores
        for each, made in {**cores.former, cores.epoch: stored.number}.items():
            numbers[each] = max(made, numbers.get(each, 0))
        uncertain = cores.uncertain
        if cores.epoch == before:
            is_recent = now - stored.kept_at < LAPSE
            is_exact = stored.has_ended or (is_recent and machine != "" and cores.machine == machine)
            is_known = is_exact or (is_recent and cores.logged and not was_paused)
        else:
            # That core could not write the file, and so perhaps not the log, nor that it was paused.
            is_known = is_known and before in in_log
    if not is_known and epoch > 1:
        uncertain = epoch - 1
        numbers.setdefault(uncertain, 0)
    known = sorted(each for each in numbers if each < epoch)[-MAX_CORES:]
    return EventsMade({each: numbers[each] for each in known}, uncertain)


def _read(path: Path) -> _Stored | None:
    """Return what a file has; ``None`` where there is none, or a damaged one."""
    try:
        first, _, second = path.read_text("ascii", "replace").partition("\n")
        number, _, stands = first.partition(" ")
        cores = msgspec.json.decode(second, type=Cores)
        return _Stored(cores, int(number), stands == _ENDED, path.stat().st_mtime_ns)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("event-counts-not-read", path=str(path), reason=str(error))
        return None


def _machine() -> str:
    try:
        return machine_start()
    except (OSError, ValueError):
        return ""
