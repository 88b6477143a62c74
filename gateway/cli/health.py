"""``amqp-gateway health``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.service.diagnostics.jmx_health import ask_jmx_health
from gateway.service.diagnostics.snmp_health import ask_health
from gateway.service.processes.exit_codes import CommandError, ExitCode


@click.command()
@config_option
def health(config: Path | None) -> None:
    """Ask the running gateway how it is; exit 0 when every source is synchronised.

    SNMP tells of sources; of JMX it is asked whether it takes connections.
    """
    configuration = loaded(config)
    settings = configuration.settings
    if not settings.snmp.enabled and not settings.jmx.enabled:
        raise CommandError(ExitCode.CONFIGURATION, "neither snmp nor jmx is enabled: there is nothing to ask")
    if settings.snmp.enabled:
        asyncio.run(ask_health(configuration, click.echo))
    if settings.jmx.enabled:
        asyncio.run(ask_jmx_health(configuration, click.echo))
