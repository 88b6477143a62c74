"""``amqp-gateway version``."""

from __future__ import annotations

import importlib.metadata
import platform

import click

DISTRIBUTION = "amqp-management-gateway"


@click.command()
def version() -> None:
    """Show the version of the gateway."""
    ours = importlib.metadata.version(DISTRIBUTION)
    click.echo(f"amqp-gateway {ours}, Python {platform.python_version()}, {platform.system()}")
