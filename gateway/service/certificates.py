"""The files of certificates that a gateway uses: read at an interval, and reported before they expire."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

import structlog

from gateway.config.files import LoadedConfiguration
from gateway.config.sources import AgentPublishing, AmiSource, RabbitMqSource
from gateway.config.transport_security import certificate_files
from gateway.file_owners import opened
from gateway.inventory.certificates import CertificateExpiry
from gateway.links.tls import PresentedCertificates, presented_name
from gateway.model.times import SECOND, since_epoch
from gateway.service.metrics import families
from gateway.service.metrics.families import Reading

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 60.0
"""Seconds between two looks at the files, which are few and small."""

MAX_OCTETS: Final = 4 << 20
"""The maximum size of a file of certificates; the authorities of a Debian take 220 kB."""

SOURCES: Final = "sources."
AGENTS: Final = "agents."
"""The beginnings of keys: of what the core reads, and of what processes of their own do."""


class CertificateFileError(Exception):
    """A file of certificates cannot be read; the text says why, without the path."""


@dataclass(frozen=True, slots=True)
class Validity:
    """The time in which all certificates of a file are valid, in nanoseconds since 1970 UTC."""

    begins: int
    ends: int


def validity_of(path: Path) -> Validity:
    """Return the validity of the certificates in a file; this takes 6 MB of memory the first time.

    Of several, as of a chain, the first that ends is the end of all that need it.

    Raises:
        CertificateFileError: it cannot be read, is too large, or has no certificate in PEM.
    """
    try:
        with opened(path) as file:
            octets = file.read(MAX_OCTETS + 1)
    except OSError as error:
        raise CertificateFileError(error.strerror or str(error)) from error
    if len(octets) > MAX_OCTETS:
        raise CertificateFileError(f"has more than {MAX_OCTETS} bytes")
    x509 = importlib.import_module("cryptography.x509")
    try:
        certificates = x509.load_pem_x509_certificates(octets)
        return Validity(
            max(since_epoch(each.not_valid_before_utc) for each in certificates),
            min(since_epoch(each.not_valid_after_utc) for each in certificates),
        )
    except ValueError as error:
        raise CertificateFileError("there is no certificate in PEM in it") from error


class CertificateWatch:
    """Looks at the files of certificates of a configuration, and at what servers presented.

    Args:
        loaded: the configuration.
        presented: the ends of the certificates that servers presented when connections were opened.
        judge: takes every certificate with its end, and the names of files that cannot be read.
        served: for an agent, whose process uses its source's files and these only, how it publishes, by name.
    """

    def __init__(
        self,
        loaded: LoadedConfiguration,
        presented: PresentedCertificates,
        judge: Callable[[list[CertificateExpiry], list[str]], None],
        served: Mapping[str, AgentPublishing] | None = None,
    ) -> None:
        self._files = _files_with_keys(loaded, served or {})
        self._servers = dict(_servers(loaded))
        self._presented = presented
        self._judge = judge
        self._reported: dict[str, str] = {}
        self._ends: dict[str, int] = {}

    async def run(self) -> NoReturn:
        """Look at once, and at each interval, in a thread; ends by cancellation only."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look once, and pass on what was found. A file that cannot be read is logged once."""
        found, failures = await asyncio.to_thread(self._read)
        for name, reason in failures.items():
            if self._reported.get(name) != reason:
                log.warning("certificate-not-read", path=name, reason=reason)
        self._reported = failures
        presented = self._presented.ends()
        found += (CertificateExpiry(name, seconds * SECOND) for name, seconds in presented.items())
        self._ends = self._first_ends(found)
        # A server that was not reached yet may present the certificate of which there is an alarm.
        self._judge(found, [*failures, *(self._servers - presented.keys())])

    def readings(self) -> Iterator[Reading]:
        """Yield the end of the first certificate of each key of the configuration, as of the last look."""
        for key, ends in self._ends.items():
            yield families.CERTIFICATE_ENDS.at(ends // SECOND, key)

    def _first_ends(self, found: list[CertificateExpiry]) -> dict[str, int]:
        ends: dict[str, int] = {}
        for expiry in found:
            for key in expiry.keys or (self._servers.get(expiry.name, ""),):
                if key:
                    ends[key] = min(expiry.ends, ends.get(key, expiry.ends))
        return ends

    def _read(self) -> tuple[list[CertificateExpiry], dict[str, str]]:
        found: list[CertificateExpiry] = []
        failures: dict[str, str] = {}
        for path, keys in self._files.items():
            try:
                found.append(CertificateExpiry(str(path), validity_of(path).ends, keys))
            except CertificateFileError as error:
                failures[str(path)] = str(error)
        return found, failures


def _servers(loaded: LoadedConfiguration) -> Iterator[tuple[str, str]]:
    """Yield the names of the certificates of configured servers, as `PresentedCertificates` has them.

    Beside each name is the key of the configuration that names the server.
    """
    for name, source in loaded.settings.sources.items():
        urls: list[tuple[str, tuple[str, ...]]] = []
        if isinstance(source, RabbitMqSource):
            urls.append(("management", source.management))
            urls += [] if source.events is None else [("events.url", source.events.url)]
        elif not isinstance(source, AmiSource):
            urls.append(("amqp.url", source.amqp.url))
        for key, of_key in urls:
            place = f"{SOURCES}{name}.{key}"
            yield from ((presented_name(urlsplit(url).hostname or "", place), place) for url in of_key)


def _files_with_keys(
    loaded: LoadedConfiguration, served: Mapping[str, AgentPublishing]
) -> Mapping[Path, tuple[str, ...]]:
    """Return the files that the processes of the gateway, or an agent, use, with the keys that name each."""
    found = [
        (key, path)
        for key, path in certificate_files(loaded.settings)
        if (key.startswith(SOURCES) if served else not key.startswith(AGENTS))
    ]
    for name, publishing in served.items():
        found += certificate_files(publishing, f"{AGENTS}{name}.publish")
        found += certificate_files(loaded.settings.metrics, f"{AGENTS}{name}.metrics")
    files: dict[Path, tuple[str, ...]] = {}
    for key, path in sorted(found):
        place = loaded.folder / path
        files[place] = (*files.get(place, ()), key)
    return files
