"""``amqp-gateway demo``: a live RabbitMQ behind SNMP and JMX by one command."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import shlex
import signal
import sys
from pathlib import Path

import click

from gateway.cli.provision_management import look, management_client
from gateway.cli.quickstart import lines_of_jconsole
from gateway.demo.broker import BrokerSettings
from gateway.demo.demonstration import (
    JMX_SECRET,
    JMX_USER,
    OPERATOR,
    SHOP,
    SOURCE,
    Demonstration,
    DemonstrationError,
    ExistingBroker,
    own_broker,
)
from gateway.demo.install import DEMO_PACKAGES, InstallError, ensure_demonstration
from gateway.demo.installation import RELEASES, BrokerError, debian_release
from gateway.demo.snmp_commands import SnmpCommandError
from gateway.demo.workload import WorkloadError
from gateway.service.processes.exit_codes import CommandError, ExitCode

FIRST_COUNTER_SECONDS = 20.0


@click.command()
@click.option("--snmp-port", default=1161, show_default=True, type=click.IntRange(1, 65535))
@click.option("--jmx-port", default=9990, show_default=True, type=click.IntRange(1, 65535))
@click.option("--metrics-port", default=9464, show_default=True, type=click.IntRange(1, 65535))
@click.option(
    "--broker",
    "series",
    type=click.Choice(("3", "4", *RELEASES)),
    help="Start this RabbitMQ instead of the installed one: 4 is that of Debian 13.",
)
@click.option("--management", help="Read this RabbitMQ instead of starting one: http://HOST:15672")
@click.option("--amqp", default="", help="AMQP address of the same broker, for its events: amqp://HOST:5672")
@click.option("--user", help="User of the same broker, with the tag 'monitoring'.")
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the password of that user.",
)
def demo(
    *,
    snmp_port: int,
    jmx_port: int,
    metrics_port: int,
    series: str | None,
    management: str | None,
    amqp: str,
    user: str | None,
    password_file: Path | None,
) -> None:
    """Start a private RabbitMQ with a small workload, and show it through SNMP and JMX until Ctrl-C."""
    if series is not None and management is not None:
        raise click.UsageError("--broker starts a RabbitMQ: leave --management out")
    existing = None
    if management is not None:
        if user is None or password_file is None:
            raise click.UsageError("--management needs --user and --password-file")
        existing = ExistingBroker(management, amqp, user, password_file.read_text("utf-8").rstrip())
        with management_client(management, user, existing.password, None) as client:
            look(client, management, user)
    debian = debian_release(series) if series else ""
    try:
        ensure_demonstration(DEMO_PACKAGES, debian, progress)
    except InstallError as error:
        raise CommandError(ExitCode.NOT_INSTALLED, str(error)) from error
    try:
        asyncio.run(_run(existing or own_broker(debian), (snmp_port, jmx_port, metrics_port)))
    except DemonstrationError as error:
        known = set(ExitCode) - {ExitCode.OK}
        code = ExitCode(error.exit_code) if error.exit_code in known else ExitCode.FAILED
        raise CommandError(code, str(error)) from error
    except (BrokerError, WorkloadError, SnmpCommandError) as error:
        raise CommandError(ExitCode.FAILED, str(error)) from error


def progress(line: str) -> None:
    """Print one line of progress."""
    click.echo(f"  ..  {line}")


async def _run(broker: ExistingBroker | BrokerSettings, ports: tuple[int, int, int]) -> None:
    snmp_port, jmx_port, metrics_port = ports
    # The demonstration ends its broker on purpose.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    demonstration = Demonstration(
        progress,
        snmp_port=snmp_port,
        jmx_port=jmx_port,
        metrics_port=metrics_port,
        existing=broker if isinstance(broker, ExistingBroker) else None,
        settings=broker if isinstance(broker, BrokerSettings) else None,
    )
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with demonstration:
        busy, writable = await _row_to_watch(demonstration), await _row_to_set(demonstration)
        click.echo(_what_is_where(demonstration, busy, writable))
        await stop.wait()
    click.echo("  ..  everything is stopped, nothing is left")


async def _row_to_watch(demonstration: Demonstration) -> str:
    """Return the index of a queue whose counters grow, or an empty text after a time."""
    snmp, workload = demonstration.snmp, demonstration.workload
    if snmp is None or workload is None:
        return ""
    with contextlib.suppress(TimeoutError, SnmpCommandError):
        async with asyncio.timeout(FIRST_COUNTER_SECONDS):
            while True:
                for index, cells in (await asyncio.to_thread(snmp.walk, "rmqQueueTable")).items():
                    busy = cells.get("rmqQueueMessagesPublished", "0") != "0"
                    if busy and cells.get("rmqQueueName") == workload.topology.audit.name:
                        return index
                await asyncio.sleep(1)
    return ""


async def _row_to_set(demonstration: Demonstration) -> str:
    """Return the index of a virtual host whose limits the operator may set, or an empty text."""
    if demonstration.snmp is not None and demonstration.operator_snmp is not None:
        rows = await asyncio.to_thread(demonstration.snmp.walk, "rmqVhostName")
        for index, cells in rows.items():
            if cells["rmqVhostName"] in SHOP:
                return index
    return ""


def _what_is_where(demonstration: Demonstration, busy_row: str, writable_row: str) -> str:
    snmp, state, broker = demonstration.snmp, demonstration.state, demonstration.broker
    traps = demonstration.traps
    assert snmp is not None
    assert state is not None
    assert traps is not None
    lines = ["", "Everything is running."]
    if broker is not None:
        lines += [
            f"  RabbitMQ      AMQP 127.0.0.1:{broker.ports.amqp}, management {broker.management_url}",
            f"                user {broker.administrator.name}, password {broker.administrator.password}",
        ]
    address, modules = snmp.address, "AMQP-GATEWAY-RABBITMQ-MIB"
    lines += [
        f"  SNMP          UDP {address}, v1 and v2c, community in {state.secret_path('community')}",
        f"  traps         printed by snmptrapd: {traps.printed}",
        f"  JMX           {demonstration.jmx_address}",
        f"                user {JMX_USER}, password in {state.secret_path(JMX_SECRET)}",
        *(
            [f"                user {OPERATOR}, password in {state.secret_path(f'jmx-{OPERATOR}')}"]
            if writable_row
            else []
        ),
        f"  Prometheus    http://{demonstration.metrics_address}/metrics and /metrics/objects",
        f"  event log     {demonstration.log_folder}",
        *(
            [f"  ledger        {demonstration.ledger_file}, written by the workload"]
            if broker is not None
            else []
        ),
        f"  configuration {demonstration.configuration}",
        f"  messages      {demonstration.folder / 'gateway.log'}",
        "",
        "In another terminal (the variables name the configurations of net-snmp and amqp-gateway):",
        f"  export SNMPCONFPATH={snmp.folder}",
        f"  export AMQP_GATEWAY_CONFIG={demonstration.configuration}",
        f"  snmptable -Cb -Cw 150 {address} AMQP-GATEWAY-MIB::agSourceTable",
        f"  snmpwalk {address} {modules}::rmqQueueName",
        f"  snmpwalk {address} {modules}::rmqQueueMessages",
        f"  snmpwalk {address} {modules}::rmqConnectionTable",
    ]
    if busy_row:
        lines.append(f"  snmpdelta -Cs -Cp 2 {address} {modules}::rmqQueueMessagesPublished.{busy_row}")
    lines += [
        f"  tail -n +1 -f {traps.printed}",
        *(f"  {line}" for line in _log_commands()),
        *lines_of_jconsole(str(demonstration.jmx_address), "user and password as above"),
        *(_how_to_change(demonstration, writable_row) if writable_row else []),
        "",
        "Ctrl-C stops everything.",
    ]
    return "\n".join(lines)


def _how_to_change(demonstration: Demonstration, row: str) -> list[str]:
    """Return commands that set limits, and one that shows the outcome."""
    operator, command = demonstration.operator_snmp, _our_command()
    assert operator is not None
    column = f"AMQP-GATEWAY-RABBITMQ-MIB::rmqVhostMaxConnections.{row}"
    return [
        "",
        "To change something, which the configuration permits (operations), and to see the outcome:",
        f"  SNMPCONFPATH={operator.folder} snmpset {operator.address} {column} i 100",
        f"  {command} set {SOURCE}/vhost/{next(iter(SHOP))} maxQueues=50",
        f"  {command} log tail --kind operation",
    ]


def _our_command() -> str:
    ours = Path(sys.executable).with_name("amqp-gateway")
    with contextlib.suppress(OSError, ValueError):  # the current folder was removed, or is another one
        ours = ours.relative_to(Path.cwd())
    return shlex.quote(str(ours))


def _log_commands() -> list[str]:
    """Return queries of the event log, and the report if Spark is installed."""
    command = _our_command()
    lines = [f"{command} log tail --follow", f"{command} log query --last 10min --class queue"]
    if importlib.util.find_spec("pyspark") is not None:
        lines.append(f"{command} analytics report --last 10min --plot report.png")
    return lines
