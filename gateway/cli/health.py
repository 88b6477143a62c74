"""``amqp-gateway health``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.service.snmp_health import ask_health


@click.command()
@config_option
def health(config: Path | None) -> None:
    """Ask the running gateway over SNMP how it is; exit 0 when every source is synchronised."""
    asyncio.run(ask_health(loaded(config), click.echo))
