"""Reads in the form in which managers send nearly all of them, answered in a third of the time.

Whatever is not in this form, is not authentic, is not to be answered in full, or fails, is left to
`gateway.snmp.v3.responder` as if it had not been looked at: nothing is counted before the answer is made. The
order of the checks is the same: nothing is decrypted before the code was compared.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.snmp import ber, message
from gateway.snmp.processing import LARGEST_DATAGRAM, Access, Limits, Sender, read_varbinds
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.v3 import messages
from gateway.snmp.v3.ciphers import SALT_SIZE
from gateway.snmp.v3.engine import MAX_COUNT, TIME_WINDOW, Engine
from gateway.snmp.v3.keyed_users import KeyedUser
from gateway.snmp.v3.rights import AccessOf
from gateway.snmp.v3.users import SecurityLevel

_READS: Final = frozenset({message.GET, message.GET_NEXT, message.GET_BULK})
_SHORT: Final = 0x80
_NUMBER: Final = (
    rb"(\x02(?:\x01[\x00-\x7f]|\x02(?:[\x01-\x7f].|\x00[\x80-\xff])|\x03(?:[\x01-\x7f]..|\x00[\x80-\xff].)"
    rb"|\x04(?:[\x01-\x7f]...|\x00[\x80-\xff]..)))"
)
"""A group with the TLV of an INTEGER that is not negative and in its shortest form."""

# The only length that is not one octet long, or 0x81 and one, is that of the whole message.
_HEADER: Final = (
    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)()\x02\x01\x03\x30([\x00-\x7f])%b%b\x04\x01([\x05\x07])\x02\x01\x03()"
    rb"\x04(?:[\x00-\x7f]|\x81.)()\x30(?:[\x00-\x7f]|\x81.)()" % (_NUMBER, _NUMBER)
)
_HEAD_END, _GLOBAL, _MESSAGE_ID, _MAX_SIZE, _FLAGS, _GLOBAL_END, _PARAMETERS, _SEQUENCE, _TIME = range(1, 10)
_LEVELS: Final = {0x05: SecurityLevel.AUTH_NO_PRIV, 0x07: SecurityLevel.AUTH_PRIV}
_NO_PREAMBLE: Final = message.preamble(message.VERSION_2C, b"")
"""What `message.read_usual` expects before a PDU, which is read as one of version 2c."""

_EMPTY_SALT: Final = b"\x04\x00"
_SALT_HEAD: Final = bytes((ber.OCTET_STRING, SALT_SIZE))
_SALTS: Final = {SecurityLevel.AUTH_NO_PRIV: _EMPTY_SALT, SecurityLevel.AUTH_PRIV: _SALT_HEAD}


class _Form(NamedTuple):
    """A message in the usual form, of which nothing was checked but the form, the user and the level.

    The code is ``datagram[mac_at:mac_stop]``; msgData begins at ``data``.
    """

    user: KeyedUser
    level: SecurityLevel
    message_id: bytes
    max_size: int
    time: int
    mac_at: int
    mac_stop: int
    data: int


class _Read(NamedTuple):
    """A read; its number is ``request_id``, a TLV, and not that of ``request``."""

    pdu_type: int
    request_id: bytes
    request: message.Request


class UsualReads:
    """The quick way for reads.

    Args:
        engine: the engine.
        users: its users by name.
        access: the rights of users.
        counters: the reads are counted here.
        limits: the bounds of one exchange.
    """

    def __init__(
        self,
        engine: Engine,
        users: Mapping[bytes, KeyedUser],
        access: AccessOf,
        counters: SnmpCounters,
        limits: Limits,
    ) -> None:
        self._engine = engine
        self._users = users
        self._access = access
        self._counters = counters
        self._limits = limits
        self._boots = boots = engine.now()[0]
        self._identity = (
            bytes((ber.OCTET_STRING, len(engine.engine_id))) + engine.engine_id + ber.encode_integer(boots)
        )
        self._match = re.compile(_HEADER + re.escape(self._identity) + _NUMBER, re.DOTALL).match
        self._scope = bytes((ber.OCTET_STRING, len(engine.engine_id))) + engine.engine_id
        size = ber.encode_integer(LARGEST_DATAGRAM)
        # Behind the message id: size, flags and security model.
        self._ends = {
            level: size + bytes((ber.OCTET_STRING, 1, flags & ~messages.REPORTABLE)) + b"\x02\x01\x03"
            for flags, level in _LEVELS.items()
        }

    def answer(self, datagram: bytes, sender: Sender) -> bytes | None:
        """Return the answer to a datagram; ``None`` for all that is left to the other way."""
        try:
            return self._answer(datagram, sender)
        except Exception:  # noqa: BLE001  the other way meets it too, and reports or counts it
            return None

    def _answer(self, datagram: bytes, sender: Sender) -> bytes | None:
        form = self._form(datagram)
        if form is None or not self._is_authentic(datagram, form):
            return None
        clock = self._engine.now()
        boots, time = clock
        # Where the boots have changed, as they do after 68 years, the form is another one, too.
        if boots != self._boots or boots == MAX_COUNT or not -TIME_WINDOW <= form.time - time <= TIME_WINDOW:
            return None
        found = self._pdu(form, *self._plain(datagram, form), sender)
        if found is None:
            return None
        pdu_type, retrieved, scoped = found
        answer = self._sealed(form, clock, scoped)
        # Nothing has been counted yet: the general path cuts the answer, and counts the request.
        if len(answer) > min(self._limits.octets(pdu_type), form.max_size):
            return None
        if pdu_type == message.GET:
            self._counters.get_requests += 1
        elif pdu_type == message.GET_NEXT:
            self._counters.get_nexts += 1
        else:
            self._counters.get_bulks += 1
        self._counters.request_variables += retrieved
        return answer

    def _form(self, datagram: bytes) -> _Form | None:
        """Return what a datagram in the usual form says. Raises ``IndexError`` where it ends early."""
        match = self._match(datagram)
        size = len(datagram)
        if match is None or size > LARGEST_DATAGRAM:
            return None
        name_at = match.end() + 2
        mac_at = name_at + datagram[name_at - 1] + 2
        user = self._users.get(datagram[name_at : mac_at - 2])
        level = _LEVELS[datagram[match.start(_FLAGS)]]
        if user is None or user.authenticator is None or not user.minimum <= level <= user.highest:
            return None
        mac_stop = mac_at + user.authenticator.size
        salt = _SALTS[level]
        data = mac_stop + (len(salt) if level is SecurityLevel.AUTH_NO_PRIV else len(salt) + SALT_SIZE)
        head_end, parameters, sequence = match.end(_HEAD_END), match.end(_PARAMETERS), match.end(_SEQUENCE)
        max_size = int.from_bytes(match[_MAX_SIZE][2:], "big")
        length = datagram[1] if head_end == 2 else int.from_bytes(datagram[2:head_end], "big")  # noqa: PLR2004
        if (
            length != size - head_end
            or datagram[match.start(_GLOBAL)] != match.end(_GLOBAL_END) - match.end(_GLOBAL)
            or datagram[parameters - 1] != data - parameters
            or datagram[sequence - 1] != data - sequence
            or datagram[name_at - 2] != ber.OCTET_STRING
            or datagram[mac_at - 2 : mac_at] != user.authenticator.head
            or datagram[mac_stop : mac_stop + 2] != salt
            or max_size < messages.MIN_MAX_SIZE
        ):
            return None
        time = int.from_bytes(match[_TIME][2:], "big")
        return _Form(user, level, match[_MESSAGE_ID], max_size, time, mac_at, mac_stop, data)

    def _is_authentic(self, datagram: bytes, form: _Form) -> bool:
        authenticator = form.user.authenticator
        assert authenticator is not None
        blanked = datagram[: form.mac_at] + authenticator.blank + datagram[form.mac_stop :]
        return hmac.compare_digest(authenticator.mac(blanked), datagram[form.mac_at : form.mac_stop])

    def _plain(self, datagram: bytes, form: _Form) -> tuple[bytes, int]:
        """Return the octets with the ScopedPDU, and its offset. Raises `BerError`, `DecryptionError`."""
        if form.level is SecurityLevel.AUTH_NO_PRIV:
            return datagram, form.data
        cipher = form.user.cipher
        assert cipher is not None
        start, stop = ber.read_tagged(datagram, form.data, len(datagram), ber.OCTET_STRING)
        salt = datagram[form.data - SALT_SIZE : form.data]
        return cipher.decrypt(datagram[start:stop], self._boots, form.time, salt), 0

    def _pdu(self, form: _Form, plain: bytes, at: int, sender: Sender) -> tuple[int, int, bytes] | None:
        """Return the type of the read in a ScopedPDU, the number retrieved, and its answer's ScopedPDU."""
        offset, end = ber.read_tagged(plain, at, len(plain), ber.SEQUENCE)
        scope_end = offset + len(self._scope)
        context_at, context_end = ber.read_tagged(plain, scope_end, end, ber.OCTET_STRING)
        if (
            plain[offset:scope_end] != self._scope
            or context_at != scope_end + 2  # a long name, or a length that is longer than it need be
        ):
            return None
        access = self._access(form.user.user.name, form.level, plain[context_at:context_end])
        read = _read_of(plain, context_end, end)
        limits = self._limits
        if read is None or not isinstance(access, Access) or len(read.request.names) > limits.varbinds:
            return None
        if access.networks is not None and sender[0] not in access.networks:
            return None
        pdu_type = read.pdu_type
        octets = min(limits.octets(pdu_type), form.max_size) - message.PDU_OVERHEAD
        varbinds, retrieved = read_varbinds(access.view, pdu_type, read.request, octets, limits.varbinds)
        # Engine and context stand before a PDU as version and community do, in a sequence, too.
        scoped = message.encode_success(plain[offset:context_end], read.request_id, varbinds)
        return pdu_type, retrieved, scoped

    def _sealed(self, form: _Form, clock: tuple[int, int], scoped: bytes) -> bytes:
        """Return the message around a ScopedPDU, as `SecurityModel.seal` does."""
        user, message_id = form.user, form.message_id
        authenticator = user.authenticator
        assert authenticator is not None
        if form.level is SecurityLevel.AUTH_PRIV:
            assert user.cipher is not None
            encrypted, salt = user.cipher.encrypt(scoped, *clock)
            behind = _SALT_HEAD + salt + ber.encode_head(ber.OCTET_STRING, len(encrypted)) + encrypted
            salt_size = 2 + SALT_SIZE
        else:
            behind, salt_size = _EMPTY_SALT + scoped, 2
        ends = self._ends[form.level]
        identity = b"".join((self._identity, ber.encode_integer(clock[1]), user.name_tlv, authenticator.head))
        length = len(identity) + authenticator.size + salt_size
        sequence = ber.encode_head(ber.SEQUENCE, length)
        before = b"".join(
            (
                _GLOBAL_HEADS[len(message_id) + len(ends)],
                message_id,
                ends,
                ber.encode_head(ber.OCTET_STRING, len(sequence) + length),
                sequence,
                identity,
            )
        )
        before = ber.encode_head(ber.SEQUENCE, len(before) + authenticator.size + len(behind)) + before
        mac = authenticator.mac(b"".join((before, authenticator.blank, behind)))
        return b"".join((before, mac, behind))


def _read_of(octets: bytes, start: int, end: int) -> _Read | None:
    """Return the read whose PDU is ``octets[start:end]``; ``None`` for another PDU. Raises `BerError`."""
    size = end - start + len(_NO_PREAMBLE)
    usual = message.read_usual(ber.encode_head(ber.SEQUENCE, size) + _NO_PREAMBLE + octets[start:end])
    if usual is not None:
        _, pdu_type, request_id, first, second, names = usual
        return _Read(pdu_type, request_id, message.Request(0, first, second, names, []))
    pdu_type, start, stop = ber.read_header(octets, start, end)
    if pdu_type not in _READS:
        return None
    request = message.read_request(octets, start, stop)
    return _Read(pdu_type, ber.encode_integer(request.request_id), request)


_GLOBAL_HEADS: Final = tuple(b"\x02\x01\x03" + bytes((ber.SEQUENCE, length)) for length in range(_SHORT))
