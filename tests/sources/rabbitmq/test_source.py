"""The observations of a source: their order, their repetitions, and their native ids."""

from __future__ import annotations

from gateway.dialects.session import BacklogFollows, LinkUp, LossSuspected, TimerExpired
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    EventSeen,
    Gap,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.operations import MethodCall, ObjectFetch, Outcome
from gateway.model.times import MILLISECOND, SECOND
from gateway.model.values import Reference
from gateway.sources.rabbitmq.management_api import (
    Broken,
    Document,
    ManagementRequest,
    NotFound,
    OverviewRequest,
    Unavailable,
)
from gateway.sources.rabbitmq.management_changes import Change, Changed, Lookup
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.source_events import AnswerReceived, CallAnswered, Work, WorkContinues
from tests.sources.rabbitmq.imitation import World
from tests.sources.rabbitmq.play import Play
from tests.sources.rabbitmq.story import CONNECTED_AT, world


def seen(observations: list[Observation], class_name: str) -> list[ObjectSeen]:
    return [one for one in observations if isinstance(one, ObjectSeen) and one.key.name == class_name]


FAILS = Broken("status 500")


def test_objects_are_observed_as_they_are_read() -> None:
    shop = World()
    shop.broker.add_queue("orders")
    shop.broker.failure = lambda request: (
        Unavailable("busy") if getattr(request, "class_name", "") == "connection" else None
    )
    shop.run(3)
    assert seen(shop.observed, "queue")
    assert not any(isinstance(one, ResyncEnded) for one in shop.observed)
    first = next(place for place, one in enumerate(shop.observed) if isinstance(one, ObjectSeen))
    assert isinstance(shop.observed[first - 1], ResyncBegan)
    assert any(isinstance(one, ClassLearned) for one in shop.observed[:first])

    shop.broker.failure = lambda _: None
    shop.run(60)
    ended = [one for one in shop.observed if isinstance(one, ResyncEnded)]
    assert ended[0] == ResyncEnded(complete=True)
    states = [one.state for one in shop.observed if isinstance(one, SourceStateSeen)]
    assert states[-1] is SourceState.SYNCHRONISED


def test_only_what_changed_is_observed_again_and_a_heartbeat_confirms_the_rest() -> None:
    shop = world()
    before = len(shop.observed)
    shop.run(30)
    assert seen(shop.observed[before:], "queue") == []
    beats = [one.time for one in shop.observed[before:] if isinstance(one, HeartbeatSeen)]
    assert len(beats) >= 25

    before = len(shop.observed)
    shop.broker.objects["queue"]["/", "orders"]["messages"] = 9
    shop.run(30)
    (changed,) = seen(shop.observed[before:], "queue")
    assert changed.properties is None
    assert changed.statistics is not None
    assert changed.statistics[0] == 9


def test_the_same_object_has_the_same_native_id_after_a_restart() -> None:
    first, second = world(), world()
    for class_name in ("node", "vhost", "queue", "exchange", "connection"):
        ids = [{one.native_id for one in seen(shop.observed, class_name)} for shop in (first, second)]
        assert ids[0] == ids[1] != set()


def test_a_channel_of_a_connection_that_was_opened_again_is_another_one() -> None:
    ids = []
    for connected_at in (CONNECTED_AT, CONNECTED_AT + 1_000):
        shop = World()
        shop.broker.add_connection("peer -> us", connected_at)
        shop.broker.objects["channel"]["peer -> us (1)",] = {
            "name": "peer -> us (1)",
            "number": 1,
            "user": "app",
            "vhost": "/",
            "connection_details": {"name": "peer -> us"},
        }
        shop.run(12)
        (channel,) = {one.native_id for one in seen(shop.observed, "channel")}
        ids.append(channel)
    assert ids[0] != ids[1]


