"""TLS of connections that the gateway opens, and of those that it accepts.

Of a connection that it opens, the peer's certificate and its name are always verified; nothing switches that
off.

The files may be replaced while they are in use, as by a program that renews certificates. They are compared
by what they contain, not by their times. New connections use new files, open ones stay as they are. Files
that cannot be used leave the former ones in use, and are logged once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, Self, TypeAlias

import structlog

from gateway.file_owners import opened

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 5.0
"""Seconds between two comparisons of the files of a listener; a small file is read in microseconds."""

MAX_OCTETS: Final = 4 << 20
"""The maximum size of a file; the authorities of a Debian take 220 kB."""


class TlsFileError(Exception):
    """A file of TLS cannot be used; the text names it and says why."""


NotePresented: TypeAlias = Callable[[str, int], None]
"""Takes the name of a server and the end of its certificate, in seconds since 1970 UTC; from any thread."""


class TlsFiles(Protocol):
    """The files of one connection or listener."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of all files that a context is made of."""
        ...

    def context(self) -> ssl.SSLContext:
        """Read the files, and return the settings of TLS.

        Raises:
            TlsFileError: a file cannot be read, or is not what it should be.
        """
        ...


class TlsRenewal:
    """The settings of TLS of files that may be replaced. Its methods may be called from any thread.

    Args:
        files: the files; they are read when they are first needed.
        patient: files that cannot be used are logged only if they are the same at the next comparison,
            because programs replace certificate and key one after the other.
    """

    def __init__(self, files: TlsFiles, *, patient: bool = False) -> None:
        self._files = files
        self._patient = patient
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._used: tuple[bytes, ...] = ()
        self._refused: tuple[bytes, ...] | None = None
        self._is_logged = False

    def latest(self) -> ssl.SSLContext:
        """Compare the files, and return the settings for new connections.

        Raises:
            TlsFileError: the files cannot be used, and none could be before.
        """
        with self._lock:
            found = tuple(_digest(path) for path in self._files.paths)
            if self._context is None:
                self._used, self._context = found, self._files.context()
            elif found == self._used:
                self._refused = None
            else:
                self._renew(found)
            return self._context

    async def follow(self, seconds: float = LOOK_SECONDS) -> NoReturn:
        """Compare the files at each interval, in a thread, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.latest)

    @property
    def context(self) -> ssl.SSLContext:
        """The settings as of the last comparison, without another one.

        Raises:
            TlsFileError: there was none, and the files cannot be used.
        """
        return self._context or self.latest()

    def _renew(self, found: tuple[bytes, ...]) -> None:
        is_again = found == self._refused
        if not is_again:
            self._refused, self._is_logged = found, False
        try:
            self._context = self._files.context()
        except TlsFileError as error:
            if not self._is_logged and (is_again or not self._patient):
                self._is_logged = True
                log.warning("tls-not-renewed", reason=f"{error}; new connections use the former files")
        else:
            # What was read is not older than what was compared: a later change is seen the next time.
            self._used, self._refused = found, None
            log.info("tls-renewed", files=[str(path) for path in self._files.paths])


class RenewedContext(ssl.SSLContext):
    """Settings of TLS for a client that keeps them: each new connection uses those of the latest files.

    They are read when the first connection is opened: a client of URLs without TLS needs none.
    """

    _renewal: TlsRenewal
    _protocols: tuple[str, ...]

    def __new__(cls, renewal: TlsRenewal) -> Self:
        """Return settings that follow ``renewal``."""
        made = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        made._renewal, made._protocols = renewal, ()
        return made

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Note the protocols to offer (RFC 7301)."""
        self._protocols = tuple(alpn_protocols)

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:  # noqa: ANN401  as those of the class
        """Return TLS for a new connection. Raises ``ssl.SSLError``, which clients expect, as `latest`."""
        try:
            context = self._renewal.latest()
        except TlsFileError as error:
            raise ssl.SSLError(str(error)) from error
        if self._protocols:
            context.set_alpn_protocols(list(self._protocols))
        return context.wrap_bio(*arguments, **named)


