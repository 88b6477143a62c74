"""The JMX process: the feed in, MBeans of a Java virtual machine out. It has no credentials of brokers.

The virtual machine may die at any time: another takes its place and receives everything again. A file keeps
the last event that clients received over restarts of the process. Its clients end with a process, so the next
one shows them, by its count of later events, how many they missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn

import structlog
from pydantic import Field, SecretStr, ValidationError

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.types import SECOND, SecretError
from gateway.durable_files import write_durably
from gateway.feed.client import FeedLink, RefusalReports
from gateway.jmx.backend import Users
from gateway.jmx.classes import ColumnOids
from gateway.jmx.delivery import MAX_WAITING, Delivery
from gateway.jmx.java_runtime import JavaMissingError, JmxError, ListenError, MachineEndedError
from gateway.jmx.notifications import MAX_SENT, EventCursor, OperationCursor
from gateway.jmx.operations import Operations
from gateway.jmx.projection import Projection, ProjectionSettings
from gateway.jmx.virtual_machine import JavaMachine, MachineSettings
from gateway.model.schema import ClassKey
from gateway.service.metrics import families
from gateway.service.metrics.families import Reading
from gateway.service.metrics.process import feed_readings, usage
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.process_setup import tune_garbage_collection
from gateway.shipped_files import version
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.registry_files import load_shipped_registries
from gateway.state_folder import StateError, StateFolder
from gateway.tasks import until_one_ends
from gateway.yaml_documents import DocumentError, StrictModel

log = structlog.get_logger(__name__)

FIRST_RESTART_SECONDS, LAST_RESTART_SECONDS = 0.1, 15.0
STEADY_SECONDS = 60.0
"""A virtual machine that lived this long is followed by another at once when it dies."""

ANSWER_SECONDS = 0.25
"""Of an operation's deadline, for the way from the core back to the client, who waits no longer."""

COMPLETE_SECONDS = 10.0
"""How long clients wait for the first whole snapshot before they are let in all the same."""

_EXIT_CODES: tuple[tuple[type[JmxError], ExitCode], ...] = (
    (JavaMissingError, ExitCode.NOT_INSTALLED),
    (ListenError, ExitCode.ADDRESS_IN_USE),
    (JmxError, ExitCode.FAILED),
)


async def run_jmx(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:
    """Run the JMX agent until the supervisor goes or the task is cancelled.

    Raises:
        CommandError: it cannot work with this configuration or state, there is no Java, or its address is
            taken.
    """
    try:
        users = Users(read_passwords(loaded, StateFolder(loaded.state_folder)))
        registries = load_shipped_registries() if loaded.settings.snmp.enabled else ()
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except (SecretError, DocumentError, FileNotFoundError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    oids = column_oids(loaded.settings.snmp.root, registries)
    tune_garbage_collection()
    agent = _JmxAgent(loaded, clock, lifeline, users, oids)
    await until_one_ends(agent.run(), lifeline.parent_gone())


def read_passwords(loaded: LoadedConfiguration, state: StateFolder) -> dict[str, SecretStr]:
    """The password of each user: as configured, else the state folder's own, made when it is missing.

    Raises:
        SecretError: a configured one cannot be read.
        StateError: one of the state folder's cannot be read or made.
    """
    passwords: dict[str, SecretStr] = {}
    for name, user in loaded.settings.jmx.users.items():
        if user.password is not None:
            passwords[name] = user.password.read(loaded.folder)
        else:
            passwords[name] = SecretStr(state.secret(secret_name(name)))
    return passwords


def secret_name(user: str) -> str:
    """What a user's password is called in the state folder."""
    return f"jmx-{user}"


def machine_settings(loaded: LoadedConfiguration) -> MachineSettings:
    """How the configuration wants the virtual machine run."""
    settings = loaded.settings.jmx
    address, port = settings.listen
    return MachineSettings(
        address,
        port,
        hostname=settings.hostname,
        java=None if settings.java is None else loaded.folder / settings.java,
        heap=settings.heap,
        notification_buffer=settings.notification_buffer,
        operation_deadline=loaded.settings.operations.deadline / SECOND,
    )


def exit_code(error: JmxError) -> ExitCode:
    """How a command ends for which this is the end."""
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))


