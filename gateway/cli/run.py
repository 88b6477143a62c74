"""``amqp-gateway run``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.options import config_option, lifeline_option, loaded
from gateway.config.files import load_configuration
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.service.gateway import run_gateway
from gateway.service.lifeline import Lifeline
from gateway.service.logs import configure_logs
from gateway.service.running_configuration import note_running, waiting_changes
from gateway.service.supervisor import gateway_process
from gateway.state_folder import StateError, StateFolder


@click.command()
@config_option
@lifeline_option
def run(config: Path | None, lifeline: int | None) -> None:
    """Run the gateway in the foreground until Ctrl-C or SIGTERM."""
    configuration = loaded(config)
    configure_logs("supervisor")
    plans = [gateway_process("core", configuration.path)]
    if configuration.settings.snmp.enabled:
        plans.append(gateway_process("snmp", configuration.path))
    if configuration.settings.jmx.enabled:
        plans.append(gateway_process("jmx", configuration.path))
    if configuration.settings.metrics.objects is not None:
        plans.append(gateway_process("objects", configuration.path))
    if configuration.settings.log.enabled and configuration.settings.log.compact:
        plans.append(gateway_process("compactor", configuration.path))
    try:
        with StateFolder(configuration.state_folder).locked() as state_lock:
            note_running(configuration)
            metrics = configuration.settings.metrics
            objects = configuration.objects_socket if metrics.objects is not None else None

            def waiting() -> list[str]:
                return waiting_changes(load_configuration(configuration.path))

            asyncio.run(run_gateway(plans, metrics, objects, Lifeline(lifeline), state_lock, waiting))
    except OSError as error:
        raise CommandError(ExitCode.STATE, f"{configuration.state_folder}: {error}") from error
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