def _digest(path: Path) -> bytes:
    """Return a digest of the contents of a file; of one that cannot be read, the reason."""
    try:
        with opened(path) as file:
            return hashlib.blake2b(file.read(MAX_OCTETS)).digest()
    except OSError as error:
        return f"{error.errno}".encode()


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The files of TLS of a connection that the gateway opens, in PEM.

    Attributes:
        ca_file: certificates to verify the peer's with; the system's if none is given.
        certificate: the certificate that the gateway presents, followed by the intermediate ones; if any.
        key: its private key, without a passphrase; given if, and only if, there is a certificate.
        note: takes the end of a server's certificate when a connection was opened; ``None`` for no one.
        renewal: the settings of TLS of these files, which may be replaced.
    """

    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    note: NotePresented | None = field(default=None, compare=False, repr=False)
    renewal: TlsRenewal = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "renewal", TlsRenewal(self))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of all files; the system's file of authorities, if there is one, where none is given."""
        default = ssl.get_default_verify_paths().cafile
        authorities = self.ca_file or (Path(default) if default else None)
        return tuple(path for path in (authorities, self.certificate, self.key) if path is not None)

    def context(self) -> ssl.SSLContext:
        """Read the files, and return the settings of TLS.

        Raises:
            TlsFileError: a file cannot be read, or is not what it should be.
        """
        context = self._verifying()
        self._present(context)
        if self.note is not None:
            context.sslobject_class = _noting(self.note)
        return context

    def check(self) -> None:
        """Read the files that are named, but not the system's authorities, which takes 20 ms.

        Raises:
            TlsFileError: a file cannot be read, or is not what it should be.
        """
        if self.ca_file is not None:
            self._verifying()
        if self.certificate is not None:
            self._present(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _verifying(self) -> ssl.SSLContext:
        try:
            _check_regular(self.ca_file)
            return _default_context(ssl.Purpose.SERVER_AUTH, self.ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise TlsFileError(f"'ca_file' {self.ca_file} cannot be used: {_reason(error)}") from error

    def _present(self, context: ssl.SSLContext) -> None:
        if self.certificate is not None:
            try:
                _check_regular(self.certificate, self.key)
                # An empty passphrase: an encrypted key is an error, and asks for nothing at a terminal.
                context.load_cert_chain(self.certificate, self.key, password="")
            except OSError as error:
                text = (
                    f"'client_certificate' {self.certificate} with 'client_key' {self.key} cannot be used: "
                    f"{_reason(error)}"
                )
                raise TlsFileError(text) from error

    def renewed_context(self, urls: Iterable[str]) -> ssl.SSLContext:
        """Return settings of TLS for a client that keeps them, and opens new connections by the latest files.

        Args:
            urls: the URLs that the client is known to ask.

        Raises:
            TlsFileError: they are needed, and the files cannot be used.
        """
        if self.is_needed(urls):
            self.renewal.latest()
        return RenewedContext(self.renewal)

    def context_for(self, url: str) -> ssl.SSLContext:
        """Return the settings of TLS for a client of one URL; without TLS, some that trust no peer.

        Raises:
            TlsFileError: they are needed, and the files cannot be used.
        """
        return self.context() if self.is_needed((url,)) else NO_AUTHORITIES

    def is_needed(self, urls: Iterable[str]) -> bool:
        """Return whether one of the URLs is one with TLS, or files are named, which are read then, too."""
        return bool(self.ca_file or self.certificate) or any(url.startswith("https:") for url in urls)


def _noting(note: NotePresented) -> type[ssl.SSLObject]:
    """Return a class of connections that pass on the end of the server's certificate."""

    class NotingObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            certificate = self.getpeercert() or {}
            ends = certificate.get("notAfter")
            # OpenSSL has accepted it: a date that Python cannot read is no reason to refuse it.
            with contextlib.suppress(ValueError):
                if isinstance(ends, str):
                    note(self.server_hostname or "", int(ssl.cert_time_to_seconds(ends)))

    return NotingObject


MAX_PRESENTED: Final = 1_000
"""The maximum number of servers whose certificates are remembered."""


class PresentedCertificates:
    """The ends of servers' certificates, as presented when connections were opened last. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[str, int] = {}

    def noting(self, key: str) -> NotePresented:
        """Return what notes the servers of one key of the configuration."""

        def note(server: str, ends: int) -> None:
            name = presented_name(server, key)
            with self._lock:
                if name in self._ends or len(self._ends) < MAX_PRESENTED:
                    self._ends[name] = ends

        return note

    def ends(self) -> dict[str, int]:
        """Return the end of each certificate, in seconds since 1970 UTC, by `presented_name`."""
        with self._lock:
            return dict(self._ends)


def presented_name(server: str, key: str) -> str:
    """Return the name of the certificate of a server that a key of the configuration names."""
    return f"presented by {server} ({key})"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The files of TLS of a listener, in PEM.

    Attributes:
        certificate: its certificate, and those between it and the root.
        key: its private key, without a passphrase.
        client_ca: the authorities of required client certificates; ``None`` accepts clients without one.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of all files."""
        files = (self.certificate, self.key)
        return files if self.client_ca is None else (*files, self.client_ca)

    def context(self) -> ssl.SSLContext:
        """Read the files, and return the settings of TLS.

        Raises:
            TlsFileError: a file cannot be read, or is not what it should be.
        """
        context = _default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            _check_regular(*self.paths)
            context.load_cert_chain(self.certificate, self.key, password="")
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(str(path) for path in (self.certificate, self.key, self.client_ca) if path)
            raise TlsFileError(f"certificates for TLS cannot be used ({files}): {_reason(error)}") from error
        return context


NO_CERTIFICATE: Final = "set 'client_certificate' and 'client_key', of an authority that it trusts"
"""What to do where the peer demands a certificate."""


def handshake_advice(text: str) -> str:
    """Return what to do about a failed handshake, by OpenSSL's text in an error; empty for another error."""
    if "Hostname mismatch" in text or "IP address mismatch" in text:
        return "its certificate is for another name: write the URL with the name in the certificate"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return (
            "its certificate is not trusted: give that of its authority, or of a self-signed one itself, as"
            " the file of trusted certificates (ca_file)"
        )
    return "it speaks no TLS: is it http://?" if "WRONG_VERSION_NUMBER" in text else ""


SYSTEM_AUTHORITIES: Final = ClientTls()
"""Trusts what the system trusts, and presents no certificate."""

NO_AUTHORITIES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no peer, for connections without TLS: reading the system's authorities takes 20 ms."""

KEY_LOG: Final = "SSLKEYLOGFILE"
"""The variable that names a file in which TLS logs the keys of connections, to decrypt traffic."""


def _default_context(purpose: ssl.Purpose, ca_file: Path | None = None) -> ssl.SSLContext:
    """Return Python's default settings of TLS.

    Raises:
        TlsFileError: the file in which the environment wants the keys of connections cannot be written.
        OSError: the file of authorities cannot be used.
    """
    _make_key_log()
    try:
        return ssl.create_default_context(purpose, cafile=ca_file)
    except OSError as error:
        if trouble := _key_log_trouble():
            raise TlsFileError(trouble) from error
        raise


def _make_key_log() -> None:
    """Make the file of the environment's SSLKEYLOGFILE for its owner alone; OpenSSL lets all read it.

    Raises:
        TlsFileError: it is a pipe, for whose reader OpenSSL would wait.
    """
    if file := os.environ.get(KEY_LOG):
        is_pipe = False
        with contextlib.suppress(OSError):  # what is wrong with it is said when it is to be written
            is_pipe = Path(file).is_fifo()
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
        if is_pipe:
            raise TlsFileError(_key_log_text(file, "is no regular file"))


def _key_log_trouble() -> str:
    """Return why the file of the environment's SSLKEYLOGFILE cannot be written; empty where it can."""
    file = os.environ.get(KEY_LOG)
    if not file:
        return ""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).keylog_filename = file
    except OSError as error:
        return _key_log_text(file, _reason(error))
    return ""


def _key_log_text(file: str, reason: str) -> str:
    advice = f"correct or unset the environment variable {KEY_LOG}"
    return f"{file} cannot be written, in which TLS is to log keys: {reason}: {advice}"


def _check_regular(*files: Path | None) -> None:
    """Refuse pipes and devices, for which OpenSSL would wait.

    Raises:
        OSError: one cannot be opened, or is no regular file.
    """
    for file in files:
        if file is not None:
            with opened(file):
                pass


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return error.strerror or str(error)
