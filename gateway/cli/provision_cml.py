"""``amqp-gateway provision-cml``: prepares a RabbitMQ for consoles and servers of CML.

As with `provision`, all that it prints is one valid configuration, with remarks as comments.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import click
import httpx

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
from gateway.config.sources import CmlSource
from gateway.config.types import AmqpName
from gateway.mapping.paths import Json
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.sources.rabbitmq.provisioning import TYPES, Exchange, Step, declaration, missing, plan
from gateway.sources.rabbitmq.rights import (
    DIRECT_EXCHANGE,
    MANAGEMENT_VHOST,
    UserRights,
    asking_by_cml,
    serving_cml,
)

SOURCE: Final = "cml"
_CONTROL_SECONDS: Final = 120.0
_DEFAULTS: Final = {name: field.default for name, field in CmlSource.model_fields.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options that `provision_cml` declares."""

    management: str
    administrator: str
    administrator_password_file: Path
    ca_file: Path | None
    amqp: str | None
    vhost: str
    system_exchange: str
    reply_exchange: str
    notify_exchange: str
    exchange: tuple[Exchange, ...]
    gateway_user: str
    server_user: str
    secrets: Path
    rabbitmqctl: str
    dry_run: bool

    @property
    def rights(self) -> dict[str, UserRights]:
        """The rights of each user to create, by name."""
        places = (self.vhost, self.system_exchange, self.reply_exchange, self.notify_exchange)
        rights = {self.gateway_user: asking_by_cml(*places)}
        if self.server_user:
            rights[self.server_user] = serving_cml(*places)
        return rights

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All exchanges that must exist."""
        named = (
            (self.system_exchange, "direct"),
            (self.reply_exchange, "direct"),
            (self.notify_exchange, "topic"),
        )
        ours = tuple(Exchange(self.vhost, name, type_) for name, type_ in named if name)
        return (*ours, *(Exchange(self.vhost, each.name, each.type) for each in self.exchange))


def _exchange(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[Exchange, ...]:
    exchanges = []
    for text in value:
        name, equals, type_ = text.rpartition("=")
        if not name or not equals or type_ not in TYPES:
            raise click.BadParameter(f"write NAME=TYPE, with a type out of {', '.join(TYPES)}")
        exchanges.append(Exchange("", name, type_))
    return tuple(exchanges)


@click.command("provision-cml")
@administrator_options
@click.option(
    "--vhost", default=MANAGEMENT_VHOST, show_default=True, callback=NAME, help="Virtual host of CML."
)
@click.option("--system-exchange", default=_DEFAULTS["system_exchange"], show_default=True, callback=NAME)
@click.option("--reply-exchange", default=DIRECT_EXCHANGE, show_default=True, callback=NAME)
@click.option(
    "--notify-exchange",
    default=_DEFAULTS["notify_exchange"],
    show_default=True,
    callback=checked(AmqpName),
    help="Empty for none.",
)
@click.option(
    "--exchange",
    metavar="NAME=TYPE",
    multiple=True,
    callback=_exchange,
    help="Also create this exchange, such as qpid.management=topic; repeat for more.",
)
@click.option("--gateway-user", metavar="NAME", default="gateway-cml", show_default=True, callback=NAME)
@click.option(
    "--server-user",
    metavar="NAME",
    default="cml-server",
    show_default=True,
    callback=checked(AmqpName),
    help="User of servers of CML; empty for none.",
)
@secrets_option
@click.option(
    "--rabbitmqctl",
    metavar="COMMAND",
    default="",
    help="Command that runs rabbitmqctl here, such as 'sudo rabbitmqctl': it declares exchanges that clients"
    " cannot declare. Without this option the commands are printed.",
)
@dry_run_option
def provision_cml(**options: Any) -> None:  # noqa: ANN401  see `_Options`
    """Set up a RabbitMQ for CML: exchanges and users with the least rights; then print a configuration.

    Names of exchanges that begin with amq. are reserved: only the node itself can declare them, by
    rabbitmqctl on its machine. At the end the command checks that all exchanges exist.
    """
    wanted = _Options(**{field.name: options[field.name] for field in fields(_Options)})
    if wanted.gateway_user == wanted.server_user:
        raise click.UsageError("gateway and server must be different users")
    with administration(
        wanted.management, wanted.administrator, wanted.administrator_password_file, wanted.ca_file
    ) as client:
        _provision(client, wanted, overview_of(client, wanted.management))


def _provision(client: httpx.Client, wanted: _Options, overview: Mapping[str, Json]) -> None:
    amqp = wanted.amqp or amqp_url(wanted.management, overview)
    passwords = {name: Password.of(client, name, wanted.secrets) for name in wanted.rights}
    users = users_to_be(wanted.rights, passwords)
    lacking = missing(client, wanted.exchanges)
    reserved = tuple(each for each in lacking if each.is_reserved and each.name != DIRECT_EXCHANGE)
    steps = (
        *plan(client, users, vhost=wanted.vhost, exchange=""),
        *_declarations(lacking),
    )
    set_up(client, passwords.values(), steps, dry_run=wanted.dry_run, is_all=not reserved)
    for each in reserved:
        _declare_reserved(each, wanted)
    click.echo(f"\n{_configuration(wanted, amqp, passwords)}", nl=False)
    if wanted.dry_run:
        return
    still = missing(client, wanted.exchanges)
    for each in wanted.exchanges:
        comment(f"{'MISSING' if each in still else 'there'}: the exchange {each}")
    if still:
        names = ", ".join(each.name for each in still)
        how = "rabbitmqctl had no effect" if wanted.rabbitmqctl else "run the commands above"
        raise CommandError(
            ExitCode.MISSING, f"{wanted.management}: missing: {names}: {how}, then run this command again"
        )


def _declarations(lacking: tuple[Exchange, ...]) -> tuple[Step, ...]:
    return tuple(declaration(each) for each in lacking if not each.is_reserved)


def _declare_reserved(exchange: Exchange, wanted: _Options) -> None:
    """Declare a reserved exchange by rabbitmqctl, or print the command that does."""
    command = shlex.split(wanted.rabbitmqctl or "rabbitmqctl")
    shown = shlex.join([*command, "eval", exchange.expression])
    if wanted.dry_run or not wanted.rabbitmqctl:
        comment(f"run on the broker's machine, as a user who may run rabbitmqctl: {shown}")
        return
    comment(shown)
    try:
        done = subprocess.run(  # noqa: S603  the operator's own command; names are quoted for Erlang
            [*command, "eval", exchange.expression],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CONTROL_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        text = f"{command[0]}: not found: run this on the broker's machine: {shown}"
        raise CommandError(ExitCode.NOT_INSTALLED, text) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(ExitCode.FAILED, f"{command[0]}: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise CommandError(ExitCode.FAILED, f"{shown}: ended with {done.returncode}: {said}")


def _configuration(wanted: _Options, amqp: str, passwords: dict[str, Password]) -> str:
    trust = {} if wanted.ca_file is None else {"ca_file": str(wanted.ca_file.resolve())}
    source: dict[str, Any] = {
        "kind": "cml",
        "amqp": {
            "url": amqp,
            "vhost": wanted.vhost,
            "user": wanted.gateway_user,
            "password": {"file": str(passwords[wanted.gateway_user].path)},
            **trust,
        },
    }
    named = {
        "system_exchange": wanted.system_exchange,
        "reply_exchange": wanted.reply_exchange,
        "notify_exchange": wanted.notify_exchange or None,
    }
    source |= {key: name for key, name in named.items() if name != _DEFAULTS[key]}
    remark = ""
    if wanted.server_user:
        source["trusted_users"] = [wanted.server_user]
        remark = (
            f"# {wanted.server_user} is trusted if messages have it as user-id, which RabbitMQ checks.\n"
            "# Remove 'trusted_users' for a server of CML whose messages have no user-id.\n"
        )
    return remark + yaml_of({"version": 1, "sources": {SOURCE: source}})
