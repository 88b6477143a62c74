"""The template for Zabbix, read as Zabbix reads it, against a gateway; `test_zabbix_server` has a Zabbix."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from typing import Any

import pytest
import yaml

from tests.snmp.templates.conftest import MESSAGES, PolledGateway

pytestmark = pytest.mark.xdist_group("polled")

LONGEST_OID_FIELD = 512
LONGEST_NAME = 255
"""The numbers of characters that Zabbix' database takes."""

UTF_8 = "1"


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
    scalars = [item for item in template["items"] if item.get("snmp_oid", "").startswith("get[")]
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
    assert (step["type"], macro, form) == ("SNMP_WALK_TO_JSON", "{#NAME}", UTF_8)
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


def test_a_walk_is_not_longer_than_zabbix_takes_and_each_item_depends_on_the_one_with_its_column(
    polled: PolledGateway,
) -> None:
    export = yaml.safe_load(polled.template("zabbix", "--class", "*"))["zabbix_export"]
    (template,) = export["templates"]
    walks = {item["key"]: item["snmp_oid"] for item in template["items"] if "walk" in item["key"]}
    assert {"amqp.agSource.walk", "amqp.rmqQueue.walk", "amqp.rmqQueue.walk2"} <= walks.keys()
    assert max(map(len, walks.values())) <= LONGEST_OID_FIELD
    for rule in template["discovery_rules"]:
        for item in rule["item_prototypes"]:
            column = item["preprocessing"][0]["parameters"][0].removesuffix(".{#SNMPINDEX}")
            walked = walks[item["master_item"]["key"]].removeprefix("walk[").removesuffix("]")
            assert column in walked.split(",")


def test_the_name_of_an_item_is_not_longer_than_zabbix_takes(polled: PolledGateway) -> None:
    export = yaml.safe_load(polled.template("zabbix", "--class", "*"))["zabbix_export"]
    for rule in export["templates"][0]["discovery_rules"]:
        for item in rule["item_prototypes"]:
            cut = re.search(r'\{\{#NAME\}\.regsub\("(.+)", "\\1"\)\}', item["name"])
            assert cut is not None
            beginning = re.match(cut[1], "x\n" * 255)
            assert beginning is not None
            name = item["name"].replace(cut[0], beginning[1])
            assert len(name.replace("{#SNMPINDEX}", "4294967295.4294967295")) <= LONGEST_NAME


def test_the_unit_of_a_counter_is_that_of_a_rate(template: dict[str, Any]) -> None:
    items = {item["key"]: item for item in everything(template)}
    assert items["amqp.rmqQueueMessagesPublished[{#SNMPINDEX}]"]["units"] == "!messages/s"
    assert items["amqp.agSourceOctets[{#SNMPINDEX}]"]["units"] == "B/s"
    assert items["amqp.rmqQueueMessages[{#SNMPINDEX}]"]["units"] == "!messages"


def test_a_gateway_that_does_not_answer_has_a_trigger(template: dict[str, Any]) -> None:
    (item,) = (item for item in template["items"] if item["type"] == "INTERNAL")
    (trigger,) = item["triggers"]
    assert trigger["expression"] == f"max(/{template['template']}/{item['key']},{{$AMQP.SILENCE}})=0"
    macros = {macro["macro"]: macro["value"] for macro in template["macros"]}
    assert macros == {"{$AMQP.INTERVAL}": "1m", "{$AMQP.KEEP}": "1d", "{$AMQP.SILENCE}": "5m"}
    assert {rule["lifetime"] for rule in template["discovery_rules"]} == {"{$AMQP.KEEP}"}


def test_classes_are_chosen_by_patterns(polled: PolledGateway) -> None:
    export = yaml.safe_load(polled.template("zabbix", "--class", "rabbitmq:ch*"))["zabbix_export"]
    rules = {rule["key"]: rule for rule in export["templates"][0]["discovery_rules"]}
    assert set(rules) == {"amqp.agSource.discovery", "amqp.rmqChannel.discovery"}
    assert len(rules["amqp.rmqChannel.discovery"]["item_prototypes"]) > 10


def test_no_text_goes_on_in_the_next_line_where_zabbix_reads_a_space_too_many(polled: PolledGateway) -> None:
    lines = polled.template("zabbix").splitlines()
    assert [line for line in lines if line.endswith("\\") or not re.match(r" *(- )*\w+:|\s*- ", line)] == []


def test_each_severity_of_a_condition_has_a_trigger_that_its_end_resolves(template: dict[str, Any]) -> None:
    (item,) = (item for item in template["items"] if item["key"] == "amqp.trap.conditions")
    ends = {trigger["recovery_expression"] for trigger in item["triggers"]}
    assert ends == {f'find(/{template["template"]}/{item["key"]},,"regexp","^cleared ")=1'}
    priorities = {trigger["expression"].split()[-1]: trigger["priority"] for trigger in item["triggers"]}
    assert priorities == {
        'critical")=1': "DISASTER",
        'major")=1': "HIGH",
        'minor")=1': "AVERAGE",
        'warning")=1': "WARNING",
        'info")=1': "INFO",
    }
    assert {trigger["correlation_tag"] for trigger in item["triggers"]} == {"condition"}
