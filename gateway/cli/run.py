"""``amqp-gateway run``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.options import config_option, lifeline_option, loaded
from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.gateway import run_gateway
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.logs import configure_logs
from gateway.service.processes.running_configuration import note_running, waiting_changes
from gateway.service.processes.supervisor import gateway_process
from gateway.state_folder import StateError, StateFolder


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
        "compactor": settings.log.enabled and settings.log.compact,
    }

    def waiting() -> list[str]:
        return waiting_changes(load_configuration(configuration.path))

    try:
        with StateFolder(configuration.state_folder).locked() as state_lock:
            copy = _copied(configuration)
            plans = [
                gateway_process(name, configuration.path, copy) for name, wanted in names.items() if wanted
            ]
            objects = configuration.objects_socket if settings.metrics.objects is not None else None
            gateway = run_gateway(plans, settings.metrics, objects, Lifeline(lifeline), state_lock, waiting)
            asyncio.run(gateway)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def _copied(configuration: LoadedConfiguration) -> Path:
    try:
        return note_running(configuration)
    except OSError as error:
        text = f"{configuration.state_folder}: cannot be written: {error.strerror or error}"
        raise CommandError(ExitCode.STATE, text) from error
