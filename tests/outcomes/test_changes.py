"""An operator changes a RabbitMQ through the gateway, and RabbitMQ's own commands confirm it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.service.exit_codes import ExitCode
from tests.outcomes.scene import QUEUE, SOURCE, VHOST, Scene

pytestmark = pytest.mark.xdist_group("outcomes")


def test_the_command_line_sets_a_limit_of_a_virtual_host(there: Scene) -> None:
    done = there.command("set", f"{SOURCE}/vhost/{VHOST}", "maxConnections=77", "--json")
    assert done.code is ExitCode.OK, done.errors
    assert there.limits() == {"max-connections": 77}
    record = there.logged(json.loads(done.output)["operation_id"])
    assert (record["outcome"], record["element"]) == ("applied", None)
    again = there.command("set", f"{SOURCE}/vhost/{VHOST}", "maxConnections=-1")
    assert again.code is ExitCode.OK, again.errors
    assert there.limits() == {}


def test_the_command_line_purges_a_queue(there: Scene) -> None:
    there.fill(5)
    done = there.command("invoke", f"{SOURCE}/queue/{VHOST}|{QUEUE}", "purge", "--json")
    assert done.code is ExitCode.OK, done.errors
    assert there.depth() == 0
    assert there.logged(json.loads(done.output)["operation_id"])["method"] == "purge"


def test_what_no_rule_allows_is_refused(there: Scene) -> None:
    refused = there.command("invoke", f"{SOURCE}/queue/{VHOST}|{QUEUE}", "delete")
    assert refused.code is ExitCode.REFUSED
    assert there.depth() == 0


def test_a_java_client_sets_a_limit_of_a_virtual_host(there: Scene, java: Any) -> None:  # noqa: ANN401  lives in Java
    name = f"amqp.gateway:source={SOURCE},package=rabbitmq,type=vhost,name={VHOST}"
    assert java.trySetAttribute(name, "maxQueues", 66) == ""
    assert there.limits() == {"max-queues": 66}
    assert java.attribute(name, "maxQueues") == "java.lang.Long 66"
    assert java.trySetAttribute(name, "maxQueues", -1) == ""
    assert there.limits() == {}


def test_a_java_client_purges_a_queue(there: Scene, java: Any) -> None:  # noqa: ANN401  lives in Java
    there.fill(3)
    name = f"amqp.gateway:source={SOURCE},package=rabbitmq,type=queue,parent={VHOST},name={QUEUE}"
    assert java.tryInvokeWith(name, "purge", []) == ""
    assert there.depth() == 0
