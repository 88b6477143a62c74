"""The template for Zabbix, read as Zabbix reads it, against a gateway. There is no Zabbix here."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from typing import Any

import pytest
import yaml

from tests.snmp.templates.conftest import MESSAGES, PolledGateway

pytestmark = pytest.mark.xdist_group("polled")


@pytest.fixture(scope="module")
def template(polled: PolledGateway) -> dict[str, Any]:
    export = yaml.safe_load(polled.template("zabbix"))["zabbix_export"]
    assert export["version"] == "6.4"
    (template,) = export["templates"]
    return dict(template)


def everything(template: dict[str, Any]) -> list[dict[str, Any]]:
    rules = template["discovery_rules"]
    return [*template["items"], *rules, *(item for rule in rules for item in rule["item_prototypes"])]


def test_identifiers_and_keys_are_unique_and_what_is_referred_to_is_there(template: dict[str, Any]) -> None:
    entries = everything(template)
    identifiers = Counter(entry["uuid"] for entry in (template, *entries, *template["valuemaps"]))
    assert set(identifiers.values()) == {1}
    assert all(uuid.UUID(one).version == 4 for one in identifiers)
    keys = Counter(entry["key"] for entry in entries)
    assert set(keys.values()) == {1}
    masters = {entry["master_item"]["key"] for entry in entries if entry["type"] == "DEPENDENT"}
    assert masters <= keys.keys()
    maps = {entry["name"] for entry in template["valuemaps"]}
    assert {entry["valuemap"]["name"] for entry in entries if "valuemap" in entry} == maps


def test_scalars_have_values(polled: PolledGateway, template: dict[str, Any]) -> None:
    scalars = [item for item in template["items"] if item["snmp_oid"].startswith("get[")]
    assert len(scalars) > 10
    for item in scalars:
        (oid,) = re.fullmatch(r"get\[([0-9.]+)\]", item["snmp_oid"]).groups()  # type: ignore[union-attr]
        assert polled.walk(f".{oid}"), item["name"]


def test_a_walk_discovers_the_queue_and_gives_its_values(
    polled: PolledGateway, template: dict[str, Any]
) -> None:
    (rule,) = (rule for rule in template["discovery_rules"] if rule["key"] == "amqp.rmqQueue.discovery")
    (master,) = (item for item in template["items"] if item["key"] == rule["master_item"]["key"])
    walked = master["snmp_oid"].removeprefix("walk[").removesuffix("]").split(",")
    (step,) = rule["preprocessing"]
    macro, names, form = step["parameters"]
    assert (step["type"], macro, form) == ("SNMP_WALK_TO_JSON", "{#NAME}", "0")
    assert names in walked
    (instance,) = (name for name, value in polled.walk(f".{names}").items() if value.endswith(polled.queue))
    index = instance.partition(".")[2]
    values = {}
    for item in rule["item_prototypes"]:
        read, *further = item["preprocessing"]
        oid = read["parameters"][0].replace("{#SNMPINDEX}", index)
        assert oid.removesuffix(f".{index}") in walked
        rate = {"type": "CHANGE_PER_SECOND", "parameters": [""]} in further
        shown = next(iter(polled.walk(f".{oid}").values()), "")
        values[item["key"].partition("[")[0]] = (shown.partition(" ")[0], rate)
    assert values["amqp.rmqQueueMessages"] == (str(MESSAGES), False)
    assert values["amqp.rmqQueueMessagesPublished"][1] is True
    assert values["amqp.rmqQueueConsumers"] == ("0", False)


def test_classes_are_chosen_by_patterns(polled: PolledGateway) -> None:
    export = yaml.safe_load(polled.template("zabbix", "--class", "rabbitmq:ch*"))["zabbix_export"]
    rules = {rule["key"]: rule for rule in export["templates"][0]["discovery_rules"]}
    assert set(rules) == {"amqp.agSource.discovery", "amqp.rmqChannel.discovery"}
    assert len(rules["amqp.rmqChannel.discovery"]["item_prototypes"]) > 10
