"""A responder of version 3 over a small store, and a manager in whose messages every field may be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.feed.guesses import Guesses
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.processing import Access, Limits, Sender
from gateway.snmp.requests import Responder
from gateway.snmp.set_requests import SetRequests
from gateway.snmp.standard_groups import REPORTED
from gateway.snmp.v3 import messages
from gateway.snmp.v3.accepted_sets import AcceptedSets
from gateway.snmp.v3.algorithms import AES128, DES, MD5, SHA1, SHA256
from gateway.snmp.v3.ciphers import Authenticator, PrivacyCipher, Salts, cipher_of
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.responder import Version3
from gateway.snmp.v3.rights import NoAccess
from gateway.snmp.v3.users import SecurityLevel, User, credentials
from tests.snmp.datagrams import COMMUNITY
from tests.snmp.small_agent import DESCRIPTION, LIMITS, SmallAgent

ENGINE_ID = bytes.fromhex("80001f8805") + b"tests-engine"
BOOTS = 7
SECOND = 10**9
LONG_CONTEXT = b"c" * 255
NO_AUTH, AUTH, PRIV = SecurityLevel.NO_AUTH_NO_PRIV, SecurityLevel.AUTH_NO_PRIV, SecurityLevel.AUTH_PRIV
SENDER: Sender = ("192.0.2.1", 40_000)

OPERATOR = credentials("operator", SHA256, "authpassphrase", AES128, "privpassphrase").at(ENGINE_ID)
WATCHER = credentials("watcher", SHA1, "watching closely").at(ENGINE_ID)
OLD = credentials("old", MD5, "authpassphrase", DES, "privpassphrase").at(ENGINE_ID, AUTH)
GUEST = User("guest", minimum=NO_AUTH)
USERS = (OPERATOR, WATCHER, OLD, GUEST)


@dataclass(frozen=True)
class Sent:
    """All fields of a message; those of the user's keys are used where they are not given.

    Attributes:
        mac: replaces the code.
        data: replaces msgData.
        junk: octets behind the message.
    """

    user: User
    level: SecurityLevel
    pdu: bytes
    message_id: int = 1
    max_size: int = 65_507
    flags: int | None = None
    model: int = messages.USER_BASED
    engine_id: bytes = ENGINE_ID
    boots: int = BOOTS
    time: int = 0
    name: bytes | None = None
    context_engine: bytes = ENGINE_ID
    context: bytes = b""
    salt: bytes | None = None
    mac: bytes | None = None
    data: bytes | None = None
    junk: bytes = b""

    def encoded(self) -> bytes:
        data = ber.encode_tlv(
            ber.SEQUENCE, ber.encode_octets(self.context_engine) + ber.encode_octets(self.context) + self.pdu
        )
        salt = b""
        if self.level is PRIV:
            encrypted, salt = cipher(self.user).encrypt(data, self.boots, self.time)
            data = ber.encode_octets(encrypted)
        data = data if self.data is None else self.data
        salt = salt if self.salt is None else self.salt
        flags = {NO_AUTH: 4, AUTH: 5, PRIV: 7}[self.level] if self.flags is None else self.flags
        numbers = ber.encode_integer(self.message_id) + ber.encode_integer(self.max_size)
        header = ber.encode_tlv(
            ber.SEQUENCE, numbers + ber.encode_octets(bytes((flags,))) + ber.encode_integer(self.model)
        )
        name = self.user.name.encode() if self.name is None else self.name

        def whole(mac: bytes) -> bytes:
            parameters = ber.encode_tlv(
                ber.SEQUENCE,
                ber.encode_octets(self.engine_id)
                + ber.encode_integer(self.boots)
                + ber.encode_integer(self.time)
                + ber.encode_octets(name)
                + ber.encode_octets(mac)
                + ber.encode_octets(salt),
            )
            content = ber.encode_integer(3) + header + ber.encode_octets(parameters) + data
            return ber.encode_tlv(ber.SEQUENCE, content)

        if self.mac is not None or self.level is NO_AUTH:
            return whole(self.mac or b"") + self.junk
        assert self.user.authentication is not None
        authenticator = Authenticator(self.user.authentication, self.user.authentication_key)
        return whole(authenticator.mac(whole(authenticator.blank))) + self.junk


@dataclass(frozen=True)
class Reply:
    """All fields of an answer or report, which was authentic."""

    message_id: int
    level: SecurityLevel
    engine_id: bytes
    boots: int
    time: int
    name: bytes
    context: bytes
    pdu_type: int
    request_id: int
    status: int
    index: int
    varbinds: list[tuple[Oid, bytes]]

    @property
    def counter(self) -> tuple[str, int]:
        """The name and value of the counter in a report."""
        assert self.pdu_type == messages.REPORT
        [(name, value)] = self.varbinds
        assert value[0] == ber.COUNTER32
        return {oid: each for each, oid in REPORTED.items()}[name], int.from_bytes(value[2:], "big")


def read_reply(datagram: bytes, users: Sequence[User] = USERS) -> Reply:
    """Return an answer; it must be authentic where its flags say so, and have no excess octets."""
    header = messages.read_header(datagram)
    assert (header.end, header.security_model) == (len(datagram), 3)
    assert not header.flags & messages.REPORTABLE
    got = messages.read_security_parameters(datagram, header.start, header.stop)
    level = {0: NO_AUTH, 1: AUTH, 3: PRIV}[header.flags]
    octets, start, stop = datagram, header.stop, header.end
    if level is not NO_AUTH:
        [user] = [user for user in users if user.name.encode() == got.user]
        assert user.authentication is not None
        authenticator = Authenticator(user.authentication, user.authentication_key)
        blank = datagram[: got.mac_at] + authenticator.blank + datagram[got.mac_at + len(got.mac) :]
        assert authenticator.mac(blank) == got.mac
        if level is PRIV:
            start, stop = ber.read_tagged(datagram, start, stop, ber.OCTET_STRING)
            octets = cipher(user).decrypt(datagram[start:stop], got.boots, got.time, got.salt)
            start, stop = 0, len(octets)
    scope = messages.read_scoped_pdu(octets, start, stop)
    pdu = message.read_request(octets, scope.start, scope.stop)
    varbinds = list(zip(map(ber.decode_name, pdu.names), pdu.values, strict=True))
    return Reply(
        header.message_id,
        level,
        got.engine_id,
        got.boots,
        got.time,
        got.user,
        scope.context,
        scope.pdu_type,
        pdu.request_id,
        pdu.first,
        pdu.second,
        varbinds,
    )


def cipher(user: User) -> PrivacyCipher:
    assert user.privacy is not None
    return cipher_of(user.privacy, user.privacy_key, Salts(1))


def pdu(
    pdu_type: int = message.GET,
    oids: Sequence[Oid] = (DESCRIPTION,),
    *,
    request_id: int = 9,
    first: int = 0,
    second: int = 0,
    value: bytes = ber.NULL,
) -> bytes:
    varbinds = [ber.encode_varbind(ber.encode_name(oid), value) for oid in oids]
    return message.encode_pdu(pdu_type, request_id, first, second, varbinds)


GET = Sent(OPERATOR, PRIV, pdu())
"""A request that is answered, at second 0."""


@dataclass
class SecuredAgent:
    """An agent in which context "shop" is the same as the default one, "closed" is unavailable."""

    limits: Limits = LIMITS
    boots: int = BOOTS
    writer: str = ""
    users: Sequence[User] = USERS
    sets: SetRequests | None = None
    now: int = 0
    small: SmallAgent = field(default_factory=SmallAgent)
    asked: list[tuple[str, SecurityLevel, bytes]] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)
    guesses: Guesses | None = None
    unknown: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.counters, self.failures = self.small.counters, self.small.failures
        self.engine = Engine(ENGINE_ID, self.boots, lambda: self.now)
        self.responder = Responder(
            {COMMUNITY: Access(self.small.store)},
            self.counters,
            self.failures.append,
            self.limits,
            sets=self.sets,
            wrong_community=self.suspects.append,
            guesses=self.guesses,
            version_3=Version3(
                self.engine, self.users, self.access, Salts(2**64 - 2), AcceptedSets(lambda: self.now)
            ),
        )

    def access(self, user: str, level: SecurityLevel, context: bytes) -> Access | NoAccess:
        self.asked.append((user, level, context))
        if context == b"closed":
            return NoAccess.UNAVAILABLE_CONTEXT
        if context in self.unknown or context not in (b"", b"shop", LONG_CONTEXT):
            return NoAccess.UNKNOWN_CONTEXT
        return Access(self.small.store, self.writer)

    def ask(self, sent: Sent) -> Reply:
        answer = self.responder.answer(sent.encoded(), SENDER)
        assert not self.failures
        assert isinstance(answer, bytes), self.counters
        return read_reply(answer, self.users)

    def is_silent_at(self, sent: Sent) -> bool:
        return self.responder.answer(sent.encoded(), SENDER) is None and not self.failures


def changed(datagram: bytes, offset: int, octets: bytes) -> bytes:
    """Return a datagram with other octets at an offset."""
    return datagram[:offset] + octets + datagram[offset + len(octets) :]
