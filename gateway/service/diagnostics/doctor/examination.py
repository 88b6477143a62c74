"""The whole examination, part by part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from gateway.config.files import LoadedConfiguration
from gateway.service.diagnostics.checks import check_files
from gateway.service.diagnostics.doctor.brokers import agent_findings, source_findings
from gateway.service.diagnostics.doctor.capturing import capture_findings
from gateway.service.diagnostics.doctor.findings import Finding, Level
from gateway.service.diagnostics.doctor.machine import (
    disk_findings,
    feed_findings,
    java_findings,
    mib_findings,
    port_findings,
    state_findings,
)
from gateway.service.diagnostics.doctor.running import running_findings
from gateway.service.diagnostics.doctor.writing import writing_findings
from gateway.service.processes.exit_codes import CommandError


async def examine(loaded: LoadedConfiguration) -> AsyncIterator[Finding]:
    """Look at everything that a configuration leads to; findings as they come.

    Args:
        loaded: the configuration, which is valid.
    """
    try:
        await asyncio.to_thread(check_files, loaded)
        yield Finding("configuration", Level.GOOD, f"{loaded.path}, with all secrets and certificates")
    except CommandError as error:
        yield Finding("configuration", Level.PROBLEM, str(error))
    told, state = await asyncio.to_thread(state_findings, loaded)
    is_running = state is not None and state.in_use
    for finding in (
        *told,
        *await asyncio.to_thread(lambda: list(disk_findings(loaded))),
        *await asyncio.to_thread(lambda: list(java_findings(loaded))),
        *port_findings(loaded, is_running=is_running),
        *feed_findings(loaded),
        *await asyncio.to_thread(lambda: list(mib_findings(loaded))),
        *await asyncio.to_thread(lambda: list(capture_findings(loaded))),
    ):
        yield finding
    for name, source in loaded.settings.sources.items():
        for finding in await source_findings(name, source, loaded.folder):
            yield finding
    for name, agent in loaded.settings.agents.items():
        for finding in await agent_findings(name, agent, loaded.folder):
            yield finding
    for finding in (*await running_findings(loaded, has_lock=is_running), *writing_findings(loaded)):
        yield finding
