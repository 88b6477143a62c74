"""The known objects after a restart, with the objects that a previous run knew."""

from __future__ import annotations

from dataclasses import replace

from gateway.model.times import SECOND
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.object_lives import LISTING_LAG, Gone
from tests.sources.rabbitmq.test_known_objects import ORDERS, READERS, T0, known_queue, queue, reported, sweep


def remembering(created: int = T0 - 500 * SECOND) -> KnownObjects:
    """Return the objects of a source that was just started; its predecessor knew of ``orders``."""
    former = KnownObjects(READERS)
    former.created(queue(state="running"), created, created)
    known = KnownObjects(READERS)
    known.restore(former.of_class("queue"), T0)
    return known


def test_the_end_of_what_only_a_former_agent_knew_is_reported_whole() -> None:
    known = remembering()
    (gone,) = known.deleted(ORDERS, T0 - SECOND, T0)
    assert reported([gone]) == [("gone", "orders", T0 - SECOND)]
    assert gone.object.properties[READERS["queue"].schema.positions["state"]] == "running"
    assert known.deleted(ORDERS, T0 - SECOND, T0) == []


def test_a_listing_shows_what_a_former_agent_knew_with_its_time_of_creation() -> None:
    known = remembering()
    assert reported(known.listed(queue(), T0, T0, T0)) == [("new", "orders", T0 - 500 * SECOND)]


def test_what_was_created_again_meanwhile_is_two_objects_when_the_events_of_meanwhile_have_come() -> None:
    known = remembering()
    known.listed(queue(), T0, T0, T0)
    late = T0 + 60 * SECOND
    assert reported(known.deleted(ORDERS, T0 - 9 * SECOND, late)) == [("gone", "orders", T0 - 9 * SECOND)]
    assert reported(known.created(queue(), T0 - 8 * SECOND, late)) == [("new", "orders", T0 - 8 * SECOND)]


def test_an_event_from_before_the_first_sight_of_an_object_is_about_it_however_late_it_comes() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(), T0, T0, T0)
    assert reported(known.created(queue(), T0 - SECOND, T0 + 60 * SECOND)) == [("put", "orders", T0 - SECOND)]


def test_what_was_reported_by_events_is_remembered_no_more() -> None:
    known = remembering()
    known.created(queue(), T0, T0)
    assert reported(known.deleted(ORDERS, T0 + 1, T0 + 1)) == [("gone", "orders", T0 + 1)]
    assert known.deleted(ORDERS, T0 + 2, T0 + 2) == []


def test_an_end_may_be_that_of_another_where_the_events_of_meanwhile_are_missing() -> None:
    known = remembering()
    known.events_of_meanwhile_missed()
    assert known.deleted(ORDERS, T0 - SECOND, T0) == []
    assert reported(known.listed(queue(), T0 + 60 * SECOND, T0 + 60 * SECOND, T0 + 60 * SECOND)) == [
        ("new", "orders", 0)
    ]


def test_an_end_that_no_event_reported_is_inferred() -> None:
    known = known_queue()
    began, later = T0 + 60 * SECOND, T0 + 120 * SECOND
    known.swept("queue", set(), began, 0, began, lambda _: False)
    (gone,), _ = known.swept("queue", set(), later, 0, later, lambda _: False)
    assert isinstance(gone, Gone)
    assert gone.inferred
    known = known_queue()
    (gone,) = known.deleted(ORDERS, T0 + SECOND, T0 + SECOND)
    assert isinstance(gone, Gone)
    assert not gone.inferred


def remembered() -> KnownObjects:
    """Return the objects of a source that was just started, without a durable queue of events.

    Its predecessor knew of ``orders``.
    """
    former = KnownObjects(READERS)
    former.created(queue(), T0 - 500 * SECOND, T0 - 500 * SECOND)
    known = KnownObjects(READERS)
    known.remember(former.of_class("queue"), T0)
    known.events_since = T0
    return known


def test_what_was_known_before_the_start_ends_when_another_of_its_name_is_created() -> None:
    known = remembered()
    changes = known.created(queue(), T0 + SECOND, T0 + SECOND)
    assert reported(changes) == [("gone", "orders", T0 + SECOND), ("new", "orders", T0 + SECOND)]
    assert isinstance(changes[0], Gone)
    assert changes[0].inferred


def test_a_listing_shows_what_lived_over_the_start_under_its_number() -> None:
    known = remembered()
    (former,) = known.forget_remembered(lambda _: True, T0)
    known.remember([former.object], T0)
    (lives,) = known.listed(queue(), T0, T0, T0)
    assert lives.object.number == former.object.number
    assert lives.object.presumed, "it may have been created again meanwhile"


def test_what_was_created_right_before_the_start_may_be_missing_in_a_listing() -> None:
    former = KnownObjects(READERS)
    former.created(queue(), T0 - SECOND, T0 - SECOND)
    known = KnownObjects(READERS)
    known.remember(former.of_class("queue"), T0)
    sweep(known, T0)
    assert known.unconfirmed("queue", lambda _: False)
    assert not known.unconfirmed("queue", lambda _: True)
    assert not known.unconfirmed("connection", lambda _: False)
    sweep(known, T0 + LISTING_LAG)
    assert not known.unconfirmed("queue", lambda _: False)


def test_what_was_created_right_before_the_start_by_a_clock_that_is_slow_is_waited_for() -> None:
    former = KnownObjects(READERS)
    former.created(queue(), T0 - 3600 * SECOND, T0 - SECOND)
    (young,) = former.of_class("queue")
    known = KnownObjects(READERS)
    known.remember([replace(young, announced=T0 - SECOND)], T0)
    sweep(known, T0)
    assert known.unconfirmed("queue", lambda _: False)
    sweep(known, T0 + LISTING_LAG)
    assert not known.unconfirmed("queue", lambda _: False)


