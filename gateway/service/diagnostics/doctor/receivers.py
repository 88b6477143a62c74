"""The DNS names of receivers of notifications, resolved as the running gateway does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.config.files import LoadedConfiguration
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.notifications import advice
from gateway.snmp.notifications.names import first_address
from gateway.snmp.notifications.receiver import is_name


async def receiver_findings(loaded: LoadedConfiguration) -> list[Finding]:
    """Return a finding about each receiver that is configured by its name."""
    settings = loaded.settings.snmp
    if not settings.enabled:
        return []
    named = {name: each.address for name, each in settings.notifications.items() if is_name(each.address[0])}
    found = await asyncio.gather(*map(first_address, named.values()), return_exceptions=True)
    findings = []
    for (name, address), result in zip(named.items(), found, strict=True):
        if isinstance(result, OSError):
            text = f"{address[0]} cannot be resolved: {result}"
            findings.append(Finding("receiver", Level.PROBLEM, text, advice(address), name))
        elif isinstance(result, BaseException):
            raise result
        else:
            findings.append(Finding("receiver", Level.GOOD, f"{address[0]} is {result}", subject=name))
    return findings


async def check_receivers(loaded: LoadedConfiguration, report: Callable[[str], None]) -> None:
    """Report a line about each of them; an error is raised after all were tried.

    Raises:
        CommandError: for the first name that cannot be resolved.
    """
    first: CommandError | None = None
    for finding in await receiver_findings(loaded):
        text = f"receiver {finding.subject}: {finding.text}"
        report(text)
        if finding.level is Level.PROBLEM and first is None:
            first = CommandError(ExitCode.UNREACHABLE, f"{text}: {finding.advice}")
    if first is not None:
        raise first
