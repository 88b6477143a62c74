"""snmptt.conf of SNMPTT, the trap translator of net-snmp's snmptrapd: events with severities and texts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from gateway.model.observations import Severity
from gateway.snmp.ber import dotted
from gateway.snmp.fixed_mib import NotificationObject, SeverityNumber
from gateway.snmp.templates.notifications import MonitoredNotification

WORDS: Final = {
    Severity.CRITICAL: "Critical",
    Severity.MAJOR: "Major",
    Severity.MINOR: "Minor",
    Severity.WARNING: "Warning",
    Severity.INFO: "Informational",
    Severity.CLEARED: "Normal",
}
"""The severities by which users of SNMPTT and its options for syslog know them."""

_HEAD: Final = """\
# Written by `amqp-gateway template snmptt`. A notification whose severity only its varbind says has one EVENT
# for each severity. snmptrapd has to run with -On.
"""

_FORMAT: Final = (
    f"FORMAT ${NotificationObject.TEXT:d} [source ${NotificationObject.SOURCE:d}, "
    f"object ${NotificationObject.OBJECT_NAME:d}, condition ${NotificationObject.CONDITION:d}, "
    f"event ${NotificationObject.ID:d}]"
)

_INDENT: Final = "  "
"""No line of a description begins with a keyword that SNMPTT would use: a peer may have sent the text."""

_WIDTH: Final = 100


def snmptt(notifications: Iterable[MonitoredNotification]) -> str:
    """Return the text of the file."""
    return "\n".join([_HEAD, *(line for each in notifications for line in _events(each))])


def _events(notification: MonitoredNotification) -> Iterator[str]:
    is_fixed = len(notification.severities) == 1
    for severity in notification.severities:
        word = WORDS[severity]
        name = notification.name if is_fixed else f"{notification.name}{word}"
        yield f'EVENT {name} .{dotted(notification.oid)} "{notification.module}" {word}'
        yield _FORMAT
        if not is_fixed:
            # With the MIB modules at hand, snmptrapd passes on the label.
            number = SeverityNumber[severity.name]
            yield f"MATCH ${NotificationObject.SEVERITY:d}: (^({number:d}|{number.name.lower()}))"
        yield from ("SDESC", *_described(notification), "EDESC", "")


def _described(notification: MonitoredNotification) -> Iterator[str]:
    varbinds = ", ".join(f"${number} {name}" for number, name in enumerate(notification.varbinds, 1))
    for text in (notification.description, f"Variables: {varbinds}."):
        yield from textwrap.wrap(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
