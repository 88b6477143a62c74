"""Events in, notifications out."""

from __future__ import annotations

import msgspec
import pytest

from gateway.feed.records import EventClassRecord, EventsMadeRecord
from gateway.jmx.commands import AttributeType
from gateway.jmx.notifications import EventCursor
from gateway.model.observations import EventState
from gateway.model.schema import Argument, ClassKey, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.components.shop import START, agent, source
from tests.jmx.shop import GATEWAY, SOURCE, Gateway, classes, delete, event, hall, link, till, till_name


def snapshot(gateway: Gateway, *events: int) -> None:
    objects = (*classes(), agent(fresh=True), hall(), till(1))
    gateway.snapshot(source(), *objects, *(event(number, epoch=gateway.epoch) for number in events))


@pytest.fixture
def gateway() -> Gateway:
    """One source, synchronised, with a hall and a till."""
    gateway = Gateway()
    gateway.hello()
    snapshot(gateway)
    return gateway


def numbers(gateway: Gateway) -> list[str]:
    """The events that were emitted, as ``EPOCH.NUMBER``."""
    reported = [{name: value for name, _, value in emit.data} for _, emit in gateway.machine.emitted]
    return [str(data["eventId"]).removeprefix("7b0c.") for data in reported]


def test_an_event_is_reported_by_its_subject_its_source_and_the_gateway(gateway: Gateway) -> None:
    gateway.publish(event(1, link(1, "shop:till")))
    ((emitters, emit),) = gateway.machine.emitted
    assert emitters == (till_name(), SOURCE, GATEWAY)
    assert (emit.type, emit.message, emit.time, emit.sequence) == (
        "amqp.gateway.shop.tillBurns",
        "a till burns",
        START,
        1,
    )
    assert emit.data == (
        ("eventId", AttributeType.STRING, "7b0c.1.1"),
        ("severity", AttributeType.STRING, "major"),
        ("source", AttributeType.STRING, "shop1"),
        ("agent", AttributeType.STRING, "1.0"),
        ("class", AttributeType.STRING, "shop:till"),
        ("object", AttributeType.STRING, "hall1|till1#1"),
        ("objectName", AttributeType.OBJECT_NAME, till_name()),
        ("state", AttributeType.STRING, "raised"),
        ("condition", AttributeType.STRING, "burning till1"),
        ("heard", AttributeType.DATE, START + SECOND),
        ("late", AttributeType.BOOLEAN, False),
        ("till", AttributeType.OBJECT_NAME, till_name()),
        ("tillName", AttributeType.STRING, "hall1|till1#1"),
        ("state_", AttributeType.STRING, "open"),
        ("loss", AttributeType.BIG_INTEGER, 2**64 - 1),
    )


def test_an_event_without_subject_is_reported_by_its_source_and_the_gateway(gateway: Gateway) -> None:
    gateway.publish(
        msgspec.structs.replace(
            event(1), agent="", condition="", state=EventState.ONE_SHOT, text="", time=0, received=5
        )
    )
    ((emitters, emit),) = gateway.machine.emitted
    data = {name: value for name, _, value in emit.data}
    absent = [name for name, value in data.items() if value is None]
    assert emitters == (SOURCE, GATEWAY)
    assert absent == ["agent", "class", "object", "objectName", "condition", "till", "tillName"]
    assert (data["state"], emit.message, emit.time) == ("oneShot", "amqp.gateway.shop.tillBurns", 5)


def test_the_name_of_an_object_that_has_gone_is_still_reported(gateway: Gateway) -> None:
    gateway.publish(delete(1), event(1, link(1, "shop:till")))
    ((emitters, emit),) = gateway.machine.emitted
    data = {name: value for name, _, value in emit.data}
    assert emitters == (SOURCE, GATEWAY)
    assert (data["object"], data["objectName"], data["till"]) == ("hall1|till1#1", None, None)
    assert data["tillName"] == "hall1|till1#1"


def test_a_value_that_does_not_fit_is_absent_and_logged(gateway: Gateway) -> None:
    gateway.publish(msgspec.structs.replace(event(1), values={2: "much", 9: "unknown position"}))
    ((_, emit),) = gateway.machine.emitted
    assert emit.data[-1] == ("loss", AttributeType.BIG_INTEGER, None)
    assert gateway.logged == [("value-not-shown", "shop:tillBurns.loss: 'much' does not fit its type")]


def test_an_unknown_event_is_counted(gateway: Gateway) -> None:
    gateway.publish(
        msgspec.structs.replace(event(1), class_number=99), msgspec.structs.replace(event(2), source=9)
    )
    gateway.settle()
    assert gateway.machine.emitted == []
    assert gateway.machine.read(GATEWAY)["RefusedRecords"] == 2


def test_arguments_with_odd_names_are_all_reported(gateway: Gateway) -> None:
    odd = EventSchema(
        ClassKey("odd", "event"),
        (
            Argument("q", ValueType.REFERENCE),
            Argument("qName", ValueType.U8),
            Argument(" ", ValueType.U8),
            Argument("qName", ValueType.U8),
        ),
    )
    gateway.publish(
        EventClassRecord(6, odd), msgspec.structs.replace(event(1), class_number=6, values={1: 1, 2: 2, 3: 3})
    )
    ((_, emit),) = gateway.machine.emitted
    assert [(name, value) for name, _, value in emit.data[11:]] == [
        ("q", None),
        ("qName", None),
        ("qName_", 1),
        ("argument2", 2),
        ("qName__", 3),
    ]


