"""``amqp-gateway process``: one process, which `run` starts, restarts and ends.

Its code is imported after the guard of the parent has started: imports take seconds on a busy machine.
"""

from __future__ import annotations

import gc
import importlib
from functools import partial
from pathlib import Path

import click

from gateway.cli.late_import import without_rich
from gateway.service.processes.parent_guard import ParentGuard

PROCESSES = {
    "core": "gateway.service.processes.core:run_core_process",
    "snmp": "gateway.service.processes.snmp:run_snmp",
    "jmx": "gateway.service.processes.jmx:run_jmx",
    "objects": "gateway.service.processes.objects:run_objects",
    "compactor": "gateway.service.processes.compactor:run_compactor",
}
"""The place of each process. Only that one is imported, so that each process has only what it needs."""


@click.command(hidden=True)
@click.argument("name", type=click.Choice(sorted(PROCESSES)))
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--copy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Copy of the configuration that is read in its place.",
)
@click.option("--lifeline", type=int, help="Descriptor of the lifeline to the parent process.")
@click.option("--state-lock", type=int, help="Inherited descriptor of the state folder's lock.")
@click.option("--listener", type=int, help="Inherited descriptor of the socket that it listens on.")
@click.option("--start", type=int, help="Number of this start of the process.")
def process(
    name: str,
    config: Path | None,
    copy: Path | None,
    lifeline: int | None,
    state_lock: int | None,
    listener: int | None,
    start: int | None,
) -> None:
    """Run one process of the gateway."""
    guard = ParentGuard(lifeline)
    module, _, function = PROCESSES[name].partition(":")
    gc.disable()  # what is imported stays
    with without_rich():
        options = importlib.import_module("gateway.cli.options")
        setup = importlib.import_module("gateway.service.processes.process_setup")
        configuration = options.loaded(config, copy)
        setup.configure_logs(name)
        run = getattr(importlib.import_module(module), function)
    gc.freeze()
    gc.enable()
    setup.run_process(name, partial(run, configuration), (lifeline, state_lock, guard, listener, start))
