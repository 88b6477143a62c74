"""The security model: each message, its counter, and the report that answers it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber, message
from gateway.snmp.processing import Limits
from gateway.snmp.v3 import messages
from gateway.snmp.v3.algorithms import AES128, SHA256, SHA512
from gateway.snmp.v3.users import SecurityLevel, User, credentials
from tests.snmp.small_agent import DESCRIPTION, ENTRY, TEXT
from tests.snmp.v3.secured_agent import (
    AUTH,
    BOOTS,
    ENGINE_ID,
    GET,
    GUEST,
    LONG_CONTEXT,
    NO_AUTH,
    OLD,
    OPERATOR,
    PRIV,
    SECOND,
    WATCHER,
    SecuredAgent,
    Sent,
    changed,
    pdu,
    read_reply,
)

UNAUTHENTIC = "192.0.2.1"


def counts(agent: SecuredAgent) -> dict[str, int]:
    """Return what was counted, without requests."""
    names = (
        "parse_errors unknown_security_models invalid_messages unknown_pdu_handlers bad_versions "
        "unsupported_security_levels not_in_time_windows unknown_user_names unknown_engine_ids wrong_digests "
        "decryption_errors unavailable_contexts unknown_contexts silent_drops"
    )
    return {name: count for name in names.split() if (count := getattr(agent.counters, name))}


# ---- what is answered ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "level"),
    [(OPERATOR, PRIV), (WATCHER, AUTH), (OLD, PRIV), (OLD, AUTH), (GUEST, NO_AUTH)],
)
def test_a_request_is_answered_at_its_level(user: User, level: SecurityLevel) -> None:
    agent = SecuredAgent()
    agent.now = 3 * SECOND
    answer = agent.ask(replace(GET, user=user, level=level, message_id=77, time=1))
    assert (answer.message_id, answer.level, answer.name) == (77, level, user.name.encode())
    assert (answer.engine_id, answer.boots, answer.time) == (ENGINE_ID, BOOTS, 3)
    assert (answer.pdu_type, answer.request_id, answer.status) == (message.RESPONSE, 9, 0)
    assert answer.varbinds == [(DESCRIPTION, TEXT)]
    assert agent.asked == [(user.name, level, b"")]
    assert (agent.counters.in_packets, agent.counters.get_requests, counts(agent)) == (1, 1, {})


@pytest.mark.parametrize("pdu_type", [message.GET, message.GET_NEXT, message.GET_BULK])
def test_reads_are_those_of_version_2c(pdu_type: int) -> None:
    agent = SecuredAgent()
    oids = [(*ENTRY, 2), (*ENTRY, 101, 1, 1), (1, 3, 9)]
    body = pdu(pdu_type, oids, first=1 if pdu_type == message.GET_BULK else 0, second=0)
    if pdu_type == message.GET_BULK:
        body = pdu(pdu_type, oids, first=1, second=3)
    answer = agent.ask(replace(GET, pdu=body))
    plain = message.preamble(message.VERSION_2C, b"monitoring") + body
    datagram = agent.responder.answer(ber.encode_tlv(ber.SEQUENCE, plain))
    assert isinstance(datagram, bytes)
    expected = message.read_response(datagram)
    assert [ber.encode_name(oid) for oid, _ in answer.varbinds] == expected.names
    assert [value for _, value in answer.varbinds] == expected.values


def test_octets_behind_the_message_are_ignored_and_not_authenticated() -> None:
    assert SecuredAgent().ask(replace(GET, junk=b"anything")).varbinds == [(DESCRIPTION, TEXT)]


def test_a_context_of_the_agent() -> None:
    answer = SecuredAgent().ask(replace(GET, context=b"shop"))
    assert (answer.context, answer.varbinds) == (b"shop", [(DESCRIPTION, TEXT)])


# ---- discovery and time -------------------------------------------------------------------------------


@pytest.mark.parametrize("engine_id", [b"", b"another engine"])
@pytest.mark.parametrize("user", [GUEST, User("no one", minimum=NO_AUTH)])
def test_discovery(engine_id: bytes, user: User) -> None:
    agent = SecuredAgent()
    agent.now = 5 * SECOND
    sent = Sent(user, NO_AUTH, pdu(oids=()), engine_id=engine_id, boots=0, context_engine=b"", message_id=5)
    report = agent.ask(sent)
    assert (report.message_id, report.level, report.request_id) == (5, NO_AUTH, 9)
    assert (report.engine_id, report.boots, report.time) == (ENGINE_ID, BOOTS, 5)
    assert report.counter == ("unknown_engine_ids", 1)
    assert agent.ask(sent).counter == ("unknown_engine_ids", 2)
    assert (counts(agent), agent.asked, agent.suspects) == ({"unknown_engine_ids": 2}, [], [])


@pytest.mark.parametrize(
    ("boots", "time"),
    [(BOOTS, 849), (BOOTS, 1151), (BOOTS - 1, 1000), (BOOTS + 1, 1000), (0, 0), (BOOTS, 2**31 - 1)],
)
def test_a_message_of_another_time_gets_an_authenticated_report(boots: int, time: int) -> None:
    agent = SecuredAgent()
    agent.now = 1000 * SECOND
    report = agent.ask(replace(GET, boots=boots, time=time))
    assert (report.level, report.name, report.boots, report.time) == (AUTH, b"operator", BOOTS, 1000)
    assert report.counter == ("not_in_time_windows", 1)
    assert (report.request_id, agent.asked) == (0, [])  # nothing was decrypted


@pytest.mark.parametrize("time", [850, 1150])
def test_a_message_at_the_edges_of_the_time_window_is_answered(time: int) -> None:
    agent = SecuredAgent()
    agent.now = 1000 * SECOND
    assert agent.ask(replace(GET, time=time)).status == 0


def test_an_engine_whose_boots_are_used_up_accepts_nothing() -> None:
    agent = SecuredAgent(boots=2**31 - 1)
    assert agent.ask(replace(GET, boots=2**31 - 1)).counter == ("not_in_time_windows", 1)


def test_without_authentication_no_time_is_checked() -> None:
    agent = SecuredAgent()
    agent.now = 10_000 * SECOND
    assert agent.ask(Sent(GUEST, NO_AUTH, pdu(), boots=0)).status == 0


# ---- users and levels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [NO_AUTH, AUTH, PRIV])
def test_an_unknown_user(level: SecurityLevel) -> None:
    agent = SecuredAgent()
    report = agent.ask(replace(GET, level=level, name=b"no one"))
    assert (report.level, report.name, report.counter) == (NO_AUTH, b"no one", ("unknown_user_names", 1))
    assert (agent.suspects, agent.asked) == ([UNAUTHENTIC], [])


def test_a_level_that_the_user_has_no_protocols_for() -> None:
    agent = SecuredAgent()
    report = agent.ask(replace(GET, name=b"watcher"))
    assert (report.level, report.counter) == (NO_AUTH, ("unsupported_security_levels", 1))
    report = agent.ask(replace(GET, name=b"guest", level=AUTH))
    assert report.counter == ("unsupported_security_levels", 2)


@pytest.mark.parametrize("pdu_type", [message.GET, message.GET_BULK, message.SET])
def test_a_lower_level_than_the_users_is_an_authorization_error(pdu_type: int) -> None:
    agent = SecuredAgent(writer="operator")
    for user, level in ((OPERATOR, AUTH), (OPERATOR, NO_AUTH), (WATCHER, NO_AUTH), (OLD, NO_AUTH)):
        answer = agent.ask(Sent(user, level, pdu(pdu_type, value=ber.NULL)))
        assert (answer.level, answer.status, answer.index) == (level, message.AUTHORIZATION_ERROR, 0)
        assert answer.varbinds == [(DESCRIPTION, ber.NULL)]
    assert (agent.asked, counts(agent)) == ([], {})
    assert (agent.counters.get_requests, agent.counters.set_requests) == (0, 0)


def test_privacy_without_authentication_is_no_message() -> None:
    agent = SecuredAgent()
    for level in (NO_AUTH, AUTH, PRIV):
        assert agent.is_silent_at(replace(GET, level=level, flags=messages.ENCRYPTED | messages.REPORTABLE))
    assert counts(agent) == {"invalid_messages": 3}


# ---- codes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mac", [b"", bytes(23), bytes(24), bytes(25), bytes(200)])
@pytest.mark.parametrize("level", [AUTH, PRIV])
def test_a_wrong_code(mac: bytes, level: SecurityLevel) -> None:
    agent = SecuredAgent()
    report = agent.ask(replace(GET, mac=mac, level=level))
    assert (report.level, report.counter) == (NO_AUTH, ("wrong_digests", 1))
    assert (agent.suspects, agent.asked) == ([UNAUTHENTIC], [])


def code_of(sent: Sent) -> bytes:
    datagram = sent.encoded()
    header = messages.read_header(datagram)
    return messages.read_security_parameters(datagram, header.start, header.stop).mac


@pytest.mark.parametrize("size", [0, 1, 12, 23])
def test_the_first_octets_of_the_right_code_are_not_enough(size: int) -> None:
    right = code_of(GET)
    assert SecuredAgent().ask(replace(GET, mac=right[:size])).counter == ("wrong_digests", 1)
    assert SecuredAgent().ask(replace(GET, mac=right + bytes(1))).counter == ("wrong_digests", 1)


@pytest.mark.parametrize("level", [AUTH, PRIV])
def test_every_octet_is_authenticated(level: SecurityLevel) -> None:
    whole = replace(GET, level=level).encoded()
    for offset in range(len(whole)):
        agent = SecuredAgent()
        for mask in (0x01, 0x80):
            answer = agent.responder.answer(changed(whole, offset, bytes((whole[offset] ^ mask,))))
            # No answer is a response: it would show something to who has no key.
            if answer is not None:
                assert isinstance(answer, bytes)
                assert read_reply(answer).pdu_type == messages.REPORT or read_reply(answer).level is NO_AUTH
        assert (agent.counters.get_requests, agent.failures) == (0, [])


def test_the_key_of_another_user_or_engine() -> None:
    for other in (
        credentials("operator", SHA256, "another one", AES128, "privpassphrase").at(ENGINE_ID),
        credentials("operator", SHA256, "authpassphrase", AES128, "privpassphrase").at(b"elsewhere"),
    ):
        assert SecuredAgent().ask(replace(GET, user=other)).counter == ("wrong_digests", 1)


# ---- decryption ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("salt", [b"", bytes(7), bytes(9)])
def test_a_salt_of_another_size(salt: bytes) -> None:
    agent = SecuredAgent()
    report = agent.ask(replace(GET, salt=salt))
    assert (report.level, report.counter, report.request_id) == (NO_AUTH, ("decryption_errors", 1), 0)


def test_what_decrypts_to_no_scoped_pdu() -> None:
    """The user has another privacy passphrase than the agent: the report says so to that user."""
    other = credentials("operator", SHA256, "authpassphrase", AES128, "another one").at(ENGINE_ID)
    agent = SecuredAgent()
    assert agent.ask(replace(GET, user=other)).counter == ("decryption_errors", 1)
    assert agent.ask(replace(GET, data=ber.encode_octets(b""))).counter == ("decryption_errors", 2)
    old = replace(GET, user=OLD)
    assert agent.ask(replace(old, data=ber.encode_octets(bytes(15)))).counter == ("decryption_errors", 3)
    assert (agent.asked, agent.suspects) == ([], [])


def test_nothing_is_decrypted_before_the_code_was_compared() -> None:
    agent = SecuredAgent()
    report = agent.ask(replace(GET, data=ber.encode_octets(bytes(15)), user=OLD, mac=bytes(12)))
    assert report.counter == ("wrong_digests", 1)


def test_a_valid_scoped_pdu_with_an_invalid_pdu_in_it() -> None:
    agent = SecuredAgent()
    assert agent.is_silent_at(replace(GET, pdu=ber.encode_tlv(message.GET, b"\x02\x01\x01")))
    assert counts(agent) == {"parse_errors": 1}


# ---- other messages -----------------------------------------------------------------------------------


def test_what_is_encrypted_must_be_said_to_be() -> None:
    agent = SecuredAgent()
    assert agent.is_silent_at(replace(GET, flags=5))  # an OCTET STRING in place of the ScopedPDU
    scoped = ber.encode_tlv(ber.SEQUENCE, b"")
    assert agent.is_silent_at(replace(GET, data=scoped))
    assert counts(agent) == {"parse_errors": 2}


def test_another_security_model() -> None:
    agent = SecuredAgent()
    for model in (1, 2, 4, 2**31 - 1):
        assert agent.is_silent_at(replace(GET, model=model))
    assert counts(agent) == {"unknown_security_models": 4}


def test_an_agent_without_users_of_version_3_does_not_know_it() -> None:
    agent = SecuredAgent()
    assert agent.small.is_silent_at(GET.encoded())
    assert counts(agent) == {"bad_versions": 1}


def test_a_message_that_is_too_long_is_not_read() -> None:
    agent = SecuredAgent()
    assert agent.is_silent_at(replace(GET, pdu=pdu(oids=[DESCRIPTION] * 4_675)))
    assert counts(agent) == {"parse_errors": 1}


@pytest.mark.parametrize("level", [AUTH, PRIV])
def test_an_unknown_and_an_unavailable_context(level: SecurityLevel) -> None:
    agent = SecuredAgent()
    user = OPERATOR if level is PRIV else WATCHER
    report = agent.ask(replace(GET, user=user, level=level, context=b"elsewhere"))
    assert (report.level, report.context, report.request_id) == (level, b"elsewhere", 9)
    assert report.counter == ("unknown_contexts", 1)
    report = agent.ask(replace(GET, user=user, level=level, context=b"closed"))
    assert report.counter == ("unavailable_contexts", 1)


def test_the_objects_of_another_engine() -> None:
    report = SecuredAgent().ask(replace(GET, context_engine=b"another engine"))
    assert report.counter == ("unknown_pdu_handlers", 1)


def test_an_inform_is_reported_and_other_notifications_responses_and_reports_are_not() -> None:
    agent = SecuredAgent()
    assert agent.ask(replace(GET, pdu=pdu(message.INFORM))).counter == ("unknown_pdu_handlers", 1)
    for pdu_type in (message.TRAP_V2, message.TRAP_V1, message.RESPONSE, messages.REPORT):
        assert agent.is_silent_at(replace(GET, pdu=pdu(pdu_type)))
    assert counts(agent) == {"unknown_pdu_handlers": 5}


@pytest.mark.parametrize("pdu_type", [message.RESPONSE, messages.REPORT, message.TRAP_V2])
def test_what_needs_no_answer_is_not_answered_with_a_report(pdu_type: int) -> None:
    agent = SecuredAgent()
    sent = replace(GET, level=AUTH, pdu=pdu(pdu_type))
    for wrong in ({"engine_id": b""}, {"name": b"no one"}, {"mac": bytes(24)}, {"boots": 1}):
        assert agent.is_silent_at(replace(sent, **wrong))
    assert counts(agent) == {
        "unknown_engine_ids": 1,
        "unknown_user_names": 1,
        "wrong_digests": 1,
        "not_in_time_windows": 1,
    }


def test_what_says_so_is_not_answered_with_a_report() -> None:
    agent = SecuredAgent()
    for wrong in ({"engine_id": b""}, {"name": b"no one"}, {"mac": bytes(24)}, {"boots": 1}, {"salt": b""}):
        assert agent.is_silent_at(replace(GET, flags=3, **wrong))
    assert agent.is_silent_at(replace(GET, flags=3, context=b"elsewhere"))
    assert sum(counts(agent).values()) == 6
    assert agent.ask(replace(GET, flags=3)).status == 0  # a response is no report


# ---- sizes --------------------------------------------------------------------------------------------


@given(
    st.integers(484, 1500),
    st.sampled_from([(OPERATOR, PRIV), (OLD, PRIV), (WATCHER, AUTH), (GUEST, NO_AUTH)]),
)
def test_an_answer_is_no_longer_than_the_manager_takes(size: int, who: tuple[User, SecurityLevel]) -> None:
    agent = SecuredAgent()
    sent = replace(GET, user=who[0], level=who[1], max_size=size)
    for pdu_type in (message.GET, message.GET_NEXT):
        for count in (1, 17, 40, 60):
            datagram = agent.responder.answer(
                replace(sent, pdu=pdu(pdu_type, [DESCRIPTION] * count)).encoded()
            )
            assert isinstance(datagram, bytes)
            answer = read_reply(datagram)
            assert len(datagram) <= size
            if answer.status == message.TOO_BIG:
                assert (answer.varbinds, count > 1) == ([], True)
            else:
                assert len(answer.varbinds) == count
    bulk = replace(sent, pdu=pdu(message.GET_BULK, [DESCRIPTION[:-1]] * 30, second=10))
    datagram = agent.responder.answer(bulk.encoded())
    assert isinstance(datagram, bytes)
    assert size - 80 < len(datagram) <= size
    assert len(read_reply(datagram).varbinds) > 5


def test_the_own_limit_holds_too() -> None:
    agent = SecuredAgent(Limits(message_size=600))
    answer = agent.ask(replace(GET, pdu=pdu(oids=[DESCRIPTION] * 25)))
    assert (answer.status, answer.varbinds) == (message.TOO_BIG, [])
    assert agent.counters.silent_drops == 0


def test_with_the_longest_names_and_the_shortest_buffer_there_is_room_to_say_too_big() -> None:
    user = credentials("n" * 32, SHA512, "authpassphrase", AES128, "privpassphrase").at(ENGINE_ID)
    agent = SecuredAgent(users=(user,))
    sent = replace(GET, user=user, context=LONG_CONTEXT, max_size=484)
    answer = agent.ask(replace(sent, pdu=pdu(oids=[DESCRIPTION] * 2)))
    assert (answer.status, answer.varbinds, counts(agent)) == (message.TOO_BIG, [], {})
    assert agent.ask(replace(sent, max_size=600)).varbinds == [(DESCRIPTION, TEXT)]


# ---- any octets ---------------------------------------------------------------------------------------


@given(st.binary(max_size=250))
def test_any_octets_give_an_answer_or_silence(octets: bytes) -> None:
    agent = SecuredAgent()
    for datagram in (
        octets,
        b"\x30\x82" + len(octets + bytes(3)).to_bytes(2, "big") + b"\x02\x01\x03" + octets,
    ):
        answer = agent.responder.answer(datagram)
        assert answer is None or isinstance(answer, bytes)
    assert agent.failures == []


@given(st.binary(max_size=120), st.sampled_from([message.GET, message.GET_BULK, message.SET]))
def test_any_octets_in_an_authentic_message(octets: bytes, pdu_type: int) -> None:
    agent = SecuredAgent()
    for sent in (
        replace(GET, pdu=ber.encode_tlv(pdu_type, octets)),
        replace(GET, data=ber.encode_octets(octets)),
        replace(GET, level=AUTH, data=ber.encode_tlv(ber.SEQUENCE, octets)),
    ):
        answer = agent.responder.answer(sent.encoded())
        assert answer is None or isinstance(answer, bytes)
    assert agent.failures == []
