"""A gateway that is started again while the broker fails at listings: nothing ends, and it says so."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aio_pika
import pytest

from gateway.demo.broker import PrivateBroker
from gateway.mapping.paths import Json
from gateway.service.processes.exit_codes import ExitCode
from tests.components.background import background
from tests.components.changing_proxy import Proxy, failing, failing_listings, kept, lacking, proxy, unchanged
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.operated_gateway import OperatedGateway
from tests.components.rabbitmq import VirtualHost, new_virtual_host
from tests.components.waiting import wait_until

PERMISSIONS: Final = {"permission", "topicPermission"}
IDENTITY: Final = ("row", "name", "native_id", "created", "parent")


@dataclass(frozen=True, slots=True)
class Watched(OperatedGateway):
    """A gateway that reads a RabbitMQ through a proxy.

    Attributes:
        site: its folder.
        broker: the broker.
        virtual_host: of the broker, for these tests alone.
        proxy: the proxy to the management API.
    """

    site: Site
    broker: PrivateBroker
    virtual_host: VirtualHost
    proxy: Proxy

    @contextmanager
    def runs(self, *states: str) -> Iterator[RunningCommand]:
        """Run the gateway, from when its source is in one of these states."""
        with running("run", "--config", self.site.configuration, log=self.site.folder / "log.txt") as command:
            command.ready()
            wait_until(lambda: self.states().get("orders") in states, f"the source is {states}")
            yield command
            command.terminate()

    def path(self, class_name: str, name: str) -> str:
        return f"orders/rabbitmq:{class_name}/{name}"

    def name_within(self, name: str) -> str:
        return f"{self.virtual_host.name}|{name}"

    def ends(self) -> list[dict[str, Any]]:
        """Return the ends of objects of the virtual host in the event log.

        Other tests give users rights in all virtual hosts of the broker, and delete them: of permissions only
        those of users count whose names begin as that of the virtual host.
        """
        sql = "SELECT \"class\", object_name FROM log WHERE kind = 'delete' AND source = 'orders'"
        host = self.virtual_host.name

        def is_meant(end: dict[str, Any]) -> bool:
            name, _, given_to = str(end["object_name"]).partition("|")
            return name.startswith(host) and (end["class"] not in PERMISSIONS or given_to.startswith(host))

        return [one for one in self.ask_log(sql) if is_meant(one)]

    def alarm(self) -> list[str]:
        """Return the states of the events of the alarm of the class of queues."""
        sql = "SELECT state FROM log WHERE kind = 'event' AND condition = $condition ORDER BY seq"
        return [one["state"] for one in self.ask_log(sql, condition='classNotReadable "rabbitmq:queue"')]

    def try_again(self) -> None:
        """Let the source try at once what it could not read: its user's tags were set."""
        self.broker.rabbitmqctl("set_user_tags", self.broker.administrator.name, "administrator")


def configured(site: Site, broker: PrivateBroker, between: Proxy) -> Site:
    """Return a site whose gateway reads this broker through a proxy."""
    source = {
        "kind": "rabbitmq",
        "management": between.url,
        "interval": "1s",
        "budget": 0.5,
        "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
        "user": broker.administrator.name,
        "password": site.secret(broker.administrator.password),
    }
    source["writing"] = {key: source[key] for key in ("user", "password")}
    site.configure(sources={"orders": source}, log={"commit_interval": "100ms"})
    return site


@pytest.fixture
def watched(rabbitmq: PrivateBroker, tmp_path: Path) -> Iterator[Watched]:
    """A virtual host with a queue and its binding, and a gateway that does not run yet."""
    with proxy(rabbitmq.ports.management, kept) as before_it, new_virtual_host(rabbitmq) as virtual_host:
        site = configured(new_site(tmp_path), rabbitmq, before_it)
        with virtual_host.http() as http:
            http.put(f"queues/{virtual_host.path}/first", json={"durable": True}).raise_for_status()
            binding = f"bindings/{virtual_host.path}/e/amq.direct/q/first"
            http.post(binding, json={"routing_key": "k"}).raise_for_status()
        yield Watched(site, rabbitmq, virtual_host, before_it)


