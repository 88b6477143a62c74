"""The octets of traps and informs, and the truncation of those that would be too long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.model.observations import EventState, Severity
from gateway.snmp import ber, message
from gateway.snmp.ber import NO_ROW, Oid
from gateway.snmp.cells import text
from gateway.snmp.fixed_mib import COMMON_OBJECTS, NOTIFICATION_OBJECTS, NotificationObject
from gateway.snmp.notifications.encoding import (
    MAX_DATAGRAM_OCTETS,
    EncodedNotification,
    NotificationEncoder,
    inform_v2c,
    trap_v1,
    trap_v2c,
)
from gateway.snmp.notifications.notification import (
    AUTHENTICATION_FAILURE,
    COLD_START,
    SNMP_TRAP_ENTERPRISE,
    Notification,
)
from tests.snmp.datagrams import read_varbinds, varbind
from tests.snmp.notifications.story import ROOT, event, read

SHORT_ROOT: Oid = (1, 3, 9)
ENTERPRISE: Oid = (1, 3, 9, 1)
LONGEST_ROOT: Oid = (2, 999, *(2**32 - 1 for _ in range(39)))
HOST = bytes((192, 0, 2, 99))

SMALL = Notification(
    oid=(1, 3, 9, 2, 1, 0, 5),
    name="shop:tillClosed",
    number=3,
    epoch=7,
    event_id="u.7.3",
    severity=Severity.MAJOR,
    time=1_700_000_000_200_000_000,
    source="s",
    class_name="shop:till",
    object_name="t",
    row=ber.encode_oid((1, 3, 9, 4)),
    text="closed",
    state=EventState.RAISED,
    condition="c",
    arguments=(varbind((1, 3, 9, 2, 1, 1, 1000, 1, 0), b"\x02\x01\x2a"),),
)

# Written by hand from RFC 3416 and AMQP-GATEWAY-MIB: the ten common objects below 1.3.9.1.1.11, one argument.
OBJECTS = bytes.fromhex(
    "3010 0607 2b0901010b0100 0405 752e372e33"  # u.7.3
    "300c 0607 2b0901010b0200 020104"  # major(4)
    "3016 0607 2b0901010b0300 040b 07e70b0e160d14022b0000"  # 2023-11-14,22:13:20.2,+0:0
    "300c 0607 2b0901010b0400 040173"  # s
    "3014 0607 2b0901010b0500 0409 73686f703a74696c6c"  # shop:till
    "300c 0607 2b0901010b0600 040174"  # t
    "300e 0607 2b0901010b0700 0603 2b0904"  # 1.3.9.4
    "3011 0607 2b0901010b0800 0406 636c6f736564"  # closed
    "300c 0607 2b0901010b0900 020101"  # raised(1)
    "300c 0607 2b0901010b0a00 040163"  # c
    "300e 0609 2b0902010187680100 02012a"  # 1.3.9.2.1.1.1000.1.0 = 42
)
UP_TIME = bytes.fromhex("300e 0608 2b06010201010300 43020bb8")
TRAP_OID = bytes.fromhex("3014 060a 2b060106030101040100 0606 2b0902010005")


def encoded(
    notification: Notification = SMALL, up_time: int = 3000, root: Oid = SHORT_ROOT
) -> EncodedNotification:
    return EncodedNotification(NotificationEncoder(root, ENTERPRISE), notification, up_time)


def tlv(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    octets = bytes((length,)) if length < 128 else bytes((0x81, length)) if length < 256 else b""
    return bytes((tag,)) + (octets or bytes((0x82,)) + length.to_bytes(2, "big")) + content


def test_a_version_2c_trap_octet_by_octet() -> None:
    datagram = trap_v2c(b"public", 77, encoded().version_2c())
    numbers = bytes.fromhex("02014d 020100 020100")
    pdu = tlv(0xA7, numbers, tlv(0x30, UP_TIME, TRAP_OID, OBJECTS))
    assert datagram == tlv(0x30, b"\x02\x01\x01", b"\x04\x06public", pdu)


def test_an_inform_differs_from_it_by_its_tag_only() -> None:
    varbinds = encoded().version_2c()
    trap, inform = trap_v2c(b"public", 77, varbinds), inform_v2c(b"public", 77, varbinds)
    assert trap.replace(b"\x04\x06public\xa7", b"\x04\x06public\xa6") == inform


def test_a_version_1_trap_octet_by_octet() -> None:
    datagram = trap_v1(b"public", HOST, encoded().version_1())
    # RFC 3584 section 3.2: the arc before the last is 0, so both are no part of the enterprise.
    enterprise = bytes.fromhex("0604 2b090201")
    head = enterprise + b"\x40\x04" + HOST + bytes.fromhex("020106 020105 43020bb8")
    pdu = tlv(0xA4, head, tlv(0x30, OBJECTS))
    assert datagram == tlv(0x30, b"\x02\x01\x00", b"\x04\x06public", pdu)


def test_without_a_zero_before_the_last_arc_the_enterprise_is_all_but_that() -> None:
    fields = encoded(event(oid=(1, 3, 9, 2, 1, 3, 5))).version_1()
    assert fields.enterprise == ber.encode_oid((1, 3, 9, 2, 1, 3))
    assert fields.generic_specific_time.startswith(bytes.fromhex("020106 020105"))


def test_a_standard_notification_is_a_generic_trap_of_our_enterprise() -> None:
    cold = encoded(event(oid=COLD_START)).version_1()
    assert cold.enterprise == ber.encode_oid(ENTERPRISE)
    assert cold.generic_specific_time.startswith(bytes.fromhex("020100 020100"))
    failure = encoded(event(oid=AUTHENTICATION_FAILURE)).version_1()
    assert failure.generic_specific_time.startswith(bytes.fromhex("020104 020100"))


def test_a_standard_notification_names_its_enterprise_last_in_version_2c() -> None:
    trap = read(trap_v2c(b"", 1, encoded(event(oid=COLD_START)).version_2c()))
    assert trap.oid == COLD_START
    assert list(trap.values.items())[-1] == (SNMP_TRAP_ENTERPRISE, ber.encode_oid(ENTERPRISE))


def test_a_time_that_is_not_known_is_eight_zeros() -> None:
    unknown = read(trap_v2c(b"", 1, encoded(event(time=0), root=ROOT).version_2c()))
    assert unknown.content(NotificationObject.TIME) == bytes(8)
    beyond = read(trap_v2c(b"", 1, encoded(event(time=2**70), root=ROOT).version_2c()))
    assert beyond.content(NotificationObject.TIME) == bytes(8)


# ---- cutting ------------------------------------------------------------------------------------------


def arguments(*sizes: int) -> tuple[bytes, ...]:
    return tuple(
        varbind((*ROOT, 2, 1, 1, 1000, number, 0), ber.encode_octets(b"x" * size))
        for number, size in enumerate(sizes, 1)
    )


def sent(notification: Notification, root: Oid = ROOT) -> dict[Oid, bytes]:
    """Return the varbinds that arrive, after the first two, with the longest community."""
    varbinds = encoded(notification, 2**32 - 1, root).version_2c()
    datagram = inform_v2c(b"c" * message.MAX_COMMUNITY_OCTETS, 2**31 - 1, varbinds)
    assert len(datagram) <= MAX_DATAGRAM_OCTETS
    return dict(list(read(datagram).values.items())[2:])


def common(number: NotificationObject, root: Oid = ROOT) -> Oid:
    return (*root, *NOTIFICATION_OBJECTS, number, 0)


def test_arguments_are_left_out_from_the_last_one_on() -> None:
    varbinds = sent(event(arguments=arguments(300, 200, 300, 1)))
    assert list(varbinds)[10:] == [name for name, _ in read_varbinds(arguments(300, 200))]
    assert varbinds[common(NotificationObject.TEXT)] == text(event().text)


def test_then_the_text_is_shortened_at_the_end_of_a_character() -> None:
    long = event(
        text="\u20ac" * 85, object_name="o" * 255, class_name="k" * 60, condition="c" * 255, source="s" * 64
    )
    varbinds = sent(long)
    shortened = varbinds[common(NotificationObject.TEXT)][2:]
    assert 0 < len(shortened) < 255
    assert shortened.decode() == "\u20ac" * (len(shortened) // 3)
    assert varbinds[common(NotificationObject.OBJECT_NAME)].endswith(b"o" * 255)
    assert varbinds[common(NotificationObject.CONDITION)].endswith(b"c" * 255)


def test_below_the_longest_root_only_what_distinguishes_events_is_left() -> None:
    long = event(text="t" * 255, object_name="o" * 255, condition="c" * 255)
    left = [name[-2] for name in sent(long, LONGEST_ROOT)]
    assert left[:2] == [NotificationObject.ID, NotificationObject.SEVERITY]
    assert left == sorted(left)
    assert len(left) < len(COMMON_OBJECTS)


texts = st.text(max_size=300)


@given(
    st.builds(
        Notification,
        oid=st.sampled_from([SMALL.oid, COLD_START]),
        name=st.just("a:b"),
        number=st.just(1),
        epoch=st.just(1),
        event_id=st.text(max_size=60),
        severity=st.sampled_from(Severity),
        time=st.integers(),
        source=texts,
        class_name=texts,
        object_name=texts,
        row=st.sampled_from([NO_ROW, (*ROOT, 2, 1, 1, 2, 1, 2, 1, 7), LONGEST_ROOT]).map(ber.encode_oid),
        text=texts,
        state=st.sampled_from(EventState),
        condition=texts,
        arguments=st.lists(st.integers(0, 1000), max_size=8).map(lambda sizes: arguments(*sizes)),
    ),
    st.sampled_from([SHORT_ROOT, ROOT, LONGEST_ROOT]),
)
def test_every_notification_fits_into_a_datagram_and_is_distinguishable(
    notification: Notification, root: Oid
) -> None:
    varbinds = list(sent(notification, root).items())
    assert varbinds[0] == (common(NotificationObject.ID, root), text(notification.event_id))
    assert varbinds[1][0] == common(NotificationObject.SEVERITY, root)
    fields = encoded(notification, 0, root).version_1()
    datagram = trap_v1(b"c" * message.MAX_COMMUNITY_OCTETS, HOST, fields)
    assert len(datagram) <= MAX_DATAGRAM_OCTETS
    assert message.read_message(datagram).pdu_type == message.TRAP_V1
