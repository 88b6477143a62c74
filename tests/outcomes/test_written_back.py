"""Tools that write back the values that they read change nothing, and send the broker no change."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.outcomes.attempts import JavaClient
from tests.outcomes.manager import Manager
from tests.outcomes.scene import POLICY, READER, SHOVEL, Scene
from tests.outcomes.targets import SHOP, SOURCE, VHOST, Target

pytestmark = pytest.mark.xdist_group("outcomes")

ONE_OF_EACH: Final = (
    SHOP,
    Target("policy", (VHOST, POLICY)),
    Target("user", (READER,)),
    Target("parameter", (VHOST, "shovel", SHOVEL)),
)
SOURCE_NUMBER: Final = 1
"""The number of `SOURCE`, which is the first in the configuration."""
_TYPES: Final = {"INTEGER": "i", "Gauge32": "u", "OID": "o", "Hex-STRING": "x", "STRING": "s", '""': "s"}


def definitions(there: Scene) -> dict[str, list[str]]:
    """Return all definitions that the broker exports, with sorted lists."""
    with there.broker.http() as http:
        reported = http.get("definitions").raise_for_status().json()
    return {
        kind: sorted(json.dumps(one, sort_keys=True) for one in listed)
        for kind, listed in reported.items()
        if isinstance(listed, list)
    }


def requested(there: Scene) -> list[str]:
    """Return the changes that the gateway requested from the broker, according to the gateway's own log."""
    return [line["request"] for line in there.gateway.log if line["event"] == "broker-change"]


@pytest.fixture(autouse=True)
def nothing_changes(there: Scene) -> Iterator[None]:
    """Check that the broker is not changed, and that the gateway requests no change."""
    before, changes = definitions(there), requested(there)
    yield
    assert definitions(there) == before
    assert requested(there) == changes


def writable_columns(manager: Manager) -> list[str]:
    """Return the writable columns of the module of RabbitMQ's classes, according to net-snmp's compiler."""
    tree = manager.net_snmp("snmptranslate", "-Tp", "-OS", "AMQP-GATEWAY-RABBITMQ-MIB::rmqMIB")
    return [match[1] for line in tree if (match := re.search(r"-RW-.* (\w+)\(\d+\)", line))]


def walked(manager: Manager, column: str) -> dict[str, tuple[str, str, str]]:
    """Return the name, type and value of each cell of a column, for ``snmpset``, by index."""
    lines = manager.run("snmpwalk", f"{column}.{SOURCE_NUMBER}", form="-OnexU")
    found: dict[str, tuple[str, str, str]] = {}
    for line in re.split(r"\n(?=\.1\.3\.6)", "\n".join(lines)):
        name, _, reported = line.partition(" = ")
        kind, _, value = reported.partition(": ")
        index = ".".join(name.split(".")[-2:])
        value = value.strip('"') if kind == "STRING" else re.sub(r"\s", "", value)
        found[index] = (name, _TYPES[kind], value)
    return found


def test_by_snmp(manager: Manager) -> None:
    columns = writable_columns(manager)
    assert {"rmqVhostTags", "rmqPolicyDefinition", "rmqUserMaxChannels", "rmqParameterValue"} <= set(columns)
    assert manager.values("agSourceName")[f"agSourceName.{SOURCE_NUMBER}"] == SOURCE
    rows: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for column in columns:
        cells = walked(manager, column)
        assert cells, column
        for index, words in cells.items():
            table = column.removeprefix("rmq")[:4]
            rows[table, index] += words
    assert {table for table, _ in rows} == {"Vhos", "User", "Poli", "Para"}
    statuses = {row: manager.status(*words) for row, words in rows.items()}
    assert set(statuses.values()) == {""}, statuses


def test_by_jmx(java: JavaClient) -> None:
    reported = list(java.writeBack(f"amqp.gateway:source={SOURCE},*"))
    assert {line.split()[0] for line in reported} == {"vhost", "user", "policy", "parameter"}
    assert [line for line in reported if line.endswith(" not set")] == []


@pytest.mark.parametrize("target", ONE_OF_EACH, ids=lambda target: target.class_name)
def test_at_the_command_line(there: Scene, manager: Manager, target: Target) -> None:
    values = json.loads(there.command("get", target.path, "--json").output)["values"]
    written = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in values.items()
        if target.column(name) in writable_columns(manager)
    ]
    assert written
    done = there.command("set", target.path, *written)
    assert done.code is ExitCode.OK, done.errors
    assert "nothing was sent" in done.output
