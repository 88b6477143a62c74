"""The last event that clients of JMX received, kept over restarts of the process: later ones are counted.

A process that starts has no clients: they are gone with the process before. So they learn from its count how
many events they missed.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn

import structlog
from pydantic import Field, ValidationError

from gateway.durable_files import write_durably
from gateway.jmx.notifications import EventCursor
from gateway.yaml_documents import StrictModel

log = structlog.get_logger(__name__)

FILE: Final = "jmx-events.json"
"""In the state folder."""

_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 10.0
_MAX_OCTETS: Final = 4096
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Place(StrictModel):
    version: Literal[1] = 1
    epoch: _Count = 0
    number: _Count = 0


class EventCursorFile:
    """The file.

    Args:
        state: the state folder.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / FILE
        self._kept = (0, 0)
        self._writing = threading.Lock()

    def read(self) -> EventCursor:
        """Return where the process before stopped; as if there had been none, where that cannot be read."""
        try:
            with self._path.open("rb") as file:
                place = _Place.model_validate_json(file.read(_MAX_OCTETS))
        except FileNotFoundError:
            return EventCursor()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged, or of a newer gateway"
            log.warning("jmx-events-not-read", path=str(self._path), reason=reason)
            return EventCursor()
        self._kept = place.epoch, place.number
        return EventCursor(*self._kept)

    async def keep(self, cursor: EventCursor) -> NoReturn:
        """Write what changed, once a second; ends by cancellation only."""
        try:
            while True:
                kept = await asyncio.to_thread(self._write, cursor.place)
                await asyncio.sleep(_SECONDS if kept else _AGAIN_SECONDS)
        finally:
            self._write(cursor.place)

    def _write(self, place: tuple[int, int]) -> bool:
        with self._writing:  # at the end a thread may be at it still
            if place <= self._kept:
                return True
            epoch, number = place
            try:
                write_durably(self._path, _Place(epoch=epoch, number=number).model_dump_json() + "\n")
            except OSError as error:
                log.warning("jmx-events-not-kept", path=str(self._path), reason=error.strerror)
                return False
            self._kept = place
            return True
