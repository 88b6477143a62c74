"""RabbitMQ for tests: one node for all workers of a session, with a virtual host of its own for each test.

Tests that kill the broker, raise alarms or count what happens in the whole broker start one of their own.

A test runs on the RabbitMQ that is installed. One that is marked ``each_rabbitmq`` runs on that of each of
`gateway.demo.installation.RELEASES`, and pytest's option ``--rabbitmq`` chooses one for all tests.
"""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import httpx
import psutil

from gateway.demo.broker import BrokerSettings, Credentials, PrivateBroker
from gateway.demo.installation import NEWEST, RELEASES, debian_release
from gateway.sources.rabbitmq.events import EVENT_EXCHANGE
from tests.hypothesis_profiles import PROVING

INSTALLED = "installed"

ALWAYS_BOUND = "amqp-gateway.bound"
"""The queue of `keep_events_published`."""

TEST_SETTINGS = BrokerSettings(statistics_interval=1.0, grace=0)
"""Short statistics interval; the node is killed at the end, because its data is not read again."""


@dataclass(frozen=True, slots=True)
class VirtualHost:
    """A virtual host of one test."""

    broker: PrivateBroker
    name: str

    @property
    def path(self) -> str:
        """The name as a segment of a management API path."""
        return quote(self.name, safe="")

    def amqp_url(self, user: Credentials | None = None) -> str:
        """Return the AMQP URL of this virtual host, by default for the administrator."""
        return self.broker.amqp_url(user, self.name)

    def http(self, user: Credentials | None = None) -> httpx.Client:
        """Return a client of the management API, by default for the administrator; the caller closes it."""
        return self.broker.http(user)


def releases(
    since: str = "3.10", until: str = NEWEST, chosen: str | None = None, *, takes_long: bool = False
) -> list[str]:
    """Return the releases that a test marked ``each_rabbitmq`` runs on: the ``chosen`` one, or all.

    The newest release, of Debian unstable, is included only when proving. Otherwise tests that take long run
    on the last of the others only: what the first one answers, all other tests show.
    """
    names = list(RELEASES)
    wanted = names[names.index(since) : names.index(until) + 1]
    if chosen is not None:
        return [name for name in wanted if name == chosen]
    if PROVING:
        return wanted
    stable = [name for name in wanted if name != NEWEST]
    return stable[-1:] if takes_long else stable


def version_of(broker: PrivateBroker) -> tuple[int, int]:
    """Return the major and minor version of a running RabbitMQ."""
    with broker.http() as client:
        reported: str = client.get("overview?columns=rabbitmq_version").json()["rabbitmq_version"]
    major, minor, *_ = reported.split(".")
    return int(major), int(minor)


def login_refusal(broker: PrivateBroker) -> str:
    """Return the API's reason for a wrong password: "Login failed", or "Not_Authorized" since 4.0."""
    with broker.http(Credentials(broker.administrator.name, "wrong")) as client:
        reason: str = client.get("whoami").json()["reason"]
    return reason


@contextmanager
def shared_broker(session_folder: Path, release: str = INSTALLED) -> Iterator[PrivateBroker]:
    """Provide the shared node of a release: the first worker to need it starts it, the last one ends it."""
    debian = debian_release(release)
    folder = session_folder / f"rabbitmq-{debian or INSTALLED}"
    with folder.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        broker = PrivateBroker.attach(folder)
        if broker is None:
            # A former node may just be ending there: the new one takes a folder that nobody empties.
            folder.unlink(missing_ok=True)
            settings = replace(TEST_SETTINGS, debian=debian)
            broker = PrivateBroker(Path(f"{folder}-{secrets.token_hex(4)}"), settings, remove=True)
            broker.start()
            keep_events_published(broker)
            folder.symlink_to(broker.folder)
    try:
        yield broker
    finally:
        broker.close()


def keep_events_published(broker: PrivateBroker) -> None:
    """Bind the event exchange while the node runs, with a key that no event has.

    If the last binding of one test is removed while the first one of another test is added, RabbitMQ 4 can
    take the exchange for unbound, and publishes nothing from then on. Sources take the queue for one of their
    own, by its name.
    """
    with broker.http() as client:
        client.put(f"queues/%2F/{ALWAYS_BOUND}", json={"durable": True}).raise_for_status()
        binding = f"bindings/%2F/e/{EVENT_EXCHANGE}/q/{ALWAYS_BOUND}"
        client.post(binding, json={"routing_key": "none"}).raise_for_status()


@contextmanager
def shared_brokers(session_folder: Path) -> Iterator[Callable[[str], PrivateBroker]]:
    """Provide a function that returns the `shared_broker` of a release, which is kept until the end."""
    with ExitStack() as stack:
        brokers: dict[str, PrivateBroker] = {}

        def of_release(release: str) -> PrivateBroker:
            if release not in brokers:
                brokers[release] = stack.enter_context(shared_broker(session_folder, release))
            return brokers[release]

        yield of_release


def connections_of(process: int, broker: PrivateBroker) -> Iterator[str]:
    """Yield the names of the connections of a process and its children that the broker lists.

    The broker that all tests share lists those of others, too, which come and go.
    """
    processes = [psutil.Process(process), *psutil.Process(process).children(recursive=True)]
    ports = {one.laddr.port for each in processes for one in each.net_connections("tcp")}
    with broker.http() as http:
        yield from (one["name"] for one in http.get("connections").json() if one.get("peer_port") in ports)


@contextmanager
def new_virtual_host(broker: PrivateBroker, beginning: str = "test-") -> Iterator[VirtualHost]:
    """Provide a virtual host for the time of the context; the administrator has all permissions in it.

    Args:
        broker: where it is made.
        beginning: of its name, which goes on in another way each time.
    """
    vhost = VirtualHost(broker, f"{beginning}{secrets.token_hex(6)}")
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    with broker.http() as client:
        client.put(f"vhosts/{vhost.path}", json={}).raise_for_status()
        grant = f"permissions/{vhost.path}/{broker.administrator.name}"
        client.put(grant, json=everything).raise_for_status()
        try:
            yield vhost
        finally:
            client.delete(f"vhosts/{vhost.path}").raise_for_status()
