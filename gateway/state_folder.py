"""The state folder: what must survive a gateway and cannot be made again.

``VERSION``, ``identity`` (the gateway's uuid), ``boots``, ``instances.sqlite3``, ``secrets/`` (0600) and
``LOCK``. A folder that is missing is never made anew in passing: every row number would change, so that
takes an explicit ``init``.
"""

from __future__ import annotations

import fcntl
import re
import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.durable_files import create_durably, write_durably

VERSION = 1
_SECRET_OCTETS = 18
_LOCK_POLL_SECONDS = 0.05


class StateError(Exception):
    """The state folder cannot be used; the text says what to do."""


class StateFolder:
    """An existing state folder of this version.

    Raises:
        StateError: it is missing, unreadable, or of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            version = (path / "VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError as error:
            raise StateError(
                f"{path}: no gateway state here. A new gateway: run `amqp-gateway init`. One that ran "
                "before: restore its state, or every row number changes"
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "VERSION is not text"
            raise StateError(f"{path}: the state cannot be read: {reason}") from error
        if version != str(VERSION):
            raise StateError(
                f"{path}: state of version {version[:20]!r}, this gateway knows {VERSION}: "
                "use the gateway that wrote it"
            )

    @classmethod
    def create(cls, path: Path) -> StateFolder:
        """Make a new identity in a folder that is missing or empty.

        Raises:
            StateError: something is there already, or the folder cannot be made.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise StateError(
                    f"{path}: is not empty; a new identity is made in a new or empty folder only"
                )
            (path / "secrets").mkdir(mode=0o700)
            write_durably(path / "identity", f"{uuid.uuid4()}\n")
            write_durably(path / "boots", "0\n")
            write_durably(path / "VERSION", f"{VERSION}\n")
        except OSError as error:
            raise StateError(f"{path}: cannot be made: {error.strerror}") from error
        return cls(path)

    @property
    def identity(self) -> str:
        """The gateway's uuid as text."""
        return self._read("identity")

    @property
    def instances(self) -> Path:
        """Of the instance index."""
        return self.path / "instances.sqlite3"

    @property
    def boots(self) -> int:
        """How many times a core was started on this state."""
        text = self._read("boots")
        if not text.isdigit():
            raise StateError(f"{self.path / 'boots'}: should be a number: restore it from a backup")
        return int(text)

    def next_boot(self) -> int:
        """Count a start; the new number is on the disk before this returns.

        Raises:
            StateError: it cannot be read or written.
        """
        boot = self.boots + 1
        try:
            write_durably(self.path / "boots", f"{boot}\n")
        except OSError as error:
            raise StateError(f"{self.path / 'boots'}: cannot be written: {error.strerror}") from error
        return boot

    def secret(self, name: str) -> str:
        """The secret ``name``, made at random when it is first asked for; file mode 0600.

        Processes that ask at the same time get the same one.

        Raises:
            StateError: it cannot be read or made.
        """
        assert re.fullmatch(r"[a-z][a-z0-9-]{0,63}", name)
        path = self.secret_path(name)
        try:
            if not path.exists():
                path.parent.mkdir(mode=0o700, exist_ok=True)
                create_durably(path, f"{secrets.token_urlsafe(_SECRET_OCTETS)}\n")
            secret = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not ASCII text"
            raise StateError(f"{path}: the secret cannot be used: {reason}") from error
        if not secret:
            raise StateError(f"{path}: the secret is empty: remove the file, and a new one is made")
        return secret

    def secret_path(self, name: str) -> Path:
        """Where the secret ``name`` is kept."""
        return self.path / "secrets" / name

    @contextmanager
    def locked(self, patience_seconds: float = 10.0) -> Iterator[None]:
        """Hold the folder alone; the lock dies with the process.

        Raises:
            StateError: another process holds it for longer than ``patience_seconds``.
        """
        deadline = time.monotonic() + patience_seconds
        try:
            file = (self.path / "LOCK").open("a", encoding="ascii")
        except OSError as error:
            raise StateError(f"{self.path / 'LOCK'}: cannot be opened: {error.strerror}") from error
        with file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > deadline:
                        raise StateError(
                            f"{self.path}: another gateway runs on this state: stop it, or give this one a "
                            "state folder of its own"
                        ) from error
                    time.sleep(_LOCK_POLL_SECONDS)
            yield

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StateError(f"{self.path / name}: cannot be read: restore it from a backup") from error
