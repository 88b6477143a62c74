"""The gateway's own tables as net-snmp prints them, with names."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from gateway.feed.records import ObjectRecord
from gateway.model.times import SECOND
from gateway.snmp.fixed_mib import TargetKindNumber
from gateway.snmp.notifications.receiver import TargetHealth
from gateway.snmp.oid_registry import DEFAULT_ROOT
from gateway.snmp.tables.health import TargetTable
from tests.components.net_snmp import own_environment, with_modules
from tests.components.shop import START, agent, hall, source
from tests.snmp.conftest import Serve
from tests.snmp.datagrams import COMMUNITY
from tests.snmp.mib.shop import Gateway, alarm, classes, end, link, till


@pytest.fixture
def gateway() -> Gateway:
    """Return a gateway with two tills: one is robbed, one has ended."""
    gateway = Gateway(root=DEFAULT_ROOT)
    gateway.hello()
    tills: list[ObjectRecord] = [till(1), till(2)]
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), *tills)
    gateway.publish(alarm(5, subject=link(1)), alarm(6, "moving"), end(11, 2))
    return gateway


async def walk(folder: Path, port: int, name: str, version: str = "2c") -> dict[str, str]:
    """Return the output of snmpwalk below ``name``: values by name and index."""
    process = await asyncio.create_subprocess_exec(
        "snmpwalk",
        *("-v", version, "-c", COMMUNITY.decode(), "-t", "20", "-r", "0"),
        *with_modules(["AMQP-GATEWAY-MIB"]),
        f"127.0.0.1:{port}",
        f"AMQP-GATEWAY-MIB::{name}",
        stdout=subprocess.PIPE,
        env=own_environment(folder),
    )
    output, _ = await process.communicate()
    lines = (line.removeprefix("AMQP-GATEWAY-MIB::") for line in output.decode().splitlines())
    return dict(line.split(" = ", 1) for line in lines)


async def test_active_alarms(serve: Serve, gateway: Gateway, tmp_path: Path) -> None:
    assert await walk(tmp_path, serve(gateway.store), "agAlarms") == {
        "agAlarmSource.5": "INTEGER: 1",
        "agAlarmSource.6": "INTEGER: 1",
        "agAlarmName.5": "STRING: robbery",
        "agAlarmName.6": "STRING: robbery",
        "agAlarmSeverity.5": "INTEGER: critical(3)",
        "agAlarmSeverity.6": "INTEGER: critical(3)",
        "agAlarmCondition.5": "STRING: robbery till1",
        "agAlarmCondition.6": "STRING: moving",
        "agAlarmClass.5": "STRING: shop:till",
        "agAlarmClass.6": "STRING: ",
        "agAlarmObjectName.5": "STRING: hall1/till1",
        "agAlarmObjectName.6": "STRING: ",
        "agAlarmRow.5": "OID: AMQP-GATEWAY-MIB::agPackages.7.1.2.1.2.1.1",
        "agAlarmRow.6": "OID: SNMPv2-SMI::zeroDotZero",
        "agAlarmText.5": "STRING: robbery till1!",
        "agAlarmText.6": "STRING: moving!",
        "agAlarmSince.5": "STRING: 2023-11-14,22:13:20.0,+0:0",
        "agAlarmSince.6": "STRING: 2023-11-14,22:13:20.0,+0:0",
        "agAlarmEventId.5": "STRING: 7b0c.1.5",
        "agAlarmEventId.6": "STRING: 7b0c.1.6",
        "agAlarmStale.5": "INTEGER: false(2)",
        "agAlarmStale.6": "INTEGER: false(2)",
        "agAlarmsActive.0": "Gauge32: 2 alarms",
        "agAlarmsCritical.0": "Gauge32: 2 alarms",
        "agAlarmsMajor.0": "Gauge32: 0 alarms",
        "agAlarmsMinor.0": "Gauge32: 0 alarms",
        "agAlarmsWarning.0": "Gauge32: 0 alarms",
        "agAlarmsInfo.0": "Gauge32: 0 alarms",
        "agAlarmsLastChange.0": "STRING: 2023-11-14,22:13:20.0,+0:0",
        "agAlarmsNotShown.0": "Counter64: 0 alarms",
    }


async def test_objects_deleted_lately(serve: Serve, gateway: Gateway, tmp_path: Path) -> None:
    assert await walk(tmp_path, serve(gateway.store), "agDeleted") == {
        "agDeletedSource.11": "INTEGER: 1",
        "agDeletedClass.11": "STRING: shop:till",
        "agDeletedName.11": "STRING: till2",
        "agDeletedFullName.11": "STRING: hall1/till2",
        "agDeletedRow.11": "OID: AMQP-GATEWAY-MIB::agPackages.7.1.2.1.2.1.2",
        "agDeletedNativeId.11": "STRING: 0-1-1-0-2",
        "agDeletedLifetime.11": "INTEGER: transient(2)",
        "agDeletedCreated.11": "STRING: 2023-11-14,22:13:20.0,+0:0",
        "agDeletedDeleted.11": "STRING: 2023-11-14,22:13:21.0,+0:0",
        "agDeletedHeard.11": "STRING: 2023-11-14,22:13:22.0,+0:0",
        "agDeletedInferred.11": "INTEGER: false(2)",
        "agDeletedDuration.11": "Counter64: 1000000000 nanoseconds",
        "agDeletedDurationMilliseconds.11": "Gauge32: 1000 milliseconds",
        "agDeletedCount.0": "Gauge32: 1 rows",
        "agDeletedLast.0": "INTEGER: 11",
        "agDeletedTold.0": "Counter64: 1 rows",
    }


async def test_receivers_of_notifications(serve: Serve, gateway: Gateway, tmp_path: Path) -> None:
    table = TargetTable(gateway.store, DEFAULT_ROOT)
    table.add("nms", "192.0.2.1:162", TargetKindNumber.INFORM_V2C)
    table.show("nms", TargetHealth(sent=3, acknowledged=2, waiting=1, last_sent=START + SECOND))
    assert await walk(tmp_path, serve(gateway.store), "agTargetTable") == {
        "agTargetAddress.'nms'": "STRING: 192.0.2.1:162",
        "agTargetKind.'nms'": "INTEGER: informV2c(3)",
        "agTargetSent.'nms'": "Counter64: 3 notifications",
        "agTargetAcknowledged.'nms'": "Counter64: 2 notifications",
        "agTargetSuppressed.'nms'": "Counter64: 0 notifications",
        "agTargetFailed.'nms'": "Counter64: 0 notifications",
        "agTargetWaiting.'nms'": "Gauge32: 1 notifications",
        "agTargetLastSent.'nms'": "STRING: 2023-11-14,22:13:21.0,+0:0",
        "agTargetLost.'nms'": "Counter64: 0 events",
    }


async def test_with_snmpv1_the_gauges_of_32_bits_stand_for_those_of_64(
    serve: Serve, gateway: Gateway, tmp_path: Path
) -> None:
    port = serve(gateway.store)
    shown = await walk(tmp_path, port, "agMIB", version="1")
    assert not [name for name, value in shown.items() if value.startswith("Counter64")]
    assert shown["agCoreEpochGauge32.0"] == "Gauge32: 1"
    assert shown["agDeletedDurationMilliseconds.11"] == "Gauge32: 1000 milliseconds"
    everything = await walk(tmp_path, port, "agMIB")
    sums = {
        name.removeprefix("agSumTotal."): value for name, value in everything.items() if "agSumTotal." in name
    }
    assert sums
    for index, total in sums.items():
        assert shown[f"agSumTotalGauge32.{index}"] == total.replace("Counter64", "Gauge32")
