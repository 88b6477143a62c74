"""A captured session, and operations on captures for tests."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gateway.dialects.session import (
    Delivery,
    Effect,
    LinkDown,
    LinkUp,
    Note,
    Observed,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.links.capture import CapturedSession
from gateway.links.capture_file import AS_CONSOLE, CaptureFile
from gateway.links.capture_reading import Capture, read_capture
from gateway.links.replay import Witness
from gateway.model.observations import Observation, SourceState, SourceStateSeen
from gateway.model.operations import Answer
from gateway.model.times import SECOND
from tests.components.scripted_session import ScriptedSession

START = 1_800_000_000 * SECOND
REQUEST = Send("amq.system", "amq.console", b"<ask/>", "q", message_id="1", mandatory=True)


class AskingSession(ScriptedSession):
    """A session that asks after connecting, and a second after each answer; it repeats unsent messages."""

    def __init__(self, question: bytes = b"<ask/>") -> None:
        self.question = question
        self.asked = 0
        self.reply_to = ""

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        self.reply_to = reply_to
        return [Observed((SourceStateSeen(SourceState.SYNCHRONISED),)), *self.ask(now)]

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        assert detail
        assert now
        return []

    def loss_suspected(self, reason: str, since: int, now: int) -> list[Effect]:
        assert reason
        assert since < now
        return self.ask(now)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        assert delivery.message_id
        return [WakeAt(now + SECOND)]

    def tick(self, now: int) -> list[Effect]:
        return self.ask(now)

    def not_sent(self, sends: Sequence[Send], reason: str, now: int) -> Iterable[Effect]:
        assert reason
        return self.ask(now) if sends else []

    def backlog_follows(self, missed: str, waiting: int, now: int) -> list[Effect]:
        assert waiting >= 0
        return self.ask(now) if missed else []

    def ask(self, now: int) -> list[Effect]:
        assert now
        self.asked += 1
        key = str(self.asked)
        return [
            Send("amq.system", "amq.console", self.question, self.reply_to, message_id=key, mandatory=True)
        ]


class Seen(Witness):
    """A witness that keeps the results of a replay."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.times: list[int] = []
        self.answers: list[Answer] = []
        self.notes: list[tuple[int, str]] = []

    def passed(self, now: int) -> None:
        self.times.append(now)

    def observed(self, observations: tuple[Observation, ...], now: int) -> None:
        assert now == self.times[-1]
        self.observations += observations

    def answered(self, answer: Answer) -> None:
        self.answers.append(answer)

    def noted(self, note: Note, line: int) -> None:
        self.notes.append((line, note.event))


class LeftCapture(CaptureFile):
    """A capture that nobody closes, as that of a process that is killed: its descriptor goes with it."""

    def __del__(self) -> None:
        self.close()


def capture_file(path: Path, largest_file: int = 1 << 20, files: int = 4) -> CaptureFile:
    return LeftCapture(path, "shop", "cml", AS_CONSOLE, START, largest_file=largest_file, files=files)


def answer(number: int, body: bytes = b"<answer/>") -> Delivery:
    return Delivery("amq.direct", "q", body, content_type="text/xml", message_id=str(number))


def converse(session: CapturedSession, answers: int = 3, body: bytes = b"<answer/>") -> None:
    """Let a session have a connection and some answers, each followed by the timer that it requested."""
    session.handle(LinkUp("q"), START)
    for number in range(1, answers + 1):
        session.handle(answer(number, body), START + 2 * number * SECOND)
        session.handle(TimerExpired(), START + 2 * number * SECOND + SECOND + 5)
    session.handle(LinkDown("it broke"), START + 100 * SECOND)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def reading(path: Path) -> Capture:
    return read_capture(io.BytesIO(path.read_bytes()))
