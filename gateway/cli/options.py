"""Options that several commands share, and the configuration behind one of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from gateway.config.files import LoadedConfiguration, NoConfigurationError, load_configuration
from gateway.config.sources import Source
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.yaml_documents import DocumentError, Duration

_DURATION: TypeAdapter[int] = TypeAdapter(Duration)

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file. Default: $AMQP_GATEWAY_CONFIG, ./gateway.yaml, /etc/amqp-gateway/gateway.yaml.",
)
lifeline_option = click.option(
    "--lifeline", type=int, hidden=True, help="Descriptor of the lifeline to the parent process."
)


def loaded(config: Path | None, copy: Path | None = None) -> LoadedConfiguration:
    """Return the configuration, as `load_configuration` does.

    Raises:
        CommandError: there is none, or it is not valid.
    """
    try:
        return load_configuration(config, copy)
    except (NoConfigurationError, DocumentError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def configured_source(configuration: LoadedConfiguration, name: str) -> Source:
    """Return the settings of a source.

    Raises:
        CommandError: there is no source of this name.
    """
    sources = configuration.settings.sources
    if name not in sources:
        known = ", ".join(sources) or "none"
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{configuration.path}: no source {name!r} under 'sources'; there are: {known}",
        )
    return sources[name]


def duration(text: str) -> dt.timedelta:
    """Return the value of an option that is written like a duration in the configuration."""
    try:
        return dt.timedelta(microseconds=_DURATION.validate_python(text) // 1000)
    except ValidationError as error:
        raise click.BadParameter(f"{text!r} is no duration: write 90s, 15min, 24h or 7d") from error


def time(text: str) -> dt.datetime:
    """Return the value of an option: a time as in RFC 3339, or shorter; UTC without a zone."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError as error:
        example = "2026-11-20, 2026-11-20T14:05 or 2026-11-20T14:05:06+01:00"
        raise click.BadParameter(f"{text!r} is no time: write {example}") from error
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
