"""``amqp-gateway agent``: a gateway of one RabbitMQ source that serves it by QMF, in one process."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from gateway.clock import Clock
from gateway.config import sources
from gateway.config.files import LoadedConfiguration
from gateway.config.model import FeedSettings, LogSettings, MetricsSettings, StateSettings
from gateway.config.policy import OperationRule
from gateway.config.sources import AgentMetrics, AgentPublishing
from gateway.mapping.files import load_shipped_mappings
from gateway.policy.rules import CONSOLE, RoleSet
from gateway.service.diagnostics.broker_checks import check_amqp, check_rabbitmq, check_writer, is_passing
from gateway.service.metrics import families
from gateway.service.metrics.families import Metrics, Reading
from gateway.service.metrics.process import measured, usage
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.core import log_plain_text, run_core
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.installed_code import InstalledCode, until_other_can_start
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.supervisor import MetricsPages
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.service.state.running_addresses import digests_of
from gateway.shipped_files import version
from gateway.state_folder import AGENTS, StateError, StateFolder, refuse_root

log = structlog.get_logger(__name__)

PROCESS: Final = "agent"
"""The value of the label ``process`` in the metrics of an agent."""

_LOG_MEBIBYTES: Final = 64
"""Size of an agent's event log, from which a restart knows the earlier objects."""


async def until_replaced(loaded: LoadedConfiguration, again: Sequence[str]) -> None:
    """Wait until other code is installed, and can be started in the place of an agent by ``again``.

    It would read its configuration again, which an agent does only where it is restarted by its operator. So
    one whose files were changed since its start, or cannot be read, is left alone, and what to do is logged.
    """
    files = loaded.trusted_files
    began_with = _digests(files)

    def trouble() -> str:
        return "" if began_with == _digests(files) else f"{loaded.path}: was changed since the agent's start"

    await until_other_can_start(InstalledCode(), again, "agent", trouble)
    log.info("agent-restarts", reason="other code was installed")


def _digests(files: Sequence[Path]) -> object:
    try:
        return digests_of(files)
    except (OSError, RuntimeError) as error:  # RuntimeError: a path with ~ of a user without a home
        return str(error)


def check_start(loaded: LoadedConfiguration, name: str) -> None:
    """Check what the start of an agent needs besides a valid configuration; nothing is changed.

    Args:
        loaded: the configuration.
        name: the name of an agent in it.

    Raises:
        CommandError: its user may not run it, its state is newer than this gateway, or takes no changes.
        ImportError: the installation is not complete.
    """
    with command_errors():
        own = configuration_of(loaded, name)
        refuse_root(loaded.state_folder)
        refuse_root(own.state_folder)
        if os.path.lexists(own.state_folder):
            StateFolder(own.state_folder).check_can_note()
    for module in ("metrics.endpoint", "sources.protection"):  # which are imported when they are needed
        importlib.import_module(f"gateway.service.{module}")


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
        refuse_root(loaded.state_folder)
        refuse_root(own.state_folder)
    if not own.state_folder.exists():
        try:
            StateFolder.create(own.state_folder)
        except StateError as error:
            text = f"{error}; name a folder that this user may write under 'state.folder'"
            raise CommandError(ExitCode.STATE, text) from error
    async with AsyncExitStack() as beside:
        work = _run(own, clock, lifeline, {name: settings.publish})
        if settings.metrics is None:
            await work
            return
        # h11 and prometheus-client take 4 MB.
        late = importlib.import_module("gateway.service.metrics.endpoint")
        pages = pages_of(settings.metrics, loaded.folder)
        await beside.enter_async_context(
            late.metrics_endpoint(pages, partial(_readings, lifeline.metrics), lifeline.announce)
        )
        await measured(work, PROCESS, lifeline.metrics)


async def _run(
    own: LoadedConfiguration, clock: Clock, lifeline: Lifeline, served: Mapping[str, AgentPublishing]
) -> None:
    while await run_core(own, clock, lifeline, served=served):
        log.info("agent-starts-again", reason="the clock was set")


def pages_of(settings: AgentMetrics, folder: Path) -> MetricsPages:
    """Return the endpoint of an agent's metrics; ``folder`` is the one to which paths are relative."""
    most = settings.connections
    if settings.tls is None:
        return MetricsPages(settings.listen, None, connections=most)
    files = settings.tls.files(folder)
    return MetricsPages(settings.listen, None, (files.certificate, files.key), files.client_ca, most)


async def _readings(metrics: Metrics) -> Sequence[Reading]:
    """Return the present readings of this process."""
    build = families.BUILD.at(1, version(), platform.python_version())
    return [build, *usage(PROCESS, os.getpid()), *await metrics.collect()]


def configuration_of(loaded: LoadedConfiguration, name: str) -> LoadedConfiguration:
    """Return the configuration of the gateway that an agent is: its source, and the roles of its consoles.

    Its state folder is the folder ``agents/NAME`` in that of the gateway.
    """
    settings = loaded.settings.agents[name]
    shared = {field: getattr(settings, field) for field in sources.RabbitMqSettings.model_fields}
    consoles = tuple(f"{CONSOLE}:{user}" for user in settings.publish.allowed_users)
    own = loaded.settings.model_copy(
        update={
            "sources": {name: sources.RabbitMqSource.model_construct(**shared, kind="rabbitmq")},
            "agents": {},
            "captures": {},
            "operations": loaded.settings.operations.model_copy(
                update={"allow": tuple(_permissions(consoles, loaded.settings.role_set))}
            ),
            "state": StateSettings.model_construct(folder=loaded.state_folder / AGENTS / name),
            "feed": FeedSettings(),
            "metrics": metrics_of(settings.metrics),
            "log": LogSettings(max_size=_LOG_MEBIBYTES, segment_size=_LOG_MEBIBYTES // 4, compact=False),
        }
    )
    return LoadedConfiguration(own, loaded.path)


def _permissions(consoles: tuple[str, ...], roles: RoleSet) -> Iterator[OperationRule]:
    """Yield what consoles may do beside what their roles grant."""
    yield OperationRule.model_construct(who=consoles, read=True)
    free = tuple(console for console in consoles if not roles.restricts_calls(console))
    if free:
        methods = {
            method for one in load_shipped_mappings()["rabbitmq"].classes.values() for method in one.methods
        }
        # Every method, also a dangerous one, which has to be named.
        yield OperationRule.model_construct(who=free, invoke=tuple(sorted(methods)))


def metrics_of(settings: AgentMetrics | None) -> MetricsSettings:
    """Return the settings of metrics of the gateway that an agent is: its own, not those of the gateway."""
    if settings is None:
        return MetricsSettings()
    return MetricsSettings.model_construct(enabled=True, listen=settings.listen, tls=settings.tls)


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
