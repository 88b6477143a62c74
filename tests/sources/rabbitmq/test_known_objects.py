"""The known objects after events and listings in any order."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.known_objects import MERGE_WINDOW, KnownObjects
from gateway.sources.rabbitmq.listing import completed_binding
from gateway.sources.rabbitmq.object_lives import (
    ENDS_KEPT_FOR,
    LISTING_LAG,
    WITHOUT_OWNER,
    Change,
    Gone,
    Overtaken,
    Put,
)
from gateway.sources.rabbitmq.object_names import ObjectName, object_number
from gateway.sources.rabbitmq.reading import Reading, class_readers
from tests.components.shipped_mappings import shipped_mappings

READERS = class_readers(shipped_mappings()["rabbitmq"])
T0 = 1_700_000_000 * SECOND
"""The time at which each story begins."""
ORDERS = ObjectName("queue", ("/", "orders"))
PEER = ObjectName("connection", ("peer -> us",))


def queue(name: str = "orders", **more: Json) -> Reading:
    reported = {"vhost": "/", "name": name, "durable": True, "auto_delete": False, "exclusive": False, **more}
    reading = READERS["queue"].read(reported)
    assert reading is not None
    return reading


def connection(connected_at: int | None = None, **more: Json) -> Reading:
    reading = READERS["connection"].read({"name": "peer -> us", "connected_at": connected_at, **more})
    assert reading is not None
    return reading


def reported(changes: Iterable[Change]) -> list[tuple[str, str, int]]:
    """Return the changes in short: new, put or gone; the object; its creation or deletion time."""
    return [
        ("gone", change.object.name.leaf, change.time)
        if isinstance(change, Gone)
        else ("new" if change.new else "put", change.object.name.leaf, change.object.created)
        for change in changes
    ]


def sweep(known: KnownObjects, began: int, *seen: ObjectName, hidden: bool = False) -> list[Change]:
    changes, _ = known.swept("queue", set(seen), began, LISTING_LAG, began + SECOND, lambda _: hidden)
    return changes


def known_queue(now: int = T0) -> KnownObjects:
    """Return the known objects of a broker whose queue ``orders`` has been known for long."""
    known = KnownObjects(READERS)
    known.listed(queue(), now - 100 * SECOND, now - 100 * SECOND, now - 100 * SECOND)
    return known


def test_an_event_creates_and_a_listing_adds_values() -> None:
    known = KnownObjects(READERS)
    assert reported(known.created(queue(), T0, T0 + 5)) == [("new", "orders", T0)]
    changes = known.listed(queue(messages=3), T0 + SECOND, T0 + SECOND, T0 + SECOND)
    assert reported(changes) == [("put", "orders", T0)]
    (change,) = changes
    assert change.object.number == object_number(ORDERS, T0)
    assert change.object.statistics[0] == 3


def test_the_same_values_are_reported_again_only_for_their_sample_time() -> None:
    known = known_queue()
    assert reported(known.listed(queue(), T0, T0, T0)) == [("put", "orders", 0)]
    assert reported(known.listed(queue(), T0, T0, T0)) == []


def test_a_creation_event_that_comes_after_the_listing_adds_the_time_and_keeps_the_number() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(arguments={"a": 1}, state="running"), T0, T0, T0)
    (change,) = known.created(queue(arguments={"b": 2}), T0 - 5, T0 + SECOND)
    assert reported([change]) == [("put", "orders", T0 - 5)]
    assert change.object.number == object_number(ORDERS, 0)
    positions = READERS["queue"].schema.positions
    assert change.object.properties[positions["arguments"]] == {"a": 1}  # the listing's is preferred
    assert change.object.properties[positions["state"]] == "running"


def test_a_creation_event_for_an_object_known_for_long_means_that_its_end_was_missed() -> None:
    known = known_queue()
    later = T0 + MERGE_WINDOW
    assert reported(known.created(queue(), later, later)) == [
        ("gone", "orders", later),
        ("new", "orders", later),
    ]


def test_what_began_on_the_next_connection_of_a_name_does_not_end_with_the_former_one() -> None:
    """The end of one, and the begin of the next from the same port, were in a gap."""
    known = KnownObjects(READERS)
    known.listed(connection(T0 // 10**6, client_properties={}), T0, T0, T0)
    channel, later = READERS["channel"], T0 + 60 * SECOND

    def opened(number: int) -> Reading:
        name = f"peer -> us ({number})"
        reading = channel.read({"name": name, "connection_details": {"name": "peer -> us"}, "number": number})
        assert reading is not None
        return reading

    known.created(opened(1), T0 + SECOND, T0 + SECOND)
    known.created(opened(2), later, later)
    known.events_since = later
    next_one = connection((later - SECOND) // 10**6, client_properties={"next": True})
    now = later + 60 * SECOND
    changes = [change for again in range(9) for change in known.listed(next_one, *[now + again * SECOND] * 3)]
    assert [(kind, name) for kind, name, _ in reported(changes)][:4] == [
        ("gone", "peer -> us (1)"),
        ("gone", "peer -> us"),
        ("new", "peer -> us"),
        ("put", "peer -> us (2)"),
    ]
    assert known.get(ObjectName("channel", ("peer -> us (2)",))) is not None


def test_what_was_seen_just_before_events_arrived_may_have_ended_without_one() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(), T0, T0, T0)
    known.events_since = T0 + SECOND
    later = T0 + 3 * SECOND
    assert reported(known.created(queue(), later, later + SECOND)) == [
        ("gone", "orders", later),
        ("new", "orders", later),
    ]


def test_an_event_that_was_published_while_events_were_being_connected_is_about_what_was_seen() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(), T0, T0, T0)
    known.events_since = T0 + SECOND
    assert reported(known.created(queue(), T0 - 5, T0 + 2 * SECOND)) == [("put", "orders", T0 - 5)]


def test_the_same_creation_reported_twice_is_nothing_new() -> None:
    known = KnownObjects(READERS)
    known.created(queue(), T0, T0)
    assert reported(known.created(queue(), T0, T0 + SECOND)) == []


def test_a_listing_that_may_be_older_than_the_end_does_not_bring_an_object_back() -> None:
    known = KnownObjects(READERS)
    known.created(queue(), T0, T0)
    assert reported(known.deleted(ORDERS, T0 + 7, T0 + 10)) == [("gone", "orders", T0 + 7)]
    assert known.listed(queue(), T0 - SECOND, T0, T0) == []
    assert known.listed(queue(), T0 + LISTING_LAG, T0 + LISTING_LAG, T0 + LISTING_LAG) == []
    later = T0 + LISTING_LAG + SECOND
    assert reported(known.listed(queue(), later, later, later)) == [("new", "orders", 0)]


def test_a_virtual_host_that_is_created_again_has_what_the_next_listing_shows_of_it() -> None:
    """The listing of a virtual host does not lag, while one of queues may still show the former queue."""

    def host(description: str | None) -> Reading:
        reading = READERS["vhost"].read({"name": "stock", "description": description})
        assert reading is not None
        return reading

    known = KnownObjects(READERS)
    known.created(host("the former"), T0, T0)
    known.deleted(host(None).name, T0 + SECOND, T0 + SECOND)
    known.created(host(None), 0, T0 + 2 * SECOND)  # a queue's event, which names its virtual host
    later = T0 + 4 * SECOND
    (put,) = known.listed(host("the new"), later, later, later)
    assert isinstance(put, Put)
    assert "the new" in put.object.properties


def test_the_end_of_an_unknown_object_is_remembered_for_a_while() -> None:
    known = KnownObjects(READERS)
    assert known.deleted(ORDERS, T0, T0) == []
    assert known.listed(queue(), T0 - SECOND, T0, T0) == []
    known.ends.forget_old(T0 + ENDS_KEPT_FOR + 1)
    assert reported(known.listed(queue(), T0 - SECOND, T0, T0)) == [("new", "orders", 0)]


def test_a_listing_that_may_show_its_predecessor_reports_nothing_of_a_successor() -> None:
    known = KnownObjects(READERS)
    known.deleted(ORDERS, T0, T0)
    known.created(queue(), T0 + 1, T0 + 1)
    early, late = T0 + 2, T0 + LISTING_LAG
    assert reported(known.listed(queue(messages=700), early, early, early)) == []
    assert reported(known.listed(queue(messages=1), late, late, late)) == [("put", "orders", T0 + 1)]


def test_what_is_settled_at_creation_distinguishes_two_objects_of_one_name() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(arguments={"x-max-length": 5}), T0, T0, T0)
    later = T0 + 5 * SECOND  # deleted and declared again while no events arrived
    changes = known.listed(queue(arguments={"x-max-length": 6}), later, later, later)
    assert reported(changes) == [("gone", "orders", later), ("new", "orders", 0)]
    assert reported(known.listed(queue(arguments={"x-max-length": 6}), later, later, later)) == []


def test_a_listing_may_report_more_of_a_table_than_an_event() -> None:
    known = KnownObjects(READERS)
    known.created(queue(arguments={"x-max-length": 5, "x-odd": "1.5"}), T0, T0)
    later = T0 + 5 * SECOND
    whole: Json = {"x-max-length": 5, "x-odd": 1.5, "x-nested": {"of": ["many"]}}
    assert reported(known.listed(queue(arguments=whole), later, later, later)) == [("put", "orders", T0)]


def test_a_listing_that_contradicts_an_event_shows_another_object() -> None:
    for another in (queue(durable=False), queue(arguments={"x-max-length": 6})):
        known = KnownObjects(READERS)
        known.created(queue(arguments={"x-max-length": 5}), T0, T0)
        later = T0 + 60 * SECOND
        changes = known.listed(another, later, later, later)
        assert reported(changes) == [("gone", "orders", later), ("new", "orders", 0)]


def test_what_one_listing_lacks_is_gone_when_a_second_lacks_it_too() -> None:
    known = known_queue()
    changes, suspects = known.swept("queue", set(), T0, LISTING_LAG, T0 + SECOND, lambda _: False)
    assert (changes, suspects) == ([], [ORDERS])
    assert reported(sweep(known, T0 + 5 * SECOND)) == [("gone", "orders", T0 + 6 * SECOND)]


def test_a_listing_that_shows_it_again_clears_the_suspicion() -> None:
    known = known_queue()
    sweep(known, T0)
    known.listed(queue(), T0 + SECOND, T0 + SECOND, T0 + SECOND)
    assert sweep(known, T0 + 2 * SECOND, ORDERS) == []
    assert sweep(known, T0 + 3 * SECOND) == []


def test_what_an_event_created_about_when_the_listing_began_is_not_missed_in_it() -> None:
    known = KnownObjects(READERS)
    known.created(queue(), T0, T0)
    assert sweep(known, T0 - SECOND) == sweep(known, T0 + LISTING_LAG - 1) == []
    sweep(known, T0 + LISTING_LAG + 1)
    assert reported(sweep(known, T0 + LISTING_LAG + SECOND)) != []


def test_what_the_listing_could_not_show_is_not_missed() -> None:
    known = known_queue()
    assert sweep(known, T0, hidden=True) == sweep(known, T0 + SECOND, hidden=True) == []


def test_404_ends_an_object_at_once_unless_it_is_too_young() -> None:
    known = known_queue()
    known.created(queue("young"), T0, T0)
    assert reported(known.not_found(ORDERS, T0 + 1, T0 + 2)) == [("gone", "orders", T0 + 2)]
    assert known.not_found(ORDERS, T0 + 1, T0 + 2) == []
    assert known.not_found(ObjectName("queue", ("/", "young")), T0 + 1, T0 + 2) == []


def test_a_second_listing_ends_an_object_only_when_the_event_of_its_end_should_have_arrived() -> None:
    known = known_queue()
    known.events_arrive = True
    listed = T0 + 60 * SECOND
    sweep(known, listed)
    assert sweep(known, listed + SECOND) == []
    assert reported(sweep(known, listed + 2 * SECOND)) != []

    known = known_queue()
    known.events_arrive = True
    known.mark_unconfirmed()  # events were missed
    sweep(known, listed)
    assert reported(sweep(known, listed + SECOND)) != []


def test_404_ends_an_object_only_when_the_event_of_its_end_should_have_arrived() -> None:
    known = known_queue()
    known.events_arrive = True
    listed = T0 + 60 * SECOND
    sweep(known, listed)
    assert known.not_found(ORDERS, listed + SECOND, listed + SECOND) == []
    assert reported(known.not_found(ORDERS, listed + 2 * SECOND, listed + 2 * SECOND)) != []

    known = known_queue()
    known.events_arrive = True
    known.mark_unconfirmed()  # events were missed
    sweep(known, listed)
    assert reported(known.not_found(ORDERS, listed + SECOND, listed + SECOND)) != []


def test_an_object_that_answers_shows_that_listings_are_partial_until_one_lacks_nothing() -> None:
    known = known_queue()
    sweep(known, T0)
    known.answered(ORDERS, T0, exists=True)
    known.answered(ObjectName("queue", ("/", "unheard of")), T0, exists=True)
    for _ in range(3):
        assert not any(isinstance(change, Gone) for change in sweep(known, T0 + SECOND))
    assert [one.unread_since > 0 for one in known.of_class("queue")] == [True]
    known.listed(queue(), T0 + SECOND, T0 + SECOND, T0 + SECOND)
    sweep(known, T0 + SECOND, ORDERS)
    assert [one.unread_since for one in known.of_class("queue")] == [0]
    assert sweep(known, T0 + 2 * SECOND) == []
    assert reported(sweep(known, T0 + 2 * SECOND)) == [("gone", "orders", T0 + 3 * SECOND)]


def test_what_listings_lack_is_unread_while_an_answer_about_any_of_it_is_awaited() -> None:
    known = known_queue()
    known.listed(queue("other"), T0 - LISTING_LAG, T0 - LISTING_LAG, T0 - LISTING_LAG)
    sweep(known, T0)
    known.listings.asked(ORDERS, T0)
    assert [one.unread_since for one in known.of_class("queue")] == [0, 0]
    sweep(known, T0 + SECOND)
    assert [one.unread_since > 0 for one in known.of_class("queue")] == [True, True]
    assert known.answered(ORDERS, T0 + 9 * SECOND, exists=False) == []
    # Of what the earlier listing lacked all is known; this question is about a later one.
    known.listings.asked(ObjectName("queue", ("/", "third")), T0 + SECOND)
    ended = reported(sweep(known, T0 + 10 * SECOND))
    assert ended == [("gone", name, T0 + 11 * SECOND) for name in ("orders", "other")]


def test_an_object_that_a_listing_lacks_is_unread_when_its_own_answer_fails() -> None:
    known = known_queue()
    assert known.answered(ORDERS, T0, exists=False, failed=True) == [], "no listing lacked it"
    sweep(known, T0 + SECOND)
    (change,) = known.answered(ORDERS, T0 + 2 * SECOND, exists=False, failed=True)
    assert change.object.unread_since == T0 + 2 * SECOND


def test_a_connection_that_took_over_a_name_is_another_connection() -> None:
    known = KnownObjects(READERS)
    first = T0 // 1_000_000
    known.listed(connection(first), T0, T0, T0)
    changes = known.listed(connection(first + 5), T0 + 9, T0 + 9, T0 + 9)
    assert reported(changes) == [
        ("gone", "peer -> us", T0 + 9),
        ("new", "peer -> us", T0 + 5_000_000),
    ]


def test_a_listing_from_before_a_name_was_taken_over_changes_nothing() -> None:
    known = KnownObjects(READERS)
    first = T0 // 1_000_000
    known.created(connection(first), T0, T0)
    known.deleted(PEER, T0 + 10, T0 + 10)
    known.created(connection(first + 5), T0 + 5_000_000, T0 + 5_000_000)
    assert known.listed(connection(first), T0, T0, T0 + 6_000_000) == []


def test_a_successor_is_shown_although_the_end_of_its_predecessor_is_remembered() -> None:
    known = KnownObjects(READERS)
    first = T0 // 1_000_000
    known.created(connection(first), T0, T0)
    known.deleted(PEER, T0 + 10, T0 + 10)
    changes = known.listed(connection(first + 5), T0 + 9, T0 + 9, T0 + 9)
    assert reported(changes) == [("new", "peer -> us", T0 + 5_000_000)]


def test_what_was_settled_at_creation_stays_and_what_changes_does_not() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(type="classic", arguments={"a": 1}, state="running", messages=3), T0, T0, T0)
    (change,) = known.listed(queue(), T0 + 1, T0 + 1, T0 + 1)  # as after a restart of the broker
    positions = READERS["queue"].schema.positions
    assert change.object.properties[positions["type"]] == "classic"
    assert change.object.properties[positions["arguments"]] == {"a": 1}
    assert change.object.properties[positions["state"]] is None
    assert set(change.object.statistics) == {None}


def test_what_may_not_be_read_any_more_keeps_its_properties() -> None:
    known = KnownObjects(READERS)
    known.listed(queue(messages=3, state="running"), T0, T0, T0)
    known.created(queue("never-read"), T0, T0)
    (change,) = known.out_of_sight(ORDERS, T0 + 1)
    assert isinstance(change, Put)
    assert set(change.object.statistics) == {None}
    assert change.object.properties[0] == "/"
    assert change.object.unread_since == T0 + 1
    (change,) = known.out_of_sight(ObjectName("queue", ("/", "never-read")), T0 + 1)
    assert isinstance(change, Put), "nothing shows that it ended"


def test_a_class_takes_no_more_than_its_limit() -> None:
    known = KnownObjects(READERS, limit=2)
    for name in ("a", "b", "c"):
        known.created(queue(name), T0, T0)
    assert known.refused == 1
    assert [one.name.leaf for one in known.of_class("queue")] == ["a", "b"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["created", "deleted", "listed", "missing", "404"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 30),
    ),
    max_size=30,
)


@given(STEPS)
def test_whatever_happens_each_object_is_new_once_and_gone_once(steps: list[tuple[str, str, int]]) -> None:
    known = KnownObjects(READERS)
    alive: dict[int, str] = {}
    now = T0
    for what, name, seconds in steps:
        now += seconds * SECOND + 1
        object_name = ObjectName("queue", ("/", name))
        match what:
            case "created":
                changes = known.created(queue(name), now, now)
            case "deleted":
                changes = known.deleted(object_name, now, now)
            case "listed":
                changes = known.listed(queue(name, messages=seconds), now - SECOND, now, now)
            case "missing":
                others = {one.name for one in known.of_class("queue")} - {object_name}
                changes = sweep(known, now, *others)
            case _:
                changes = known.not_found(object_name, now, now)
        for change in changes:
            number = change.object.number
            if isinstance(change, Gone):
                del alive[number]
            else:
                assert change.new == (number not in alive)
                alive[number] = change.object.name.leaf
        assert sorted(alive.values()) == sorted(one.name.leaf for one in known.of_class("queue"))


def test_another_of_the_same_name_has_another_number_although_its_creation_was_not_reported() -> None:
    known = known_queue()
    first = known.get(ORDERS)
    known.listed(queue(durable=False), T0, T0, T0)
    second = known.get(ORDERS)
    assert first is not None
    assert second is not None
    assert (first.number, first.created) == (object_number(ORDERS, 0), 0)
    assert (second.number != first.number, second.created) == (True, 0)


def binding() -> Reading:
    ends: dict[str, Json] = {"source": "amq.topic", "destination_type": "queue", "destination": "orders"}
    item: dict[str, Json] = {"vhost": "/", "routing_key": "a", "properties_key": "a", **ends}
    reading = READERS["binding"].read(completed_binding(item))
    assert reading is not None
    return reading


def exchange() -> Reading:
    flags: dict[str, Json] = {"durable": True, "auto_delete": False, "internal": False}
    reading = READERS["exchange"].read({"vhost": "/", "name": "amq.topic", "type": "topic", **flags})
    assert reading is not None
    return reading


def test_events_of_a_predecessor_that_a_killed_broker_delivers_again_change_nothing() -> None:
    """The queue of a durable subscription still has the events if the broker lost their acknowledgements."""
    known = KnownObjects(READERS)
    known.created(queue(), T0, T0)
    known.deleted(ORDERS, T0 + 2 * SECOND, T0 + 2 * SECOND)
    known.created(queue(), T0 + 3 * SECOND, T0 + 3 * SECOND)
    later = T0 + 60 * SECOND
    assert reported(known.created(queue(), T0, later)) == []
    assert known.take_overtaken() == []
    assert reported(known.deleted(ORDERS, T0 + 2 * SECOND, later)) == []
    end = T0 + 4 * SECOND
    assert reported(known.deleted(ORDERS, end, later)) == [("gone", "orders", end)]


def test_who_came_and_went_before_its_successor_was_listed_is_overtaken() -> None:
    """Events that waited tell of it when its name has another connection, whose own events are to come."""
    known = KnownObjects(READERS)
    first, second = T0 // 1_000_000, T0 // 1_000_000 + 200
    seen = T0 + 90 * SECOND
    known.listed(connection(second), seen, seen, seen)
    later = seen + SECOND
    assert reported(known.created(connection(first), T0, later)) == []
    assert known.take_overtaken() == [Overtaken(T0, seen)]
    assert reported(known.deleted(PEER, T0 + 1, later)) == []
    known.created(connection(second), T0 + 200_000_000, later)
    assert reported(known.created(connection(first), T0, later)) == [], "now it comes again"
    assert known.take_overtaken() == []


def test_what_came_and_went_before_its_owner_was_read_is_a_gap() -> None:
    """The events of the owner's creation were lost, and it is listed later."""
    known, reading = KnownObjects(READERS), binding()
    assert known.created(reading, T0, T0 + 1) == []
    assert known.take_overtaken() == []
    assert known.deleted(reading.name, T0 + SECOND, T0 + SECOND + 1) == []
    assert known.take_overtaken() == [Overtaken(T0, T0 + SECOND, WITHOUT_OWNER)]
    known.deleted(reading.name, T0 + SECOND, T0 + SECOND + 1)
    assert known.take_overtaken() == [], "it is reported once"


def test_a_class_is_to_be_listed_again_that_was_listed_before_what_its_objects_depend_on() -> None:
    known = KnownObjects(READERS)
    known.listed(exchange(), T0, T0, T0)
    assert known.listed(binding(), T0, T0, T0) == []
    assert known.listed_too_early() == set()

    known.listed(queue(), T0 + 1, T0 + 1, T0 + 1)
    assert known.listed_too_early() == {"binding"}
    assert known.unconfirmed("binding", lambda _: False)

    (put,) = known.listed(binding(), T0 + 2, T0 + 2, T0 + 2)
    assert isinstance(put, Put)
    assert known.listed_too_early() == set()


def test_what_the_next_listing_lacks_is_not_waited_for() -> None:
    known = KnownObjects(READERS)
    known.listed(exchange(), T0, T0, T0)
    known.listed(binding(), T0, T0, T0)
    known.listed(queue(), T0 + 1, T0 + 1, T0 + 1)
    known.swept("binding", set(), T0 + 2, LISTING_LAG, T0 + 2, lambda _: False)
    assert known.listed_too_early() == set()
