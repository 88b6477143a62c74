"""Operations on the feed: requests of norths, answers, and records of them."""

from __future__ import annotations

import contextlib
from uuid import UUID

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.messages import FeedError, RequestReader, encode
from gateway.feed.operations import (
    Action,
    FrontEndRefusal,
    InvokeMethod,
    OperationAnswer,
    OperationKind,
    OperationRecord,
    OperationRequest,
    OperationState,
    ReadFresh,
    SetElements,
)
from gateway.feed.records import Batch
from gateway.feed.values import ObjectLink
from gateway.model.operations import Outcome, Principal
from tests.feed.frames import framed, message_of, request_of

OPERATOR = Principal("jmx", "operator", "192.0.2.7:50123")
QUEUE = ObjectLink("rabbitmq:queue", 3, "/|orders")
SET = SetElements({"maxQueues": 2**64 - 1, "owner": QUEUE, "tags": ("a", {"b": UUID(int=1)}), "on": True})
REQUEST = OperationRequest(7, OPERATOR, 1, "rabbitmq:vhost", 3, SET, 10**10)
RECORD = OperationRecord(
    number=1,
    operation_id="gw.1.o1",
    kind=OperationKind.SET,
    state=OperationState.SETTLED,
    principal=OPERATOR,
    source=1,
    class_name="rabbitmq:vhost",
    row=3,
    stable_name="/",
    leaf_name="/",
    values={"maxQueues": 10},
    previous={"maxQueues": 5},
    found={"maxQueues": 10},
    outcome=Outcome.APPLIED,
    element="maxQueues",
    code=0,
    text="OK",
    began=1,
    ended=2,
    absent=("tags", "description"),
)


@pytest.mark.parametrize(
    "action", [SET, InvokeMethod("purge"), InvokeMethod("move", {"to": QUEUE, "count": -1}), ReadFresh()]
)
@pytest.mark.parametrize("check_only", [True, False])
def test_every_request_comes_back_equal(action: Action, check_only: bool) -> None:  # noqa: FBT001
    request = msgspec.structs.replace(REQUEST, action=action, check_only=check_only)
    assert list(RequestReader().feed(encode(request))) == [request]


@pytest.mark.parametrize("outcome", Outcome)
def test_what_a_front_end_refused_comes_back_equal(outcome: Outcome) -> None:
    request = msgspec.structs.replace(REQUEST, refusal=FrontEndRefusal(outcome, "a text", "maxQueues", 7))
    assert list(RequestReader().feed(encode(request))) == [request]


@pytest.mark.parametrize(
    "refusal", [["refused", "", "", 0], ["refused", 1, "", 1], ["done", "", "", 1], [], 7]
)
def test_a_refusal_of_another_form_is_one_error(refusal: object) -> None:
    fields = msgpack.unpackb(encode(REQUEST)[4:])
    fields[9] = refusal
    with pytest.raises(FeedError):
        request_of(framed(fields))


@pytest.mark.parametrize("outcome", Outcome)
def test_every_answer_comes_back_equal(outcome: Outcome) -> None:
    answer = OperationAnswer(7, "gw.1.o1", outcome, "a text", "maxQueues", 7, {"found": 2**64 - 1})
    assert message_of(encode(answer)) == answer


@pytest.mark.parametrize("record", [RECORD, msgspec.structs.replace(RECORD, outcome=None, code=None)])
def test_every_record_comes_back_equal(record: OperationRecord) -> None:
    assert message_of(encode(Batch(1, 2, (record,)))) == Batch(1, 2, (record,))


def test_requests_survive_any_cutting_of_the_stream() -> None:
    stream, reader = encode(REQUEST) * 3, RequestReader()
    assert [request for octet in stream for request in reader.feed(bytes([octet]))] == [REQUEST] * 3


@given(st.binary(max_size=200))
def test_any_bytes_are_requests_or_one_error(octets: bytes) -> None:
    with contextlib.suppress(FeedError):
        list(RequestReader().feed(octets))


_ANYTHING = st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.lists(st.text(max_size=6), max_size=3)


@given(st.lists(_ANYTHING, min_size=8, max_size=8))
def test_a_request_of_other_types_is_one_error(fields: list[object]) -> None:
    with pytest.raises(FeedError):
        request_of(framed(["request", *fields]))


def test_a_request_announced_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(FeedError, match="at most 1048576 are allowed"):
        list(RequestReader().feed(b"\x00\x10\x00\x01"))


def test_the_core_sends_no_record_of_a_front_end() -> None:
    with pytest.raises(FeedError):
        message_of(encode(REQUEST))
