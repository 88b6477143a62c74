"""``amqp-gateway health``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.service.diagnostics.health import ask_health, ask_jmx_health
from gateway.service.processes.exit_codes import CommandError, ExitCode


@click.command()
@config_option
def health(config: Path | None) -> None:
    """Check the health of the running gateway; the exit code is 0 if every source is synchronised.

    The states of sources are read by SNMP. For JMX the check is whether it accepts connections.
    """
    configuration = loaded(config)
    settings = configuration.settings
    if not settings.snmp.enabled and not settings.jmx.enabled:
        raise CommandError(
            ExitCode.CONFIGURATION, "neither snmp nor jmx is enabled: enable one of them for this check"
        )
    if settings.snmp.enabled:
        asyncio.run(ask_health(configuration, click.echo))
    if settings.jmx.enabled:
        asyncio.run(ask_jmx_health(configuration, click.echo))
