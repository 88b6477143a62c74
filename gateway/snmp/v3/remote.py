"""The conversation with an engine elsewhere that is authoritative, as the receiver of informs is.

Its identifier is found out by a request without a user (RFC 3414 section 4). Its boots and time are taken
from authenticated messages only: a host that forges the answer to the discovery could name a time in the far
future, after which no true message would be in the time window. The first authenticated request therefore has
boots and time 0, and the report that answers it brings the right ones.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from gateway.snmp import ber, message
from gateway.snmp.ber import BerError
from gateway.snmp.message import Request
from gateway.snmp.standard_groups import REPORTED
from gateway.snmp.v3 import messages
from gateway.snmp.v3.ciphers import DecryptionError, Salts
from gateway.snmp.v3.engine import MAX_COUNT, TIME_WINDOW, check_engine_id
from gateway.snmp.v3.keyed_users import KeyedUser
from gateway.snmp.v3.messages import Header, ScopedPdu, SecurityParameters
from gateway.snmp.v3.security import FLAGS, LEVELS, SecurityModel, decrypted, is_authentic, sealed
from gateway.snmp.v3.users import SecurityLevel, User

_SECOND: Final = 10**9
_REPORTS: Final = {ber.encode_name(instance): name for name, instance in REPORTED.items()}


class NotAcceptedError(Exception):
    """A datagram is not what the remote engine would answer; the text says why. It is to be ignored."""


class Discovered(NamedTuple):
    """The engine's identifier is known now, or another one than before: send the request again."""

    message_id: int


class Synchronised(NamedTuple):
    """The engine's boots and time are known now: send the request again."""

    message_id: int


class Reported(NamedTuple):
    """The engine did not process a request: ``counter`` is the reason, a name in `SnmpCounters` or empty."""

    message_id: int
    counter: str


class Answered(NamedTuple):
    """The response to a request; ``first`` and ``second`` of it are error-status and error-index."""

    message_id: int
    response: Request


Received: TypeAlias = Discovered | Synchronised | Reported | Answered
"""What a datagram from the remote engine was."""


class UserAt(Protocol):
    """A user whose keys for an engine can be made, as `gateway.snmp.v3.users.Credentials`, or are kept."""

    def at(self, engine_id: bytes, minimum: SecurityLevel | None = None) -> User:
        """Return the user with keys for an engine."""


