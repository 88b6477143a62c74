"""Requests to an engine elsewhere: discovery, its time, and what is not accepted from others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import message
from gateway.snmp.ber import BerError
from gateway.snmp.v3 import messages
from gateway.snmp.v3.algorithms import AES128, SHA256
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.remote import (
    Answered,
    Discovered,
    NotAcceptedError,
    Received,
    RemoteEngine,
    Reported,
    Synchronised,
)
from gateway.snmp.v3.users import Credentials, SecurityLevel, credentials
from tests.snmp.small_agent import TEXT
from tests.snmp.v3.secured_agent import (
    AUTH,
    BOOTS,
    ENGINE_ID,
    GET,
    NO_AUTH,
    OPERATOR,
    PRIV,
    SECOND,
    SecuredAgent,
    changed,
    pdu,
)

SECRET = credentials("operator", SHA256, "authpassphrase", AES128, "privpassphrase")


@dataclass
class Conversation:
    """A manager and an agent, whose clocks are apart."""

    secret: Credentials = SECRET
    level: SecurityLevel = PRIV
    agent: SecuredAgent = field(default_factory=SecuredAgent)
    now: int = 10**12
    message_id: int = 0

    def __post_init__(self) -> None:
        self.remote = RemoteEngine(self.secret, self.level, Salts(7), 65_507)

    def pass_time(self, seconds: int) -> None:
        self.now += seconds * SECOND
        self.agent.now += seconds * SECOND

    def answer(self) -> bytes:
        self.message_id += 1
        datagram = self.agent.responder.answer(self.remote.request(self.message_id, pdu(), self.now))
        assert isinstance(datagram, bytes)
        return datagram

    def receive(self, datagram: bytes) -> Received:
        return self.remote.receive(datagram, {self.message_id}, self.now)

    def turn(self) -> Received:
        return self.receive(self.answer())

    def begun(self) -> Conversation:
        assert self.turn() == Discovered(1)
        if self.level is not NO_AUTH:
            assert self.turn() == Synchronised(2)
        return self


def assert_answered(received: Received) -> None:
    assert isinstance(received, Answered)
    assert (received.response.first, received.response.values) == (0, [TEXT])


@pytest.mark.parametrize("level", [AUTH, PRIV])
def test_an_engine_is_discovered_its_time_taken_over_and_a_request_answered(level: SecurityLevel) -> None:
    user = SECRET.at(ENGINE_ID, AUTH)
    conversation = Conversation(level=level, agent=SecuredAgent(users=(user,)))
    conversation.pass_time(5000)
    assert conversation.remote.engine_id == b""
    conversation.begun()
    assert conversation.remote.engine_id == ENGINE_ID
    assert_answered(conversation.turn())
    conversation.pass_time(100_000)
    assert_answered(conversation.turn())  # the time goes on
    assert conversation.agent.counters.get_requests == 2


def test_with_other_keys_the_time_of_the_engine_stays_what_was_proved() -> None:
    conversation = Conversation().begun()
    conversation.remote.use(credentials("operator", SHA256, "other passphrase", AES128, "other phrase"), PRIV)
    assert conversation.remote.engine_id == ENGINE_ID
    assert conversation.turn() == Reported(conversation.message_id, "wrong_digests")
    conversation.remote.use(SECRET, PRIV)
    assert_answered(conversation.turn())


def test_a_user_without_authentication_needs_no_time() -> None:
    conversation = Conversation(Credentials("guest"), NO_AUTH).begun()
    assert_answered(conversation.turn())


def test_an_engine_that_was_started_again_is_followed() -> None:
    conversation = Conversation().begun()
    conversation.agent = SecuredAgent(boots=BOOTS + 1)
    assert conversation.turn() == Synchronised(3)
    assert_answered(conversation.turn())


def test_an_engine_that_was_replaced_is_discovered_again() -> None:
    conversation = Conversation().begun()
    other = b"another engine"
    answer = conversation.answer()
    header = messages.read_header(answer)
    pdu_of_report = message.encode_pdu(
        messages.REPORT, 0, 0, 0, [bytes.fromhex("300f060a2b060106030f01010400410101")]
    )
    report = messages.encode_message(
        messages.encode_header(header.message_id, 65_507, 0),
        messages.encode_identity(other, 1, 1, b""),
        b"",
        b"",
        messages.encode_scoped_pdu(other, b"", pdu_of_report),
    )[0]
    assert conversation.receive(report) == Discovered(3)
    assert conversation.remote.engine_id == other
    assert conversation.turn() == Discovered(4)  # by the true one: so who answers falsely only costs a turn
    assert conversation.turn() == Synchronised(5)
    assert_answered(conversation.turn())


@pytest.mark.parametrize(
    ("secret", "counter"),
    [
        (replace(SECRET, name="no one"), "unknown_user_names"),
        (credentials("operator", SHA256, "another one", AES128, "privpassphrase"), "wrong_digests"),
        (credentials("watcher", SHA256, "another one", AES128, "x" * 8), "unsupported_security_levels"),
    ],
)
def test_why_a_request_was_not_processed(secret: Credentials, counter: str) -> None:
    conversation = Conversation(secret)
    assert conversation.turn() == Discovered(1)
    assert conversation.turn() == Reported(2, counter)


def test_another_privacy_passphrase() -> None:
    secret = credentials("operator", SHA256, "authpassphrase", AES128, "another one")
    conversation = Conversation(secret).begun()
    assert conversation.turn() == Reported(3, "decryption_errors")


def test_what_is_not_authentic_is_not_accepted() -> None:
    conversation = Conversation().begun()
    answer = conversation.answer()
    for offset in range(len(answer)):
        with pytest.raises((NotAcceptedError, BerError)):
            conversation.receive(changed(answer, offset, bytes((answer[offset] ^ 1,))))
    assert_answered(conversation.receive(answer))


def test_an_answer_to_no_request_or_of_another_time_is_not_accepted() -> None:
    conversation = Conversation().begun()
    answer = conversation.answer()
    with pytest.raises(NotAcceptedError, match="the message 3 answers no request"):
        conversation.remote.receive(answer, {4}, conversation.now)
    assert_answered(conversation.receive(answer))
    conversation.now += 151 * SECOND
    with pytest.raises(NotAcceptedError, match="outside of the time window"):
        conversation.receive(answer)


def test_an_answer_at_a_lower_level_is_not_accepted() -> None:
    user = SECRET.at(ENGINE_ID, NO_AUTH)
    conversation = Conversation(agent=SecuredAgent(users=(user,))).begun()
    for level in (NO_AUTH, AUTH):
        answer = conversation.agent.responder.answer(
            replace(GET, user=user, level=level, message_id=conversation.message_id).encoded()
        )
        assert isinstance(answer, bytes)
        with pytest.raises(NotAcceptedError, match=r"an answer (without authentication|at a lower)"):
            conversation.receive(answer)


def test_engine_ids_that_none_can_have_are_not_accepted() -> None:
    conversation = Conversation()
    report = conversation.answer()
    forged = report.replace(ENGINE_ID, bytes(len(ENGINE_ID)))
    with pytest.raises(NotAcceptedError, match="not all 00"):
        conversation.receive(forged)
    assert conversation.turn() == Discovered(2)


@given(st.binary(max_size=200))
def test_any_octets(octets: bytes) -> None:
    conversation = Conversation()
    for datagram in (octets, b"\x30" + bytes((len(octets) & 0x7F,)) + b"\x02\x01\x03" + octets):
        with pytest.raises((NotAcceptedError, BerError)):
            conversation.receive(datagram)


def test_a_user_of_the_remote_engine_has_its_keys() -> None:
    assert SECRET.at(ENGINE_ID) == OPERATOR
