"""The commands that change something, with a real RabbitMQ whose own tools are the judge."""

from __future__ import annotations

import getpass
import json
import re
from pathlib import Path

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.cli.conftest import ShownGateway
from tests.components.waiting import wait_until

pytestmark = pytest.mark.xdist_group("changing gateway")

OPERATION_ID = re.compile(r"[0-9a-f-]{36}\.1\.o\d+")


def vhost(gateway: ShownGateway) -> str:
    return f"orders/vhost/{gateway.virtual_host.name}"


def limits(gateway: ShownGateway) -> dict[str, int]:
    """Return the limits of the virtual host, as the broker's management API reports them."""
    with gateway.virtual_host.http() as http:
        reported = http.get(f"vhost-limits/{gateway.virtual_host.path}").raise_for_status().json()
    return {name: number for limit in reported for name, number in limit["value"].items()}


def messages(gateway: ShownGateway, queue: str) -> int:
    with gateway.virtual_host.http() as http:
        answer = http.post(
            f"queues/{gateway.virtual_host.path}/{queue}/get",
            json={"count": 100, "ackmode": "ack_requeue_true", "encoding": "auto"},
        )
        return len(answer.raise_for_status().json())


def test_a_limit_is_set_and_the_broker_says_so(changing_gateway: ShownGateway, tmp_path: Path) -> None:
    path = vhost(changing_gateway)
    changed, applied = changing_gateway.output("set", path, "maxConnections=17").splitlines()
    assert changed == "maxConnections: -1 connections -> 17 connections"
    operation_id = applied.removeprefix("applied: operation ")
    assert OPERATION_ID.fullmatch(operation_id)
    host = changing_gateway.virtual_host
    assert '{"max-connections":17}' in host.broker.rabbitmqctl("list_vhost_limits", "--vhost", host.name)

    about = tmp_path / "about"
    about.write_text("Größe = 1\n", encoding="utf-8")
    (document,) = changing_gateway.documents("set", path, "maxConnections=-1", f"description@{about}")
    assert OPERATION_ID.fullmatch(document.pop("operation_id"))
    assert document == {
        "object": f"orders/rabbitmq:vhost/{changing_gateway.virtual_host.name}",
        "outcome": "applied",
        "text": "",
        "element": "",
        "code": None,
        "values": {"maxConnections": -1, "description": "Größe = 1"},
    }
    assert "max-connections" not in limits(changing_gateway)

    (explained,) = changing_gateway.documents("explain", operation_id)
    (meaning,) = explained["meanings"]
    assert (meaning["kind"], meaning["operation"], meaning["state"]) == ("operation", "set", "ended")
    assert (meaning["principal"], meaning["outcome"]) == (f"cli:{getpass.getuser()}", "applied")
    assert (meaning["values"], meaning["former"]) == ({"maxConnections": 17}, {"maxConnections": -1})
    assert re.match(r"process \d+", meaning["origin"])


def test_a_queue_is_purged_and_read_again(changing_gateway: ShownGateway) -> None:
    path = changing_gateway.path("first")
    with changing_gateway.virtual_host.http() as http:
        for _ in range(3):
            http.post(
                f"exchanges/{changing_gateway.virtual_host.path}/amq.default/publish",
                json={"properties": {}, "routing_key": "first", "payload": "x", "payload_encoding": "string"},
            ).raise_for_status()
    wait_until(lambda: messages(changing_gateway, "first") == 3, "the queue has what was published")
    assert changing_gateway.output("get", path, "durable", "--fresh") == "durable  true\n"

    (document,) = changing_gateway.documents("invoke", path, "purge")
    assert (document["method"], document["outcome"], document["values"]) == (
        "purge",
        "applied",
        {"messages": 3},
    )
    assert messages(changing_gateway, "first") == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["maxConnections=many"], ExitCode.WRONG_VALUE, "wrong-type: maxConnections: expected an integer"),
        (["maxConnections=-5"], ExitCode.WRONG_VALUE, "wrong-value: maxConnections: -5 is less than -1"),
        (["maxConnections=0"], ExitCode.REMOTE_FAILURE, "remote-failure: "),
        (["tracing=true"], ExitCode.REFUSED, "refused: no rule lets "),
        (["name=other"], ExitCode.REFUSED, "read-only: name of rabbitmq:vhost cannot be set"),
        (["nonesuch=1"], ExitCode.NOT_FOUND, "there is no element of rabbitmq:vhost called 'nonesuch'"),
        (["maxConnections"], ExitCode.USAGE, ""),
        (["maxQueues=1", "maxQueues=2"], ExitCode.USAGE, ""),
        ([], ExitCode.USAGE, ""),
    ],
)
def test_a_set_that_is_refused_says_why(
    changing_gateway: ShownGateway, words: list[str], code: ExitCode, says: str
) -> None:
    before = limits(changing_gateway)
    ended = changing_gateway.call("set", vhost(changing_gateway), *words)
    assert (ended.code, ended.output) == (code, "")
    assert ended.reported[-1].startswith(f"amqp-gateway: {says}")
    assert limits(changing_gateway) == before


def test_a_refusal_has_a_document_too(changing_gateway: ShownGateway) -> None:
    ended = changing_gateway.call("invoke", changing_gateway.path("first"), "delete", "--json")
    assert ended.code is ExitCode.REFUSED
    assert json.loads(ended.output)["outcome"] == "refused"
    assert len(ended.reported) == 1


def test_a_check_changes_nothing(changing_gateway: ShownGateway) -> None:
    before = limits(changing_gateway)
    path = vhost(changing_gateway)
    assert (
        changing_gateway.output("set", path, "maxConnections=99", "--check") == "nothing speaks against it\n"
    )
    refused = changing_gateway.call("set", path, "tracing=true", "--check")
    assert refused.code is ExitCode.REFUSED
    assert limits(changing_gateway) == before


def test_who_changes_something_writes_the_whole_name(changing_gateway: ShownGateway) -> None:
    ended = changing_gateway.call("invoke", "orders/queue/first", "purge")
    assert ended.code is ExitCode.NOT_FOUND
    # Another test's queue may be called so too.
    assert f"  {changing_gateway.path('first')}" in ended.reported
    (named,) = changing_gateway.documents("explain", changing_gateway.path("first"))
    name = named["meanings"][0]["object_name"]
    assert changing_gateway.documents("invoke", name, "purge")[0]["outcome"] == "applied"


def test_methods_and_arguments_that_are_not_there(changing_gateway: ShownGateway) -> None:
    ended = changing_gateway.call("invoke", changing_gateway.path("first"), "nonesuch")
    assert ended.code is ExitCode.NOT_FOUND
    assert "there are: purge, delete" in ended.reported[0]
    ended = changing_gateway.call("invoke", vhost(changing_gateway), "setMaxQueues", "nonesuch=1")
    assert ended.code is ExitCode.NOT_FOUND
    assert "there are: maxQueues" in ended.reported[0]
    ended = changing_gateway.call("invoke", vhost(changing_gateway), "setMaxQueues")
    assert ended.code is ExitCode.WRONG_VALUE
