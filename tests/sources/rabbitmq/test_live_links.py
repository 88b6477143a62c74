"""The source on a real RabbitMQ: events of shovels, federation links, limits and policies."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import quote

import pytest

from gateway.demo.installation import NEWEST
from gateway.demo.node_setup import free_ports
from gateway.model.observations import Severity
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.sources.rabbitmq.watching import Watch, reading_user, ready, watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)


async def reported(watched: Watch, event: str, **arguments: object) -> dict[str, Any]:
    """Wait for an event with these arguments; return all of its arguments."""
    await until(lambda: watched.reported(event, **arguments), event)
    return watched.reported(event, **arguments)[-1]


@pytest.mark.xdist_group("disturbed")
async def test_a_federation_link_fails_runs_and_ends(forwarding_host: VirtualHost) -> None:
    broker, path = forwarding_host.broker, forwarding_host.path
    (unanswered,) = free_ports(1)
    upstream, federate = f"parameters/federation-upstream/{path}/shop", f"policies/{path}/federate"
    with broker.http() as client:
        client.put(f"exchanges/{path}/till", json={"type": "fanout"}).raise_for_status()
        async with watch(broker, broker.administrator, writer=broker.administrator) as watched:
            await ready(watched)
            broken = {"uri": f"amqp://127.0.0.1:{unanswered}", "reconnect-delay": 1}
            client.put(upstream, json={"value": broken}).raise_for_status()
            policy = {"pattern": "^till$", "definition": {"federation-upstream-set": "all"}}
            client.put(federate, json=policy).raise_for_status()
            failed = await reported(watched, "federationLinkFailed", exchange="till", upstream="shop")
            assert (failed["vhost"], failed["reason"]) == (forwarding_host.name, "econnrefused")
            works = {"uri": forwarding_host.amqp_url(), "reconnect-delay": 1}
            client.put(upstream, json={"value": works}).raise_for_status()
            await reported(watched, "federationLinkRunning", exchange="till", upstream="shop")
            client.delete(federate).raise_for_status()
            await reported(watched, "federationLinkRemoved", exchange="till", upstream="shop")
            # The end of an upstream is that of its links, too.
            client.put(federate, json=policy).raise_for_status()
            await until(lambda: len(watched.reported("federationLinkRunning")) > 1, "it runs again")
            client.delete(upstream).raise_for_status()
            await until(lambda: len(watched.reported("federationLinkRemoved")) > 1, "it is removed again")
            severities = {one.key.name: one.severity for one, _ in watched.events}
            assert severities["federationLinkFailed"] is Severity.WARNING
            assert broker.administrator.password not in repr(watched.events)


@pytest.mark.xdist_group("disturbed")
async def test_a_shovel_runs_and_ends(forwarding_host: VirtualHost) -> None:
    broker, uri = forwarding_host.broker, forwarding_host.amqp_url()
    mover = f"parameters/shovel/{forwarding_host.path}/mover"
    value = {"src-uri": uri, "src-queue": "from", "dest-uri": uri, "dest-queue": "to"}
    with broker.http() as client:
        async with watch(broker, broker.administrator, writer=broker.administrator) as watched:
            await ready(watched)
            client.put(mover, json={"value": value}).raise_for_status()
            await reported(watched, "parameterSet", component="shovel", name="mover")
            await reported(watched, "shovelRunning", vhost=forwarding_host.name, name="mover")
            client.delete(mover).raise_for_status()
            await reported(watched, "parameterCleared", component="shovel", name="mover")
            await reported(watched, "shovelRemoved", vhost=forwarding_host.name, name="mover")
            assert broker.administrator.password not in repr(watched.events)


@pytest.mark.xdist_group("disturbed")
async def test_a_shovel_that_cannot_work_is_not_reported_as_running(
    forwarding_host: VirtualHost, rabbitmq_release: str
) -> None:
    broker = forwarding_host.broker
    mover = f"parameters/shovel/{forwarding_host.path}/mover"
    (unanswered,) = free_ports(1)
    value = {
        "src-uri": forwarding_host.amqp_url(),
        "src-queue": "from",
        "dest-uri": f"amqp://127.0.0.1:{unanswered}",
        "dest-queue": "to",
        "reconnect-delay": 1,
    }
    with broker.http() as client:
        async with watch(broker, broker.administrator, writer=broker.administrator) as watched:
            await ready(watched)
            client.put(mover, json={"value": value}).raise_for_status()
            await reported(watched, "parameterSet", component="shovel", name="mover")
            # RabbitMQ 4.0 sometimes tells that it was removed, and 3.10 nothing.
            if rabbitmq_release == NEWEST:
                ended = await reported(watched, "shovelTerminated", vhost=forwarding_host.name, name="mover")
                assert ended["reason"] == "failed to connect to destination"
            client.delete(mover).raise_for_status()
            await reported(watched, "parameterCleared", component="shovel", name="mover")
            assert watched.reported("shovelRunning") == []
            assert broker.administrator.password not in repr(watched.events)


async def test_limits_permissions_and_policies_are_reported_as_set_and_as_cleared(
    virtual_host: VirtualHost,
) -> None:
    host, path, name = virtual_host.name, virtual_host.path, f"bob-{secrets.token_hex(4)}"
    topic = {"exchange": "amq.topic", "write": "^w", "read": "^r"}
    policy = {"pattern": "^q", "definition": {"max-length": 9}}
    with reading_user(virtual_host.broker, [host]) as user, virtual_host.http() as client:
        client.put(f"users/{name}", json={"password": "x", "tags": ""}).raise_for_status()
        client.put(f"queues/{path}/quick", json={"durable": True}).raise_for_status()
        async with watch(virtual_host.broker, user, virtual_host=host) as watched:
            await ready(watched)
            changes: list[tuple[str, dict[str, Any]]] = [
                (f"vhost-limits/{path}/max-queues", {"value": 9}),
                (f"user-limits/{quote(name)}/max-channels", {"value": 9}),
                (f"topic-permissions/{path}/{quote(name)}", topic),
                (f"operator-policies/{path}/cap", policy),
                (f"policies/{path}/limit", policy),
            ]
            for target, body in changes:
                client.put(target, json=body).raise_for_status()
            limits = await reported(watched, "vhostLimitsSet", name=host)
            user_limits = await reported(watched, "userLimitsSet", user=name)
            await reported(watched, "topicPermissionSet", name=host, user=name)
            await reported(watched, "operatorPolicySet", name=host)
            await reported(watched, "policySet", name=host)
            await reported(watched, "queuePolicyUpdated", name="quick")
            assert limits["limits"] == {"max-queues": 9}
            assert (user_limits["maxChannels"], user_limits["maxConnections"]) == (9, None)
            for target, _ in changes:
                client.delete(target).raise_for_status()
            await reported(watched, "vhostLimitsCleared", name=host)
            await reported(watched, "userLimitsCleared", user=name)
            await reported(watched, "topicPermissionCleared", name=host, user=name)
            await reported(watched, "operatorPolicyCleared", name=host)
            await reported(watched, "policyCleared", name=host)
            await reported(watched, "queuePolicyCleared", name="quick")
            assert len(watched.reported("vhostLimitsSet", name=host)) == 1
            assert len(watched.reported("operatorPolicySet", name=host)) == 1
        client.delete(f"users/{name}").raise_for_status()
