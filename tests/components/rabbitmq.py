"""RabbitMQ for tests: one node for all workers of a session, with a virtual host of its own for each test.

A node that ends is started again by its keeper, one that hangs is killed by the first worker that notices.
Tests that kill the broker, raise alarms or count what happens in the whole broker start one of their own.

A test runs on the RabbitMQ that is installed. One that is marked ``each_rabbitmq`` runs on that of each of
`gateway.demo.installation.RELEASES`, and pytest's option ``--rabbitmq`` chooses one for all tests.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx
import psutil
import pytest

from gateway.demo.broker import BrokerSettings, Credentials, PrivateBroker
from gateway.demo.installation import NEWEST, RELEASES, debian_release
from gateway.sources.rabbitmq.events import EVENT_EXCHANGE
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING
from tests.process_state import SharedPartEndedError

INSTALLED = "installed"

PATIENCE: Final = 20.0
"""The seconds after which a node that does not answer hangs, also on a busy machine."""

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
            settings = replace(TEST_SETTINGS, debian=debian, guarded=True)
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


class WatchedBroker:
    """A guarded broker in use, of which its user notices that it was started again, or hangs.

    Args:
        broker: which serves now.
        patience: the seconds in which a node has to answer that has answered before.
    """

    def __init__(self, broker: PrivateBroker, patience: float = PATIENCE) -> None:
        self.broker = broker
        self._patience = patience
        self._process = broker.node_process()
        self._is_doubted = False

    def doubt(self) -> None:
        """Let the next `look` ask the node, whether or not it is the process that it was."""
        self._is_doubted = True

    def look(self) -> None:
        """Return at once if the node is the process that it was, and not doubted; else when it serves.

        A node that hangs is killed, and its keeper starts it again.

        Raises:
            SharedPartEndedError: it does not serve any more.
        """
        process = self.broker.node_process()
        if process == self._process and not self._is_doubted:
            return
        if process is not None and process == self._process:
            self._kill_if_it_hangs(process)
        self._await_service()
        if self.broker.node_process() != self._process:
            keep_events_published(self.broker)
        self._process, self._is_doubted = self.broker.node_process(), False

    def _kill_if_it_hangs(self, process: int) -> None:
        with (
            contextlib.suppress(AssertionError),
            self.broker.http(timeout=self._patience / 2) as client,
        ):
            wait_until(lambda: self.broker.serves(client), "it answers", self._patience)
            return
        # Another worker may have been quicker.
        if self.broker.node_process() == process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _await_service(self) -> None:
        try:
            with self.broker.http() as client:
                wait_until(
                    lambda: self.broker.is_given_up() or self.broker.serves(client),
                    "the RabbitMQ that tests share serves again",
                    self.broker.settings.start_deadline,
                )
            assert not self.broker.is_given_up(), "the RabbitMQ that tests share ended again and again"
        except AssertionError as error:
            raise SharedPartEndedError(f"{error}; the end of its log:\n{self.broker.log_tail()}") from None


class SharedBrokers:
    """The shared brokers of this process; a pytest plugin that looks at them before a test uses one."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._used: dict[str, WatchedBroker] = {}

    @contextmanager
    def of_session(self, folder: Path) -> Iterator[Callable[[str], PrivateBroker]]:
        """Provide a function that returns the `shared_broker` of a release, which is kept until the end."""
        with ExitStack() as stack:
            stack.callback(self._used.clear)

            def of_release(release: str) -> PrivateBroker:
                if release not in self._used:
                    broker = stack.enter_context(shared_broker(folder, release))
                    self._used[release] = WatchedBroker(broker, self._patience)
                return self._used[release].broker

            yield of_release

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Look at them, before any fixture of the test uses one."""
        if _uses_brokers(item):
            for each in self._used.values():
                each.look()

    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        """Doubt them after a failure of a test that may have used one."""
        if _uses_brokers(node):
            for each in self._used.values():
                each.doubt()


def _uses_brokers(node: pytest.Item | pytest.Collector) -> bool:
    return "rabbitmq_brokers" in getattr(node, "fixturenames", ())


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
