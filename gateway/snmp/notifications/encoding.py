"""Notifications as datagrams: Trap-PDU of version 1, SNMPv2-Trap-PDU and InformRequest-PDU of version 2c.

RFC 1157 section 4.1.6, RFC 3416 sections 4.2.6 and 4.2.7, translation to version 1 by RFC 3584 section 3.2.
A datagram has at most `MAX_DATAGRAM_OCTETS`. A longer one is cut in this order, until it fits:

1. the event's own arguments are left out, the last one first;
2. text, then object name, class and source are shortened, each at the end of a character;
3. condition, state, text, row, object name, class, source and time are left out, in this order.

Event id, severity and the notification's object identifier are never cut. The third step is for roots of
unusual length only: below the default root the second always suffices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import CONDITION_STATES, SEVERITIES, known_time, text, truth
from gateway.snmp.fixed_mib import COMMON_OBJECTS, NOTIFICATION_OBJECTS, NotificationObject
from gateway.snmp.message import INFORM, TRAP_V1, TRAP_V2, VERSION_1, VERSION_2C, preamble
from gateway.snmp.notifications.notification import (
    SNMP_TRAP_ENTERPRISE,
    SNMP_TRAP_OID,
    SNMP_TRAPS,
    STANDARD_NOTIFICATIONS,
    SYS_UP_TIME,
    Notification,
)

MAX_DATAGRAM_OCTETS: Final = 1400
"""The size that passes every usual path unfragmented: Ethernet, with room for headers, tunnels, VLAN tags."""

MAX_COMMUNITY_OCTETS: Final = 255
NO_AGENT_ADDRESS: Final = bytes(4)
"""agent-addr of a version 1 trap that is sent over anything but IPv4 (RFC 3584 section 3.2)."""

_ENTERPRISE_SPECIFIC: Final = 6
_SHORTENED: Final = (
    NotificationObject.TEXT,
    NotificationObject.OBJECT_NAME,
    NotificationObject.CLASS,
    NotificationObject.SOURCE,
)
_LEFT_OUT: Final = (
    NotificationObject.CONDITION,
    NotificationObject.STATE,
    NotificationObject.TEXT,
    NotificationObject.ROW,
    NotificationObject.OBJECT_NAME,
    NotificationObject.CLASS,
    NotificationObject.SOURCE,
    NotificationObject.TIME,
)
# Message, PDU and list of varbinds with lengths of up to 3 octets, version, request id, two zeros, sysUpTime.
_OVERHEAD: Final = 3 * 4 + 3 + 6 + 6 + 19
# The tags and lengths of the varbind, and its name.
_TRAP_OID_OVERHEAD: Final = 4 + 12
_ENTERPRISE_OVERHEAD: Final = 4 + 12

_UNKNOWN_TIME: Final = ber.encode_octets(bytes(8))  # a DateAndTime has 8 octets or 11, never none
_UP_TIME_NAME: Final = ber.encode_name(SYS_UP_TIME)
_TRAP_OID_NAME: Final = ber.encode_name(SNMP_TRAP_OID)
_ENTERPRISE_NAME: Final = ber.encode_name(SNMP_TRAP_ENTERPRISE)
_NO_ERROR: Final = 2 * ber.encode_integer(0)


class Version1Fields(NamedTuple):
    """A Trap-PDU of version 1 without agent-addr, which differs by path; all fields are TLVs."""

    enterprise: bytes
    generic_specific_time: bytes
    varbinds: bytes


class EncodedNotification:
    """The octets of a notification that all its receivers share; each version is made at its first use.

    Args:
        oid: the value of snmpTrapOID.0.
        up_time: sysUpTime when it was generated, hundredths of a second.
        objects: its varbinds after the first two, encoded.
        enterprise: the TLV of sysObjectID, which standard notifications carry.
    """

    __slots__ = ("_enterprise", "_objects", "_oid", "_up_time", "_version_1", "_version_2c")

    def __init__(self, oid: Oid, up_time: int, objects: bytes, enterprise: bytes) -> None:
        self._oid = oid
        self._up_time = ber.encode_time_ticks(up_time)
        self._objects = objects
        self._enterprise = enterprise
        self._version_1: Version1Fields | None = None
        self._version_2c: bytes | None = None

    def version_2c(self) -> bytes:
        """Return the TLV of the variable bindings of an SNMPv2-Trap-PDU or InformRequest-PDU."""
        if self._version_2c is None:
            varbinds = (
                ber.encode_varbind(_UP_TIME_NAME, self._up_time)
                + ber.encode_varbind(_TRAP_OID_NAME, _encoded_oid(self._oid))
                + self._objects
            )
            if self._oid in STANDARD_NOTIFICATIONS:
                # As net-snmp's agent does: without it a proxy to version 1 cannot name the enterprise.
                varbinds += ber.encode_varbind(_ENTERPRISE_NAME, self._enterprise)
            self._version_2c = ber.encode_tlv(ber.SEQUENCE, varbinds)
        return self._version_2c

    def version_1(self) -> Version1Fields:
        """Return the version 1 fields (RFC 3584 section 3.2). No varbind may be a Counter64, and none is."""
        if self._version_1 is None:
            oid = self._oid
            if oid in STANDARD_NOTIFICATIONS:
                enterprise, generic, specific = self._enterprise, oid[len(SNMP_TRAPS)] - 1, 0
            else:
                generic, specific = _ENTERPRISE_SPECIFIC, oid[-1]
                # RFC 3584 section 3.2, point (1): a zero before the last sub-identifier is not part of the
                # enterprise.
                enterprise = ber.encode_oid(oid[:-2] if oid[-2] == 0 else oid[:-1])
            numbers = ber.encode_integer(generic) + ber.encode_integer(specific) + self._up_time
            self._version_1 = Version1Fields(enterprise, numbers, ber.encode_tlv(ber.SEQUENCE, self._objects))
        return self._version_1


class NotificationEncoder:
    """The encoder of notifications.

    Args:
        root: the configured root, below which the common varbinds are.
        enterprise: sysObjectID.
        community_octets: the length of the longest community of a receiver.
    """

    def __init__(self, root: Oid, enterprise: Oid, community_octets: int = MAX_COMMUNITY_OCTETS) -> None:
        self._enterprise = ber.encode_oid(enterprise)
        self._room = MAX_DATAGRAM_OCTETS - _OVERHEAD - 4 - community_octets
        self._standard_room = self._room - _ENTERPRISE_OVERHEAD - len(self._enterprise)
        self._late = ber.encode_varbind(
            ber.encode_name((*root, *NOTIFICATION_OBJECTS, NotificationObject.LATE, 0)), truth(True)
        )
        self._names = {
            number: ber.encode_name((*root, *NOTIFICATION_OBJECTS, number, 0)) for number in COMMON_OBJECTS
        }

    def encode(self, notification: Notification, up_time: int) -> EncodedNotification:
        """Return the octets of ``notification``, generated at ``up_time`` (sysUpTime).

        Raises ``ValueError`` for an object identifier or a value that BER cannot express.
        """
        oid = notification.oid
        room = self._standard_room if oid in STANDARD_NOTIFICATIONS else self._room
        late = self._late if notification.is_late else b""
        room -= _TRAP_OID_OVERHEAD + len(_encoded_oid(oid)) + len(late)
        values = _common_values(notification)
        common = [
            ber.encode_varbind(name, value)
            for name, value in zip(self._names.values(), values.values(), strict=True)
        ]
        own = [ber.encode_varbind(_encoded_name(name), value) for name, value in notification.arguments]
        octets = b"".join(common) + b"".join(own)
        if len(octets) > room:
            octets = self._cut_common(values, room) or b"".join(common) + _fitting(own, common, room)
        # Late is behind all others: receivers match varbinds by their places.
        return EncodedNotification(oid, up_time, octets + late, self._enterprise)

    def late(self, varbinds: bytes) -> bytes:
        """Return the TLV of variable bindings, marked as sent late."""
        _, start, stop = ber.read_header(varbinds, 0, len(varbinds))
        content = varbinds[start:stop]
        return (
            # An inform may outlive several restarts, and gets the varbind once.
            varbinds if content.endswith(self._late) else ber.encode_tlv(ber.SEQUENCE, content + self._late)
        )

    def _cut_common(self, values: dict[NotificationObject, bytes], room: int) -> bytes | None:
        """Return the common varbinds shortened to ``room``; ``None`` where they fit as they are."""
        octets = self._joined(values)
        if len(octets) <= room:
            return None
        for number in _SHORTENED:
            values[number] = _shortened(values[number], len(octets) - room)
            octets = self._joined(values)
            if len(octets) <= room:
                return octets
        for number in _LEFT_OUT:
            del values[number]
            octets = self._joined(values)
            if len(octets) <= room:
                break
        return octets

    def _joined(self, values: dict[NotificationObject, bytes]) -> bytes:
        return b"".join(ber.encode_varbind(self._names[number], value) for number, value in values.items())


def trap_v1(community: bytes, agent_address: bytes, fields: Version1Fields) -> bytes:
    """Return a version 1 trap; ``agent_address`` is an IPv4 address of 4 octets."""
    content = (
        fields.enterprise
        + ber.encode_ip_address(agent_address)
        + fields.generic_specific_time
        + fields.varbinds
    )
    return _message(VERSION_1, community, ber.encode_tlv(TRAP_V1, content))


def trap_v2c(community: bytes, request_id: int, varbinds: bytes) -> bytes:
    """Return a version 2c trap; ``varbinds`` is the TLV of the list."""
    return _message(VERSION_2C, community, notification_pdu(TRAP_V2, request_id, varbinds))


def inform_v2c(community: bytes, request_id: int, varbinds: bytes) -> bytes:
    """Return a version 2c inform; the receiver answers with the same ``request_id``."""
    return _message(VERSION_2C, community, notification_pdu(INFORM, request_id, varbinds))


def notification_pdu(pdu_type: int, request_id: int, varbinds: bytes) -> bytes:
    """Return an SNMPv2-Trap-PDU or InformRequest-PDU; ``varbinds`` is the TLV of the list."""
    return ber.encode_tlv(pdu_type, ber.encode_integer(request_id) + _NO_ERROR + varbinds)


def _message(version: int, community: bytes, pdu: bytes) -> bytes:
    return ber.encode_tlv(ber.SEQUENCE, preamble(version, community) + pdu)


def _common_values(notification: Notification) -> dict[NotificationObject, bytes]:
    """Return the values of the common varbinds, in their order."""
    return {
        NotificationObject.ID: text(notification.event_id),
        NotificationObject.SEVERITY: SEVERITIES[notification.severity],
        NotificationObject.TIME: known_time(notification.time) or _UNKNOWN_TIME,
        NotificationObject.SOURCE: text(notification.source),
        NotificationObject.CLASS: text(notification.class_name),
        NotificationObject.OBJECT_NAME: text(notification.object_name),
        NotificationObject.ROW: ber.encode_oid(notification.row),
        NotificationObject.TEXT: text(notification.text),
        NotificationObject.STATE: CONDITION_STATES[notification.state],
        NotificationObject.CONDITION: text(notification.condition),
    }


@lru_cache(maxsize=1024)  # of kinds of events and of their arguments there are few
def _encoded_name(name: Oid) -> bytes:
    return ber.encode_name(name)


@lru_cache(maxsize=1024)
def _encoded_oid(oid: Oid) -> bytes:
    return ber.encode_oid(oid)


def _fitting(own: Sequence[bytes], common: Sequence[bytes], room: int) -> bytes:
    """Return as many of ``own``, from the first on, as there is room for after ``common``."""
    room -= sum(map(len, common))
    fitting = []
    for varbind in own:
        room -= len(varbind)
        if room < 0:
            break
        fitting.append(varbind)
    return b"".join(fitting)


def _shortened(value: bytes, octets: int) -> bytes:
    """Return the text ``value`` (a TLV), ``octets`` shorter or empty."""
    _, start, stop = ber.read_header(value, 0, len(value))
    return text(value[start:stop].decode("utf-8"), max(0, stop - start - octets))
