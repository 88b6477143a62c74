"""Reads in the form in which managers send nearly all of them, answered in a fraction of the time.

Whatever is not in this form, is not authentic, is not to be answered in full, or fails, is left to
`gateway.snmp.v3.responder` as if it had not been looked at: nothing is counted before it is known that there
is an answer. The order of the checks is the same: nothing is decrypted before the code was compared.

A manager's messages of one second differ in their numbers and in what is authenticated or encrypted. So of
each sender, and each length, the form of the last authentic message is remembered, and that of the next is
compared with it. The same is done with the PDUs in them (`gateway.snmp.repeated_reads`).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.snmp import ber, message
from gateway.snmp.processing import LARGEST_DATAGRAM, Access, Limits, Sender, read_varbinds
from gateway.snmp.repeated_reads import RepeatedReads
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
_ID_OCTETS: Final = 4  # those of nearly every message id
# Of a message, beside its ScopedPDU: heads 20, version and numbers 29, engine and user 68, code 50, salt 10,
# padding 8.
_BESIDE_SCOPED: Final = 185
_SCOPE_AT: Final = 2  # behind the tag and the length of a short ScopedPDU

_MAX_LENGTHS: Final = 64  # of the answers to a sender in a second
MAX_FORMS: Final = 1024
"""The number of forms that are remembered; all are forgotten when there are more."""


@dataclass(slots=True, eq=False)
class _Form:
    """What the messages of a sender share that have this form; places are those of the datagram.

    The message id is ``datagram[id_at:id_end]``, the code ``datagram[mac_at:mac_end]``; msgData begins at
    ``data``. ``head`` is what stands before the message id, ``between`` what stands between it and the code.
    ``around`` are the same two parts of the answers of one second, by the octets behind their code.
    """

    user: KeyedUser
    level: SecurityLevel
    size: int
    id_at: int
    id_end: int
    max_size: int
    time: int
    mac_at: int
    mac_end: int
    data: int
    head: bytes
    between: bytes
    salt_head: bytes
    answered_at: int = -1
    around: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)


class _Read(NamedTuple):
    """A read; its number is ``request_id``, a TLV, and not that of ``request``.

    ``usual`` is ``None`` where `message.read_usual` does not read it.
    """

    pdu_type: int
    request_id: bytes
    request: message.Request
    usual: message.UsualRead | None


class _Places(NamedTuple):
    """Where the parts of a ScopedPDU begin: engine and context, and the PDU, which ends at ``end``."""

    scope: int
    pdu: int
    end: int


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
        self._forms: dict[tuple[Sender, int], _Form] = {}
        self._repeated_reads = RepeatedReads(counters, None, _SCOPE_AT + len(self._scope) + 1)
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
        known = self._forms.get((sender, len(datagram)))
        form = known if known is not None and _is_of(known, datagram) else self._form(datagram)
        if form is None or not self._is_authentic(datagram, form):
            return None
        if form is not known:
            self._remember((sender, len(datagram)), form)
        clock = self._engine.now()
        boots, time = clock
        # Where the boots have changed, as they do after 68 years, the form is another one, too.
        if boots != self._boots or boots == MAX_COUNT or not -TIME_WINDOW <= form.time - time <= TIME_WINDOW:
            return None
        plain = self._plain(datagram, form)
        scoped = self._scoped(form, plain, sender)
        return None if scoped is None else self._sealed(form, datagram, clock, scoped)

    def _form(self, datagram: bytes) -> _Form | None:
        """Return the form of a datagram, if it is usual. Raises ``IndexError`` where it ends early.

        Nothing of it was checked but the form, the user and the level.
        """
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
        mac_end = mac_at + user.authenticator.size
        salt = _SALTS[level]
        data = mac_end + (len(salt) if level is SecurityLevel.AUTH_NO_PRIV else len(salt) + SALT_SIZE)
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
            or datagram[mac_end : mac_end + 2] != salt
            or max_size < messages.MIN_MAX_SIZE
        ):
            return None
        id_at, id_end = match.start(_MESSAGE_ID) + 2, match.end(_MESSAGE_ID)
        return _Form(
            user=user,
            level=level,
            size=size,
            id_at=id_at,
            id_end=id_end,
            max_size=max_size,
            time=int.from_bytes(match[_TIME][2:], "big"),
            mac_at=mac_at,
            mac_end=mac_end,
            data=data,
            head=datagram[:id_at],
            between=datagram[id_end:mac_at],
            salt_head=salt,
        )

    def _remember(self, key: tuple[Sender, int], form: _Form) -> None:
        """Remember the form of an authentic message: no stranger can have the forms of others forgotten."""
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        self._forms[key] = form

    def _is_authentic(self, datagram: bytes, form: _Form) -> bool:
        authenticator = form.user.authenticator
        assert authenticator is not None
        blanked = datagram[: form.mac_at] + authenticator.blank + datagram[form.mac_end :]
        return hmac.compare_digest(authenticator.mac(blanked), datagram[form.mac_at : form.mac_end])

    def _plain(self, datagram: bytes, form: _Form) -> bytes:
        """Return the octets from the ScopedPDU on. Raises `BerError`, `DecryptionError`."""
        data = form.data
        if form.level is SecurityLevel.AUTH_NO_PRIV:
            return datagram[data:]
        cipher = form.user.cipher
        assert cipher is not None
        start, stop = ber.read_tagged(datagram, data, len(datagram), ber.OCTET_STRING)
        return cipher.decrypt(datagram[start:stop], self._boots, form.time, datagram[data - SALT_SIZE : data])

    def _access_in(self, form: _Form, context: bytes, sender: Sender) -> Access | None:
        access = self._access(form.user.user.name, form.level, context)
        if not isinstance(access, Access):
            return None
        return access if access.networks is None or sender[0] in access.networks else None

    def _scoped(self, form: _Form, plain: bytes, sender: Sender) -> bytes | None:
        """Return the ScopedPDU that answers one, and count it."""
        offset, end = ber.read_tagged(plain, 0, len(plain), ber.SEQUENCE)
        scope_end = offset + len(self._scope)
        context_at, context_end = ber.read_tagged(plain, scope_end, end, ber.OCTET_STRING)
        if (
            plain[offset:scope_end] != self._scope
            or context_at != scope_end + 2  # a long name, or a length that is longer than it need be
        ):
            return None
        access = self._access_in(form, plain[context_at:context_end], sender)
        if access is None:
            return None
        # Such an answer is short enough for every manager, and so counted at once.
        repeated = self._repeated_reads.answer(plain, sender, access.view)
        if repeated is not None:
            return repeated
        return self._answered_once(form, plain, access, _Places(offset, context_end, end))

    def _answered_once(self, form: _Form, plain: bytes, access: Access, places: _Places) -> bytes | None:
        """Return the answer to a read whose form is not known; so is every one of several objects."""
        read = _read_of(plain, places)
        limits = self._limits
        if read is None or len(read.request.names) > limits.varbinds:
            return None
        pdu_type = read.pdu_type
        largest = min(limits.octets(pdu_type), form.max_size)
        varbinds, retrieved = read_varbinds(
            access.view, pdu_type, read.request, largest - message.PDU_OVERHEAD, limits.varbinds
        )
        # Engine and context stand before a PDU as version and community do, in a sequence, too.
        scoped = message.encode_success(plain[places.scope : places.pdu], read.request_id, varbinds)
        # Nothing has been counted yet: the general path cuts the answer, and counts the request.
        if len(scoped) + _BESIDE_SCOPED > largest:
            return None
        self._counters.count_read(pdu_type, retrieved)
        if read.usual is not None and len(plain) == places.end:
            self._repeated_reads.learn(plain, read.usual, access)
        return scoped

    def _sealed(self, form: _Form, datagram: bytes, clock: tuple[int, int], scoped: bytes) -> bytes:
        """Return the message around a ScopedPDU, as `SecurityModel.seal` does."""
        user = form.user
        authenticator = user.authenticator
        assert authenticator is not None
        if form.level is SecurityLevel.AUTH_PRIV:
            assert user.cipher is not None
            encrypted, salt = user.cipher.encrypt(scoped, *clock)
            behind = b"".join(
                (_SALT_HEAD, salt, ber.encode_head(ber.OCTET_STRING, len(encrypted)), encrypted)
            )
        else:
            behind = _EMPTY_SALT + scoped
        if form.answered_at != clock[1]:
            form.answered_at = clock[1]
            form.around.clear()
        around = form.around.get(len(behind))
        if around is None:
            if len(form.around) >= _MAX_LENGTHS:
                form.around.clear()
            around = form.around[len(behind)] = self._around(form, clock[1], len(behind))
        head, between = around
        message_id = datagram[form.id_at : form.id_end]
        mac = authenticator.mac(b"".join((head, message_id, between, authenticator.blank, behind)))
        return b"".join((head, message_id, between, mac, behind))

    def _around(self, form: _Form, time: int, behind: int) -> tuple[bytes, bytes]:
        """Return an answer's octets before the message id, and between it and its code.

        Args:
            form: the form of the request.
            time: the engine's time.
            behind: the number of octets behind the code.
        """
        authenticator = form.user.authenticator
        assert authenticator is not None
        identity = b"".join(
            (self._identity, ber.encode_integer(time), form.user.name_tlv, authenticator.head)
        )
        salt_size = 2 if form.level is SecurityLevel.AUTH_NO_PRIV else 2 + SALT_SIZE
        length = len(identity) + authenticator.size + salt_size
        sequence = ber.encode_head(ber.SEQUENCE, length)
        id_size, ends = form.id_end - form.id_at, self._ends[form.level]
        between = b"".join(
            (ends, ber.encode_head(ber.OCTET_STRING, len(sequence) + length), sequence, identity)
        )
        head = b"".join(
            (
                b"\x02\x01\x03",
                bytes((ber.SEQUENCE, 2 + id_size + len(ends))),
                bytes((ber.INTEGER, id_size)),
            )
        )
        size = len(head) + id_size + len(between) + authenticator.size + behind
        return ber.encode_head(ber.SEQUENCE, size) + head, between


def _is_of(form: _Form, datagram: bytes) -> bool:
    """Return whether a datagram has a form that was checked; then it has the same user and level."""
    id_at, mac_end = form.id_at, form.mac_end
    return (
        len(datagram) == form.size
        and datagram[form.id_end : form.mac_at] == form.between
        and datagram[:id_at] == form.head
        and 0 < datagram[id_at] < _SHORT  # not negative, and without an octet that need not be
        and datagram[mac_end : mac_end + 2] == form.salt_head
    )


def _read_of(octets: bytes, places: _Places) -> _Read | None:
    """Return the read in a ScopedPDU; ``None`` for another PDU. Raises `BerError`."""
    start, end = places.pdu, places.end
    size = end - start + len(_NO_PREAMBLE)
    usual = message.read_usual(ber.encode_head(ber.SEQUENCE, size) + _NO_PREAMBLE + octets[start:end])
    if usual is not None:
        _, pdu_type, request_id, first, second, names = usual
        request = message.Request(0, first, second, names, [])
        return _Read(pdu_type, request_id, request, (octets[places.scope : start], *usual[1:]))
    pdu_type, at, stop = ber.read_header(octets, start, end)
    if pdu_type not in _READS:
        return None
    request = message.read_request(octets, at, stop)
    return _Read(pdu_type, ber.encode_integer(request.request_id), request, None)
