"""``amqp-gateway agent``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.options import config_option, lifeline_option, loaded, refuse_distrusted
from gateway.clock import SystemClock
from gateway.service.processes.agent import run_agent
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.process_setup import configure_logs, until_terminated


@click.command()
@click.argument("name")
@config_option
@lifeline_option
def agent(name: str, config: Path | None, lifeline: int | None) -> None:
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
    running = run_agent(configuration, name, SystemClock(), Lifeline(lifeline))
    asyncio.run(until_terminated(running, is_service=True))
