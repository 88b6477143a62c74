"""The notes of sessions: they are counted, logged seldom, and as warnings if an operator should act."""

from __future__ import annotations

from collections import Counter

import structlog

from gateway.dialects.session import Note
from gateway.links.session_driver import SessionNotes
from gateway.model.times import MINUTE


class HandClock:
    """A clock that shows the time that was set."""

    def __init__(self) -> None:
        self.time = MINUTE

    def now(self) -> int:
        return self.time


def test_a_kind_of_note_is_logged_once_a_minute_and_counted_always(
    logged: list[structlog.typing.EventDict],
) -> None:
    clock, counters = HandClock(), Counter[str]()
    notes = SessionNotes("shop", clock, counters)
    for _ in range(3):
        notes.take(Note("protocol-error", "no body"))
    clock.time += MINUTE
    notes.take(Note("protocol-error", "no header"))
    assert [(entry["detail"], entry["count"]) for entry in logged] == [("no body", 1), ("no header", 4)]
    assert counters == {"protocol_errors": 4}


def test_what_an_operator_should_look_at_is_a_warning(logged: list[structlog.typing.EventDict]) -> None:
    notes = SessionNotes("shop", HandClock(), Counter())
    for event in ("management-unavailable", "management-answers", "refused-sender", "resync"):
        notes.take(Note(event, ""))
    assert [(entry["event"], entry["log_level"]) for entry in logged] == [
        ("management-unavailable", "warning"),
        ("management-answers", "info"),
        ("refused-sender", "warning"),
        ("resync", "info"),
    ]
