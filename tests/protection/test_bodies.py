"""Protection of a conversation: what leaves is sealed, what arrives is opened, or refused with a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.session import Delivery, Note, Send
from gateway.model.times import HOUR, MILLISECOND, SECOND
from gateway.protection.envelope import CONTENT_TYPE, MAX_BODY, Refusal
from gateway.protection.keys import Use, generated, revoked, rotated
from tests.protection.parties import LATE, NOW, Side, protection, two_sides

SEND = Send("qpid.management", "agent.1", b"AM2G the name", "reply-7", "text/x", "42", message_id="m-1")


def delivered(sent: Send | Note, user: str = "agent") -> Delivery:
    """Return what the broker delivers of a sealed message."""
    assert isinstance(sent, Send)
    return Delivery(
        sent.exchange,
        sent.routing_key,
        sent.body,
        sent.reply_to,
        user,
        sent.content_type,
        sent.correlation_id,
        timestamp=NOW // SECOND * SECOND,
        expiration=sent.expiration,
        message_id=sent.message_id,
    )


def arrival(send: Send = SEND) -> Delivery:
    """Return a sealed message as the broker delivers it, and forget the keys."""
    agent, _ = two_sides()
    return delivered(protection(agent).seal(send, "agent", NOW))


def test_the_session_gets_what_the_sender_sent() -> None:
    agent, console = two_sides()
    sealed = protection(agent).seal(
        replace(SEND, not_after=NOW + 5 * SECOND), "agent", NOW + 250 * MILLISECOND
    )
    assert isinstance(sealed, Send)
    assert sealed.content_type == CONTENT_TYPE
    opened = protection(console).open(delivered(sealed), NOW)
    assert opened == Delivery(
        "qpid.management",
        "agent.1",
        b"AM2G the name",
        "reply-7",
        "agent",
        "text/x",
        "42",
        timestamp=NOW + 250 * MILLISECOND,
        expiration=4750,
        message_id="m-1",
    )


def test_address_and_deadline_of_a_message_stay_as_they_are() -> None:
    agent, _ = two_sides()
    send = replace(SEND, not_after=NOW + SECOND, mandatory=True)
    sealed = protection(agent).seal(send, "agent", NOW)
    assert isinstance(sealed, Send)
    assert replace(sealed, body=send.body, content_type=send.content_type) == send


@pytest.mark.parametrize(
    "changed",
    [
        {"exchange": "amq.direct"},
        {"routing_key": "agent.2"},
        {"reply_to": "another"},
        {"correlation_id": "43"},
        {"user_id": "another"},
    ],
    ids=str,
)
def test_a_message_that_was_led_elsewhere_is_refused(changed: dict[str, str]) -> None:
    agent, console = two_sides()
    receiver = protection(console)
    honest = delivered(protection(agent).seal(SEND, "agent", NOW))
    altered: Delivery = replace(honest, **changed)  # type: ignore[arg-type]
    refused = receiver.open(altered, NOW)
    assert isinstance(refused, Note)
    assert refused.event == "refused-body-rerouted"
    assert receiver.refusals == {Refusal.REROUTED: 1}


@pytest.mark.parametrize("changed", [{"timestamp": 1}, {"expiration": 9}, {"message_id": "another"}], ids=str)
def test_other_properties_are_those_that_were_signed(changed: dict[str, int | str]) -> None:
    agent, console = two_sides()
    honest = delivered(protection(agent).seal(SEND, "agent", NOW))
    altered: Delivery = replace(honest, **changed)  # type: ignore[arg-type]
    opened = protection(console).open(altered, NOW)
    assert isinstance(opened, Delivery)
    assert (opened.timestamp, opened.expiration, opened.message_id) == (NOW, 0, "m-1")


def test_a_plain_body_is_refused() -> None:
    _, console = two_sides()
    receiver = protection(console)
    refused = receiver.open(replace(arrival(), content_type="", body=b"AM2G"), NOW)
    assert isinstance(refused, Note)
    assert receiver.refusals == {Refusal.PLAIN: 1}


def test_a_replayed_body_is_refused() -> None:
    agent, console = two_sides()
    receiver, delivery = protection(console), delivered(protection(agent).seal(SEND, "agent", NOW))
    assert isinstance(receiver.open(delivery, NOW), Delivery)
    assert isinstance(receiver.open(delivery, NOW), Note)
    assert (receiver.opened, receiver.refusals) == (1, {Refusal.REPLAYED: 1})


def test_a_late_body_is_refused() -> None:
    agent, console = two_sides()
    receiver, delivery = protection(console), delivered(protection(agent).seal(SEND, "agent", NOW))
    refused = receiver.open(delivery, NOW + (LATE + 1000) * MILLISECOND)
    assert isinstance(refused, Note)
    assert refused.detail.startswith("to 'agent.1': was signed 301 s ago by ")
    assert receiver.refusals == {Refusal.LATE: 1}


def test_no_note_has_a_word_of_the_content() -> None:
    _, console = two_sides()
    for body in (b"AM2G the name", arrival().body[:-1], arrival().body):
        note = protection(console).open(replace(arrival(), body=body), NOW)
        assert isinstance(note, Note)
        assert "the name" not in note.detail


def test_after_a_rotation_the_former_key_is_accepted_until_the_end_of_the_overlap() -> None:
    agent, console = two_sides()
    before = protection(agent).seal(SEND, "agent", NOW)
    agent.own = rotated(agent.own, NOW, NOW, HOUR)
    console.peers = [agent.own.public()]
    after = protection(agent, boot=8).seal(SEND, "agent", NOW + SECOND)
    receiver = protection(console)
    assert isinstance(receiver.open(delivered(before), NOW + SECOND), Delivery)
    assert isinstance(receiver.open(delivered(after), NOW + SECOND), Delivery)
    assert delivered(before).body != delivered(after).body
    last = NOW + HOUR - SECOND
    assert console.sender_key(agent.own.keys[0].kid, last) is not None
    assert console.sender_key(agent.own.keys[0].kid, NOW + HOUR) is None
    assert isinstance(receiver.open(delivered(before), NOW + HOUR), Note)


def test_a_revoked_key_is_refused_at_once() -> None:
    agent, console = two_sides()
    sealed = protection(agent).seal(SEND, "agent", NOW)
    kid = agent.own.keys[0].kid
    console.peers = [revoked(agent.own, kid, NOW).public()]
    receiver = protection(console)
    assert isinstance(receiver.open(delivered(sealed), NOW), Note)
    assert receiver.refusals == {Refusal.UNKNOWN_SENDER: 1}


def test_a_body_that_comes_back_to_its_sender_is_ignored() -> None:
    agent, _ = two_sides()
    both = protection(agent)
    assert both.open(delivered(both.seal(SEND, "agent", NOW)), NOW) is None
    assert (both.ignored, both.refusals) == (1, {})


def test_nothing_is_sent_plain_where_a_key_is_missing() -> None:
    agent, _ = two_sides()
    for side in (
        Side(generated([Use.READ], NOW), agent.peers),
        Side(agent.own, [generated([Use.SIGN], NOW)]),
    ):
        note = protection(side).seal(SEND, "agent", NOW)
        assert isinstance(note, Note)
        assert note.event == "not-sealed"
        assert "keys list" in note.detail


def test_a_body_that_is_too_long_is_not_sent() -> None:
    agent, _ = two_sides()
    sealing = protection(agent)
    assert isinstance(sealing.seal(replace(SEND, body=bytes(MAX_BODY + 1)), "agent", NOW), Note)
    assert sealing.sealed == 0
