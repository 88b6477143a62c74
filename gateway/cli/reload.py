"""``amqp-gateway reload``: the changes of a configuration, and what the running gateway takes of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from gateway.cli.options import config_option, loaded
from gateway.cli.printing import at_work, once_done, say
from gateway.config.files import LoadedConfiguration
from gateway.feed.operations import OperationAnswer
from gateway.feed.records import Interest
from gateway.mapping.override_files import load_with_overrides
from gateway.model.operations import Outcome
from gateway.policy.differences import policy_changes
from gateway.service.diagnostics.feed_session import feed_session
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.configuration_reload import SECRETS_RENEWED, UNCHANGED
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.outcome_codes import OF_OUTCOME
from gateway.service.processes.process_setup import configure_logs
from gateway.service.state.report import in_use
from gateway.service.state.running_configuration import Changes, changes, running_configuration
from gateway.state_folder import StateError, StateFolder
from gateway.yaml_documents import DocumentError

AGAIN_SECONDS: Final = 60.0
"""Seconds for which the command waits for a core that starts again."""

_RETRY_SECONDS: Final = 0.2


def running_settings(configuration: LoadedConfiguration) -> LoadedConfiguration:
    """Return the configuration of the running gateway.

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
        return running_configuration(configuration)
    except DocumentError as error:
        text = f"the configuration of the running gateway cannot be read: {error}"
        raise CommandError(ExitCode.STATE, text) from error


def changes_of(configuration: LoadedConfiguration, running: LoadedConfiguration) -> Changes:
    """Return what differs from the running configuration.

    Raises:
        CommandError: a mapping or an override file, or what it changes, is wrong.
    """
    with command_errors():
        wanted = configuration.with_copies()
        load_with_overrides(wanted.mapping_files, wanted.override_files)
        return changes(wanted, running)


def differences(
    found: Changes, running: LoadedConfiguration, wanted: LoadedConfiguration, *, applied: bool
) -> Iterator[str]:
    """Yield a line for each change: of the policy what it means for principals, else what differs.

    Args:
        found: the changes.
        running: the running configuration.
        wanted: the other one.
        applied: whether policy and mappings were applied just now.
    """
    if found.policy:
        lines = list(policy_changes(running.settings.role_set, wanted.settings.role_set))
        yield from lines or ["the policy is written otherwise, and means the same"]
    yield from found.clients
    yield from found.mappings
    if found.mappings and not applied:
        yield "a reload applies changes of mappings and overrides: it connects all sources again"
    for key in found.waiting:
        yield f"{key} was changed: it takes effect when the gateway is restarted"


@click.command("reload")
@config_option
def reload(config: Path | None) -> None:
    """Apply changes of policy, SNMP clients, mappings and overrides to the running gateway.

    The roles (policy), the rules of operations (operations.allow), and users, communities and receivers of
    SNMP hold at once; the files of communities are read again. After changes of own
    mappings (mappings) and override files (overrides) the core starts again: front ends and their clients
    stay, and all sources are connected again. Passwords of sources are read again, and used from then on. A
    file that is wrong changes nothing. Everything else is read at a start of the gateway only: the exit code
    is 12 if such a change waits.
    """
    configuration = loaded(config)
    running = running_settings(configuration)
    found = changes_of(configuration, running)
    # Also where nothing differs: the files of communities and passwords are read again.
    configure_logs("reload", logging.CRITICAL)
    with at_work("reloading"):
        answer, is_back = asyncio.run(_reloaded(configuration.feed_socket, waits=bool(found.mappings)))
    if answer.outcome is not Outcome.APPLIED:
        raise CommandError(OF_OUTCOME[answer.outcome], answer.text)
    done = ["the policy was applied"] if found.policy else []
    if found.clients:
        done.append("users, communities and receivers of SNMP were applied")
    if found.mappings:
        done.append("the mappings were applied" if is_back else _NOT_YET)
    done += [part for part in answer.text.split("; ") if part.startswith(SECRETS_RENEWED)]
    if not found and not done:
        done.append(UNCHANGED)
    code = ExitCode.DIFFERENCE if found.waiting else ExitCode.OK
    with once_done("; ".join(done) or "nothing was to be applied", code):
        say([*differences(found, running, configuration, applied=True), *done])
    if found.waiting:
        text = "these changes are not applied yet: restart the gateway to apply them"
        raise CommandError(ExitCode.DIFFERENCE, text)


_NOT_YET: Final = f"the next core applies the mappings; it has not started within {AGAIN_SECONDS:g} s"


async def _reloaded(path: Path, *, waits: bool) -> tuple[OperationAnswer, bool]:
    """Request a reload, also of a core that is starting.

    Args:
        path: the path of the feed's socket.
        waits: whether to wait for the next core after the answer.

    Returns:
        The answer, and whether the next core was seen.
    """
    ends_at = asyncio.get_running_loop().time() + AGAIN_SECONDS
    while True:
        is_last = asyncio.get_running_loop().time() >= ends_at
        try:
            async with feed_session(path, Interest()) as session:
                answer = await session.reload()
                if answer.outcome is Outcome.APPLIED:
                    return answer, waits and await session.core_again(AGAIN_SECONDS)
                # A core that ends does not answer what it has not read; nor is that carried out then. What a
                # core answers has the number of the request, also where it does not know what holds.
                if is_last or answer.request:
                    return answer, False
        except CommandError as error:
            if is_last or error.code is not ExitCode.UNREACHABLE:
                raise
        await asyncio.sleep(_RETRY_SECONDS)