def test_events_wait_until_everything_was_read_and_come_at_once_afterwards() -> None:
    shop = World()
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.queue_created("early")
    assert not any(isinstance(one, EventSeen) for one in shop.observed)
    shop.run(12)
    (early,) = [one for one in shop.observed if isinstance(one, EventSeen)]
    (queue,) = {one.native_id for one in seen(shop.observed, "queue")}
    assert Reference(queue) in early.arguments

    before = len(shop.observed)
    shop.queue_created("late")
    created, event = shop.observed[before:]
    assert isinstance(created, ObjectSeen)
    assert isinstance(event, EventSeen)
    assert Reference(created.native_id) in event.arguments
    assert event.time == shop.now // MILLISECOND * MILLISECOND


def test_a_virtual_host_that_is_listed_no_more_and_answers_404_has_ended() -> None:
    shop = World()
    shop.broker.add_vhost("/")
    shop.broker.add_vhost("shop")
    shop.run(30)
    before = len(shop.observed)
    shop.source_does(shop.source.handle(LossSuspected("the queue was too long", shop.now), shop.now))
    del shop.broker.objects["vhost"]["shop",]
    del shop.broker.objects["exchange"]["shop", ""]
    listings = iter((None,))
    shop.broker.failure = lambda request: (
        next(listings, FAILS) if request.target.startswith("vhosts") else None  # it is listed once
    )
    shop.run(3)
    assert [one.native_id for one in seen(shop.observed[before:], "vhost") if one.deleted]
    assert "may not be read" not in shop.source.status.detail


def test_a_reference_to_what_is_not_known_yet_is_observed_again_when_it_is() -> None:
    shop = world()
    before = len(shop.observed)
    shop.event(
        "queue.created",
        vhost="later",
        name="orders",
        durable=True,
        auto_delete=False,
        exclusive=False,
    )
    shop.broker.add_vhost("later")
    shop.broker.add_queue("orders", "later")
    shop.run(60)
    (vhost,) = {one.native_id for one in seen(shop.observed[before:], "vhost")}
    queues = [one for one in seen(shop.observed[before:], "queue") if one.properties is not None]
    assert {one.properties[0] for one in queues if one.properties} == {Reference(vhost)}


def test_a_broker_that_is_silent_is_lost_and_the_time_is_a_gap_when_it_answers_again() -> None:
    shop = world()
    before, since = len(shop.observed), shop.now
    shop.broker.failure = lambda _: Unavailable("stands still")
    shop.run(40)
    lost = [one for one in shop.observed[before:] if isinstance(one, AgentLost)]
    assert len(lost) == 1
    beats = [one.time for one in shop.observed[before:] if isinstance(one, HeartbeatSeen)]
    assert max(beats, default=since) < since + 10 * SECOND

    shop.broker.failure = lambda _: None
    shop.run(90)
    (gap,) = [one for one in shop.observed[before:] if isinstance(one, Gap)]
    assert since <= gap.start < gap.end <= shop.now
    back = [one for one in shop.observed[before:] if isinstance(one, Gap | ResyncEnded)]
    assert back == [gap, ResyncEnded(complete=True)]


def test_a_source_that_stood_still_confirms_nothing_before_it_has_read_again() -> None:
    shop = world()
    before = len(shop.observed)
    shop.now += 60 * SECOND
    shop.source.handle(TimerExpired(), shop.now)
    after = shop.observed[before:]
    assert [type(one) for one in after].count(AgentLost) == 1
    assert HeartbeatSeen not in [type(one) for one in after]


def test_an_answer_that_waited_while_the_process_stood_still_is_none() -> None:
    shop = world()
    shop.broker.objects["queue"].clear()
    request = OverviewRequest()
    late = Document({"cluster_name": "of long ago"})
    shop.source_does(shop.source.handle(AnswerReceived(request, late, shop.now - 60 * SECOND), shop.now))
    assert "does not answer" in shop.source.status.detail


def test_limits_of_virtual_hosts_are_not_known_while_their_events_may_be_lost() -> None:
    play = Play()
    assert play.is_idle()
    play.world.source.handle(LossSuspected("the queue was too long", play.now), play.now)
    play.looks("vhost-limits", Document([]))


