"""Object identifiers of the standard notifications and of what every notification begins with (RFC 3418)."""

from __future__ import annotations

from typing import Final

from gateway.snmp.ber import Oid

SYS_UP_TIME: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 3, 0)
"""sysUpTime.0, the first varbind."""

SNMP_TRAP_OID: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0)
"""snmpTrapOID.0, the second varbind."""

SNMP_TRAP_ENTERPRISE: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 4, 3, 0)
"""snmpTrapEnterprise.0, the last varbind of a standard notification."""

SNMP_TRAPS: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 5)
"""snmpTraps; the last arc of a notification below it is one more than its generic-trap in version 1."""

COLD_START: Final[Oid] = (*SNMP_TRAPS, 1)
"""The agent reinitialised itself, and its configuration may have been altered."""

WARM_START: Final[Oid] = (*SNMP_TRAPS, 2)
"""The agent reinitialised itself with its configuration unaltered."""

AUTHENTICATION_FAILURE: Final[Oid] = (*SNMP_TRAPS, 5)
"""Somebody sent a message with a community that is not known."""

STANDARD_NOTIFICATIONS: Final = frozenset((*SNMP_TRAPS, arc) for arc in range(1, 7))
"""coldStart, warmStart, linkDown, linkUp, authenticationFailure, egpNeighborLoss (RFC 3584 section 3)."""
