"""Passwords of users that `provision` makes, each in a file of its own."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx

from gateway.agents.rabbitmq.provisioning import user_exists
from gateway.config.types import SecretSource
from gateway.durable_files import create_durably
from gateway.service.processes.exit_codes import CommandError, ExitCode

PASSWORD_OCTETS = 18


@dataclass(frozen=True, slots=True)
class Password:
    """The password of a user to be made, and the file that holds it."""

    path: Path
    text: str = field(repr=False)
    is_new: bool

    @classmethod
    def of(cls, client: httpx.Client, name: str, folder: Path) -> Password:
        """The one that is there, else a new one, not written yet.

        Raises:
            CommandError: the broker has this user already, and we do not know its password.
            SecretError: the file cannot be read.
        """
        path = cls.path_of(name, folder)
        if path.exists():
            return cls(path, SecretSource(file=path).read(Path()).get_secret_value(), is_new=False)
        if user_exists(client, name):
            raise CommandError(
                ExitCode.CONFIGURATION,
                f"the broker has a user {name!r} already, and {path} is not there: write its password into"
                " that file (tags and rights will be replaced), or choose another name",
            )
        return cls(path, secrets.token_urlsafe(PASSWORD_OCTETS), is_new=True)

    @staticmethod
    def path_of(name: str, folder: Path) -> Path:
        """The file that a user's password is in."""
        return folder.resolve() / f"{quote(name, safe=' @+')}.password"

    @property
    def is_open(self) -> bool:
        """Whether others than its owner can read the file."""
        return self.path.exists() and bool(self.path.stat().st_mode & 0o077)

    def write(self) -> None:
        """Make the file, mode 0600, in a folder of mode 0700.

        Raises:
            CommandError: it cannot be made.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_durably(self.path, f"{self.text}\n")
        except OSError as error:
            text = f"{self.path}: the password cannot be written: {error.strerror}"
            raise CommandError(ExitCode.CONFIGURATION, text) from error
