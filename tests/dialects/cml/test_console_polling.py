"""The CML console while it polls: the inspections, new and ended objects, unseen objects."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from gateway.dialects.cml.console import ConsoleConfig
from gateway.dialects.cml.console_config import Budget, Intervals, ShortLived
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    Spelling,
    Status,
)
from gateway.dialects.cml.session_state import State
from gateway.dialects.session import TimerExpired
from gateway.model.observations import (
    HeartbeatSeen,
    ObjectSeen,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from tests.dialects.cml.console_story import (
    CONFIG,
    SYNCHRONISED,
    UNSEEN,
    gone,
    reported,
    seen,
    states,
    synchronised,
    the_broker,
)
from tests.dialects.cml.playbook import ConsolePlay, Shop, Step, shop


def asked(steps: list[Step]) -> Counter[int | str | None]:
    """Return the number of inspections of each object."""
    return Counter(one.object_id for one in steps if isinstance(one, InspectRequest))


def test_each_class_is_inspected_at_its_interval() -> None:
    play = synchronised()
    play.time_passes(40)
    assert asked(play.left()) == {0: 8, 1: 2, 7: 2, 8: 2, 9: 2}


def test_hot_classes_of_an_openamq_are_inspected_oftener_than_its_settings() -> None:
    intervals = ConsoleConfig().intervals
    assert intervals.of("queue") < intervals.of("queue_binding") < intervals.of("config")


# Until when what was read is current.


def ages(steps: list[Step], now: int) -> dict[str, int]:
    """Return for how many seconds from now each class is current, by the last report."""
    (*_, last) = [one for one in steps if isinstance(one, HeartbeatSeen)]
    return {name.removeprefix("shop:"): (time - now) // SECOND for name, time in last.current_until.items()}


def test_objects_that_are_read_in_time_are_current() -> None:
    play = synchronised()
    play.time_passes(3600)
    steps = play.left()
    beats = [one for one in steps if isinstance(one, HeartbeatSeen)]
    assert 300 <= len(beats) <= 361
    assert all(time > one.time for one in beats for time in one.current_until.values())
    assert {"broker", "config", "queue", "connection", "queue_binding"} <= ages(steps, play.now).keys()
    assert states(steps) == []


def test_a_class_is_current_for_three_of_its_intervals_from_the_request_for_its_oldest_object() -> None:
    play = synchronised(replace(CONFIG, intervals=Intervals({"config": 300 * SECOND}, 30 * SECOND)))
    play.time_passes(43)
    again = dict.fromkeys(("broker", "queue", "connection", "queue_binding"), 90 - 13)
    assert ages(play.left(), play.now) == {**again, "config": 900 - 45}


def test_a_class_of_which_one_object_waits_too_long_is_overdue_and_the_source_degraded() -> None:
    """The broker answers the others, and its answer about one object is late, but not missing."""
    play = synchronised(replace(CONFIG, request_deadline=200 * SECOND))
    play.spoils = {InspectRequest(8, "queue_binding"): None}
    play.time_passes(100)
    steps = play.left()
    left = ages(steps, play.now)
    assert left.pop("queue_binding") < 0
    assert min(left.values()) > 0
    assert states(steps)[-1] == SourceStateSeen(
        SourceState.DEGRADED, f"not read in time: queue_binding; {UNSEEN}"
    )
    play.spoils.clear()
    play.time_passes(200)
    steps = play.left()
    assert min(ages(steps, play.now).values()) > 0
    assert states(steps)[-1] == SYNCHRONISED


def test_objects_that_the_budget_lets_be_read_seldom_are_current_within_the_plan() -> None:
    broker = shop()
    for number in range(1000, 1600):
        broker.put(number, "queue_binding", 7, name=f"b{number}")
    play = ConsolePlay(replace(CONFIG, budget=Budget(rate=3)), broker)
    play.connects()
    play.time_passes(300)
    walked = play.left()
    play.time_passes(600)
    steps = play.left()
    beats = [one for one in steps if isinstance(one, HeartbeatSeen)]
    assert len(beats) > 50
    assert all(time > one.time for one in beats for time in one.current_until.values())
    (*_, last) = states([*walked, *steps])
    assert last.state is SourceState.SYNCHRONISED
    assert "the budget makes intervals 10 times as long" in last.detail


def test_the_budget_lengthens_no_plan_beyond_its_bound() -> None:
    broker = shop()
    for number in range(1000, 2000):
        broker.put(number, "queue_binding", 7, name=f"b{number}")
    play = ConsolePlay(replace(CONFIG, budget=Budget(rate=1), longest_interval=60 * SECOND), broker)
    play.connects()
    play.time_passes(1200)
    steps = play.left()
    assert "not read in time: " in states(steps)[-1].detail
    assert ages(steps, play.now)["queue_binding"] < 0


# What comes and goes.


def test_a_new_queue_is_inspected_when_it_was_listed_twice() -> None:
    play = synchronised()
    play.broker.put(20, "queue", 0, name="late", pending="0", exclusive="0")
    play.broker.put(21, "queue_binding", 20, name="late")
    play.time_passes(5)
    assert reported(play.left()) == ["0"]
    play.time_passes(2)
    play.leaves(
        InspectRequest(0),
        the_broker(),
        InspectRequest(20, "queue"),
        seen(20, "queue", "late", 0, False),
        InspectRequest(21, "queue_binding"),
        seen(21, "queue_binding", "late", parent=20),
    )


def test_what_came_and_went_between_two_listings_is_never_inspected() -> None:
    play = synchronised()
    play.broker.put(20, "connection", 0, name="gone soon")
    play.time_passes(5)
    play.broker.remove(20)
    play.time_passes(10)
    assert "20" not in reported(play.left())


def test_what_is_not_listed_any_more_is_gone_with_all_in_it() -> None:
    play = synchronised()
    play.broker.remove(7)
    play.time_passes(5)
    play.leaves(
        InspectRequest(0), the_broker(), gone(8, "queue_binding", play.now), gone(7, "queue", play.now)
    )
    play.time_passes(40)
    assert asked(play.left()).keys() == {0, 1, 9}


def test_what_is_not_found_is_gone() -> None:
    play = synchronised()
    play.spoils = {InspectRequest(7, "queue"): InspectReply(Status.NOT_FOUND)}
    play.time_passes(20)
    assert reported(play.left())[-4:-1] == ["-8", "-7", "9"]


def test_an_answer_about_what_was_gone_meanwhile_is_no_news() -> None:
    play = synchronised()
    play.time_passes(19.9)
    play.time_passes(0.1, answering=False)
    requests = {play.read(send): send for send in play.waiting}
    queue, root = requests[InspectRequest(7, "queue")], requests[InspectRequest(0)]
    late = play.broker.reply(play.read(queue))
    play.broker.remove(7)
    play.left()
    play.answers(to=root)
    assert reported(play.left()) == ["0", "-8", "-7"]
    play.answers(late, to=queue)
    assert reported(play.left()) == []


def test_an_object_that_is_called_otherwise_is_another_one() -> None:
    play = synchronised()
    play.broker.put(7, "queue", name="invoices", pending="1", exclusive="0")
    play.time_passes(20)
    steps = play.left()
    when = steps.index(seen(7, "queue", "invoices", 1, False))
    assert isinstance(before := steps[when - 1], ObjectSeen)
    assert before.deleted
    assert reported([before]) == ["-7"]


def test_an_object_of_another_class_is_another_one() -> None:
    play = synchronised()
    play.broker.put(7, "connection", name="orders", trace="0")
    play.time_passes(20)
    assert reported(
        [one for one in play.left() if isinstance(one, ObjectSeen) and "/7" in one.native_id]
    ) == [
        "-7",
        "7",
    ]


def test_what_two_list_belongs_to_the_first() -> None:
    play = synchronised()
    play.broker.objects[9][2].append(("connection_queue", 8))
    play.time_passes(45)
    steps = play.left()
    assert all(
        one.key.name == "queue_binding"
        for one in steps
        if isinstance(one, ObjectSeen) and "/8" in one.native_id
    )
    play.broker.remove(8)
    play.broker.put(8, "connection_queue", name="orders")
    play.broker.objects[9][2].append(("connection_queue", 8))
    play.time_passes(45)
    assert [one.key.name for one in play.left() if isinstance(one, ObjectSeen) and "/8" in one.native_id][
        :2
    ] == [
        "queue_binding",
        "connection_queue",
    ]


def test_an_object_that_is_listed_twice_is_one() -> None:
    broker = shop()
    broker.objects[0][2].append(("queue", 7))
    play = ConsolePlay(CONFIG, broker)
    play.connects()
    play.time_passes(4)
    assert reported(play.left()).count("7") == 1


# What comes and goes with connections.


def private() -> Shop:
    broker = shop()
    broker.put(30, "queue", 0, name="private", pending="0", exclusive="1")
    broker.put(31, "queue_binding", 30, name="private")
    broker.put(32, "queue_connection", 7, name="till")
    return broker


def test_what_is_in_private_queues_and_connections_is_inspected_when_it_was_listed_twice() -> None:
    broker = private()
    broker.put(33, "connection_queue", 9, name="orders")
    play = ConsolePlay(CONFIG, broker)
    play.connects()
    play.time_passes(3)
    assert reported(play.left()) == ["0", "1", "0", "7", "9", "30", "8"]
    play.time_passes(2)
    steps = play.left()
    assert sorted(reported(steps)) == sorted(["7", "9", "30", "31", "32", "33"])
    assert steps[-2:] == [ResyncEnded(complete=True), SYNCHRONISED]


def test_they_can_be_inspected_as_soon_as_they_are_listed() -> None:
    play = ConsolePlay(replace(CONFIG, short_lived=ShortLived.YES), private())
    play.connects()
    play.time_passes(0.5)
    assert sorted(reported(play.left())) == ["0", "1", "30", "31", "32", "7", "8", "9"]
    play.stands(State.SYNCHRONISED)


def test_they_can_be_left_alone_which_is_said() -> None:
    play = ConsolePlay(replace(CONFIG, short_lived=ShortLived.NO), private())
    play.connects()
    play.time_passes(4)
    steps = play.left()
    assert reported(steps) == ["0", "1", "0", "7", "8"]
    assert asked(steps)[30] == 1  # only inspecting a queue tells whether it is private
    text = f"{UNSEEN}; 3 objects that come and go with connections are not inspected"
    assert states(steps)[-1].detail == text
    play.broker.remove(30)
    play.time_passes(45)
    steps = play.left()
    assert asked(steps)[30] == 0
    assert states(steps)[-1].detail == text.replace("3", "2")


def test_bindings_of_queues_of_gateways_are_left_alone() -> None:
    broker = shop()
    broker.put(31, "queue_binding", 7, name="amqp-gateway.console.0b1e6f0a-6a6e-4f5c-8a53-3c8f0d6f1a20")
    broker.put(32, "queue_binding", 7, name="amqp-gateway.console.shop")
    play = ConsolePlay(replace(CONFIG, short_lived=ShortLived.NO), broker)
    play.connects()
    play.time_passes(4)
    steps = play.left()
    assert {"31", "32"} & set(reported(steps)) == {"32"}


def test_a_queue_that_turns_private_is_not_shown_any_more() -> None:
    play = synchronised(replace(CONFIG, short_lived=ShortLived.NO))
    play.broker.put(7, "queue", name="orders", pending="3", exclusive="1")
    play.time_passes(25)
    steps = reported(play.left())
    assert steps[steps.index("-8") :][:2] == ["-8", "-7"]
    assert steps[-1] == "0"


def test_a_broker_that_always_has_something_new_is_walked_all_the_same() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    for number in range(50, 58):
        play.broker.put(number, "connection", 0, name=f"c{number}")
        play.time_passes(1)
    assert ResyncEnded(complete=True) in play.left()


# What does not show itself.


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (InspectReply(Status.NO_ACCESS), "the broker answers 'noaccess'"),
        (InspectReply(Status.INVALID), "the broker answers 'invalid'"),
        (InspectReply(Status.OK, 7, "cellar"), "its class 'cellar' is not in the schema"),
    ],
)
def test_what_may_not_be_seen_is_said_and_not_shown(reply: InspectReply, why: str) -> None:
    play = synchronised()
    play.spoils = {InspectRequest(7, "queue"): reply}
    play.time_passes(45)
    steps = play.left()
    assert steps.count("not-shown") == 1
    assert "-7" in reported(steps)
    assert "-8" in reported(steps)
    assert states(steps) == [
        SourceStateSeen(SourceState.SYNCHRONISED, f"{UNSEEN}; 1 objects cannot be shown (object 7: {why})")
    ]
    play.spoils.clear()
    play.time_passes(45)
    assert states(play.left()) == [SYNCHRONISED]


def test_a_broker_that_does_not_show_itself_is_in_doubt() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.spoils = {InspectRequest(0): InspectReply(Status.NO_ACCESS)}
    play.time_passes(15)
    assert states(play.left())[-1] == SourceStateSeen(
        SourceState.DEGRADED,
        "the reading was incomplete: object 0 '': the broker answers 'noaccess'; next attempt in 5 s",
    )
    play.spoils.clear()
    play.time_passes(20)
    play.stands(State.SYNCHRONISED)


def test_a_broker_that_shows_itself_after_all_is_walked() -> None:
    """Before the broker is read, its objects and its run are unknown."""
    play = ConsolePlay(replace(CONFIG, retry_interval=60 * SECOND, request_attempts=1))
    play.connects()
    play.spoils = {InspectRequest(0): InspectReply(Status.NO_ACCESS)}
    play.time_passes(1)
    play.stands(State.DEGRADED)
    play.left()
    play.spoils.clear()
    play.take(play.session.handle(TimerExpired(), play.now))
    play.time_passes(70)
    play.stands(State.SYNCHRONISED)


def test_objects_have_a_bound() -> None:
    broker = shop()
    for number in range(40, 50):
        broker.put(number, "queue_binding", 7, name=f"b{number}")
    play = ConsolePlay(replace(CONFIG, object_limit=6), broker)
    play.connects()
    play.time_passes(4)
    steps = play.left()
    assert len(set(reported(steps))) == 7  # the broker, and six that are listed
    assert states(steps)[-1].detail == f"{UNSEEN}; 8 objects beyond the limit of 6 are left out"
    for number in range(40, 48):
        broker.remove(number)
    play.time_passes(45)
    assert states(play.left()) == [SYNCHRONISED]


def test_numbers_that_openamq_takes_for_others_are_not_asked_for() -> None:
    broker = shop()
    broker.put(1 << 32, "queue_binding", 7, name="far")
    play = synchronised(broker=broker)
    assert (1 << 32) not in asked(play.left())
    fields = (Field("name", "shop"), Field("queue", object_id=1 << 32))
    play = ConsolePlay(replace(CONFIG, spelling=Spelling.SPECIFICATION, short_lived=ShortLived.YES))
    play.connects()
    play.answers()
    play.arrives(play.written(InspectReply(Status.OK, 0, "broker", fields), Spelling.SPECIFICATION), "c-2")
    assert asked(play.left())[1 << 32] == 1


def test_what_cannot_be_read_is_absent_and_noted_once() -> None:
    play = synchronised()
    play.broker.put(7, "queue", name="orders", pending="many", exclusive="0")
    play.time_passes(45)
    steps = play.left()
    assert steps.count("doubtful-value") == 1
    assert seen(7, "queue", "orders", None, False) in steps


def test_texts_beyond_any_reason_are_absent_and_noted() -> None:
    play = synchronised()
    play.broker.put(1, "config", name="shop.cfg", port="5" * 65_537)
    play.time_passes(45)
    steps = play.left()
    assert steps.count("doubtful-value") == 1
    assert seen(1, "config", "shop.cfg", None, None, None, None, None) in steps


def test_secrets_are_dropped_and_masked() -> None:
    play = ConsolePlay(replace(CONFIG, secrets=SecretRules(["port"])))
    play.broker.put(1, "config", name="amqp://u:secret@h/", port="5672", password="secret")
    play.connects()
    play.time_passes(3)
    steps = play.left()
    (config, *_) = [one for one in steps if isinstance(one, ObjectSeen) and one.key.name == "config"]
    assert config.properties is not None
    assert config.properties[1:] == ("amqp://***@h/", None, None, None, None)
    assert "secret" not in repr(steps)


# The budget.


def test_a_small_budget_makes_intervals_longer_and_starves_no_class() -> None:
    play = ConsolePlay(replace(CONFIG, budget=Budget(rate=0.1)))
    play.connects()
    play.time_passes(120)
    before = play.left()
    play.time_passes(1200)
    steps = play.left()
    counts = asked(steps)
    assert sum(counts.values()) <= 121
    assert min(counts.values()) >= 10
    assert counts[0] > 2 * counts[7]
    assert "the budget makes intervals" in states([*before, *steps])[-1].detail


def test_what_is_not_seen_is_said_soon_however_long_a_round_takes() -> None:
    play = synchronised(replace(CONFIG, intervals=Intervals({"config": 3600 * SECOND}, 5 * SECOND)))
    play.spoils = {InspectRequest(9, "connection"): InspectReply(Status.NO_ACCESS)}
    play.time_passes(20)
    assert states(play.left()) == []
    play.time_passes(20)
    assert [one.detail for one in states(play.left())] == [
        f"{UNSEEN}; 1 objects cannot be shown (object 9: the broker answers 'noaccess')"
    ]


def test_what_is_listed_and_not_looked_at_yet_is_said() -> None:
    play = ConsolePlay(replace(CONFIG, budget=Budget(rate=1)))
    play.connects()
    play.time_passes(60)
    for number in range(100, 400):
        play.broker.put(number, "queue", 0, name=f"queue {number}")
    play.left()
    play.time_passes(200)
    steps = play.left()
    assert min(asked(steps)[number] for number in (0, 1, 7)) > 3, "what is known is looked at meanwhile"
    (count,) = re.findall("; ([0-9]+) objects that are listed were not inspected", states(steps)[-1].detail)
    assert 100 <= int(count) < 300
    play.time_passes(1200)
    assert "not inspected yet" not in states(play.left())[-1].detail
