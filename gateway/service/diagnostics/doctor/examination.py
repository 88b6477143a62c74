"""The whole examination, and the findings in the configuration and in the running gateway."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from gateway.config.files import LoadedConfiguration
from gateway.config.sources import RabbitMqSource
from gateway.feed.records import EventLogState
from gateway.inventory.own_conditions import AUDIT_HEADS_ALARM, PROCESSES_ALARM, STATE_DISK_ALARM
from gateway.model.observations import SourceState
from gateway.policy.differences import described
from gateway.policy.rules import RoleSet, Rule
from gateway.service.diagnostics.checks import check_files
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.diagnostics.doctor.audit_heads import audit_heads_findings
from gateway.service.diagnostics.doctor.brokers import agent_findings, source_findings
from gateway.service.diagnostics.doctor.certificates import certificate_findings, plain_text_findings
from gateway.service.diagnostics.doctor.machine import (
    disk_findings,
    feed_findings,
    file_findings,
    java_findings,
    mib_findings,
    port_findings,
    state_findings,
)
from gateway.service.diagnostics.doctor.protection_keys import key_findings
from gateway.service.diagnostics.doctor.receivers import receiver_findings
from gateway.service.diagnostics.feed_session import feed_session
from gateway.service.diagnostics.own_queue_checks import policies_on_queue
from gateway.service.processes.exit_codes import CommandError
from gateway.service.state.report import in_use
from gateway.terminal.view import TerminalView


async def examine(loaded: LoadedConfiguration) -> AsyncIterator[Finding]:
    """Examine everything that a configuration leads to; yield findings as they are made.

    Args:
        loaded: the configuration, which is valid.
    """
    for finding in await asyncio.to_thread(_looked, "configuration", lambda: _configuration_findings(loaded)):
        yield finding
    found, state = await asyncio.to_thread(state_findings, loaded)
    is_running = in_use(loaded.state_folder) if state is None else state.in_use
    for finding in found:
        yield finding
    for check, look in (
        ("files", lambda: file_findings(loaded)),
        ("disk", lambda: disk_findings(loaded)),
        ("java", lambda: java_findings(loaded)),
        ("certificates", lambda: certificate_findings(loaded, dt.datetime.now(tz=dt.UTC))),
        ("transport", lambda: plain_text_findings(loaded)),
        ("audit-heads", lambda: audit_heads_findings(loaded)),
        ("keys", lambda: key_findings(loaded, time.time_ns())),
        ("ports", lambda: port_findings(loaded, is_running=is_running)),
        ("feed", lambda: feed_findings(loaded, is_running=is_running)),
        ("mibs", lambda: mib_findings(loaded)),
        ("captures", lambda: capture_findings(loaded)),
    ):
        for finding in await asyncio.to_thread(_looked, check, look):
            yield finding
    for finding in await receiver_findings(loaded):
        yield finding
    async for finding in _peer_findings(loaded):
        yield finding
    for finding in (*await running_findings(loaded, has_lock=is_running), *writing_findings(loaded)):
        yield finding


def _looked(check: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Return the findings of one check, and what it cannot look at, as another user's: others go on."""
    found: list[Finding] = []
    try:
        for finding in look():
            found.append(finding)  # noqa: PERF402  those before the error are kept
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        advice = "run doctor as the user of the gateway"
        found.append(Finding(check, Level.NOT_CHECKED, f"{place}{error.strerror or error}", advice))
    return found


