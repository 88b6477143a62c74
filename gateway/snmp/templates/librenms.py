"""Definitions of LibreNMS: how it recognises the gateway, and the sensors that it finds there.

Sensors are gauges of LibreNMS whatever the type on the wire is; counters are left out, because a sensor has
no rate. LibreNMS reads tables by the names of MIB modules, which it needs as files.
"""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from gateway.snmp.ber import Oid, dotted
from gateway.snmp.templates.monitored import Monitored, MonitoredTable, Reading

OS = "amqp-gateway"
"""The name of the operating system that LibreNMS gives to the gateway."""

DETECTION = f"resources/definitions/os_detection/{OS}.yaml"
DISCOVERY = f"resources/definitions/os_discovery/{OS}.yaml"

_DESCRIPTION = r"/(?<version>\S+) on (?<features>.+)/"
"""A regular expression (PCRE) of what LibreNMS reads in sysDescr."""

_BAD = frozenset({"down", "diskFull", "readOnly", "diskError", "failed", "critical", "withheld"})
_POOR = frozenset({"degraded", "connecting", "synchronising", "stale", "slow", "major", "minor", "warning"})
_UNKNOWN = frozenset({"unknown", "off", "indeterminate"})
_GOOD, _WARNING, _CRITICAL, _NOTHING = range(4)


def librenms(object_id: Oid, tables: Iterable[MonitoredTable]) -> dict[str, str]:
    """Return the files, by their path below the folder of LibreNMS.

    Args:
        object_id: sysObjectID of the gateway.
        tables: scalars, and tables whose rows are named by a column of their own.
    """
    tables = list(tables)
    detection = {
        "os": OS,
        "text": "AMQP management gateway",
        "type": "server",
        "icon": "generic",
        "mib_dir": OS,
        "discovery": [{"sysObjectID": [f".{dotted(object_id)}"]}],
    }
    data: dict[str, list[dict[str, object]]] = {"count": [], "state": []}
    for table in tables:
        for value in table.values:
            if value.reading is Reading.GAUGE:
                data["state" if value.labels else "count"].append(_sensor(table, value))
    names = [table.labels[-1].column for table in tables if table.indexes]
    sensors: dict[str, object] = {"additional_oids": {"data": [{"oid": names}]}} if names else {}
    sensors |= {kind: {"data": found} for kind, found in data.items() if found}
    discovery = {
        "mib": ":".join(dict.fromkeys(table.module for table in tables)),
        "modules": {"os": {"sysDescr_regex": _DESCRIPTION}, "sensors": sensors},
    }
    note = "# Written by `amqp-gateway template librenms`.\n"
    return {
        path: note + yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=110)
        for path, document in ((DETECTION, detection), (DISCOVERY, discovery))
    }


def _sensor(table: MonitoredTable, value: Monitored) -> dict[str, object]:
    what = value.element or value.name
    sensor: dict[str, object] = {
        "oid": value.name,
        "num_oid": f".{dotted(value.oid)}.{{{{ $index }}}}",
        "index": f"{value.name}.{{{{ $index }}}}",
        # A description that is the name of an object would be replaced by its value.
        "descr": f"{{{{ ${table.labels[-1].column} }}}} {what}" if table.indexes else f"{table.title} {what}",
        "group": table.title,
    }
    if value.labels:
        alarms = {number: severity.name.lower() for number, severity in value.alarms}
        sensor["state_name"] = value.name
        sensor["states"] = [
            {"value": number, "generic": _generic(alarms.get(number, label)), "graph": 0, "descr": label}
            for number, label in value.labels
        ]
    return sensor


def _generic(label: str) -> int:
    """Return how LibreNMS shows the label of a state, or the severity of the alarm that it raises."""
    if label in _BAD:
        return _CRITICAL
    if label in _POOR:
        return _WARNING
    return _NOTHING if label in _UNKNOWN else _GOOD
