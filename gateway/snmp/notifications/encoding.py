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

from gateway.escapes import escaped, printable
from gateway.model.times import MILLISECOND
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import (
    CONDITION_STATES,
    SEVERITIES,
    cut_text,
    date_and_time,
    known_time,
    line,
    text,
    truth,
)
from gateway.snmp.fixed_mib import COMMON_OBJECTS, NOTIFICATION_OBJECTS, NotificationObject
from gateway.snmp.message import (
    INFORM,
    MAX_COMMUNITY_OCTETS,
    TRAP_V1,
    TRAP_V2,
    VERSION_1,
    VERSION_2C,
    preamble,
)
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


class Kind(NamedTuple):
    """What all notifications of one snmpTrapOID.0 share: ``trap_oid`` and ``last`` are encoded varbinds."""

    trap_oid: bytes
    last: bytes
    room: int


class EncodedNotification:
    """A notification as octets, which its receivers and the log share; it is encoded at the first use.

    Args:
        encoder: encodes it; what it is made of is forgotten then.
        notification: the notification.
        up_time: sysUpTime when it was generated, hundredths of a second.

    Attributes:
        oid: its snmpTrapOID.0.
        up_time: as above.
    """

    __slots__ = ("_encoder", "_notification", "_objects", "_version_1", "_version_2c", "oid", "up_time")

    def __init__(self, encoder: NotificationEncoder, notification: Notification, up_time: int) -> None:
        self.oid = notification.oid
        self.up_time = up_time
        self._encoder = encoder
        self._notification: Notification | None = notification
        self._objects: bytes | None = None
        self._version_1: Version1Fields | None = None
        self._version_2c: bytes | None = None

    @property
    def is_encoded(self) -> bool:
        """Whether `objects` was called."""
        return self._notification is None

    def objects(self) -> bytes:
        """Return the varbinds after sysUpTime.0 and snmpTrapOID.0, but snmpTrapEnterprise.0.

        Raises ``ValueError`` for an object identifier or a value that BER cannot express.
        """
        notification, self._notification = self._notification, None
        if notification is not None:
            self._objects = self._encoder.objects(notification)
        if self._objects is None:
            raise ValueError("BER cannot express this notification")
        return self._objects

    def version_2c(self) -> bytes:
        """Return the TLV of the variable bindings of an SNMPv2-Trap-PDU or InformRequest-PDU.

        Raises ``ValueError`` as `objects`.
        """
        if self._version_2c is None:
            kind = self._encoder.kind(self.oid)
            up_time, objects = _up_time_varbind(self.up_time), self.objects()
            octets = len(up_time) + len(kind.trap_oid) + len(objects) + len(kind.last)
            self._version_2c = b"".join(
                (ber.encode_head(ber.SEQUENCE, octets), up_time, kind.trap_oid, objects, kind.last)
            )
        return self._version_2c

    def version_1(self) -> Version1Fields:
        """Return the version 1 fields (RFC 3584 section 3.2). No varbind may be a Counter64, and none is.

        Raises ``ValueError`` as `objects`.
        """
        if self._version_1 is None:
            oid = self.oid
            if oid in STANDARD_NOTIFICATIONS:
                enterprise, generic, specific = self._encoder.enterprise, oid[len(SNMP_TRAPS)] - 1, 0
            else:
                generic, specific = _ENTERPRISE_SPECIFIC, oid[-1]
                # RFC 3584 section 3.2, point (1): a zero before the last sub-identifier is not part of the
                # enterprise.
                enterprise = ber.encode_oid(oid[:-2] if oid[-2] == 0 else oid[:-1])
            up_time = ber.encode_time_ticks(self.up_time)
            numbers = ber.encode_integer(generic) + ber.encode_integer(specific) + up_time
            self._version_1 = Version1Fields(
                enterprise, numbers, ber.encode_tlv(ber.SEQUENCE, self.objects())
            )
        return self._version_1


