"""Items and triggers of Zabbix for notifications: problems that the notification of the end resolves.

One item has all notifications, each in a form of a few lines that its preprocessing makes of the text of the
trap receiver, with names or numbers. Two others depend on it: conditions, and single events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from gateway.model.observations import EventState, Severity
from gateway.snmp.ber import dotted
from gateway.snmp.fixed_mib import (
    COMMON_OBJECTS,
    NOTIFICATION_OBJECTS,
    ConditionStateNumber,
    NotificationObject,
    SeverityNumber,
)
from gateway.snmp.mib.clauses import COMMON_DESCRIPTORS
from gateway.snmp.templates.notifications import RAISED

PRIORITIES: Final = {
    Severity.CRITICAL: "DISASTER",
    Severity.MAJOR: "HIGH",
    Severity.MINOR: "AVERAGE",
    Severity.WARNING: "WARNING",
    Severity.INFO: "INFO",
}
"""The severities of Zabbix."""

_OBJECTS: Final = dotted(NOTIFICATION_OBJECTS)
_ALL: Final = "AMQP gateway: notifications"
_CONDITIONS, _EVENTS = "amqp.trap.conditions", "amqp.trap.events"
_MAX_TAG: Final = 255
"""The maximum number of characters of a tag. The end of a condition, which may be a digest, is kept."""

_ID: Final = f"({COMMON_DESCRIPTORS[0]}|.{_OBJECTS}.{NotificationObject.ID:d}).0".replace(".", "[.]")
_KEY: Final = f'snmptrap["{_ID}[ =]"]'

_SCRIPT: Final = r"""
var names = NAMES, states = STATES, severities = SEVERITIES, found = {};
// Octets that are not printable are in hexadecimal digits, in several lines.
value.replace(/\n(?=([0-9A-F]{2} )*[0-9A-F]{2} *(\n|$))/g, ' ').split('\n').forEach(function (line) {
    var part = /^\s*\S*?(?:(agEvent\w+)|\.OBJECTS\.(\d+))\.0\s+(?:type=\d+\s+value=|= ?)(.*?)\s*$/.exec(line);
    if (!part) return;
    var text = part[3].replace(/^(INTEGER|STRING|OID): /, '');
    if (text.indexOf('Hex-STRING: ') === 0) {
        text = text.substring(12).trim();
        try { text = decodeURIComponent('%' + text.split(/\s+/).join('%')); } catch (error) {}
    } else if (/^".*"$/.test(text)) {
        text = text.slice(1, -1).replace(/\\(["\\])/g, '$1');
    }
    found[part[1] || names[part[2]]] = text;
});
function label(text, labels) {
    var number = /(\d+)\)?$/.exec(text || '');
    return number ? labels[number[1]] : text;
}
var state = label(found.agEventState, states), severity = label(found.agEventSeverity, severities);
if (!state || !severity) return '';
var condition = (found.agEventSource || '') + ' ' + (found.agEventCondition || '');
if (condition.length > MAX_TAG) condition = condition.substring(0, 99) + ' ' + condition.slice(100 - MAX_TAG);
return [
    state + ' ' + severity,
    'text: ' + (found.agEventText || ''),
    'source: ' + (found.agEventSource || ''),
    'object: ' + (found.agEventObjectName || ''),
    'condition: ' + condition.trim(),
    'event: ' + (found.agEventId || '')
].join('\n');
""".strip()


def trap_items(template: str, identify: Callable[[str], str]) -> Iterator[dict[str, object]]:
    """Yield the items, with their triggers.

    Args:
        template: the name of the template.
        identify: returns the UUID of an item or trigger.
    """
    yield {
        "uuid": identify(_ALL),
        "name": _ALL,
        "type": "SNMP_TRAP",
        "key": _KEY,
        "value_type": "TEXT",
        "description": "State, severity, text, source, object, condition and event of each notification.",
        "preprocessing": [
            {"type": "JAVASCRIPT", "parameters": [_script()]},
            _only("."),
        ],
    }
    raised, cleared, one_shot = (
        state.value for state in (EventState.RAISED, EventState.CLEARED, EventState.ONE_SHOT)
    )

    def last_begins(key: str, beginning: str) -> str:
        return f'find(/{template}/{key},,"regexp","^{beginning}")=1'

    yield {
        **_dependent(
            "AMQP gateway: conditions by notification", _CONDITIONS, f"^({raised}|{cleared}) ", identify
        ),
        "triggers": [
            {
                **_trigger("condition", severity, identify),
                "expression": last_begins(_CONDITIONS, f"{raised} {_word(severity)}"),
                "recovery_mode": "RECOVERY_EXPRESSION",
                "recovery_expression": last_begins(_CONDITIONS, f"{cleared} "),
                "correlation_mode": "TAG_VALUE",
                "correlation_tag": "condition",
            }
            for severity in RAISED
        ],
    }
    yield {
        **_dependent("AMQP gateway: single events by notification", _EVENTS, f"^{one_shot} ", identify),
        "triggers": [
            {
                **_trigger("event", severity, identify),
                "expression": last_begins(_EVENTS, f"{one_shot} {_word(severity)}"),
                "recovery_mode": "NONE",
            }
            for severity in RAISED
            if severity is not Severity.INFO
        ],
    }


def _dependent(name: str, key: str, pattern: str, identify: Callable[[str], str]) -> dict[str, object]:
    return {
        "uuid": identify(key),
        "name": name,
        "type": "DEPENDENT",
        "key": key,
        "delay": "0",
        "value_type": "TEXT",
        "preprocessing": [_only(pattern)],
        "master_item": {"key": _KEY},
    }


def _only(pattern: str) -> dict[str, object]:
    return {"type": "MATCHES_REGEX", "parameters": [pattern], "error_handler": "DISCARD_VALUE"}


def _trigger(what: str, severity: Severity, identify: Callable[[str], str]) -> dict[str, object]:
    name = f"AMQP gateway: {what} by notification: {_word(severity)}"
    return {
        "uuid": identify(name),
        "name": name,
        "event_name": f"AMQP gateway: {_line('text')}",
        "priority": PRIORITIES[severity],
        # Each notification is a problem of its own, which can be closed by hand.
        "type": "MULTIPLE",
        "manual_close": "YES",
        "tags": [{"tag": name, "value": _line(name)} for name in ("condition", "source", "object")],
    }


def _line(name: str) -> str:
    """Return the macro for the value of one line of a notification."""
    return f'{{{{ITEM.VALUE}}.regsub("(?m)^{name}: (.*)$", "\\1")}}'


def _word(severity: Severity) -> str:
    return severity.name.lower()


def _script() -> str:
    tables = {
        "NAMES": dict(zip(COMMON_OBJECTS, COMMON_DESCRIPTORS, strict=True)),
        "STATES": {int(number): EventState[number.name].value for number in ConditionStateNumber},
        "SEVERITIES": {int(number): number.name.lower() for number in SeverityNumber},
    }
    script = _SCRIPT.replace("OBJECTS", _OBJECTS.replace(".", "\\.")).replace("MAX_TAG", str(_MAX_TAG))
    for name, table in tables.items():
        script = script.replace(f"= {name}", f"= {json.dumps(table)}")
    return script
