"""The events and effects of a session are captured, and can be replayed to it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.clock import SystemClock
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.session import (
    BacklogFollows,
    Binding,
    Delivery,
    Effect,
    LinkDown,
    LinkUp,
    LossSuspected,
    NotSent,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.links import capture_reading
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.capture import CapturedSession
from gateway.links.capture_file import AS_CONSOLE
from gateway.links.capture_reading import CaptureError, read_capture
from gateway.links.replay import Difference, Outcome, replay
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import SourceState, SourceStateSeen
from gateway.model.times import SECOND
from tests.components.amqp_peer import AmqpPeer
from tests.components.waiting import eventually
from tests.links.captures import (
    REQUEST,
    START,
    AskingSession,
    LeftCapture,
    Seen,
    answer,
    capture_file,
    converse,
    lines,
    reading,
)


def test_a_capture_as_documented(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    session = CapturedSession(AskingSession(), capture_file(path))
    session.handle(LinkUp("q"), START)
    session.handle(answer(1), START + 1)

    head, connected, sent, received = lines(path)
    assert head.pop("warning").startswith(
        "Bodies are recorded as they were on the wire: they may contain passwords"
    )
    assert head == {
        "capture": 1,
        "source": "shop",
        "dialect": "cml",
        "received": "to-console",
        "sent": "to-agent",
        "part": 1,
        "ns": START,
    }
    assert connected == {"ns": START, "event": "connected", "reply_to": "q"}
    assert sent == {
        "ns": START,
        "dir": "to-agent",
        "exchange": "amq.system",
        "routing_key": "amq.console",
        "reply_to": "q",
        "message_id": "1",
        "mandatory": True,
        "body_b64": base64.b64encode(b"<ask/>").decode(),
    }
    assert received == {
        "ns": START + 1,
        "dir": "to-console",
        "exchange": "amq.direct",
        "routing_key": "q",
        "content_type": "text/xml",
        "message_id": "1",
        "body_b64": base64.b64encode(b"<answer/>").decode(),
    }


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    capture_file(tmp_path / "shop.jsonl")
    assert stat.S_IMODE((tmp_path / "shop.jsonl").stat().st_mode) == 0o600


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    path.write_text("precious", encoding="ascii")
    with pytest.raises(FileExistsError):
        capture_file(path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        capture_file(path)


def test_the_same_session_says_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    converse(CapturedSession(AskingSession(), capture_file(path)))
    seen = Seen()

    outcome = replay(reading(path), AskingSession(), seen)

    assert outcome == Outcome(events=8, same=4)
    assert seen.observations == [SourceStateSeen(SourceState.SYNCHRONISED)]
    assert seen.times[0] == START
    assert seen.times[-1] == START + 100 * SECOND


def test_what_is_said_otherwise_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    converse(CapturedSession(AskingSession(), capture_file(path)), answers=1)

    outcome = replay(reading(path), AskingSession(b"<other/>"))

    assert (outcome.same, outcome.different) == (0, 2)
    first = outcome.differences[0]
    assert first.line == 2
    assert first.captured is not None
    assert first.replayed is not None
    assert base64.b64decode(first.captured["body_b64"]) == b"<ask/>"
    assert base64.b64decode(first.replayed["body_b64"]) == b"<other/>"


def test_what_is_said_no_more_or_only_now_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    session = CapturedSession(AskingSession(), capture_file(path))
    session.handle(LinkUp("q"), START)
    reported = path.read_text(encoding="utf-8").splitlines(keepends=True)

    silent = read_capture(io.BytesIO("".join(reported[:2]).encode()))
    (only_now,) = replay(silent, AskingSession()).differences
    assert (only_now.line, only_now.captured) == (2, None)

    double = read_capture(io.BytesIO("".join([*reported, reported[-1]]).encode()))
    assert replay(double, AskingSession()).differences == [
        Difference(
            2,
            {key: value for key, value in json.loads(reported[-1]).items() if key not in ("ns", "dir")},
            None,
        )
    ]


def test_losses_and_what_was_not_sent_are_replayed_too(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    session = AskingSession()
    captured = CapturedSession(session, capture_file(path))
    captured.handle(BacklogFollows("away", 3), START)
    captured.handle(LinkUp("q"), START)
    captured.handle(LossSuspected("doubt", START + 1), START + 2)
    captured.handle(NotSent([REQUEST], "returned"), START + 3)

    assert replay(reading(path), AskingSession()) == Outcome(events=4, same=4)


def test_a_session_is_woken_where_the_captured_one_was_not(tmp_path: Path) -> None:
    """The code of the session may have changed; different effects are reported as a difference."""
    path = tmp_path / "shop.jsonl"
    session = CapturedSession(AskingSession(), capture_file(path))
    session.handle(LinkUp("q"), START)
    session.handle(answer(1), START)
    session.handle(LinkDown("it broke"), START + 100 * SECOND)

    outcome = replay(reading(path), AskingSession())

    assert (outcome.events, outcome.same, outcome.different) == (4, 1, 1)


def test_a_waking_that_is_not_wanted_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    CapturedSession(AskingSession(), capture_file(path)).handle(TimerExpired(), START)

    outcome = replay(reading(path), AskingSession())

    assert (outcome.events, outcome.different) == (0, 1)


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_reading, "LONGEST_LINE", 300)
    with pytest.raises(CaptureError, match=r"^line 2: it is longer than 300 octets$"):
        replay(read_capture(io.BytesIO(head() + b"x" * 301)), AskingSession())


def test_any_text_can_be_captured(tmp_path: Path) -> None:
    session = CapturedSession(AskingSession(), capture_file(tmp_path / "shop.jsonl"))
    session.handle(LinkDown("a name \ud800 that is no Unicode"), START)
    outcome = replay(reading(tmp_path / "shop.jsonl"), AskingSession())
    assert outcome == Outcome(events=1)


def test_a_body_that_alone_would_fill_a_file_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    session = CapturedSession(AskingSession(), capture_file(path, largest_file=4000))
    session.handle(answer(1, bytes(4000)), START)

    assert lines(path)[1]["omitted"] is True
    with pytest.raises(CaptureError, match="line 2: its body was too large to be captured"):
        replay(reading(path), AskingSession())


def test_a_disk_that_fails_ends_the_capture_only(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "shop.jsonl"
    path.parent.mkdir()
    file = capture_file(path, largest_file=2000)
    path.rename(tmp_path / "moved")
    path.parent.rmdir()
    session = AskingSession()
    converse(CapturedSession(session, file), answers=30)

    assert session.asked == 31
    assert file.trouble.endswith("No such file or directory: the capture has ended")


def test_a_line_that_was_not_finished_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    converse(CapturedSession(AskingSession(), capture_file(path)))
    octets = path.read_bytes()

    whole = replay(read_capture(io.BytesIO(octets)), AskingSession())
    cut = replay(read_capture(io.BytesIO(octets[:-1])), AskingSession())

    assert cut.events == whole.events - 1


def test_a_console_of_qmf_says_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    config = ConsoleConfig(trust_anyone=True)
    captured = CapturedSession(ConsoleSession(config), LeftCapture(path, "shop", "qmf", AS_CONSOLE, START))
    captured.handle(LinkUp("q"), START)
    broker = Delivery("amq.direct", "q", b"AM2b\0\0\0\0" + bytes(16))
    captured.handle(broker, START + SECOND)
    captured.handle(Delivery("amq.direct", "q", b"nonsense"), START + 2 * SECOND)
    captured.handle(TimerExpired(), START + 60 * SECOND)
    captured.handle(LinkDown("it broke"), START + 61 * SECOND)

    outcome = replay(reading(path), ConsoleSession(config))

    assert outcome.same >= 2
    assert not outcome.differences


async def test_what_a_link_carried_is_replayed(tmp_path: Path) -> None:
    """The capture is made with a broker on a real socket, and the clock of this machine."""
    path = tmp_path / "shop.jsonl"
    file, clock = capture_file(path), SystemClock()
    session = AskingSession()
    captured = CapturedSession(session, file)
    conversation = MessageDriver("shop", captured, lambda _: None, clock, Counter())
    role = AmqpRole("cml", lambda queue: [Binding("amq.direct", queue)])

    async def answered_twice() -> bool:
        return len([line for line in lines(path) if line.get("dir") == "to-console"]) > 1

    async with AmqpPeer() as peer:
        endpoint = AmqpEndpoint(
            f"amqp://127.0.0.1:{peer.port}", "/", "super", SecretStr("hidden"), heartbeat=2
        )
        link = asyncio.create_task(AmqpLink(endpoint, role, conversation, clock).run())
        await eventually(answered_twice, "two answers, one second apart")
        link.cancel()
        await asyncio.wait({link})
    conversation.stop()
    file.close()

    outcome = replay(reading(path), AskingSession())

    assert not outcome.differences
    assert outcome.same == session.asked


def head(**changed: object) -> bytes:
    reported = {
        "capture": 1,
        "source": "s",
        "dialect": "d",
        "received": "in",
        "sent": "out",
        "part": 1,
        "ns": 1,
    }
    return json.dumps({**reported, **changed}).encode() + b"\n"


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (b"", "there is no whole line in it: it is empty, or was cut off"),
        (head()[:-9], "there is no whole line in it: it is empty, or was cut off"),
        (b"{}\n", "line 1: 'capture' is not 1: this is not a capture, or a newer one"),
        (b"[]\n", "line 1: it is not a JSON object"),
        (b"\xff\n", "line 1: it is not JSON"),
        (b"[" * 100_000 + b"\n", "line 1: it is not JSON"),
        (head(ns=-1), "line 1: 'ns' is not a whole number below 2\\^63"),
        (head(ns=True), "line 1: 'ns' is not a whole number below 2\\^63"),
        (head(source=3), "line 1: 'source' is not a text"),
        (head(reply_to=3), "line 1: 'reply_to' is not a text"),
        (head() + b"{}\n", "line 2: 'dir' is not a text"),
        (head() + b'{"event":"connected","ns":1}\n', "line 2: 'reply_to' is not a text"),
        (head() + b'{"event":"opened","ns":1}\n', "line 2: 'address' is not a text"),
        (head() + b'{"event":"stopping","ns":1}\n', "line 2: AskingSession takes no ListenerStops"),
        (head() + b'{"event":"other","ns":1}\n', "line 2: 'other' is not an event of a session"),
        (head() + b'{"event":"unsent","ns":1,"sends":[1]}\n', "line 2: 'sends' is not a list of objects"),
        (
            head() + b'{"dir":"in","ns":1,"exchange":"","routing_key":"","body_b64":"?"}\n',
            "line 2: 'body_b64' is not base64",
        ),
        (
            head() + b'{"dir":"out","ns":1,"exchange":"","routing_key":"","body_b64":"","mandatory":1}\n',
            "line 2: 'mandatory' is not true or false",
        ),
    ],
)
def test_what_is_no_capture_is_refused(octets: bytes, said: str) -> None:
    with pytest.raises(CaptureError, match=f"^{said}$"):
        replay(read_capture(io.BytesIO(octets)), AskingSession())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    ["ns", "dir", "event", "exchange", "routing_key", "body_b64", "reply_to", "sends", "since"]
)
VALUES = JSON | st.sampled_from(
    [1, 2**62, "in", "out", "tick", "connected", "disconnected", "resync", "unsent", ""]
)


@given(st.lists(st.dictionaries(FIELDS, VALUES).map(json.dumps) | st.text(), max_size=5))
def test_any_lines_are_replayed_or_refused(reported: list[str]) -> None:
    class Patient(AskingSession):
        """A session that accepts any event."""

        def loss_suspected(self, reason: str, since: int, now: int) -> list[Effect]:
            return self.ask(now + since + len(reason))

        def receive(self, delivery: Delivery, now: int) -> list[Effect]:
            return [WakeAt(now - len(delivery.body))]

        def disconnected(self, detail: str, now: int) -> list[Effect]:
            return [WakeAt(now + len(detail))]

        def not_sent(self, sends: Sequence[Send], reason: str, now: int) -> Iterable[Effect]:
            return [WakeAt(now + len(sends) + len(reason))]

        def ask(self, now: int) -> list[Effect]:
            self.asked += 1
            return [Send("", "", str(now).encode())]

    octets = head() + "".join(f"{line}\n" for line in reported).encode(errors="surrogatepass")
    try:
        outcome = replay(read_capture(io.BytesIO(octets)), Patient())
    except CaptureError:
        return
    assert outcome.events <= 20_000 * (len(reported) + 1)
