"""Options that several commands share, and the configuration behind one of them."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.config.places import NoConfigurationError
from gateway.service.processes.exit_codes import CommandError, ExitCode

if TYPE_CHECKING:  # Few of the commands that are run by the hundred need them, and their imports take long.
    from gateway.config.files import LoadedConfiguration
    from gateway.config.sources import Source


class OutputFile(click.Path):
    """A file that a command writes; ``-`` is none, since it means the standard output elsewhere."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path."""
        if os.fspath(value) == "-":
            self.fail("'-' would be a file of this name: write ./- for that", param, ctx)
        return super().convert(value, param, ctx)


OUTPUT_FILE = OutputFile(path_type=Path, dir_okay=False)
"""The type of arguments and options that name a file to be written."""

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
    from gateway.config.files import load_configuration  # noqa: PLC0415  see above
    from gateway.yaml_documents import DocumentError  # noqa: PLC0415

    try:
        return load_configuration(config, copy)
    except (NoConfigurationError, DocumentError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def refuse_distrusted(configuration: LoadedConfiguration) -> None:
    """Check owners and modes of the files by which peers are known.

    Raises:
        CommandError: one is not trusted (`LoadedConfiguration.distrusted_file`).
    """
    _refuse(configuration.distrusted_file())


def refuse_distrusted_log(configuration: LoadedConfiguration) -> None:
    """Check owner and mode of the folder of the event log, for a command that writes there.

    Raises:
        CommandError: it is not trusted (`LoadedConfiguration.distrusted_log`).
    """
    _refuse(configuration.distrusted_log())


def _refuse(distrusted: tuple[str, str] | None) -> None:
    if distrusted is not None:
        raise CommandError(ExitCode.CONFIGURATION, ": ".join(distrusted))


def configured_source(configuration: LoadedConfiguration, name: str) -> Source:
    """Return the settings of a source that is to be reached with them.

    Raises:
        CommandError: there is no source of this name, or a file of its TLS is not trusted: with another's
            authorities its password would go to another's server.
    """
    sources = configuration.settings.sources
    if name not in sources:
        known = ", ".join(sources) or "none"
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{configuration.path}: no source {name!r} under 'sources'; there are: {known}",
        )
    _refuse(configuration.distrusted_file_of_tls(f"sources.{name}."))
    return sources[name]


def duration(text: str) -> dt.timedelta:
    """Return the value of an option that is written like a duration in the configuration."""
    from gateway.yaml_documents import duration_of  # noqa: PLC0415  see above

    try:
        return dt.timedelta(microseconds=duration_of(text) // 1000)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no duration: write 90s, 15min, 24h or 7d") from error


def time(text: str) -> dt.datetime:
    """Return the value of an option: a time as in RFC 3339, or shorter; UTC without a zone."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError as error:
        example = "2026-11-20, 2026-11-20T14:05 or 2026-11-20T14:05:06+01:00"
        raise click.BadParameter(f"{text!r} is no time: write {example}") from error
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
