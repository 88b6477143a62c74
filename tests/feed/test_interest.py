"""A subscriber that wants some objects only: snapshots skip the others, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from gateway.feed import subscription as subscriptions
from gateway.feed.messages import FeedError, RequestReader, encode
from gateway.feed.records import MAX_WANTED, Batch, Interest, Record, SnapshotBegan, SnapshotEnded
from gateway.feed.subscription import Subscription
from tests.feed.frames import framed, request_of
from tests.feed.test_messages import OBJECT

ORDERS = msgspec.structs.replace(OBJECT, row=1, stable_name="/|orders", leaf_name="orders", native_id="q-1")
OTHERS = [
    msgspec.structs.replace(
        OBJECT, row=row, stable_name=f"/|b{row}", leaf_name=f"b{row}", native_id=f"q-{row}"
    )
    for row in range(2, 300)
]


@pytest.mark.parametrize(
    "interest",
    [
        Interest(("/|orders",)),
        Interest(("orders",)),
        Interest(("ord",)),
        Interest(("q-1",)),
        Interest(rows=((OBJECT.source, 1),)),
        Interest(("nonesuch", "orders")),
    ],
)
def test_an_object_is_wanted_by_its_names_their_beginnings_and_its_row(interest: Interest) -> None:
    assert interest.wants(ORDERS)
    assert not any(interest.wants(other) for other in OTHERS)


def test_a_snapshot_reports_the_wanted_objects_and_of_all_that_is_no_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriptions, "_LOOKED_AT", 10)
    subscription = Subscription(epoch=1)
    subscription.narrow(Interest(("orders",)))
    subscription.start_snapshot([*OTHERS, ORDERS, *OTHERS], 4)
    assert reported(subscription) == [ORDERS]
    subscription.offer(Batch(1, 5, (OTHERS[0],)))
    assert reported(subscription) == [OTHERS[0]], "what comes is told, whatever it is"


def test_a_snapshot_under_way_is_narrowed_from_there_on() -> None:
    subscription = Subscription(epoch=1)
    subscription.start_snapshot([*OTHERS, ORDERS], 4)
    assert isinstance(subscription.take(), SnapshotBegan)
    subscription.take()
    subscription.narrow(Interest(("orders",)))
    assert reported(subscription) == [ORDERS]


def reported(subscription: Subscription) -> list[Record]:
    """The records of all messages that can be taken; a snapshot has its end."""
    records: list[Record] = []
    while (message := subscription.take()) is not None:
        assert isinstance(message, Batch | SnapshotBegan | SnapshotEnded)
        records += message.records if isinstance(message, Batch) else ()
    return records


def test_what_is_wanted_travels() -> None:
    interest = Interest(("orders", "é"), ((1, 7),))
    assert list(RequestReader().feed(encode(interest))) == [interest]


@pytest.mark.parametrize(
    "fields",
    [
        ["orders", []],
        [[1], []],
        [[], 7],
        [[], [[1]]],
        [[], [["1", 2]]],
        [[], [[True, 2]]],
        [["a"] * (MAX_WANTED + 1), []],
        [[], [[1, 2]] * (MAX_WANTED + 1)],
    ],
)
def test_what_is_no_interest_ends_the_connection(fields: list[object]) -> None:
    with pytest.raises(FeedError, match="not a feed message"):
        request_of(framed(["interest", *fields]))
