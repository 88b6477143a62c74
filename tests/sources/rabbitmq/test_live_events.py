"""The source on a real RabbitMQ: activities of other clients are observed as events."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator

import aio_pika
import aiormq
import pytest
from yarl import URL

from gateway.clock import SystemClock
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.links.amqp_connection import connect_once
from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.model.values import Reference
from gateway.sources.rabbitmq.object_lives import LISTING_LAG
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.hypothesis_profiles import PROVING
from tests.sources.rabbitmq.watching import node_name, reading_user, ready, watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

ALARM_SECONDS = 60.0 if PROVING else 3.0
NO_ALARM = """vm_memory_monitor:set_vm_memory_high_watermark(0.6),
rabbit_disk_monitor:set_disk_free_limit(1000000)."""


async def test_a_connection_and_its_queue_are_reported_from_beginning_to_end(
    virtual_host: VirtualHost,
) -> None:
    host = virtual_host.name
    with reading_user(virtual_host.broker, [host]) as user:
        async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
            await ready(watched)
            began = SystemClock().now()
            client = await connect_once(URL(virtual_host.amqp_url()), {"connection_name": "billing 7"})
            channel = await client.channel()
            await channel.declare_queue("bills", exclusive=True, arguments={"x-max-length": 9})
            await until(lambda: watched.reported("queueCreated", vhost=host, name="bills"), "the queue")
            await client.close()
            await until(lambda: watched.reported("queueDeleted", vhost=host, name="bills"), "its end")
            await until(lambda: watched.reported("connectionClosed", vhost=host), "the connection's end")
            (opened,) = watched.reported("connectionOpened", vhost=host)
            (closed,) = watched.reported("connectionClosed", vhost=host)
            (created,) = watched.reported("queueCreated", vhost=host)
            (deleted,) = watched.reported("queueDeleted", vhost=host)

            lifetime = closed.pop("lifetime")
            assert isinstance(lifetime, int)
            assert 0 < lifetime < SystemClock().now() - began
            assert closed == opened
            user_name = virtual_host.broker.administrator.name
            assert (closed["user"], closed["clientName"], closed["peerHost"]) == (
                user_name,
                "billing 7",
                "127.0.0.1",
            )
            assert (
                closed["name"]
                == f"127.0.0.1:{closed['peerPort']} -> 127.0.0.1:{virtual_host.broker.ports.amqp}"
            )
            (connection,) = {one.native_id for one in watched.received("connection", str(closed["name"]))}
            assert closed["connection"] == Reference(connection)
            (queue,) = {one.native_id for one in watched.received("queue", "bills")}
            assert created["queue"] == deleted["queue"] == Reference(queue)
            assert (created["type"], created["exclusive"], created["by"]) == ("classic", True, user_name)


async def test_a_refused_login_is_reported_without_its_password(virtual_host: VirtualHost) -> None:
    """Its user name is what the client chose, line feeds and all: front ends escape it, the log keeps it."""
    broker = virtual_host.broker
    name = f"stranger-{secrets.token_hex(4)}\nSNMPv2-MIB::snmpTrapOID.0 x\u202e"
    stranger = Credentials(name, secrets.token_hex(8))
    with reading_user(broker, [virtual_host.name]) as user:
        async with watch(broker, user) as watched:
            await ready(watched)
            with pytest.raises(aiormq.exceptions.ProbableAuthenticationError):
                await connect_once(URL(virtual_host.amqp_url(stranger)), {})
            await until(lambda: watched.reported("authenticationFailed", user=stranger.name), "the refusal")
            (failed,) = watched.reported("authenticationFailed", user=stranger.name)
            assert failed["reason"] == f"user '{stranger.name}' - invalid credentials"
            assert (failed["mechanism"], failed["protocol"], failed["peerHost"]) == (
                "PLAIN",
                "AMQP 0-9-1",
                "127.0.0.1",
            )
            # It was closed afterwards, which is no end of anything that was open.
            async with await aio_pika.connect(virtual_host.amqp_url()):
                pass
            await until(
                lambda: watched.reported("connectionClosed", vhost=virtual_host.name), "another's end"
            )
            assert watched.reported("connectionClosed", name=failed["connectionName"]) == []
            assert stranger.password not in repr(watched.events)


async def test_a_queue_whose_process_is_started_again_is_the_same_queue(virtual_host: VirtualHost) -> None:
    """RabbitMQ reports it as if it had just been created."""
    host, broker = virtual_host.name, virtual_host.broker
    with virtual_host.http() as http:
        http.put(f"queues/{virtual_host.path}/kept", json={"durable": True}).raise_for_status()
    with reading_user(broker, [host]) as user:
        async with watch(broker, user, virtual_host=host) as watched:
            await ready(watched)
            began = SystemClock().now()

            def is_listed() -> bool:
                known = {one.name.parts: one.sampled for one in watched.source.known("queue")}
                return known.get((host, "kept"), 0) >= began + LISTING_LAG

            await until(is_listed, "it is listed while events arrive")
            await asyncio.to_thread(broker.rabbitmqctl, "eval", _failing(host, "kept"))
            with virtual_host.http() as http:

                def is_restarted() -> bool:
                    found = http.get(f"queues/{virtual_host.path}/kept")
                    return bool(found.is_success and found.json().get("state") == "running")

                await until(is_restarted, "it runs again")
                http.put(f"queues/{virtual_host.path}/after", json={"durable": True}).raise_for_status()
            await until(lambda: watched.reported("queueCreated", vhost=host, name="after"), "a later event")
            assert not watched.gone("queue", "kept")
            assert not watched.reported("queueCreated", vhost=host, name="kept")


def _failing(host: str, queue: str) -> str:
    """Return what lets the process of a queue fail, as by a fault of the broker."""
    name = f'rabbit_misc:r(<<"{host}">>, queue, <<"{queue}">>)'
    return f"{{ok, Q}} = rabbit_amqqueue:lookup({name}), exit(amqqueue:get_pid(Q), fault)."


BURST = 2_000 if PROVING else 300


async def test_a_burst_of_queues_with_bindings_makes_no_gap(virtual_host: VirtualHost) -> None:
    """As definitions that are imported: twice as many events as queues, at once."""
    host = virtual_host.name
    names = [f"{host}-{number}" for number in range(BURST)]
    queues = [{"name": name, "durable": True, "auto_delete": False, "arguments": {}} for name in names]
    topic = {"source": "amq.topic", "destination_type": "queue", "arguments": {}}
    bindings = [{**topic, "destination": name, "routing_key": name} for name in names]
    with reading_user(virtual_host.broker, [host]) as user, virtual_host.http() as http:
        async with watch(virtual_host.broker, user, virtual_host=host) as watched:
            await ready(watched)
            definitions = {"queues": queues, "bindings": bindings}
            done = await asyncio.to_thread(
                http.post, f"definitions/{virtual_host.path}", json=definitions, timeout=300
            )
            done.raise_for_status()

            def reported() -> set[object]:
                return {one["name"] for one in watched.reported("queueCreated", vhost=host)}

            def bound() -> int:
                return sum(f"{host}-" in one.name.leaf for one in watched.source.known("binding"))

            await until(lambda: reported() == set(names), "each queue is reported")
            await until(lambda: bound() == BURST, "each binding is known")
            await until(lambda: all(watched.exists("queue", name) for name in names[:9]), "they are shown")
            assert watched.gaps == []
            assert not any(watched.gone("queue", name) for name in names[:9])


async def test_what_administrators_do_is_reported(virtual_host: VirtualHost) -> None:
    host, name = virtual_host.name, f"bob-{secrets.token_hex(4)}"
    with reading_user(virtual_host.broker, [host]) as user:
        async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
            await ready(watched)
            with virtual_host.http() as client:
                everything = {"configure": ".*", "write": ".*", "read": "^$"}
                client.put(f"users/{name}", json={"password": "x", "tags": "monitoring"}).raise_for_status()
                client.put(f"permissions/{virtual_host.path}/{name}", json=everything).raise_for_status()
                policy = {"pattern": "^q", "definition": {"max-length": 9}, "priority": 3}
                client.put(f"policies/{virtual_host.path}/cap", json=policy).raise_for_status()
                client.put(
                    f"vhost-limits/{virtual_host.path}/max-queues", json={"value": 9}
                ).raise_for_status()
                client.put(f"exchanges/{virtual_host.path}/till", json={"type": "fanout"}).raise_for_status()
                client.delete(f"users/{name}").raise_for_status()
            await until(lambda: watched.reported("userDeleted", user=name), "the user's end")
            (vhost,) = {one.native_id for one in watched.received("vhost", host)}
            (tags,) = watched.reported("userTagsSet", user=name)
            (limits,) = watched.reported("vhostLimitsSet", name=host)
            (permission,) = watched.reported("permissionSet", name=host, user=name)
            (policy_set,) = watched.reported("policySet", name=host)
            (exchange,) = watched.reported("exchangeCreated", vhost=host)
            assert tags["tags"] == ("monitoring",)
            assert limits["limits"] == {"max-queues": 9}
            assert (permission["vhost"], permission["read"]) == (Reference(vhost), "^$")
            assert (policy_set["definition"], policy_set["priority"]) == ({"max-length": 9}, 3)
            assert (exchange["name"], exchange["exchangeType"]) == ("till", "fanout")


@pytest.fixture
def without_alarms(disturbed: PrivateBroker) -> Iterator[PrivateBroker]:
    """Provide the broker, and clear its alarms behind the test."""
    yield disturbed
    disturbed.rabbitmqctl("eval", NO_ALARM)


@pytest.mark.long
@pytest.mark.xdist_group("disturbed")
async def test_alarms_are_reported_within_seconds_and_so_is_everything_while_they_last(
    without_alarms: PrivateBroker, record_property: Callable[[str, object], None]
) -> None:
    broker = without_alarms
    async with watch(broker, broker.administrator) as watched:
        await ready(watched)
        await asyncio.to_thread(broker.rabbitmqctl, "set_vm_memory_high_watermark", "0.0000001")
        await until(lambda: watched.reported("memoryAlarmSet"), "the memory alarm")
        with broker.http() as client:
            client.put("queues/%2F/during", json={}).raise_for_status()
            client.delete("queues/%2F/during").raise_for_status()
        await until(lambda: watched.reported("queueCreated", name="during"), "an event under the alarm")
        await until(lambda: watched.value("node", node_name(watched), "memoryAlarm"), "the node's alarm")
        await asyncio.sleep(ALARM_SECONDS)  # the alarm lasts
        await asyncio.to_thread(broker.rabbitmqctl, "set_disk_free_limit", "100000000000000")
        await until(lambda: watched.reported("diskAlarmSet", resource="disk"), "the disk alarm")
        await asyncio.to_thread(broker.rabbitmqctl, "set_vm_memory_high_watermark", "0.6")
        await until(lambda: watched.reported("memoryAlarmCleared"), "the memory alarm's end")
        assert watched.status is not None
        assert watched.status.blocked
        (node,) = {one.native_id for one in watched.received("node", node_name(watched))}
        assert watched.reported("memoryAlarmSet") == [{"node": Reference(node), "resource": "memory"}]
        severities = {one.key.name: one.severity for one, _ in watched.events}
        assert severities["memoryAlarmSet"] == severities["diskAlarmSet"] == Severity.CRITICAL
        slowest = max(delay for delay in watched.delays)
        record_property("slowest_event_ms", slowest // 10**6)
        assert slowest < 5 * SECOND
