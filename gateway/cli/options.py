"""Options that several commands share, and the configuration behind one of them."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.config.files import LoadedConfiguration, NoConfigurationError, load_configuration
from gateway.config.sources import Source
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.yaml_documents import DocumentError

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The configuration; else $AMQP_GATEWAY_CONFIG, ./gateway.yaml, /etc/amqp-gateway/gateway.yaml.",
)
lifeline_option = click.option(
    "--lifeline", type=int, hidden=True, help="Descriptor of the line to whoever started this process."
)


def loaded(config: Path | None, copy: Path | None = None) -> LoadedConfiguration:
    """The configuration; as `load_configuration`.

    Raises:
        CommandError: there is none, or it is not valid.
    """
    try:
        return load_configuration(config, copy)
    except (NoConfigurationError, DocumentError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def configured_source(configuration: LoadedConfiguration, name: str) -> Source:
    """The settings of a source.

    Raises:
        CommandError: there is none of this name.
    """
    sources = configuration.settings.sources
    if name not in sources:
        known = ", ".join(sources) or "none"
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{configuration.path}: no source {name!r} under 'sources'; there are: {known}",
        )
    return sources[name]
