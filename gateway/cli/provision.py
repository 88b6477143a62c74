"""``amqp-gateway provision``: a RabbitMQ made ready for gateway and agent.

All that is printed is one valid configuration: what is no configuration stands in it as a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import httpx

from gateway.agents.rabbitmq.impersonators import impersonators
from gateway.agents.rabbitmq.provisioning import ProvisionedUser, plan, read
from gateway.agents.rabbitmq.removal import ProvisionedBroker
from gateway.agents.rabbitmq.rights import (
    EVENT_EXCHANGE,
    EVENT_VHOST,
    MANAGEMENT_EXCHANGE,
    MANAGEMENT_VHOST,
    UserRights,
    agent_rights,
    gateway_rights,
    writer_rights,
)
from gateway.cli.provision_management import (
    NAME,
    administration,
    administrator_options,
    amqp_url,
    checked,
    comment,
    dry_run_option,
    listeners_of,
    secrets_option,
    set_up,
    users_to_be,
    yaml_of,
)
from gateway.cli.provision_passwords import Password
from gateway.cli.provision_removal import remove
from gateway.config.types import AmqpName, SecretSource
from gateway.links.durable_queue import default_name
from gateway.mapping.paths import Json

SOURCE, AGENT_SOURCE, AGENT = "rabbitmq", "rabbitmq-agent", "rabbitmq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says, as `provision` declares it."""

    management: str
    administrator: str
    administrator_password_file: Path
    ca_file: Path | None
    amqp: str | None
    watch: tuple[str, ...]
    vhost: str
    exchange: str
    event_vhost: str
    gateway_user: str
    agent_user: str
    writing: bool
    writing_user: str
    secrets: Path
    dry_run: bool
    remove: bool
    kept_queue: tuple[str, ...]
    yes: bool

    def __post_init__(self) -> None:
        """Refuse users that would take each other's rights away."""
        if (self.kept_queue or self.yes) and not self.remove:
            raise click.UsageError("--kept-queue and --yes belong to --remove")
        names = [
            name for name in (self.administrator, self.gateway_user, self.agent_user, self.writer) if name
        ]
        if len(set(names)) < len(names):
            raise click.UsageError(
                "administrator, gateway, agent and writer are users of their own: name each apart"
            )

    @property
    def administration(self) -> tuple[str, str, Path, Path | None]:
        """Arguments of the function of that name."""
        return self.management, self.administrator, self.administrator_password_file, self.ca_file

    @property
    def writer(self) -> str:
        """Who changes the broker; empty where that is not wanted."""
        return self.writing_user if self.writing else ""

    @property
    def rights(self) -> Mapping[str, UserRights]:
        """What each user to be made may do, by name."""
        vhost = self.vhost if self.agent_user else ""
        places = (self.watch, vhost, self.event_vhost, self.exchange)
        rights = {self.gateway_user: gateway_rights(*places)}
        if self.agent_user:
            rights[self.agent_user] = agent_rights(*places)
        if self.writer:
            rights[self.writer] = writer_rights(self.watch)
        return rights


@click.command()
@administrator_options
@click.option(
    "--watch",
    metavar="VHOST",
    multiple=True,
    default=["/"],
    show_default="/",
    callback=NAME,
    help="A virtual host whose objects are to be seen; repeat for more.",
)
@click.option(
    "--vhost", default=MANAGEMENT_VHOST, show_default=True, callback=NAME, help="Where agents speak."
)
@click.option("--exchange", default=MANAGEMENT_EXCHANGE, show_default=True, callback=NAME)
@click.option(
    "--event-vhost", default=EVENT_VHOST, show_default=True, callback=NAME, help="Where events are."
)
@click.option("--gateway-user", metavar="NAME", default="gateway", show_default=True, callback=NAME)
@click.option(
    "--agent-user",
    metavar="NAME",
    default="",
    callback=checked(AmqpName),
    help="Also a user for `amqp-gateway agent`, with the virtual host and the exchange that it publishes in."
    " Not needed to read this broker: the gateway does that by itself.",
)
@click.option(
    "--writing",
    is_flag=True,
    help="Also a user who changes the broker when an operation that the configuration allows asks for it. It"
    " is an administrator.",
)
@click.option("--writing-user", metavar="NAME", default="gateway-writer", show_default=True, callback=NAME)
@secrets_option
@dry_run_option
@click.option("--remove", is_flag=True, help="Take back what the same options have set up.")
@click.option(
    "--kept-queue",
    metavar="NAME",
    multiple=True,
    callback=NAME,
    help="A queue of a durable subscription to be removed too, beside those named as in the configuration"
    " that was printed; repeat for more.",
)
@click.option("--yes", is_flag=True, help="Remove without asking.")
def provision(**options: Any) -> None:  # noqa: ANN401  see `Options`
    """Set up a RabbitMQ: users with the least rights, virtual host, exchange; then say how to configure.

    With --remove, take that back: it says what it will do, and asks; what is not ours or is used stops it.
    """
    wanted = Options(**options)
    with administration(*wanted.administration) as client:
        amqp_listeners = listeners_of(client, wanted.management)
        if wanted.remove:
            remove(client, _provisioned(wanted), _password_files(wanted), wanted)
        else:
            _provision(client, wanted, amqp_listeners)


