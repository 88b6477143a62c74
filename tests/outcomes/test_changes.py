"""An operator changes a RabbitMQ through the gateway, and RabbitMQ itself confirms it."""

from __future__ import annotations

import json

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.outcomes.attempts import JavaClient
from tests.outcomes.scene import Scene
from tests.outcomes.targets import DISTANT_SHOP, ORDERS, SHOP

pytestmark = pytest.mark.xdist_group("outcomes")


def test_the_command_line_sets_a_limit_of_a_virtual_host(there: Scene) -> None:
    done = there.command("set", SHOP.path, "maxConnections=77", "--json")
    assert done.code is ExitCode.OK, done.errors
    assert there.limits(by_rabbitmqctl=True) == {"max-connections": 77}
    record = there.logged(json.loads(done.output)["operation_id"])
    assert (record["outcome"], record["element"]) == ("applied", None)
    again = there.command("set", SHOP.path, "maxConnections=-1")
    assert again.code is ExitCode.OK, again.errors
    assert there.limits() == {}


def test_what_was_before_is_what_the_broker_had_and_not_what_was_shown(there: Scene) -> None:
    path = DISTANT_SHOP.path  # looked at hourly
    for before, limit in ((-1, 71), (72, 73)):
        if before > 0:
            there.limit_behind_its_back(before)
        done = there.command("set", path, f"maxConnections={limit}")
        assert done.code is ExitCode.OK, done.errors
        assert done.output.splitlines()[0] == f"maxConnections: {before} connections -> {limit} connections"
    assert there.command("set", path, "maxConnections=-1").code is ExitCode.OK


def test_the_command_line_purges_a_queue(there: Scene) -> None:
    there.fill(5)
    done = there.command("invoke", ORDERS.path, "purge", "--json")
    assert done.code is ExitCode.OK, done.errors
    assert there.depth(by_rabbitmqctl=True) == 0
    assert there.logged(json.loads(done.output)["operation_id"])["method"] == "purge"


def test_what_no_rule_allows_is_refused(there: Scene) -> None:
    refused = there.command("invoke", ORDERS.path, "delete")
    assert refused.code is ExitCode.REFUSED
    assert there.depth() == 0


def test_a_java_client_sets_a_limit_of_a_virtual_host(there: Scene, java: JavaClient) -> None:
    name = SHOP.object_name
    assert java.trySetAttribute(name, "maxQueues", 66) == ""
    assert there.limits() == {"max-queues": 66}
    assert java.attribute(name, "maxQueues") == "java.lang.Long 66"
    assert java.trySetAttribute(name, "maxQueues", -1) == ""
    assert there.limits() == {}


def test_a_java_client_purges_a_queue(there: Scene, java: JavaClient) -> None:
    there.fill(3)
    assert java.invoke(ORDERS.object_name, "purge", []) == "java.lang.Long 3"
    assert there.depth() == 0
