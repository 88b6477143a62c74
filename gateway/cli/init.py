"""``amqp-gateway init``."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.snmp import COMMUNITY
from gateway.state_folder import StateError, StateFolder


@click.command()
@config_option
def init(config: Path | None) -> None:
    """Give a new gateway its identity: make the state folder that the configuration names."""
    configuration = loaded(config)
    try:
        state = StateFolder.create(configuration.state_folder)
        state.secret(COMMUNITY)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    click.echo(f"{state.path}: gateway {state.identity}")
    click.echo(f"SNMP community: in {state.secret_path(COMMUNITY)}")
