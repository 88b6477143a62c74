"""A source that applications tell of themselves: the gateway listens where they expect a relay of AMI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Final

import structlog

from gateway.config.ami_source import AmiSource, zone
from gateway.config.types import SECOND
from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Reading
from gateway.dialects.ami.relay import LoginRules, RelayConfig, RelayLimits, RelaySession
from gateway.dialects.session import Listening, Logged, ObjectsRestored
from gateway.eventlog.last_state import LastState, last_state
from gateway.inventory.source import SourceInventory
from gateway.links.amqp_connection import LinkError
from gateway.links.session_driver import StreamDriver
from gateway.links.tcp import StreamLimits, TcpListener
from gateway.model.observations import ClassLearned, Observation, SourceState, SourceStateSeen
from gateway.model.schema import ClassSchema
from gateway.service.diagnostics.ami_checks import server_certificate
from gateway.service.metrics.core import listener_readings
from gateway.service.sources.console_port import ConsolePort
from gateway.service.sources.session_logs import FOLDER as SESSION_LOGS
from gateway.service.sources.session_logs import SessionLogLimits, SessionLogs
from gateway.service.sources.source_context import SourceContext
from gateway.service.state.cached_schemas import CachedClasses
from gateway.service.state.restored_objects import classes_to_restore, restored_reports
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

RESTART_SECONDS: Final = 5.0
"""Before it is tried again to listen."""

RESTORED_AT_ONCE: Final = 500
"""Objects; some ten milliseconds' worth, in which no other source is heard."""

_MEBIBYTE: Final = 1 << 20


async def run_ami(name: str, settings: AmiSource, source: SourceInventory, around: SourceContext) -> None:
    """Run the source until it is cancelled; an address that is taken is tried again, a fault begins again."""
    known = _Known(name, settings, around)
    told = ""
    while True:
        try:
            await _listen(name, settings, source, around, known)
        except LinkError as error:
            detail = str(error)
            if detail != told:
                log.warning("cannot-listen", name=name, detail=detail)
        except Exception as error:
            log.exception("source-failed", name=name)
            detail = f"internal error {type(error).__name__}: see the log; it begins again"
        told = detail
        down = SourceStateSeen(SourceState.DOWN, detail)
        around.inventory.observed(source, [down], around.clock.now())
        await asyncio.sleep(RESTART_SECONDS)


async def _listen(
    name: str, settings: AmiSource, source: SourceInventory, around: SourceContext, known: _Known
) -> None:
    """Listen until that fails."""
    config = relay_config(settings, around, known.classes)
    relay = RelaySession(config)
    session = around.captured(name, settings.kind, relay, config)
    logs = _session_logs(name, settings, around)

    def observed(observations: tuple[Observation, ...]) -> None:
        around.inventory.observed(source, observations, known.then or around.clock.now())
        known.learn(observations)

    def logged(line: Logged) -> None:
        if logs is not None:
            logs.take(line.application, line.line, around.clock.now(), outgoing=line.outgoing)

    answered = around.behind_what_was_told(source)
    driver = StreamDriver(name, session, observed, around.clock, source.counters, answered, logged)
    around.operations.connect(source.identity.number, ConsolePort(session, driver, around.clock))
    listener = TcpListener(
        driver,
        settings.listen,
        limits=stream_limits(settings),
        certificate=server_certificate(settings.tls, around.folder),
    )

    limit = settings.limits.connections
    readings = partial(listener_readings, name, limit, lambda: listener.connections)
    around.metrics.add(f"listener of {name}", readings)

    await known.restore(driver)

    async def tell_started() -> None:
        await listener.listening.wait()
        driver.handle(Listening())
        await asyncio.get_running_loop().create_future()

    keeping = (known.keep(), *(() if logs is None else (logs.keep(),)))
    await until_one_ends(listener.run(), tell_started(), *keeping)


