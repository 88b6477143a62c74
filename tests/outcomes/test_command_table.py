"""The operator calls methods with snmpset, as the documentation shows; RabbitMQ itself confirms it."""

from __future__ import annotations

import pytest

from tests.components.operated_gateway import OPERATOR
from tests.components.waiting import wait_until
from tests.outcomes.manager import Manager
from tests.outcomes.scene import Scene
from tests.outcomes.targets import ORDERS, QUEUE, VHOST, Target

pytestmark = pytest.mark.xdist_group("outcomes")


def test_a_queue_is_purged(there: Scene, manager: Manager) -> None:
    there.fill(5)
    ended = manager.call("purge-1", manager.row_of(ORDERS), "purge")
    assert ended["agCommandOutcome"] == "applied(1)", ended
    assert there.depth(by_rabbitmqctl=True) == 0
    record = there.logged(ended["agCommandOperationId"])
    assert (record["principal"], record["method"]) == (f"snmp:{OPERATOR}", "purge")
    assert record["outcome"] == "applied"


def test_what_a_backup_writes_back_purges_nothing(there: Scene, manager: Manager) -> None:
    command = f'"{OPERATOR}"."purge-2"'
    target = manager.row_of(ORDERS)
    assert manager.call("purge-2", target, "purge")["agCommandOutcome"] == "applied(1)"
    there.fill(3)
    reported = manager.run(
        "snmpset",
        *(f"agCommandTarget.{command}", "o", target),
        *(f"agCommandMethod.{command}", "s", "purge"),
        *(f"agCommandTimeout.{command}", "u", "0"),
        *(f"agCommandRowStatus.{command}", "i", "active"),
    )
    assert len(reported) == 4, reported
    submitted = manager.values("agCommandsSubmitted")
    assert there.depth() == 3
    assert manager.call("purge-3", target, "purge")["agCommandOutcome"] == "applied(1)"
    assert manager.values("agCommandsSubmitted") != submitted
    assert there.depth() == 0


def test_a_command_is_not_for_a_queue_that_was_made_again_meanwhile(there: Scene, manager: Manager) -> None:
    again = Target("queue", (VHOST, "again"))
    path, durable = f"queues/{VHOST}/again", {"durable": True}
    with there.broker.http() as http:
        http.put(path, json=durable).raise_for_status()
        wait_until(lambda: there.shown(again.path), "the queue is shown")
        first = there.shown(again.path)["created"]
        command = f'"{OPERATOR}"."again"'
        target = manager.row_of(again)
        prepared = (f"agCommandTarget.{command}", "o", target, f"agCommandMethod.{command}", "s", "purge")
        assert manager.status(*prepared, f"agCommandRowStatus.{command}", "i", "createAndWait") == ""
        http.delete(path).raise_for_status()
        http.put(path, json=durable).raise_for_status()
        body = {"properties": {}, "routing_key": "again", "payload": "x", "payload_encoding": "string"}
        http.post(f"exchanges/{VHOST}/amq.default/publish", json=body).raise_for_status()
        wait_until(lambda: there.shown(again.path).get("created", first) != first, "the new one is shown")
        assert manager.row_of(again) == target
        assert manager.status(f"agCommandRowStatus.{command}", "i", "active") == ""
        wait_until(lambda: manager.command("again")["agCommandState"] == "ended(3)", "the command's end")
        assert manager.command("again")["agCommandOutcome"] == "objectGone(4)", manager.command("again")
        got = http.post(f"{path}/get", json={"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"})
        assert len(got.json()) == 1
        http.delete(path).raise_for_status()


def test_what_no_rule_allows_and_what_there_is_not_is_reported_by_the_outcome(
    there: Scene, manager: Manager
) -> None:
    target = manager.row_of(ORDERS)
    refused = manager.call("delete-1", target, "delete")
    assert refused["agCommandOutcome"] == "refused(7)", refused
    unknown = manager.call("burn-1", target, "burn")
    assert unknown["agCommandOutcome"] == "unknownElement(5)", unknown
    assert QUEUE in there.broker.rabbitmqctl("list_queues", "-p", VHOST, "name")
