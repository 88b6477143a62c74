"""``amqp-gateway agent``: a gateway of one RabbitMQ source that serves it by QMF, in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import structlog

from gateway.clock import Clock
from gateway.config import sources
from gateway.config.files import LoadedConfiguration
from gateway.config.model import FeedSettings, LogSettings, StateSettings
from gateway.config.policy import OperationRule
from gateway.mapping.files import load_shipped_mappings
from gateway.service.diagnostics.checks import check_amqp, check_rabbitmq, check_writer, is_passing
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.core import log_plain_text, run_core
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.state_folder import AGENTS, StateError, StateFolder

log = structlog.get_logger(__name__)

_LOG_MEBIBYTES: Final = 64
"""Size of an agent's event log, from which a restart knows the earlier objects."""


async def run_agent(loaded: LoadedConfiguration, name: str, clock: Clock, lifeline: Lifeline) -> None:
    """Run an agent until the supervisor goes or the task is cancelled.

    Args:
        loaded: the configuration.
        name: the name of an agent in it.
        clock: of the gateway.
        lifeline: to the supervisor.

    Raises:
        CommandError: it cannot work with this configuration or state, or the broker refuses it from the
            start.
    """
    settings = loaded.settings.agents[name]
    log_plain_text(loaded.settings, lambda key: key.startswith(f"agents.{name}."))
    with command_errors():
        await _refused_from_the_start(settings, loaded.folder)
        own = configuration_of(loaded, name)
    if not own.state_folder.exists():
        try:
            StateFolder.create(own.state_folder)
        except StateError as error:
            text = f"{error}; name a folder that this user may write under 'state.folder'"
            raise CommandError(ExitCode.STATE, text) from error
    while await run_core(own, clock, lifeline, served={name: settings.publish}):
        log.info("agent-starts-again", reason="the clock was set")


def configuration_of(loaded: LoadedConfiguration, name: str) -> LoadedConfiguration:
    """Return the configuration of the gateway that an agent is: its source, and the callers of its methods.

    Its state folder is the folder ``agents/NAME`` in that of the gateway.
    """
    settings = loaded.settings.agents[name]
    shared = {field: getattr(settings, field) for field in sources.RabbitMqSettings.model_fields}
    methods = {
        method for one in load_shipped_mappings()["rabbitmq"].classes.values() for method in one.methods
    }
    # The allowed users of the agent may call every method, also a dangerous one, which has to be named.
    everything = OperationRule.model_construct(
        who=tuple(f"qmf:{user}" for user in settings.publish.allowed_users),
        invoke=tuple(sorted(methods)),
        read=True,
    )
    own = loaded.settings.model_copy(
        update={
            "sources": {name: sources.RabbitMqSource.model_construct(**shared, kind="rabbitmq")},
            "agents": {},
            "captures": {},
            "operations": loaded.settings.operations.model_copy(update={"allow": (everything,)}),
            "state": StateSettings.model_construct(folder=loaded.state_folder / AGENTS / name),
            "feed": FeedSettings(),
            "log": LogSettings(max_size=_LOG_MEBIBYTES, segment_size=_LOG_MEBIBYTES // 4, compact=False),
        }
    )
    return LoadedConfiguration(own, loaded.path)


async def _refused_from_the_start(settings: sources.RabbitMqAgent, folder: Path) -> None:
    """Find errors that do not pass by waiting: wrong passwords, a missing virtual host or right."""

    def warn(line: str) -> None:
        log.warning("agent-check", detail=line)

    endpoint = amqp_endpoint(settings.publish.amqp, folder)
    try:
        await check_rabbitmq(settings, folder, warn)
        await check_writer(settings, folder, warn)
        await check_amqp(endpoint, settings.publish.direct_exchange)
    except CommandError as error:
        if not is_passing(error):
            raise
        log.warning("broker-not-reached", detail=str(error))
