"""The known objects, and events that arrive later than a listing or an operation that showed their effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.times import SECOND
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.object_lives import LISTING_LAG, Gone, Overtaken, Put
from gateway.sources.rabbitmq.object_names import object_number
from tests.sources.rabbitmq.test_known_objects import (
    ORDERS,
    READERS,
    T0,
    binding,
    exchange,
    known_queue,
    queue,
    reported,
    sweep,
)


def receiving_queues() -> KnownObjects:
    """Return the objects of a broker whose events arrive, after a complete listing of queues without any."""
    known = KnownObjects(READERS)
    known.events_arrive, known.events_since = True, T0 - 100 * SECOND
    sweep(known, T0 - 50 * SECOND)
    return known


def test_what_a_listing_shows_before_the_event_of_its_creation_waits_for_the_event() -> None:
    known = receiving_queues()
    assert reported(known.listed(queue(messages=3), T0, T0 + 1, T0 + 2)) == []
    changes = known.created(queue(), T0 - SECOND, T0 + 3)
    assert reported(changes) == [("new", "orders", T0 - SECOND), ("put", "orders", T0 - SECOND)]
    last = changes[-1]
    assert isinstance(last, Put)
    assert (last.object.statistics[0], last.object.sampled) == (3, T0 + 1)
    assert last.object.number == object_number(ORDERS, T0 - SECOND)


def test_what_came_and_went_before_its_events_arrive_has_its_times() -> None:
    known = receiving_queues()
    known.listed(queue(), T0, T0, T0)
    known.created(queue(), T0 - SECOND, T0 + 1)
    assert reported(known.deleted(ORDERS, T0 + SECOND, T0 + SECOND)) == [("gone", "orders", T0 + SECOND)]


def test_what_a_listing_shows_is_taken_without_an_event_when_that_must_have_arrived() -> None:
    known = receiving_queues()
    assert reported(known.listed(queue(), T0, T0, T0)) == []
    assert reported(known.listed(queue(), T0 + SECOND, T0 + SECOND, T0 + SECOND)) == []
    assert reported(known.listed(queue(), T0 + 2 * SECOND, 0, T0 + 2 * SECOND)) == [("new", "orders", 0)]


def test_what_ended_while_its_creation_was_waited_for_is_not_taken_later() -> None:
    known = receiving_queues()
    known.listed(queue(), T0, T0, T0)
    assert reported(known.deleted(ORDERS, T0 + SECOND, T0 + SECOND)) == []
    assert reported(known.listed(queue(), T0 + 3 * SECOND, 0, T0 + 3 * SECOND)) == []


def test_what_the_next_listing_lacks_waits_no_longer_for_its_event() -> None:
    known = receiving_queues()
    known.listed(queue(), T0, T0, T0)
    sweep(known, T0 + 5 * SECOND)
    assert reported(known.listed(queue(), T0 + 6 * SECOND, 0, T0 + 6 * SECOND)) == [], "it is another one"


def test_what_may_be_older_than_the_events_waits_for_none() -> None:
    known = KnownObjects(READERS)
    known.events_arrive, known.events_since = True, T0 - SECOND
    sweep(known, T0 - 2 * SECOND)
    assert reported(known.listed(queue(), T0, T0, T0)) == [("new", "orders", 0)]


def bound_queue() -> KnownObjects:
    """Return the objects of a broker with a queue and an exchange, which events reported long ago."""
    known = KnownObjects(READERS)
    known.created(exchange(), T0 - 100 * SECOND, T0 - 100 * SECOND)
    known.created(queue(), T0 - 100 * SECOND, T0 - 100 * SECOND)
    return known


@pytest.mark.parametrize("by_operation", [False, True])
def test_what_was_bound_to_a_queue_before_its_end_is_reported_although_the_end_is_known(
    *, by_operation: bool
) -> None:
    known = bound_queue()
    ends = known.deleted(ORDERS, T0, T0, by_event=False) if by_operation else known.not_found(ORDERS, T0, T0)
    assert reported(ends) == [("gone", "orders", T0)]
    later, bound, deleted = T0 + 9 * SECOND, T0 - 3 * SECOND, T0 - SECOND
    assert reported(known.created(binding(), bound, later)) == [("new", binding().name.leaf, bound)]
    (gone,) = known.deleted(ORDERS, deleted, later)
    assert reported([gone]) == [("gone", binding().name.leaf, deleted)]
    assert isinstance(gone, Gone)
    assert not gone.inferred


def test_what_was_bound_to_a_queue_that_has_ended_is_listed_or_ends() -> None:
    known = bound_queue()
    known.not_found(ORDERS, T0, T0)
    later = T0 + 9 * SECOND
    known.created(binding(), T0 - 3 * SECOND, later)
    assert known.unconfirmed("binding", lambda _: False)
    listed = later + 2 * LISTING_LAG
    changes, suspects = known.swept("binding", set(), listed, LISTING_LAG, listed, lambda _: False)
    assert (reported(changes), suspects) == ([("gone", binding().name.leaf, listed)], [])


def test_what_was_bound_to_a_queue_ends_before_another_queue_of_the_name_is_new() -> None:
    known = bound_queue()
    known.not_found(ORDERS, T0, T0)
    later = T0 + 9 * SECOND
    known.created(binding(), T0 - 3 * SECOND, later)
    assert reported(known.created(queue(), T0 + SECOND, later)) == [
        ("gone", binding().name.leaf, later),
        ("new", "orders", T0 + SECOND),
    ]


def test_an_object_that_has_ended_is_not_new_when_the_event_of_its_creation_arrives() -> None:
    known = bound_queue()
    known.not_found(ORDERS, T0, T0)
    assert known.created(queue(), T0 - 100 * SECOND, T0 + SECOND) == []
    assert reported(known.created(queue(), T0 - SECOND, T0 + SECOND)) == [("new", "orders", T0 - SECOND)]


def test_what_waited_in_vain_for_its_event_and_was_deleted_is_not_new_when_that_arrives() -> None:
    """An operation of the gateway deleted it: the answer, which is no event, arrived before both events."""
    known = receiving_queues()
    known.listed(queue(), T0 - 8 * SECOND, 0, T0 - 8 * SECOND)
    known.listed(queue(), T0 - 5 * SECOND, 0, T0 - 5 * SECOND)
    ends = known.deleted(ORDERS, T0 - 2 * SECOND, T0 - 2 * SECOND, by_event=False)
    assert [kind for kind, *_ in reported(ends)] == ["gone"]
    assert known.created(queue(), T0 - 10 * SECOND, T0) == []
    assert reported(known.created(queue(), T0 - SECOND, T0)) == [("new", "orders", T0 - SECOND)]


def test_an_object_that_ended_with_another_is_not_new_when_the_event_of_its_creation_arrives() -> None:
    known = bound_queue()
    known.listed(binding(), T0 - 50 * SECOND, T0, T0)
    known.not_found(ORDERS, T0, T0)
    assert known.created(binding(), T0 - 60 * SECOND, T0 + SECOND) == []


def test_the_number_of_what_an_ended_object_referred_to_is_that_of_the_one_that_ended_with_it() -> None:
    known = bound_queue()
    orders = known.get(ORDERS)
    assert orders is not None
    known.deleted(ORDERS, T0, T0)
    assert known.number_of(ORDERS, ended=True) == orders.number
    assert known.number_of(ORDERS, ended=False) == object_number(ORDERS, 0)


def test_the_start_of_a_node_after_the_last_run_says_nothing_of_when_a_queue_was_created() -> None:
    former = KnownObjects(READERS)
    former.listed(queue(), T0 - SECOND, T0 - SECOND, T0 - SECOND)
    known = KnownObjects(READERS)
    known.restore([replace(one, first_seen=0) for one in former.of_class("queue")], T0, T0)
    started = T0 + 20 * SECOND
    assert known.is_known_otherwise(queue(), started, T0 + 60 * SECOND)
    assert reported(known.created(queue(), started, T0 + 60 * SECOND, lasts=True)) == [("new", "orders", 0)]


def test_events_that_come_minutes_late_are_about_the_one_that_had_ended_by_then() -> None:
    """Listings showed in between that the queue had ended, and that there was another one of its name."""
    known = known_queue()
    former = known.get(ORDERS)
    assert former is not None
    known.not_found(ORDERS, T0, T0)
    listed = T0 + 60 * SECOND
    known.listed(queue(durable=False), listed, listed, listed)
    successor = known.get(ORDERS)
    assert successor is not None
    late = T0 + 90 * SECOND
    assert known.created(queue(), T0 - 200 * SECOND, late) == []
    assert known.deleted(ORDERS, T0 - 30 * SECOND, late) == []
    assert reported(known.created(queue(durable=False), T0 - 20 * SECOND, late)) == [
        ("put", "orders", T0 - 20 * SECOND)
    ]
    assert reported(known.deleted(ORDERS, T0 + 80 * SECOND, late)) == [("gone", "orders", T0 + 80 * SECOND)]


def test_events_of_an_earlier_queue_do_not_end_the_one_that_a_listing_showed_since() -> None:
    known = KnownObjects(READERS)
    known.events_arrive, known.events_since = True, T0 - 10 * SECOND
    late = T0 + SECOND
    assert reported(known.listed(queue(durable=False), T0, T0, T0)) == [("new", "orders", 0)]
    assert known.created(queue(), T0 - 4 * SECOND, late) == []
    assert known.take_overtaken() == [Overtaken(T0 - 4 * SECOND, T0)]
    assert known.created(queue(), T0 - 4 * SECOND, late) == [], "delivered again"
    assert known.take_overtaken() == []
    assert known.deleted(ORDERS, T0 - 3 * SECOND, late) == []
    created, ended = T0 - SECOND, T0 + 7 * SECOND
    assert reported(known.created(queue(durable=False), created, late)) == [("put", "orders", created)]
    assert reported(known.deleted(ORDERS, ended, ended)) == [("gone", "orders", ended)]


@pytest.mark.parametrize(
    ("listed", "created"), [(T0 - SECOND, T0 - 2 * SECOND), (T0 + SECOND, T0 + 2 * SECOND)]
)
def test_what_was_listed_before_events_arrived_or_before_the_next_was_created_has_ended(
    listed: int, created: int
) -> None:
    known = KnownObjects(READERS)
    known.listed(queue(durable=False), listed, listed, listed)
    known.events_arrive, known.events_since = True, T0
    changes = known.created(queue(), created, T0 + 3 * SECOND)
    assert reported(changes) == [("gone", "orders", created), ("new", "orders", created)]


@pytest.mark.parametrize("by_event", [True, False])
@pytest.mark.parametrize("age", [LISTING_LAG + SECOND, SECOND])
def test_what_took_a_name_and_is_reported_late_is_unread_until_a_listing_counts(
    age: int, *, by_event: bool
) -> None:
    """The broker has its values. For a while those of listings are not taken."""
    known = known_queue()
    if by_event:
        known.deleted(ORDERS, T0 - age - SECOND, T0)
    known.created(queue(), T0 - age, T0)
    late = age > LISTING_LAG

    def unread() -> bool:
        present = known.get(ORDERS)
        assert present is not None
        return present.unread_since > 0

    assert unread() is late
    known.listed(queue(messages=3), T0 + SECOND, T0 + SECOND, T0 + SECOND)
    assert unread() is late
    after = T0 + LISTING_LAG + SECOND
    known.listed(queue(messages=3), after, after, after)
    present = known.get(ORDERS)
    assert present is not None
    assert (present.statistics[0], present.unread_since) == (3, 0)
