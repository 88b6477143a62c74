"""A gateway that was stopped, killed or refused records that time correctly in its log."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import aio_pika
import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from tests.components.command_line import running
from tests.components.waiting import wait_until
from tests.durable.plant import PLAIN, READ, REPORTED, Line, Plant, life, plant, second_gateway
from tests.hypothesis_profiles import PROVING

pytestmark = [
    pytest.mark.xdist_group("durable"),
    pytest.mark.long,
    pytest.mark.each_rabbitmq(takes_long=True),
]

SEEDS = 20 if PROVING else 1
KILLS = 3
PUBLISHED = "messagesPublished"
QUEUES_OF_MANY = 4_500
"""The number of queues in the large test; each one that is created and deleted leaves two messages."""
LIVES = 12
"""The number of queues that are created and deleted between two kills."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, rabbitmq_settings: BrokerSettings) -> Iterator[Plant]:
    """Provide one plant, with a synchronised gateway, for all tests of this file; each leaves it running."""
    with (
        PrivateBroker(settings=rabbitmq_settings) as broker,
        plant(broker, tmp_path_factory.mktemp("shop")) as made,
    ):
        made.start()
        yield made


def reported_whole(shop: Plant, *names: str) -> None:
    """Wait until both sources have recorded the life of each of these queues, and check for repetitions."""
    for name in names:
        is_reported_whole(shop, name)


def is_reported_whole(shop: Plant, name: str) -> None:
    wait_until(
        lambda: all(reported >= life(name) for reported in shop.happened(name=name).values()),
        f"{name} is told whole",
    )
    assert shop.happened(name=name) == {READ: life(name), REPORTED: life(name)}


def is_recorded(shop: Plant, name: str) -> None:
    """Wait until both sources have recorded the begin of a queue, and its event, which may come later."""
    begin = Counter({(name, what): 1 for what in ("create", "queueCreated")})
    wait_until(
        lambda: all(reported >= begin for reported in shop.happened(name=name).values()),
        f"{name} is recorded",
    )


def _has_successor(shop: Plant, source: str, queue: str) -> bool:
    kinds = [line["kind"] for line in shop.records(source, queue)]
    return "delete" in kinds and kinds.count("create") > 1


def time_of(line: Line, field: str) -> dt.datetime:
    return dt.datetime.fromisoformat(line[field])


def test_what_happens_while_the_gateway_is_away_is_reported_once_with_both_times(shop: Plant) -> None:
    """What lived before, and lives still, is no news."""
    shop.declare("before")
    shop.declare("staying", durable=False)
    is_recorded(shop, "before")
    is_recorded(shop, "staying")
    gaps = {source: len(shop.gaps(source)) for source in (READ, REPORTED)}
    shop.stop()
    stopped = dt.datetime.now(dt.UTC)
    shop.delete("before")
    shop.declare("short")
    shop.delete("short")
    shop.declare("after")
    wait_until(lambda: shop.waiting(READ) and shop.waiting(REPORTED), "it waits in both queues")
    started = dt.datetime.now(dt.UTC)
    shop.start()
    shop.delete("after")
    reported_whole(shop, "before", "short", "after")

    for source in (READ, REPORTED):
        ends = {
            line["object_name"]: line
            for line in shop.lines()
            if line["kind"] == "delete" and line["source"] == source and line.get("class") == "queue"
        }
        for name in ("before", "short"):
            assert stopped <= time_of(ends[f"/|{name}"], "delete_ts") <= started
            assert time_of(ends[f"/|{name}"], "create_ts") < time_of(ends[f"/|{name}"], "delete_ts")
            assert "inferred" not in ends[f"/|{name}"]
        assert len(shop.gaps(source)) == gaps[source], "nothing of the source was missed"
    absence = next(line for line in shop.lines_of_now() if line["kind"] == "gap" and "source" not in line)
    assert absence["values"] == {"covered": [REPORTED, READ, PLAIN]}, "each has gaps of its own"
    is_no_news(shop, "staying")
    shop.delete("staying")


