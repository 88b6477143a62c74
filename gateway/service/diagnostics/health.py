"""The health check of the running gateway, as a container needs it: by SNMP, and by JMX's greeting."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import secrets
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.clock import SystemClock
from gateway.config.files import LoadedConfiguration
from gateway.config.model import JmxSettings
from gateway.config.types import reached_at
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.snmp import read_community
from gateway.service.processes.snmp_users import running_security
from gateway.snmp import ber, message
from gateway.snmp.allowed_networks import AllowedNetworks
from gateway.snmp.ber import parse_oid
from gateway.snmp.fixed_mib import HEALTH, LOG, Health, LogScalar, LogStateNumber
from gateway.snmp.message import Request
from gateway.snmp.requests import LARGEST_DATAGRAM
from gateway.snmp.written_values import STATUS_NAMES
from gateway.state_folder import StateFolder

TIMEOUT_SECONDS = 2.0
_TRIES = 2
_REQUEST_IDS = 2**31
_LOG_SCALARS = (LogScalar.STATE, LogScalar.DETAIL, LogScalar.WAITING, LogScalar.LOST)
_TRUE = 1


async def ask_health(loaded: LoadedConfiguration, report: Callable[[str], None]) -> None:
    """Print one line on core, sources and rows, and one on the event log.

    Trouble with the log is no failure: to restart a gateway because of it would not help.

    Raises:
        CommandError: nothing answers, the core is not there, or a source is not synchronised.
    """
    scalars = (
        Health.FEED_CONNECTED,
        Health.SOURCES,
        Health.SOURCES_SYNCHRONISED,
        Health.ROWS,
        Health.ROWS_STALE,
    )
    names = [(*HEALTH, scalar) for scalar in scalars] + [(*LOG, scalar) for scalar in _LOG_SCALARS]
    root = parse_oid(loaded.settings.snmp.root)
    instances = [ber.encode_name((*root, *name, 0)) for name in names]
    with command_errors():
        question = _question(loaded, instances)
    values = await _read(loaded, question)
    if ber.NO_SUCH_OBJECT in values[: len(scalars)]:
        text = "the view of the community that reads (snmp.view) lacks agHealth: include root.1.1.1"
        raise CommandError(ExitCode.CONFIGURATION, text)
    connected, sources, synchronised, rows, stale = map(_number, values[: len(scalars)])
    report(f"{synchronised} of {sources} sources synchronised, {rows} rows, {stale} of them stale")
    report(_log_line(*values[len(scalars) :]))
    if connected != _TRUE:
        raise CommandError(ExitCode.UNREACHABLE, "the core is not running: see its log")
    if synchronised < sources:
        raise CommandError(
            ExitCode.UNREACHABLE, "not every source is synchronised: walk agSourceTable for the reasons"
        )


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


def _question(loaded: LoadedConfiguration, names: Sequence[bytes]) -> _Question:
    """Return a GET by the community that reads, or by the first user who can log in.

    Raises:
        CommandError: the configuration permits neither.
        SecretError: the community cannot be read.
        StateError: the state folder cannot be read.
    """
    settings, state = loaded.settings.snmp, StateFolder(loaded.state_folder)
    if "v2c" in settings.versions:
        return _ByCommunity(read_community(loaded, state), names)
    security = running_security(loaded, state, SystemClock())
    if "v3" not in settings.versions or not security.users:
        raise CommandError(
            ExitCode.CONFIGURATION,
            f"{loaded.path}: snmp has neither version v2c nor a user of version v3 with keys: run "
            "`amqp-gateway snmp user add NAME`",
        )
    # The module loads the cryptographic library, which most checks of a container do not need.
    late = importlib.import_module("gateway.service.diagnostics.health_by_user")
    question: _Question = late.QuestionByUser(security.remote(next(iter(security.users))), names)
    return question


async def _read(loaded: LoadedConfiguration, question: _Question) -> list[bytes]:
    """Return the answer to a GET as value TLVs."""
    host, port = loaded.settings.snmp.listen[0]
    try:
        answer = await _answer((reached_at(host), port), question)
        reason = STATUS_NAMES.get(answer.first, "an error") if answer.first else ""
    except TimeoutError:
        reason = f"no answer within {_TRIES * TIMEOUT_SECONDS:g} s"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        text = f"SNMP {host}:{port}: {reason}: is `amqp-gateway run` running?"
        networks = loaded.settings.snmp.allowed_networks
        if networks is not None and reached_at(host) not in AllowedNetworks(networks):
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
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    return await _received(loop, asking, question)
    raise TimeoutError


async def _received(loop: asyncio.AbstractEventLoop, asking: socket.socket, question: _Question) -> Request:
    while True:
        datagram = await loop.sock_recv(asking, LARGEST_DATAGRAM)
        with contextlib.suppress(ber.BerError, message.UnknownVersionError):
            answer = question.receive(datagram)
            if answer is not None:
                return answer
            await loop.sock_sendall(asking, question.request())


_GREETING = b"JRMI\x00\x02\x4b"
_ACKNOWLEDGED = b"\x4e"


async def ask_jmx_health(loaded: LoadedConfiguration, report: Callable[[str], None]) -> None:
    """Report one line on the JMX agent.

    Raises:
        CommandError: nothing answers, or something else does.
    """
    host, port = loaded.settings.jmx.listen
    where = f"JMX {host}:{port}"
    try:
        answers = await greets(loaded.settings.jmx)
    except OSError as error:
        raise CommandError(
            ExitCode.UNREACHABLE, f"{where}: {error.strerror or error}: is `amqp-gateway run` running?"
        ) from error
    if not answers:
        raise CommandError(
            ExitCode.UNREACHABLE, f"{where}: what listens there is no JMX agent: see the log of the gateway"
        )
    report(f"{where} takes connections")


async def greets(settings: JmxSettings) -> bool:
    """Return whether the listener is an RMI server (Java RMI specification, section 10.2: the protocol).

    With TLS its certificate is not verified: it receives no secret. A listener that
    requires certificates of clients is asked only for TLS.

    Raises:
        OSError: nothing listens there.
    """
    host, port = settings.listen
    async with asyncio.timeout(TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_connection(reached_at(host), port)
    try:
        if settings.tls is not None:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await writer.start_tls(_unverified())
            if settings.tls.client_ca is not None:
                return True
        async with asyncio.timeout(TIMEOUT_SECONDS):
            writer.write(_GREETING)
            await writer.drain()
            return await reader.read(1) == _ACKNOWLEDGED
    except (ConnectionError, TimeoutError, ssl.SSLError):
        return False
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
