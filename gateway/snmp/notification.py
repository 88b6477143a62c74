"""One event as SNMP tells it: what every target is sent, before community, version and time of sending."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.model.events import EventState, Severity
from gateway.snmp.ber import Oid

NO_ROW: Oid = (0, 0)
"""zeroDotZero, where there is no row to point to."""


@dataclass(frozen=True, slots=True)
class StandingAlarms:
    """What lasts at one source.

    Attributes:
        conditions: of its active alarms, with the ids of the events that raised them.
        complete: whether a condition that is not among them has ended for certain.
    """

    conditions: Mapping[str, str]
    complete: bool


@dataclass(frozen=True, slots=True)
class Notification:
    """An event for the notification path.

    Attributes:
        oid: value of snmpTrapOID.0.
        name: ``package:event``, by which targets are configured.
        number: of the event within its epoch; 0 for one that the SNMP agent makes itself.
        epoch: boot of the core that numbered it.
        event_id: the same in every north.
        time: nanoseconds, the agent's clock where it told one.
        source: name of the source; empty for none.
        class_name: ``package:class`` of the object concerned; empty for none.
        object_name: its stable name.
        row: where its row is, or was.
        text: one line for people.
        condition: what a raising and a clearing notification have in common.
        arguments: names and BER values of the event's own arguments; of type Counter64 none.
        heard: when the gateway heard of it, nanoseconds of its clock; 0 for what is not told by a core.
        repeated: a snapshot tells it: it may have been told before.
        is_late: it could not be told when it happened.
    """

    oid: Oid
    name: str
    number: int
    epoch: int
    event_id: str
    severity: Severity
    time: int
    source: str
    class_name: str
    object_name: str
    row: Oid
    text: str
    state: EventState
    condition: str
    arguments: tuple[tuple[Oid, bytes], ...] = ()
    heard: int = 0
    repeated: bool = False
    is_late: bool = False


class Receivers(Protocol):
    """Who wants to be told of events."""

    def notify(self, notification: Notification) -> None:
        """An event; what a snapshot tells is told again, and is then to be passed over."""

    def events_made(self, epoch: int, number: int) -> None:
        """A core before this one made events up to ``number``: further ones of it will not be told."""
