"""Calls between Python and the virtual machine, by Py4J, over the loopback; the module knows no JMX.

Outwards one thread makes one call after the other over one connection. Inwards the virtual machine calls
from threads of its own; each call is passed to the event loop and waits for its answer there. Either side
authenticates with a token that was passed on the virtual machine's standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, Final, TypeAlias, TypeVar, TypeVarTuple, Unpack

import structlog
from py4j import protocol
from py4j.java_gateway import (
    CallbackConnection,
    CallbackServer,
    CallbackServerParameters,
    GatewayConnection,
    GatewayParameters,
    GatewayProperty,
    JavaObject,
    PythonProxyPool,
)
from py4j.protocol import Py4JError

from gateway.jmx.backend import Reply, Status
from gateway.jmx.java_runtime import MachineEndedError

log = structlog.get_logger(__name__)

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

Answer: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Returns the answer to a request of the virtual machine."""

LOOPBACK: Final = "127.0.0.1"
_MAX_CONNECTIONS = 96
"""The maximum number of connections, each for one request at a time: 64 operations, 8 reports of refused
ones, 8 logins, and some more. Strangers have none of them."""

_MAX_STRANGERS = 96
_MAX_LINE_OCTETS = 1 << 20
_MAX_LOGIN_OCTETS = 1024
_LINES_OF_A_LOGIN = 3
_LOGIN_SECONDS = 2.0
"""Seconds from a connection to its token."""

_ACCEPT_PAUSE_SECONDS = 0.1


class Bridge:
    """The calls in both directions. It is made and used on the event loop.

    Args:
        answer: answers requests, on the event loop.
        deadline: seconds that an answer may take.
    """

    def __init__(self, answer: Answer, deadline: float) -> None:
        self.inward_token = secrets.token_urlsafe(32)
        self.outward_token = secrets.token_urlsafe(32)
        self._entry_point = _EntryPoint(answer, deadline, asyncio.get_running_loop())
        self._pool = PythonProxyPool()
        self._pool.put(self._entry_point, protocol.ENTRY_POINT_OBJECT_ID)
        # Py4J would otherwise keep a count of references to Java objects, and report each that Python lets
        # go: there is one object, which lives as long as the bridge.
        self._property = GatewayProperty(auto_field=False, pool=self._pool, enable_memory_management=False)
        self._server: _BoundedCallbackServer | None = None
        self._connection: GatewayConnection | None = None
        self._bridge: JavaObject | None = None
        self._is_closed = False
        # One thread, because a connection of Py4J carries one call at a time, and batches must keep their
        # order.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jmx-calls")

    def listen(self) -> int:
        """Accept calls of the virtual machine from now on; return the port."""
        parameters = CallbackServerParameters(
            address=LOOPBACK,
            port=0,
            daemonize=True,
            daemonize_connections=True,
            auth_token=self.inward_token,
        )
        self._server = _BoundedCallbackServer(self._pool, None, callback_server_parameters=parameters)
        self._server.start()
        self._server.server_socket.listen()  # Py4J does that on its thread, at some time
        port: int = self._server.get_listening_port()
        return port

    async def connect(self, port: int) -> None:
        """Connect to the virtual machine at ``port``.

        Raises:
            MachineEndedError: it does not listen there, or refuses the token.
        """
        await self._work(self._connect, port)

    async def call(self, method: str, *arguments: bytes) -> bytes | None:
        """Call a method of Java's ``Bridge``; returns when it returns.

        Raises:
            MachineEndedError: the virtual machine has ended, or is not connected yet; or it threw, which is
                an error of ours.
        """
        return await self._work(self._call, method, *arguments)

    async def close(self) -> None:
        """Close all connections; the virtual machine should have ended."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()
        if self._server is not None:
            await asyncio.to_thread(self._server.shutdown)
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _work(self, function: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
        if self._is_closed:
            raise MachineEndedError("the connection to the Java virtual machine is closed")
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)

    def _connect(self, port: int) -> None:
        parameters = GatewayParameters(address=LOOPBACK, port=port, auth_token=self.outward_token)
        connection = GatewayConnection(parameters, self._property)
        # Only octets are passed, which need no converters: Py4J would try them for each argument.
        connection.converters = None
        self._connection = connection
        try:
            connection.start()
        except Py4JError as error:
            raise MachineEndedError("the Java virtual machine cannot be reached") from error
        self._bridge = JavaObject(protocol.ENTRY_POINT_OBJECT_ID, connection)
        self._call("connected")

    def _call(self, method: str, *arguments: bytes) -> bytes | None:
        if self._bridge is None:
            raise MachineEndedError("the Java virtual machine is not reached yet")
        try:
            result = getattr(self._bridge, method)(*arguments)
        except Py4JError as error:
            raise MachineEndedError(
                f"the Java virtual machine did not answer: {type(error).__name__}"
            ) from error
        return None if result is None else bytes(result)


class _EntryPoint:
    """The object that the virtual machine calls as its ``Backend``."""

    def __init__(self, answer: Answer, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        self._answer = answer
        self._deadline = deadline
        self._loop = loop

    def call(self, request: bytearray) -> bytes:
        """Answer a request, on a thread of Py4J's; never raises."""
        coroutine = self._in_time(bytes(request))
        try:
            # Without a timeout here: `_in_time` ends the coroutine, so that nothing goes on behind a client
            # that was answered.
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except CancelledError:  # the loop ends
            return _unknown("the gateway ends")
        except Exception:
            # It may never have been started, as when the loop is closed: Python would warn of it.
            coroutine.close()
            log.exception("jmx-request-failed")
            return _unknown("the gateway failed: see its log")

    async def _in_time(self, request: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._deadline):
                return await self._answer(request)
        except TimeoutError:
            return _unknown(f"no answer within {self._deadline:g} s")


