"""The virtual machine as a child process.

It does not outlive this process: it ends with its standard input. The caller may then start another.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
import structlog

from gateway.jmx.backend import (
    Authenticate,
    Backend,
    CountLogin,
    CountRefusal,
    Identify,
    IsUser,
    MayChange,
    NumberOf,
    Operator,
)
from gateway.jmx.bridge import Bridge
from gateway.jmx.java_runtime import (
    JavaMissingError,
    JmxError,
    ListenError,
    MachineEndedError,
    class_path,
    find_java,
    java_command,
    java_environment,
)
from gateway.jmx.names import DOMAIN
from gateway.jmx.tls import TlsError, TlsMaterial
from gateway.jmx.users import Holder
from gateway.rate_limiter import RateLimiter
from gateway.temporary_folders import TemporaryFolder

log = structlog.get_logger(__name__)

MAX_BATCH_OCTETS: Final = 4 << 20
"""The maximum of one push; its text and its values take several times as much of the heap for a moment."""

_START_SECONDS = 60.0
_CALL_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_GRACE_SECONDS = 5.0
_LISTEN_SECONDS = 5.0
_NOTIFICATIONS_A_MEBIBYTE = 200  # some 650 octets each, which is that of an object with a long name

# The status with which -XX:+ExitOnOutOfMemoryError ends it.
_OUT_OF_MEMORY_STATUS = 3
_TAIL_LINES = 20
_MAX_LINE = 500
_LINE_LIMIT = 1 << 16
_CANNOT_USE_TLS = "cannot use the files of jmx.tls"
_NEWER_JAVA = "a newer Java may: name it under jmx.java"


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """The settings of the virtual machine.

    Attributes:
        address: the numeric address on which JMX listens.
        port: the port of both registry and objects; 0 for any.
        hostname: the host to which clients connect; default: the address, or this machine's name where
            the address is unspecified.
        advertised_port: the port to which clients connect, where it is not ``port``; 0 where it is.
        java: the runtime's folder; default: ``$JAVA_HOME``, else ``java`` on the path.
        heap: the largest heap, in MiB.
        notification_buffer: the number of notifications that are kept for clients that fetch them late; at
            most as many as `kept_notifications` says.
        listen_for: seconds for which a taken port is tried again: a predecessor may be ending.
        operation_deadline: seconds in which the operator answers.
        silence: seconds without a batch after which everything is stale, because this process hangs.
        tls: key and certificates; ``None`` for plain text.
        folder: takes its temporary files where the system has no folder for them; ``None`` for none.
    """

    address: str
    port: int
    hostname: str = ""
    advertised_port: int = 0
    java: Path | None = None
    heap: int = 512
    notification_buffer: int = 100_000
    listen_for: float = _LISTEN_SECONDS
    operation_deadline: float = 10.0
    silence: float = 5.0
    tls: TlsMaterial | None = None
    folder: Path | None = None


def kept_notifications(buffer: int, heap: int) -> int:
    """Return how many notifications are kept for clients that fetch them late.

    Without what they report, which the virtual machine bounds by its length, these take an eighth of the heap
    at most, with the names of objects that are gone.

    Args:
        buffer: the number that is configured.
        heap: the largest heap, in MiB.
    """
    return min(buffer, heap * _NOTIFICATIONS_A_MEBIBYTE)


@dataclass(frozen=True, slots=True)
class PushResult:
    """The result of a batch.

    Attributes:
        errors: the number of commands, or single values, that could not be carried out; all others were.
        texts: the errors of the first ones.
    """

    errors: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MachineUsage:
    """The usage and limits of a virtual machine; counts are since its start.

    Attributes:
        clients: the clients that are logged in, of at most ``max_clients``.
        operations: the operations that clients wait for, of at most ``max_operations``.
        heap: octets in use, of at most ``max_heap``.
        collection_milliseconds: the time that garbage collection took.
    """

    clients: int
    max_clients: int
    operations: int
    max_operations: int
    heap: int
    max_heap: int
    collection_milliseconds: int
    collections: int
    threads: int


class JavaMachine:
    """One run of a virtual machine: ``async with JavaMachine(settings, authenticate) as machine``.

    It listens when it is entered, so that no other process takes the port, and accepts clients after `open`.
    Push all objects before that, and no client finds one missing.

    Args:
        settings: the settings of the virtual machine.
        authenticate: returns, on the event loop, whether a user may log in.
        may_change: returns whether a user may change anything.
        is_user: returns whether there is a user of a name.
        number_of: returns the number of a user, by which the commands say what the user sees.
        identify: returns whose certificate it is, where clients have certificates.
        count_login: counts logins.
        count_refusal: counts refused requests.
        count_left_out: counts lines of its own output that are left out of the log, because there are many.
    """

    def __init__(  # noqa: PLR0913  what it asks, and what it counts
        self,
        settings: MachineSettings,
        authenticate: Authenticate,
        may_change: MayChange = lambda _user: True,
        is_user: IsUser = lambda _user: True,
        number_of: NumberOf = lambda _user: 0,
        identify: Identify = lambda _certificate: Holder(""),
        count_login: CountLogin = lambda _accepted: None,
        count_refusal: CountRefusal = lambda: None,
        *,
        count_left_out: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._count_left_out = count_left_out
        self._backend = Backend(
            *(authenticate, _ANSWER_SECONDS, may_change, is_user, number_of, identify, count_login),
            count_refusal,
        )
        self._bridge: Bridge | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._temporary: TemporaryFolder | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._limit = RateLimiter(lines=50, seconds=10)
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._port = 0

    @property
    def port(self) -> int:
        """The port to which JMX clients connect."""
        return self._port

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._running().pid

    @property
    def ended_by_signal(self) -> bool:
        """Whether a signal ended it, which is no evidence that it cannot work."""
        return self._process is not None and (self._process.returncode or 0) < 0

    async def __aenter__(self) -> Self:
        """Start the virtual machine.

        Raises:
            JavaMissingError: no Java, one that is too old, or no compiler in a source checkout.
            ListenError: its address is taken or not permitted.
            TlsError: Java cannot use the key or a certificate.
            MachineEndedError: it was ended while it started.
            JmxError: it does not start for another reason.
        """
        try:
            await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the virtual machine."""
        await self._end()

    def push(self, batch: bytes) -> Awaitable[PushResult]:
        """Send a batch (`commands.encode_batch`), and return its result; with that, clients see the batch.

        Batches are carried out in the order of the calls, each as soon as it has arrived: a call need not
        wait for the result of the one before it. A virtual machine that does not answer in time is killed.

        Raises:
            MachineEndedError: it has ended; how much of the batch was carried out does not matter any more.
            ValueError: the batch is larger than `MAX_BATCH_OCTETS`.
        """
        if len(batch) > MAX_BATCH_OCTETS:
            raise ValueError(f"a batch of {len(batch)} octets; there may be {MAX_BATCH_OCTETS}")
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(_framed(batch))
        # A batch and its call belong together, also if the caller is cancelled in between.
        return asyncio.shield(self._result())

    async def _result(self) -> PushResult:
        errors, texts = msgspec.msgpack.decode(await self._call("push"))
        return PushResult(errors, tuple(texts))

    async def usage(self) -> MachineUsage:
        """Return the present usage; waits for calls under way.

        Raises:
            MachineEndedError: it has ended.
        """
        if self._bridge is None:
            raise MachineEndedError("the Java virtual machine does not run")
        return MachineUsage(*msgspec.msgpack.decode(await self._bridge.call("usage") or b""))

    async def open(self, operator: Operator | None = None) -> None:
        """Accept clients; a further call does nothing.

        Args:
            operator: carries out their operations; without one nothing can be changed.

        Raises:
            MachineEndedError: it has ended.
        """
        self._backend.operator = operator
        await self._call("open")

    async def renew_tls(self, tls: TlsMaterial) -> None:
        """Use another key and other certificates for new connections; those that are open stay as they are.

        Raises:
            TlsError: Java cannot use them; the former ones are used.
            MachineEndedError: it has ended.
        """
        refusal = await self._call("renewTls", msgspec.msgpack.encode(_tls_fields(tls)))
        if refusal:
            raise TlsError(f"Java {_CANNOT_USE_TLS}: {refusal.decode(errors='replace')}; {_NEWER_JAVA}")

    async def ended(self) -> str:
        """Wait until the process has ended, for whatever reason; return the reason in a few words."""
        status = await self._running().wait()
        # What it wrote last is in its pipes still, and says why it ended.
        await asyncio.gather(*self._readers)
        return _reason(status)

    def kill(self) -> None:
        """End the process at once, if it has not ended already."""
        process = self._running()
        # Process.kill would ask for the status of one that has just ended, and lose it: its waiter would get
        # 255. A process that was not waited for keeps its number.
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    async def _call(self, method: str, *arguments: bytes) -> bytes:
        if self._bridge is None:
            raise MachineEndedError("the Java virtual machine does not run")
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                return await self._bridge.call(method, *arguments) or b""
        except TimeoutError:
            self.kill()
            raise MachineEndedError(
                f"the Java virtual machine did not return within {_CALL_SECONDS:g} s and was killed"
            ) from None
        except MachineEndedError:
            self.kill()
            raise

    async def _start(self) -> None:
        settings = self._settings
        java = find_java(settings.java)
        jars = await asyncio.to_thread(class_path)
        try:
            self._temporary = TemporaryFolder("amqp-gateway-jmx", settings.folder)
        except OSError as error:
            raise JmxError(f"Java has no folder for temporary files: {error}") from error
        folder = self._temporary.path
        # A request that outlasts its own deadline is stuck, and is not waited for any longer.
        patience = max(_ANSWER_SECONDS, settings.operation_deadline) + _GRACE_SECONDS
        self._bridge = Bridge(self._backend.answer, patience)
        handed_over = self._handed_over(self._bridge, patience + _GRACE_SECONDS)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *java_command(java, jars, settings.heap, folder),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env=java_environment(),
                limit=_LINE_LIMIT,
                start_new_session=True,  # a terminal's Ctrl-C is for us: we end it then
            )
        except OSError as error:
            raise JavaMissingError(f"{java} cannot be run: {error.strerror}") from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        # Before anything is awaited: a full pipe would stop the virtual machine.
        self._readers.append(asyncio.create_task(self._log_lines(self._process.stderr)))
        try:
            async with asyncio.timeout(_START_SECONDS + settings.listen_for):
                answer = await self._first_answer(self._process, handed_over)
        except TimeoutError:
            raise JmxError(f"{java} did not start within {_START_SECONDS:g} s") from None
        self._readers.append(asyncio.create_task(self._log_lines(self._process.stdout)))
        match answer.rstrip().split(maxsplit=2):
            case ["listening", bridge_port, port]:
                await self._bridge.connect(int(bridge_port))
                self._port = int(port)
            case ["cannot-listen", *reason]:
                raise ListenError(
                    f"JMX cannot listen on {settings.address} port {settings.port}: {' '.join(reason)}; "
                    f"end what has it, or choose another address under jmx.listen"
                )
            case ["cannot-use-tls", *reason]:
                raise TlsError(f"{java} {_CANNOT_USE_TLS}: {' '.join(reason)}; {_NEWER_JAVA}")
            case _:
                raise await self._failed_start(java)

    def _handed_over(self, bridge: Bridge, patience: float) -> bytes:
        """Return the settings and tokens that the virtual machine reads first."""
        settings = self._settings
        tls = settings.tls
        fields = (
            bridge.listen(),
            bridge.inward_token,
            bridge.outward_token,
            settings.address,
            settings.port,
            settings.hostname or _hostname(settings.address),
            settings.advertised_port,
            int(settings.listen_for * 1000),
            int(patience * 1000),
            int(settings.silence * 1000),
            kept_notifications(settings.notification_buffer, settings.heap),
            DOMAIN,
            None if tls is None else _tls_fields(tls),
        )
        # On standard input: a command line and an environment can be read by other processes.
        return _framed(msgspec.msgpack.encode(fields))

    async def _first_answer(self, process: asyncio.subprocess.Process, handed_over: bytes) -> str:
        """Return the line that reports whether it listens; empty if it ended without one."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(handed_over)
        with contextlib.suppress(ConnectionError):  # it has ended: so has its output
            await process.stdin.drain()
        while line := await _line(process.stdout):
            if line.startswith(("listening ", "cannot-listen ", "cannot-use-tls ")):
                return line
            self._log(line)
        return ""

    async def _failed_start(self, java: Path) -> JmxError:
        reason = await self.ended()
        tail = "\n".join(self._tail)
        if "UnsupportedClassVersionError" in tail:
            return JavaMissingError(
                f"{java} is older than Java 11: install a newer one (on Debian: apt-get install "
                f"default-jre-headless), or name the folder of a newer one under jmx.java"
            )
        failed = MachineEndedError if self.ended_by_signal else JmxError
        return failed(f"{java} does not start: {reason}\n{tail}".rstrip())

    async def _end(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self.kill()  # it has nothing to save, and takes 0.3 s when it is asked
            await self.ended()
            self._process.stdin.close()
        if self._bridge is not None:
            await self._bridge.close()
        if self._temporary is not None:
            self._temporary.remove()

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise MachineEndedError("the Java virtual machine was not started")
        return self._process

    async def _log_lines(self, stream: asyncio.StreamReader) -> None:
        while line := await _line(stream):
            self._log(line)

    def _log(self, line: str) -> None:
        text = line.rstrip()[:_MAX_LINE]
        # Before the limit: a start that fails is explained by the last lines, also by those that are not
        # logged.
        self._tail.append(text)
        left_out = self._limit.admit()
        if left_out is None:
            self._count_left_out()
        else:
            log.warning("java", line=text, left_out=left_out)


def _tls_fields(tls: TlsMaterial) -> tuple[object, ...]:
    """Return what Java's ``TlsSettings`` reads."""
    return tls.algorithm, tls.key, tls.chain, tls.authorities


def _framed(octets: bytes) -> bytes:
    """Return octets for the standard input of the virtual machine, behind their length."""
    return struct.pack(">i", len(octets)) + octets


async def _line(stream: asyncio.StreamReader) -> str:
    """Return the next line with its end; one that is too long in parts; empty at the end."""
    try:
        octets = await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        octets = error.partial
    except asyncio.LimitOverrunError as error:
        # A line without an end must not fill the memory.
        octets = await stream.read(error.consumed)
    return octets.decode(errors="replace")


def _hostname(address: str) -> str:
    """Return the host to which clients connect where none is configured."""
    return socket.gethostname() if ipaddress.ip_address(address).is_unspecified else address


def _reason(status: int) -> str:
    if status == _OUT_OF_MEMORY_STATUS:
        return "the Java virtual machine ran out of memory: give it more under jmx.heap"
    if status < 0:
        return f"the Java virtual machine was ended by {signal.Signals(-status).name}"
    return f"the Java virtual machine ended with status {status}"
