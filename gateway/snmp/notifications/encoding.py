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

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from gateway.model.times import MILLISECOND
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import CONDITION_STATES, SEVERITIES, date_and_time, known_time, text, truth
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

_Value = TypeVar("_Value")
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
_TENTH: Final = 100 * MILLISECOND
_SHORT: Final = 0x80
_ROW_INDEX: Final = 2  # source and row, which differ where the names of rows of one class do
_REMEMBERED: Final = 1024
_UP_TIME_NAME: Final = ber.encode_name(SYS_UP_TIME)
_TRAP_OID_NAME: Final = ber.encode_name(SNMP_TRAP_OID)
_ENTERPRISE_NAME: Final = ber.encode_name(SNMP_TRAP_ENTERPRISE)
_NO_ERROR: Final = 2 * ber.encode_integer(0)


class Version1Fields(NamedTuple):
    """A Trap-PDU of version 1 without agent-addr, which differs by path; all fields are TLVs."""

    enterprise: bytes
    generic_specific_time: bytes
    varbinds: bytes


class _Kind(NamedTuple):
    """What all notifications of one snmpTrapOID.0 share: ``trap_oid`` and ``last`` are encoded varbinds."""

    oid: Oid
    trap_oid: bytes
    last: bytes
    room: int


class EncodedNotification:
    """The octets of a notification that all its receivers share; each version is made at its first use.

    Args:
        kind: what all notifications of its snmpTrapOID.0 share.
        up_time: sysUpTime when it was generated, hundredths of a second.
        objects: its varbinds after the first two, encoded.
        enterprise: the TLV of sysObjectID, which standard notifications carry.
    """

    __slots__ = ("_enterprise", "_kind", "_objects", "_up_time", "_version_1", "_version_2c")

    def __init__(self, kind: _Kind, up_time: int, objects: bytes, enterprise: bytes) -> None:
        self._kind = kind
        self._up_time = up_time
        self._objects = objects
        self._enterprise = enterprise
        self._version_1: Version1Fields | None = None
        self._version_2c: bytes | None = None

    def version_2c(self) -> bytes:
        """Return the TLV of the variable bindings of an SNMPv2-Trap-PDU or InformRequest-PDU."""
        if self._version_2c is None:
            kind = self._kind
            varbinds = _up_time_varbind(self._up_time) + kind.trap_oid + self._objects + kind.last
            self._version_2c = ber.encode_tlv(ber.SEQUENCE, varbinds)
        return self._version_2c

    def version_1(self) -> Version1Fields:
        """Return the version 1 fields (RFC 3584 section 3.2). No varbind may be a Counter64, and none is."""
        if self._version_1 is None:
            oid = self._kind.oid
            if oid in STANDARD_NOTIFICATIONS:
                enterprise, generic, specific = self._enterprise, oid[len(SNMP_TRAPS)] - 1, 0
            else:
                generic, specific = _ENTERPRISE_SPECIFIC, oid[-1]
                # RFC 3584 section 3.2, point (1): a zero before the last sub-identifier is not part of the
                # enterprise.
                enterprise = ber.encode_oid(oid[:-2] if oid[-2] == 0 else oid[:-1])
            up_time = ber.encode_time_ticks(self._up_time)
            numbers = ber.encode_integer(generic) + ber.encode_integer(specific) + up_time
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
        # A notification is mostly made of octets that others had before it: what differs is put between them.
        heads = {number: _text_heads(name) for number, name in self._names.items()}
        self._id_heads, self._text_heads = heads[NotificationObject.ID], heads[NotificationObject.TEXT]
        self._object_name_heads = heads[NotificationObject.OBJECT_NAME]
        self._condition_heads = heads[NotificationObject.CONDITION]
        self._severities = self._varbinds(NotificationObject.SEVERITY, SEVERITIES)
        self._states = self._varbinds(NotificationObject.STATE, CONDITION_STATES)
        self._time = lru_cache(maxsize=16)(self._time_varbind)
        self._row_head = lru_cache(maxsize=_REMEMBERED)(self._row_varbind_head)
        self._source_and_class = lru_cache(maxsize=_REMEMBERED)(self._source_and_class_varbinds)
        self._kind = lru_cache(maxsize=_REMEMBERED)(self._kind_of)

    def encode(self, notification: Notification, up_time: int) -> EncodedNotification:
        """Return the octets of ``notification``, generated at ``up_time`` (sysUpTime).

        Raises ``ValueError`` for an object identifier or a value that BER cannot express.
        """
        kind = self._kind(notification.oid)
        late = self._late if notification.is_late else b""
        octets = b"".join(
            (
                self._text(NotificationObject.ID, self._id_heads, notification.event_id),
                self._severities[notification.severity],
                self._time(notification.time // _TENTH if notification.time else None),
                self._source_and_class(notification.source, notification.class_name),
                self._text(NotificationObject.OBJECT_NAME, self._object_name_heads, notification.object_name),
                self._row(notification.row),
                self._text(NotificationObject.TEXT, self._text_heads, notification.text),
                self._states[notification.state],
                self._text(NotificationObject.CONDITION, self._condition_heads, notification.condition),
                *[_varbind_head(name, len(value)) + value for name, value in notification.arguments],
            )
        )
        room = kind.room - len(late)
        if len(octets) > room:
            octets = self._cut(notification, room)
        # Late is behind all others: receivers match varbinds by their places.
        return EncodedNotification(kind, up_time, octets + late, self._enterprise)

    def late(self, varbinds: bytes) -> bytes:
        """Return the TLV of variable bindings, marked as sent late."""
        _, start, stop = ber.read_header(varbinds, 0, len(varbinds))
        content = varbinds[start:stop]
        return (
            # An inform may outlive several restarts, and gets the varbind once.
            varbinds if content.endswith(self._late) else ber.encode_tlv(ber.SEQUENCE, content + self._late)
        )

    def _kind_of(self, oid: Oid) -> _Kind:
        encoded = ber.encode_oid(oid)
        is_standard = oid in STANDARD_NOTIFICATIONS
        room = (self._standard_room if is_standard else self._room) - _TRAP_OID_OVERHEAD - len(encoded)
        # As net-snmp's agent does: without it a proxy to version 1 cannot name the enterprise.
        last = ber.encode_varbind(_ENTERPRISE_NAME, self._enterprise) if is_standard else b""
        return _Kind(oid, ber.encode_varbind(_TRAP_OID_NAME, encoded), last, room)

    def _varbinds(self, number: NotificationObject, values: Mapping[_Value, bytes]) -> Mapping[_Value, bytes]:
        return {value: ber.encode_varbind(self._names[number], tlv) for value, tlv in values.items()}

    def _text(self, number: NotificationObject, heads: Sequence[bytes], value: str) -> bytes:
        octets = value.encode("utf-8", "replace")
        if len(octets) < len(heads):
            return heads[len(octets)] + octets
        return ber.encode_varbind(self._names[number], text(value))

    def _time_varbind(self, tenths: int | None) -> bytes:
        known = None if tenths is None else date_and_time(tenths * _TENTH)
        return ber.encode_varbind(self._names[NotificationObject.TIME], known or _UNKNOWN_TIME)

    def _source_and_class_varbinds(self, source: str, class_name: str) -> bytes:
        return ber.encode_varbind(self._names[NotificationObject.SOURCE], text(source)) + ber.encode_varbind(
            self._names[NotificationObject.CLASS], text(class_name)
        )

    def _row(self, row: Oid) -> bytes:
        length = len(row)
        if not 2 * _ROW_INDEX <= length <= ber.MAX_SUB_IDENTIFIERS:
            return ber.encode_varbind(self._names[NotificationObject.ROW], ber.encode_oid(row))
        index = ber.encode_sub_identifiers(row[-_ROW_INDEX:])
        return self._row_head(row[:-_ROW_INDEX], len(index)) + index

    def _row_varbind_head(self, column: Oid, index_octets: int) -> bytes:
        """Return all of the varbind of a row but the octets of its index."""
        name = ber.encode_name(column) + bytes(index_octets)
        whole = ber.encode_varbind(
            self._names[NotificationObject.ROW], ber.encode_tlv(ber.OBJECT_IDENTIFIER, name)
        )
        return whole[: len(whole) - index_octets]

    def _cut(self, notification: Notification, room: int) -> bytes:
        """Return the varbinds of a notification, all but the last one, cut to ``room``."""
        values = _common_values(notification)
        common = [ber.encode_varbind(self._names[number], value) for number, value in values.items()]
        own = [_varbind_head(name, len(value)) + value for name, value in notification.arguments]
        return self._cut_common(values, room) or b"".join(common) + _fitting(own, common, room)

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
    return _message_v2c(TRAP_V2, community, request_id, varbinds)


def inform_v2c(community: bytes, request_id: int, varbinds: bytes) -> bytes:
    """Return a version 2c inform; the receiver answers with the same ``request_id``."""
    return _message_v2c(INFORM, community, request_id, varbinds)


def _message_v2c(pdu_type: int, community: bytes, request_id: int, varbinds: bytes) -> bytes:
    """Return a message of version 2c, for which the varbinds are copied once only."""
    beginning = _preamble_v2c(community)
    numbers = ber.encode_integer(request_id) + _NO_ERROR
    octets = len(numbers) + len(varbinds)
    pdu_head = ber.encode_head(pdu_type, octets)
    octets += len(beginning) + len(pdu_head)
    return b"".join((ber.encode_head(ber.SEQUENCE, octets), beginning, pdu_head, numbers, varbinds))


@lru_cache(maxsize=_REMEMBERED)
def _preamble_v2c(community: bytes) -> bytes:
    return preamble(VERSION_2C, community)


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


@lru_cache(maxsize=4)  # many notifications are made in a hundredth of a second
def _up_time_varbind(up_time: int) -> bytes:
    return ber.encode_varbind(_UP_TIME_NAME, ber.encode_time_ticks(up_time))


@lru_cache(maxsize=4 * _REMEMBERED)  # of arguments there are few, and most values are short
def _varbind_head(name: Oid, value_octets: int) -> bytes:
    """Return all of a varbind but its value, a TLV of so many octets."""
    whole = ber.encode_varbind(ber.encode_name(name), bytes(value_octets))
    return whole[: len(whole) - value_octets]


def _text_heads(name: bytes) -> tuple[bytes, ...]:
    """Return, by the length of a text, all of its varbind but the text itself: of those in short form."""
    beside = len(name) + 4  # the tags and lengths of name and text
    return tuple(
        bytes((ber.SEQUENCE, beside + octets, ber.OBJECT_IDENTIFIER, len(name)))
        + name
        + bytes((ber.OCTET_STRING, octets))
        for octets in range(max(0, _SHORT - beside))
    )


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
