"""A source of kind ami: the gateway listens where applications expect a relay of AMI.

An application may ask that its session is logged (option LOG). The gateway decides the content, place and
size of these logs: files below one folder of the gateway's, named after the application in a form that leads
nowhere else, rotated when they are long, and few. Nothing waits for the disk: lines that arrive faster than
it is written are left out, and the file says how many.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import errno
import hashlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import structlog

from gateway.config.sources import AmiSource, zone
from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Reading
from gateway.dialects.ami.relay import LoginRules, RelayConfig, RelayLimits, RelaySession
from gateway.dialects.session import Listening, Logged, LoginRefused, ObjectsRestored, PublishRefused
from gateway.feed.guesses import Guesses
from gateway.inventory.source import SourceInventory
from gateway.links.amqp_connection import LinkError
from gateway.links.handshakes import Handshakes
from gateway.links.session_driver import StreamDriver
from gateway.links.tcp import StreamLimits, TcpListener
from gateway.model.observations import ClassLearned, Gap, Observation, SourceState, SourceStateSeen
from gateway.model.schema import ClassSchema
from gateway.model.times import SECOND
from gateway.service.metrics.core import handshake_readings, listener_readings
from gateway.service.sources.ami_publishing import publish_rules, refused_request
from gateway.service.sources.source_context import ConsolePort, SourceContext
from gateway.service.state.cached_schemas import CachedClasses
from gateway.service.state.restored_objects import classes_to_restore, restored_reports
from gateway.state_folder import SESSION_LOGS
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

RESTART_SECONDS: Final = 5.0
"""Seconds after an error before the source listens again."""

RESTORED_AT_ONCE: Final = 500
"""The number of objects that are restored at once: some ten milliseconds, in which no other is read."""

_MEBIBYTE: Final = 1 << 20


async def run_ami(name: str, settings: AmiSource, source: SourceInventory, around: SourceContext) -> None:
    """Run the source until it is cancelled; an address that is taken is tried again, a fault begins again."""
    guesses = Guesses(lambda guess: around.operations.refused(guess.request("ami")), time.monotonic_ns)
    await until_one_ends(guesses.run(), _keep_listening(name, settings, source, around, guesses))


async def _keep_listening(
    name: str, settings: AmiSource, source: SourceInventory, around: SourceContext, guesses: Guesses
) -> None:
    known = _Known(name, settings, around)
    handshakes = Handshakes(f"TLS on the listener of {name}", guesses)
    around.metrics.add(f"handshakes of {name}", partial(handshake_readings, name, handshakes))
    reported = ""
    ended: list[tuple[int, str]] = []
    while True:
        try:
            await _listen(name, settings, source, around, known, handshakes, guesses, ended)
        except LinkError as error:
            detail = str(error)
            if detail != reported:
                log.warning("cannot-listen", name=name, detail=detail)
        except Exception as error:
            log.exception("source-failed", name=name)
            detail = f"internal error {type(error).__name__}: see the log; it begins again"
            ended[:] = ended or [(around.clock.now(), detail)]
        reported = detail
        down = SourceStateSeen(SourceState.DOWN, detail)
        around.inventory.observed(source, [down], around.clock.now())
        await asyncio.sleep(RESTART_SECONDS)


async def _listen(
    name: str,
    settings: AmiSource,
    source: SourceInventory,
    around: SourceContext,
    known: _Known,
    handshakes: Handshakes,
    guesses: Guesses,
    ended: list[tuple[int, str]],
) -> None:
    """Listen until an error occurs.

    ``ended`` has the time (ns) and the reason of the last end by an internal error; applications could report
    nothing from then on.
    """
    publishing = publish_rules(around.roles.now, name)
    config = replace(relay_config(settings, around, known.classes), publishing=publishing)
    relay = RelaySession(config)
    session = around.captured(name, settings.kind, relay, config)
    logs = _session_logs(name, settings, around)

    def observed(observations: tuple[Observation, ...]) -> None:
        around.inventory.observed(source, observations, known.then or around.clock.now())
        known.learn(observations)

    def logged(line: Logged) -> None:
        if logs is not None:
            logs.take(line.application, line.line, around.clock.now(), outgoing=line.outgoing)

    def refused(refusal: LoginRefused | PublishRefused) -> None:
        if isinstance(refusal, LoginRefused):
            guesses.guessed(refusal.address, f"login at {name}: {refusal.reason}")
        else:
            request = refused_request(source.identity.number, refusal)
            around.inventory.afterwards(source, partial(around.operations.refused, request))

    answered = around.after_observations(source)
    driver = StreamDriver(name, session, observed, around.clock, source.counters, answered, logged, refused)
    around.operations.connect(source.identity.number, ConsolePort(session, driver, around.clock))
    listener = TcpListener(
        driver,
        settings.listen,
        limits=stream_limits(settings),
        tls=None if settings.tls is None else settings.tls.files(around.folder),
        handshakes=handshakes,
    )

    limit = settings.limits.connections
    readings = partial(listener_readings, name, limit, lambda: listener.connections)
    around.metrics.add(f"listener of {name}", readings)

    async def note_started() -> None:
        await listener.listening.wait()
        now = around.clock.now()
        gaps = tuple(Gap(min(since, now), now, reason) for since, reason in ended)
        ended.clear()
        driver.handle(Listening())
        if gaps:
            around.inventory.observed(source, gaps, now)
        await asyncio.get_running_loop().create_future()

    keeping = (known.keep(), *(() if logs is None else (logs.keep(),)))
    with around.roles.followed(lambda roles: relay.change_publishing(publish_rules(roles, name))):
        await known.restore(driver)
        await until_one_ends(listener.run(), note_started(), *keeping)


class _Known:
    """The classes and objects of a source's applications, cached over restarts."""

    def __init__(self, name: str, settings: AmiSource, around: SourceContext) -> None:
        self._name = name
        self._around = around
        self._remembers = settings.remember
        state = around.state if settings.remember else None
        self._file = CachedClasses(state, name) if state is not None else None
        read = self._file.read() if self._file is not None else ()
        last = around.durable_context.last.at_start(name) if around.durable_context is not None else None
        known = classes_to_restore(read, last, name, settings.limits.types // 2)
        if self._file is not None:
            self._file.keep_only(known)
        self._classes = {str(schema.key): schema for schema in known}
        self.then = 0
        """While objects are restored: the time until which they were received, nanoseconds; else 0."""

    @property
    def classes(self) -> tuple[ClassSchema, ...]:
        """The classes as last reported."""
        return tuple(self._classes.values())

    async def restore(self, driver: StreamDriver) -> None:
        """Give a new session the objects that the log has, stale until an application reports them."""
        durable_context = self._around.durable_context if self._remembers else None
        if durable_context is None:
            return
        last = await durable_context.last.take(self._name)
        seen = restored_reports(last, self._name, self.classes)
        while part := list(islice(seen, RESTORED_AT_ONCE)):
            # It is shown as of when it was received, which is not now.
            self.then = last.complete_until.get(self._name, 0)
            try:
                driver.handle(ObjectsRestored(part))
            finally:
                self.then = 0
            await asyncio.sleep(0)

    def learn(self, observations: Iterable[Observation]) -> None:
        """Remember the classes among ``observations``."""
        learnt = [one.schema for one in observations if isinstance(one, ClassLearned)]
        self._classes |= {str(schema.key): schema for schema in learnt}
        if learnt and self._file is not None:
            self._file.learnt(learnt)

    async def keep(self) -> None:
        """Write the classes that were learnt; ends by cancellation only."""
        if self._file is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._file.keep()


def relay_config(settings: AmiSource, around: SourceContext, known: tuple[ClassSchema, ...]) -> RelayConfig:
    """Return the configuration of a relay session, from the settings."""
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
        stale_after=settings.stale_after,
        schemas=known,
    )


