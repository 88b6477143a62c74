"""A template of Zabbix 6.4 and later: one walk for each table, rows by discovery, items that depend on it.

One request of the poller reads a table; discovery and items are made of its answer by preprocessing, so that
a queue costs no request of its own. The form is that of Zabbix' export in YAML.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import yaml

from gateway.snmp.ber import Oid
from gateway.snmp.templates.monitored import Monitored, MonitoredTable, Reading

_VERSION = "6.4"
_TEMPLATE = "AMQP gateway by SNMP"
_GROUP = "Templates/Applications"
_GROUP_UUID = "a571c0d144b14fd4a87a9d9b2aa9fcd6"
_NAMESPACE = uuid.UUID("6a3cdd9c-2ac6-5f0c-9d0c-a1b8d1a9a0f4")
_UNITS = {"octets": "B", "bytes": "B", "seconds": "s", "milliseconds": "ms"}
_NANOSECONDS_IN_SECONDS = "0.000000001"
_MAX_NAME = 255
_TRIGGERS = {
    "agFeedConnected": ("<>1", "AMQP gateway: the SNMP agent has lost the core", "HIGH"),
    "agAlarmsCritical": (">0", "AMQP gateway: critical alarms", "HIGH"),
    "agAlarmsMajor": (">0", "AMQP gateway: major alarms", "AVERAGE"),
    "agSourceState": ("<>4", "AMQP gateway: source {#NAME} is not synchronised", "AVERAGE"),
}
"""Condition, name and priority of a trigger, by object."""


def zabbix(tables: Iterable[MonitoredTable]) -> str:
    """Return the text of the template.

    ``tables`` are scalars, and tables whose rows are named by a column of their own.
    """
    tables = list(tables)
    scalars = [table for table in tables if not table.indexes]
    walked = [table for table in tables if table.indexes]
    template = {
        "uuid": _uuid(_TEMPLATE),
        "template": _TEMPLATE,
        "name": _TEMPLATE,
        "description": "Written by `amqp-gateway template zabbix`. Give the host an SNMP interface with the "
        "gateway's address and port, version 2 and the community.",
        "groups": [{"name": _GROUP}],
        "items": [
            *(_scalar(value) for table in scalars for value in table.values),
            *(_walk(table) for table in walked),
        ],
        "discovery_rules": [_discovery(table) for table in walked],
        "macros": [
            {"macro": "{$AMQP.INTERVAL}", "value": "1m", "description": "How often tables are walked"}
        ],
        "valuemaps": [
            {
                "uuid": _uuid(f"map {value.name}"),
                "name": value.name,
                "mappings": [{"value": str(number), "newvalue": label} for number, label in value.labels],
            }
            for table in tables
            for value in table.values
            if value.labels
        ],
    }
    export = {
        "version": _VERSION,
        "template_groups": [{"uuid": _GROUP_UUID, "name": _GROUP}],
        "templates": [template],
    }
    return yaml.safe_dump({"zabbix_export": export}, sort_keys=False, allow_unicode=False, width=110)


def _scalar(value: Monitored) -> dict[str, object]:
    return {
        "uuid": _uuid(value.name),
        "name": value.name,
        "type": "SNMP_AGENT",
        "snmp_oid": f"get[{_dotted((*value.oid, 0))}]",
        "key": f"amqp.{value.name}",
        "delay": "{$AMQP.INTERVAL}",
        **_form(value, []),
        **_triggers("triggers", f"amqp.{value.name}", value),
    }


def _walk(table: MonitoredTable) -> dict[str, object]:
    # What names rows of other tables would be walked with other indexes: the name of the row is enough.
    oids = [table.labels[-1].oid, *(value.oid for value in table.values)]
    return {
        "uuid": _uuid(f"walk {table.name}"),
        "name": f"{table.name}: walk",
        "type": "SNMP_AGENT",
        "snmp_oid": f"walk[{','.join(map(_dotted, oids))}]",
        "key": _walk_key(table),
        "delay": "{$AMQP.INTERVAL}",
        "history": "0",
        "trends": "0",
        "value_type": "TEXT",
        "description": f"What items of {table.name} are made of.",
    }


def _discovery(table: MonitoredTable) -> dict[str, object]:
    return {
        "uuid": _uuid(f"discovery {table.name}"),
        "name": f"{table.name}: discovery",
        "type": "DEPENDENT",
        "key": f"amqp.{table.name}.discovery",
        "delay": "0",
        "item_prototypes": [_prototype(table, value) for value in table.values],
        "master_item": {"key": _walk_key(table)},
        "preprocessing": [
            {
                "type": "SNMP_WALK_TO_JSON",
                "parameters": ["{#NAME}", _dotted(table.labels[-1].oid), "0"],
            }
        ],
    }


def _prototype(table: MonitoredTable, value: Monitored) -> dict[str, object]:
    read: dict[str, object] = {
        "type": "SNMP_WALK_VALUE",
        "parameters": [f"{_dotted(value.oid)}.{{#SNMPINDEX}}", "0"],
        # A value that is absent now has no instance, which is no fault.
        "error_handler": "DISCARD_VALUE",
    }
    return {
        "uuid": _uuid(f"prototype {value.name}"),
        "name": f"{table.title} {{#NAME}} [{{#SNMPINDEX}}]: {value.element or value.name}"[:_MAX_NAME],
        "type": "DEPENDENT",
        "key": f"amqp.{value.name}[{{#SNMPINDEX}}]",
        "delay": "0",
        **_form(value, [read]),
        "master_item": {"key": _walk_key(table)},
        **_triggers("trigger_prototypes", f"amqp.{value.name}[{{#SNMPINDEX}}]", value),
    }


def _form(value: Monitored, steps: list[dict[str, object]]) -> dict[str, object]:
    units = _UNITS.get(value.unit, "" if value.labels else f"!{value.unit}" if value.unit else "")
    if value.unit == "nanoseconds":
        steps, units = [*steps, {"type": "MULTIPLIER", "parameters": [_NANOSECONDS_IN_SECONDS]}], "s"
    if value.reading is Reading.COUNTER:
        steps = [*steps, {"type": "CHANGE_PER_SECOND", "parameters": [""]}]
    form: dict[str, object] = {"description": value.description}
    # Some gauges may be negative, which the default, unsigned, refuses.
    if not value.labels:
        form["value_type"] = "FLOAT"
    if units:
        form["units"] = f"{units}/s" if value.reading is Reading.COUNTER and units[0] != "!" else units
    if value.labels:
        form["valuemap"] = {"name": value.name}
    if steps:
        form["preprocessing"] = steps
    return form


def _triggers(kind: str, key: str, value: Monitored) -> dict[str, object]:
    trigger = _TRIGGERS.get(value.name)
    if trigger is None:
        return {}
    condition, name, priority = trigger
    return {
        kind: [
            {
                "uuid": _uuid(f"trigger {value.name}"),
                "expression": f"last(/{_TEMPLATE}/{key}){condition}",
                "name": name,
                "priority": priority,
            }
        ]
    }


def _walk_key(table: MonitoredTable) -> str:
    return f"amqp.{table.name}.walk"


def _uuid(what: str) -> str:
    """Return a UUID of version 4's form, as Zabbix requires, that is the same for the same name."""
    return uuid.UUID(bytes=uuid.uuid5(_NAMESPACE, what).bytes, version=4).hex


def _dotted(oid: Oid) -> str:
    return ".".join(map(str, map(int, oid)))
