"""One gateway at a RabbitMQ whose listings fail, are late or poor: nothing ends, nothing is made again.

The broker samples its statistics every 30 s: what a core finds when it starts may be as old as that.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import psutil
import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.changing_proxy import Reply, failing, failing_listings, kept, proxy, unchanged
from tests.components.command_line import RunningCommand, new_site, running
from tests.components.rabbitmq import new_virtual_host
from tests.components.waiting import wait_until
from tests.outcomes.test_unread import Watched, configured

pytestmark = pytest.mark.xdist_group("listings")

SAMPLED_SECONDS: Final = 30.0
LATE_SECONDS: Final = 9.0
"""More than the first limit of a listing, 8 s."""
BROKEN_NAME: Final = "caf%E9"
"""A name that is no UTF-8: RabbitMQ makes such a virtual host, and 3.10.8 lists it with U+FFFD."""
READ: Final = {"synchronised", "degraded"}
"""The states of a source that was read."""
FIRST, TRANSIENT = "first", "transient"


@dataclass(frozen=True, slots=True)
class Listed(Watched):
    """The gateway, which runs throughout; its core is killed, and starts again."""

    modules: ClassVar = ("AMQP-GATEWAY-RABBITMQ-MIB",)
    gateway: RunningCommand

    def identities(self) -> dict[str, tuple[Any, ...]]:
        """Return row and lifetime of what lives for the whole module, by path."""
        return {
            one["object"]: (one["row"], one["lifetime"])
            for one in self.documents("tree", "orders")
            if self._lasts(one["class"].removeprefix("rabbitmq:"), one["name"])
        }

    def _lasts(self, class_name: str, name: str) -> bool:
        in_host = name.partition("|")[0] == self.virtual_host.name
        return in_host or class_name in {"node", "cluster", "user"}

    def core(self) -> psutil.Process | None:
        """Return the process of the core, if it runs."""
        for child in psutil.Process(self.gateway.process.pid).children(recursive=True):
            try:
                if " process core " in " ".join(child.cmdline()):
                    return child
            except psutil.NoSuchProcess:
                continue
        return None

    def start_again(self, answer: Callable[[str, Reply], Reply] = unchanged) -> None:
        """Kill the core, and let the next one meet these answers."""
        wait_until(self.core, "the core runs")
        former = self.core()
        assert former is not None
        self.proxy.answer = answer
        former.kill()
        wait_until(lambda: self.core() not in {None, former}, "another core runs")

    def happened(self) -> list[tuple[str, str, str]]:
        """Return kind, class and name of what began and ended in the log."""
        sql = "SELECT kind, \"class\", object_name FROM log WHERE kind IN ('create', 'delete') ORDER BY seq"
        rows = [tuple(str(value) for value in row.values()) for row in self.ask_log(sql)]
        return [(kind, of, name) for kind, of, name in rows if self._lasts(of, name)]

    def raised(self, condition: str) -> list[str]:
        """Return the states of an alarm, by the log."""
        sql = "SELECT state FROM log WHERE kind = 'event' AND condition = $condition ORDER BY seq"
        return [one["state"] for one in self.ask_log(sql, condition=condition)]

    def is_stale(self, class_name: str, name: str) -> bool:
        """Return whether an object is shown, as stale."""
        shown = self.shown(self.path(class_name, name))
        return bool(shown) and shown["stale_since"] is not None

    def is_fresh(self, class_name: str, name: str) -> bool:
        """Return whether an object is shown, and its values are read."""
        shown = self.shown(self.path(class_name, name))
        return bool(shown) and shown["stale_since"] is None

    @contextmanager
    def nothing_happens(self) -> Iterator[None]:
        """Check that around the block the same objects live, in the same rows, and are fresh at its end."""
        before, happened = self.identities(), self.happened()
        yield
        self.proxy.answer = unchanged
        self.try_again()
        self.are_all("synchronised")
        assert self.identities() == before
        wait_until(
            lambda: (
                self.is_fresh("queue", self.name_within(FIRST))
                and self.is_fresh("vhost", self.virtual_host.name)
            ),
            "they are fresh",
        )
        assert self.happened() == happened


@pytest.fixture(scope="module")
def there(rabbitmq_settings: BrokerSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listed]:
    """A broker and a gateway that has read it."""
    settings = replace(rabbitmq_settings, statistics_interval=SAMPLED_SECONDS)
    with (
        PrivateBroker(settings=settings) as broker,
        proxy(broker.ports.management, kept) as before_it,
        new_virtual_host(broker) as host,
        host.http() as http,
    ):
        for name, is_durable in ((FIRST, True), (TRANSIENT, False)):
            http.put(f"queues/{host.path}/{name}", json={"durable": is_durable}).raise_for_status()
            binding = f"bindings/{host.path}/e/amq.direct/q/{name}"
            http.post(binding, json={"routing_key": "k"}).raise_for_status()
        site = configured(new_site(tmp_path_factory.mktemp("listings")), broker, before_it)
        with running("run", "--config", site.configuration, log=site.folder / "log.txt") as gateway:
            gateway.ready()
            shown = Listed(site, broker, host, before_it, gateway)
            shown.are_all("synchronised")
            yield shown


@pytest.mark.parametrize(("collection", "class_name"), [("queues", "queue"), ("vhosts", "vhost")])
def test_a_listing_that_fails_while_the_core_starts_ends_nothing(
    there: Listed, collection: str, class_name: str
) -> None:
    name = there.name_within(FIRST) if class_name == "queue" else there.virtual_host.name
    path = there.path(class_name, name)
    rows = {"queue": "rmqQueueRowStale", "vhost": "rmqVhostRowStale"}
    condition = f'classNotReadable "rabbitmq:{class_name}"'
    former = len(there.raised(condition))
    with there.nothing_happens():
        before = there.shown(path)
        there.start_again(failing(collection))
        there.are_all("degraded")
        wait_until(lambda: there.is_stale(class_name, name), "it is stale")
        unread = there.shown(path)
        assert (unread["row"], unread["created"]) == (before["row"], before["created"])
        row = f"{rows[class_name]}.1.{before['row']}"
        wait_until(lambda: there.walk(row) == {row: "true"}, "its row is stale, and there")
        wait_until(lambda: there.raised(condition)[former:] == ["raised"], "the alarm is logged")
        assert there.command("health").code is ExitCode.UNREACHABLE
    wait_until(lambda: there.raised(condition)[former:] == ["raised", "cleared"], "the alarm is cleared")


def test_a_queue_that_is_made_again_while_it_cannot_be_listed_has_a_new_life(there: Listed) -> None:
    name = there.name_within("again")
    path = f"queues/{there.virtual_host.path}/again"
    with there.broker.http() as http:
        http.put(path, json={"durable": True}).raise_for_status()
        wait_until(lambda: there.shown(there.path("queue", name)), "it is shown")
        there.proxy.answer = failing("queues")
        http.delete(path).raise_for_status()
        http.put(path, json={"durable": True}).raise_for_status()
        lives = [(kind, "queue", name) for kind in ("create", "delete", "create")]
        wait_until(lambda: [one for one in there.happened() if one[2] == name] == lives, "a new life")
        there.proxy.answer = unchanged
        http.delete(path).raise_for_status()
    wait_until(lambda: [one for one in there.happened() if one[2] == name][3:], "it has ended")
    there.try_again()
    there.are_all("synchronised")


def late(collection: str) -> Callable[[str, Reply], Reply]:
    """Return a change by which the listings of a collection take `LATE_SECONDS`."""

    def change(path: str, reply: Reply) -> Reply:
        if path.partition("?")[0] == f"/api/{collection}":
            threading.Event().wait(LATE_SECONDS)
        return reply

    return change


@pytest.mark.long
def test_a_listing_that_is_late_ends_nothing_and_is_waited_for(there: Listed) -> None:
    name = there.name_within("amq.direct")
    with there.nothing_happens():
        there.start_again(late("exchanges"))
        there.are_all("degraded")
        assert "cannot list exchanges (no answer within 8 s)" in there.sources()["orders"]["detail"]
        wait_until(lambda: there.is_fresh("exchange", name), "it is read by itself")
        # The next time the listing is waited for longer.
        there.are_all("synchronised")


def unreadable(queue: str) -> Callable[[str, Reply], Reply]:
    """Return a change by which the documents of a queue are in a form that nobody can read."""

    def change(path: str, reply: Reply) -> Reply:
        if not path.startswith("/api/queues") or reply[0] != 200:
            return reply
        answer = json.loads(reply[1])
        found = answer.get("items", [answer]) if isinstance(answer, dict) else answer
        for one in found:
            if one.get("name") == queue:
                one["durable"] = "perhaps"
        return reply[0], json.dumps(answer).encode()

    return change


def test_a_document_that_cannot_be_read_loses_that_object_alone(there: Listed) -> None:
    with there.nothing_happens():
        there.start_again(unreadable(FIRST))
        there.are_all("degraded")
        wait_until(lambda: there.is_stale("queue", there.name_within(FIRST)), "it is stale")
        wait_until(lambda: there.is_fresh("queue", there.name_within(TRANSIENT)), "the other one is read")
        assert "of class queue 1 cannot be read" in there.sources()["orders"]["detail"]


def sample_age(broker: PrivateBroker) -> float:
    """Return how old the sample is, in seconds, by which the node reports since when it runs."""
    node = broker.node_process()
    with broker.http() as http:
        (shown,) = http.get("nodes?columns=name,uptime").json()  # without any column it would be a list
    sampled = float(shown.get("uptime", 0)) / 1000
    return time.time() - psutil.Process(node).create_time() - sampled


@pytest.mark.prove  # the cores of the other tests start at any age of the sample
def test_a_core_that_starts_long_after_the_brokers_sample_ends_nothing(there: Listed) -> None:
    """The node's run is its process, whatever start follows from an uptime that is half a minute old."""
    transient = there.path("queue", there.name_within(TRANSIENT))
    with there.nothing_happens():
        before = there.shown(transient)
        wait_until(lambda: sample_age(there.broker) < SAMPLED_SECONDS / 6, "the sample is new")
        there.start_again()
        there.are_all("synchronised")
        wait_until(lambda: sample_age(there.broker) > SAMPLED_SECONDS * 2 / 3, "the sample is old")
        there.start_again()
        there.are_all("synchronised")
        after = there.shown(transient)
        assert (after["row"], after["created"]) == (before["row"], before["created"])