def stream_limits(settings: AmiSource) -> StreamLimits:
    """Return the limits of the listener, from the settings."""
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


MAX_LINE_OCTETS: Final = 8192
"""The largest length of one line; the rest is left out, and counted in the line."""

SETTLING_SECONDS: Final = 0.2
"""Seconds for which lines are gathered, to be written together."""

_MAX_NAME: Final = 60
_SUFFIX: Final = ".log"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9-]")
_UNPRINTABLE: Final = re.compile(rb"[^\x20-\x7e]")
_MILLISECONDS: Final = 10**6


@dataclass(frozen=True, slots=True)
class SessionLogLimits:
    """The limits of session logs.

    Attributes:
        octets: size of one file, after which a new one is begun; what was written together stays together.
        files: number of files of one application, with the one that is written.
        applications: number of applications with files; the one that was silent longest makes room for a new
            one.
        waiting: bytes that wait for the disk, of all applications together.
    """

    octets: int = 1 << 20
    files: int = 3
    applications: int = 32
    waiting: int = 1 << 20


class SessionLogs:
    """The session logs of one source.

    Args:
        folder: the folder of the files; made when it is needed.
        limits: the limits of the files.
    """

    def __init__(self, folder: Path, limits: SessionLogLimits | None = None) -> None:
        self._folder = folder
        self._limits = limits or SessionLogLimits()
        self._waiting: dict[str, list[bytes]] = {}
        self._octets = 0
        self._left_out: dict[str, int] = {}
        self._unwritten: dict[str, int] = {}
        self._is_failing = False
        self._something = asyncio.Event()

    def take(self, application: str, line: bytes, now: int, *, outgoing: bool) -> None:
        r"""Write a line soon, as it travelled, without its end.

        Args:
            application: the application of the session, as it calls itself.
            line: the line; bytes that are not printable ASCII are written as ``\xNN``.
            now: nanoseconds since 1970 UTC.
            outgoing: whether the gateway sent it.
        """
        name = file_name(application)
        written = _written(line, now, outgoing=outgoing)
        if self._octets + len(written) > self._limits.waiting:
            if name in self._left_out or len(self._left_out) < self._limits.applications:
                self._left_out[name] = self._left_out.get(name, 0) + 1
            return
        self._octets += len(written)
        self._waiting.setdefault(name, []).append(written)
        self._something.set()

    async def keep(self) -> None:
        """Write the taken lines soon; ends by cancellation only, and writes the remaining ones then."""
        try:
            while True:
                await self._something.wait()
                await asyncio.sleep(SETTLING_SECONDS)
                self._something.clear()
                self._unwritten = await asyncio.to_thread(self._write, self._taken())
        finally:
            self._unwritten = self._write(self._taken())

    def _taken(self) -> dict[str, tuple[int, bytes]]:
        """Return for each file the number of lines that it lacks or gets, and what is to be written."""
        taken: dict[str, tuple[int, bytes]] = {}
        for name in self._waiting.keys() | self._left_out.keys() | self._unwritten.keys():
            missing, left_out = self._unwritten.get(name, 0), self._left_out.get(name, 0)
            lines = self._waiting.get(name, [])
            before = f"# {missing} lines are missing here: they could not be written\n" if missing else ""
            after = f"# {left_out} lines were left out here: they came faster than they could be written\n"
            written = b"".join([before.encode(), *lines, after.encode() if left_out else b""])
            taken[name] = missing + len(lines) + left_out, written
        self._waiting.clear()
        self._left_out.clear()
        self._unwritten = {}
        self._octets = 0
        return taken

    def _write(self, taken: dict[str, tuple[int, bytes]]) -> dict[str, int]:
        """Write what was taken; return the number of lines that each file lacks."""
        lacking: dict[str, int] = {}
        for name, (count, octets) in taken.items():
            try:
                self._append(self._folder / name, octets)
            except OSError as error:
                if len(lacking) < self._limits.applications:
                    lacking[name] = count
                if not self._is_failing:
                    path = str(error.filename or self._folder / name)
                    log.warning("session-not-logged", path=path, detail=error.strerror or str(error))
        self._is_failing = bool(lacking)
        return lacking

    def _append(self, path: Path, octets: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = path.stat().st_size if path.exists() else None
        if size is None:
            self._make_room()
        elif size and size + len(octets) > self._limits.octets:
            self._turn_over(path)
            size = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            if os.write(descriptor, octets) < len(octets):
                os.ftruncate(descriptor, size or 0)  # no line without its end, with the next one behind it
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        finally:
            os.close(descriptor)

    def _turn_over(self, path: Path) -> None:
        """Rename ``x.log`` to ``x.log.1``, and that one to ``x.log.2``; delete the last one."""
        names = [path, *(path.with_name(f"{path.name}.{n}") for n in range(1, self._limits.files))]
        names[-1].unlink(missing_ok=True)
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.replace(older)

    def _make_room(self) -> None:
        """Make room for a new application: delete the files of those that were silent longest."""
        logs = sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
        for path in logs[: max(0, len(logs) + 1 - self._limits.applications)]:
            for one in (path, *self._folder.glob(f"{path.name}.[0-9]*")):
                one.unlink(missing_ok=True)


def file_name(application: str) -> str:
    """Return the name of an application's file: letters, digits, ``-`` and ``_``, unique to the application.

    Other characters are written as ``_`` and their UTF-8 bytes in hexadecimal digits; a long name is cut, and
    ends with a digest of the whole.
    """
    octets = application.encode("utf-8", "backslashreplace")
    name = _UNSAFE.sub(lambda found: f"_{ord(found[0]):02x}", octets.decode("latin-1"))
    if len(name) > _MAX_NAME or not name:
        name = f"{name[:_MAX_NAME]}_-{hashlib.blake2b(octets, digest_size=8).hexdigest()}"
    return name + _SUFFIX


def _written(line: bytes, now: int, *, outgoing: bool) -> bytes:
    time = dt.datetime.fromtimestamp(now // SECOND, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    shown = _UNPRINTABLE.sub(lambda found: b"\\x%02x" % found[0][0], line[:MAX_LINE_OCTETS])
    rest = len(line) - MAX_LINE_OCTETS
    end = f" ... and {rest} bytes\n" if rest > 0 else "\n"
    return (
        f"{time}.{now % 10**9 // _MILLISECONDS:03d}Z {'>' if outgoing else '<'} ".encode()
        + shown
        + end.encode()
    )
