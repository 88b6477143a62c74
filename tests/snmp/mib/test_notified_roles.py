"""What receivers of notifications get by their roles: `gateway.snmp.notifications.forms`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from gateway.feed.access import Quoted
from gateway.feed.records import EventClassRecord, EventRecord, Record
from gateway.inventory.own_events import ALARM_RAISED
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import EventState
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import EVERYTHING, Role, RoleSet, Rule
from gateway.snmp.notifications.notification import Notification
from tests.components.shop import agent, hall, hall_link, source
from tests.snmp.mib.shop import Gateway, alarm, classes, event, event_class, link, till

READ_ALL = Rule("all", read=("*",), subscribe=("*:*",))


def roles_of(rules: Mapping[str, tuple[Rule, ...]]) -> RoleSet:
    roles = {name: Role(name, own) for name, own in rules.items()}
    principals = {f"notify:{name}": (name,) for name in rules} | {"notify:chief": (EVERYTHING,)}
    return RoleSet(roles, principals)


class Notified:
    """A gateway with receivers who have these rules, and a chief."""

    def __init__(self, **rules: tuple[Rule, ...]) -> None:
        self.gateway = Gateway(receivers=(*rules, "chief"))
        self.policy = PolicyPublisher(roles_of(rules), Marks(dict[str, MappingFile]()))
        self.gateway.hello()
        self.show()

    def show(self, *more: Record) -> None:
        own = EventClassRecord(60, ALARM_RAISED)
        records: list[Record] = [source(), *classes(), event_class(), own, agent(fresh=True), hall(), till(1)]
        self.gateway.snapshot(*self.policy.snapshot([*records, *more]))

    def change(self, **rules: tuple[Rule, ...]) -> None:
        """Apply another policy."""
        self.policy.change(roles_of(rules))
        self.show()

    def publish(self, *records: Record) -> Notification:
        """Return the notification of the last event."""
        self.gateway.publish(*records)
        return self.gateway.notified[-1]


def notified(**rules: tuple[Rule, ...]) -> Notification:
    """Return the notification of an event of till 1, for receivers with these rules, and a chief."""
    return Notified(**rules).publish(event())


def test_who_reads_everything_gets_the_notification_itself() -> None:
    assert "chief" not in notified(clerk=(READ_ALL,)).forms


def test_who_may_have_all_of_an_event_gets_the_same() -> None:
    whole = notified(clerk=(READ_ALL,))
    form = whole.forms["clerk"]
    assert form is not None
    assert (form.text, form.arguments) == (whole.text, whole.arguments)


def test_events_that_are_denied_are_not_sent() -> None:
    denied = Rule("no", denies=True, subscribe=("shop:till*",))
    assert notified(clerk=(READ_ALL, denied)).forms == {"clerk": None}


def test_events_of_objects_that_are_hidden_are_not_sent() -> None:
    hidden = Rule("no", denies=True, objects=("*till1",), read=("*",))
    assert notified(clerk=(READ_ALL, hidden)).forms == {"clerk": None}


def test_without_a_policy_restricted_receivers_get_nothing() -> None:
    gateway = Gateway(receivers=("clerk",))
    gateway.hello()
    gateway.snapshot(source(), *classes(), event_class(), agent(fresh=True), hall(), till(1))
    gateway.publish(event())
    assert gateway.notified[-1].forms == {"clerk": None}


CONDITION = 'robbery shop:till "hall1/till1"'
NO_ALARM = Rule("no", denies=True, subscribe=("shop:robbery",))
NO_NOTES = Rule("no", denies=True, read=("note",))
NO_HALLS = Rule("no", denies=True, classes=("shop:hall",), read=("*",))


def raised(quoted: Quoted | None) -> EventRecord:
    """Return the gateway's own event of an alarm of till 1, whose text quotes this."""
    return msgspec.structs.replace(
        event(values={0: "robbery"}, class_number=60),
        state=EventState.RAISED,
        condition=CONDITION,
        quoted=quoted,
    )


@pytest.mark.parametrize(
    ("quoted", "denied", "text"),
    [
        (Quoted(("note",)), (), "till1 was closed"),
        (Quoted(("note",)), (NO_NOTES,), "Alarm raised"),
        (Quoted(("sales",)), (NO_NOTES,), "till1 was closed"),
        (Quoted(("sales",), (hall_link(),)), (NO_HALLS,), "Alarm raised"),
        (None, (), "Alarm raised"),
    ],
)
def test_the_text_of_an_alarm_quotes_nothing_that_is_not_read(
    quoted: Quoted | None, denied: tuple[Rule, ...], text: str
) -> None:
    rules = (READ_ALL, *denied, Rule("also", denies=True, objects=("*till9",), read=("*",)))
    whole = Notified(clerk=rules).publish(raised(quoted))
    assert whole.text == "till1 was closed"
    form = whole.forms["clerk"]
    assert form is not None
    assert (form.text, form.condition, form.arguments) == (text, CONDITION, whole.arguments)


