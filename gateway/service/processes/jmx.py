"""The JMX process: the feed in, MBeans of a Java virtual machine out. It has no credentials of brokers.

The virtual machine may die at any time: another takes its place and receives everything again. A file keeps
the last event that clients received over restarts of the process. Its clients end with a process, so the next
one shows them, by its count of later events, how many they missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import importlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NoReturn

import structlog
from pydantic import Field, SecretStr, ValidationError

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.model import JmxSettings
from gateway.config.secret_places import SecretError
from gateway.durable_files import FOR_STARTS, write_durably
from gateway.feed.client import FeedLink, RefusalReports
from gateway.file_owners import reason_of
from gateway.jmx.backend import Identify
from gateway.jmx.classes import ColumnOids
from gateway.jmx.delivery import MAX_WAITING, Delivery
from gateway.jmx.java_runtime import JavaMissingError, JmxError, ListenError, MachineEndedError
from gateway.jmx.logins import Logins
from gateway.jmx.notifications import MAX_SENT, EventCursor, OperationCursor
from gateway.jmx.operations import Operations
from gateway.jmx.past_events import EVENTS_SINCE, PastEventReading
from gateway.jmx.projection import Projection, ProjectionSettings
from gateway.jmx.tls import TlsError, TlsMaterial
from gateway.jmx.users import Holder, PasswordError, ReadPassword, SubjectError, Users, check_stored
from gateway.jmx.virtual_machine import JavaMachine, MachineSettings, kept_notifications
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from gateway.service.metrics import families
from gateway.service.metrics.families import Reading
from gateway.service.metrics.process import feed_readings, usage
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline, ProcessEnd
from gateway.service.processes.process_setup import tune_garbage_collection
from gateway.shipped_files import version
from gateway.snmp.oid_registry import OidRegistry, load_shipped_registries
from gateway.state_folder import StateError, StateFolder
from gateway.tasks import until_one_ends
from gateway.yaml_documents import DocumentError, StrictModel

if TYPE_CHECKING:
    from gateway.jmx.certificate_users import CertificateUsers
    from gateway.jmx.tls_renewal import TlsRenewal

log = structlog.get_logger(__name__)

FIRST_RESTART_SECONDS, LAST_RESTART_SECONDS = 0.1, 15.0
STEADY_SECONDS = 60.0
"""Seconds after which a virtual machine that dies is replaced at once."""

ANSWER_SECONDS = 0.25
"""Seconds before a client's deadline at which the core must answer, for the way back to the client."""

COMPLETE_SECONDS = 10.0
"""Seconds for which clients wait for the first whole snapshot; then they are admitted anyway."""

_EXIT_CODES: tuple[tuple[type[JmxError], ExitCode], ...] = (
    (JavaMissingError, ExitCode.NOT_INSTALLED),
    (ListenError, ExitCode.ADDRESS_IN_USE),
    (TlsError, ExitCode.CONFIGURATION),
    (JmxError, ExitCode.FAILED),
)