def column_oids(root: str, registries: Iterable[OidRegistry]) -> ColumnOids:
    """What finds the SNMP column that shows an element too: its first one, in a shipped registry.

    Args:
        root: of all object identifiers, dotted.
        registries: the shipped ones; a provisional column's number is this site's affair.
    """
    registries = tuple(registries)

    def find(class_name: str, element: str) -> str:
        package, _, name = class_name.partition(":")
        for registry in registries:
            class_entry = registry.find(ClassKey(package, name))
            for locked in class_entry.elements if class_entry is not None else ():
                if class_entry is not None and locked.name == element and locked.current:
                    return ".".join(map(str, (root, *registry.entry_oid((), class_entry), locked.columns[0])))
        return ""

    return find


class _JmxAgent:
    """Virtual machines, one after the other.

    Args:
        loaded: the configuration.
        clock: for the projection.
        lifeline: to the supervisor; it learns when clients can connect for the first time.
        users: who may come in.
        oids: for descriptors.
    """

    def __init__(
        self,
        loaded: LoadedConfiguration,
        clock: Clock,
        lifeline: Lifeline,
        users: Users,
        oids: ColumnOids,
    ) -> None:
        self._loaded = loaded
        self._clock = clock
        self._lifeline = lifeline
        self._users = users
        self._oids = oids
        self._told = EventCursorFile(loaded.state_folder)
        self._cursor = self._told.read()
        sources = len(loaded.settings.sources) + 1
        self._operation_cursor = OperationCursor(2 * sources * loaded.settings.history.operations + MAX_SENT)
        self._starts = 0
        self._logins: Counter[LoginOutcome] = Counter()
        self._was_ready = False
        self._was_killed = False
        buffer = loaded.settings.jmx.notification_buffer
        lifeline.metrics.add("agent", lambda: agent_readings(self._starts, self._logins, buffer))

    async def run(self) -> NoReturn:
        """Run one after the other, for ever.

        Raises:
            CommandError: the first one never worked, and was not killed before it could.
        """
        pause = FIRST_RESTART_SECONDS
        while True:
            began = time.monotonic()
            try:
                await self._run_once()
            except JmxError as error:
                if not (self._was_ready or (isinstance(error, MachineEndedError) and self._was_killed)):
                    raise CommandError(exit_code(error), str(error)) from error
                reason = str(error)
            if time.monotonic() - began > STEADY_SECONDS:
                pause = FIRST_RESTART_SECONDS
            log.warning("jmx-machine-died", reason=reason, restart_in_seconds=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_RESTART_SECONDS)

    async def _run_once(self) -> NoReturn:
        """One life of a virtual machine.

        Raises:
            JmxError: always, when it has ended.
        """
        self._starts += 1
        machine = JavaMachine(machine_settings(self._loaded), self._authenticate)
        try:
            await self._run(machine)
        finally:
            self._was_killed = machine.ended_by_signal

    async def _run(self, machine: JavaMachine) -> NoReturn:
        async with machine:
            projection = self._projection()
            delivery = Delivery(projection, machine.push)
            link = FeedLink(self._loaded.feed_socket, delivery, delivery.ready, ANSWER_SECONDS)
            deadline = self._loaded.settings.operations.deadline
            timeout = deadline - int(ANSWER_SECONDS * SECOND)
            refusals = RefusalReports(link.ask, time.monotonic_ns)
            operations = Operations(
                projection.objects, link.ask, delivery.caught_up, timeout, refusals.report
            )
            metrics = self._lifeline.metrics
            metrics.add("delivery", lambda: delivery_readings(projection, delivery))
            metrics.add_slow("virtual machine", partial(machine_readings, machine))
            await until_one_ends(
                _end_of(machine),  # first, because its reason explains why the others end
                delivery.run(link.judge),
                delivery.tick(),
                link.run(),
                refusals.run(),
                self._told.keep(self._cursor),
                self._let_in(machine, delivery, operations),
            )
        raise AssertionError("the feed is followed for ever")

    async def _let_in(self, machine: JavaMachine, delivery: Delivery, operations: Operations) -> NoReturn:
        """Open to clients once they find everything there is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMPLETE_SECONDS):
                await delivery.complete.wait()
        await machine.open(operations)
        log.info("jmx-ready", port=machine.port, java_process=machine.pid, starts=self._starts)
        if not self._was_ready:
            self._was_ready = True
            self._lifeline.ready()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a future without a result is never done")

    async def _authenticate(self, user: str, password: str) -> bool:
        is_known = await self._users.authenticate(user, password)
        self._logins[LoginOutcome.ACCEPTED if is_known else LoginOutcome.REFUSED] += 1
        return is_known

    def _projection(self) -> Projection:
        settings = self._loaded.settings.jmx
        history = self._loaded.settings.history.limits
        return Projection(
            ProjectionSettings(settings.serve_stale_for, version(), settings.buckets, self._starts, history),
            cursor=self._cursor,
            operations=self._operation_cursor,
            clock=self._clock.now,
            log=lambda event, detail: log.info(event, detail=detail),
            column_oid=self._oids,
        )


async def _end_of(machine: JavaMachine) -> NoReturn:
    raise MachineEndedError(await machine.ended())


PROCESS = "jmx"
MACHINE = "java"

_MILLISECONDS = 1000


class LoginOutcome(enum.StrEnum):
    """How an attempt to log in ended."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