class _Known:
    """What was known of a source's applications, and what is to be known after a restart."""

    def __init__(self, name: str, settings: AmiSource, around: SourceContext) -> None:
        self._name = name
        self._around = around
        self._remembers = settings.remember
        self._begins_anew = False
        state = around.state if settings.remember else None
        self._file = CachedClasses(state, name) if state is not None else None
        read = self._file.read() if self._file is not None else ()
        last = around.lasting.last if around.lasting is not None else None
        known = classes_to_restore(read, last, name, settings.limits.types // 2)
        if self._file is not None:
            self._file.keep_only(known)
        self._classes = {str(schema.key): schema for schema in known}
        self.then = 0
        """While former objects are told: until when they were heard, nanoseconds; 0 otherwise."""

    @property
    def classes(self) -> tuple[ClassSchema, ...]:
        """As last told."""
        return tuple(self._classes.values())

    async def restore(self, driver: StreamDriver) -> None:
        """Have a new session know what the log has, which nobody vouches for yet."""
        last = await self._last_state()
        if last is None or not self._classes:
            return
        seen = restored_reports(last, self._name, self.classes)
        while part := list(islice(seen, RESTORED_AT_ONCE)):
            # It is shown as of when it was heard, which is not now.
            self.then = last.heard_until.get(self._name, 0)
            try:
                driver.handle(ObjectsRestored(part))
            finally:
                self.then = 0
            await asyncio.sleep(0)

    async def _last_state(self) -> LastState | None:
        """As the log was at the start; as it is now for a session that begins again after a fault."""
        lasting = self._around.lasting if self._remembers else None
        if lasting is None or not self._begins_anew:
            self._begins_anew = True
            return None if lasting is None else lasting.last
        try:
            return await asyncio.to_thread(last_state, lasting.log, [self._name])
        except OSError as error:
            log.warning("event-log-not-read", path=error.filename, reason=error.strerror)
            return None

    def learn(self, observations: Iterable[Observation]) -> None:
        """Remember the classes among these."""
        learnt = [one.schema for one in observations if isinstance(one, ClassLearned)]
        self._classes |= {str(schema.key): schema for schema in learnt}
        if learnt and self._file is not None:
            self._file.learnt(learnt)

    async def keep(self) -> None:
        """Write what was learnt; ends by cancellation only."""
        if self._file is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._file.keep()


def relay_config(settings: AmiSource, around: SourceContext, known: tuple[ClassSchema, ...]) -> RelayConfig:
    """What a relay session is told of the settings."""
    limits = settings.limits
    return RelayConfig(
        package=settings.package,
        reading=Reading(settings.reading),
        dates=DateRules(zone(settings.time_zone)),
        secrets=around.secrets,
        logins=LoginRules(
            names=_only(settings.logins),
            certificates=_only(settings.certificates),
            own_name=settings.own_name,
            within=settings.login_within,
            log="LOG" in settings.options,
            terminal="TTY" in settings.options,
            pause=settings.pause,
        ),
        limits=RelayLimits(
            connections=limits.connections,
            line=limits.line,
            applications=limits.applications,
            types=limits.types,
            keys=limits.keys,
            objects=limits.objects,
            objects_each=limits.objects_each,
            commands=limits.commands,
        ),
        user=settings.user,
        schemas=known,
    )


def stream_limits(settings: AmiSource) -> StreamLimits:
    """What the listener is told of the settings."""
    idle = settings.idle / SECOND if settings.idle is not None else None
    return StreamLimits(
        connections=settings.limits.connections,
        first_seconds=settings.login_within / SECOND,
        idle_seconds=idle,
    )


def _only(names: Iterable[str] | None) -> frozenset[str] | None:
    return frozenset(names) if names is not None else None


def _session_logs(name: str, settings: AmiSource, around: SourceContext) -> SessionLogs | None:
    if around.state is None or "LOG" not in settings.options:
        return None
    kept = settings.session_log
    limits = SessionLogLimits(kept.max_size * _MEBIBYTE, kept.files, kept.applications)
    return SessionLogs(around.state / SESSION_LOGS / name, limits)
