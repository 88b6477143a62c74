"""The running gateway: its sources, alarms and event log, as it tells them to norths."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.files import LoadedConfiguration
from gateway.feed.records import EventLogState
from gateway.model.observations import SourceState
from gateway.service.diagnostics.doctor.findings import Finding, Level
from gateway.service.diagnostics.feed_session import feed_session
from gateway.service.processes.exit_codes import CommandError
from gateway.terminal.view import TerminalView

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
    """What the gateway tells of itself, if it runs.

    Args:
        loaded: the configuration.
        has_lock: whether somebody holds the state folder.
    """
    try:
        async with feed_session(loaded.feed_socket) as session:
            return list(picture_findings(session.view, loaded))
    except CommandError as error:
        if has_lock:
            return [Finding("gateway", Level.PROBLEM, str(error))]
        return [Finding("gateway", Level.NOTE, "does not run", "amqp-gateway run")]


def picture_findings(view: TerminalView, loaded: LoadedConfiguration) -> Iterator[Finding]:
    """What the running gateway says of itself."""
    objects = len(view.objects)
    yield Finding("gateway", Level.GOOD, f"runs; sources: {len(view.sources)}, objects: {objects:,}")
    for record in view.sources.values():
        detail = f": {record.detail}" if record.detail else ""
        yield Finding(
            "source",
            _STATE_LEVELS[record.state],
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
    if view.alarms:
        yield Finding(
            "alarms", Level.NOTE, f"{len(view.alarms)} conditions last", "amqp-gateway watch shows each"
        )