def test_what_cannot_be_listed_keeps_its_name_and_row_and_the_gateway_says_so(watched: Watched) -> None:
    queue = watched.path("queue", watched.name_within("first"))
    watched.proxy.answer = failing("vhosts")  # from the first start on
    with watched.runs("degraded"):
        wait_until(lambda: watched.shown(queue), "the queue has its name without that listing")
        before = watched.shown(queue)
        assert (before["parent"], before["lifetime"], before["stale_since"]) == (None, "durable", None)

        watched.proxy.answer = unchanged
        watched.try_again()
        watched.are_all("synchronised")
        after = watched.shown(queue)
        assert (after["row"], after["native_id"]) == (before["row"], before["native_id"])
        assert after["parent"] == watched.path("vhost", watched.virtual_host.name)

    watched.proxy.answer = failing("queues")
    with watched.runs("degraded"):
        wait_until(lambda: watched.shown(queue), "the queue is shown")
        unread = watched.shown(queue)
        assert [unread[key] for key in IDENTITY] == [after[key] for key in IDENTITY]
        assert unread["stale_since"]
        assert not watched.shown(watched.path("vhost", watched.virtual_host.name))["stale_since"]
        assert watched.command("health").code is ExitCode.UNREACHABLE
        assert "degraded: the broker cannot list queues (status 500" in watched.command("doctor").output
        wait_until(lambda: watched.alarm() == ["raised"], "the alarm is logged")

        watched.proxy.answer = unchanged
        watched.try_again()
        watched.are_all("synchronised")
        again = watched.shown(queue)
        assert [again[key] for key in IDENTITY] == [after[key] for key in IDENTITY]
        assert not again["stale_since"]
    assert watched.alarm() == ["raised", "cleared"]
    assert watched.ends() == []

    # A listing that answers as if nothing was wrong, and lacks what answers by itself.
    host = watched.virtual_host.name
    watched.proxy.answer = lacking("queues", lambda document: document["vhost"] == host)
    with watched.runs("degraded"):
        lacked = watched.shown(queue)
        assert [lacked[key] for key in IDENTITY] == [after[key] for key in IDENTITY]
        assert lacked["stale_since"]
        # Now and then it is read by itself, and confirmed until the next listing.
        lacking_one = "the broker lists class queue without 1 objects that may exist"
        wait_until(lambda: lacking_one in watched.command("doctor").output, "doctor says so")

        watched.proxy.answer = unchanged
        watched.are_all("synchronised")
        wait_until(lambda: not watched.shown(queue)["stale_since"], "it is confirmed")
    assert watched.ends() == []


SINGLY: Final = (
    "policies",
    "operator-policies",
    "bindings",
    "consumers",
    "users",
    "permissions",
)


@asynccontextmanager
async def consumer(virtual_host: VirtualHost) -> AsyncIterator[None]:
    """Consume from the queue ``first``."""
    connection = await aio_pika.connect(virtual_host.amqp_url())
    async with connection, connection.channel() as channel:
        queue = await channel.get_queue("first", ensure=False)
        async with queue.iterator():
            yield


def test_objects_of_a_failing_listing_are_read_at_their_own_places(watched: Watched) -> None:
    host = watched.virtual_host
    user, other = f"{host.name}-user", f"other-{secrets.token_hex(4)}"
    policy: Json = {"pattern": "^none$", "definition": {"max-length": 5}}
    permission: dict[str, Json] = {"configure": "^a$", "write": "", "read": ""}
    objects: dict[str, tuple[str, Json]] = {
        f"policies/{host.path}/known": ("policy/{}|known", policy),
        f"operator-policies/{host.path}/known": ("operatorPolicy/{}|known", policy),
        f"users/{user}": (f"user/{user}", {"password": "secret", "tags": ""}),
        f"permissions/{host.path}/{user}": (f"permission/{{}}|{user}", permission),
    }
    names = [name for name, _ in objects.values()]
    names += ["binding/{}|amq.direct|queue|first|k", "consumer/{}|first"]
    paths = [f"orders/rabbitmq:{name.format(host.name)}" for name in names]

    def are_fresh() -> bool:
        shown = [watched.shown(path) for path in paths]
        return all(one and not one["stale_since"] for one in shown)

    with host.http() as http, background(lambda: consumer(host)):
        for path, (_, body) in objects.items():
            http.put(path, json=body).raise_for_status()
        # As another test does, to a user of its own.
        http.put(f"users/{other}", json={"password": "secret", "tags": ""}).raise_for_status()
        http.put(f"permissions/{host.path}/{other}", json=permission).raise_for_status()
        with watched.runs("synchronised"):
            wait_until(are_fresh, "everything is shown")
        watched.proxy.answer = failing_listings(*SINGLY)
        http.put(f"permissions/{host.path}/{user}", json={**permission, "configure": "^b$"})
        with watched.runs("degraded"):
            wait_until(are_fresh, "everything is read at its own place")
            assert watched.shown(paths[3])["values"]["configure"] == "^b$"
            # One that was never listed is found at the place of its virtual host, and ends there.
            http.put(f"policies/{host.path}/later", json=policy).raise_for_status()
            later = watched.path("policy", watched.name_within("later"))
            wait_until(lambda: watched.shown(later), "a new policy is shown")
            http.delete(f"policies/{host.path}/later").raise_for_status()
            wait_until(lambda: not watched.shown(later), "it has ended")
            others = watched.path("permission", watched.name_within(other))
            wait_until(lambda: watched.shown(others), "that of another user is shown")
            http.delete(f"users/{other}").raise_for_status()
            wait_until(lambda: not watched.shown(others), "it has ended with the user")
        http.delete(f"users/{user}")
    assert [one["object_name"] for one in watched.ends()] == [watched.name_within("later")]
