"""``amqp-gateway quickstart``: from the address of a RabbitMQ to a running gateway in one command."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shlex
import shutil
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import click
import httpx
from pydantic import SecretStr

from gateway.cli.options import lifeline_option, loaded
from gateway.cli.printing import say
from gateway.cli.provision_management import (
    NAME,
    BrokerFound,
    Login,
    Password,
    amqp_option,
    amqp_url,
    ca_file_option,
    checked,
    dry_run_option,
    hidden_hosts,
    login_option,
    login_to,
    look,
    management_client,
    password_option,
    set_up,
    users_to_be,
    virtual_hosts,
)
from gateway.cli.run import run
from gateway.config.files import LoadedConfiguration
from gateway.config.sources import RabbitMqSource
from gateway.config.types import HttpUrl
from gateway.demo.snmp_commands import SnmpCommands
from gateway.durable_files import create_durably
from gateway.escapes import printable, shell_line
from gateway.links.amqp_connection import AmqpEndpoint, Trouble
from gateway.links.tls import ClientTls
from gateway.service.diagnostics.broker_checks import check_events
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.snmp.mib.lint import missing_base_modules
from gateway.sources.rabbitmq.provisioning import ProvisioningError, plan
from gateway.sources.rabbitmq.rights import EVENT_VHOST, MANAGEMENT_EXCHANGE, gateway_rights
from gateway.state_folder import COMMUNITY, StateError, StateFolder

_ATTEMPTS: Final = 5
"""Number of times that the rights are planned, while virtual hosts end."""

_CONFIGURATION: Final = """\
# Written by `amqp-gateway quickstart`. All keys: docs/configuration.md; `amqp-gateway check` reads it.
version: 1
state: {{ folder: state }}

sources:
  rabbitmq:
    kind: rabbitmq
    management: {management}
    user: {user}
    password: {{ file: {password} }}
{trust}{events}
# Other machines reach SNMP where it listens on more than the loopback: [0.0.0.0:{snmp_port}].
# The community is in state/secrets/community.
snmp:
  listen: [127.0.0.1:{snmp_port}]
  # notifications: {{ manager: {{ address: "192.0.2.1:162", kind: inform }} }}

# MBeans for JConsole. It needs a Java runtime of version 11 or newer.
jmx: {{ enabled: {jmx}, listen: 127.0.0.1:{jmx_port} }}

# For Prometheus.
metrics:
  enabled: true
  listen: 127.0.0.1:{metrics_port}
  objects: {{}} # queues and nodes, at /metrics/objects

# Changes need rules: docs/set-and-invoke.md. Without any, every change is refused.
# operations: {{ allow: [] }}
"""


_quoted = partial(json.dumps, ensure_ascii=False)
"""Quotes text for YAML, of which JSON is a subset."""


_MAX_SHOWN: Final = 5
"""The largest number of virtual hosts that are named."""


@dataclass(frozen=True, slots=True)
class _Ports:
    snmp: int
    jmx: int
    metrics: int


@dataclass(frozen=True, slots=True)
class _Reader:
    user: str
    password_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    """Options of the command: the folder, the user to create, the broker's address, and what to ask or do."""

    folder: Path
    user: str
    amqp: str | None
    dry_run: bool
    asks: bool