async def run_jmx(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:
    """Run the JMX agent until the supervisor goes or the task is cancelled.

    Raises:
        CommandError: it cannot work with this configuration or state, there is no Java, or its address is
            taken.
    """
    try:
        users = Users(password_readers(loaded, StateFolder(loaded.state_folder)))
        identify = certificate_users(loaded.settings.jmx)
        tls = tls_renewal(loaded.settings.jmx, loaded.folder)
        registries = load_shipped_registries() if loaded.settings.snmp.enabled else ()
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except (SecretError, PasswordError, SubjectError, TlsError, DocumentError, FileNotFoundError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    oids = column_oids(loaded.settings.snmp.root, registries)
    tune_garbage_collection()
    agent = _JmxAgent(loaded, clock, lifeline, users, identify, tls, oids)
    await until_one_ends(agent.run(), lifeline.parent_gone())


def password_readers(loaded: LoadedConfiguration, state: StateFolder) -> dict[str, ReadPassword]:
    """Return what reads the password of each user who has one: the configured one, or the state folder's.

    All are read once, and those of the state folder created if missing.

    Raises:
        SecretError: a configured password cannot be read.
        StateError: a password of the state folder cannot be read or created.
        PasswordError: a password is a hash that cannot be used.
    """
    readers: dict[str, ReadPassword] = {}
    for name, user in loaded.settings.jmx.users.items():
        if user.subject is not None:
            continue
        if user.password is not None:
            read = partial(user.password.read, loaded.folder)
        else:
            read = partial(_stated_secret, state, secret_name(name))
        check_password(name, read())
        readers[name] = partial(_usable, read)
    return readers


def certificate_users(settings: JmxSettings) -> Identify:
    """Return what finds the user whose certificate it is.

    Raises:
        SubjectError: the subject of a user's certificate cannot be used.
    """
    subjects = {name: user.subject for name, user in settings.users.items() if user.subject is not None}
    if not subjects:
        return lambda _certificate: Holder("of the connection")
    # The cryptographic library takes 6 MB, so it is imported where a user has a certificate only.
    late = importlib.import_module("gateway.jmx.certificate_users")
    users: CertificateUsers = late.CertificateUsers(subjects)
    return users.identify


def check_password(user: str, password: SecretStr) -> None:
    """Check the stored password of a user.

    Raises:
        PasswordError: it is a hash that cannot be used.
    """
    try:
        check_stored(password.get_secret_value())
    except PasswordError as error:
        raise PasswordError(f"jmx.users.{user}: {error}") from error


def _stated_secret(state: StateFolder, name: str) -> SecretStr:
    return SecretStr(state.secret(name))


def _usable(read: ReadPassword) -> SecretStr:
    try:
        return read()
    except (SecretError, StateError) as error:
        raise PasswordError(str(error)) from error


def secret_name(user: str) -> str:
    """Return the name of a user's password in the state folder."""
    return f"jmx-{user}"


def machine_settings(loaded: LoadedConfiguration, tls: TlsMaterial | None) -> MachineSettings:
    """Return the settings of the virtual machine from the configuration, with what TLS uses now."""
    settings = loaded.settings.jmx
    address, port = settings.listen
    return MachineSettings(
        address,
        port,
        hostname=settings.hostname[0],
        advertised_port=settings.hostname[1],
        java=None if settings.java is None else loaded.folder / settings.java,
        heap=settings.heap,
        notification_buffer=settings.notification_buffer,
        operation_deadline=loaded.settings.operations.deadline / SECOND,
        tls=tls,
        folder=loaded.state_folder,
    )


def tls_renewal(settings: JmxSettings, folder: Path) -> TlsRenewal | None:
    """Read the files of TLS, and return what follows them; ``None`` for plain text.

    Args:
        settings: the settings of the JMX agent.
        folder: the folder to which relative paths are relative.

    Raises:
        TlsError: one of them cannot be used.
    """
    tls = settings.tls
    if tls is None:
        return None
    # The cryptographic library takes 6 MB, so it is imported where TLS is configured only.
    late = importlib.import_module("gateway.jmx.tls_renewal")
    renewal: TlsRenewal = late.TlsRenewal(tls.files(folder))
    return renewal


def exit_code(error: JmxError) -> ExitCode:
    """Return the exit code of a command that ends because of this error."""
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))


