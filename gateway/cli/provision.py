"""``amqp-gateway provision``: a RabbitMQ made ready for gateway and agent.

All that is printed is one valid configuration: what is no configuration stands in it as a comment.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import click
import httpx
import yaml
from pydantic import AfterValidator, TypeAdapter, ValidationError

from gateway.agents.rabbitmq.impersonators import impersonators
from gateway.agents.rabbitmq.provisioning import (
    ProvisionedUser,
    ProvisioningError,
    Step,
    carry_out,
    plan,
    read,
)
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
from gateway.cli.provision_passwords import Password
from gateway.cli.provision_removal import remove
from gateway.config.types import AmqpName, AmqpUrl, HttpUrl, SecretError, SecretSource
from gateway.links.kept_queue import default_name
from gateway.mapping.paths import Json
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.service.trouble_codes import OF_TROUBLE

REQUEST_SECONDS = 20.0
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


def _checked(type_: Any) -> Any:  # noqa: ANN401  a pydantic type, a click callback
    """The configuration's own rules for a value, on the command line."""
    adapter: TypeAdapter[str] = TypeAdapter(type_)

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401  click's
        try:
            for one in value if isinstance(value, tuple) else (value,):
                if one is not None:
                    adapter.validate_python(one)
        except ValidationError as error:
            text = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise click.BadParameter(text, context, parameter) from error
        return value

    return check


def _not_empty(name: str) -> str:
    if not name:
        raise ValueError("must not be empty")
    return name


_NAME = _checked(Annotated[AmqpName, AfterValidator(_not_empty)])


@click.command()
@click.option(
    "--management", required=True, metavar="URL", callback=_checked(HttpUrl), help="Management API."
)
@click.option("--administrator", required=True, metavar="NAME", callback=_NAME, help="Who sets it up.")
@click.option("--administrator-password-file", required=True, type=click.Path(path_type=Path))
@click.option("--ca-file", type=click.Path(path_type=Path), help="Certificates to trust; else the system's.")
@click.option(
    "--amqp",
    metavar="URL",
    callback=_checked(AmqpUrl),
    help="For the configuration; else as the broker tells.",
)
@click.option(
    "--watch",
    metavar="VHOST",
    multiple=True,
    default=["/"],
    show_default="/",
    callback=_NAME,
    help="A virtual host whose objects are to be seen; repeat for more.",
)
@click.option(
    "--vhost", default=MANAGEMENT_VHOST, show_default=True, callback=_NAME, help="Where agents speak."
)
@click.option("--exchange", default=MANAGEMENT_EXCHANGE, show_default=True, callback=_NAME)
@click.option(
    "--event-vhost", default=EVENT_VHOST, show_default=True, callback=_NAME, help="Where events are."
)
@click.option("--gateway-user", metavar="NAME", default="gateway", show_default=True, callback=_NAME)
@click.option(
    "--agent-user",
    metavar="NAME",
    default="agent",
    show_default=True,
    callback=_checked(AmqpName),
    help="Empty for none: the gateway reads by itself, and needs no virtual host for agents.",
)
@click.option(
    "--writing",
    is_flag=True,
    help="Also a user who changes the broker when an operation that the configuration allows asks for it. It"
    " is an administrator.",
)
@click.option("--writing-user", metavar="NAME", default="gateway-writer", show_default=True, callback=_NAME)
@click.option(
    "--secrets",
    type=click.Path(path_type=Path),
    default=Path("secrets"),
    show_default=True,
    help="Folder of the users' passwords. A file that is there is used and kept.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--remove", is_flag=True, help="Take back what the same options have set up.")
@click.option(
    "--kept-queue",
    metavar="NAME",
    multiple=True,
    callback=_NAME,
    help="A queue of a durable subscription to be removed too, beside those named as in the configuration"
    " that was printed; repeat for more.",
)
@click.option("--yes", is_flag=True, help="Remove without asking.")
def provision(**options: Any) -> None:  # noqa: ANN401  see `Options`
    """Set up a RabbitMQ: users with the least rights, virtual host, exchange; then say how to configure.

    With --remove, take that back: it says what it will do, and asks; what is not ours or is used stops it.
    """
    wanted = Options(**options)
    try:
        with _client(wanted) as client:
            amqp_listeners = _listeners(client, wanted)
            if wanted.remove:
                remove(client, _provisioned(wanted), _password_files(wanted), wanted)
            else:
                _provision(client, wanted, amqp_listeners)
    except ProvisioningError as error:
        raise CommandError(OF_TROUBLE[error.trouble], str(error)) from error
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def _listeners(client: httpx.Client, wanted: Options) -> Json:
    """What the broker listens on; so it is a RabbitMQ."""
    overview = read(client, "overview")
    if not isinstance(overview, dict) or "rabbitmq_version" not in overview:
        raise CommandError(
            ExitCode.UNREACHABLE, f"{wanted.management}: no RabbitMQ management API answers there"
        )
    return overview.get("listeners")


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
    amqp = wanted.amqp or _amqp_url(wanted.management, listeners)
    passwords = {name: Password.of(client, name, wanted.secrets) for name in wanted.rights}
    users = tuple(
        ProvisionedUser(name, password.text, wanted.rights[name]) for name, password in passwords.items()
    )
    steps = plan(client, users, vhost=wanted.vhost if wanted.agent_user else "", exchange=wanted.exchange)
    _set_up(client, passwords.values(), steps, dry_run=wanted.dry_run)
    _warn(client, wanted, passwords.values())
    paths = {name: password.path for name, password in passwords.items()}
    click.echo(f"\n{_configuration(wanted, amqp, paths)}", nl=False)