@click.command()
@click.argument("management", metavar="URL", callback=checked(HttpUrl))
@login_option
@password_option
@click.option(
    "--gateway-user",
    metavar="NAME",
    default="gateway",
    show_default=True,
    callback=NAME,
    help="The user to create, if you log in as an administrator.",
)
@ca_file_option
@amqp_option
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("amqp-gateway"),
    show_default=True,
    help="Folder for configuration, passwords, state and log.",
)
@click.option("--snmp-port", default=1161, show_default=True, type=click.IntRange(1, 65535))
@click.option("--jmx-port", default=9990, show_default=True, type=click.IntRange(1, 65535))
@click.option("--metrics-port", default=9464, show_default=True, type=click.IntRange(1, 65535))
@dry_run_option
@click.option("--yes", is_flag=True, help="Change the broker without asking.")
@click.option("--no-run", is_flag=True, help="Prepare everything, but do not run the gateway.")
@lifeline_option
@click.pass_context
def quickstart(  # noqa: PLR0913  one for each option
    context: click.Context,
    *,
    management: str,
    user: str | None,
    password_file: TextIO | None,
    gateway_user: str,
    ca_file: Path | None,
    amqp: str | None,
    folder: Path,
    snmp_port: int,
    jmx_port: int,
    metrics_port: int,
    dry_run: bool,
    yes: bool,
    no_run: bool,
    lifeline: int | None,
) -> None:
    """Watch the RabbitMQ whose management API is at URL: prepare everything, and run the gateway.

    As an administrator, create a user with the least rights for the gateway; as any other user, read the
    broker as that user. What exists already is kept, so that the command can be repeated.
    """
    try:
        folder = folder.absolute()
        path = folder / "gateway.yaml"
        exists = path.exists()
    except OSError as error:  # the current folder was removed, or is of others
        text = f"{folder}: {error.strerror}: name another folder by --folder"
        raise CommandError(ExitCode.CONFIGURATION, text) from error
    if exists:
        _check_watches(loaded(path), management)
        click.echo(f"{path} exists and is not changed")
    else:
        ports = _Ports(snmp_port, jmx_port, metrics_port)
        wishes = _Wishes(folder=folder, user=gateway_user, amqp=amqp, dry_run=dry_run, asks=not yes)
        text = _configured(management, login_to(management, user, password_file), ca_file, wishes, ports)
        if dry_run:
            click.echo(f"{path} would be:\n\n{text}", nl=False)
        else:
            _write(path, text)
            click.echo(f"wrote {path}")
    if dry_run:
        return
    configuration = loaded(path)
    _make_state(configuration)
    click.echo(_what_to_try(configuration, management, runs=not no_run))
    if not no_run:
        context.invoke(run, config=path, lifeline=lifeline)


def _check_watches(configuration: LoadedConfiguration, management: str) -> None:
    """Check that an existing configuration has this broker.

    Raises:
        CommandError: it has others.
    """
    sources = configuration.settings.sources.values()
    watched = [url for one in sources if isinstance(one, RabbitMqSource) for url in one.management]
    if management.rstrip("/") not in [url.rstrip("/") for url in watched]:
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{configuration.path} exists, and watches {', '.join(watched) or 'no RabbitMQ'}: choose another"
            f" folder by --folder, or add {management} under 'sources' of that file",
        )


def _configured(management: str, login: Login, ca_file: Path | None, wishes: _Wishes, ports: _Ports) -> str:
    """Create what is missing on the broker, and return the text of the configuration.

    Raises:
        CommandError: the broker does not answer, or refuses something.
    """
    with management_client(management, login.user, login.password, ca_file) as client:
        found = look(client, management, login.user)
        say([f"RabbitMQ {found.version} answers; {login.user} has {_tags(found)}"])
        amqp = wishes.amqp or amqp_url(management, found.overview)
        reader = _reader(client, found, login, wishes)
        if reader.user == login.user:
            _show_hidden(hidden_hosts(client, found), login.user)
    if reader.user == login.user and found.has_events:
        found = _without_events_refused(found, amqp, login, ca_file)
    return _text(management, found, amqp, reader, ca_file, ports)


def _show_hidden(hosts: list[str], user: str) -> None:
    """Print which virtual hosts the gateway will not see into, and the commands that permit it."""
    if not hosts:
        return
    known = f"{user} has no permission in {', '.join(map(repr, hosts[:_MAX_SHOWN]))}"
    more = f" and {len(hosts) - _MAX_SHOWN} more virtual hosts" if len(hosts) > _MAX_SHOWN else ""
    click.echo(
        printable(f"{known}{more}: queues, exchanges and bindings there are not shown. This permits it:"),
        err=True,
    )
    for host in hosts[:_MAX_SHOWN]:
        permits = shell_line(["rabbitmqctl", "set_permissions", "-p", host, user, "^$", "^$", "^$"])
        click.echo(f"  {permits}", err=True)


def _without_events_refused(found: BrokerFound, amqp: str, login: Login, ca_file: Path | None) -> BrokerFound:
    """Return ``found``, without events if this user cannot consume them, which is then printed."""
    endpoint = AmqpEndpoint(amqp, EVENT_VHOST, login.user, SecretStr(login.password), ClientTls(ca_file))
    try:
        asyncio.run(check_events(endpoint))
    except CommandError as error:
        click.echo(f"The configuration is without events, which this user cannot consume: {error}", err=True)
        return replace(found, has_events=False)
    return found