def agent_readings(starts: int, logins: Mapping[LoginOutcome, int], buffer: int) -> Iterator[Reading]:
    """Read what outlives a virtual machine; ``buffer`` is how many notifications one keeps."""
    yield families.JMX_STARTS.at(starts)
    yield families.JMX_BUFFER.at(buffer)
    for outcome in LoginOutcome:
        yield families.JMX_LOGINS.at(logins.get(outcome, 0), outcome.value)


def delivery_readings(projection: Projection, delivery: Delivery) -> Iterator[Reading]:
    """Read the counters of a projection and its delivery."""
    health, counts = projection.health, projection.counts
    yield from feed_readings(projection.status, PROCESS)
    yield families.NORTH_OBJECTS.at(counts["Objects"], PROCESS)
    yield families.NORTH_STALE.at(counts["StaleObjects"], PROCESS)
    yield families.NORTH_WITHHELD.at(counts["WithheldObjects"], PROCESS)
    yield families.JMX_WAITING.at(projection.waiting)
    yield families.JMX_WAITING_MAX.at(MAX_WAITING)
    yield families.JMX_FAILED.at(delivery.failed)
    yield families.JMX_EMITTED.at(health.emitted)
    yield families.JMX_UNFIT.at(health.unfit)


async def machine_readings(machine: JavaMachine) -> Iterable[Reading]:
    """Read the usage of the virtual machine; nothing of one that has ended."""
    try:
        used, pid = await machine.usage(), machine.pid
    except MachineEndedError:
        return ()
    return (
        families.JMX_CLIENTS.at(used.clients),
        families.JMX_CLIENTS_MAX.at(used.max_clients),
        families.JMX_OPERATIONS.at(used.operations),
        families.JMX_OPERATIONS_MAX.at(used.max_operations),
        families.JMX_HEAP.at(used.heap),
        families.JMX_HEAP_MAX.at(used.max_heap),
        families.JMX_GC_SECONDS.at(used.collection_milliseconds / _MILLISECONDS),
        families.JMX_GC_COLLECTIONS.at(used.collections),
        families.JMX_THREADS.at(used.threads),
        *usage(MACHINE, pid),
    )


FILE: Final = "jmx-events.json"
"""In the state folder."""

_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 10.0
_MAX_OCTETS: Final = 4096
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Place(StrictModel):
    version: Literal[1] = 1
    epoch: _Count = 0
    number: _Count = 0


class EventCursorFile:
    """The file.

    Args:
        state: the state folder.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / FILE
        self._kept = (0, 0)
        self._writing = threading.Lock()

    def read(self) -> EventCursor:
        """Return where the process before stopped; as if there had been none, where that cannot be read."""
        try:
            with self._path.open("rb") as file:
                place = _Place.model_validate_json(file.read(_MAX_OCTETS))
        except FileNotFoundError:
            return EventCursor()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged, or of a newer gateway"
            log.warning("jmx-events-not-read", path=str(self._path), reason=reason)
            return EventCursor()
        self._kept = place.epoch, place.number
        return EventCursor(*self._kept)

    async def keep(self, cursor: EventCursor) -> NoReturn:
        """Write what changed, once a second; ends by cancellation only."""
        try:
            while True:
                kept = await asyncio.to_thread(self._write, cursor.place)
                await asyncio.sleep(_SECONDS if kept else _AGAIN_SECONDS)
        finally:
            self._write(cursor.place)

    def _write(self, place: tuple[int, int]) -> bool:
        with self._writing:  # at the end a thread may be at it still
            if place <= self._kept:
                return True
            epoch, number = place
            try:
                write_durably(self._path, _Place(epoch=epoch, number=number).model_dump_json() + "\n")
            except OSError as error:
                log.warning("jmx-events-not-kept", path=str(self._path), reason=error.strerror)
                return False
            self._kept = place
            return True