def test_thousands_of_messages_that_waited_are_read_once_and_in_order(
    shop: Plant, rabbitmq_release: str
) -> None:
    queues = QUEUES_OF_MANY if PROVING else {"3.10": 1_500}.get(rabbitmq_release, 500)
    shop.stop()
    stopped = dt.datetime.now(dt.UTC)
    asyncio.run(_come_and_go(shop.broker.amqp_url(), queues))
    wait_until(lambda: (shop.waiting(READ) or 0) >= 2 * queues, "all of it waits")
    started = dt.datetime.now(dt.UTC)
    shop.start()
    lives = sum((life(f"brief-{number}") for number in range(queues)), Counter[tuple[str, str]]())
    wait_until(lambda: shop.waiting(READ) == 0, "all of it is acknowledged", 240)
    last = f"brief-{queues - 1}"
    wait_until(
        lambda: shop.happened(name=last)[REPORTED] >= life(last), "the agent has published the last", 240
    )

    assert (shop.said("catching-up", role="events"), shop.said("caught-up", role="events")) == (1, 1)
    assert shop.happened(prefix="brief-") == {READ: lives, REPORTED: lives}
    for source in (READ, REPORTED):
        created, ends = (_brief(shop, source, kind) for kind in ("create", "delete"))
        assert all("create_ts" in line for line in [*created, *ends])
        assert not [line for line in ends if line.get("inferred")]
    times = [time_of(line, "delete_ts") for line in _brief(shop, READ, "delete")]
    assert times == sorted(times)
    assert stopped <= times[0]
    assert times[-1] <= started


def _brief(shop: Plant, source: str, kind: str) -> list[Line]:
    return [line for line in shop.records_of(source, kind) if line["object_name"].startswith("/|brief-")]


async def _come_and_go(url: str, queues: int) -> None:
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        for first in range(0, queues, 50):
            numbers = range(first, first + 50)
            made = [channel.declare_queue(f"brief-{number}", durable=False) for number in numbers]
            await asyncio.gather(*(queue.delete() for queue in await asyncio.gather(*made)))


def is_no_news(shop: Plant, name: str) -> None:
    """Check that a queue which was there before a restart is recorded as the same one behind it."""
    kinds = {
        (line["source"], line["kind"], line["row"])
        for line in shop.lines()
        if line.get("object_name", "").startswith(f"/|{name}")
        and line["kind"] in {"create", "snapshot", "delete"}
    }
    assert len({row for source, _, row in kinds if source == READ}) == 1
    assert {kind for _, kind, _ in kinds} == {"create", "snapshot"}
    assert shop.happened(name=name)[READ][name, "create"] == 1
    for source in (READ, REPORTED, PLAIN):
        *_, shown = (line for line in shop.records(source, name) if line["kind"] == "snapshot")
        assert "inferred" not in shown, "its messages, or its time of creation, say that it is the same"


def test_a_transient_object_of_an_agent_keeps_its_identity_over_every_restart(shop: Plant) -> None:
    """The agent is younger than the queue, and does not know when that was created."""
    shop.kill()
    shop.kill_agent()  # it would publish when the queue was created, which the next one does not know
    shop.declare("old", durable=False)
    shop.start_agent()
    shop.start()
    first, *later = shop.records(PLAIN, "old")
    assert (first["kind"], first.get("create_ts")) == ("create", None)
    assert {line["kind"] for line in later} <= {"update"}, "a queue may have been read again by now"

    if PROVING:  # a core alone is started again in the test before this, too
        shop.kill()
        shop.start()
    shop.kill()
    shop.start_agent()
    shop.start()
    for source in (REPORTED, PLAIN):
        reported = shop.records(source, "old")
        assert len({(line["object_id"], line["object_name"]) for line in reported}) == 1
        assert [line["kind"] for line in reported if line["kind"] in {"create", "delete"}] == ["create"]

    shop.kill()
    shop.delete("old")
    shop.declare("old", durable=False)
    shop.start()
    for source in (REPORTED, PLAIN):
        wait_until(
            partial(_has_successor, shop, source, "old"), f"{source} has recorded the end and the successor"
        )
        reported = shop.records(source, "old")
        (end,) = [line for line in reported if line["kind"] == "delete"]
        (former, successor) = [line for line in reported if line["kind"] == "create"]
        assert former["object_id"] == end["object_id"]
        assert successor["object_id"] != former["object_id"]
        # A durable subscription has the message of the end, unless the agent is asked before it has sent it.
        assert source == REPORTED or end["inferred"]
    shop.delete("old")


