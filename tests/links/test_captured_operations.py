"""Operations on a captured session are in the capture, and are repeated by a replay."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.session import (
    Answered,
    BacklogFollows,
    Effect,
    EventNotTakenError,
    LinkUp,
    Listening,
    Note,
    NotSent,
    ObjectsRestored,
    Operation,
    Send,
    Write,
)
from gateway.links.capture import (
    CapturedSession,
    operation_fields,
    read_operation,
)
from gateway.links.capture_reading import CaptureError, Record, read_capture
from gateway.links.replay import Outcome, replay
from gateway.model.observations import ObjectSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.operations import Outcome as Came
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from gateway.model.values import Reference
from tests.components.scripted_session import ScriptedSession
from tests.links.captures import START, AskingSession, Seen, capture_file, lines, reading
from tests.links.test_stream_capture import GreetingSession

KEY = ClassKey("works", "boiler", bytes(range(16)))
CALL = MethodCall(
    7, KEY, "a", "0-1", "heat", (5, "x", None, b"\0", UUID(int=1), Reference("o")), START + SECOND
)
FETCH = ObjectFetch(8, KEY, "a", "0-1", START + SECOND)
MODIFY = ObjectModify(9, KEY, "a", "0-1", {"limit": 3, "tags": {"a": (1.5, True)}, "old": None}, START)


class OperatedSession(AskingSession):
    """A session that sends a message for each operation, and answers calls at once."""

    def call(self, call: MethodCall, now: int) -> list[Effect]:
        body = repr((call.arguments, now)).encode()
        return [Send("x", call.method, body), Answered(Answer(call.token, Came.APPLIED)), Note("called")]

    def fetch(self, fetch: ObjectFetch, now: int) -> list[Effect]:
        return [Send("x", "fetch", repr((fetch.native_id, now)).encode())]


class SettingSession(OperatedSession):
    """A session that can also set properties."""

    def modify(self, modify: ObjectModify, now: int) -> list[Effect]:
        return [Send("x", "modify", repr((modify.values, now)).encode())]


class OperatedStreams(GreetingSession):
    """A session with the same operations over byte streams."""

    def restore(self, sightings: Iterable[ObjectSeen], now: int) -> list[Effect]:
        return [Write(1, repr((list(sightings), now)).encode())]

    def listening(self, now: int) -> list[Effect]:
        return [Write(1, repr(now).encode())]

    def call(self, call: MethodCall, now: int) -> list[Effect]:
        return [Write(1, repr((call.method, now)).encode())]

    def fetch(self, fetch: ObjectFetch, now: int) -> list[Effect]:
        return [Write(1, repr((fetch.native_id, now)).encode())]


def operated(path: Path) -> None:
    session = CapturedSession(SettingSession(), capture_file(path))
    session.handle(LinkUp("q"), START)
    session.handle(CALL, START + 1)
    session.handle(FETCH, START + 2)
    session.handle(MODIFY, START + 3)


class ForeseeingSession(SettingSession):
    """A session whose precheck refuses requests."""

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        return Answer(request.token, Came.WRONG_VALUE, f"not sent at {now}")


class ForeseeingStreams(OperatedStreams):
    """A session over byte streams whose precheck refuses requests."""

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        return Answer(request.token, Came.WRONG_VALUE, f"not sent at {now}")


def test_what_speaks_against_them_is_said_as_if_nothing_were_captured(tmp_path: Path) -> None:
    file = capture_file(tmp_path / "shop.jsonl")
    expected = Answer(CALL.token, Came.WRONG_VALUE, f"not sent at {START}")
    assert CapturedSession(ForeseeingSession(), file).precheck(CALL, START) == expected
    assert CapturedSession(ForeseeingStreams(), file).precheck(CALL, START) == expected
    assert CapturedSession(SettingSession(), file).precheck(CALL, START) is None
    assert CapturedSession(OperatedStreams(), file).precheck(CALL, START) is None
    assert file.records == 0


def test_they_are_asked_again(tmp_path: Path) -> None:
    operated(tmp_path / "shop.jsonl")
    seen = Seen()

    assert replay(reading(tmp_path / "shop.jsonl"), SettingSession(), seen) == Outcome(events=4, same=4)
    assert seen.answers == [Answer(7, Came.APPLIED)]
    assert seen.notes == [(4, "called")]


def test_an_operation_as_documented(tmp_path: Path) -> None:
    operated(tmp_path / "shop.jsonl")

    (call,) = (line for line in lines(tmp_path / "shop.jsonl") if line.get("event") == "call")
    assert call == {
        "ns": START + 1,
        "event": "call",
        "token": 7,
        "package": "works",
        "class": "boiler",
        "hash": "000102030405060708090a0b0c0d0e0f",
        "agent": "a",
        "native_id": "0-1",
        "deadline": START + SECOND,
        "method": "heat",
        "arguments": [
            5,
            "x",
            None,
            {"bytes": "AA=="},
            {"uuid": "00000000-0000-0000-0000-000000000001"},
            {"reference": "o"},
        ],
    }


def test_a_session_of_which_it_cannot_be_asked_passes_it_over(tmp_path: Path) -> None:
    operated(tmp_path / "shop.jsonl")

    outcome = replay(reading(tmp_path / "shop.jsonl"), OperatedSession())
    assert (outcome.events, outcome.same, outcome.passed_over) == (3, 3, 1)
    outcome = replay(reading(tmp_path / "shop.jsonl"), AskingSession())
    assert (outcome.events, outcome.same, outcome.passed_over) == (1, 1, 3)


def test_an_event_that_a_session_does_not_take_is_captured_and_refused(tmp_path: Path) -> None:
    class Deaf(ScriptedSession):
        """A session that accepts no events."""

    session = CapturedSession(Deaf(), capture_file(tmp_path / "shop.jsonl"))
    for event in (NotSent([], "the link went down"), BacklogFollows("", 0), MODIFY):
        with pytest.raises(EventNotTakenError):
            session.handle(event, START)
    assert [line.get("event") for line in lines(tmp_path / "shop.jsonl")[1:]] == [
        "unsent",
        "catch-up",
        "modify",
    ]


def test_they_are_asked_again_over_byte_streams(tmp_path: Path) -> None:
    session = CapturedSession(OperatedStreams(), capture_file(tmp_path / "orders.jsonl"))
    session.handle(ObjectsRestored([]), START)
    session.handle(Listening(), START)
    session.handle(CALL, START)
    session.handle(FETCH, START)

    outcome = replay(reading(tmp_path / "orders.jsonl"), OperatedStreams())
    assert outcome == Outcome(events=4, same=4)
    outcome = replay(reading(tmp_path / "orders.jsonl"), GreetingSession())
    assert (outcome.events, outcome.passed_over, outcome.different) == (0, 4, 4)


TEXTS = st.text(max_size=5)
NUMBERS = st.integers(0, 2**63 - 1)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | TEXTS
    | st.binary(max_size=5)
    | st.uuids()
    | st.builds(Reference, TEXTS),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
KEYS = st.builds(ClassKey, TEXTS, TEXTS, st.binary(max_size=16))
ABOUT = (NUMBERS, KEYS, TEXTS, TEXTS)


@given(
    st.builds(MethodCall, *ABOUT, TEXTS, st.lists(VALUES, max_size=3).map(tuple), NUMBERS)
    | st.builds(ObjectModify, *ABOUT, st.dictionaries(TEXTS, VALUES, max_size=3), NUMBERS)
    | st.builds(ObjectFetch, *ABOUT, NUMBERS)
)
def test_any_operation_is_read_as_it_was_written(operation: Operation) -> None:
    reported = json.loads(json.dumps(operation_fields(operation)))
    assert read_operation(Record(2, reported)) == operation


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"token": "7"}, "line 2: 'token' is not a whole number below 2\\^63"),
        ({"hash": "zz"}, "line 2: this is not an operation: non-hexadecimal"),
        ({"arguments": {}}, "line 2: this is not an operation: {} is no list"),
        ({"arguments": None}, "line 2: this is not an operation: None is no list"),
        ({"arguments": [{}]}, "line 2: this is not an operation: a value that is an object has one field"),
        ({"arguments": [{"pickle": ""}]}, "line 2: this is not an operation: no value has the form 'pickle'"),
        ({"arguments": [{"bytes": "?"}]}, "line 2: this is not an operation: 'bytes' is not base64"),
        ({"arguments": [{"bytes": 5}]}, "line 2: this is not an operation: 5 is no str"),
        ({"arguments": [{"uuid": "1"}]}, "line 2: this is not an operation: badly formed"),
        (
            {"arguments": json.loads("[" * 900 + "]" * 900)},
            "line 2: this is not an operation: maximum recursion",
        ),
        ({"event": "modify"}, "line 2: this is not an operation: None is no dict"),
    ],
)
def test_what_is_no_operation_is_refused(changed: dict[str, Any], said: str) -> None:
    head = {"capture": 1, "source": "s", "dialect": "d", "received": "in", "sent": "out", "part": 1, "ns": 1}
    reported = {"ns": START, **operation_fields(CALL), **changed}
    octets = f"{json.dumps(head)}\n{json.dumps(reported)}\n".encode()
    with pytest.raises(CaptureError, match=f"^{said}"):
        replay(read_capture(io.BytesIO(octets)), OperatedSession())