def _tags(found: BrokerFound) -> str:
    return f"the tags {', '.join(sorted(found.tags))}" if found.tags else "no tags"


def _reader(client: httpx.Client, found: BrokerFound, login: Login, wishes: _Wishes) -> _Reader:
    """Return the user who is to read the broker.

    Raises:
        ProvisioningError: the broker refused something.
    """
    secrets = wishes.folder / "secrets"
    if "administrator" in found.tags:
        return _Reader(wishes.user, _make_user(client, found, secrets, wishes))
    path = Password.path_of(login.user, secrets)
    if not wishes.dry_run and not path.exists():
        Password(path, login.password, is_new=True).write()
    return _Reader(login.user, path)


def _make_user(client: httpx.Client, found: BrokerFound, secrets: Path, wishes: _Wishes) -> Path:
    """Create a user with the least rights, and return the file of the password."""
    vhosts = found.vhosts
    for _ in range(_ATTEMPTS - 1):
        try:
            return _try_to_make_user(client, vhosts, secrets, wishes)
        except ProvisioningError as error:
            if error.trouble is not Trouble.REFUSED_VHOST:
                raise
            vhosts = virtual_hosts(client)  # one has ended meanwhile
    return _try_to_make_user(client, vhosts, secrets, wishes)


def _try_to_make_user(client: httpx.Client, vhosts: tuple[str, ...], secrets: Path, wishes: _Wishes) -> Path:
    rights = {wishes.user: gateway_rights(vhosts, "", EVENT_VHOST, MANAGEMENT_EXCHANGE)}
    passwords = {name: Password.of(client, name, secrets) for name in rights}
    steps = plan(client, users_to_be(rights, passwords), vhost="", exchange=MANAGEMENT_EXCHANGE)
    if steps and wishes.asks and not wishes.dry_run:
        click.echo("To be changed on the broker:")
        for step in steps:
            _show(step.description)
        if not sys.stdin.isatty():
            text = "there is no terminal to ask at: give --yes to change the broker without asking"
            raise CommandError(ExitCode.USAGE, text)
        click.confirm("Change the broker?", default=True, abort=True)
    set_up(client, passwords.values(), steps, dry_run=wishes.dry_run, show=_show)
    return passwords[wishes.user].path


def _show(line: str) -> None:
    say([f"  {line}"])


def _text(
    management: str, found: BrokerFound, amqp: str, reader: _Reader, ca_file: Path | None, ports: _Ports
) -> str:
    """Return the configuration, with comments for its reader."""
    events = "    # The broker's events report what comes and goes between two readings.\n"
    if found.has_events:
        events += f'    events: {{ url: "{amqp}", vhost: "{EVENT_VHOST}" }}\n'
    else:
        events += (
            "    # The plugin is missing (rabbitmq-plugins enable rabbitmq_event_exchange), or the user has\n"
            "    # no right to consume events (docs/rights.md).\n"
            f'    # events: {{ url: "{amqp}", vhost: "{EVENT_VHOST}" }}\n'
        )
    return _CONFIGURATION.format(
        management=management,
        user=_quoted(reader.user),
        password=_quoted(str(reader.password_file)),
        trust="" if ca_file is None else f"    ca_file: {_quoted(str(ca_file.absolute()))}\n",
        events=events,
        jmx="true" if shutil.which("java") else "false",
        snmp_port=ports.snmp,
        jmx_port=ports.jmx,
        metrics_port=ports.metrics,
    )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_durably(path, text)
    except OSError as error:
        raise CommandError(ExitCode.CONFIGURATION, f"{path}: cannot be written: {error.strerror}") from error


