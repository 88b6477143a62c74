"""Conversion of events of the feed into notifications."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.records import EventsMadeRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.own_events import OWN_EVENTS
from gateway.mapping.files import event_schemas, load_mapping
from gateway.model.observations import EventState, Severity
from gateway.model.schema import Argument, ClassKey, EventSchema, NamedValue
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.cells import date_and_time
from gateway.snmp.fixed_mib import (
    HEALTH,
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    Health,
    NotificationObject,
    OwnNotification,
    SourceStateNumber,
)
from gateway.snmp.notifications.bound_events import NO_POINTER, bind_event, bind_own_event
from gateway.snmp.notifications.notification import Notification
from gateway.snmp.oid_registry import parse_registry, read_registry
from gateway.snmp.registry_files import registry_text
from gateway.snmp.row_columns import RowColumn
from tests.components.shop import START, agent, hall, source
from tests.snmp.datagrams import read_varbinds, varbind
from tests.snmp.mib.shop import (
    ARGUMENTS,
    ROOT,
    TILL_CLOSED,
    TILL_CLOSED_OID,
    TILL_ENTRY,
    Gateway,
    classes,
    delete,
    event,
    event_class,
    link,
    till,
)

DATA = Path(__file__).parents[2] / "data" / "snmp_mib"
EMPTY = ber.encode_octets(b"")
TILL_ROW = (*TILL_ENTRY, RowColumn.NAME, 1, 1)


def text(value: str) -> bytes:
    return ber.encode_octets(value.encode())


@pytest.fixture
def gateway() -> Gateway:
    """Return a gateway with one source, synchronised, with a hall and a till."""
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), event_class(), agent(fresh=True), hall(), till(1))
    return gateway


def own(number: NotificationObject) -> ber.Oid:
    return (*ROOT, *NOTIFICATION_OBJECTS, number, 0)


def test_an_event_becomes_a_notification_with_every_argument_in_its_place(gateway: Gateway) -> None:
    gateway.publish(event(7))
    assert gateway.notified == [
        Notification(
            oid=TILL_CLOSED_OID,
            name="shop:tillClosed",
            number=7,
            epoch=1,
            event_id="7b0c.1.7",
            severity=Severity.WARNING,
            time=START,
            source="shop1",
            class_name="shop:till",
            object_name="hall1/till1",
            row=ber.encode_oid(TILL_ROW),
            text="till1 was closed",
            state=EventState.ONE_SHOT,
            condition="",
            arguments=(
                varbind((*ARGUMENTS, 1, 0), ber.encode_oid(TILL_ROW)),
                varbind((*ARGUMENTS, 2, 0), text("hall1/till1")),
                varbind((*ARGUMENTS, 3, 0), text("Ann")),
                varbind((*ARGUMENTS, 4, 0), text(str(2**63))),
                varbind((*ARGUMENTS, 5, 0), ber.encode_gauge32(4)),
            ),
            types=1 << ber.OBJECT_IDENTIFIER | 1 << ber.OCTET_STRING | 1 << ber.GAUGE32,
            received=gateway.notified[0].received,
        )
    ]


def test_arguments_that_are_absent_keep_their_places(gateway: Gateway) -> None:
    gateway.publish(msgspec.structs.replace(event(7, {}), subject=None))
    (notification,) = gateway.notified
    assert [value for _, value in read_varbinds(notification.arguments)] == [
        NO_POINTER,
        EMPTY,
        EMPTY,
        EMPTY,
        ber.encode_gauge32(0),
    ]
    assert (notification.class_name, notification.object_name, notification.row) == ("", "", NO_POINTER)


def test_a_condition_travels_with_its_state(gateway: Gateway) -> None:
    gateway.publish(msgspec.structs.replace(event(7), state=EventState.RAISED, condition="closed till1"))
    (notification,) = gateway.notified
    assert (notification.state, notification.condition) == (EventState.RAISED, "closed till1")


def test_the_row_of_an_object_that_is_gone_is_still_named(gateway: Gateway) -> None:
    gateway.publish(delete(1), event(7))
    assert gateway.notified[0].row == ber.encode_oid(TILL_ROW)


@pytest.mark.parametrize(
    "subject", [ObjectLink("shop:till", 0, "hall1/till1"), ObjectLink("street:house", 4, "number 4")]
)
def test_an_object_without_a_row_is_reported_by_its_name(gateway: Gateway, subject: ObjectLink) -> None:
    gateway.publish(msgspec.structs.replace(event(7, {0: subject}), subject=subject))
    (notification,) = gateway.notified
    assert (notification.object_name, notification.row) == (subject.stable_name, NO_POINTER)
    assert read_varbinds(notification.arguments[:2]) == [
        ((*ARGUMENTS, 1, 0), NO_POINTER),
        ((*ARGUMENTS, 2, 0), text(subject.stable_name)),
    ]


def test_what_a_snapshot_reports_again_is_given_again_with_the_same_number(gateway: Gateway) -> None:
    gateway.publish(event(7))
    gateway.snapshot(source(), *classes(), event_class(), agent(fresh=True), hall(), till(1), event(7))
    assert [(n.epoch, n.number) for n in gateway.notified] == [(1, 7), (1, 7)]


def test_a_new_core_numbers_events_again(gateway: Gateway) -> None:
    gateway.hello(epoch=2)
    gateway.publish(event(1))
    assert gateway.notified == []
    gateway.snapshot(source(), event_class(number=3), event(1, class_number=3))
    assert [(n.epoch, n.number) for n in gateway.notified] == [(2, 1)]


def test_an_event_that_was_not_reported_is_counted(gateway: Gateway) -> None:
    gateway.publish(event(1, class_number=77))
    assert gateway.notified == []
    assert gateway.cell((*ROOT, *HEALTH), Health.FEED_REFUSED, 0) == ber.encode_counter64(1)


def test_without_receivers_events_are_passed_over() -> None:
    gateway = Gateway(with_receivers=False)
    gateway.hello()
    gateway.snapshot(source(), event_class(), event(1))
    assert gateway.notified == []


# ---- events of the gateway itself ------------------------------------------------------------------------


@pytest.mark.parametrize("schema", OWN_EVENTS, ids=lambda schema: schema.key.name)
def test_every_event_of_the_gateway_itself_has_its_notification(schema: EventSchema) -> None:
    bound = bind_own_event(schema, ROOT)
    assert bound is not None
    assert bound.not_shown == ()
    assert [position for position, _ in bound.encoders] == list(range(len(schema.arguments)))


@pytest.mark.parametrize(
    ("name", "values", "number", "arguments"),
    [
        (
            "sourceDown",
            {0: "down", 1: "connection refused"},
            OwnNotification.SOURCE_DOWN,
            {
                NotificationObject.SOURCE_STATE: ber.encode_integer(SourceStateNumber.DOWN),
                NotificationObject.SOURCE_DETAIL: text("connection refused"),
            },
        ),
        (
            "sourceUp",
            {0: "happy"},
            OwnNotification.SOURCE_UP,
            {
                NotificationObject.SOURCE_STATE: ber.encode_integer(SourceStateNumber.UNKNOWN),
                NotificationObject.SOURCE_DETAIL: EMPTY,
            },
        ),
        ("alarmRaised", {0: "fire"}, OwnNotification.ALARM_RAISED, {NotificationObject.ALARM: text("fire")}),
        ("alarmCleared", {}, OwnNotification.ALARM_CLEARED, {NotificationObject.ALARM: EMPTY}),
        (
            "gap",
            {0: START, 2: "the line was cut"},
            OwnNotification.GAP,
            {
                NotificationObject.GAP_START: date_and_time(START),
                NotificationObject.GAP_END: ber.encode_octets(bytes(8)),
                NotificationObject.GAP_REASON: text("the line was cut"),
            },
        ),
    ],
)
def test_the_gateways_own_events_have_the_numbers_of_the_fixed_module(
    gateway: Gateway,
    name: str,
    values: dict[int, FeedValue],
    number: OwnNotification,
    arguments: dict[NotificationObject, bytes],
) -> None:
    (schema,) = (schema for schema in OWN_EVENTS if schema.key.name == name)
    gateway.publish(event_class(schema, 60), event(8, values, class_number=60))
    (notification,) = gateway.notified
    assert notification.oid == (*ROOT, *NOTIFICATIONS, number)
    assert notification.name == f"gateway:{name}"
    assert dict(read_varbinds(notification.arguments)) == {
        own(object_): value for object_, value in arguments.items()
    }
    assert gateway.logged == []


def test_an_event_that_the_fixed_module_lacks_is_provisional(gateway: Gateway) -> None:
    gateway.publish(event_class(EventSchema(ClassKey("gateway", "moved")), 60), event(8, class_number=60))
    assert gateway.notified[0].oid == (*ROOT, 3, 0, 1)


# ---- events that no shipped registry knows --------------------------------------------------------------

BARK = EventSchema(ClassKey("zoo", "bark"), (Argument("dog", ValueType.STRING),))


def test_an_unknown_event_gets_a_provisional_number_and_the_registry_is_kept(gateway: Gateway) -> None:
    gateway.publish(event_class(BARK, 60), event(8, {0: "Rex"}, class_number=60))
    (notification,) = gateway.notified
    assert notification.oid == (*ROOT, 3, 0, 1)
    assert notification.arguments == (varbind((*ROOT, 3, 1, 1000, 1, 0), text("Rex")),)
    (saved,) = gateway.saved
    assert [(e.name, e.arc) for e in saved.events] == [("zoo:bark", 1)]
    assert gateway.cell((*ROOT, *HEALTH), Health.EVENTS_PROVISIONAL, 0) == ber.encode_gauge32(1)


def test_a_provisional_event_keeps_its_number_over_a_restart(gateway: Gateway) -> None:
    meow = replace(BARK, key=ClassKey("zoo", "meow"))
    gateway.publish(event_class(BARK, 60), event_class(meow, 61))
    again = Gateway(provisional=gateway.projection.provisional)
    again.hello()
    again.publish(source(), event_class(meow, 1), event(8, {}, class_number=1))
    assert again.notified[0].oid == (*ROOT, 3, 0, 2)
    assert again.saved == []


def test_an_event_that_finds_no_room_is_counted_and_logged_once(gateway: Gateway) -> None:
    flood = EventSchema(ClassKey("zoo", "flood"), tuple(Argument(f"a{n}", ValueType.U8) for n in range(200)))
    gateway.publish(event_class(flood, 60), event_class(flood, 61), event(8, {}, class_number=60))
    assert gateway.notified == []
    assert [name for name, _ in gateway.logged] == ["event-not-shown"]
    assert gateway.cell((*ROOT, *HEALTH), Health.EVENTS_NOT_SHOWN, 0) == ber.encode_gauge32(1)


def test_an_argument_that_a_shipped_registry_lacks_is_logged_and_the_others_are_reported(
    gateway: Gateway,
) -> None:
    newer = replace(TILL_CLOSED, arguments=(Argument("rats", ValueType.U8), *TILL_CLOSED.arguments))
    gateway.publish(event_class(newer, 60), event(8, {0: 9, 2: "Ann"}, class_number=60))
    assert gateway.notified[0].arguments[2] == varbind((*ARGUMENTS, 3, 0), text("Ann"))
    assert gateway.logged == [
        ("element-not-in-registry", "shop:tillClosed.rats: the shipped registry has no number for it")
    ]


def test_a_narrower_number_is_reported_in_the_wider_form(gateway: Gateway) -> None:
    arguments = (Argument("sales", ValueType.U16),)
    gateway.publish(event_class(replace(TILL_CLOSED, arguments=arguments), 60))
    gateway.publish(event(8, {0: 12}, class_number=60))
    assert gateway.notified[0].arguments[3] == varbind((*ARGUMENTS, 4, 0), text("12"))


# ---- every form ------------------------------------------------------------------------------------------

SHOP = load_mapping(DATA / "shop.yaml")
SHOP_REGISTRY = read_registry(DATA / "shop.oids.yaml")
CLOSED = event_schemas(SHOP)["tillClosed"]


def varbinds(values: dict[str, FeedValue]) -> dict[int, bytes]:
    """Return the varbinds of these arguments of tillClosed, by arc."""
    event_entry = SHOP_REGISTRY.find_event(CLOSED.key)
    assert event_entry is not None
    bound = bind_event(CLOSED, SHOP_REGISTRY, event_entry, ROOT, lambda _link, _source: None)
    names = [argument.name for argument in CLOSED.arguments]
    sent = read_varbinds(bound.varbinds({names.index(name): value for name, value in values.items()}, 1))
    assert [oid for oid, _ in sent] == sorted(oid for oid, _ in sent)
    assert all(bound.types >> value[0] & 1 for _, value in sent)
    return {oid[-2]: value for oid, value in sent}


def arc(name: str) -> int:
    (found,) = (argument.arc for argument in SHOP_REGISTRY.arguments if argument.name == name)
    return found


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [
        ("why", "shift-end", ber.encode_integer(2)),
        ("why", "boredom", ber.encode_integer(1)),
        ("sales", 2**64 - 1, text("18446744073709551615")),
        ("waiting", 7, ber.encode_gauge32(7)),
        ("drift", -3, ber.encode_integer(-3)),
        ("open", 90 * SECOND, text("1")),
        ("open", 30 * SECOND, text("0.5")),
        ("busy", 5, text("5")),
        ("mean", 2.5, text("2.5")),
        ("mean", -math.inf, text("-Infinity")),
        ("sealed", True, ber.encode_integer(1)),
        ("note", "x" * 300, text("x" * 255)),
        ("items", {"b": 1, "a": (2,)}, text('{"a":[2],"b":1}')),
        ("items", {"a": "x" * 2000}, EMPTY),
        ("key", b"\x00\xff", ber.encode_octets(b"\x00\xff")),
        ("serial", UUID(int=5), text("00000000-0000-0000-0000-000000000005")),
    ],
)
def test_each_form_has_its_value(name: str, value: FeedValue, sent: bytes) -> None:
    assert varbinds({name: value})[arc(name)] == sent


@pytest.mark.parametrize(("value", "reported"), [(2.5, 2.5), (None, math.nan)])
def test_a_number_that_a_registry_has_as_octets_is_reported_so(value: float | None, reported: float) -> None:
    older = parse_registry(
        registry_text(SHOP_REGISTRY).replace("floatText", "float64"), Path("older.oids.yaml")
    )
    event_entry = older.find_event(CLOSED.key)
    assert event_entry is not None
    bound = bind_event(CLOSED, older, event_entry, ROOT, lambda _link, _source: None)
    place = [argument.name for argument in CLOSED.arguments].index("mean")
    sent = dict(read_varbinds(bound.varbinds({} if value is None else {place: value}, 1)))
    assert sent[older.argument_oid(ROOT, arc("mean"))] == ber.encode_octets(struct.pack(">d", reported))


@pytest.mark.parametrize(("type_", "sent"), [(ValueType.F32, "0.1"), (ValueType.F64, "0.10000000149011612")])
def test_a_number_has_as_few_digits_as_its_type_allows(type_: ValueType, sent: str) -> None:
    arguments = tuple(replace(one, type=type_) if one.name == "mean" else one for one in CLOSED.arguments)
    event_entry = SHOP_REGISTRY.find_event(CLOSED.key)
    assert event_entry is not None
    bound = bind_event(
        replace(CLOSED, arguments=arguments), SHOP_REGISTRY, event_entry, ROOT, lambda _link, _source: None
    )
    place = [argument.name for argument in arguments].index("mean")
    (single,) = struct.unpack(">f", struct.pack(">f", 0.1))
    found = dict(read_varbinds(bound.varbinds({place: single}, 1)))
    assert found[SHOP_REGISTRY.argument_oid(ROOT, arc("mean"))] == text(sent)


def test_nothing_has_a_form_of_its_own_but_for_a_truth_value() -> None:
    nothing = {argument.name: varbinds({}).get(argument.arc) for argument in SHOP_REGISTRY.arguments}
    assert nothing == {
        "till": NO_POINTER,
        "clerk": EMPTY,
        "at": None,  # of another event
        "why": ber.encode_integer(1),
        "sales": EMPTY,
        "waiting": ber.encode_gauge32(0),
        "drift": ber.encode_integer(0),
        "open": EMPTY,
        "busy": EMPTY,
        "mean": EMPTY,
        "sealed": None,
        "note": EMPTY,
        "items": EMPTY,
        "key": EMPTY,
        "serial": EMPTY,
    }


_any_value: st.SearchStrategy[FeedValue] = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=300),
    st.binary(max_size=1100),
    st.uuids(),
    st.just(link()),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
    st.lists(st.integers(), max_size=3).map(tuple),
)


@given(st.dictionaries(st.sampled_from([a.name for a in CLOSED.arguments]), _any_value))
def test_no_value_of_a_peer_changes_a_type_or_a_place(values: dict[str, FeedValue]) -> None:
    sent = varbinds(values)
    expected = varbinds({"sealed": True})
    assert {number: value[0] for number, value in sent.items()} == {
        number: value[0]
        for number, value in expected.items()
        if number != arc("sealed") or arc("sealed") in sent
    }
    assert ber.COUNTER64 not in {value[0] for value in sent.values()}


def test_versions_of_an_event_share_its_notification(gateway: Gateway) -> None:
    values = (NamedValue("loud", "loud"),)
    wider = replace(BARK, arguments=(*BARK.arguments, Argument("how", ValueType.STRING, values=values)))
    gateway.publish(event_class(BARK, 60), event_class(wider, 61))
    gateway.publish(event(8, {0: "Rex", 1: "loud"}, class_number=61), event(9, {0: "Rex"}, class_number=60))
    assert [(n.oid[-1], len(n.arguments)) for n in gateway.notified] == [(1, 2), (1, 1)]
    assert read_varbinds(gateway.notified[0].arguments)[1][1] == ber.encode_integer(2)


def test_receivers_are_notified_how_many_events_a_former_core_made(gateway: Gateway) -> None:
    gateway.publish(EventsMadeRecord(1, 9))
    assert gateway.made == [(1, 9)]
    assert gateway.projection.status.refused == 0
