"""The notifications that monitoring systems receive: each with its OID, its varbinds and its severities.

Names, varbinds and descriptions are those of the MIB modules, so that a site's own notifications are among
them; the severity of an event is that of its mapping, with the overrides of the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from gateway.mapping.rules import EventRule
from gateway.model.observations import Severity
from gateway.model.schema import ClassKey
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import MODULE, OwnNotification
from gateway.snmp.oid_registry import OidRegistry

RuleOf = Callable[[ClassKey], EventRule | None]
"""Returns the rule of an event, of which the name is ``package:event``; ``None`` where no mapping has one."""

ALL_SEVERITIES: Final = tuple(sorted(Severity, reverse=True))
"""Every severity, the worst first; `Severity.CLEARED` is the last one."""

RAISED: Final = tuple(severity for severity in ALL_SEVERITIES if severity is not Severity.CLEARED)
"""Every severity with which a condition may begin."""

_END: Final = (Severity.INFO, Severity.CLEARED)
"""The severities of what ends a condition, if there was one."""

OWN_SEVERITIES: Final[Mapping[OwnNotification, tuple[Severity, ...]]] = {
    OwnNotification.SOURCE_UP: _END,
    OwnNotification.SOURCE_DOWN: (Severity.MAJOR,),
    OwnNotification.ALARM_RAISED: RAISED,
    OwnNotification.ALARM_CLEARED: (Severity.CLEARED,),
    OwnNotification.GAP: (Severity.WARNING,),
    OwnNotification.EVENTS_SUPPRESSED: (Severity.WARNING,),
    OwnNotification.TEST: (Severity.INFO,),
    OwnNotification.LOG_TROUBLE: (Severity.MAJOR, Severity.WARNING),
    OwnNotification.LOG_WRITTEN: _END,
    OwnNotification.AGENT_LOST: (Severity.WARNING,),
    OwnNotification.AGENT_BACK: (Severity.INFO,),
    OwnNotification.PROCESS_ENDED: (Severity.WARNING,),
    OwnNotification.GATEWAY_STOPPING: (Severity.WARNING,),
    OwnNotification.ACCESS_REFUSED: (Severity.WARNING,),
    OwnNotification.AUDIT_HEAD: (Severity.INFO,),
    OwnNotification.POLICY_CHANGED: (Severity.WARNING,),
    OwnNotification.MAPPINGS_CHANGED: (Severity.WARNING,),
}
"""The severities of the gateway's own notifications."""

_NOTIFICATION = re.compile(
    r"^(?P<name>\w+) NOTIFICATION-TYPE\s+OBJECTS\s*\{(?P<objects>[^}]*)\}\s+STATUS\s+current\s+"
    r'DESCRIPTION\s+"(?P<description>[^"]*)"\s+::= \{ \w+Notifications (?P<arc>\d+) \}$',
    re.MULTILINE,
)


class MonitoredNotification(msgspec.Struct, frozen=True):
    """A notification that the gateway sends.

    Attributes:
        name: its descriptor.
        oid: the value of snmpTrapOID.0.
        module: the MIB module that defines it.
        varbinds: the descriptors of its objects, in their order; the first ones are the same in all.
        severities: those that it may have; one of a single severity has it always.
    """

    name: str
    oid: Oid
    module: str
    description: str
    varbinds: tuple[str, ...]
    severities: tuple[Severity, ...]


def own_notifications(text: str, root: Oid) -> Iterator[MonitoredNotification]:
    """Yield the gateway's own notifications, from the text of its module, by arc."""
    return _notifications(text, (*root, *MODULE), lambda _, arc: OWN_SEVERITIES[OwnNotification(arc)])


def notifications_of(
    registry: OidRegistry, text: str, root: Oid, rule_of: RuleOf
) -> Iterator[MonitoredNotification]:
    """Yield the notifications of a registry, from the text of its module, by arc."""
    events = {entry.descriptor: registry.class_key(entry) for entry in registry.events}

    def severities(descriptor: str, _arc: int) -> tuple[Severity, ...]:
        rule = rule_of(events[descriptor])
        if rule is not None and rule.clears:
            return (Severity.CLEARED,)
        # Without a rule its agent says the severity.
        return ALL_SEVERITIES if rule is None or rule.severity is None else (rule.severity,)

    return _notifications(text, (*root, *registry.module_arc), severities)


def _notifications(
    text: str, module: Oid, severities: Callable[[str, int], tuple[Severity, ...]]
) -> Iterator[MonitoredNotification]:
    for found in sorted(_NOTIFICATION.finditer(text), key=lambda found: int(found["arc"])):
        name, arc = found["name"], int(found["arc"])
        yield MonitoredNotification(
            name,
            (*module, 0, arc),
            text.partition(" ")[0],
            " ".join(found["description"].split()),
            tuple(found["objects"].replace(",", " ").split()),
            severities(name, arc),
        )