class _RemoteClock(msgspec.Struct):
    """Boots and time of the remote engine, as last authenticated (RFC 3414 section 2.3)."""

    boots: int = 0
    time: int = 0
    at: int = 0

    def now(self, now: int) -> tuple[int, int]:
        """Return boots and time; a time beyond the maximum is the maximum, until the engine corrects it."""
        if not self.boots and not self.time:
            return 0, 0
        return self.boots, min(self.time + (now - self.at) // _SECOND, MAX_COUNT)

    def accept(self, boots: int, time: int, now: int) -> bool:
        """Take over what an authenticated message says, and return whether it is in the time window (7b)."""
        if boots > self.boots or (boots == self.boots and time > self.time):
            self.boots, self.time, self.at = boots, time, now
        own_boots, own_time = self.now(now)
        return boots == own_boots != MAX_COUNT and time >= own_time - TIME_WINDOW


class RemoteEngine:
    """One engine elsewhere, and the user who sends requests to it.

    Args:
        credentials: returns the user with keys for an engine, which is not known yet.
        level: the security level of requests, for which the user has protocols.
        salts: the salts of everything that this process encrypts.
        max_size: octets of a message that can be received.
    """

    def __init__(
        self,
        credentials: UserAt,
        level: SecurityLevel,
        salts: Salts,
        max_size: int,
    ) -> None:
        self._credentials = credentials
        self._level = level
        self._salts = salts
        self._max_size = max_size
        self._user: KeyedUser | None = None
        self._clock = _RemoteClock()
        self._engine_id = b""

    @property
    def engine_id(self) -> bytes:
        """The identifier of the engine; empty until it is known."""
        return self._engine_id

    def use(self, credentials: UserAt, level: SecurityLevel) -> None:
        """Use other keys from now on. What was proved of the engine's boots and time stays.

        A user without keys for the engine has to find it out again.
        """
        self._credentials, self._level = credentials, level
        engine_id, self._user, self._engine_id = self._engine_id, None, b""
        if engine_id:
            self._user = KeyedUser(credentials.at(engine_id, level), self._salts)
            self._engine_id = engine_id

    def request(self, message_id: int, pdu: bytes, now: int, context: bytes = b"") -> bytes:
        """Return the message of a request; before the engine is known, the discovery, which is without it.

        Args:
            message_id: msgID, 0 to 2^31-1.
            pdu: a PDU with its tag and length, which is answered: an inform.
            now: monotonic nanoseconds.
            context: the context's name.
        """
        user = self._user
        if user is None:
            return self._discovery(message_id)
        clock = self._clock.now(now)
        identity = messages.encode_identity(self._engine_id, *clock, user.name)
        flags = FLAGS[self._level] | messages.REPORTABLE
        header = messages.encode_header(message_id, self._max_size, flags)
        scoped = messages.encode_scoped_pdu(self._engine_id, context, pdu)
        if self._level is SecurityLevel.NO_AUTH_NO_PRIV:
            return messages.encode_message(header, identity, b"", b"", scoped)[0]
        return sealed(header, identity, user, self._level, clock, scoped)

    def receive(self, datagram: bytes, awaited: Container[int], now: int) -> Received:
        """Return what a datagram from the engine is.

        Args:
            datagram: the message.
            awaited: the msgIDs of the requests that are not answered yet.
            now: monotonic nanoseconds.

        Raises:
            BerError: it is no message of version 3.
            NotAcceptedError: it answers no request, or is not authentic.
        """
        header = messages.read_header(datagram)
        level = LEVELS.get(header.flags & (messages.AUTHENTICATED | messages.ENCRYPTED))
        if header.security_model != messages.USER_BASED or level is None:
            raise NotAcceptedError("another security model, or invalid flags")
        if header.message_id not in awaited:
            raise NotAcceptedError(f"the message {header.message_id} answers no request")
        parameters = messages.read_security_parameters(datagram, header.start, header.stop)
        if level is SecurityLevel.NO_AUTH_NO_PRIV:
            return self._receive_plain(datagram, header, parameters)
        return self._receive_authenticated(datagram, header, parameters, level, now)

    def _discovery(self, message_id: int) -> bytes:
        flags = messages.REPORTABLE
        pdu = message.encode_pdu(message.GET, 0, 0, 0, [])
        return messages.encode_message(
            messages.encode_header(message_id, self._max_size, flags),
            messages.encode_identity(b"", 0, 0, b""),
            b"",
            b"",
            messages.encode_scoped_pdu(b"", b"", pdu),
        )[0]

    def _receive_plain(self, datagram: bytes, header: Header, parameters: SecurityParameters) -> Received:
        """Return what a message without authentication is: a report, or an answer at that level."""
        scope = messages.read_scoped_pdu(datagram, header.stop, header.end)
        if scope.pdu_type != messages.REPORT:
            if self._level is not SecurityLevel.NO_AUTH_NO_PRIV or parameters.engine_id != self._engine_id:
                raise NotAcceptedError("an answer without authentication")
            return _answer(header, datagram, scope)
        counter = _counter(datagram, scope)
        if counter == "unknown_engine_ids" and parameters.engine_id != self._engine_id:
            self._become(parameters.engine_id)
            return Discovered(header.message_id)
        return Reported(header.message_id, counter)

    def _receive_authenticated(
        self,
        datagram: bytes,
        header: Header,
        parameters: SecurityParameters,
        level: SecurityLevel,
        now: int,
    ) -> Received:
        user = self._user
        if user is None or (parameters.engine_id, parameters.user) != (self._engine_id, user.name):
            raise NotAcceptedError("another engine, or another user")
        if level > user.highest or not is_authentic(datagram, header.end, parameters, user):
            raise NotAcceptedError("a wrong message authentication code")
        if not self._clock.accept(parameters.boots, parameters.time, now):
            raise NotAcceptedError("outside of the time window")
        octets, start, stop = datagram, header.stop, header.end
        if level is SecurityLevel.AUTH_PRIV:
            start, stop = ber.read_tagged(datagram, start, stop, ber.OCTET_STRING)
            try:
                octets = decrypted(datagram[start:stop], parameters, user)
            except DecryptionError as error:
                raise NotAcceptedError(f"not encrypted as agreed: {error}") from None
            start, stop = 0, len(octets)
        scope = messages.read_scoped_pdu(octets, start, stop)
        if scope.pdu_type == messages.REPORT:
            counter = _counter(octets, scope)
            is_time = counter == "not_in_time_windows"
            return Synchronised(header.message_id) if is_time else Reported(header.message_id, counter)
        if level < self._level:
            raise NotAcceptedError("an answer at a lower security level")
        return _answer(header, octets, scope)

    def _become(self, engine_id: bytes) -> None:
        """Make the keys for an engine. Raises `NotAcceptedError`."""
        try:
            check_engine_id(engine_id)
        except ValueError as error:
            raise NotAcceptedError(str(error)) from None
        self._user = KeyedUser(self._credentials.at(engine_id, self._level), self._salts)
        self._engine_id = engine_id
        self._clock = _RemoteClock()


def encode_notification(
    model: SecurityModel,
    user: KeyedUser,
    level: SecurityLevel,
    message_id: int,
    max_size: int,
    pdu: bytes,
    context: bytes = b"",
) -> bytes:
    """Return the message of a trap, for which this agent is the authoritative engine (RFC 3412 section 7.1).

    Args:
        model: users and engine.
        user: one of its users (`SecurityModel.users`).
        level: the security level, for which the user has keys.
        message_id: msgID.
        max_size: octets of a message that this agent can receive.
        pdu: an SNMPv2-Trap-PDU with its tag and length.
        context: the context's name.
    """
    scoped = messages.encode_scoped_pdu(model.engine.engine_id, context, pdu)
    return model.seal(message_id, max_size, user, level, scoped)


def _counter(octets: bytes, scope: ScopedPdu) -> str:
    """Return the name of the counter in a report; empty for others. Raises `BerError`."""
    names = message.read_request(octets, scope.start, scope.stop).names
    return _REPORTS.get(names[0], "") if names else ""


def _answer(header: Header, octets: bytes, scope: ScopedPdu) -> Answered:
    if scope.pdu_type != message.RESPONSE:
        raise BerError("a response", f"PDU 0x{scope.pdu_type:02x}", scope.start)
    return Answered(header.message_id, message.read_request(octets, scope.start, scope.stop))
