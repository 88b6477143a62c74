"""``amqp-gateway provision``: a RabbitMQ made ready for gateway and agent.

All that is printed is one valid configuration: what is no configuration stands in it as a comment.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
    user_exists,
)
from gateway.agents.rabbitmq.rights import (
    EVENT_EXCHANGE,
    EVENT_VHOST,
    MANAGEMENT_EXCHANGE,
    MANAGEMENT_VHOST,
    UserRights,
    agent_rights,
    gateway_rights,
)
from gateway.config.types import AmqpName, AmqpUrl, HttpUrl, SecretError, SecretSource
from gateway.durable_files import create_durably
from gateway.mapping.paths import Json
from gateway.service.exit_codes import OF_TROUBLE, CommandError, ExitCode

REQUEST_SECONDS = 20.0
PASSWORD_OCTETS = 18
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
    secrets: Path
    dry_run: bool

    def __post_init__(self) -> None:
        """Refuse users that would take each other's rights away."""
        names = [name for name in (self.administrator, self.gateway_user, self.agent_user) if name]
        if len(set(names)) < len(names):
            raise click.UsageError("administrator, gateway and agent are users of their own: name each apart")

    @property
    def rights(self) -> Mapping[str, UserRights]:
        """What each user to be made may do, by name."""
        vhost = self.vhost if self.agent_user else ""
        places = (self.watch, vhost, self.event_vhost, self.exchange)
        rights = {self.gateway_user: gateway_rights(*places)}
        return rights | ({self.agent_user: agent_rights(*places)} if self.agent_user else {})


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
    "--secrets",
    type=click.Path(path_type=Path),
    default=Path("secrets"),
    show_default=True,
    help="Folder of the users' passwords. A file that is there is used and kept.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def provision(**options: Any) -> None:  # noqa: ANN401  see `Options`
    """Set up a RabbitMQ: users with the least rights, virtual host, exchange; then say how to configure."""
    wanted = Options(**options)
    try:
        with _client(wanted) as client:
            _provision(client, wanted)
    except ProvisioningError as error:
        raise CommandError(OF_TROUBLE[error.trouble], str(error)) from error
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def _provision(client: httpx.Client, wanted: Options) -> None:
    overview = read(client, "overview")
    if not isinstance(overview, dict) or "rabbitmq_version" not in overview:
        raise CommandError(
            ExitCode.UNREACHABLE, f"{wanted.management}: no RabbitMQ management API answers there"
        )
    amqp = wanted.amqp or _amqp_url(wanted.management, overview.get("listeners"))
    passwords = {name: _Password.of(client, name, wanted.secrets) for name in wanted.rights}
    users = tuple(
        ProvisionedUser(name, password.text, wanted.rights[name]) for name, password in passwords.items()
    )
    steps = plan(client, users, vhost=wanted.vhost if wanted.agent_user else "", exchange=wanted.exchange)
    _set_up(client, passwords.values(), steps, dry_run=wanted.dry_run)
    _warn(client, wanted, passwords.values())
    paths = {name: password.path for name, password in passwords.items()}
    click.echo(f"\n{_configuration(wanted, amqp, paths)}", nl=False)


def _set_up(
    client: httpx.Client, passwords: Iterable[_Password], steps: tuple[Step, ...], *, dry_run: bool
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


@dataclass(frozen=True, slots=True)
class _Password:
    """The password of a user to be made, and the file that holds it."""

    path: Path
    text: str = field(repr=False)
    is_new: bool

    @classmethod
    def of(cls, client: httpx.Client, name: str, folder: Path) -> _Password:
        """The one that is there, else a new one, not written yet.

        Raises:
            CommandError: the broker has this user already, and we do not know its password.
            SecretError: the file cannot be read.
        """
        path = folder.resolve() / f"{quote(name, safe=' @+')}.password"
        if path.exists():
            return cls(path, SecretSource(file=path).read(Path()).get_secret_value(), is_new=False)
        if user_exists(client, name):
            raise CommandError(
                ExitCode.CONFIGURATION,
                f"the broker has a user {name!r} already, and {path} is not there: write its password into"
                " that file (tags and rights will be replaced), or choose another name",
            )
        return cls(path, secrets.token_urlsafe(PASSWORD_OCTETS), is_new=True)

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


def _warn(client: httpx.Client, wanted: Options, passwords: Iterable[_Password]) -> None:
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
        return {"kind": "rabbitmq", "management": wanted.management, **login(name), "events": events}

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
