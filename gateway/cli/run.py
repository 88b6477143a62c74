"""``amqp-gateway run`` and ``reload``."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import click

from gateway.cli.options import config_option, lifeline_option, loaded
from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.eventlog.segment import due
from gateway.service.metrics.process import CompactionCounts
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.process_setup import configure_logs
from gateway.service.processes.supervisor import (
    ProcessPlan,
    gateway_command,
    note_running,
    run_gateway,
    waiting_changes,
)
from gateway.service.state.report import in_use
from gateway.state_folder import StateError, StateFolder
from gateway.yaml_documents import DocumentError


@click.command()
@config_option
@lifeline_option
def run(config: Path | None, lifeline: int | None) -> None:
    """Run the gateway in the foreground until Ctrl-C or SIGTERM."""
    configuration = loaded(config)
    configure_logs("supervisor")
    settings = configuration.settings
    names = {
        "core": True,
        "snmp": settings.snmp.enabled,
        "jmx": settings.jmx.enabled,
        "objects": settings.metrics.objects is not None,
    }

    def waiting() -> list[str]:
        return waiting_changes(load_configuration(configuration.path))

    try:
        with StateFolder(configuration.state_folder).locked() as state_lock:
            copy = _copied(configuration)
            plans = [
                ProcessPlan(name, gateway_command(name, configuration.path, copy))
                for name, wanted in names.items()
                if wanted
            ]
            if settings.log.enabled and settings.log.compact:
                plans.append(_compactor(configuration, copy))
            objects = configuration.objects_socket if settings.metrics.objects is not None else None
            gateway = run_gateway(plans, settings.metrics, objects, Lifeline(lifeline), state_lock, waiting)
            asyncio.run(gateway)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def _compactor(configuration: LoadedConfiguration, copy: Path) -> ProcessPlan:
    return ProcessPlan(
        "compactor",
        gateway_command("compactor", configuration.path, copy),
        partial(_waits, configuration.log_folder),
        tuple(CompactionCounts().readings()),
    )


def _waits(log_folder: Path) -> bool:
    """Whether a segment waits for the compactor; one that cannot read the log says why."""
    try:
        return bool(due(log_folder))
    except OSError:
        return True


def _copied(configuration: LoadedConfiguration) -> Path:
    try:
        return note_running(configuration)
    except OSError as error:
        text = f"{configuration.state_folder}: cannot be written: {error.strerror or error}"
        raise CommandError(ExitCode.STATE, text) from error


@click.command("reload")
@config_option
def reload(config: Path | None) -> None:
    """Show the changes of the configuration that wait for a restart of the gateway.

    The gateway reads its configuration only when it starts: restart it to apply changes. Changes of other
    files, such as secrets and mappings, are not shown.
    """
    configuration = loaded(config)
    try:
        state = StateFolder(configuration.state_folder)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    if not in_use(state.path):
        text = "the gateway is not running: its next start reads the configuration"
        raise CommandError(ExitCode.UNREACHABLE, text)
    try:
        changes = waiting_changes(configuration)
    except DocumentError as error:
        text = f"the configuration of the running gateway cannot be read: {error}"
        raise CommandError(ExitCode.STATE, text) from error
    if not changes:
        click.echo("the gateway runs with this configuration")
        return
    for key in changes:
        click.echo(f"{key} was changed")
    text = "the changes are not applied yet: restart the gateway to apply them"
    raise CommandError(ExitCode.DIFFERENCE, text)
