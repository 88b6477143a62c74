"""``amqp-gateway agent``."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from gateway.cli.options import config_option, lifeline_option, loaded, refuse_distrusted
from gateway.clock import SystemClock
from gateway.service.processes.agent import check_start, run_agent, until_replaced
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.process_setup import become, configure_logs, until_terminated
from gateway.service.processes.stop_signals import ends_with_terminal
from gateway.tasks import until_one_ends


@click.command()
@click.argument("name")
@config_option
@lifeline_option
@click.option("--trial", is_flag=True, hidden=True, help="Only find out whether the agent can be started so.")
def agent(name: str, config: Path | None, lifeline: int | None, *, trial: bool) -> None:
    """Run the agent NAME of the configuration, which publishes a broker by QMF."""
    configuration = loaded(config)
    configure_logs(f"agent {name}")
    if name not in configuration.settings.agents:
        known = ", ".join(sorted(configuration.settings.agents)) or "none"
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{configuration.path}: no agent {name!r} under 'agents'; there are: {known}",
        )
    refuse_distrusted(configuration)
    if trial:
        check_start(configuration, name)
        return
    again = ["agent", name, "--config", str(configuration.path)]
    line = Lifeline(lifeline)  # held: its descriptor is for what this process becomes
    is_replaced = False

    async def watch() -> None:
        nonlocal is_replaced
        await until_replaced(configuration, again)
        is_replaced = True

    running = until_one_ends(run_agent(configuration, name, SystemClock(), line), watch())
    unheeded = {signal.SIGUSR1, signal.SIGUSR2} | (set() if ends_with_terminal() else {signal.SIGHUP})
    asked = asyncio.run(until_terminated(running, is_service=True))
    if is_replaced and not asked:
        for number in unheeded:  # until the next agent takes them: without the loop they end a process
            signal.signal(number, signal.SIG_IGN)
        become(again, None, lifeline)