def _make_state(configuration: LoadedConfiguration) -> None:
    """Create the identity of the gateway, unless it has one."""
    folder = configuration.state_folder
    try:
        if not folder.exists():
            StateFolder.create(folder)
        StateFolder(folder).secret(COMMUNITY)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def installation_lines(*, has_commands: bool, has_modules: bool, again: str) -> list[str]:
    """Return the commands that install what is missing on this machine, as they are printed.

    Args:
        has_commands: whether net-snmp's commands are installed.
        has_modules: whether the standard MIB modules are installed, which the gateway's import.
        again: the command that prepares the gateway again. ``snmp.conf`` names the folders of modules that
            were there when it was written, so it has to be written again when they are installed.
    """
    packages = [*([] if has_commands else ["snmp"]), *([] if has_modules else ["erlang-snmp"])]
    if not packages:
        return []
    lines = [f"  apt-get install {' '.join(packages)}  # net-snmp's commands, and the standard MIB modules"]
    return lines if has_modules else [*lines, f"  {again}  # afterwards, so that names are found"]


def lines_of_java(ours: str, *, has_java: bool, has_spark: bool, serves_jmx: bool) -> list[str]:
    """Return the lines about the parts that need a Java runtime, as they are printed.

    Args:
        ours: the command ``amqp-gateway``, as a shell takes it.
        has_java: whether there is a Java runtime.
        has_spark: whether PySpark is installed.
        serves_jmx: whether the configuration has JMX.
    """
    lines = []
    if has_spark:
        lines.append(f"  {ours} analytics report --last 1h")
    if not has_java and (has_spark or not serves_jmx):
        parts = [*([] if serves_jmx else ["JMX (then set jmx.enabled to true)"]), *(["reports"] * has_spark)]
        lines.append(f"  apt-get install default-jre-headless  # for {' and '.join(parts)}: there is no Java")
    return lines


def lines_of_jconsole(address: str, login: str) -> list[str]:
    """Return the lines about JConsole, with what installs it where it is missing, as they are printed."""
    install = "  apt-get install default-jdk  # JConsole is not on this machine"
    start = f"  jconsole   then Remote Process {address}, {login}, Insecure connection"
    return [start] if shutil.which("jconsole") else [install, start]


def _shown(address: tuple[str, int]) -> str:
    """Return a listening address as a client on this machine reaches it."""
    host, port = address
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  not listened on: printed
    return f"[{here}]:{port}" if ":" in here else f"{here}:{port}"


def _what_to_try(configuration: LoadedConfiguration, management: str, *, runs: bool) -> str:
    """Return commands for this machine, to be typed as printed.

    Args:
        configuration: of the gateway.
        management: URL of the broker.
        runs: whether this command runs the gateway.
    """
    state, settings = StateFolder(configuration.state_folder), configuration.settings
    address = _shown(settings.snmp.listen[0])
    snmp = SnmpCommands.configured(configuration.path.parent / "snmp", address, state.secret(COMMUNITY))
    ours = shlex.quote(str(Path(sys.executable).with_name("amqp-gateway")))
    folder = shlex.quote(str(configuration.path.parent))
    missing = installation_lines(
        has_commands=shutil.which("snmpwalk") is not None,
        has_modules=not missing_base_modules(),
        again=f"{ours} quickstart {management} --folder {folder} --no-run",
    )
    run_it = f"  {ours} run --config {shlex.quote(str(configuration.path))}"
    prepared = [
        "This command runs the gateway, until Ctrl-C:",
        run_it,
        "",
        "While it runs, in another terminal:",
    ]
    lines = [
        "",
        *([f"The gateway watches {management}. In another terminal:"] if runs else prepared),
        *missing,
        f"  export SNMPCONFPATH={shlex.quote(str(snmp.folder))}",
        f"  export AMQP_GATEWAY_CONFIG={shlex.quote(str(configuration.path))}",
        f"  snmpwalk {address} AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueName",
        f"  snmptable -Cb -Cw 150 {address} AMQP-GATEWAY-MIB::agSourceTable",
        f"  {ours} tree",
        f"  {ours} log tail --follow",
    ]
    if settings.metrics.enabled:
        lines.append(f"  curl http://{_shown(settings.metrics.listen)}/metrics/objects")
    if settings.jmx.enabled:
        login = f"user monitor, password in {state.secret_path('jmx-monitor')}"
        lines += lines_of_jconsole(_shown(settings.jmx.listen), login)
    lines += lines_of_java(
        ours,
        has_java=shutil.which("java") is not None,
        has_spark=importlib.util.find_spec("pyspark") is not None,
        serves_jmx=settings.jmx.enabled,
    )
    end = ["Ctrl-C stops it. This command runs it again:", run_it, ""] if runs else []
    return "\n".join([*lines, "", *end])
