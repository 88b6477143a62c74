"""A RabbitMQ that no configuration names yet: who logs in, and what the broker reports of itself."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import dataclass, field
from getpass import GetPassWarning
from typing import Final, TextIO
from urllib.parse import urlsplit

import click
import httpx

from gateway.cli.provision_management import NAME, amqp_url, overview_of
from gateway.mapping.paths import Json
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.trouble_codes import OF_TROUBLE
from gateway.sources.rabbitmq.provisioning import ProvisioningError, read
from gateway.sources.rabbitmq.rights import EVENT_EXCHANGE

login_option = click.option(
    "--user",
    callback=NAME,
    help="User of the broker: an administrator, or one with the tag monitoring. Default: ask.",
)
password_option = click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    help="File with the password of that user. Default: ask.",
)


@dataclass(frozen=True, slots=True)
class Login:
    """A user of a broker, and the password."""

    user: str
    password: str = field(repr=False)


def login_to(management: str, user: str | None, password_file: TextIO | None) -> Login:
    """Return the user and password as given, else ask for them at the terminal.

    Raises:
        CommandError: a password is to be asked for, and there is no terminal on which it would stay hidden.
    """
    if user is None:
        user = click.prompt("User of the broker (an administrator, or one with the tag monitoring)")
    if password_file is not None:
        return Login(user, password_file.read().rstrip("\r\n"))
    with warnings.catch_warnings(action="error", category=GetPassWarning):
        try:
            return Login(user, click.prompt(f"Password of {user} at {management}", hide_input=True))
        except GetPassWarning as error:
            text = "there is no terminal to ask for the password: use --password-file (- is standard input)"
            raise CommandError(ExitCode.USAGE, text) from error


_AMQP_PORTS: Final = (5671, 5672)
_MANAGEMENT_PORT: Final = 15672


@dataclass(frozen=True, slots=True)
class BrokerFound:
    """What a broker reports of itself and of the user who asks.

    Attributes:
        version: of RabbitMQ.
        amqp: URL that it listens on.
        has_events: it has the exchange that events are published to.
        vhosts: names of the virtual hosts that the user may see.
        tags: of the user.
    """

    version: str
    amqp: str
    has_events: bool
    vhosts: tuple[str, ...]
    tags: frozenset[str]


def look(client: httpx.Client, management: str, user: str) -> BrokerFound:
    """Log in as the user, and read what the broker reports.

    Raises:
        CommandError: it is no management API, or the user may not read it.
        ProvisioningError: likewise.
    """
    try:
        overview = overview_of(client, management)
    except ProvisioningError as error:
        if OF_TROUBLE[error.trouble] is ExitCode.FORBIDDEN:
            raise not_permitted(user) from error
        port = urlsplit(management).port
        if port not in _AMQP_PORTS:
            raise
        text = f"{error}; port {port} is that of AMQP: the management API usually has port {_MANAGEMENT_PORT}"
        raise CommandError(ExitCode.UNREACHABLE, text) from error
    who = read(client, "whoami")
    told = who.get("tags", ()) if isinstance(who, dict) else ()
    tags = frozenset(told.split(",") if isinstance(told, str) else map(str, told or ()))
    vhosts = read(client, "vhosts?columns=name")
    event_exchange = f"exchanges/%2F/{EVENT_EXCHANGE}"
    return BrokerFound(
        str(overview["rabbitmq_version"]),
        amqp_url(management, overview),
        _is_there(client, event_exchange),
        tuple(str(one["name"]) for one in _objects(vhosts)),
        tags,
    )


def _objects(listed: Json) -> list[dict[str, Json]]:
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _is_there(client: httpx.Client, path: str) -> bool:
    try:
        return read(client, path) is not None
    except ProvisioningError:  # The user may not read it.
        return False


def not_permitted(user: str) -> CommandError:
    """Return the error that the user may not read the broker, with the command that permits it."""
    permits = shlex.join(["rabbitmqctl", "set_user_tags", user, "monitoring"])
    return CommandError(
        ExitCode.FORBIDDEN, f"{user} may not read the broker; this command permits it: {permits}"
    )
