"""``amqp-gateway trap``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.clock import SystemClock
from gateway.service.diagnostics.trap_test import send_test


@click.group()
def trap() -> None:
    """Test receivers of SNMP notifications."""


@trap.command()
@click.argument("name")
@config_option
def test(name: str, config: Path | None) -> None:
    """Send a test notification to the receiver NAME, and wait for the answer of an inform."""
    asyncio.run(send_test(loaded(config), name, SystemClock(), click.echo))
