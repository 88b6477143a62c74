"""The configured receivers in the tables of SNMP-TARGET-MIB and SNMP-NOTIFICATION-MIB (RFC 3413).

Each receiver has one row of its name in each table. All are read-only, and no table shows a community: the
security name of a receiver that is sent one is the receiver's name.
"""

from __future__ import annotations

import enum
import hashlib
import ipaddress
from collections.abc import Iterable
from typing import Final

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import TargetKindNumber
from gateway.snmp.notifications.delivery import FIRST_PATIENCE, TRIES
from gateway.snmp.notifications.receiver import Address, Target, is_name
from gateway.snmp.store import Store
from gateway.snmp.v3.users import SecurityLevel

_SNMP_MODULES: Final[Oid] = (1, 3, 6, 1, 6, 3)
TARGET_ADDRESS_ENTRY: Final[Oid] = (*_SNMP_MODULES, 12, 1, 2, 1)
"""snmpTargetAddrEntry, indexed by snmpTargetAddrName (IMPLIED)."""

TARGET_PARAMETERS_ENTRY: Final[Oid] = (*_SNMP_MODULES, 12, 1, 3, 1)
"""snmpTargetParamsEntry, indexed by snmpTargetParamsName (IMPLIED)."""

NOTIFY_ENTRY: Final[Oid] = (*_SNMP_MODULES, 13, 1, 1, 1)
"""snmpNotifyEntry, indexed by snmpNotifyName (IMPLIED)."""


class TargetAddressColumn(enum.IntEnum):
    """Columns of snmpTargetAddrTable; 1 is snmpTargetAddrName."""

    DOMAIN = 2
    ADDRESS = 3
    TIMEOUT = 4
    RETRY_COUNT = 5
    TAG_LIST = 6
    PARAMETERS = 7
    STORAGE_TYPE = 8
    ROW_STATUS = 9


class TargetParametersColumn(enum.IntEnum):
    """Columns of snmpTargetParamsTable; 1 is snmpTargetParamsName."""

    MESSAGE_PROCESSING = 2
    SECURITY_MODEL = 3
    SECURITY_NAME = 4
    SECURITY_LEVEL = 5
    STORAGE_TYPE = 6
    ROW_STATUS = 7


class NotifyColumn(enum.IntEnum):
    """Columns of snmpNotifyTable; 1 is snmpNotifyName."""

    TAG = 2
    TYPE = 3
    STORAGE_TYPE = 4
    ROW_STATUS = 5


_UDP_IPV4: Final[Oid] = (1, 3, 6, 1, 6, 1, 1)  # snmpUDPDomain (RFC 3417)
_UDP_IPV6: Final[Oid] = (1, 3, 6, 1, 2, 1, 100, 1, 2)  # transportDomainUdpIpv6 (RFC 3419)
_UDP_IPV6_ZONE: Final[Oid] = (1, 3, 6, 1, 2, 1, 100, 1, 4)  # transportDomainUdpIpv6z
_UDP_DNS: Final[Oid] = (1, 3, 6, 1, 2, 1, 100, 1, 14)  # transportDomainUdpDns
_VERSION_1, _VERSION_2C, _VERSION_3 = (0, 1), (1, 2), (3, 3)
_TRAP, _INFORM = 1, 2
_TICK: Final = 10_000_000
_LONGEST_NAME: Final = 32
_DIGEST_CHARACTERS: Final = 8

MODELS: Final = {
    TargetKindNumber.TRAP_V1: (*_VERSION_1, _TRAP),
    TargetKindNumber.TRAP_V2C: (*_VERSION_2C, _TRAP),
    TargetKindNumber.INFORM_V2C: (*_VERSION_2C, _INFORM),
    TargetKindNumber.TRAP_V3: (*_VERSION_3, _TRAP),
    TargetKindNumber.INFORM_V3: (*_VERSION_3, _INFORM),
}
"""By kind: message processing model and security model (RFC 3411), and snmpNotifyType."""

_READ_ONLY: Final = ber.encode_integer(5)
_ACTIVE: Final = ber.encode_integer(1)


