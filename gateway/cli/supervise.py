"""``amqp-gateway supervise``: the supervisor, which `run` becomes when it has checked the configuration.

It imports nothing that reads a configuration: pydantic and the models take 15 MB of memory.
"""

from __future__ import annotations

import asyncio
import signal
import time
from functools import partial
from pathlib import Path

import click

from gateway.eventlog.segment import due
from gateway.service.metrics.process import CompactionCounts
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.process_setup import become, configure_logs
from gateway.service.processes.stop_signals import ends_with_terminal
from gateway.service.processes.supervisor import MetricsPages, ProcessPlan, gateway_command, run_gateway
from gateway.snmp.v3.engine import next_boots
from gateway.starts import ReservedStarts, StartsError

_FILE = click.Path(path_type=Path)


@click.command(hidden=True)
@click.option("--config", type=_FILE, required=True)
@click.option("--copy", type=_FILE, required=True, help="Copy of the configuration that all processes read.")
@click.option("--state", type=_FILE, required=True, help="The state folder.")
@click.option("--process", "processes", multiple=True, help="Process to run, in the order of start.")
@click.option("--compact", type=_FILE, help="Folder of the log whose segments the compactor takes.")
@click.option(
    "--metrics",
    multiple=True,
    help="Where metrics are served: address, port, number of connections, and for TLS certificate, key and "
    "authorities of clients.",
)
@click.option(
    "--socket",
    "sockets",
    type=(str, _FILE),
    multiple=True,
    help="Process that listens on a socket, and where.",
)
@click.option("--lifeline", type=int, help="Descriptor of the lifeline to the parent process.")
@click.option("--state-lock", type=int, required=True, help="Descriptor of the state folder's lock.")
def supervise(  # noqa: PLR0913, PLR0917  one for each option
    config: Path,
    copy: Path,
    state: Path,
    processes: tuple[str, ...],
    compact: Path | None,
    metrics: tuple[str, ...],
    sockets: tuple[tuple[str, Path], ...],
    lifeline: int | None,
    state_lock: int,
) -> None:
    """Run the processes of the gateway."""
    configure_logs("supervisor")
    plans = [ProcessPlan(name, gateway_command(name, config, copy)) for name in processes]
    if compact is not None:
        counts = tuple(CompactionCounts().readings())
        command = gateway_command("compactor", config, copy)
        plans.append(ProcessPlan("compactor", command, partial(_waits, compact), counts))
    listening = dict(sockets)
    pages = _pages(*metrics, objects=listening.get("objects")) if metrics else None
    line = Lifeline(lifeline)  # held: its descriptor is for what this process becomes
    again = ["run", "--config", str(config), "--copy", str(copy)]
    numbers = _numbers(state)
    unheeded = {signal.SIGUSR1, signal.SIGUSR2} | (set() if ends_with_terminal() else {signal.SIGHUP})
    if asyncio.run(run_gateway(plans, pages, line, state_lock, listening, again, numbers)):
        for number in unheeded:  # until the next supervisor takes them: without the loop they end a process
            signal.signal(number, signal.SIG_IGN)
        become(again, state_lock, lifeline)


def _numbers(state: Path) -> ReservedStarts:
    try:
        return ReservedStarts(state, next_boots(0, time.time_ns()))
    except StartsError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def _pages(address: str, port: str, connections: str, *files: str, objects: Path | None) -> MetricsPages:
    certificate, key, client_ca = (*map(Path, files), None, None, None)[:3]
    tls = None if certificate is None or key is None else (certificate, key)
    return MetricsPages((address, int(port)), objects, tls, client_ca, int(connections))


def _waits(log_folder: Path) -> bool:
    """Return whether a segment waits for the compactor; also true if the log cannot be read.

    A compactor that cannot read the log reports the reason.
    """
    try:
        return bool(due(log_folder))
    except OSError:
        return True