def column_oids(root: str, registries: Iterable[OidRegistry]) -> ColumnOids:
    """Return a function that finds the SNMP column of an element: its first one, in a shipped registry.

    Args:
        root: of all object identifiers, dotted.
        registries: the shipped ones; the number of a provisional column is valid on this site only.
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
    """Runs virtual machines, one after the other.

    Args:
        loaded: the configuration.
        clock: for the projection.
        lifeline: to the supervisor, which is informed when clients can connect for the first time.
        users: the users who may connect.
        identify: finds the user whose certificate it is.
        tls: the files of TLS; ``None`` for plain text.
        oids: for descriptors.
    """

    def __init__(
        self,
        loaded: LoadedConfiguration,
        clock: Clock,
        lifeline: Lifeline,
        users: Users,
        identify: Identify,
        tls: TlsRenewal | None,
        oids: ColumnOids,
    ) -> None:
        self._loaded = loaded
        self._clock = clock
        self._lifeline = lifeline
        self._users = users
        self._identify = identify
        self._tls = tls
        self._oids = oids
        self._cursor_file = EventCursorFile(loaded.state_folder, loaded.settings.jmx.late_after)
        self._cursor = self._cursor_file.read()
        sources = len(loaded.settings.sources) + 1
        self._operation_cursor = OperationCursor(2 * sources * loaded.settings.history.operations + MAX_SENT)
        self._starts = 0
        self._logins: Counter[LoginOutcome] = Counter()
        self._refused_requests = self._lines_left_out = 0
        self._was_ready = False
        self._was_killed = False
        jmx = loaded.settings.jmx
        buffer = kept_notifications(jmx.notification_buffer, jmx.heap)
        lifeline.metrics.add(
            "agent",
            lambda: agent_readings(
                self._starts, self._logins, self._refused_requests, buffer, self._lines_left_out
            ),
        )

    async def run(self) -> NoReturn:
        """Run one virtual machine after the other, without end.

        Raises:
            CommandError: the first one failed before it worked, and was not killed.
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
            self._lifeline.report(ProcessEnd("jvm", reason))
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_RESTART_SECONDS)

    async def _run_once(self) -> NoReturn:
        """Run a virtual machine to its end.

        Raises:
            JmxError: always, when it has ended.
        """
        self._starts += 1
        users = self._loaded.settings.jmx.users
        # The renewed files, if there were any: what is in them now may not fit together.
        settings = machine_settings(self._loaded, None if self._tls is None else self._tls.material)
        machine = JavaMachine(
            settings,
            self._users.authenticate,
            self._may_change,
            users.__contains__,
            list(users).index,
            self._identify,
            self._count_login,
            self._count_refusal,
            count_left_out=self._count_left_out,
        )
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
            logins = Logins(link.report_login, time.monotonic_ns)
            past = PastEventReading(projection, link.past_events, timeout / SECOND)
            operations = Operations(
                *(projection.objects, link.ask, delivery.caught_up, timeout, projection.last_end),
                *(refusals.report, logins.accepted),
                {(projection.bean_number, EVENTS_SINCE.name): past.invoke},
            )
            metrics = self._lifeline.metrics
            metrics.add("delivery", lambda: delivery_readings(projection, delivery))
            metrics.add_slow("virtual machine", partial(machine_readings, machine))
            await until_one_ends(
                _end_of(machine),  # first, because its reason explains why the others end
                delivery.run(link.judge),
                delivery.tick(),
                logins.run(),  # before the link, which it needs at its end
                link.run(),
                refusals.run(),
                self._cursor_file.keep(self._cursor),
                self._let_in(machine, delivery, operations),
                *([] if self._tls is None else [self._tls.follow(machine.renew_tls)]),
            )
        raise AssertionError("the feed is followed for ever")

    async def _let_in(self, machine: JavaMachine, delivery: Delivery, operations: Operations) -> NoReturn:
        """Admit clients as soon as they find every object."""
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

    def _count_login(self, accepted: bool) -> None:  # noqa: FBT001  the only argument, named by the function
        self._logins[LoginOutcome.ACCEPTED if accepted else LoginOutcome.REFUSED] += 1

    def _count_refusal(self) -> None:
        self._refused_requests += 1

    def _count_left_out(self) -> None:
        self._lines_left_out += 1

    def _may_change(self, user: str) -> bool:
        rules = self._loaded.settings.role_set.rules_of(f"jmx:{user}")
        return any(rule.write or rule.invoke or rule.refresh for rule in rules if not rule.denies)

    def _projection(self) -> Projection:
        settings = self._loaded.settings.jmx
        history = self._loaded.settings.history.limits
        return Projection(
            ProjectionSettings(
                settings.serve_stale_for,
                version(),
                settings.buckets,
                self._starts,
                history,
                tuple(settings.users),
            ),
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
    """The outcome of a login."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


def agent_readings(
    starts: int, logins: Mapping[LoginOutcome, int], refused_requests: int, buffer: int, lines_left_out: int
) -> Iterator[Reading]:
    """Read the counters that outlive a virtual machine; ``buffer`` is how many notifications one keeps."""
    yield families.JMX_STARTS.at(starts)
    yield families.JMX_BUFFER.at(buffer)
    for outcome in LoginOutcome:
        yield families.JMX_LOGINS.at(logins.get(outcome, 0), outcome.value)
    yield families.JMX_REFUSED_REQUESTS.at(refused_requests)
    yield families.JMX_LINES_LEFT_OUT.at(lines_left_out)


def delivery_readings(projection: Projection, delivery: Delivery) -> Iterator[Reading]:
    """Read the counters of a projection and its delivery."""
    health, counts = projection.health, projection.counts
    yield from feed_readings(projection.status, PROCESS)
    yield families.FRONT_END_OBJECTS.at(counts["Objects"], PROCESS)
    yield families.FRONT_END_STALE.at(counts["StaleObjects"], PROCESS)
    yield families.FRONT_END_WITHHELD.at(counts["WithheldObjects"], PROCESS)
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
"""Name of the file in the state folder."""

_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 10.0
_MAX_OCTETS: Final = 4096
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Place(StrictModel):
    version: Literal[1] = 1
    epoch: _Count = 0
    number: _Count = 0


class EventCursorFile:
    """The file with the place of the last event that clients received.

    Args:
        state: the state folder.
        late_after: as for `EventCursor`.
    """

    def __init__(self, state: Path, late_after: int = 5 * SECOND) -> None:
        self._path = state / FILE
        self._late_after = late_after
        self._kept = (0, 0)
        self._writing = threading.Lock()

    def read(self) -> EventCursor:
        """Return the place where the previous process stopped; an empty place if it cannot be read."""
        try:
            with self._path.open("rb") as file:
                place = _Place.model_validate_json(file.read(_MAX_OCTETS))
        except FileNotFoundError:
            return EventCursor(late_after=self._late_after)
        except (OSError, ValidationError) as error:
            reason = "it is damaged, or of a newer gateway"
            if isinstance(error, OSError):
                reason = reason_of(error, self._path.parent)
            log.warning("jmx-events-not-read", path=str(self._path), reason=reason)
            return EventCursor(late_after=self._late_after)
        self._kept = place.epoch, place.number
        return EventCursor(*self._kept, self._late_after)

    async def keep(self, cursor: EventCursor) -> NoReturn:
        """Write changes, once a second; this ends by cancellation only."""
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
                text = _Place(epoch=epoch, number=number).model_dump_json()
                write_durably(self._path, f"{text}\n", leaves=FOR_STARTS)
            except OSError as error:
                log.warning(
                    "jmx-events-not-kept",
                    path=str(self._path),
                    reason=reason_of(error, self._path.parent),
                )
                return False
            self._kept = place
            return True
