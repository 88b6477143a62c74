"""``amqp-gateway health``."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import config_option
from gateway.config.places import NoConfigurationError
from gateway.service.diagnostics.health import ask
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.running_addresses import known_addresses

if TYPE_CHECKING:
    from gateway.config.files import LoadedConfiguration


@click.command()
@config_option
def health(config: Path | None) -> None:
    """Check the health of the running gateway; the exit code is 0 if every source is synchronised.

    The states of sources are read by SNMP. For JMX the check is whether it accepts connections, for the
    metrics of objects whether their process answers. While the gateway runs, its configuration counts, and
    not a file that is being edited.
    """

    @cache
    def whole() -> LoadedConfiguration:
        return _configuration(config)

    addresses = known_addresses(config, whole)
    if addresses.snmp is None and addresses.jmx is None and not addresses.has_objects:
        text = "neither snmp nor jmx nor metrics.objects is enabled: enable one of them for this check"
        raise CommandError(ExitCode.CONFIGURATION, text)
    asyncio.run(ask(addresses, whole, click.echo))


def _configuration(config: Path | None) -> LoadedConfiguration:
    # These modules have the model of the configuration, whose import takes longer than most checks.
    from gateway.service.state.running_configuration import configuration_of_running  # noqa: PLC0415
    from gateway.yaml_documents import DocumentError  # noqa: PLC0415

    try:
        return configuration_of_running(config)
    except (NoConfigurationError, DocumentError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
