"""RabbitMQ for tests: one node for all workers of a session, with a virtual host of its own for each test.

Tests that kill the broker, raise alarms or count what happens in the whole broker start one of their own.
"""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx

from gateway.demo.broker import BrokerSettings, Credentials, PrivateBroker

TEST_SETTINGS = BrokerSettings(statistics_interval=1.0, grace=0)
"""Quick statistics, and killed at the end: nobody reads its data again."""


@dataclass(frozen=True, slots=True)
class VirtualHost:
    """A virtual host that a test has for itself."""

    broker: PrivateBroker
    name: str

    @property
    def path(self) -> str:
        """The name as a segment of a management API path."""
        return quote(self.name, safe="")

    def amqp_url(self, user: Credentials | None = None) -> str:
        """AMQP URL of this virtual host, for the administrator unless told."""
        return self.broker.amqp_url(user, self.name)

    def http(self, user: Credentials | None = None) -> httpx.Client:
        """A client of the management API, for the administrator unless told; the caller closes it."""
        return self.broker.http(user)


@contextmanager
def shared_broker(session_folder: Path) -> Iterator[PrivateBroker]:
    """The one node of a test session; whichever worker comes first starts it, the last one ends it."""
    folder = session_folder / "rabbitmq"
    with (session_folder / "rabbitmq.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        broker = PrivateBroker.attach(folder)
        if broker is None:
            # A former node may just be ending there: the new one takes a folder that nobody empties.
            folder.unlink(missing_ok=True)
            broker = PrivateBroker(Path(f"{folder}-{secrets.token_hex(4)}"), TEST_SETTINGS, remove=True)
            broker.start()
            folder.symlink_to(broker.folder)
    try:
        yield broker
    finally:
        broker.close()


@contextmanager
def new_virtual_host(broker: PrivateBroker) -> Iterator[VirtualHost]:
    """A virtual host that exists as long as the context; the administrator may do anything in it."""
    vhost = VirtualHost(broker, f"test-{secrets.token_hex(6)}")
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    with broker.http() as client:
        client.put(f"vhosts/{vhost.path}", json={}).raise_for_status()
        grant = f"permissions/{vhost.path}/{broker.administrator.name}"
        client.put(grant, json=everything).raise_for_status()
        try:
            yield vhost
        finally:
            client.delete(f"vhosts/{vhost.path}").raise_for_status()