def test_what_lasts_goes_on_when_its_agent_was_killed_and_is_back(shop: Plant) -> None:
    shop.declare("lasting")
    shop.publish("lasting", 5)
    wait_until(lambda: published(shop, "lasting")[-1:] == [5], "they are counted")
    shop.start_agent()
    shop.publish("lasting", 3)
    wait_until(lambda: published(shop, "lasting")[-1:] == [8], "those that came are counted")
    lines = shop.records(REPORTED, "lasting")
    assert [line["kind"] for line in lines if line["kind"] in {"create", "delete"}] == ["create"]
    assert len({line["object_id"] for line in lines}) == 1
    deltas = [line["deltas"][PUBLISHED] for line in lines if PUBLISHED in line.get("deltas", {})]
    assert sum(delta["delta"] for delta in deltas) == 8, "all since it was created"
    assert not any(delta.get("reset") for delta in deltas)
    shop.delete("lasting")


def published(shop: Plant, name: str) -> list[int]:
    """Return each recorded number of messages published to a queue."""
    values = [line.get("values", {}).get(PUBLISHED) for line in shop.records(REPORTED, name)]
    return [value for value in values if value is not None]


def records(shop: Plant, working: Future[None], enough: int) -> bool:
    return working.done() or len(shop.lines()) >= enough


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_gateway_that_is_killed_again_and_again_reports_everything_once(shop: Plant, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable on purpose
    names = [f"k{seed}-{number}" for number in range(KILLS * LIVES)]

    def come_and_go() -> None:
        for name in names:
            shop.declare(name)
            shop.delete(name)

    with ThreadPoolExecutor(1) as work:
        working = work.submit(come_and_go)
        for _ in range(KILLS):
            enough = len(shop.lines()) + chance.randrange(60)
            wait_until(partial(records, shop, working, enough), "it records")
            time.sleep(chance.random() * 0.1)  # the instant of a kill, between one commit and the next
            shop.kill()
            shop.start(synchronised=chance.random() < 0.5)
        working.result()
    wait_until(shop.is_synchronised, "all sources are synchronised", 120)
    reported_whole(shop, *names)
    seqs = [line["seq"] for line in shop.lines()]
    assert seqs == list(range(1, len(seqs) + 1))


def test_what_waits_is_read_by_a_class_that_was_learnt_just_before_a_kill(shop: Plant) -> None:
    shop.declare("early")
    is_recorded(shop, "early")
    shop.kill()
    (shop.site.folder / "state" / "schemas" / f"{REPORTED}.am2").unlink(missing_ok=True)
    shop.start(synchronised=False)
    wait_until(partial(_is_synchronised, shop, REPORTED), f"{REPORTED} is synchronised")
    shop.kill()
    gaps = len(shop.gaps(REPORTED))
    shop.delete("early")
    wait_until(lambda: shop.waiting(REPORTED), "it waits in the queue")
    shop.start()
    is_reported_whole(shop, "early")
    (end,) = [line for line in shop.records(REPORTED, "early") if line["kind"] == "delete"]
    assert "inferred" not in end
    assert end["delete_ts"]
    assert len(shop.gaps(REPORTED)) == gaps, "nothing was missed"


def _is_synchronised(shop: Plant, source: str) -> bool:
    return any(
        line["kind"] == "source" and line["source"] == source and line["state"] == "synchronised"
        for line in shop.lines_of_now()
    )


def test_a_queue_that_is_gone_is_reported_as_a_gap(shop: Plant) -> None:
    before = {source: len(shop.gaps(source)) for source in (READ, REPORTED)}
    shop.stop()
    stopped = dt.datetime.now(dt.UTC)
    for source in before:
        shop.drop_queue(source)
    shop.start()
    for source, gaps in before.items():
        first, *further = shop.gaps(source)[gaps:]
        assert "did not exist: it is new, or has expired" in first["text"], source
        assert time_of(first, "from_ts") <= stopped <= time_of(first, "to_ts"), source
        # Of a RabbitMQ: until it is consumed, as the first was recorded before it was declared.
        assert [gap["from_ts"] for gap in further] == [first["to_ts"]][: len(further)], source


@contextmanager
def plugin_off_and_on(shop: Plant) -> Iterator[dt.datetime]:
    """Do what RabbitMQ does when the plugin of events is disabled and enabled; its exchange goes.

    At the end of the block the agent receives events again, too: another test follows. The block gets a time
    at which it was off; the command ends later than the gap may.
    """
    off = "rabbit:stop_apps([rabbitmq_event_exchange]), Off = erlang:system_time(microsecond)"
    on = "rabbit:start_apps([rabbitmq_event_exchange], #{})"
    printed = shop.broker.rabbitmqctl("eval", f"{off}, {on}, Off.")
    try:
        yield dt.datetime.fromtimestamp(int(printed) / 1_000_000, dt.UTC)
    finally:
        _events_are_reported_again(shop)


def _events_are_reported_again(shop: Plant) -> None:
    prefix, numbers = f"again-{time.monotonic_ns()}-", itertools.count()

    def is_reported() -> bool:
        name = f"{prefix}{next(numbers)}"
        shop.declare(name)
        shop.delete(name)
        return any(what == "queueCreated" for _, what in shop.happened(prefix=prefix)[REPORTED])

    wait_until(is_reported, "the agent reports an event")


def test_a_plugin_that_is_off_for_a_moment_makes_a_gap_and_events_arrive_again(shop: Plant) -> None:
    before = len(shop.gaps(READ))
    with plugin_off_and_on(shop) as was_off:
        wait_until(lambda: shop.gaps(READ)[before:], "the gap")
        gap, *_ = shop.gaps(READ)[before:]
        assert time_of(gap, "from_ts") <= was_off < time_of(gap, "to_ts")
        wait_until(shop.is_synchronised, "all is listed")
        shop.declare("received")
        shop.delete("received")
        wait_until(lambda: shop.happened(name="received")[READ] >= life("received"), "its whole life")


def test_a_plugin_that_was_off_while_the_gateway_was_away_makes_a_gap_of_its_source(shop: Plant) -> None:
    before = len(shop.gaps(READ))
    shop.stop()
    stopped = dt.datetime.now(dt.UTC)
    with plugin_off_and_on(shop):
        shop.declare("unseen")
        shop.delete("unseen")
        ended = dt.datetime.now(dt.UTC)
        shop.start()
        gap, *_ = shop.gaps(READ)[before:]
        assert "was not bound any more" in gap["text"]
        assert time_of(gap, "from_ts") <= stopped < ended <= time_of(gap, "to_ts")
        assert shop.records(READ, "unseen") == []


def test_a_second_gateway_is_refused(shop: Plant) -> None:
    other = second_gateway(shop)
    command = ("process", "core", "--config", other.configuration)
    with running(*command, log=other.folder / "core.log") as second:
        second.ready()
        wait_until(
            lambda: [line for line in second.log if "has another consumer" in str(line)],
            "it says that another consumes the queue",
        )
    shop.declare("undivided")
    shop.delete("undivided")
    reported_whole(shop, "undivided")