def _unknown(reason: str) -> bytes:
    return Reply(Status.OUTCOME_UNKNOWN, f"unknown: {reason}: it may have been carried out").encode()


class _BoundedCallbackServer(CallbackServer):  # type: ignore[misc]  # py4j is not typed
    """Py4J's server of callbacks, with bounds on the number of connections and the length of lines.

    Any process of this machine may connect. What has not shown the token is a stranger, has little time, and
    takes no place from the virtual machine: for a new stranger the oldest one is closed.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  Py4J's own
        super().__init__(*arguments, **named)
        self._counting = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}
        self._known = 0

    def run(self) -> None:
        """Accept connections until the end; Py4J stops at the first that cannot be accepted."""
        while not self.is_shutdown:
            super().run()
            if not self.is_shutdown:
                time.sleep(_ACCEPT_PAUSE_SECONDS)  # as without a free file descriptor

    def _create_connection(
        self, socket_instance: socket.socket, stream: io.BufferedReader
    ) -> CallbackConnection:
        with self._counting:
            self._strangers[socket_instance] = None
            oldest = next(iter(self._strangers)) if len(self._strangers) > _MAX_STRANGERS else None
            if oldest is not None:
                del self._strangers[oldest]
        if oldest is not None:
            _hang_up(oldest)
        lines = _BoundedLines(socket_instance, stream, self._admit)
        return _ClosedOnce(
            *(self.pool, lines, socket_instance, None, self.callback_server_parameters, self),
            left=self._leave,
        )

    def _admit(self, connection: socket.socket) -> None:
        """Count a connection that has shown the token.

        Raises:
            ConnectionAbortedError: there are too many, or it was closed for another stranger.
        """
        with self._counting:
            if connection not in self._strangers or self._known >= _MAX_CONNECTIONS:
                raise ConnectionAbortedError("too many connections")
            del self._strangers[connection]
            self._known += 1

    def _leave(self, connection: socket.socket, lines: _BoundedLines) -> None:
        with self._counting:
            self._strangers.pop(connection, None)
            self._known -= lines.is_admitted


def _hang_up(connection: socket.socket) -> None:
    """End a connection, whose thread finds the end, and ends."""
    with contextlib.suppress(OSError):  # the other side may have gone, or the thread has closed it
        connection.shutdown(socket.SHUT_RDWR)


class _ClosedOnce(CallbackConnection):  # type: ignore[misc]  # py4j is not typed
    """A connection that the server and its own thread may close at the same time."""

    def __init__(self, *arguments: object, left: Callable[[socket.socket, _BoundedLines], None]) -> None:
        super().__init__(*arguments)
        self._closing = threading.Lock()
        self._left = left

    def close(self, reset: bool = False) -> None:  # noqa: FBT001, FBT002  Py4J's signature
        with self._closing:
            # Whichever comes second would otherwise close a socket that is None.
            if self.socket is not None:
                self._left(self.socket, self.input)
                super().close(reset)


class _BoundedLines:
    """The lines of a connection: each of bounded length, the first ones within one deadline for all of them.

    Args:
        connection: a connection that nothing was read from.
        stream: reads from it.
        admit: counts it when it has shown the token.
    """

    def __init__(
        self, connection: socket.socket, stream: io.BufferedReader, admit: Callable[[socket.socket], None]
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._admit = admit
        self._until = time.monotonic() + _LOGIN_SECONDS
        self._received = b""
        self._lines = 0
        self.is_admitted = False

    def readline(self) -> bytes:
        """Return the next line with its end, for Py4J.

        Raises:
            TimeoutError: the token was not shown in time.
            ValueError: a line is too long.
            ConnectionAbortedError: there is no place for it.
        """
        if self._lines < _LINES_OF_A_LOGIN:
            self._lines += 1
            return self._line_of_login()
        if not self.is_admitted:
            # Py4J goes on to read only behind the right token.
            self._admit(self._connection)
            self.is_admitted = True
            self._connection.settimeout(None)
        line, end, rest = self._received.partition(b"\n")
        self._received = rest
        if end:
            return line + end
        line += self._stream.readline(_MAX_LINE_OCTETS)
        if len(line) >= _MAX_LINE_OCTETS:
            raise ValueError(f"a line of more than {_MAX_LINE_OCTETS} octets")
        return line

    def _line_of_login(self) -> bytes:
        while b"\n" not in self._received:
            left = self._until - time.monotonic()
            if left <= 0:
                raise TimeoutError("the token was not shown in time")
            self._connection.settimeout(left)
            octets = self._connection.recv(_MAX_LOGIN_OCTETS)
            self._received += octets
            if not octets:
                return self._received
            if len(self._received) > _MAX_LOGIN_OCTETS and b"\n" not in self._received:
                raise ValueError(f"a line of more than {_MAX_LOGIN_OCTETS} octets before the token")
        line, _, self._received = self._received.partition(b"\n")
        return line + b"\n"

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
