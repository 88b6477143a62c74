"""``amqp-gateway process``: what `run` starts, restarts and ends.

What a process does is imported once its parent is watched: that takes seconds on a machine that is busy.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from gateway.cli.without_rich import without_rich
from gateway.service.processes.parent_guard import ParentGuard

PROCESSES = {
    "core": "gateway.service.processes.core:run_core",
    "snmp": "gateway.service.processes.snmp:run_snmp",
    "jmx": "gateway.service.processes.jmx:run_jmx",
    "objects": "gateway.service.processes.objects:run_objects",
    "compactor": "gateway.service.processes.compactor:run_compactor",
}
"""Where each process is; only that one is imported, so that none carries what it does not need."""


@click.command(hidden=True)
@click.argument("name", type=click.Choice(sorted(PROCESSES)))
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--copy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What is read in place of the configuration, as a copy of it.",
)
@click.option("--lifeline", type=int, help="Descriptor of the line to whoever started this process.")
@click.option("--state-lock", type=int, help="Inherited descriptor of the state folder's lock.")
def process(
    name: str, config: Path | None, copy: Path | None, lifeline: int | None, state_lock: int | None
) -> None:
    """Run one process of the gateway."""
    guard = ParentGuard(lifeline)
    with without_rich():
        working = importlib.import_module("gateway.cli.process_work")
    working.run_process(name, PROCESSES[name], (config, copy), (lifeline, state_lock, guard))
