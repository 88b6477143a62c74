"""The traffic of a listener's connections is captured, and can be replayed."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gateway.dialects.session import (
    BytesReceived,
    Close,
    Effect,
    ListenerStops,
    Peer,
    PeerConnected,
    PeerDisconnected,
    TimerExpired,
    WakeAt,
    Write,
)
from gateway.links.capture import CapturedSession
from gateway.links.capture_file import AS_RELAY
from gateway.links.capture_reading import CaptureError, captured_files
from gateway.links.replay import Outcome, replay
from gateway.model.times import SECOND
from tests.components.scripted_session import ScriptedSession
from tests.links.captures import START, AskingSession, LeftCapture, capture_file, converse, lines, reading


class GreetingSession(ScriptedSession):
    """A session that greets, sends octets back, and closes the connection at ``bye``."""

    def __init__(self, greeting: bytes = b"hello") -> None:
        self.greeting = greeting

    def opened(self, connection: int, peer: Peer, now: int) -> list[Effect]:
        return [Write(connection, self.greeting + peer.name.encode()), WakeAt(now + SECOND)]

    def received_bytes(self, connection: int, octets: bytes, now: int) -> list[Effect]:
        assert now
        return [Write(connection, octets), *([Close(connection)] if octets == b"bye" else [])]

    def ended(self, connection: int, reason: str, now: int) -> list[Effect]:
        assert connection
        assert reason
        return [WakeAt(now + SECOND)]

    def stopping(self, now: int) -> list[Effect]:
        assert now
        return [Write(2, b"end")]

    def tick(self, now: int) -> list[Effect]:
        assert now
        return [Write(1, b"tick")]


def stream_capture(path: Path, largest_file: int = 1 << 20) -> None:
    file = LeftCapture(path, "orders", "ami", AS_RELAY, START, largest_file=largest_file)
    session = CapturedSession(GreetingSession(), file)
    session.handle(PeerConnected(1, Peer("127.0.0.1")), START)
    session.handle(PeerConnected(2, Peer("127.0.0.1", "app")), START + 1)
    session.handle(TimerExpired(), START + SECOND + 2)
    session.handle(BytesReceived(1, b"\xff\0"), START + SECOND + 3)
    session.handle(BytesReceived(1, b"bye"), START + SECOND + 4)
    session.handle(PeerDisconnected(1, "the gateway closed it"), START + SECOND + 5)
    session.handle(BytesReceived(2, b"result"), START + SECOND + 6)
    session.handle(ListenerStops(), START + SECOND + 7)


def test_connections_are_captured_as_documented(tmp_path: Path) -> None:
    stream_capture(tmp_path / "orders.jsonl")

    reported = [{key: line[key] for key in line if key != "ns"} for line in lines(tmp_path / "orders.jsonl")]

    assert reported[0]["received"] == "to-relay"
    assert reported[1:5] == [
        {"event": "opened", "connection": 1, "address": "127.0.0.1", "name": ""},
        {"dir": "to-application", "connection": 1, "body_b64": base64.b64encode(b"hello").decode()},
        {"event": "opened", "connection": 2, "address": "127.0.0.1", "name": "app"},
        {"dir": "to-application", "connection": 2, "body_b64": base64.b64encode(b"helloapp").decode()},
    ]
    assert {"dir": "to-application", "connection": 1, "close": True} in reported


def test_connections_are_replayed(tmp_path: Path) -> None:
    stream_capture(tmp_path / "orders.jsonl")

    assert replay(reading(tmp_path / "orders.jsonl"), GreetingSession()) == Outcome(events=8, same=8)
    other = replay(reading(tmp_path / "orders.jsonl"), GreetingSession(b"good day"))
    assert [difference.line for difference in other.differences] == [2, 4]


def test_a_later_part_begins_with_the_connections_that_were_open(tmp_path: Path) -> None:
    stream_capture(tmp_path / "orders.jsonl", largest_file=900)
    files = captured_files(tmp_path / "orders.jsonl")

    assert len(files) > 1
    assert lines(files[-1])[0]["open"] == [{"connection": 2, "address": "127.0.0.1", "name": "app"}]
    outcome = replay(reading(files[-1]), GreetingSession())
    assert outcome.events >= 2


def test_a_capture_of_another_kind_is_refused(tmp_path: Path) -> None:
    converse(CapturedSession(AskingSession(), capture_file(tmp_path / "shop.jsonl")))
    with pytest.raises(CaptureError, match="line 2: GreetingSession takes no LinkUp"):
        replay(reading(tmp_path / "shop.jsonl"), GreetingSession())
