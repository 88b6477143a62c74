"""The source in stories: the times at which its events are sent, lost events, and blocked events."""

from __future__ import annotations

from gateway.dialects.event_backlog import MAX_AGE, MAX_WAITING
from gateway.dialects.session import LinkDown, LinkUp, LossSuspected
from gateway.model.observations import EVENT_DELAY_BOUNDS
from gateway.model.times import SECOND
from gateway.model.values import Reference
from gateway.sources.rabbitmq.source_events import ConnectionBlocked
from tests.sources.rabbitmq.imitation import NODE
from tests.sources.rabbitmq.story import world


def test_events_of_the_time_without_a_link_are_reported_later_with_their_own_times() -> None:
    shop = world()
    shop.agent.handle(LinkDown("gone"), shop.now)
    shop.queue_created("meanwhile")
    happened = shop.now
    shop.run(60)
    assert shop.events() == []
    shop.agent_does(shop.agent.handle(LinkUp(""), shop.now))
    shop.run(3)
    (event,) = shop.events()
    assert (event.name, event.time) == ("queueCreated", happened)
    assert event.arguments["queue"] in {Reference(one.native_id) for one in shop.seen}


def test_events_that_the_link_gives_back_are_reported_again_in_order() -> None:
    shop = world()
    received = len(shop.observations)
    shop.event("alarm.set", node=NODE, source="memory")
    shop.event("alarm.cleared", node=NODE, source="memory")
    given_back = [send for send in shop.sent if send.routing_key.startswith("console.event.")]
    shop.agent.handle(LinkDown("gone"), shop.now)
    shop.agent.unsent([*given_back, *shop.sent[:3]])
    shop.event("alarm.set", node=NODE, source="disk")
    shop.agent_does(shop.agent.handle(LinkUp(""), shop.now))
    shop.run(3)
    names = [event.name for event in shop.events(received)]
    assert names == ["memoryAlarmSet", "memoryAlarmCleared"] * 2 + ["diskAlarmSet"]


def test_more_events_than_can_wait_are_counted_and_said() -> None:
    shop = world()
    shop.agent.handle(LinkDown("gone"), shop.now)
    shop.event("alarm.set", node=NODE, source="memory")
    for number in range(MAX_WAITING + 9):
        shop.event("user.created", name=f"user {number}")
    shop.agent_does(shop.agent.handle(LinkUp(""), shop.now))
    shop.run(3)
    events = shop.events()
    assert events[0].name == "memoryAlarmSet"
    assert events[1].arguments["user"] == "user 10"
    assert len(events) == MAX_WAITING + 1
    assert events[-1].name == "eventsLost"
    assert events[-1].arguments["count"] == 10
    assert shop.note_counts["events-lost"] == 1


def test_events_too_old_are_counted_and_said() -> None:
    shop = world()
    shop.agent.handle(LinkDown("gone"), shop.now)
    shop.event("user.created", name="bob")
    shop.run(MAX_AGE / SECOND + 1)
    shop.agent_does(shop.agent.handle(LinkUp(""), shop.now))
    shop.run(3)
    (event,) = shop.events()
    assert event.name == "eventsLost"
    assert event.arguments["count"] == 1


def test_lost_events_of_the_broker_are_reported() -> None:
    shop = world()
    shop.queue_created("last")
    shop.run(30)
    proved = shop.proved_at
    shop.source_does(shop.source.handle(LinkDown("connection refused"), shop.now))
    shop.run(10)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    lost = shop.events()[-1]
    assert lost.name == "eventsLost"
    assert (lost.arguments["since"], lost.arguments["until"]) == (proved - EVENT_DELAY_BOUNDS[0], shop.now)


def test_events_that_a_full_queue_dropped_are_lost_since_it_was_not_full_though_later_ones_arrived() -> None:
    shop = world()
    shop.run(10)
    fine = shop.now
    shop.run(20)
    shop.queue_created("last")
    shop.source_does(shop.source.handle(LossSuspected("too many waited", fine), shop.now))
    shop.run(1)
    (lost,) = [event for event in shop.events() if event.name == "eventsLost"]
    assert lost.arguments["since"] == fine - EVENT_DELAY_BOUNDS[0]


def test_events_that_lack_what_they_must_report_are_counted() -> None:
    shop = world()
    shop.event("user.created")
    shop.event("policy.set", vhost="/", name="cap", priority="high")
    shop.run(1)
    assert shop.events() == []
    assert shop.source.unreadable["userCreated"] == 1
    assert shop.source.unreadable["policySet"] == 1


def test_whether_publishers_are_blocked() -> None:
    shop = world()
    assert not shop.source.status.blocked
    shop.event("alarm.set", node=NODE, source="memory")
    shop.event("alarm.set", node=NODE, source="disk")
    assert shop.source.status.blocked
    shop.event("alarm.cleared", node=NODE, source="memory")
    assert shop.source.status.blocked
    shop.run(1)
    shop.event("alarm.cleared", node=NODE, source="disk")
    assert not shop.source.status.blocked


def test_a_node_shows_its_alarm_at_once_and_no_listing_from_before_takes_it_back() -> None:
    shop = world()
    shop.broker.objects["node"][NODE,]["mem_alarm"] = False
    shop.run(6)
    assert shop.value("node", NODE, "memoryAlarm") is False
    shop.event("alarm.set", node=NODE, source="memory")
    shop.run(2)
    assert shop.value("node", NODE, "memoryAlarm") is True
    shop.run(6)
    assert shop.value("node", NODE, "memoryAlarm") is True, "listings lag behind"
    shop.run(20)
    assert shop.value("node", NODE, "memoryAlarm") is False, "they know better in the end"


def test_an_alarm_that_only_listings_report_blocks_too() -> None:
    shop = world()
    shop.broker.objects["node"][NODE,]["mem_alarm"] = True
    shop.run(6)
    assert shop.source.status.blocked
    # The cleared event is ahead of listings that still show the alarm.
    shop.event("alarm.cleared", node=NODE, source="memory")
    shop.run(6)
    assert not shop.source.status.blocked
    shop.run(20)
    assert shop.source.status.blocked
    shop.broker.objects["node"][NODE,]["mem_alarm"] = False
    shop.run(6)
    assert not shop.source.status.blocked


def test_a_blocked_connection_is_trusted_until_listings_know_better() -> None:
    shop = world()
    shop.source.handle(ConnectionBlocked(), shop.now)
    assert shop.source.status.blocked
    shop.run(10)
    assert shop.source.status.blocked
    shop.run(20)
    assert not shop.source.status.blocked
