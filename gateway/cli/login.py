"""Who looks at a broker that no configuration names yet: as given, else as somebody answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TextIO

import click

from gateway.cli.provision_management import NAME

login_option = click.option(
    "--user",
    callback=NAME,
    help="Of the broker: an administrator, or one with the tag monitoring; asked for where it is left out.",
)
password_option = click.option(
    "--password-file", type=click.File(encoding="utf-8"), help="Of that user; asked for where it is left out."
)


@dataclass(frozen=True, slots=True)
class Login:
    """A user of a broker, and the password."""

    user: str
    password: str = field(repr=False)


def login_to(management: str, user: str | None, password_file: TextIO | None) -> Login:
    """As given, else as somebody answers at the terminal."""
    if user is None:
        user = click.prompt("User of the broker (an administrator, or one with the tag monitoring)")
    if password_file is not None:
        return Login(user, password_file.read().rstrip("\r\n"))
    return Login(user, click.prompt(f"Password of {user} at {management}", hide_input=True))
