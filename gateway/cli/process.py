"""``amqp-gateway process``: what `run` starts, restarts and ends."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path

import click

from gateway.cli.options import config_option, lifeline_option, loaded
from gateway.clock import SystemClock
from gateway.service.lifeline import Lifeline
from gateway.service.logs import configure_logs
from gateway.service.metrics.process import measured
from gateway.service.termination import until_terminated

PROCESSES = {
    "core": ("gateway.service.core", "run_core"),
    "snmp": ("gateway.service.snmp_process", "run_snmp"),
    "jmx": ("gateway.service.jmx_process", "run_jmx"),
    "compactor": ("gateway.service.compactor_process", "run_compactor"),
}
"""Where each process is; only that one is imported, so that none carries what it does not need."""


@click.command(hidden=True)
@click.argument("name", type=click.Choice(sorted(PROCESSES)))
@config_option
@lifeline_option
@click.option("--state-lock", type=int, hidden=True, help="Inherited descriptor of the state folder's lock.")
def process(name: str, config: Path | None, lifeline: int | None, state_lock: int | None) -> None:
    """Run one process of the gateway."""
    configuration = loaded(config)
    configure_logs(name)
    module, function = PROCESSES[name]
    run_process = getattr(importlib.import_module(module), function)
    inherited = Lifeline(lifeline, state_lock)
    work = run_process(configuration, SystemClock(), inherited)
    asyncio.run(until_terminated(measured(work, name, inherited.metrics)))
