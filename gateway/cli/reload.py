"""``amqp-gateway reload``: the changes of a configuration, and what the running gateway takes of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.cli.printing import say
from gateway.config.files import LoadedConfiguration
from gateway.config.model import Configuration
from gateway.feed.operations import OperationAnswer
from gateway.feed.records import Interest
from gateway.mapping.override_files import load_with_overrides
from gateway.model.operations import Outcome
from gateway.policy.differences import policy_changes
from gateway.service.diagnostics.feed_session import feed_session
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import OF_OUTCOME, CommandError, ExitCode
from gateway.service.processes.process_setup import configure_logs
from gateway.service.state.report import in_use
from gateway.service.state.running_configuration import (
    changes,
    running_configuration,
    takes_effect_at_once,
)
from gateway.state_folder import StateError, StateFolder
from gateway.yaml_documents import DocumentError


def running_settings(configuration: LoadedConfiguration) -> Configuration:
    """Return the settings of the running gateway.

    Raises:
        CommandError: none is running with the state folder of ``configuration``.
    """
    try:
        state = StateFolder(configuration.state_folder)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    if not in_use(state.path):
        text = "the gateway is not running: its next start reads the configuration"
        raise CommandError(ExitCode.UNREACHABLE, text)
    try:
        return running_configuration(configuration).settings
    except DocumentError as error:
        text = f"the configuration of the running gateway cannot be read: {error}"
        raise CommandError(ExitCode.STATE, text) from error


def changed_of(configuration: LoadedConfiguration, running: Configuration) -> list[str]:
    """Return the changed keys.

    Raises:
        CommandError: an override file, or what it changes, is wrong.
    """
    with command_errors():
        load_with_overrides(configuration.mapping_files, configuration.override_files)
        return changes(configuration, running)


def differences(changed: list[str], running: Configuration, wanted: Configuration) -> Iterator[str]:
    """Yield a line for each change: of the policy what it means for principals, else the key."""
    if any(map(takes_effect_at_once, changed)):
        lines = list(policy_changes(running.role_set, wanted.role_set))
        yield from lines or ["the policy is written otherwise, and means the same"]
    for key in changed:
        if not takes_effect_at_once(key):
            yield f"{key} was changed: it takes effect when the gateway is restarted"


@click.command("reload")
@config_option
def reload(config: Path | None) -> None:
    """Apply changes of the policy to the running gateway, and show what waits for a restart.

    The roles (policy) and the rules of operations (operations.allow) hold at once; a file that is wrong
    changes nothing. Everything else is read at a start only: the exit code is 12 if such a change waits.
    Changes of other files, such as secrets and own mappings, are not shown; those of override files are.
    """
    configuration = loaded(config)
    running = running_settings(configuration)
    changed = changed_of(configuration, running)
    if not changed:
        click.echo("the gateway runs with this configuration")
        return
    is_policy = any(map(takes_effect_at_once, changed))
    if is_policy:
        configure_logs("reload", logging.CRITICAL)
        answer = asyncio.run(_reloaded(configuration.feed_socket))
        if answer.outcome is not Outcome.APPLIED:
            raise CommandError(OF_OUTCOME[answer.outcome], answer.text)
    say(differences(changed, running, configuration.settings))
    if is_policy:
        click.echo("the policy was applied")
    if not all(map(takes_effect_at_once, changed)):
        text = "these changes are not applied yet: restart the gateway to apply them"
        raise CommandError(ExitCode.DIFFERENCE, text)


async def _reloaded(path: Path) -> OperationAnswer:
    async with feed_session(path, Interest()) as session:
        return await session.reload()