# ---- once, and not again --------------------------------------------------------------------------------


def test_events_of_before_anybody_could_listen_are_remembered_only() -> None:
    gateway = Gateway()
    gateway.hello()
    snapshot(gateway, 1, 2)
    assert numbers(gateway) == []
    gateway.publish(event(3))
    assert numbers(gateway) == ["1.3"]


def test_what_a_later_snapshot_repeats_is_reported_if_it_was_missed(gateway: Gateway) -> None:
    gateway.publish(event(1), event(2))
    snapshot(gateway, 1, 2, 3, 4)
    assert numbers(gateway) == ["1.1", "1.2", "1.3", "1.4"]
    gateway.settle()
    assert gateway.machine.read(GATEWAY)["EventsEmitted"] == 4


def test_a_new_core_numbers_events_again(gateway: Gateway) -> None:
    gateway.publish(event(1), event(2))
    gateway.disconnect()
    gateway.hello(epoch=2)
    snapshot(gateway, 1)
    gateway.publish(event(2, epoch=2))
    assert numbers(gateway) == ["1.1", "1.2", "2.1", "2.2"]


def test_a_first_snapshot_that_broke_off_is_not_the_first() -> None:
    gateway = Gateway()
    gateway.hello()
    gateway.begin_snapshot(source(), *classes(), event(1))
    gateway.disconnect()
    gateway.hello()
    snapshot(gateway, 1, 2)
    assert numbers(gateway) == []


def test_another_virtual_machine_is_not_sent_again_what_the_former_was(gateway: Gateway) -> None:
    gateway.publish(event(1), event(2))
    later = Gateway(cursor=gateway.cursor)
    later.hello()
    snapshot(later, 1, 2, 3)
    assert numbers(later) == ["1.3"]


def test_what_a_later_snapshot_reports_is_marked_as_late(gateway: Gateway) -> None:
    gateway.publish(event(1))
    gateway.disconnect()
    gateway.hello(epoch=3)
    gateway.snapshot(
        source(),
        agent(fresh=True),
        *classes(),
        *(msgspec.structs.replace(event(number), boot=1) for number in (1, 2)),
        msgspec.structs.replace(event(1, epoch=2), boot=2),
        event(1, epoch=3),
    )
    gateway.publish(event(2, epoch=3))
    data = [{name: value for name, _, value in emit.data} for _, emit in gateway.machine.emitted]
    assert [(reported["eventId"], reported["late"]) for reported in data] == [
        ("7b0c.1.1", False),
        ("7b0c.1.2", True),
        ("7b0c.2.1", True),
        ("7b0c.3.1", False),
        ("7b0c.3.2", False),
    ]


def test_what_happened_while_there_was_no_process_is_counted() -> None:
    gateway = Gateway(cursor=EventCursor(1, 3))
    gateway.hello()
    snapshot(gateway, 2, 3, 6, 7)
    gateway.settle()
    assert numbers(gateway) == []
    assert gateway.machine.read(GATEWAY)["EventsLost"] == 4
    gateway.publish(event(8))
    assert numbers(gateway) == ["1.8"]
    assert gateway.cursor.place == (1, 8)


def test_events_without_a_number_are_reported_when_they_happen_only() -> None:
    cursor = EventCursor()
    cursor.snapshot_ended()
    assert [cursor.is_new(1, 0, repeated=repeated) for repeated in (False, False, True)] == [
        True,
        True,
        False,
    ]


def test_what_no_snapshot_reports_any_more_is_counted() -> None:
    gateway = Gateway(cursor=EventCursor(1, 3))
    gateway.hello(epoch=4)
    snapshot(gateway)
    gateway.snapshot(source(), EventsMadeRecord(1, 5), EventsMadeRecord(2, 7), event(1, epoch=4))
    gateway.settle()
    assert numbers(gateway) == ["4.1"]
    assert gateway.machine.read(GATEWAY)["EventsLost"] == 9


def test_a_loss_whose_number_is_not_known_is_not_counted_and_is_said_once() -> None:
    gateway = Gateway(cursor=EventCursor(1, 3))
    gateway.hello(epoch=2)
    gateway.snapshot(source(), *classes(), EventsMadeRecord(1, 5, more=True), event(1, epoch=2))
    gateway.settle()
    read = gateway.machine.read(GATEWAY)
    assert (read["EventsLost"], read["EventsLostUnknown"]) == (2 + 1, True)
    again = Gateway(cursor=EventCursor(*gateway.cursor.place))
    again.hello(epoch=2)
    again.snapshot(source(), *classes(), EventsMadeRecord(1, 5, more=True), event(1, epoch=2))
    again.settle()
    read = again.machine.read(GATEWAY)
    assert (read["EventsLost"], read["EventsLostUnknown"]) == (0, False)


def test_a_process_without_one_before_has_lost_nothing() -> None:
    gateway = Gateway()
    gateway.hello(epoch=2)
    gateway.snapshot(
        source(),
        *classes(),
        *(msgspec.structs.replace(event(number), boot=1) for number in (3, 4)),
        EventsMadeRecord(1, 9),
        *(event(number, epoch=2) for number in (1, 2)),
    )
    gateway.settle()
    assert gateway.machine.read(GATEWAY)["EventsLost"] == 0


def test_the_configuration_says_what_is_old() -> None:
    cursor = EventCursor(1, 3, late_after=60 * SECOND)
    assert [cursor.is_late(2, age * SECOND) for age in (59, 61)] == [False, True]
    assert cursor.is_late(1, 0), "an event of a core before happened while no core could be reached"
