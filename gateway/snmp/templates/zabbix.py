"""A template of Zabbix 6.4 and later: one walk for each table, rows by discovery, items that depend on it.

One request of the poller reads a table; discovery and items are made of its answer by preprocessing, so that
a queue costs no request of its own. The form is that of Zabbix' export in YAML.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import yaml

from gateway.model.observations import Severity
from gateway.snmp.ber import dotted
from gateway.snmp.templates.monitored import Monitored, MonitoredTable, Reading
from gateway.snmp.templates.zabbix_traps import PRIORITIES, trap_items

_VERSION = "6.4"
_TEMPLATE = "AMQP gateway by SNMP"
_GROUP = "Templates/Applications"
_GROUP_UUID = "a571c0d144b14fd4a87a9d9b2aa9fcd6"
_NAMESPACE = uuid.UUID("6a3cdd9c-2ac6-5f0c-9d0c-a1b8d1a9a0f4")
_UNITS = {"octets": "B", "bytes": "B", "seconds": "s", "milliseconds": "ms"}
_NANOSECONDS_IN_SECONDS = "0.000000001"
_NAME = '{{#NAME}.regsub("(?s)^(.{0,150})", "\\1")}'
"""The beginning of an object's name: Zabbix makes no item whose name has more than 255 characters."""

_MAX_WALK = 512 - len("walk[]")
"""The number of characters of the OIDs of one walk: Zabbix takes no longer field."""

_UNCHANGED, _UTF_8 = "0", "1"
"""How a walked value is read. A walk may show a name that is not ASCII in hexadecimal digits."""

_TRIGGERS = {
    "agFeedConnected": ("<>1", "AMQP gateway: the SNMP agent has lost the core", "HIGH"),
    "agAlarmsCritical": (">0", "AMQP gateway: critical alarms", PRIORITIES[Severity.CRITICAL]),
    "agAlarmsMajor": (">0", "AMQP gateway: major alarms", PRIORITIES[Severity.MAJOR]),
    "agSourceState": ("<>4", "AMQP gateway: source {#NAME} is not synchronised", "AVERAGE"),
}
"""Condition, name and priority of a trigger, by object."""

_AVAILABILITY_MAP = "availability"
_AVAILABLE = ((0, "not available"), (1, "available"), (2, "unknown"))

_MACROS = {
    "{$AMQP.INTERVAL}": ("1m", "How often tables are walked"),
    "{$AMQP.KEEP}": ("1d", "How long items and history of an object remain that is there no more"),
    "{$AMQP.SILENCE}": ("5m", "How long the gateway may be silent until a trigger says so"),
}
"""Value and description of a macro, by name."""


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
        "gateway's address and port, and version 2 with the community, or version 3 with a user.",
        "groups": [{"name": _GROUP}],
        "items": [
            _availability(),
            *(_scalar(value) for table in scalars for value in table.values),
            *(item for table in walked for item in _walks(table)),
            *trap_items(_TEMPLATE, _uuid),
        ],
        "discovery_rules": [_discovery(table) for table in walked],
        "macros": [
            {"macro": macro, "value": value, "description": description}
            for macro, (value, description) in _MACROS.items()
        ],
        "valuemaps": [
            _valuemap(name, labels)
            for name, labels in (
                (_AVAILABILITY_MAP, _AVAILABLE),
                *((value.name, value.labels) for table in tables for value in table.values if value.labels),
            )
        ],
    }
    export = {
        "version": _VERSION,
        "template_groups": [{"uuid": _GROUP_UUID, "name": _GROUP}],
        "templates": [template],
    }
    # Of a text in double quotes that goes on in the next line, Zabbix makes one with a space too many.
    return yaml.safe_dump({"zabbix_export": export}, sort_keys=False, allow_unicode=False, width=2**31)


def _valuemap(name: str, labels: Iterable[tuple[int, str]]) -> dict[str, object]:
    return {
        "uuid": _uuid(f"map {name}"),
        "name": name,
        "mappings": [{"value": str(number), "newvalue": label} for number, label in labels],
    }


