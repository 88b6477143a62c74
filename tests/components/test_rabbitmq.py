"""The RabbitMQ that tests share: a node that ended or hangs serves again before the next test uses it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from gateway.demo.broker import PrivateBroker
from gateway.sources.rabbitmq.events import EVENT_EXCHANGE
from tests.components.rabbitmq import ALWAYS_BOUND, SharedBrokers
from tests.components.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("rabbitmq_brokers"), pytest.mark.xdist_group("second worker")]

PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of a test session, and the broker that it shares with others."""

    plugin: SharedBrokers
    broker: PrivateBroker


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory, rabbitmq_release: str) -> Iterator[Worker]:
    """The second worker of a session; the first one has started the broker."""
    folder = tmp_path_factory.mktemp("session")
    first, second = SharedBrokers(), SharedBrokers(PATIENCE)
    with first.of_session(folder) as of_first, second.of_session(folder) as of_second:
        started, attached = of_first(rabbitmq_release), of_second(rabbitmq_release)
        assert attached.node_process() == started.node_process()
        yield Worker(second, attached)


def bind_events(client: httpx.Client, queue: str) -> None:
    """Make a queue to which the broker reports new queues."""
    client.put(f"queues/%2F/{queue}", json={}).raise_for_status()
    binding = f"bindings/%2F/e/{EVENT_EXCHANGE}/q/{queue}"
    client.post(binding, json={"routing_key": "queue.created"}).raise_for_status()


def taken_from(client: httpx.Client, queue: str) -> list[dict[str, object]]:
    """Take a message from a queue, if it has one."""
    wanted = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    answer = client.post(f"queues/%2F/{queue}/get", json=wanted).raise_for_status()
    return list(answer.json())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_node_that_ended_or_hangs_serves_again_with_its_events_before_the_next_test(
    second: Worker, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    broker, node = second.broker, second.broker.node_process()
    assert node is not None

    os.kill(node, number)
    if number is signal.SIGKILL:
        wait_until(lambda: broker.node_process() != node, "its keeper has noticed")
    else:
        second.plugin.pytest_exception_interact(request.node)
    second.plugin.pytest_runtest_setup(request.node)

    assert broker.node_process() not in {None, node}
    with broker.http() as client:
        bound = client.get(f"bindings/%2F/e/{EVENT_EXCHANGE}/q/{ALWAYS_BOUND}").raise_for_status().json()
        assert [one["routing_key"] for one in bound] == ["none"]
        bind_events(client, "reported")
        client.put("queues/%2F/new", json={}).raise_for_status()
        wait_until(lambda: taken_from(client, "reported"), "the new queue is reported")


def test_a_node_that_answers_after_a_test_failed_is_left_alone(
    second: Worker, request: pytest.FixtureRequest
) -> None:
    node = second.broker.node_process()

    second.plugin.pytest_exception_interact(request.node)
    second.plugin.pytest_runtest_setup(request.node)

    assert second.broker.node_process() == node