def _configuration_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield a finding about the configuration and the files that it names."""
    try:
        check_files(loaded)
        yield Finding("configuration", Level.GOOD, f"{loaded.path}, with all secrets and certificates")
    except CommandError as error:
        yield Finding("configuration", Level.PROBLEM, str(error))


async def _peer_findings(loaded: LoadedConfiguration) -> AsyncIterator[Finding]:
    """Yield findings about sources and agents; one whose authorities are not trusted is sent no password."""
    restricted = loaded.settings.role_set.restricts_publishing
    trusted = {
        name: source
        for name, source in loaded.settings.sources.items()
        if loaded.distrusted_file_of_tls(f"sources.{name}.") is None
    }
    for name, source in loaded.settings.sources.items():
        if (distrusted := loaded.distrusted_file_of_tls(f"sources.{name}.")) is not None:
            yield Finding("source", Level.NOT_CHECKED, ": ".join(distrusted), subject=name)
            continue
        for finding in await source_findings(name, source, loaded.folder, restricted=restricted):
            yield finding
        if text := await policies_on_queue(name, source, trusted, loaded.folder):
            yield Finding("source", Level.WARNING, text, subject=name)
    for name, agent in loaded.settings.agents.items():
        if (distrusted := loaded.distrusted_file_of_tls(f"agents.{name}.")) is not None:
            yield Finding("agent", Level.NOT_CHECKED, ": ".join(distrusted), subject=name)
            continue
        for finding in await agent_findings(name, agent, loaded.folder):
            yield finding


_FAILURES: Final = {AUDIT_HEADS_ALARM: "audit-heads", STATE_DISK_ALARM: "state", PROCESSES_ALARM: "gateway"}
"""The subjects of findings by the alarms of what the gateway itself cannot do."""

_STATE_LEVELS = {
    SourceState.SYNCHRONISED: Level.GOOD,
    SourceState.SYNCHRONISING: Level.NOTE,
    SourceState.CONNECTING: Level.WARNING,
    SourceState.DEGRADED: Level.WARNING,
    SourceState.DOWN: Level.PROBLEM,
}
_LOG_LEVELS = {
    EventLogState.WRITING: Level.GOOD,
    EventLogState.OFF: Level.NOTE,
    EventLogState.UPKEEP: Level.WARNING,
    EventLogState.SLOW: Level.WARNING,
}


async def running_findings(loaded: LoadedConfiguration, *, has_lock: bool) -> list[Finding]:
    """Return findings from the reports of the running gateway, if it runs.

    Args:
        loaded: the configuration.
        has_lock: whether a process holds the state folder.
    """
    try:
        async with feed_session(loaded.feed_socket) as session:
            return list(picture_findings(session.view, loaded))
    except CommandError as error:
        if has_lock:
            return [Finding("gateway", Level.PROBLEM, str(error))]
        return [Finding("gateway", Level.NOTE, "does not run", "amqp-gateway run")]


def picture_findings(view: TerminalView, loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield findings from the state of the running gateway in ``view``."""
    objects = len(view.objects)
    yield Finding("gateway", Level.GOOD, f"runs; sources: {len(view.sources)}, objects: {objects:,}")
    for record in view.sources.values():
        detail = f": {record.detail}" if record.detail else ""
        level = _STATE_LEVELS[record.state]
        yield Finding(
            "source",
            # The detail of a source that is complete says what it cannot read, and why.
            Level.NOTE if detail and level is Level.GOOD else level,
            f"the running gateway has it {record.state.value}{detail}",
            subject=record.name,
        )
        for counter in ("objects_refused", "alarms_refused"):
            if record.counters.get(counter):
                text = f"{record.counters[counter]:,} {counter.replace('_', ' ')}: beyond the bound"
                advice = "raise max_objects of the source" if counter == "objects_refused" else ""
                yield Finding("source", Level.WARNING, text, advice, record.name)
    known = {record.name for record in view.sources.values()}
    for name in loaded.settings.sources:
        if name not in known:
            advice = "start it again"
            yield Finding("source", Level.PROBLEM, "the running gateway does not know it", advice, name)
    if view.event_log is not None:
        state, detail = view.event_log.state, view.event_log.detail
        level = _LOG_LEVELS.get(state, Level.PROBLEM)
        yield Finding("event-log", level, f"{state.value}{f': {detail}' if detail else ''}")
    for alarm in view.alarms.values():
        if (subject := _FAILURES.get(alarm.name)) is not None:
            yield Finding(subject, Level.PROBLEM, alarm.text, "correct it: the gateway tries again")
    if view.alarms:
        yield Finding(
            "alarms", Level.NOTE, f"{len(view.alarms)} conditions last", "amqp-gateway watch shows each"
        )