def test_a_call_without_an_answer_in_time_is_unknown_until_its_answer_comes() -> None:
    shop = Play().world
    queue = seen(shop.observed, "queue")[0]
    call = MethodCall(7, queue.key, "1.0", queue.native_id, "delete", (None, None), shop.now + 2 * SECOND)
    shop.source_does(shop.source.handle(call, shop.now))
    shop.source_does(shop.source.handle(WorkContinues(Work.CALLS), shop.now))
    assert isinstance(shop.source.next_call_request(), Lookup)
    there = Document({"vhost": "/", "name": "orders"})
    shop.source_does(shop.source.handle(CallAnswered(there), shop.now))
    assert isinstance(shop.source.next_call_request(), Change)
    shop.run(5)
    assert [(one.token, one.outcome, one.code) for one in shop.answers] == [(7, Outcome.UNKNOWN, None)]

    shop.source_does(shop.source.handle(CallAnswered(Changed()), shop.now))
    while len(shop.answers) == 1:
        shop.run(1)
        shop.source_does(shop.source.handle(WorkContinues(Work.CALLS), shop.now))
        if shop.source.next_call_request() is not None:
            shop.source_does(shop.source.handle(CallAnswered(NotFound()), shop.now))
    assert shop.answers[1].outcome is Outcome.APPLIED
    assert seen(shop.observed, "queue")[-1].deleted


def test_an_object_is_not_said_to_be_gone_before_everything_was_read_once() -> None:
    """As after a restart of the source: whoever asks knows the object from the time before."""
    shop = World(RabbitMqSourceConfig(user="gateway", writer="writer"))
    shop.broker.add_queue("orders", messages=3)
    shop.broker.failure = lambda request: (
        Unavailable("busy") if getattr(request, "class_name", "") == "queue" else None
    )

    def outcomes() -> list[Outcome]:
        shop.answers.clear()
        which = (shop.source.readers["queue"].schema.key, "1.0", "00000000000000aa")
        for operation in (
            MethodCall(7, *which, "purge", (), shop.now + 5 * SECOND),
            ObjectFetch(8, *which, shop.now + 5 * SECOND),
        ):
            shop.source_does(shop.source.handle(operation, shop.now))
        while len(shop.answers) < 2:
            shop.source_does(shop.source.handle(WorkContinues(Work.CALLS), shop.now))
            if shop.source.next_call_request() is not None:  # the limits of virtual hosts
                shop.source_does(shop.source.handle(CallAnswered(Document([])), shop.now))
        return [one.outcome for one in shop.answers]

    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(3)
    assert not shop.source.synchronised
    assert outcomes() == [Outcome.SOURCE_DOWN, Outcome.SOURCE_DOWN]
    shop.broker.failure = lambda _request: None
    shop.run(60)
    assert shop.source.synchronised
    assert outcomes() == [Outcome.OBJECT_GONE, Outcome.OBJECT_GONE]


def test_events_of_a_durable_subscription_do_not_wait_until_everything_has_been_read() -> None:
    shop = World()
    shop.broker.failure = lambda request: (
        Unavailable("busy") if getattr(request, "class_name", "") == "connection" else None
    )
    shop.source_does(shop.source.handle(BacklogFollows("", 0), shop.now))
    shop.run(3)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(3)
    shop.queue_created("orders")
    assert shop.source.status.state is not SourceState.SYNCHRONISED
    assert [one.key.name for one in shop.observed if isinstance(one, EventSeen)] == ["queueCreated"]


def test_what_could_not_be_listed_before_a_silence_is_tried_again_before_anything_is_fresh() -> None:
    shop, others = world(), {"user", "feature-flag", "deprecated-feature", ""}
    shop.broker.failure = lambda request: FAILS if getattr(request, "class_name", "") not in others else None
    shop.run(600)
    assert shop.source.status.state is SourceState.DEGRADED
    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(60)
    before, tried = len(shop.observed), set[str]()

    def noted(request: ManagementRequest) -> None:
        tried.add(getattr(request, "class_name", ""))

    shop.broker.failure = noted
    wait = iter(range(6000))
    while not any(isinstance(one, ResyncEnded) for one in shop.observed[before:]):
        assert next(wait) < 5999, "nothing is fresh again"
        shop.run(0.01)
    assert {"queue", "connection", "permission"} <= tried
