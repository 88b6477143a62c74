"""What is published of objects that were read: what changed, and a rise of a counter for some readings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gateway.dialects.session import Observed
from gateway.model.observations import SETTLED_BY, Counting, ObjectSeen
from gateway.model.schema import Kind
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.cluster import Nodes
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.node_counters import NodeCounters
from gateway.sources.rabbitmq.object_lives import Change, KnownObject, Put
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.reading import ClassReader, class_readers
from tests.components.shipped_mappings import shipped_mappings
from tests.sources.rabbitmq.test_known_objects import ORDERS, T0, queue


class Stream:
    """The queue ``orders`` of a broker, to which 5 messages were published when it was read first."""

    def __init__(self, readers: dict[str, ClassReader] | None = None) -> None:
        self.now = T0
        self.readers = readers or class_readers(shipped_mappings()["rabbitmq"])
        self.known = KnownObjects(self.readers)
        counters = NodeCounters(self.readers, self.known, Nodes())
        self.stream = ObservationStream(self.readers, self.known, {}, SecretRules(), counters.counting)
        self.lists(publish=5)

    @property
    def queue(self) -> KnownObject:
        known = self.known.get(ORDERS)
        assert known is not None
        return known

    def lists(self, *, sampled: int = 0, messages: int | None = 3, **counts: int) -> list[ObjectSeen]:
        """Read the queue; return what is published."""
        self.now += SECOND
        reading = queue(messages=messages, message_stats=counts)
        return self.publishes(self.known.listed(reading, self.now, sampled or self.now, self.now))

    def measures(self, sampled: int | None = None, **statistics: Value | None) -> list[ObjectSeen]:
        """Read metrics of the queue; return what is published."""
        self.now += SECOND
        names = [element.name for element in self.readers["queue"].schema.statistics]
        values = dict(zip(names, self.queue.statistics, strict=True)) | statistics
        sampled = self.now if sampled is None else sampled
        return self.publishes(self.known.measured(self.queue, tuple(values.values()), sampled))

    def publishes(self, changes: Iterable[Change]) -> list[ObjectSeen]:
        """Return what is published of changes."""
        observed = [one for one in self.stream.apply(changes) if isinstance(one, Observed)]
        return [one for some in observed for one in some.observations if isinstance(one, ObjectSeen)]

    def published_of(self, readings: int, **counts: int) -> int:
        """Read the queue so often; return how often it is published."""
        return sum(len(self.lists(**counts)) for _ in range(readings))


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_a_rise_is_published_until_enough_readings_showed_it(stream: Stream) -> None:
    assert stream.published_of(5, publish=5) == 0
    published = [one for _ in range(SETTLED_BY) for one in stream.lists(publish=6)]
    assert len(published) == len({one.sampled for one in published}) == SETTLED_BY
    assert len({one.statistics for one in published}) == 1
    assert [one.properties for one in published] == [None] * SETTLED_BY
    assert stream.published_of(5, publish=6) == 0


def test_readings_of_metrics_and_listings_count(stream: Stream) -> None:
    assert len(stream.measures(messagesPublished=6)) == 1
    assert len(stream.measures()) == 1
    assert stream.published_of(5, publish=6) == SETTLED_BY - 2


def test_what_is_no_reading_publishes_no_rise(stream: Stream) -> None:
    stream.lists(publish=6)
    sampled = stream.queue.sampled
    unread = stream.publishes(stream.known.unread_alone(ORDERS, stream.now))
    assert [one.statistics for one in unread] == [None]
    assert stream.measures(sampled) == []
    assert stream.published_of(5, publish=6) == SETTLED_BY - 1


def test_a_rise_that_a_new_sample_did_not_show_is_published_as_often(stream: Stream) -> None:
    assert len(stream.measures(stream.queue.sampled, messagesPublished=6)) == 1
    assert stream.published_of(6, publish=6) == SETTLED_BY


def test_other_changes_and_less_rise_nothing(stream: Stream) -> None:
    assert len(stream.lists(publish=5, messages=4)) == 1
    assert len(stream.lists(publish=4, messages=4)) == 1
    assert stream.published_of(5, publish=4, messages=4) == 0


def test_a_further_rise_begins_the_count_again(stream: Stream) -> None:
    assert stream.published_of(SETTLED_BY - 1, publish=6) == SETTLED_BY - 1
    assert stream.published_of(6, publish=7) == SETTLED_BY


def test_readings_that_lack_the_counter_do_not_count(stream: Stream) -> None:
    assert stream.published_of(1, publish=6) == 1
    assert stream.published_of(6) == 1
    assert stream.published_of(6, publish=6) == SETTLED_BY


def test_a_rise_goes_on_beside_one_of_a_counter_that_is_absent_since(stream: Stream) -> None:
    assert stream.published_of(1, publish=6) == 1
    assert stream.published_of(1, publish=6, ack=1) == 1
    assert stream.published_of(6, publish=6) == SETTLED_BY - 1


@pytest.mark.parametrize("counting", [Counting.BEGAN, Counting.UNKNOWN])
def test_a_rise_before_counters_were_cut_off_is_not_published_again(
    stream: Stream, counting: Counting
) -> None:
    stream.lists(publish=6)
    assert len(stream.publishes([Put(stream.queue, previous=stream.queue, counting=counting)])) == 1
    assert stream.published_of(5, publish=6) == 0


def test_the_rise_of_an_object_that_ended_is_forgotten(stream: Stream) -> None:
    stream.lists(publish=6)
    ended = stream.queue
    assert len(stream.publishes(stream.known.ended(ORDERS, stream.now))) == 1
    # No object has the number of one that ended: this stands for what would be kept of it for ever.
    read_later = replace(ended, sampled=stream.now + SECOND)
    assert stream.publishes([Put(read_later, previous=ended)]) == []


def test_counters_among_properties_are_published_with_these() -> None:
    readers = class_readers(shipped_mappings()["rabbitmq"])
    schema = readers["queue"].schema
    position = schema.positions["deliveryLimit"]
    counter = replace(schema.properties[position], kind=Kind.COUNTER)
    properties = (*schema.properties[:position], counter, *schema.properties[position + 1 :])
    readers["queue"].schema = replace(schema, properties=properties)
    stream = Stream(readers)
    former = stream.queue
    published: list[ObjectSeen] = []
    for number in range(1, 2 * SETTLED_BY):
        values = (*former.properties[:position], 7, *former.properties[position + 1 :])
        read = replace(former, properties=values, sampled=former.sampled + number * SECOND)
        published += stream.publishes([Put(read, previous=former)])
        former = read
    assert [(one.properties is None, one.statistics) for one in published] == [(False, None)] * SETTLED_BY
