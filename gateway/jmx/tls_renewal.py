"""Files of TLS that are replaced while they are in use, as by a program that renews certificates.

The files are compared by what they contain, not by their times, at an interval. A program replaces
certificate and key one after the other: what does not fit together is an error only if it is still so at
the next comparison.

Import this module only where TLS is configured: the cryptographic library takes 6 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeAlias

import structlog

from gateway.jmx.pem_files import PemFiles, check_pem, read_pem
from gateway.jmx.tls import TlsError, TlsMaterial
from gateway.links.tls import ServerTls

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 5.0
"""Seconds between two comparisons; a small file is read in microseconds."""

UseTls: TypeAlias = Callable[[TlsMaterial], Awaitable[None]]
"""Uses key and certificates for new connections. Raises `TlsError` if they cannot be used."""


class TlsRenewal:
    """Follows the files of TLS: what they contain is used, and if it cannot be, what was used before.

    Args:
        files: the files.
        seconds: the interval of comparisons.

    Attributes:
        material: key and certificates that are used now.

    Raises:
        TlsError: a file cannot be used at the beginning.
    """

    def __init__(self, files: ServerTls, seconds: float = LOOK_SECONDS) -> None:
        self._files = files
        self._seconds = seconds
        self._used = read_pem(files)
        self.material = check_pem(files, self._used)
        self._refused: PemFiles | str | None = None
        self._reason = ""
        self._is_logged = False

    async def follow(self, use: UseTls) -> NoReturn:
        """Compare the files at each interval, and have ``use`` called with what was renewed, until cancelled.

        What cannot be used is logged once.
        """
        while True:
            await asyncio.sleep(self._seconds)
            await self.look(use)

    async def look(self, use: UseTls) -> None:
        """Compare the files once, as `follow`."""
        found = await asyncio.to_thread(self._read)
        if found == self._refused:
            self._log_reason()
            return
        self._refused, self._is_logged = None, False
        if found == self._used:
            return
        try:
            await self._renew(found, use)
        except TlsError as error:
            self._refused, self._reason = found, str(error)

    def _read(self) -> PemFiles | str:
        """Return the contents of the files, or why they cannot be read."""
        try:
            return read_pem(self._files)
        except TlsError as error:
            return str(error)

    async def _renew(self, found: PemFiles | str, use: UseTls) -> None:
        if isinstance(found, str):
            raise TlsError(found)
        material = await asyncio.to_thread(check_pem, self._files, found)
        await use(material)
        self._used, self.material = found, material
        log.info("jmx-tls-renewed", certificate=str(self._files.certificate))

    def _log_reason(self) -> None:
        if not self._is_logged:
            self._is_logged = True
            log.warning("jmx-tls-not-renewed", reason=f"{self._reason}; new connections use the former files")
