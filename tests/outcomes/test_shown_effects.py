"""Who was answered reads what the operation did: no former value is shown behind an answer.

A purge is the exception: it is answered when the broker proves it, before figures are measured again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.components.waiting import wait_until
from tests.outcomes.attempts import JavaClient
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene
from tests.outcomes.targets import DISTANT_ORDERS, LOST, VHOST, Target

pytestmark = pytest.mark.xdist_group("outcomes")

MESSAGES = "messagesReady"


def filled(there: Scene, queue: Target, shown: Callable[[], str]) -> None:
    """Put messages into a queue, and wait until a front end shows them."""
    there.fill(3)

    def are_shown() -> bool:
        read = there.command("get", queue.path, "--fresh")
        assert read.code == 0, read.errors
        return "3" in shown().split()

    wait_until(are_shown, "the messages are shown")


def test_a_java_client_reads_soon_that_a_queue_is_empty(there: Scene, java: JavaClient) -> None:
    queue = DISTANT_ORDERS
    filled(there, queue, lambda: str(java.attribute(queue.object_name, MESSAGES)))
    java.invoke(queue.object_name, "purge", [])
    emptied = "java.lang.Long 0"
    wait_until(lambda: java.attribute(queue.object_name, MESSAGES) == emptied, "Java reads that it is empty")


def test_a_manager_reads_soon_that_a_queue_is_empty(there: Scene, manager: Manager) -> None:
    queue = DISTANT_ORDERS
    column = f"{queue.column(MESSAGES)}.{manager.index_of(queue)}"
    filled(there, queue, lambda: manager.values(column)[column])
    ended = manager.call("empty-shown", manager.row_of(queue), "purge")
    assert ended["agCommandOutcome"] == "applied(1)", ended
    wait_until(lambda: manager.values(column)[column].split()[0] == "0", "the manager reads that it is empty")


def made(there: Scene, queue: Target) -> None:
    """Make a queue, and wait until it is shown."""
    with there.broker.http() as http:
        http.put(f"queues/{VHOST}/{queue.names[-1]}", json={"durable": True}).raise_for_status()
    wait_until(lambda: there.shown(queue.path), "the queue is shown")


def test_the_mbean_of_a_deleted_queue_is_gone_when_java_is_answered(there: Scene, java: JavaClient) -> None:
    queue = Target("queue", (VHOST, f"{LOST}java"))
    made(there, queue)
    wait_until(lambda: list(java.names(queue.object_name)), "its MBean")
    java.invoke(queue.object_name, "delete", [False, False])
    assert list(java.names(queue.object_name)) == []


def test_the_row_of_a_deleted_queue_is_gone_when_the_command_has_ended(
    there: Scene, manager: Manager
) -> None:
    queue = Target("queue", (VHOST, f"{LOST}snmp"))
    made(there, queue)
    name = queue.names[-1]
    column = queue.column("rowName")
    wait_until(lambda: name in manager.values(column).values(), "the manager reads the row")
    ended = manager.call("delete-shown", manager.row_of(queue), "delete")
    assert ended["agCommandOutcome"] == "applied(1)", ended
    assert name not in manager.values(column).values()