def test_what_was_created_by_a_clock_that_is_fast_is_not_waited_for_any_longer() -> None:
    former = KnownObjects(READERS)
    former.created(queue(), T0 + 3600 * SECOND, T0 - SECOND)
    known = KnownObjects(READERS)
    known.remember(former.of_class("queue"), T0)
    sweep(known, T0)
    assert known.unconfirmed("queue", lambda _: False)
    sweep(known, T0 + LISTING_LAG)
    assert not known.unconfirmed("queue", lambda _: False)


def test_what_cannot_have_lived_over_the_start_does_not_leave_its_number_to_another() -> None:
    former = KnownObjects(READERS)
    former.listed(queue(), T0 - 500 * SECOND, T0 - 500 * SECOND, T0 - 500 * SECOND)
    known = KnownObjects(READERS)
    known.remember(former.of_class("queue"), T0)
    (gone,) = known.forget_remembered(lambda _: True, T0)
    assert isinstance(gone, Gone)
    assert gone.inferred
    (new,) = known.listed(queue(), T0, T0, T0)
    assert (new.object.name, new.object.number != gone.object.number) == (ORDERS, True)


def test_what_a_node_recovers_was_not_created_again() -> None:
    known = known_queue()
    later = T0 + 500 * SECOND
    assert known.created(queue(), later, later, lasts=True) == []
    assert known.is_known_otherwise(queue(), later, later)
    assert reported(known.created(queue("unheard"), later, later, lasts=True, recovered=True)) == [
        ("new", "unheard", 0)
    ]


def test_what_is_listed_while_events_arrive_ends_with_an_event_only() -> None:
    """A queue whose process fails is started again, and reported as if it had just been created."""
    known = KnownObjects(READERS)
    known.listed(queue(), T0, T0, T0)
    known.events_since = T0 + SECOND
    listed_at = known.events_since + LISTING_LAG
    known.listed(queue(), listed_at, listed_at, listed_at)
    later = listed_at + SECOND
    assert known.is_known_otherwise(queue(), later, later)
    assert reported(known.created(queue(), later, later, lasts=True)) == []


def test_what_a_node_reports_that_was_just_started_proves_no_end() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(), T0, T0, T0)
    known.events_since = T0 + SECOND
    known.recovered_until = T0 + 6 * SECOND
    now = known.recovered_until
    assert known.created(queue(), now, now, lasts=True) == []
    assert reported(known.created(queue(), now + 1, now + 1, lasts=True)) == [
        ("gone", "orders", now + 1),
        ("new", "orders", now + 1),
    ]


def test_what_was_known_before_the_start_and_is_recovered_is_awaited_in_a_listing() -> None:
    former = known_queue()
    known = KnownObjects(READERS)
    known.remember(former.of_class("queue"), T0)
    assert known.created(queue(), T0 + SECOND, T0 + SECOND, lasts=True, recovered=True) == []
    assert known.names_of("queue") == {ORDERS}


def test_an_event_is_not_about_what_was_seen_before_events_arrived() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(), T0, T0, T0)
    known.events_since = T0 + 4 * SECOND
    later = T0 + 5 * SECOND
    assert reported(known.created(queue(), later, later)) == [
        ("gone", "orders", later),
        ("new", "orders", later),
    ]


def test_an_event_is_not_about_another_that_a_listing_showed_a_moment_before() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(), T0, T0, T0)
    later = T0 + SECOND
    assert not known.is_known_otherwise(queue(durable=False), later, later)
    assert reported(known.created(queue(durable=False), later, later, lasts=True)) == [
        ("gone", "orders", later),
        ("new", "orders", later),
    ]


def test_a_creation_event_that_comes_after_a_listing_is_no_recovery() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(), T0, T0, T0)
    assert not known.is_known_otherwise(queue(), T0 - SECOND, T0 + SECOND)
    assert not known.is_known_otherwise(queue("other"), T0, T0)


def test_a_listing_that_shows_another_object_before_its_events_arrive_is_trusted_later() -> None:
    known = known_queue()
    known.events_arrive = True
    assert known.listed(queue(durable=False), T0, T0, T0) == []
    assert reported(known.deleted(ORDERS, T0 - SECOND, T0 + SECOND)) == [("gone", "orders", T0 - SECOND)]

    known = known_queue()
    known.events_arrive = True
    known.listed(queue(durable=False), T0, T0, T0)
    later = T0 + 9 * SECOND
    assert reported(known.listed(queue(durable=False), later, later, later)) == [
        ("gone", "orders", later),
        ("new", "orders", 0),
    ]


def test_what_was_listed_before_the_start_gets_its_creation_from_the_event_that_waited() -> None:
    former = KnownObjects(READERS)
    former.listed(queue(), T0 - SECOND, T0 - SECOND, T0 - SECOND)
    known = KnownObjects(READERS)
    known.restore(
        (replace(one, first_seen=0) for one in former.of_class("queue")), T0
    )  # the log does not say when
    assert not known.is_known_otherwise(queue(), T0 - 2 * SECOND, T0)
    changes = known.created(queue(), T0 - 2 * SECOND, T0, lasts=True)
    assert reported(changes) == [("new", "orders", T0 - 2 * SECOND)]


def test_a_late_event_of_an_end_is_that_of_the_one_whose_place_a_listing_has_given_to_another() -> None:
    known = known_queue()
    known.listed(queue(durable=False), T0, T0, T0)
    assert known.deleted(ORDERS, T0 - 4 * SECOND, T0 + 9 * SECOND) == []
    assert known.get(ORDERS) is not None

    end = T0 + 10 * SECOND
    assert reported(known.deleted(ORDERS, end, end)) == [("gone", "orders", end)]