def writing_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield findings about every rule that allows something, and about the accounts and writers for it."""
    settings = loaded.settings
    rules = _changing_rules(settings.role_set)
    if not rules:
        yield Finding("writing", Level.GOOD, "no user may change anything")
    for rule, principals in rules.items():
        yield _rule_finding(rule, principals)
    accounts = {
        name: source.writing
        for name, source in settings.sources.items()
        if isinstance(source, RabbitMqSource) and source.writing is not None
    }
    changing = any(rule.write or rule.invoke for rule in rules)
    for name, writing in accounts.items():
        if not changing:
            text = "has an account that changes the broker, and no user may use it"
            yield Finding("writing", Level.NOTE, text, "take 'writing' away, or allow something", name)
        if writing.allow_lockout:
            text = f"limits may be set to 0 for {', '.join(writing.allow_lockout)}, which locks everybody out"
            yield Finding("writing", Level.WARNING, text, "take 'allow_lockout' away when it is done", name)
    for name, source in settings.sources.items():
        if changing and isinstance(source, RabbitMqSource) and source.writing is None:
            text = "operations are allowed, and there is no account that could carry them out"
            yield Finding("writing", Level.NOTE, text, "name one under 'writing' of the source", name)
    yield from _snmp_writers(loaded)


def _changing_rules(roles: RoleSet) -> dict[Rule, list[str]]:
    """Return the rules that allow operations, each with the principals that have it."""
    found: dict[Rule, list[str]] = {}
    for principal in dict.fromkeys((*roles.grants, *roles.principals)):
        for rule in roles.rules_of(principal):
            if not rule.denies and (rule.write or rule.invoke or rule.refresh):
                found.setdefault(rule, []).append(principal)
    return found


def _rule_finding(rule: Rule, principals: list[str]) -> Finding:
    """Return a finding with one rule in words."""
    text = f"{', '.join(principals)} {described(rule)}"
    wide = {"*"} & {*rule.write, *rule.invoke} and rule.objects == ("*",)
    if wide:
        advice = "name elements, methods and objects, where they are known"
        return Finding("writing", Level.WARNING, text, advice)
    return Finding("writing", Level.NOTE, text)


def _snmp_writers(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield findings about writers of SNMP: those without a rule, and communities sent in clear text."""
    snmp = loaded.settings.snmp
    allowed = {who for principals in _changing_rules(loaded.settings.role_set).values() for who in principals}
    for name in snmp.writers:
        if f"snmp:{name}" not in allowed:
            text = "may send SET, and no rule allows it anything"
            yield Finding(
                "writing", Level.NOTE, text, "take the writer away, or allow something", f"snmp:{name}"
            )
    remote = [host for host, _ in snmp.listen if not host.startswith(("127.", "::1"))]
    if snmp.enabled and snmp.writers and remote:
        yield Finding(
            "writing",
            Level.WARNING,
            f"SET is taken on {', '.join(remote)}: the network traffic shows the writers' communities",
            "listen on 127.0.0.1, or let only a network that is trusted reach it",
        )


def capture_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield findings about captured sources, and about files of captures that have ended."""
    folder, wished = loaded.capture_folder, loaded.settings.captures
    for name in wished:
        text = f"its messages are written to {folder / name}.jsonl, passwords too if there are any"
        yield Finding("captures", Level.NOTE, text, "take it out of 'captures' when the report is made", name)
    found = sorted(folder.glob("*.jsonl*")) if folder.is_dir() else []
    left = [file for file in found if file.name.rpartition(".jsonl")[0] not in wished]
    if left:
        text = f"{len(left)} files of captures that have ended are left in {folder}"
        yield Finding("captures", Level.NOTE, text, "delete them when they are needed no longer")
