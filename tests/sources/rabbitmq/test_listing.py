"""Items of listings in special forms: consumers without a channel, AMQP 1.0 sessions and links."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given

from gateway.mapping.paths import Json
from gateway.model.observations import ObjectSeen
from gateway.sources.rabbitmq.listing import (
    Listing,
    ShownProperties,
    placed_consumers,
)
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName, is_anonymous
from gateway.sources.rabbitmq.reading import class_readers
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.imitation import MAPPING, World
from tests.sources.rabbitmq.story import world

CONNECTION = "peer -> us"
CHANNEL = f"{CONNECTION} (1)"


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


class ReadQueue:
    """A queue as it is known after each reading."""

    def __init__(self) -> None:
        self._reader = class_readers(MAPPING)["queue"]
        self._shown = ShownProperties()
        self._known: KnownObject | None = None

    def listed(self, *, lean: bool = False, single: bool = False, **more: Json) -> tuple[object, ...]:
        """Return state and policy after a reading that shows ``more``."""
        document: dict[str, Json] = {
            "vhost": "/",
            "name": "q",
            "durable": True,
            "auto_delete": True,
            "exclusive": False,
        }
        reading = self._reader.read({**document, **more}, lean=lean)
        assert reading is not None
        listing = Listing("queue", 0, lean=lean, single=single)
        reading = self._shown.completed(reading, self._known, self._reader.schema, listing)
        self._known = KnownObject(reading.name, 1, 0, 0, reading.properties, reading.statistics, 0)
        positions = self._reader.schema.positions
        return tuple(reading.properties[positions[element]] for element in ("state", "policy"))


def test_what_one_kind_of_listing_lacks_keeps_the_value_of_the_other() -> None:
    """RabbitMQ shows no state of an MQTT queue with QoS 0 in whole listings, nor of the queue by itself."""
    queue = ReadQueue()
    for _ in range(2):
        assert queue.listed(lean=True, state="live") == ("running", None)
        assert queue.listed() == ("running", None)
        assert queue.listed(single=True) == ("running", None)
    assert queue.listed(single=True, state="idle") == ("idle", None), "what it shows counts"
    assert queue.listed(lean=True, state="down") == ("down", None)
    assert queue.listed() == ("down", None)


@pytest.mark.parametrize("lean", [False, True])
def test_what_a_kind_of_listing_shows_no_longer_is_gone(*, lean: bool) -> None:
    queue = ReadQueue()
    assert queue.listed(lean=True, state="live", policy="p") == ("running", "p")
    assert queue.listed() == ("running", "p"), "it is not measured yet"
    assert queue.listed(state="idle", policy="p") == ("idle", "p")
    assert queue.listed(lean=lean, state="running")[1] is None, "the policy was cleared"
    assert queue.listed(lean=not lean, state="running")[1] is None
    assert queue.listed(lean=lean, state="running")[1] is None


def test_what_only_the_answer_about_one_queue_shows_lasts_until_the_next_listing() -> None:
    queue = ReadQueue()
    queue.listed(lean=True, state="live")
    assert queue.listed(single=True, policy="p")[1] == "p"
    assert queue.listed()[1] is None


@given(any_json())
def test_any_json_gives_consumers_with_places(answer: Json) -> None:
    items = answer if isinstance(answer, list) else [answer]
    placed = placed_consumers(items)
    assert len(placed) == len(items), "what cannot be read is not missing"
    assert all("gateway" in one for one in placed if isinstance(one, Mapping))


def test_they_are_shown_on_their_connection_or_queue_and_end_with_it() -> None:
    shop = world()
    listed = shop.broker.objects["consumer"]
    listed["stream",] = consumer({"name": "", "connection_name": CONNECTION}, tag="stream.subid-0")
    listed["amqp10",] = consumer({})
    listed["other",] = consumer({})
    shop.run(45)
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


def seen_consumers(shop: World) -> list[ObjectSeen]:
    return [one for one in shop.observed if isinstance(one, ObjectSeen) and one.key.name == "consumer"]


@pytest.mark.parametrize(("tag", "seconds"), [("1", 14), ("ctag-7", 55)])
def test_a_consumer_that_is_listed_before_its_channel_has_one_name_and_one_life(
    tag: str, seconds: int
) -> None:
    shop = world()
    shop.broker.objects["channel"][CHANNEL,] = {"name": CHANNEL, "connection_details": {"name": CONNECTION}}
    shop.broker.objects["consumer"]["new",] = consumer({}, tag=tag)
    shop.run(seconds)
    assert shop.names("consumer") == []
    shop.broker.objects["consumer"]["new",] = consumer({"name": CHANNEL}, tag=tag)
    shop.run(60)
    assert shop.names("consumer") == [f"//orders/{CHANNEL}/{tag}"]
    assert len({one.native_id for one in seen_consumers(shop)}) == 1
    assert not any(one.deleted for one in seen_consumers(shop))


@pytest.mark.parametrize(("tag", "seconds"), [("1", 45), ("ctag-7", 90)])
def test_a_consumer_that_is_always_listed_without_a_channel_has_none(tag: str, seconds: int) -> None:
    shop = world()
    shop.broker.objects["consumer"]["new",] = consumer({}, tag=tag)
    shop.run(seconds)
    assert shop.names("consumer") == [f"//orders//{tag}"]


def test_a_consumer_whose_channel_is_not_shown_for_a_moment_goes_on() -> None:
    shop = world()
    placed = consumer({"name": CHANNEL}, tag="1")
    shop.broker.objects["channel"][CHANNEL,] = {"name": CHANNEL, "connection_details": {"name": CONNECTION}}
    shop.broker.objects["consumer"]["one",] = placed
    shop.run(30)
    shop.broker.objects["consumer"]["one",] = consumer({}, tag="1")
    shop.run(9)
    shop.broker.objects["consumer"]["one",] = placed
    shop.run(60)
    assert shop.names("consumer") == [f"//orders/{CHANNEL}/1"]
    assert len({one.native_id for one in seen_consumers(shop)}) == 1
    assert not any(one.deleted for one in seen_consumers(shop))
