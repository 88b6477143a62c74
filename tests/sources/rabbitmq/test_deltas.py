"""What the event log counts of a broker's messages, from the answers of its management API on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.dialects.session import Effect, Observed
from gateway.eventlog.record import Delta, LogRecord, ObjectChange
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.records import Batch
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.mapping.paths import Json
from gateway.model.observations import SETTLED_BY, ObjectSeen
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from tests.components.opened_index import opened_index
from tests.components.shipped_mappings import shipped_mappings
from tests.sources.rabbitmq.imitation import NODE, World
from tests.sources.rabbitmq.test_node_counters import OTHER, add_other, stop

LOST = Delta(reset=True)


class LoggedWorld(World):
    """A world whose source is in an inventory, each batch of which the event log records."""

    def log_in(self, folder: Path) -> None:
        """Begin with inventory and log."""
        self.records: list[LogRecord] = []
        self._recorder = LogRecorder(RecorderSettings(1))
        self.index = opened_index(folder / "index.sqlite3")
        self.inventory = Inventory("gw", 1, ClassRegistry(shipped_mappings()), self.index, self._publish)
        self._source = self.inventory.add_source("shop", "rabbitmq", 1000)

    def note(self, effects: list[Effect]) -> None:
        super().note(effects)
        for effect in effects:
            if isinstance(effect, Observed):
                self.inventory.observed(self._source, effect.observations, self.now)

    def _publish(self, batch: Batch) -> None:
        recorded = [*self._recorder.tick(self.now), *self._recorder.apply(batch, self.now)]
        self.records += [one.record() if isinstance(one, ObjectChange) else one for one in recorded]

    def settle(self) -> None:
        """Let time pass until all is recorded."""
        self.run(150)
        recorded = self._recorder.tick(self.now)
        self.records += [one.record() if isinstance(one, ObjectChange) else one for one in recorded]

    def run_listings(self, number: int) -> None:
        """Let time pass until queues were listed so often."""
        for _ in range(number):
            before = list(self.source.known("queue"))
            while list(self.source.known("queue")) == before:
                self.run(0.1)

    def published(self, name: str = "orders", class_name: str = "queue") -> list[Delta]:
        """Return the recorded deltas of the messages published to an object, without their intervals."""
        named = [one for one in self.records if one.class_name == class_name and one.deltas]
        mine = [one for one in named if (one.object_name or "").endswith(name)]
        entries = [(one.deltas or {}).get("messagesPublished") for one in mine]
        return [Delta(one.delta, None, one.reset, one.undone) for one in entries if one is not None]

    def shows(self, count: int | None, name: str = "orders") -> None:
        """Let listings of queues show these messages published; none are left out by the broker."""
        queue = self.broker.objects["queue"]["/", name]
        queue.pop("message_stats", None)
        if count is not None:
            queue["message_stats"] = {"publish": count}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[LoggedWorld]:
    """A broker with a queue to which 1,000 messages were published when it was read first."""
    new = LoggedWorld(RabbitMqSourceConfig(user="gateway"))
    new.log_in(tmp_path)
    new.broker.objects["node"][NODE,]["rates_mode"] = "basic"
    new.broker.add_queue("orders", messages=3, message_stats={"publish": 1000})
    new.run(30)
    yield new
    new.index.close()


def without_statistics(shop: LoggedWorld) -> None:
    queue = shop.broker.objects["queue"]["/", "orders"]
    queue.pop("message_stats")
    queue.pop("messages")


def with_a_negative_count(shop: LoggedWorld) -> None:
    shop.shows(-3)


def without_counters(shop: LoggedWorld) -> None:
    """RabbitMQ leaves out counters that are 0."""
    shop.shows(None)


def with_less(shop: LoggedWorld) -> None:
    shop.shows(700)


def not_permitted(shop: LoggedWorld) -> None:
    shop.broker.forbidden.add("/")


CHANGES = (without_statistics, with_a_negative_count, without_counters, with_less, not_permitted)


@pytest.mark.parametrize("change", CHANGES)
def test_what_listings_lack_for_a_moment_is_not_counted_again(
    shop: LoggedWorld, change: Callable[[LoggedWorld], None]
) -> None:
    for count in (1003, 1010):
        change(shop)
        shop.run(20)
        shop.broker.forbidden.clear()
        shop.broker.objects["queue"]["/", "orders"]["messages"] = 3
        shop.shows(count)
        shop.run(20)
    shop.settle()
    assert sum(one.delta or 0 for one in shop.published()) == 10
    assert not any(one.reset for one in shop.published())


def test_a_virtual_host_that_may_not_be_read_for_a_moment_is_not_counted_again(shop: LoggedWorld) -> None:
    shop.broker.objects["vhost"]["/",]["message_stats"] = {"publish": 2000}
    shop.run(60)
    shop.records.clear()
    for count in (2003, 2010):
        shop.broker.forbidden.add("/")
        shop.run(20)
        shop.broker.forbidden.clear()
        shop.broker.objects["vhost"]["/",]["message_stats"] = {"publish": count}
        shop.run(20)
    shop.settle()
    assert sum(one.delta or 0 for one in shop.published("/", "vhost")) == 10


def test_statistics_that_are_reset_are_counted_from_where_they_stand_then(shop: LoggedWorld) -> None:
    """``DELETE /api/reset``, or the management plugin off and on."""
    shop.shows(None)
    shop.run(90)
    shop.shows(7)
    shop.settle()
    entries = shop.published()
    assert (entries[0].reset, sum(one.delta or 0 for one in entries)) == (True, 7)


@pytest.mark.parametrize(
    ("listings", "since"), [(2, [Delta(-500, undone=True), Delta(4)]), (3, [LOST, Delta(4)])]
)
def test_a_rise_of_a_queue_that_is_idle_since_stays_if_three_listings_showed_it(
    shop: LoggedWorld, listings: int, since: list[Delta]
) -> None:
    """A reset of its statistics much later is a loss. A rise that two listings showed was wrong."""
    shop.shows(1500)
    shop.run_listings(listings)
    shop.run(0 if listings < SETTLED_BY else 300)
    shop.shows(1000)
    shop.settle()
    shop.shows(1004)
    shop.settle()
    assert shop.published() == [Delta(500), *since]


def test_only_listings_after_a_rise_publish_what_did_not_change(shop: LoggedWorld) -> None:
    def readings() -> list[ObjectSeen]:
        return [one for one in shop.observed if isinstance(one, ObjectSeen) and one.statistics is not None]

    shop.run_listings(4)
    shop.observed.clear()
    shop.run_listings(4)
    assert readings() == []
    shop.shows(1003)
    shop.run_listings(6)
    found = readings()
    assert {one.key.name for one in found} == {"queue"}
    assert len({one.sampled for one in found}) == len(found) == SETTLED_BY
    assert len({one.statistics for one in found}) == 1
    assert all(one.properties is None for one in found)


def test_one_counter_that_is_left_out_is_no_doubt_of_another(shop: LoggedWorld) -> None:
    queue = shop.broker.objects["queue"]["/", "orders"]
    queue["message_stats"] = {"publish": 1000, "ack": 900}
    shop.run(20)
    queue["message_stats"] = {"publish": 1005, "ack": 2}
    shop.settle()
    assert shop.published() == [Delta(5)]


def test_what_a_node_counted_that_is_killed_and_comes_back_is_not_counted_again(shop: LoggedWorld) -> None:
    """The listing of queues comes before that of nodes, or after it."""
    add_other(shop.broker)
    shop.run(60)
    document = shop.broker.objects["node"][OTHER,]
    shop.records.clear()
    shop.shows(8000)
    shop.run(60)
    stop(shop.broker)
    shop.shows(5000)
    shop.run(90)
    shop.shows(5010)
    shop.run(60)
    shop.broker.objects["node"][OTHER,] = {**document, "uptime": 600_000}
    shop.shows(8040)
    shop.settle()
    assert shop.published()[0] == Delta(7000)
    assert sum(one.delta or 0 for one in shop.published()) == 7010
    assert LOST in shop.published()


def test_a_broker_that_was_started_again_counts_from_zero(shop: LoggedWorld) -> None:
    node: dict[str, Json] = shop.broker.objects["node"][NODE,]
    node |= {"os_pid": "101", "uptime": 1000}
    shop.shows(1200)
    shop.settle()
    assert shop.published()[-1] == Delta(1200, reset=True)


def test_two_queues_of_one_name_in_a_page_count_nothing(shop: LoggedWorld) -> None:
    queues = shop.broker.objects["queue"]
    queues["/", "twin"] = {**queues["/", "orders"], "message_stats": {"publish": 1050}}
    shop.run(60)
    del queues["/", "twin"]
    shop.settle()
    assert shop.published() == []
