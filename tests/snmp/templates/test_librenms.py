"""The definitions for LibreNMS name what net-snmp, which LibreNMS calls, finds.

There is no LibreNMS here: it is in no registry of packages.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.shipped_files import version
from gateway.snmp.mib.lint import base_folders
from tests.components.net_snmp import printed
from tests.snmp.templates.conftest import MESSAGES, PolledGateway

pytestmark = pytest.mark.xdist_group("polled")
NAME = "amqp-gateway.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, polled: PolledGateway) -> Path:
    folder = tmp_path_factory.mktemp("librenms")
    polled.template("librenms", "--folder", str(folder))
    return folder


def read(folder: Path, kind: str) -> dict[str, Any]:
    text = (folder / "resources" / "definitions" / kind / NAME).read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def walk(folder: Path, polled: PolledGateway, mibs: str, name: str, form: str = "-OQUse") -> dict[str, str]:
    """Return a walk as LibreNMS makes it, with the modules that were written."""
    folders = ":".join(map(str, (*base_folders(), folder / "mibs" / "amqp-gateway")))
    access = ("-v2c", "-c", polled.community, form, "-M", folders, "-m", mibs)
    done = printed(folder / "net-snmp", "snmpbulkwalk", *access, polled.address, name)
    lines = (line.partition(" = ") for line in done.stdout.splitlines())
    return {key: value.strip('"') for key, mark, value in lines if mark}


def test_the_gateway_is_recognised_by_its_object_id(folder: Path, polled: PolledGateway) -> None:
    (rule,) = read(folder, "os_detection")["discovery"]
    reported = walk(folder, polled, "SNMPv2-MIB", "sysObjectID", "-OQn")
    assert list(reported.values()) == rule["sysObjectID"]


def test_sensors_are_found_by_name_and_polled_by_number(folder: Path, polled: PolledGateway) -> None:
    discovery = read(folder, "os_discovery")
    sensors = discovery["modules"]["sensors"]
    (names,) = sensors["additional_oids"]["data"]
    values: dict[str, str] = {}
    for sensor in (*sensors["count"]["data"], *sensors["state"]["data"]):
        if not sensor["oid"].startswith(("rmqQueue", "agSource")):
            continue
        for instance, value in walk(folder, polled, discovery["mib"], sensor["oid"]).items():
            name, _, index = instance.partition(".")
            assert name == sensor["oid"]
            number = sensor["num_oid"].replace("{{ $index }}", index)
            assert list(walk(folder, polled, "", number, "-OQne")) == [number]
            values[sensor["index"].replace("{{ $index }}", index)] = value
            if states := sensor.get("states"):
                assert int(value) in {state["value"] for state in states}
    named = walk(folder, polled, discovery["mib"], "rmqQueueRowFullName")
    (index,) = (name.partition(".")[2] for name, text in named.items() if text.endswith(polled.queue))
    assert "rmqQueueRowFullName" in names["oid"]
    assert values[f"rmqQueueMessages.{index}"] == str(MESSAGES)
    assert values["agSourceState.1"] == "4"


def test_no_description_is_the_name_of_an_object_which_librenms_would_replace_by_its_value(
    folder: Path,
) -> None:
    sensors = read(folder, "os_discovery")["modules"]["sensors"]
    found = [*sensors["count"]["data"], *sensors["state"]["data"]]
    assert not {sensor["descr"] for sensor in found} & {sensor["oid"] for sensor in found}
    assert {"gateway agRows", "{{ $rmqQueueRowFullName }} messages"} <= {sensor["descr"] for sensor in found}


def test_states_that_raise_alarms_are_bad(folder: Path) -> None:
    sensors = read(folder, "os_discovery")["modules"]["sensors"]
    states = {
        sensor["oid"]: {state["descr"]: state["generic"] for state in sensor["states"]}
        for sensor in sensors["state"]["data"]
    }
    good, warning, critical, unknown = range(4)
    assert states["rmqNodeRunning"] == {"true": good, "false": critical}
    assert states["rmqNodeMemoryAlarm"] == {"true": critical, "false": good}
    assert states["agFeedConnected"] == {"true": good, "false": critical}
    queue = states["rmqQueueState"]
    assert (queue["running"], queue["down"], queue["minority"]) == (good, warning, critical)
    assert (queue["unknown"], states["rmqQueueRowState"]["stale"]) == (unknown, warning)


def test_the_version_is_read_in_the_description_of_the_system(folder: Path, polled: PolledGateway) -> None:
    expression = read(folder, "os_discovery")["modules"]["os"]["sysDescr_regex"]
    python = expression.strip("/").replace("(?<", "(?P<")  # the only difference to PCRE here
    ((_, description),) = walk(folder, polled, "SNMPv2-MIB", "sysDescr").items()
    found = re.search(python, description)
    assert found is not None
    assert found["version"] == version()
