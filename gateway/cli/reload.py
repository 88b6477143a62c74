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
    """Show the changes of the configuration that wait for a restart of the gateway.

    The gateway reads its configuration only when it starts: restart it to apply changes. Changes of other
    files, such as secrets and mappings, are not shown.
    """
    configuration = loaded(config)
    try:
        state = StateFolder(configuration.state_folder)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    if not in_use(state.path):
        text = "the gateway is not running: its next start reads the configuration"
        raise CommandError(ExitCode.UNREACHABLE, text)
    try:
        changes = waiting_changes(configuration)
    except DocumentError as error:
        text = f"the configuration of the running gateway cannot be read: {error}"
        raise CommandError(ExitCode.STATE, text) from error
    if not changes:
        click.echo("the gateway runs with this configuration")
        return
    for key in changes:
        click.echo(f"{key} was changed")
    text = "the changes are not applied yet: restart the gateway to apply them"
    raise CommandError(ExitCode.DIFFERENCE, text)