@contextmanager
def broken_virtual_host(broker: PrivateBroker) -> Iterator[None]:
    """Let the broker have a virtual host whose name is no UTF-8."""
    with broker.http() as http:
        http.put(f"vhosts/{BROKEN_NAME}").raise_for_status()
        try:
            yield
        finally:
            http.delete(f"vhosts/{BROKEN_NAME}").raise_for_status()


def test_a_virtual_host_whose_name_is_no_utf_8_changes_no_other_object(there: Listed) -> None:
    with there.nothing_happens(), broken_virtual_host(there.broker):
        there.start_again()
        wait_until(lambda: there.states().get("orders") in READ, "it is read")
        wait_until(lambda: there.is_fresh("queue", there.name_within(FIRST)), "the others are read")


@pytest.mark.parametrize("cause", ["queues", "a name that is no UTF-8"])
def test_the_first_start_gives_each_object_its_name(there: Listed, tmp_path: Path, cause: str) -> None:
    """Of another gateway: it finds the queue by its bindings, and reads it by itself."""
    other = Watched(
        configured(new_site(tmp_path), there.broker, there.proxy),
        there.broker,
        there.virtual_host,
        there.proxy,
    )
    queue = other.path("queue", other.name_within(FIRST))
    with there.nothing_happens(), ExitStack() as failing_meanwhile:
        if cause == "queues":
            there.proxy.answer = failing_listings(cause)
        else:
            failing_meanwhile.enter_context(broken_virtual_host(there.broker))
        with other.runs(*READ):
            wait_until(lambda: other.shown(queue), "it has its name")
            before = other.shown(queue)
            there.proxy.answer = unchanged
            failing_meanwhile.close()
            other.try_again()
            other.are_all("synchronised")
            after = other.shown(queue)
        assert before["lifetime"] == "durable"
        assert (after["row"], after["native_id"]) == (before["row"], before["native_id"])
        assert other.ends() == []
