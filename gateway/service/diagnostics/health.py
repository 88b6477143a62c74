"""The health check of the running gateway, as a container needs it: by SNMP, and by JMX's greeting."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from gateway.config.places import reached_at
from gateway.config.secret_places import SecretError
from gateway.durable_files import FOR_STARTS, RESERVE, DiskReserve
from gateway.file_owners import peer
from gateway.local_sockets import ARE_THERE, OBJECTS_SUFFIX, short_name
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.running_addresses import Addresses, JmxAddress, SnmpAddress
from gateway.service.state.snmp_communities import community_at
from gateway.snmp import ber, message
from gateway.snmp.allowed_networks import AllowedNetworks
from gateway.snmp.ber import parse_oid
from gateway.snmp.fixed_mib import HEALTH, LOG, Health, LogScalar, LogStateNumber
from gateway.snmp.message import STATUS_NAMES, Request
from gateway.state_folder import StateError, StateFolder

if TYPE_CHECKING:  # Its import takes longer than most checks.
    from gateway.config.files import LoadedConfiguration

Whole: TypeAlias = "Callable[[], LoadedConfiguration]"
"""What reads the whole configuration, for the checks that need more of it than the addresses."""

_LARGEST_ANSWER: Final = 65_535
_TRY_SECONDS = 1.25
_GREETING_SECONDS = 2.5
"""Seconds for the greeting of JMX, from the connection on; SNMP and JMX are asked at the same time."""

_CORE_SECONDS: Final = 2.5
_OBJECTS_SECONDS: Final = 4.0
"""Seconds for the answer of the process with the metrics of objects, which may be making a page just then."""
_TRIES = 2
_REQUEST_IDS = 2**31
_LOG_SCALARS = (LogScalar.STATE, LogScalar.DETAIL, LogScalar.WAITING, LogScalar.LOST)
_TRUE = 1
CORE: Final = "the core"
OBJECTS: Final = "the process 'objects', which has the metrics of objects,"
NOT_KNOWN: Final = (
    "only the gateway's own user can ask this gateway, which has neither SNMP nor JMX: run this as that user"
)
NO_CORE: Final = f"{CORE} is not running: see its log"
JUST_STARTED: Final = "the SNMP agent has just started, and has not received what the core knows: ask again"
_WAITING = "new objects wait, not shown"


async def ask(addresses: Addresses, whole: Whole, report: Callable[[str], None]) -> None:
    """Report on SNMP, JMX and the metrics of objects, as far as they are enabled, within 4 s.

    Without SNMP, which says whether there is a core, the core itself is asked. What stands still is said.

    Raises:
        CommandError: as `ask_health`, `ask_jmx_health` and `_ask_process`, with the exit code of the first.
    """
    of_snmp, of_jmx = list[str](), list[str]()
    running: list[Coroutine[Any, Any, bool | None]] = []
    if addresses.snmp is not None:
        running.append(ask_health(addresses, addresses.snmp, whole, of_snmp.append))
    if addresses.jmx is not None:
        running.append(ask_jmx_health(addresses.jmx, of_jmx.append))
    if addresses.snmp is None:
        running.append(asyncio.to_thread(_ask_process, CORE, addresses.feed_socket, _CORE_SECONDS))
    if addresses.has_objects:
        path = addresses.feed_socket.with_suffix(OBJECTS_SUFFIX)
        running.append(asyncio.to_thread(_ask_process, OBJECTS, path, _OBJECTS_SECONDS, ARE_THERE))
    outcomes = await asyncio.gather(*running, return_exceptions=True)
    for line in (*of_snmp, *of_jmx):
        report(line)
    if state := state_line(addresses.state_folder):
        report(state)
    _raise(outcomes)
    if addresses.snmp is None and addresses.jmx is None and True not in outcomes:
        raise CommandError(ExitCode.UNREACHABLE, NOT_KNOWN)


def _raise(outcomes: Sequence[BaseException | bool | None]) -> None:
    """Raise what checks have found as one error, with the exit code of the first."""
    failures = list[CommandError]()
    for outcome in outcomes:
        if isinstance(outcome, CommandError):
            failures.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
    if failures:
        raise CommandError(failures[0].code, "\n".join(map(str, failures))) from failures[0]


async def ask_health(
    addresses: Addresses, snmp: SnmpAddress, whole: Whole, report: Callable[[str], None]
) -> None:
    """Print one line on core, sources and rows, and one on the event log.

    Trouble with the log is no failure: to restart a gateway because of it would not help.

    Raises:
        CommandError: nothing answers, the core is not there, or a source is not synchronised.
    """
    scalars = (
        Health.FEED_CONNECTED,
        Health.FEED_SNAPSHOTS,
        Health.SOURCES,
        Health.SOURCES_SYNCHRONISED,
        Health.ROWS,
        Health.ROWS_STALE,
    )
    names = [(*HEALTH, scalar) for scalar in scalars] + [(*LOG, scalar) for scalar in _LOG_SCALARS]
    root = parse_oid(snmp.root)
    instances = [ber.encode_name((*root, *name, 0)) for name in names]
    values = await _read(snmp, _question(addresses, snmp, whole, instances))
    if ber.NO_SUCH_OBJECT in values[: len(scalars)]:
        text = "the view of the community that reads (snmp.view) lacks agHealth: include root.1.1.1"
        raise CommandError(ExitCode.CONFIGURATION, text)
    connected, snapshots, sources, synchronised, rows, stale = map(_number, values[: len(scalars)])
    report(f"{synchronised} of {sources} sources synchronised, {rows} rows, {stale} of them stale")
    report(_log_line(*values[len(scalars) :]))
    if connected != _TRUE:
        raise CommandError(ExitCode.UNREACHABLE, NO_CORE)
    if not snapshots:  # it knows no sources yet, and all of none are synchronised
        raise CommandError(ExitCode.UNREACHABLE, JUST_STARTED)
    if synchronised < sources:
        raise CommandError(
            ExitCode.UNREACHABLE, "not every source is synchronised: walk agSourceTable for the reasons"
        )


def _ask_process(name: str, path: Path, seconds: float, question: bytes = b"") -> bool:
    """Check that a process sends a first byte to a new connection; return whether that is known.

    Without the process the supervisor, which has the socket, closes what connects. It is not known whether
    there is one where this user may not connect, or is refused as another user.

    Args:
        name: of the process.
        path: of its socket.
        seconds: to wait for the byte.
        question: what it is asked; the core sends unasked.

    Raises:
        CommandError: it is not there, or stands still.
    """
    is_missing = f"{name} is not running: see its log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(seconds)
        try:
            with short_name(path) as reached:
                probe.connect(reached)
            if peer(probe) != os.getuid():
                return False
            probe.sendall(question)
            is_closed = not probe.recv(1)
        except (ConnectionError, FileNotFoundError) as error:
            raise CommandError(ExitCode.UNREACHABLE, is_missing) from error
        except (TimeoutError, BlockingIOError) as error:  # the latter where too many wait to be accepted
            text = f"{name} has said nothing for {seconds:g} s: it stands still; see its log"
            raise CommandError(ExitCode.UNREACHABLE, text) from error
        except OSError:
            return False
    if is_closed:
        raise CommandError(ExitCode.UNREACHABLE, is_missing)
    return True


def state_line(folder: Path) -> str:
    """Return a line on the disk of the state folder if it takes no more; it is no failure, as for the log."""
    try:
        os.close(os.open(folder / "boots", os.O_WRONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EROFS:
            return f"state folder: cannot be written: {error.strerror}: {_WAITING}"
    reserve = DiskReserve(folder / RESERVE, leaves=FOR_STARTS)
    if not reserve.is_in_use:
        return ""
    left = f"{reserve.left >> 10:,} KiB of its reserve are left"
    return f"state folder: its disk is full, {left if reserve.left else _WAITING}: make room"


def _log_line(state: bytes, detail: bytes, waiting: bytes, lost: bytes) -> str:
    if ber.NO_SUCH_OBJECT in (state, detail, waiting, lost):
        return "event log: not in the view of the community that reads (snmp.view)"
    word = LogStateNumber(_number(state)).name.lower().replace("_", "-")
    if detail in (ber.NO_SUCH_INSTANCE, ber.NO_SUCH_OBJECT):
        return f"event log: {word}"
    line = f"event log: {word}, {_number(waiting)} records waiting, {_number(lost)} lost"
    text = ber.read_octets(detail, 0, len(detail))[0].decode("utf-8", "replace")
    return f"{line}: {text}" if text else line


def _number(value: bytes) -> int:
    """Return the number of a value TLV, of whatever type; 0 where there is no instance."""
    _, start, stop = ber.read_header(value, 0, len(value))
    return int.from_bytes(value[start:stop], "big")


class _ByCommunity:
    """A GET in version 2c of encoded names."""

    def __init__(self, community: str, names: Sequence[bytes]) -> None:
        self._request_id = secrets.randbelow(_REQUEST_IDS)
        self._request = message.encode_get(community.encode(), self._request_id, [*names])

    def request(self) -> bytes:
        """Return the datagram to send."""
        return self._request

    def receive(self, datagram: bytes) -> Request | None:
        """Return the response. Raises `BerError` or `UnknownVersionError` for what is none to this GET."""
        answer = message.read_response(datagram)
        if answer.request_id != self._request_id:
            raise ber.BerError("the response to the request", f"{answer.request_id}")
        return answer


class _Question(Protocol):
    """A GET, and how its answer is read."""

    def request(self) -> bytes:
        """Return the datagram to send."""

    def receive(self, datagram: bytes) -> Request | None:
        """Return the response; ``None`` where the request has to be sent again. Raises `BerError`."""


def _question(addresses: Addresses, snmp: SnmpAddress, whole: Whole, names: Sequence[bytes]) -> _Question:
    """Return a GET by the community that reads, or by the first user who can log in.

    Raises:
        CommandError: the configuration permits neither, or community or state folder cannot be read.
    """
    if "v2c" in snmp.versions:
        return _ByCommunity(_community(addresses, snmp), names)
    # The module loads the cryptographic library, which most checks of a container do not need.
    late = importlib.import_module("gateway.service.diagnostics.health_by_user")
    question: _Question | None = late.question_by_user(whole(), names)
    if question is None:
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{addresses.path}: snmp has neither version v2c nor a user of version v3 with keys: run "
            "`amqp-gateway snmp user add NAME`",
        )
    return question


def _community(addresses: Addresses, snmp: SnmpAddress) -> str:
    """Return the community that reads. Raises ``CommandError`` as `_question`."""
    try:
        return community_at(snmp.community, StateFolder(addresses.state_folder))
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


async def _read(snmp: SnmpAddress, question: _Question) -> list[bytes]:
    """Return the answer to a GET as value TLVs."""
    host, port = snmp.listen
    try:
        answer = await _answer((reached_at(host), port), question)
        reason = STATUS_NAMES.get(answer.first, "an error") if answer.first else ""
    except TimeoutError:
        reason = f"no answer within {_TRIES * _TRY_SECONDS:g} s"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        text = f"SNMP {host}:{port}: {reason}: is `amqp-gateway run` running?"
        allowed = snmp.allowed_networks
        if allowed is not None and reached_at(host) not in AllowedNetworks(map(ip_network, allowed)):
            text += f" It does not answer {reached_at(host)}, which snmp.allowed_networks lacks"
        raise CommandError(ExitCode.UNREACHABLE, text)
    return answer.values


async def _answer(address: tuple[str, int], question: _Question) -> Request:
    """Send a request, repeat it without a response, and return the response.

    Raises:
        TimeoutError: there is no response.
        OSError: the system cannot send it, or nothing listens at the address.
    """
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        await loop.sock_connect(asking, address)
        for _ in range(_TRIES):
            await loop.sock_sendall(asking, question.request())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TRY_SECONDS):
                    return await _received(loop, asking, question)
    raise TimeoutError


async def _received(loop: asyncio.AbstractEventLoop, asking: socket.socket, question: _Question) -> Request:
    while True:
        datagram = await loop.sock_recv(asking, _LARGEST_ANSWER)
        with contextlib.suppress(ber.BerError, message.UnknownVersionError):
            answer = question.receive(datagram)
            if answer is not None:
                return answer
            await loop.sock_sendall(asking, question.request())


_GREETING = b"JRMI\x00\x02\x4b"
_ACKNOWLEDGED = b"\x4e"


async def ask_jmx_health(jmx: JmxAddress, report: Callable[[str], None]) -> None:
    """Report one line on the JMX agent.

    Raises:
        CommandError: nothing answers, or something else does.
    """
    host, port = jmx.listen
    where = f"JMX {host}:{port}"
    try:
        answers = await greets(jmx)
    except OSError as error:
        reason = error.strerror or str(error) or f"no answer within {_GREETING_SECONDS:g} s"
        raise CommandError(
            ExitCode.UNREACHABLE, f"{where}: {reason}: is `amqp-gateway run` running?"
        ) from error
    if not answers:
        raise CommandError(
            ExitCode.UNREACHABLE,
            f"{where}: there is no greeting of a JMX agent within {_GREETING_SECONDS:g} s: the gateway's "
            "stands still, or another program listens there; see the log of the gateway",
        )
    report(f"{where} takes connections")


async def greets(jmx: JmxAddress) -> bool:
    """Return whether the listener is an RMI server (Java RMI specification, section 10.2: the protocol).

    With TLS its certificate is not verified: it receives no secret. A listener that
    requires certificates of clients is asked only for TLS.

    Raises:
        OSError: nothing listens there.
    """
    host, port = jmx.listen
    async with asyncio.timeout(_GREETING_SECONDS) as deadline:
        reader, writer = await asyncio.open_connection(reached_at(host), port)
    try:
        async with asyncio.timeout_at(deadline.when()):
            if jmx.has_tls:
                await writer.start_tls(_unverified())
                if jmx.asks_certificates:
                    return True
            writer.write(_GREETING)
            await writer.drain()
            return await reader.read(1) == _ACKNOWLEDGED
    except (ConnectionError, TimeoutError, ssl.SSLError):
        return False
    finally:
        # Without the end of TLS, for which a process that stands still would be waited for.
        writer.transport.abort()


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