def _availability() -> dict[str, object]:
    """Return an item of what Zabbix itself knows: a gateway that is silent leaves all others as they were."""
    key = "zabbix[host,snmp,available]"
    return {
        "uuid": _uuid(key),
        "name": "SNMP agent availability",
        "type": "INTERNAL",
        "key": key,
        "delay": "{$AMQP.INTERVAL}",
        "description": "Whether the SNMP agent of the gateway answers Zabbix.",
        "valuemap": {"name": _AVAILABILITY_MAP},
        "triggers": [
            {
                "uuid": _uuid(f"trigger {key}"),
                "expression": f"max(/{_TEMPLATE}/{key},{{$AMQP.SILENCE}})=0",
                "name": "AMQP gateway: no answer by SNMP",
                "priority": "HIGH",
            }
        ],
    }


def _scalar(value: Monitored) -> dict[str, object]:
    return {
        "uuid": _uuid(value.name),
        "name": value.name,
        "type": "SNMP_AGENT",
        "snmp_oid": f"get[{dotted((*value.oid, 0))}]",
        "key": f"amqp.{value.name}",
        "delay": "{$AMQP.INTERVAL}",
        **_form(value, []),
        **_triggers("triggers", f"amqp.{value.name}", value),
    }


def _walks(table: MonitoredTable) -> Iterator[dict[str, object]]:
    for number, columns in enumerate(_walked(table)):
        yield {
            "uuid": _uuid(_numbered(f"walk {table.name}", number)),
            "name": _numbered(f"{table.name}: walk", number),
            "type": "SNMP_AGENT",
            "snmp_oid": f"walk[{','.join(columns)}]",
            "key": _walk_key(table, number),
            "delay": "{$AMQP.INTERVAL}",
            "history": "0",
            "trends": "0",
            "value_type": "TEXT",
            "description": f"What items of {table.name} are made of.",
        }


def _walked(table: MonitoredTable) -> list[list[str]]:
    """Return the columns of each walk of a table; the first column is the name of the row.

    What names rows of other tables would be walked with other indexes: the name of the row is enough.
    """
    walks: list[list[str]] = [[]]
    for oid in (table.labels[-1].oid, *(value.oid for value in table.values)):
        if len(",".join([*walks[-1], dotted(oid)])) > _MAX_WALK:
            walks.append([])
        walks[-1].append(dotted(oid))
    return walks


def _discovery(table: MonitoredTable) -> dict[str, object]:
    masters = {
        column: _walk_key(table, number)
        for number, columns in enumerate(_walked(table))
        for column in columns
    }
    return {
        "uuid": _uuid(f"discovery {table.name}"),
        "name": f"{table.name}: discovery",
        "type": "DEPENDENT",
        "key": f"amqp.{table.name}.discovery",
        "delay": "0",
        "lifetime": "{$AMQP.KEEP}",
        "item_prototypes": [_prototype(table, value, masters[dotted(value.oid)]) for value in table.values],
        "master_item": {"key": _walk_key(table)},
        "preprocessing": [
            {
                "type": "SNMP_WALK_TO_JSON",
                "parameters": ["{#NAME}", dotted(table.labels[-1].oid), _UTF_8],
            }
        ],
    }


def _prototype(table: MonitoredTable, value: Monitored, master: str) -> dict[str, object]:
    read: dict[str, object] = {
        "type": "SNMP_WALK_VALUE",
        "parameters": [f"{dotted(value.oid)}.{{#SNMPINDEX}}", _UNCHANGED],
        # A value that is absent now has no instance, which is no fault.
        "error_handler": "DISCARD_VALUE",
    }
    return {
        "uuid": _uuid(f"prototype {value.name}"),
        "name": f"{table.title} {_NAME} [{{#SNMPINDEX}}]: {value.element or value.name}",
        "type": "DEPENDENT",
        "key": f"amqp.{value.name}[{{#SNMPINDEX}}]",
        "delay": "0",
        **_form(value, [read]),
        "master_item": {"key": master},
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
        form["units"] = f"{units}/s" if value.reading is Reading.COUNTER else units
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


def _walk_key(table: MonitoredTable, number: int = 0) -> str:
    return _numbered(f"amqp.{table.name}.walk", number)


def _numbered(name: str, number: int) -> str:
    """Return the name of one of several, from 0: ``NAME``, ``NAME2``, ``NAME3``."""
    return name if not number else f"{name}{number + 1}"


def _uuid(what: str) -> str:
    """Return a UUID of version 4's form, as Zabbix requires, that is the same for the same name."""
    return uuid.UUID(bytes=uuid.uuid5(_NAMESPACE, what).bytes, version=4).hex
