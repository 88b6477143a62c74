"""The work of `amqp-gateway process`, imported after the guard of its parent has started."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path

from gateway.cli.late_import import without_rich
from gateway.cli.options import loaded
from gateway.clock import SystemClock
from gateway.service.metrics.process import measured
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.parent_guard import ParentGuard
from gateway.service.processes.process_setup import configure_logs, until_terminated


def run_process(
    name: str,
    place: str,
    config: tuple[Path | None, Path | None],
    inherited: tuple[int | None, int | None, ParentGuard],
) -> None:
    """Run a process of the gateway to its end.

    Args:
        name: name of the process.
        place: module and function that do its work, ``MODULE:FUNCTION``.
        config: the configuration as on the command line, and the copy that is read in its place.
        inherited: descriptors of the lifeline and of the state folder's lock, and the guard of the lifeline.

    Raises:
        CommandError: the process cannot run.
    """
    configuration = loaded(*config)
    configure_logs(name)
    module, _, function = place.partition(":")
    with without_rich():
        run = getattr(importlib.import_module(module), function)
    lifeline = Lifeline(*inherited)
    work = run(configuration, SystemClock(), lifeline)
    asyncio.run(until_terminated(measured(work, name, lifeline.metrics), is_service=True))
