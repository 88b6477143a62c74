"""``amqp-gateway provision``: prepares a RabbitMQ for gateway and agent, or removes what it prepared.

All that it prints is one valid configuration; everything else is printed as a comment in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx

from gateway.cli.printing import say
from gateway.cli.provision_management import (
    NAME,
    Password,
    administration,
    administrator_options,
    amqp_url,
    checked,
    comment,
    dry_run_option,
    overview_of,
    secrets_option,
    set_up,
    users_to_be,
    yaml_of,
)
from gateway.config.types import AmqpName, SecretSource
from gateway.links.durable_queue import default_name
from gateway.mapping.paths import Json
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.sources.rabbitmq.path_proof import path_of
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, carry_out, plan, read
from gateway.sources.rabbitmq.removal import ProvisionedBroker, Removal, plan_removal
from gateway.sources.rabbitmq.rights import (
    EVENT_EXCHANGE,
    EVENT_VHOST,
    MANAGEMENT_EXCHANGE,
    MANAGEMENT_VHOST,
    UserRights,
    agent_rights,
    gateway_rights,
    impersonators,
    writer_rights,
)

SOURCE, AGENT_SOURCE, AGENT = "rabbitmq", "rabbitmq-agent", "rabbitmq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that `provision` declares."""

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
    durable_queue: tuple[str, ...]
    yes: bool

    def __post_init__(self) -> None:
        """Check that the users differ: each would replace the rights of the other."""
        if (self.durable_queue or self.yes) and not self.remove:
            raise click.UsageError("--kept-queue and --yes belong to --remove")
        names = [
            name for name in (self.administrator, self.gateway_user, self.agent_user, self.writer) if name
        ]
        if len(set(names)) < len(names):
            raise click.UsageError("administrator, gateway, agent and writer must be different users")

    @property
    def administration(self) -> tuple[str, str, Path, Path | None]:
        """The arguments of the function of that name."""
        return self.management, self.administrator, self.administrator_password_file, self.ca_file

    @property
    def writer(self) -> str:
        """The user who changes the broker, or an empty text."""
        return self.writing_user if self.writing else ""

    @property
    def rights(self) -> Mapping[str, UserRights]:
        """The rights of each user to create, by name."""
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
    help="A virtual host to watch; repeat for more.",
)
@click.option(
    "--vhost",
    default=MANAGEMENT_VHOST,
    show_default=True,
    callback=NAME,
    help="Virtual host in which agents publish.",
)
@click.option("--exchange", default=MANAGEMENT_EXCHANGE, show_default=True, callback=NAME)
@click.option(
    "--event-vhost",
    default=EVENT_VHOST,
    show_default=True,
    callback=NAME,
    help="Virtual host of the event exchange.",
)
@click.option("--gateway-user", metavar="NAME", default="gateway", show_default=True, callback=NAME)
@click.option(
    "--agent-user",
    metavar="NAME",
    default="",
    callback=checked(AmqpName),
    help="Also create a user for `amqp-gateway agent`, with the virtual host and exchange in which it"
    " publishes. Not needed to read this broker: the gateway does that by itself.",
)
@click.option(
    "--writing",
    is_flag=True,
    help="Also create a user for operations that change the broker, where the configuration permits them."
    " The user is an administrator.",
)
@click.option("--writing-user", metavar="NAME", default="gateway-writer", show_default=True, callback=NAME)
@secrets_option
@dry_run_option
@click.option("--remove", is_flag=True, help="Remove what the same options have set up.")
@click.option(
    "--kept-queue",
    "durable_queue",
    metavar="NAME",
    multiple=True,
    callback=NAME,
    help="Also remove this queue of a durable subscription, beside those with the default names; repeat for"
    " more.",
)
@click.option("--yes", is_flag=True, help="Remove without asking.")
def provision(**options: Any) -> None:  # noqa: ANN401  see `Options`
    """Set up a RabbitMQ: users with the least rights, virtual host, exchange; then print a configuration.

    With --remove, remove these: the command shows what it will do, and asks. It removes nothing if anything
    has another owner or is in use.
    """
    wanted = Options(**options)
    with administration(*wanted.administration) as client:
        overview = overview_of(client, wanted.management)
        if wanted.remove:
            remove(client, _provisioned(wanted), _password_files(wanted), wanted)
        else:
            _provision(client, wanted, overview)


def _password_files(wanted: Options) -> dict[str, Path]:
    """Return the file of each user's password, by the name of the user."""
    return {name: Password.path_of(name, wanted.secrets) for name in wanted.rights}


def _provisioned(wanted: Options) -> ProvisionedBroker:
    """Return what these options have set up, with the passwords that exist."""
    users = tuple(
        ProvisionedUser(
            name,
            SecretSource(file=path).read(Path()).get_secret_value() if path.exists() else "",
            wanted.rights[name],
        )
        for name, path in _password_files(wanted).items()
    )
    queues = {default_name("events", SOURCE), default_name("console", AGENT_SOURCE), *wanted.durable_queue}
    vhost = wanted.vhost if wanted.agent_user else ""
    return ProvisionedBroker(users, vhost, wanted.exchange, wanted.event_vhost, frozenset(queues))