def test_the_alarm_that_no_event_reported_has_the_same_text() -> None:
    for quoted, text in ((Quoted(("sales",)), f"{CONDITION}!"), (Quoted(("note",)), CONDITION)):
        shown = Notified(clerk=(READ_ALL, NO_NOTES))
        shown.gateway.publish(msgspec.structs.replace(alarm(1, CONDITION, subject=link()), quoted=quoted))
        made = shown.gateway.projection.alarm_notification("shop1", CONDITION)
        assert made is not None
        form = made.forms["clerk"]
        assert form is not None
        assert (form.text, made.text) == (text, f"{CONDITION}!")


def test_an_argument_that_refers_to_what_is_hidden_takes_the_text_with_it() -> None:
    hidden = Rule("no", denies=True, objects=("*till2",), read=("*",))
    whole = Notified(clerk=(READ_ALL, hidden)).publish(event(values={0: link(2), 1: "Ann"}))
    form = whole.forms["clerk"]
    assert form is not None
    assert (form.text, whole.text) == ("tillClosed", "till1 was closed")


def test_an_event_of_an_alarm_that_is_denied_is_not_sent() -> None:
    ending = msgspec.structs.replace(event(), state=EventState.CLEARED, condition=CONDITION)
    assert Notified(clerk=(READ_ALL, NO_ALARM)).publish(ending).forms == {"clerk": None}
    assert Notified(clerk=(READ_ALL,)).publish(ending).forms["clerk"] is not None


@pytest.mark.parametrize(
    ("condition", "denied", "received"),
    [
        (("shop1", CONDITION), NO_NOTES, True),
        (("shop1", CONDITION), NO_ALARM, False),
        (("shop1", CONDITION), Rule("no", denies=True, objects=("*till1",), read=("*",)), False),
        (("shop1", CONDITION[:-8] + "~0011223344556677"), NO_NOTES, False),
        (("", "logTrouble"), NO_NOTES, True),
        (("", 'certificateExpiring "server.pem"'), NO_NOTES, True),
        (("", "logTrouble"), Rule("no", denies=True, sources=("gateway",), subscribe=("*",)), False),
    ],
)
def test_an_end_that_no_event_reported_is_for_those_who_see_the_alarm(
    condition: tuple[str, str], denied: Rule, *, received: bool
) -> None:
    forms = Notified(clerk=(READ_ALL, denied)).gateway.projection.forms
    assert forms.receives_end("clerk", condition) is received
    assert forms.receives_end("chief", condition)


def test_what_a_receiver_may_get_of_an_event_is_decided_again() -> None:
    shown = Notified(clerk=(READ_ALL,))
    whole = shown.publish(event(values={0: link(), 1: "Ann"}))
    again = shown.gateway.again[-1]
    assert again is not None
    digest = shown.gateway.projection.forms.policy("clerk")
    shown.change(clerk=(READ_ALL, Rule("no", denies=True, subscribe=("shop:till*",))))
    assert shown.gateway.projection.forms.policy("clerk") != digest
    assert again("clerk") is None
    assert again("chief") == msgspec.structs.replace(whole, forms={})
    shown.change(clerk=(READ_ALL, NO_NOTES))
    form = again("clerk")
    assert form is not None
    assert form.text == whole.text


def test_an_event_of_an_earlier_core_is_decided_again_by_its_name() -> None:
    shown = Notified(clerk=(READ_ALL,))
    whole = shown.publish(event(values={0: link(), 1: "Ann"}))
    again = shown.gateway.again[-1]
    assert again is not None
    shown.gateway.hello(2)
    assert again("clerk") is None
    shown.show()
    form = again("clerk")
    assert form is not None
    assert form.text == whole.text


def test_a_past_event_of_a_source_that_is_not_configured_any_more_is_decided_by_its_name() -> None:
    denied = Rule("no", denies=True, sources=("orders",), subscribe=("*",))
    projection = Notified(clerk=(READ_ALL, denied)).gateway.projection
    record = msgspec.structs.replace(event(), source=9, boot=1)

    def sent(receiver: str, former: Mapping[int, str]) -> str | None:
        past = projection.past_event(receiver, record, former)
        assert past is not None
        return None if past.notification is None else past.notification.source

    assert sent("chief", {9: "orders"}) == "orders"
    assert sent("clerk", {9: "orders"}) is None
    assert sent("clerk", {9: "returns"}) == "returns"
    assert projection.past_event("chief", record) is None, "it is none of the gateway itself"
