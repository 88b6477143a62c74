"""The commands that show the state of a running gateway, with a real RabbitMQ behind it."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.cli.conftest import ShownGateway
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.components.waiting import wait_until

pytestmark = pytest.mark.xdist_group("shown gateway")

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")


def test_tree_shows_objects_below_what_they_belong_to(shown_gateway: ShownGateway) -> None:
    name = shown_gateway.virtual_host.name
    lines = shown_gateway.output("tree", f"orders/*/{name}*").splitlines()
    assert lines[:2] == ["orders  synchronised", f"  rabbitmq:vhost  {name}"]
    assert f"    rabbitmq:queue  {name}|first" in lines

    summary = shown_gateway.output("tree", f"orders/queue/{name}*", "--summary")
    assert summary.split()[:2] == ["orders", "rabbitmq:queue"]


@pytest.mark.parametrize("words", [["tree"], ["tree", "--json"], ["tree", "--summary"], ["watch"]])
def test_a_source_that_is_not_there_is_reported(words: list[str], shown_gateway: ShownGateway) -> None:
    ended = shown_gateway.call(*words, "nothing/queue")
    assert (ended.code, ended.output) == (ExitCode.NOT_FOUND, "")
    assert ended.reported == ["amqp-gateway: there is no source 'nothing/queue'; there are: orders"]


def test_an_empty_tree_is_said(shown_gateway: ShownGateway) -> None:
    ended = shown_gateway.call("tree", "orders/queue/*|not-there")
    assert (ended.code, ended.output) == (ExitCode.NOT_FOUND, "")
    assert ended.reported[0].startswith("amqp-gateway: no object matches 'orders/queue/*|not-there': ")


def test_tree_for_programs(shown_gateway: ShownGateway) -> None:
    (queue,) = shown_gateway.documents("tree", f"orders/queue/{shown_gateway.virtual_host.name}|first")
    assert queue == {
        "object": shown_gateway.path("first"),
        "source": "orders",
        "class": "rabbitmq:queue",
        "name": f"{shown_gateway.virtual_host.name}|first",
        "leaf_name": "first",
        "row": queue["row"],
        "parent": f"orders/rabbitmq:vhost/{shown_gateway.virtual_host.name}",
        "lifetime": "durable",
        "stale_since": None,
    }
    (vhosts,) = shown_gateway.documents("tree", "orders/node", "--summary")
    assert vhosts == {"source": "orders", "class": "rabbitmq:node", "objects": 1}


def test_get_elements_of_an_object(shown_gateway: ShownGateway) -> None:
    path = shown_gateway.path("first")
    assert shown_gateway.output("get", path, "name", "durable") == "name     first\ndurable  true\n"

    (document,) = shown_gateway.documents("get", path, "durable", "operatorPolicy")
    assert document["values"] == {"durable": True}
    assert document["absent"] == ["operatorPolicy"]
    assert TIME.fullmatch(document["statistics_sampled"])
    assert document.keys() >= {"native_id", "agent", "created", "properties_sampled", "changed", "reset"}

    whole = shown_gateway.output("get", path).splitlines()
    assert whole[0] == path
    assert {"properties", "statistics"} <= set(whole)


def test_get_says_what_there_is_instead(shown_gateway: ShownGateway) -> None:
    ended = shown_gateway.call("get", "orders/exchange/amq.direct")
    assert ended.code is ExitCode.NOT_FOUND
    assert ended.reported[0].startswith("amqp-gateway: 'orders/exchange/amq.direct' means ")
    assert "  orders/rabbitmq:exchange//|amq.direct" in ended.reported

    ended = shown_gateway.call("get", shown_gateway.path("first"), "nonesuch")
    assert ended.code is ExitCode.NOT_FOUND
    assert "there are: vhost, name, type" in ended.reported[0]

    ended = shown_gateway.call("get", "orders/queue/nonesuch")
    assert (ended.code, ended.output) == (ExitCode.NOT_FOUND, "")
    assert "`amqp-gateway tree` shows what there is" in ended.reported[0]


def explained(shown: ShownGateway, name: str) -> list[dict[str, Any]]:
    (document,) = shown.documents("explain", name)
    assert document["text"] == name
    meanings: list[dict[str, Any]] = document["meanings"]
    return meanings


def test_each_name_of_an_object_is_explained_by_all_others(shown_gateway: ShownGateway) -> None:
    (meaning,) = explained(shown_gateway, shown_gateway.path("first"))
    assert meaning["kind"] == "object"
    assert meaning["oid"].startswith("1.3.6.1.4.1.8072.9999.9999.2.1.1.3.1.2.1.")
    assert meaning["descriptor"].startswith("AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueRowName.1.")
    vhost = shown_gateway.virtual_host.name
    assert meaning["object_name"] == (
        f"amqp.gateway:source=orders,package=rabbitmq,type=queue,parent={vhost},name=first"
    )
    assert meaning["log_id"] == f"orders/rabbitmq:queue/{meaning['row']}"

    for name in ("oid", "descriptor", "object_name", "native_id", "name"):
        assert meaning in explained(shown_gateway, meaning[name]), name
    shuffled = f"amqp.gateway:name=first,type=queue,package=rabbitmq,parent={vhost},source=orders"
    assert explained(shown_gateway, shuffled) == [meaning]
    assert shown_gateway.output("get", meaning["oid"], "name") == "name  first\n"
    assert shown_gateway.output("get", meaning["object_name"], "name") == "name  first\n"
    assert "object_name" not in shown_gateway.output("explain", meaning["native_id"])
    assert meaning["object_name"] in shown_gateway.output("explain", meaning["native_id"])


def test_cells_columns_tables_and_classes_are_explained(shown_gateway: ShownGateway) -> None:
    (queue,) = explained(shown_gateway, shown_gateway.path("first"))
    cell = queue["descriptor"].replace("RowName", "Durable")
    durable = next(m for m in explained(shown_gateway, cell) if m["kind"] == "element")
    assert (durable["element"], durable["type"], durable["value"]) == ("durable", "bool", True)
    assert durable["object"] == queue["object"]

    (column,) = explained(shown_gateway, "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueDurable")
    assert (column["element"], column["class"]) == ("durable", "rabbitmq:queue")
    kinds = {meaning["kind"] for meaning in explained(shown_gateway, "rmqQueueTable")}
    assert kinds == {"class", "oid"}
    in_class = next(m for m in explained(shown_gateway, "queue") if m["kind"] == "class")
    assert in_class["descriptor"] == "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueTable"
    assert [meaning["kind"] for meaning in explained(shown_gateway, "orders")] == ["source"]

    (own,) = explained(shown_gateway, "AMQP-GATEWAY-MIB::agSourceState.1")
    assert own["oid"] == "1.3.6.1.4.1.8072.9999.9999.1.1.2.1.4.1"

    ended = shown_gateway.call("explain", "1.3.6.1.2.1.1.1.0")
    assert (ended.code, ended.output) == (ExitCode.NOT_FOUND, "")


def test_events_and_ended_objects_are_explained(shown_gateway: ShownGateway) -> None:
    shown_gateway.declare("passing")
    path = shown_gateway.path("passing")
    wait_until(lambda: shown_gateway.call("get", path).code is ExitCode.OK, "the queue is shown")
    (alive,) = explained(shown_gateway, path)
    with shown_gateway.virtual_host.http() as http:
        http.delete(f"queues/{shown_gateway.virtual_host.path}/passing").raise_for_status()
    wait_until(lambda: shown_gateway.call("get", path).code is ExitCode.NOT_FOUND, "the queue is gone")

    gone = shown_gateway.call("get", path)
    assert f"{path} was deleted at " in gone.reported[0]
    (ended,) = explained(shown_gateway, path)
    assert (ended["is_gone"], ended["object_name"]) == (True, alive["object_name"])
    assert ended["oid"] == alive["oid"]
    assert ended in explained(shown_gateway, alive["oid"])
    assert any(TIME.fullmatch(str(value)) for value in ended.values())


def test_watch_reports_what_comes_and_goes(shown_gateway: ShownGateway) -> None:
    pattern = f"orders/queue/{shown_gateway.virtual_host.name}|watched*"
    done: list[Ended] = []

    def watch() -> None:
        done.append(shown_gateway.call("watch", pattern, "--count", "1", "--json"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    number = 0

    def until_reported() -> bool:
        nonlocal number
        number += 1
        shown_gateway.declare(f"watched{number}")
        return bool(done)

    wait_until(until_reported, "the watcher is told of a queue")
    watcher.join()
    (ended,) = done
    (line,) = ended.output.splitlines()
    reported = json.loads(line)
    assert ended.code is ExitCode.OK
    assert reported["kind"] in {"created", "changed", "event"}
    assert "|watched" in reported["object"]


def test_watch_ends_after_its_time(shown_gateway: ShownGateway) -> None:
    ended = shown_gateway.call("watch", "orders/queue/*|not-there", "--for", "100ms")
    assert (ended.code, ended.output) == (ExitCode.OK, "")
    assert ended.reported == ["watching; Ctrl-C stops it"]
    waited = shown_gateway.call("watch", "orders/queue/*|not-there", "--for", "100ms", "--count", "2")
    assert waited.code is ExitCode.NOT_FOUND
    assert waited.reported[-1] == "amqp-gateway: 2 of 2 did not happen in that time"


def test_sources_as_they_are(shown_gateway: ShownGateway) -> None:
    (source,) = shown_gateway.documents("source", "ls")
    assert (source["source"], source["source_kind"], source["state"]) == (
        "orders",
        "rabbitmq",
        "synchronised",
    )
    assert source["objects"] > 0
    assert source["counters"]["messages"] > 0
    assert shown_gateway.output("source", "ls").startswith("orders  rabbitmq  synchronised  ")

    (reached,) = shown_gateway.documents("source", "test", "orders")
    assert reached == {
        "source": "orders",
        "source_kind": "rabbitmq",
        "is_reached": True,
        "trouble": None,
        "remarks": [],
        "text": "",
    }
    assert shown_gateway.output("source", "test", "orders") == "source orders: reached\n"


def test_a_source_that_cannot_be_used_says_why(site: Site) -> None:
    source = {"kind": "rabbitmq", "management": "http://127.0.0.1:1", "user": "gateway"}
    site.configure(sources={"orders": {**source, "password": site.secret("hunter2")}})

    ended = amqp_gateway("source", "test", "orders", "--json", "--config", site.configuration)
    assert ended.code is ExitCode.UNREACHABLE
    document = json.loads(ended.output)
    assert (document["is_reached"], document["trouble"]) == (False, "unreachable")
    assert ended.reported == [f"amqp-gateway: {document['text']}"]

    ended = amqp_gateway("source", "test", "payments", "--config", site.configuration)
    assert ended.code is ExitCode.CONFIGURATION
    assert "no source 'payments' under 'sources'; there are: orders" in ended.reported[0]


@pytest.mark.parametrize(
    "words",
    [
        ["tree"],
        ["get", "a/b/c"],
        ["watch"],
        ["explain", "a"],
        ["source", "ls"],
        ["set", "a/b/c", "d=1"],
        ["invoke", "a/b/c", "purge"],
    ],
)
def test_a_gateway_that_does_not_run_is_said_to_be_so(site: Site, words: list[str]) -> None:
    ended = amqp_gateway(*words, "--config", site.configuration)
    assert (ended.code, ended.output) == (ExitCode.UNREACHABLE, "")
    assert len(ended.reported) == 1
    assert "is `amqp-gateway run` running with this configuration?" in ended.reported[0]
