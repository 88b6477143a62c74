"""The state of each source when the event log ended, held until the source has continued from there.

The record of an object takes 2 kB of memory, so what is not read again is released. A session that is
restarted after a fault reads the log again, which then says more than it did at the start.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from gateway.eventlog.last_state import LastState, last_state

log = structlog.get_logger(__name__)


def read_last_state(folder: Path, sources: list[str]) -> LastState:
    """Read the end of the log in ``folder``; a state that cannot be read is reported, and is not complete."""
    try:
        return last_state(folder, sources)
    except OSError as error:  # what is wrong with the log is said when it is opened
        log.warning("event-log-not-read", path=error.filename, reason=error.strerror)
        return LastState(is_complete=False)


class LastStates:
    """The states of all sources that go on where the log ended.

    Args:
        last: the states of all of them, at the start.
        folder: the folder of the log.
    """

    def __init__(self, last: LastState, folder: Path) -> None:
        self._states = last.by_source()
        self._taken: set[str] = set()
        self._complete_until = dict(last.complete_until)
        self._folder = folder

    def complete_until(self, source: str) -> int:
        """Return the time until which a source was recorded before the start; 0 where it is not known."""
        return self._complete_until.get(source, 0)

    def at_start(self, source: str) -> LastState:
        """Return the state of a source at the start; it is empty once it was released."""
        return self._states.get(source) or LastState()

    def release(self, source: str) -> None:
        """Drop the state of a source that does not need it any more."""
        self._taken.add(source)
        self._states.pop(source, None)

    async def take(self, source: str) -> LastState:
        """Return the state of a source, and release it: that of the start once, then that of now."""
        if source in self._taken:
            return await asyncio.to_thread(read_last_state, self._folder, [source])
        state = self.at_start(source)
        self.release(source)
        return state