class ReceiverTables:
    """The tables, with a row for each receiver; without any they are empty.

    Args:
        store: the store in which the tables are made.
    """

    def __init__(self, store: Store) -> None:
        self._addresses = store.table(TARGET_ADDRESS_ENTRY, tuple(TargetAddressColumn))
        self._parameters = store.table(TARGET_PARAMETERS_ENTRY, tuple(TargetParametersColumn))
        self._notify = store.table(NOTIFY_ENTRY, tuple(NotifyColumn))

    def show(self, targets: Iterable[Target]) -> None:
        """Show these receivers, and no others."""
        shown = {tuple(shortened(target.name).encode("ascii")): target for target in targets}
        for table in (self._addresses, self._parameters, self._notify):
            for index in [index for index in table.indexes() if index not in shown]:
                table.remove(index)
        for index, target in shown.items():
            self._put(index, target)

    def _put(self, index: Oid, target: Target) -> None:
        label = ber.encode_octets(bytes(index))
        processing, security, kind = MODELS[target.kind]
        secured = target.secured
        # A community is never shown, so that its receiver stands in its place.
        user = label if secured is None else ber.encode_octets(secured.user.encode())
        level = SecurityLevel.NO_AUTH_NO_PRIV if secured is None else secured.level
        domain, address = transport_address(target.address)
        is_inform = kind == _INFORM
        self._addresses.put(
            index,
            {
                TargetAddressColumn.DOMAIN: ber.encode_oid(domain),
                TargetAddressColumn.ADDRESS: ber.encode_octets(address),
                # Nothing is awaited after a trap.
                TargetAddressColumn.TIMEOUT: ber.encode_integer(FIRST_PATIENCE // _TICK * is_inform),
                TargetAddressColumn.RETRY_COUNT: ber.encode_integer((TRIES - 1) * is_inform),
                TargetAddressColumn.TAG_LIST: label,
                TargetAddressColumn.PARAMETERS: label,
                TargetAddressColumn.STORAGE_TYPE: _READ_ONLY,
                TargetAddressColumn.ROW_STATUS: _ACTIVE,
            },
        )
        self._parameters.put(
            index,
            {
                TargetParametersColumn.MESSAGE_PROCESSING: ber.encode_integer(processing),
                TargetParametersColumn.SECURITY_MODEL: ber.encode_integer(security),
                TargetParametersColumn.SECURITY_NAME: user,
                TargetParametersColumn.SECURITY_LEVEL: ber.encode_integer(level),
                TargetParametersColumn.STORAGE_TYPE: _READ_ONLY,
                TargetParametersColumn.ROW_STATUS: _ACTIVE,
            },
        )
        self._notify.put(
            index,
            {
                NotifyColumn.TAG: label,
                NotifyColumn.TYPE: ber.encode_integer(kind),
                NotifyColumn.STORAGE_TYPE: _READ_ONLY,
                NotifyColumn.ROW_STATUS: _ACTIVE,
            },
        )


def shortened(name: str) -> str:
    """Return a receiver's name in at most 32 characters, which an index of these tables can have.

    A longer one keeps its beginning, and ends in a digest of the whole, so that two do not become one.
    """
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=_DIGEST_CHARACTERS // 2).hexdigest()
    return f"{name[: _LONGEST_NAME - _DIGEST_CHARACTERS - 1]}-{digest}"


def transport_address(address: Address) -> tuple[Oid, bytes]:
    """Return the transport domain of an address, and the address as that domain has it.

    Args:
        address: an IPv4 or IPv6 literal, perhaps with a zone, or a DNS name, and a UDP port.
    """
    host, port = address
    if is_name(host):
        return _UDP_DNS, f"{host}:{port}".encode("ascii")
    literal, _, zone = host.partition("%")
    octets, port_octets = ipaddress.ip_address(literal).packed, port.to_bytes(2, "big")
    if len(octets) == 4:  # noqa: PLR2004  the length of an IPv4 address
        return _UDP_IPV4, octets + port_octets
    if not zone:
        return _UDP_IPV6, octets + port_octets
    # A zone by the name of an interface has a number that only the system knows; 0 is the default zone.
    number = int(zone) if zone.isdecimal() and int(zone) < 1 << 32 else 0
    return _UDP_IPV6_ZONE, octets + number.to_bytes(4, "big") + port_octets
