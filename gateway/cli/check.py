"""``amqp-gateway check``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.service.diagnostics.checks import check_files, check_jmx, check_sources
from gateway.service.processes.logs import configure_logs


@click.command()
@config_option
@click.option(
    "--connect",
    is_flag=True,
    help="Also reach every source and see whether ports are free; ends with the first trouble's exit code.",
)
def check(config: Path | None, *, connect: bool) -> None:
    """Read the configuration and say what is wrong with it, with file and line."""
    configuration = loaded(config)
    configure_logs("check")
    check_files(configuration)
    for name, source in configuration.settings.sources.items():
        click.echo(f"source {name}: {source.kind}")
    if connect:
        asyncio.run(check_sources(configuration, click.echo))
        if configuration.settings.jmx.enabled:
            asyncio.run(check_jmx(configuration, click.echo))
    click.echo(f"{configuration.path}: good")
