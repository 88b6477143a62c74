"""``amqp-gateway reload``."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.service.running_configuration import waiting_changes
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
        _refuse_if_it_does_not_run(StateFolder(configuration.state_folder))
        changes = waiting_changes(configuration)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
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


def _refuse_if_it_does_not_run(state: StateFolder) -> None:
    try:
        with state.locked(patience_seconds=0):
            pass
    except StateError:
        return  # it holds its folder
    raise CommandError(
        ExitCode.UNREACHABLE, "the gateway does not run: its next start reads the configuration"
    )
