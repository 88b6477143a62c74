"""Each possible outcome of a RabbitMQ is provoked; every front end and the log agree on it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.components.waiting import wait_until
from tests.outcomes.attempts import Attempts, JavaClient, Reported
from tests.outcomes.faults import without_rights
from tests.outcomes.manager import Manager
from tests.outcomes.scene import TRAINEE, Scene
from tests.outcomes.targets import ORDERS, SHOP, VHOST, Target, doomed

pytestmark = pytest.mark.xdist_group("outcomes")

IMPOSSIBLE = ("InvalidAttributeValueException",)
IMPOSSIBLE_ARGUMENT = ("RuntimeOperationsException", "IllegalArgumentException")
REMOTE = ("MBeanException", "Exception")


def test_applied(attempts: Attempts, there: Scene) -> None:
    assert attempts.set("maxConnections", 50) == Reported(ExitCode.OK, "", (), ("applied",) * 3)
    assert attempts.set("maxConnections", -1).logged == ("applied",) * 3
    assert there.limits() == {}


def test_what_is_there_already_is_applied_for_who_may_not_change_it(attempts: Attempts, there: Scene) -> None:
    with without_rights(there):  # so that a request to change anything would fail
        again = attempts.set("description", "sells")
    assert again == Reported(ExitCode.OK, "", (), ("applied",) * 3)


def test_refused_by_the_configuration(attempts: Attempts, there: Scene) -> None:
    there.fill(1)
    reported = attempts.invoke("delete", java=(False, False))
    assert reported == Reported(ExitCode.REFUSED, "refused", ("SecurityException",), ("refused",) * 3)
    assert there.depth() == 1
    assert attempts.invoke("purge").logged == ("applied",) * 3


def test_a_writer_whom_nothing_is_allowed(attempts: Attempts, there: Scene, tmp_path: Path) -> None:
    mark = attempts.mark()
    assert Manager(there, tmp_path, TRAINEE).set(SHOP, "maxConnections", 1) == "noAccess"
    (record,) = attempts.records(mark, 1)
    assert (record["principal"], record["outcome"]) == (f"snmp:{TRAINEE}", "refused")
    assert there.limits() == {}


def test_wrong_value(attempts: Attempts) -> None:
    reported = attempts.set("maxConnections", -2)
    assert reported == Reported(ExitCode.WRONG_VALUE, "wrongValue", IMPOSSIBLE, ("wrong-value",) * 3)


def test_wrong_type(attempts: Attempts) -> None:
    # What the command line cannot read as a number it asks nobody for.
    reported = attempts.set("maxConnections", "many", logged=2)
    assert reported == Reported(ExitCode.WRONG_VALUE, "wrongType", IMPOSSIBLE, ("wrong-type",) * 2)


def test_wrong_length(attempts: Attempts) -> None:
    reported = attempts.set("description", "x" * 8193)
    assert reported == Reported(ExitCode.WRONG_VALUE, "wrongLength", IMPOSSIBLE, ("wrong-length",) * 3)


def test_an_argument_of_a_wrong_length(attempts: Attempts) -> None:
    reported = attempts.invoke("start", {"node": "x" * 256}, of=SHOP)
    assert reported == Reported(
        ExitCode.WRONG_VALUE, "wrongLength", IMPOSSIBLE_ARGUMENT, ("wrong-length",) * 3
    )


def test_an_argument_of_a_wrong_type(attempts: Attempts, there: Scene) -> None:
    reported = attempts.invoke("setMaxQueues", {"maxQueues": "many"}, of=SHOP, logged=2)
    assert reported == Reported(ExitCode.WRONG_VALUE, "wrongType", IMPOSSIBLE_ARGUMENT, ("wrong-type",) * 2)
    assert there.limits() == {}


def test_an_argument_out_of_range(attempts: Attempts, there: Scene) -> None:
    reported = attempts.invoke("setMaxQueues", {"maxQueues": "-2"}, of=SHOP, java=(-2,))
    assert reported == Reported(ExitCode.WRONG_VALUE, "wrongValue", IMPOSSIBLE_ARGUMENT, ("wrong-value",) * 3)
    assert there.limits() == {}


def test_an_element_that_cannot_be_set(attempts: Attempts) -> None:
    reported = attempts.set("messages", 5)
    missing = ("AttributeNotFoundException",)
    assert reported == Reported(ExitCode.REFUSED, "notWritable", missing, ("read-only",) * 3)


def test_an_element_that_there_is_not(
    attempts: Attempts, there: Scene, manager: Manager, java: JavaClient
) -> None:
    mark = attempts.mark()
    assert there.command("set", SHOP.path, "colour=5").code is ExitCode.NOT_FOUND
    assert manager.set_instance(f"rmqVhostEntry.999.{manager.index_of(SHOP)}", 5) == "notWritable"
    reported = java.trySetAttribute(SHOP.object_name, "colour", 5)
    assert reported.startswith("javax.management.AttributeNotFoundException")
    assert there.command("invoke", ORDERS.path, "burn").code is ExitCode.NOT_FOUND
    assert java.tryInvoke(ORDERS.object_name, "burn", "", None).startswith(
        "javax.management.ReflectionException"
    )
    called = manager.call("burn-2", manager.row_of(ORDERS), "burn")
    assert called["agCommandOutcome"] == "unknownElement(5)"
    # The command line asks nobody; SNMP knows no difference between no such column and one that is read-only.
    logged = Counter(attempts.outcomes(mark, 4))
    assert logged == {"unknown-element": 3, "read-only": 1}


def test_an_object_that_the_gateway_does_not_know_to_be_gone(
    attempts: Attempts, there: Scene, manager: Manager
) -> None:
    policies = doomed("policy")
    instance = f"{policies[1].column('priority')}.{manager.index_of(policies[1])}"
    _delete(there, "policies", policies)
    reported = attempts.set("priority", 7, of=policies)
    gone = ("InstanceNotFoundException",)
    assert reported == Reported(ExitCode.NOT_FOUND, "commitFailed", gone, ("object-gone",) * 3)
    # By now it is known, and a SET is not even tried.
    assert manager.set_instance(instance, 7) == "inconsistentName"
    assert there.command("set", policies[0].path, "priority=7").code is ExitCode.NOT_FOUND


def test_a_method_of_an_object_that_the_gateway_does_not_know_to_be_gone(
    attempts: Attempts, there: Scene, manager: Manager
) -> None:
    queues = doomed("queue")
    row = manager.row_of(queues[1])
    _delete(there, "queues", queues)
    reported = attempts.invoke("purge", of=queues)
    gone = ("InstanceNotFoundException",)
    assert reported == Reported(ExitCode.NOT_FOUND, "objectGone", gone, ("object-gone",) * 3)
    assert manager.call("purge-gone", row, "purge")["agCommandOutcome"] == "objectGone(4)"


def _delete(there: Scene, collection: str, objects: tuple[Target, ...]) -> None:
    with there.broker.http() as http:
        for target in objects:
            http.delete(f"{collection}/{VHOST}/{target.names[-1]}").raise_for_status()


def test_an_object_whose_end_was_reported(there: Scene, java: JavaClient) -> None:
    queue = Target("queue", (VHOST, "short-lived"))
    with there.broker.http() as http:
        http.put(f"queues/{VHOST}/short-lived", json={"durable": True}).raise_for_status()
        wait_until(lambda: java.names(queue.object_name), "the queue is shown")
        http.delete(f"queues/{VHOST}/short-lived").raise_for_status()
        # Whether the gateway has heard of it or not: who asks is told the same.
        assert "InstanceNotFoundException" in java.tryInvokeWith(queue.object_name, "purge", [])
    assert there.command("invoke", queue.path, "purge").code is ExitCode.NOT_FOUND


def test_rights_that_were_revoked(attempts: Attempts, there: Scene) -> None:
    with without_rights(there):
        reported = attempts.set("maxConnections", 52)
    assert reported == Reported(ExitCode.REMOTE_FAILURE, "commitFailed", REMOTE, ("remote-failure",) * 3)
    assert there.limits() == {}


def test_a_broker_that_is_down(attempts: Attempts, there: Scene) -> None:
    there.broker.stop_node()
    try:
        wait_until(lambda: "down" in there.command("source", "ls").output, "the source is down")
        reported = attempts.set("maxConnections", 54)
    finally:
        there.broker.start()
        there.well_again()
    unreached = ("MBeanException", "ConnectException")
    assert reported == Reported(ExitCode.SOURCE_DOWN, "resourceUnavailable", unreached, ("source-down",) * 3)