def _set_up(
    client: httpx.Client, passwords: Iterable[Password], steps: tuple[Step, ...], *, dry_run: bool
) -> None:
    if dry_run:
        _comment("dry run: nothing is changed. To do:")
    for password in passwords:
        if password.is_new:
            _comment(f"generate a password into {password.path}")
            if not dry_run:
                password.write()
    for step in steps:
        _comment(step.told)
        if not dry_run:
            carry_out(client, step)
    if not steps:
        _comment("nothing: the broker is as it should be")


def _client(wanted: Options) -> httpx.Client:
    password = SecretSource(file=wanted.administrator_password_file).read(Path())
    try:
        context = ssl.create_default_context(cafile=wanted.ca_file)
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or str(error)
        raise CommandError(ExitCode.CONFIGURATION, f"{wanted.ca_file}: cannot be used: {reason}") from error
    return httpx.Client(
        base_url=f"{wanted.management.rstrip('/')}/api/",
        auth=httpx.BasicAuth(wanted.administrator, password.get_secret_value()),
        verify=context,
        timeout=REQUEST_SECONDS,
        trust_env=False,
    )


def _warn(client: httpx.Client, wanted: Options, passwords: Iterable[Password]) -> None:
    """What the operator should know, although it is nothing that this command may change."""
    for name in impersonators(read(client, "users?columns=name,tags")) or ():
        _comment(
            f"careful: user {name!r} carries the tag 'impersonator' and can forge any sender: take"
            " the tag away and close that user's connections (docs/rights.md)"
        )
    for password in passwords:
        if password.is_open:
            _comment(f"careful: others can read {password.path}: chmod 600")
    vhost = quote(wanted.event_vhost, safe="")
    if read(client, f"exchanges/{vhost}/{EVENT_EXCHANGE}") is None:
        _comment(
            f"careful: there is no exchange {EVENT_EXCHANGE} in {wanted.event_vhost}: enable the plugin"
            " rabbitmq_event_exchange, or what comes and goes between two looks is not seen"
        )


def _amqp_url(management: str, listeners: Json) -> str:
    """Where the broker says that it listens for AMQP, on the host of the management API."""
    ports = {
        one["protocol"]: one["port"]
        for one in reversed(listeners if isinstance(listeners, list) else [])
        if isinstance(one, dict) and isinstance(one.get("port"), int) and isinstance(one.get("protocol"), str)
    }
    parts = urlsplit(management)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    schemes = {"amqp": "amqp", "amqp/ssl": "amqps"}
    preferred = reversed(schemes) if parts.scheme == "https" else iter(schemes)
    for protocol in preferred:
        if protocol in ports:
            return f"{schemes[protocol]}://{host}:{ports[protocol]}"
    raise CommandError(
        ExitCode.CONFIGURATION,
        f"{management}: the broker names no AMQP listener: say where it is with --amqp",
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
        return _yaml({"version": 1, "sources": {SOURCE: reading(gateway)}})
    told = {
        "kind": "qmf",
        "amqp": speaking(gateway),
        "believe": [agent],
        "exchange": wanted.exchange,
    }
    publish = {"amqp": speaking(agent), "exchange": wanted.exchange, "obey": [gateway]}
    sources = {SOURCE: {**reading(gateway), "own_users": [agent]}, AGENT_SOURCE: told}
    return (
        f"# Two sources show this broker: {SOURCE} is read by the gateway itself, {AGENT_SOURCE} is what\n"
        f"# `amqp-gateway agent {AGENT}` tells. Keep the one that you want.\n"
        + _yaml({"version": 1, "sources": sources, "agents": {AGENT: {**reading(agent), "publish": publish}}})
    )


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)


def _comment(line: str) -> None:
    click.echo(f"# {' '.join(line.splitlines())}")