def _provision(client: httpx.Client, wanted: Options, overview: Mapping[str, Json]) -> None:
    amqp = wanted.amqp or amqp_url(wanted.management, overview)
    passwords = {name: Password.of(client, name, wanted.secrets) for name in wanted.rights}
    users = users_to_be(wanted.rights, passwords)
    steps = plan(client, users, vhost=wanted.vhost if wanted.agent_user else "", exchange=wanted.exchange)
    set_up(client, passwords.values(), steps, dry_run=wanted.dry_run)
    _warn(client, wanted, passwords.values())
    paths = {name: password.path for name, password in passwords.items()}
    click.echo(f"\n{_configuration(wanted, amqp, paths)}", nl=False)


def _warn(client: httpx.Client, wanted: Options, passwords: Iterable[Password]) -> None:
    """Print warnings about things that this command does not change."""
    for name in impersonators(read(client, "users?columns=name,tags")) or ():
        comment(
            f"careful: user {name!r} carries the tag 'impersonator' and can forge any sender: take"
            " the tag away and close that user's connections (docs/rights.md)"
        )
    for password in passwords:
        if password.is_open:
            comment(f"careful: others can read {password.path}: chmod 600")
        if password.remark:
            comment(f"careful: {password.remark}")
    if read(client, path_of("exchanges", wanted.event_vhost, EVENT_EXCHANGE)) is None:
        comment(
            f"careful: there is no exchange {EVENT_EXCHANGE} in {wanted.event_vhost}: enable the plugin"
            " rabbitmq_event_exchange, or objects that live shortly between two readings are not seen"
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
    published = {
        "kind": "qmf",
        "amqp": speaking(gateway),
        "trusted_users": [agent],
        "exchange": wanted.exchange,
    }
    publish = {"amqp": speaking(agent), "exchange": wanted.exchange, "allowed_users": [gateway]}
    sources = {SOURCE: {**reading(gateway), "own_users": [agent]}, AGENT_SOURCE: published}
    return (
        f"# Two sources show this broker: {SOURCE} is read by the gateway itself, {AGENT_SOURCE} is\n"
        f"# published by `amqp-gateway agent {AGENT}`. Keep the one that you want.\n"
        + yaml_of(
            {"version": 1, "sources": sources, "agents": {AGENT: {**reading(agent), "publish": publish}}}
        )
    )


def remove(
    client: httpx.Client, provisioned: ProvisionedBroker, passwords: Mapping[str, Path], wanted: Options
) -> None:
    """Remove what the options have set up.

    Args:
        client: of the management API, as `plan_removal` takes it.
        provisioned: what to remove.
        passwords: the files with the users' passwords.
        wanted: says whether to ask, and whether to change anything.

    Raises:
        CommandError: there is an obstacle, or the question was answered with no; nothing is changed.
        ProvisioningError: the broker refused a step; earlier ones are not undone.
    """
    plan = plan_removal(client, provisioned)
    _show(plan)
    if plan.obstacles:
        count = len(plan.obstacles)
        things = "one thing is" if count == 1 else f"{count} things are"
        raise CommandError(ExitCode.CONFIGURATION, f"{things} in the way: nothing is removed")
    if wanted.dry_run:
        _say("dry run: nothing is removed")
        return
    if plan.steps:
        if not wanted.yes:
            _ask()
            _unchanged(plan, plan_removal(client, provisioned))
        for step in plan.steps:
            carry_out(client, step)
            _say(f"done: {step.description}")
    for name, path in passwords.items():
        if path.exists():
            _say(f"left: {path}: the password of {name}; delete it, or keep it for another provision")


def _show(plan: Removal) -> None:
    for step in plan.steps:
        _say(f"to do: {step.description}")
    if not plan.steps:
        _say("nothing: the broker has nothing that these options set up")
    for line in plan.left:
        _say(f"left: {line}")
    for line in plan.obstacles:
        _say(f"in the way: {line}")


def _ask() -> None:
    if not sys.stdin.isatty():
        raise CommandError(
            ExitCode.USAGE, "there is no terminal to ask at: give --yes to remove without asking"
        )
    if not click.confirm("Remove this?", err=True):
        raise CommandError(ExitCode.FAILED, "nothing is removed")


def _unchanged(shown: Removal, now: Removal) -> None:
    """Check that the plan that was agreed to is unchanged; messages may have arrived."""
    if now.obstacles or [step.path for step in now.steps] != [step.path for step in shown.steps]:
        text = "the broker has changed since the question: nothing is removed; run the command again"
        raise CommandError(ExitCode.FAILED, text)


def _say(line: str) -> None:
    say([line])