class NotificationEncoder:
    """The encoder of notifications.

    Args:
        root: the configured root, below which the common varbinds are.
        enterprise: sysObjectID.
        community_octets: the length of the longest community of a receiver.

    Attributes:
        enterprise: the TLV of sysObjectID, which standard notifications carry.
        kind: returns what all notifications of one snmpTrapOID.0 share.
    """

    def __init__(self, root: Oid, enterprise: Oid, community_octets: int = MAX_COMMUNITY_OCTETS) -> None:
        self.enterprise = ber.encode_oid(enterprise)
        self._room = MAX_DATAGRAM_OCTETS - _OVERHEAD - 4 - community_octets
        self._standard_room = self._room - _ENTERPRISE_OVERHEAD - len(self.enterprise)
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
        self._row = ber.varbind_encoder(self._names[NotificationObject.ROW])
        self._source_and_class = lru_cache(maxsize=_REMEMBERED)(self._source_and_class_varbinds)
        self.kind = lru_cache(maxsize=_REMEMBERED)(self._kind_of)

    def objects(self, notification: Notification) -> bytes:
        """See `EncodedNotification.objects`."""
        kind = self.kind(notification.oid)
        late = self._late if notification.is_late else b""
        octets = b"".join(
            (
                self._text(NotificationObject.ID, self._id_heads, escaped(notification.event_id)),
                self._severities[notification.severity],
                self._time(notification.time // _TENTH if notification.time else None),
                self._source_and_class(notification.source, notification.class_name),
                self._text(
                    NotificationObject.OBJECT_NAME, self._object_name_heads, escaped(notification.object_name)
                ),
                self._row(notification.row),
                self._text(NotificationObject.TEXT, self._text_heads, printable(notification.text)),
                self._states[notification.state],
                self._text(
                    NotificationObject.CONDITION, self._condition_heads, escaped(notification.condition)
                ),
                *notification.arguments,
            )
        )
        room = kind.room - len(late)
        if len(octets) > room:
            octets = self._cut(notification, room)
        # Late is behind all others: receivers match varbinds by their places.
        return octets + late

    def late(self, varbinds: bytes) -> bytes:
        """Return the TLV of variable bindings, marked as sent late."""
        _, start, stop = ber.read_header(varbinds, 0, len(varbinds))
        content = varbinds[start:stop]
        return (
            # An inform may outlive several restarts, and gets the varbind once.
            varbinds if content.endswith(self._late) else ber.encode_tlv(ber.SEQUENCE, content + self._late)
        )

    def _kind_of(self, oid: Oid) -> Kind:
        encoded = ber.encode_oid(oid)
        is_standard = oid in STANDARD_NOTIFICATIONS
        room = (self._standard_room if is_standard else self._room) - _TRAP_OID_OVERHEAD - len(encoded)
        # As net-snmp's agent does: without it a proxy to version 1 cannot name the enterprise.
        last = ber.encode_varbind(_ENTERPRISE_NAME, self.enterprise) if is_standard else b""
        return Kind(ber.encode_varbind(_TRAP_OID_NAME, encoded), last, room)

    def _varbinds(self, number: NotificationObject, values: Mapping[_Value, bytes]) -> Mapping[_Value, bytes]:
        return {value: ber.encode_varbind(self._names[number], tlv) for value, tlv in values.items()}

    def _text(self, number: NotificationObject, heads: Sequence[bytes], displayed: str) -> bytes:
        octets = displayed.encode()
        if len(octets) < len(heads):
            return heads[len(octets)] + octets
        return ber.encode_varbind(self._names[number], cut_text(octets))

    def _time_varbind(self, tenths: int | None) -> bytes:
        known = None if tenths is None else date_and_time(tenths * _TENTH)
        return ber.encode_varbind(self._names[NotificationObject.TIME], known or _UNKNOWN_TIME)

    def _source_and_class_varbinds(self, source: str, class_name: str) -> bytes:
        return ber.encode_varbind(self._names[NotificationObject.SOURCE], text(source)) + ber.encode_varbind(
            self._names[NotificationObject.CLASS], text(class_name)
        )

    def _cut(self, notification: Notification, room: int) -> bytes:
        """Return the varbinds of a notification, all but the last one, cut to ``room``."""
        values = _common_values(notification)
        common = [ber.encode_varbind(self._names[number], value) for number, value in values.items()]
        own = _fitting(notification.arguments, common, room)
        return self._cut_common(values, room) or b"".join(common) + own

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
        NotificationObject.ROW: notification.row,
        NotificationObject.TEXT: line(notification.text),
        NotificationObject.STATE: CONDITION_STATES[notification.state],
        NotificationObject.CONDITION: text(notification.condition),
    }


@lru_cache(maxsize=4)  # many notifications are made in a hundredth of a second
def _up_time_varbind(up_time: int) -> bytes:
    return ber.encode_varbind(_UP_TIME_NAME, ber.encode_time_ticks(up_time))


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
    return cut_text(value[start:stop], max(0, stop - start - octets))
