"""The command responder of version 3: RFC 3412 section 7.2 and RFC 3413 section 3.2 around PDUs.

The module is sans-IO. Any octets give an answer, a report or silence, never an exception. A message that is
not authenticated, of a user who has to be, causes a report or an error at most.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from gateway.feed.guesses import Guesses
from gateway.snmp import ber, message
from gateway.snmp.ber import BerError
from gateway.snmp.processing import (
    LARGEST_DATAGRAM,
    Access,
    Exchange,
    Limits,
    Processor,
    Response,
    Sender,
    is_request,
)
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.v3 import messages
from gateway.snmp.v3.accepted_sets import AcceptedSets, Verdict
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.keyed_users import KeyedUser
from gateway.snmp.v3.messages import Header, ScopedPdu
from gateway.snmp.v3.rights import AccessOf, NoAccess
from gateway.snmp.v3.security import LEVELS, Opened, Refused, SecurityModel
from gateway.snmp.v3.users import SecurityLevel, User
from gateway.snmp.v3.usual import UsualReads

_CONFIRMED: Final = frozenset({message.GET, message.GET_NEXT, message.GET_BULK, message.SET, message.INFORM})
"""The PDUs that are answered: only these are answered with a report (RFC 3412 section 6.4)."""


class Version3(msgspec.Struct, frozen=True):
    """What an agent of version 3 needs.

    Attributes:
        engine: the authoritative engine.
        users: its users, whose names are distinct.
        access: the rights of users.
        salts: the salts of everything that this process encrypts.
        accepted: the SETs that are not accepted again, also after users or rights have changed.
    """

    engine: Engine
    users: Sequence[User]
    access: AccessOf
    salts: Salts
    accepted: AcceptedSets

    def responder(
        self,
        processor: Processor,
        counters: SnmpCounters,
        limits: Limits,
        not_authenticated: Callable[[str], None] | None,
        guesses: Guesses | None,
    ) -> V3Responder:
        """Return the command responder; the arguments are as there."""
        return V3Responder(self, processor, counters, limits, not_authenticated, guesses)


class _Request(NamedTuple):
    """An opened message with the rights of its user; all of it is needed to seal the answer."""

    message_id: int
    user: KeyedUser
    level: SecurityLevel
    scope: ScopedPdu


class V3Responder:
    """The command responder of version 3.

    Args:
        version_3: engine, users and rights.
        processor: processes the PDUs.
        counters: incremented as the groups usmStats, snmpMPDStats and snmp require.
        limits: the bounds of one exchange.
        not_authenticated: called for a message of an unknown user, or with a wrong digest.
        guesses: counts and reports these.
    """

    def __init__(
        self,
        version_3: Version3,
        processor: Processor,
        counters: SnmpCounters,
        limits: Limits,
        not_authenticated: Callable[[str], None] | None,
        guesses: Guesses | None = None,
    ) -> None:
        self._model = SecurityModel(version_3.engine, version_3.users, version_3.salts)
        self._usual = UsualReads(version_3.engine, self._model.users, version_3.access, counters, limits)
        self._engine_id = version_3.engine.engine_id
        self._access = version_3.access
        self._accepted = version_3.accepted
        self._processor = processor
        self._counters = counters
        self._limits = limits
        self._not_authenticated = not_authenticated
        self._guesses = guesses

    def answer(self, datagram: bytes, sender: Sender) -> Response:
        """Return the answer to a datagram of version 3; ``None`` where none is sent, which is counted."""
        usual = self._usual.answer(datagram, sender)
        if usual is not None:
            return usual
        try:
            return self._answer(datagram, sender)
        except BerError:
            self._counters.parse_errors += 1
            return None

    def _answer(self, datagram: bytes, sender: Sender) -> Response:
        # The socket reads one octet more than the limit of UDP, so what the system has cut is refused here.
        if len(datagram) > LARGEST_DATAGRAM:
            raise BerError(f"at most {LARGEST_DATAGRAM} octets", f"{len(datagram)}")
        header = messages.read_header(datagram)
        if header.security_model != messages.USER_BASED:
            self._counters.unknown_security_models += 1
            return None
        level = LEVELS.get(header.flags & (messages.AUTHENTICATED | messages.ENCRYPTED))
        if level is None:
            self._counters.invalid_messages += 1
            return None
        scope = None
        if level is not SecurityLevel.AUTH_PRIV:
            # What is not encrypted is a part of the message that has to be valid as a whole.
            scope = messages.read_scoped_pdu(datagram, header.stop, header.end)
        opened = self._model.open(datagram, header, level)
        if isinstance(opened, Opened) and scope is None:
            try:
                scope = messages.read_scoped_pdu(opened.octets, opened.start, opened.stop)
            except BerError:
                # The user has another privacy key than we have, and should learn it.
                opened = Refused("decryption_errors", opened.user.name)
        if isinstance(opened, Refused):
            return self._refused(header, opened, datagram, scope, sender)
        assert scope is not None
        return self._process(header, opened, scope, sender)

    def _process(self, header: Header, opened: Opened, scope: ScopedPdu, sender: Sender) -> Response:
        """Answer a message whose user is known."""
        request = _Request(header.message_id, opened.user, opened.level, scope)
        # Only this engine's objects are here, and only requests are processed (RFC 3412 section 7.2).
        if not is_request(messages.VERSION_3, scope.pdu_type) or scope.engine_id != self._engine_id:
            return self._report_to(request, header, opened, "unknown_pdu_handlers")
        access: Access | NoAccess = NoAccess.NOT_AUTHORIZED
        if opened.level >= opened.user.minimum:
            access = self._access(opened.user.user.name, opened.level, scope.context)
        if isinstance(access, Access) and access.networks is not None and sender[0] not in access.networks:
            access.networks.refused(sender[0])
            access = NoAccess.NOT_AUTHORIZED
        if access is NoAccess.UNKNOWN_CONTEXT:
            return self._report_to(request, header, opened, "unknown_contexts")
        if access is NoAccess.UNAVAILABLE_CONTEXT:
            return self._report_to(request, header, opened, "unavailable_contexts")
        exchange = self._exchange(header, opened, scope, access, sender)
        if not isinstance(access, Access):
            return self._sealed(request, self._processor.refuse(exchange, message.AUTHORIZATION_ERROR))
        if scope.pdu_type == message.SET and opened.mac:
            return self._set_once(request, opened.mac, exchange)
        return self._enclosed(request, self._processor.process(exchange))

    def _exchange(
        self, header: Header, opened: Opened, scope: ScopedPdu, access: Access | NoAccess, sender: Sender
    ) -> Exchange:
        """Return what is to be processed. Raises `BerError`."""
        user, octets = opened.user, opened.octets
        content = b""
        if scope.pdu_type == message.SET:
            content = scope.context + b"\0" + octets[scope.start : scope.stop]
        return Exchange(
            messages.VERSION_3,
            scope.pdu_type,
            message.read_request(octets, scope.start, scope.stop),
            access if isinstance(access, Access) else _NOTHING,
            self._room(header.max_size, opened, scope),
            sender,
            content,
            user.user.name,
        )

    def _room(self, max_size: int, opened: Opened, scope: ScopedPdu) -> int:
        """Return the maximum length of the answer's PDU."""
        user = opened.user
        return messages.pdu_room(
            min(self._limits.octets(scope.pdu_type), max_size),
            scope=len(scope.engine_id) + len(scope.context),
            user=len(user.name),
            engine_id=len(self._engine_id),
            mac=len(opened.mac),
            padding=user.padding if opened.level is SecurityLevel.AUTH_PRIV else 0,
        )

    def _set_once(self, request: _Request, mac: bytes, exchange: Exchange) -> Response:
        """Carry out an authenticated SET, unless its message came before."""
        key = request.user.name + mac
        verdict = self._accepted.begin(key)
        if verdict is Verdict.NO_ROOM:
            self._counters.sets_without_room += 1
            return self._sealed(request, self._processor.refuse(exchange, message.RESOURCE_UNAVAILABLE))
        if verdict is not Verdict.NEW:
            self._counters.set_retransmissions += 1
            if verdict is Verdict.RUNNING:
                return None
            return self._sealed(request, self._processor.repeat_set(exchange, verdict))
        pdu = self._processor.process(exchange)
        if isinstance(pdu, Coroutine):
            return self._set_later(request, key, pdu)
        return self._set_ended(request, key, pdu)

    async def _set_later(
        self, request: _Request, key: bytes, pdu: Coroutine[Any, Any, bytes | None]
    ) -> bytes | None:
        return self._set_ended(request, key, await pdu)

    def _set_ended(self, request: _Request, key: bytes, pdu: bytes | None) -> bytes | None:
        if pdu is not None:
            self._accepted.end(key, *_status_of(pdu))
        return self._sealed(request, pdu)

    def _enclosed(self, request: _Request, pdu: Response) -> Response:
        return (
            self._enclosed_later(request, pdu) if isinstance(pdu, Coroutine) else self._sealed(request, pdu)
        )

    async def _enclosed_later(
        self, request: _Request, pdu: Coroutine[Any, Any, bytes | None]
    ) -> bytes | None:
        return self._sealed(request, await pdu)

    def _sealed(self, request: _Request, pdu: bytes | None) -> bytes | None:
        """Return the message that answers a request with a PDU, at the level of the request."""
        if pdu is None:
            return None
        scoped = messages.encode_scoped_pdu(request.scope.engine_id, request.scope.context, pdu)
        return self._model.seal(request.message_id, LARGEST_DATAGRAM, request.user, request.level, scoped)

    # ---- reports --------------------------------------------------------------------------------------

    def _refused(
        self, header: Header, refused: Refused, datagram: bytes, scope: ScopedPdu | None, sender: Sender
    ) -> bytes | None:
        """Report why a message did not pass, if it may be answered with a report."""
        is_answered = True
        if refused.counter in _NOT_AUTHENTIC:
            if self._not_authenticated is not None:
                self._not_authenticated(sender[0])
            is_answered = self._is_answered(refused, sender[0])
        pdu = self._report_pdu(header, refused.counter, datagram, scope)
        if pdu is None or not is_answered:
            return None
        # Where the time is wrong, the report is authenticated: by it the manager corrects its own.
        user = refused.name if refused.user is None else refused.user
        level = SecurityLevel.NO_AUTH_NO_PRIV if refused.user is None else SecurityLevel.AUTH_NO_PRIV
        return self._seal_report(header, user, level, b"", pdu)

    def _is_answered(self, refused: Refused, address: str) -> bool:
        """Count a message that proves no identity; return whether it may be answered with a report."""
        if self._guesses is None:
            return True
        # The name of an unknown user is not recorded: a passphrase may have been typed in its place.
        is_known = refused.counter == "wrong_digests"
        user = refused.name.decode("utf-8", "replace") if is_known else ""
        return self._guesses.guessed(address, _NOT_AUTHENTIC[refused.counter], user)

    def _report_to(self, request: _Request, header: Header, opened: Opened, counter: str) -> bytes | None:
        """Report to a known user why a PDU is not processed, at the level of the request."""
        pdu = self._report_pdu(header, counter, opened.octets, request.scope)
        if pdu is None:
            return None
        return self._seal_report(header, request.user, request.level, request.scope.context, pdu)

    def _report_pdu(
        self, header: Header, counter: str, octets: bytes, scope: ScopedPdu | None
    ) -> bytes | None:
        """Count, and return the PDU of a report; ``None`` if the message must not be answered with one."""
        instance, value = self._counters.report(counter)
        if not header.flags & messages.REPORTABLE or (scope is not None and scope.pdu_type not in _CONFIRMED):
            return None
        request_id = 0 if scope is None else ber.read_integer(octets, scope.start, scope.stop)[0]
        varbind = ber.encode_varbind(ber.encode_name(instance), value)
        return message.encode_pdu(messages.REPORT, request_id, message.NO_ERROR, 0, [varbind])

    def _seal_report(
        self, header: Header, user: KeyedUser | bytes, level: SecurityLevel, context: bytes, pdu: bytes
    ) -> bytes:
        self._counters.reports += 1
        scoped = messages.encode_scoped_pdu(self._engine_id, context, pdu)
        return self._model.seal(header.message_id, LARGEST_DATAGRAM, user, level, scoped)


_NOT_AUTHENTIC: Final = {
    "unknown_user_names": "a message of a user of version 3 who is not known",
    "wrong_digests": "a message of version 3 with a wrong passphrase",
}
"""The recorded reasons by the counters of messages that prove no identity."""


class _NothingView:
    """The view of a user without rights, whose requests are not processed."""

    def read(self, name: bytes) -> bytes:
        """See `gateway.snmp.store.MibView`."""
        del name
        return ber.NO_SUCH_OBJECT

    def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
        """See `gateway.snmp.store.MibView`."""
        del limit, counter64
        return [], name

    def next_varbind(self, name: bytes) -> None:
        """See `gateway.snmp.store.MibView`."""

    def walk_rows(self, names: Sequence[bytes], limit: int) -> None:
        """See `gateway.snmp.store.MibView`."""


_NOTHING: Final = Access(_NothingView())


def _status_of(pdu: bytes) -> tuple[int, int]:
    """Return error-status and error-index of a response's PDU."""
    _, start, stop = ber.read_header(pdu, 0, len(pdu))
    _, offset = ber.read_integer(pdu, start, stop)
    status, offset = ber.read_integer(pdu, offset, stop)
    return status, ber.read_integer(pdu, offset, stop)[0]