def _password_files(wanted: Options) -> dict[str, Path]:
    """Where the password of each user is, by the user's name."""
    return {name: Password.path_of(name, wanted.secrets) for name in wanted.rights}


def _provisioned(wanted: Options) -> ProvisionedBroker:
    """What these options have set up; with the passwords that are there."""
    users = tuple(
        ProvisionedUser(
            name,
            SecretSource(file=path).read(Path()).get_secret_value() if path.exists() else "",
            wanted.rights[name],
        )
        for name, path in _password_files(wanted).items()
    )
    queues = {default_name("events", SOURCE), default_name("console", AGENT_SOURCE), *wanted.kept_queue}
    vhost = wanted.vhost if wanted.agent_user else ""
    return ProvisionedBroker(users, vhost, wanted.exchange, wanted.event_vhost, frozenset(queues))


def _provision(client: httpx.Client, wanted: Options, listeners: Json) -> None:
    amqp = wanted.amqp or amqp_url(wanted.management, listeners)
    passwords = {name: Password.of(client, name, wanted.secrets) for name in wanted.rights}
    users = users_to_be(wanted.rights, passwords)
    steps = plan(client, users, vhost=wanted.vhost if wanted.agent_user else "", exchange=wanted.exchange)
    set_up(client, passwords.values(), steps, dry_run=wanted.dry_run)
    _warn(client, wanted, passwords.values())
    paths = {name: password.path for name, password in passwords.items()}
    click.echo(f"\n{_configuration(wanted, amqp, paths)}", nl=False)


def _warn(client: httpx.Client, wanted: Options, passwords: Iterable[Password]) -> None:
    """What the operator should know, although it is nothing that this command may change."""
    for name in impersonators(read(client, "users?columns=name,tags")) or ():
        comment(
            f"careful: user {name!r} carries the tag 'impersonator' and can forge any sender: take"
            " the tag away and close that user's connections (docs/rights.md)"
        )
    for password in passwords:
        if password.is_open:
            comment(f"careful: others can read {password.path}: chmod 600")
    vhost = quote(wanted.event_vhost, safe="")
    if read(client, f"exchanges/{vhost}/{EVENT_EXCHANGE}") is None:
        comment(
            f"careful: there is no exchange {EVENT_EXCHANGE} in {wanted.event_vhost}: enable the plugin"
            " rabbitmq_event_exchange, or what comes and goes between two looks is not seen"
        )


def _configuration(wanted: Options, amqp: str, passwords: Mapping[str, Path]) -> str:
    trust = {} if wanted.ca_file is None else {"ca_file": str(wanted.ca_file.resolve())}

    def login(name: str) -> dict[str, Any]:
        return {"user": name, "password": {"file": str(passwords[name])}, **trust}

    def reading(name: str) -> dict[str, Any]:
        events = {"url": amqp, "vhost": wanted.event_vhost}
        source = {"kind": "rabbitmq", "management": wanted.management, **login(name), "events": events}
        if wanted.writer:
            source["writing"] = {"user": wanted.writer, "password": {"file": str(passwords[wanted.writer])}}
        return source

    def speaking(name: str) -> dict[str, Any]:
        return {"url": amqp, "vhost": wanted.vhost, **login(name)}

    gateway, agent = wanted.gateway_user, wanted.agent_user
    if not agent:
        return yaml_of({"version": 1, "sources": {SOURCE: reading(gateway)}})
    told = {
        "kind": "qmf",
        "amqp": speaking(gateway),
        "trusted_users": [agent],
        "exchange": wanted.exchange,
    }
    publish = {"amqp": speaking(agent), "exchange": wanted.exchange, "allowed_users": [gateway]}
    sources = {SOURCE: {**reading(gateway), "own_users": [agent]}, AGENT_SOURCE: told}
    return (
        f"# Two sources show this broker: {SOURCE} is read by the gateway itself, {AGENT_SOURCE} is what\n"
        f"# `amqp-gateway agent {AGENT}` tells. Keep the one that you want.\n"
        + yaml_of(
            {"version": 1, "sources": sources, "agents": {AGENT: {**reading(agent), "publish": publish}}}
        )
    )
