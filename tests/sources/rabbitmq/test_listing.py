"""Items of listings in special forms: consumers without a channel, AMQP 1.0 sessions and links."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.listing import (
    is_anonymous,
    placed_consumers,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.story import world

CONNECTION = "peer -> us"


def consumer(details: Json, tag: str = "0", **more: Json) -> dict[str, Json]:
    return {
        "queue": {"vhost": "/", "name": "orders"},
        "channel_details": details,
        "consumer_tag": tag,
        **more,
    }


def places(*consumers: Json) -> list[Json]:
    """Return the channel or connection that each consumer is placed on."""
    placed = [one for one in placed_consumers(consumers) if isinstance(one, Mapping)]
    worked_out = [one["gateway"] for one in placed]
    return [one["channel"] for one in worked_out if isinstance(one, Mapping)]


def test_the_channel_counts_and_else_the_connection() -> None:
    """The forms are those of 4.3.6 for AMQP 0-9-1, a stream and AMQP 1.0; for AMQP 1.0, 4.0.5 has a list."""
    on_channel: Json = {"name": f"{CONNECTION} (1)", "connection_name": CONNECTION}
    on_connection: Json = {"name": "", "connection_name": CONNECTION, "number": 0}
    assert places(consumer(on_channel), consumer(on_connection)) == [f"{CONNECTION} (1)", CONNECTION]
    assert places(consumer({})) == places(consumer([])) == [""]


def test_consumers_that_nothing_distinguishes_are_numbered_whatever_their_order() -> None:
    first, second = consumer([], prefetch_count=1), consumer([], prefetch_count=2)
    other = consumer([], tag="1")
    assert places(first, second, first, other) == ["", "(2)", "(3)", ""]
    assert placed_consumers([first, second]) == placed_consumers([second, first])


@pytest.mark.parametrize(
    ("place", "expected"), [("", True), ("(2)", True), (CONNECTION, False), ("a (1)", False)]
)
def test_a_consumer_is_anonymous_whose_connection_is_not_known(place: str, expected: bool) -> None:  # noqa: FBT001  one case of a table
    assert is_anonymous(ObjectName("consumer", ("/", "orders", place, "0"))) is expected


@given(any_json())
def test_any_json_gives_consumers_with_places(answer: Json) -> None:
    placed = placed_consumers(answer if isinstance(answer, list) else [answer])
    assert all(isinstance(one, Mapping) and "gateway" in one for one in placed)


def test_they_are_shown_on_their_connection_or_queue_and_end_with_it() -> None:
    shop = world()
    listed = shop.broker.objects["consumer"]
    listed["stream",] = consumer({"name": "", "connection_name": CONNECTION}, tag="stream.subid-0")
    listed["amqp10",] = consumer({})
    listed["other",] = consumer({})
    shop.run(25)
    names = [f"//orders/{CONNECTION}/stream.subid-0", "//orders//0", "//orders/(2)/0"]
    assert sorted(shop.names("consumer")) == sorted(names)
    shop.event("connection.closed", name=CONNECTION)
    assert sorted(shop.names("consumer")) == sorted(names[1:])
    # Of the ends of the others no event tells whose they are; two listings do.
    del listed["other",], listed["stream",]
    shop.event("consumer.deleted", queue="orders", vhost="/", channel="<rabbit@shop.1.9.0>", consumer_tag="0")
    assert sorted(shop.names("consumer")) == sorted(names[1:])
    shop.run(45)
    assert shop.names("consumer") == names[1:2]
    shop.event("queue.deleted", vhost="/", name="orders")
    assert shop.names("consumer") == []
