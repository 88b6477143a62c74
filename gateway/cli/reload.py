"""``amqp-gateway reload``."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.running_configuration import waiting_changes
from gateway.service.state.report import in_use
from gateway.state_folder import StateError, StateFolder
from gateway.yaml_documents import DocumentError


@click.command("reload")
@config_option
def reload(config: Path | None) -> None:
    """Say what of a changed configuration waits for a restart of the gateway.

    The configuration is read at a start only, so that nothing is applied: restart the gateway for that.
    What was changed in other files, secrets and mappings, is not seen here.
    """
    configuration = loaded(config)
    try:
        state = StateFolder(configuration.state_folder)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    if not in_use(state.path):
        text = "the gateway does not run: its next start reads the configuration"
        raise CommandError(ExitCode.UNREACHABLE, text)
    try:
        changes = waiting_changes(configuration)
    except DocumentError as error:
        text = f"it is not known what the gateway was started with: {error}"
        raise CommandError(ExitCode.STATE, text) from error
    if not changes:
        click.echo("the gateway runs with this configuration")
        return
    for key in changes:
        click.echo(f"{key} was changed")
    text = "what was changed is not applied: restart the gateway, which takes it up with the next start"
    raise CommandError(ExitCode.DIFFERENCE, text)
