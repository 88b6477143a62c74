"""agTargetTable: the receivers of notifications, and how far they got what was meant for them."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import counter64, date_and_time, gauge32, text
from gateway.snmp.notification_numbers import TARGET_ENTRY, TargetColumn, TargetKindNumber
from gateway.snmp.store import Store


@dataclass(frozen=True, slots=True)
class TargetHealth:
    """How a receiver stands; counts are since the start of the SNMP agent.

    Attributes:
        sent: notifications, each counted once however often it had to be sent.
        acknowledged: informs that were answered.
        suppressed: left out because of the configured rate.
        failed: lost for another reason.
        waiting: informs not answered yet.
        last_sent: nanoseconds since 1970-01-01 UTC, 0 for never.
        lost: events that nobody could tell any more when the SNMP agent could: perhaps for this receiver.
    """

    sent: int = 0
    acknowledged: int = 0
    suppressed: int = 0
    failed: int = 0
    waiting: int = 0
    last_sent: int = 0
    lost: int = 0


class TargetTable:
    """The table in the store, indexed by the receiver's name as configured.

    Args:
        store: where the table is made.
        root: the configured root.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._table = store.table((*root, *TARGET_ENTRY), tuple(TargetColumn))

    def add(self, name: str, address: str, kind: TargetKindNumber) -> None:
        """A receiver that has not been sent anything yet.

        Args:
            name: as configured, 1 to 64 characters of ASCII.
            address: address and port, as people write it.
            kind: what it is sent.
        """
        self._table.put(
            _index(name),
            {TargetColumn.ADDRESS: text(address), TargetColumn.KIND: ber.encode_integer(kind)},
        )
        self.show(name, TargetHealth())

    def show(self, name: str, health: TargetHealth) -> None:
        """A receiver as it stands now; ``KeyError`` for one that was not added."""
        if _index(name) not in self._table:
            raise KeyError(name)
        self._table.put(
            _index(name),
            {
                TargetColumn.SENT: counter64(health.sent),
                TargetColumn.ACKNOWLEDGED: counter64(health.acknowledged),
                TargetColumn.SUPPRESSED: counter64(health.suppressed),
                TargetColumn.FAILED: counter64(health.failed),
                TargetColumn.WAITING: gauge32(health.waiting),
                TargetColumn.LOST: counter64(health.lost),
                TargetColumn.LAST_SENT: date_and_time(health.last_sent) if health.last_sent else None,
            },
        )


def _index(name: str) -> Oid:
    return tuple(name.encode("utf-8"))
