"""A file of what a source's peers told of their classes, kept over restarts of the gateway.

It is a memory, not a truth: without it, or with one that cannot be read, all is asked for, or learnt, again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import structlog

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.durable_files import write_durably

log = structlog.get_logger(__name__)

FOLDER: Final = "schemas"
"""In the state folder."""

_MAX_OCTETS: Final = 64 << 20

T = TypeVar("T")


class CacheFile:
    """One file, read once and written again and again.

    Args:
        state: the state folder.
        name: of the file, within `FOLDER`.
        content: what is in it, in one word, by which the log names what went wrong.
    """

    def __init__(self, state: Path, name: str, content: str) -> None:
        self._path = state / FOLDER / name
        self._content = content
        self._changed = asyncio.Event()
        self._text = ""

    def read(self, understood: Callable[[bytes], T]) -> T | None:
        """What the file holds; ``None`` where there is none, or none that can be ``understood``."""
        try:
            with self._path.open("rb") as file:
                octets = file.read(_MAX_OCTETS)
            content, text = understood(octets), octets.decode()
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError, ProtocolError) as error:
            self._warn("not-read", error)
            return None
        self._text = text
        return content

    def learnt(self) -> None:
        """There is something else to be known."""
        self._changed.set()

    async def keep(self, known: Callable[[], str | None], settling: float) -> None:
        """Write what is known, if it is news, soon after something was learnt; ends by cancellation only.

        Args:
            known: the text, or ``None`` where there is nothing to write; may raise `LocalProtocolError`
                for what the file cannot carry.
            settling: seconds to wait for more.
        """
        try:
            while True:
                await self._changed.wait()
                await asyncio.sleep(settling)
                self._changed.clear()
                if (text := self._news(known)) is not None:
                    await asyncio.to_thread(self._write, text)
        finally:
            # The gateway ends: what was learnt last cannot wait for more.
            if self._changed.is_set() and (text := self._news(known)) is not None:
                self._write(text)

    def _news(self, known: Callable[[], str | None]) -> str | None:
        """The text to write; ``None`` where the file says the same, or cannot carry it."""
        try:
            text = known()
        except LocalProtocolError as error:
            self._warn("not-kept", error)
            return None
        return None if text == self._text else text

    def _write(self, text: str) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            write_durably(self._path, text)
        except OSError as error:
            self._warn("not-kept", error)
        else:
            self._text = text

    def _warn(self, what: str, error: Exception) -> None:
        event = f"{self._content}-{what}"
        log.warning(event, path=str(self._path), detail=str(error))
