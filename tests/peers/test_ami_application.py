"""The session of an application, by itself and with a relay of ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gateway.dialects.ami.instructions import (
    Command,
    Exit,
    Help,
    Login,
    ObjectUpdate,
    Option,
    Outbound,
    Reply,
    Response,
    Selection,
    Status,
)
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import Note
from gateway.model.operations import Answer, Outcome
from tests.dialects.ami.relay_play import START, RelayPlay
from tests.peers.ami_application import (
    Acknowledged,
    ApplicationConfig,
    ApplicationEffect,
    ApplicationSession,
    Asked,
    Sent,
    State,
    Unacknowledged,
)

NOW = START
NAMED = ApplicationConfig("pump-7")


def application(config: ApplicationConfig = NAMED) -> ApplicationSession:
    return ApplicationSession(config)


class Conversation:
    """An application and a relay, and the effects that the application reported."""

    def __init__(self, session: ApplicationSession) -> None:
        self.session = session
        self.relay = RelayPlay()
        self.relay.connects()
        self.reported: list[ApplicationEffect] = []
        self.carry(session.connected(self.relay.now))

    def says(self, instruction: Outbound) -> None:
        self.carry(self.session.send(instruction, self.relay.now))

    def carry(self, effects: list[ApplicationEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Sent):
                self.relay.says_octets(effect.octets)
                self.answered(self.relay.left())
            else:
                self.reported.append(effect)

    def answered(self, steps: Iterable[object]) -> None:
        for step in steps:
            if isinstance(step, str) and step.startswith("1< "):
                self.carry(self.session.received(f"{step[3:]}\n".encode()))


def test_an_application_publishes_and_gets_its_acknowledgement() -> None:
    talk = Conversation(application(replace(NAMED, metrics={"site": "north"})))
    talk.says(ObjectUpdate("Tank", "t1", values={"level": 3}))
    talk.says(ObjectUpdate("Tank", "t1", values={"a": 1, "_": "x" * 300}))
    assert [effect.reply.text for effect in talk.reported if isinstance(effect, Acknowledged)] == [
        "Welcome to AMI v1.0",
        "ACK",
        "ACK",
    ]
    assert talk.session.state is State.READY


def test_an_application_answers_what_is_called() -> None:
    talk = Conversation(application())
    talk.says(Command("halt", "Halt", selection=Selection(0, 0)))
    talk.relay.time_passes(1)
    talk.relay.left()
    talk.relay.calls("halt")
    talk.answered(talk.relay.left())
    asked = next(effect for effect in talk.reported if isinstance(effect, Asked))
    (sent,) = talk.session.respond(Response(asked.execute.request_id, 0, "halted"), talk.relay.now)
    assert isinstance(sent, Sent)
    talk.relay.says_octets(sent.octets)
    assert Answer(7, Outcome.APPLIED, "halted", 0, (None,)) in talk.relay.left()
    with pytest.raises(LocalProtocolError):
        talk.session.respond(Response(asked.execute.request_id, 0), talk.relay.now)


def test_instructions_are_numbered_and_timed() -> None:
    session = application(
        replace(NAMED, options=frozenset({Option.UNIX}), plugin="org.example.P", metrics={"a": 1})
    )
    assert session.connected(NOW) == [Sent(b'L#0@1700000000000|I="pump-7"|O="UNIX"|PL="org.example.P"|a=1\n')]
    assert session.send(Status({"a": 2}), NOW) == [Sent(b"S#1@1700000000000|a=2\n")]
    session = application(replace(NAMED, timed=False))
    assert session.connected(NOW) == [Sent(b'L#0|I="pump-7"\n')]


def test_replies_come_in_any_order() -> None:
    session = application()
    session.connected(NOW)
    session.send(Help(), NOW)
    assert session.received(b"M|Q=1|S=0\nM|Q=0|S=0\n\rM|Q=7|S=0\n") == [
        Acknowledged(Help(), Reply(1, 0)),
        Acknowledged(Login("pump-7"), Reply(0, 0)),
        Note("unexpected-reply", "to number 7"),
    ]


def test_who_is_refused_says_nothing_more() -> None:
    session = application()
    session.connected(NOW)
    session.received(b'M|Q=0|S=1|M="no"\n')
    assert session.state is State.REFUSED
    with pytest.raises(LocalProtocolError):
        session.send(Help(), NOW)


def test_a_quiet_application_waits_for_nothing() -> None:
    session = application(replace(NAMED, options=frozenset({Option.QUIET})))
    session.connected(NOW)
    assert session.state is State.READY
    session.send(Help(), NOW)
    assert session.ended() == []


def test_what_was_not_answered_is_reported_when_the_connection_ends() -> None:
    session = application()
    session.connected(NOW)
    session.send(Help(), NOW)
    assert session.ended() == [Unacknowledged(Login("pump-7")), Unacknowledged(Help())]
    assert session.connected(NOW)[0] == Sent(b'L#0@1700000000000|I="pump-7"\n')


def test_it_ends_in_good_order() -> None:
    session = application()
    session.connected(NOW)
    session.received(b"M|Q=0|S=0\n")
    session.send(Exit(), NOW)
    assert session.state is State.OVER
    with pytest.raises(LocalProtocolError):
        session.send(Help(), NOW)
    assert session.ended() == []


def test_an_application_logs_in_once() -> None:
    session = application()
    session.connected(NOW)
    with pytest.raises(LocalProtocolError):
        session.connected(NOW)
    with pytest.raises(LocalProtocolError):
        session.send(Login("other"), NOW)


def test_what_cannot_be_said_changes_nothing() -> None:
    session = application()
    session.connected(NOW)
    with pytest.raises(LocalProtocolError):
        session.send(Status({"I": 1}), NOW)
    assert session.send(Help(), NOW) == [Sent(b"H#1@1700000000000\n")]


def test_what_a_relay_does_not_say_is_noted() -> None:
    session = application()
    session.connected(NOW)
    notes = session.received(b"bad\nH\n" + b"x" * (2 << 20))
    assert [note.event for note in notes if isinstance(note, Note)] == [
        "protocol-error",
        "unexpected-line",
        "protocol-error",
    ]


def test_what_waits_is_bounded() -> None:
    session = application(replace(NAMED, waiting=1))
    session.connected(NOW)
    assert Unacknowledged(Login("pump-7")) in session.send(Help(), NOW)
    session.received(b'E|I="1"|C="a"|U="u"\nE|I="2"|C="a"|U="u"\n')
    with pytest.raises(LocalProtocolError):
        session.respond(Response("1", 0), NOW)
    assert session.respond(Response("2", 0), NOW)
