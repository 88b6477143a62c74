"""The names and interfaces of receivers of notifications, looked up as the running gateway does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.config.files import LoadedConfiguration
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.notifications import advice
from gateway.snmp.notifications.names import first_address
from gateway.snmp.notifications.receiver import is_looked_up, is_name


async def receiver_findings(loaded: LoadedConfiguration) -> list[Finding]:
    """Return a finding about each receiver that is configured by its name, or with an interface."""
    settings = loaded.settings.snmp
    if not settings.enabled:
        return []
    named = {
        name: each.address for name, each in settings.notifications.items() if is_looked_up(each.address[0])
    }
    found = await asyncio.gather(*map(first_address, named.values()), return_exceptions=True)
    findings = []
    for (name, address), result in zip(named.items(), found, strict=True):
        has_name = is_name(address[0])
        if isinstance(result, OSError):
            text = f"{address[0]} {'cannot be resolved' if has_name else 'cannot be used'}: {result}"
            findings.append(Finding("receiver", Level.PROBLEM, text, advice(address), name))
        elif isinstance(result, BaseException):
            raise result
        else:
            text = f"{address[0]} is {result}" if has_name else f"{address[0]} has its interface"
            findings.append(Finding("receiver", Level.GOOD, text, subject=name))
    return findings


async def check_receivers(loaded: LoadedConfiguration, report: Callable[[str], None]) -> None:
    """Report a line about each of them; an error is raised after all were tried.

    Raises:
        CommandError: for the first name that cannot be resolved, or interface that is missing.
    """
    first: CommandError | None = None
    for finding in await receiver_findings(loaded):
        text = f"receiver {finding.subject}: {finding.text}"
        report(text)
        if finding.level is Level.PROBLEM and first is None:
            first = CommandError(ExitCode.UNREACHABLE, f"{text}: {finding.advice}")
    if first is not None:
        raise first
