"""The name of a broker moves to another one, while the gateway runs and while it does not."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.demo.installation import debian_release
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.waiting import wait_until
from tests.durable.test_clock_set import has_recorded, publish
from tests.durable.test_standstills import gaps, rows
from tests.outcomes.relay import Relay

LIVES = """SELECT kind, object_id, inferred, deltas FROM log
           WHERE class = 'queue' AND object_name = $name AND kind <> 'snapshot' ORDER BY seq"""


class Moving:
    """A name for one of two brokers: relays to its management API and its listener of AMQP."""

    def __init__(self, relays: ExitStack, broker: PrivateBroker) -> None:
        self.management = relays.enter_context(Relay(broker.ports.management))
        self.amqp = relays.enter_context(Relay(broker.ports.amqp))

    def move(self, broker: PrivateBroker) -> None:
        """Let the name mean another broker."""
        self.management.move(broker.ports.management)
        self.amqp.move(broker.ports.amqp)


def add_user(broker: PrivateBroker, name: str, tags: str) -> None:
    """Add a user, whose password is the name, with all rights in the virtual host ``/``."""
    with broker.http() as http:
        http.put(f"users/{name}", json={"password": name, "tags": tags}).raise_for_status()
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        http.put(f"permissions/%2F/{name}", json=everything).raise_for_status()


@pytest.fixture(scope="session")
def another_rabbitmq(
    rabbitmq_brokers: Callable[[str], PrivateBroker], rabbitmq_release: str
) -> PrivateBroker:
    """Another RabbitMQ of this session than ``rabbitmq``: that of another release."""
    is_later = debian_release(rabbitmq_release) == debian_release("4.0")
    return rabbitmq_brokers("3.10" if is_later else "4.0")


@contextmanager
def watched(site: Site, log: Path) -> Iterator[RunningCommand]:
    with running("process", "core", "--config", site.configuration, log=log) as gateway:
        gateway.ready()
        yield gateway


def lives(site: Site, queue: str, gained: int = 0) -> list[tuple[object, ...]]:
    """Return kind, object and inference of each begin and end of a queue of this name in the log.

    ``gained``: what one life may have gained: the first of two messages of it that waited is its beginning.
    """
    found = rows(site, LIVES, name=queue)
    counted = [row for row in found if row[3] is not None and f'"delta":{gained},' not in str(row[3])]
    assert not counted, "no counter continues"
    return [row[:3] for row in found if row[0] in {"create", "delete"}]


def check_moves(
    site: Site,
    name: Moving,
    brokers: tuple[PrivateBroker, PrivateBroker],
    queue: str,
    has: Callable[[int], bool],
    *,
    back: int = 3,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Move a name to another broker and back, before a gateway that runs, and before one that does not.

    Args:
        site: the gateway.
        name: the name; it is that of the first broker.
        brokers: both, with a queue of one name to which 3 and 30 messages were published.
        queue: the name of the queue in the log.
        has: returns whether the log has this number of published messages.
        back: how many were published to that of the first one at the end,
        meanwhile: after this was called, while the gateway is away.
    """
    first, other = brokers
    synchronised = "SELECT seq FROM log WHERE kind = 'source' AND state = 'synchronised'"
    replaced = f"{synchronised} AND text LIKE '%another broker%is read%in the place of%'"
    with watched(site, site.folder / "first.txt") as gateway:
        wait_until(lambda: has(3), "the first broker is read")
        wait_until(lambda: rows(site, synchronised), "and that everything was read")
        name.move(other)
        wait_until(lambda: has(30), "the other broker is read")
        wait_until(lambda: rows(site, replaced), "the source says so")
        assert [one for one in gateway.log if one["event"] == "another-broker"]
        wait_until(lambda: gaps(site), "and what was not read meanwhile")
        while_it_ran = lives(site, queue)
    meanwhile()
    name.move(first)
    with watched(site, site.folder / "second.txt"):
        wait_until(lambda: has(back), "the first broker is read again")
    (_, identity, _), *_ = while_it_ran
    another = [("delete", identity, True), ("create", identity, None)]
    assert while_it_ran == another
    assert lives(site, queue, back - 3) == another * 2


@pytest.mark.long
def test_another_broker_has_other_objects_in_the_same_rows(
    rabbitmq: PrivateBroker, another_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    brokers, queue = (rabbitmq, another_rabbitmq), f"moved-{secrets.token_hex(4)}"
    for broker in brokers:
        add_user(broker, queue, "monitoring")
    asyncio.run(publish(rabbitmq, queue, 3))
    asyncio.run(publish(another_rabbitmq, queue, 30))
    with ExitStack() as relays:
        name, site = Moving(relays, rabbitmq), new_site(tmp_path)
        source = {
            "kind": "rabbitmq",
            "management": f"http://127.0.0.1:{name.management.port}",
            "user": queue,
            "password": site.secret(queue),
            "events": {"url": f"amqp://127.0.0.1:{name.amqp.port}"},
            "interval": "1s",
            "budget": 0.5,
        }
        site.configure(sources={"orders": source}, log={"statistics_interval": "1s"}, snmp={"enabled": False})
        check_moves(site, name, brokers, f"/|{queue}", partial(has_recorded, site, queue))
    for broker in brokers:
        with broker.http() as http:
            http.delete(f"queues/%2F/{queue}").raise_for_status()
            http.delete(f"users/{queue}").raise_for_status()
