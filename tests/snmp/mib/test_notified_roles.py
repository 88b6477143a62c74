"""What receivers of notifications get by their roles: `gateway.snmp.notifications.forms`."""

from __future__ import annotations

from gateway.feed.records import Record
from gateway.mapping.rules import Mapping as MappingFile
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import EVERYTHING, Role, RoleSet, Rule
from gateway.snmp.notifications.notification import Notification
from tests.components.shop import agent, hall, source
from tests.snmp.mib.shop import Gateway, classes, event, event_class, till

READ_ALL = Rule("all", read=("*",), subscribe=("*:*",))


def notified(**rules: tuple[Rule, ...]) -> Notification:
    """Return the notification of an event of till 1, for receivers with these rules, and a chief."""
    gateway = Gateway(receivers=(*rules, "chief"))
    roles = {name: Role(name, own) for name, own in rules.items()}
    principals = {f"notify:{name}": (name,) for name in rules} | {"notify:chief": (EVERYTHING,)}
    policy = PolicyPublisher(RoleSet(roles, principals), Marks(dict[str, MappingFile]()))
    gateway.hello()
    records: list[Record] = [source(), *classes(), event_class(), agent(fresh=True), hall(), till(1)]
    gateway.snapshot(*policy.snapshot(records))
    gateway.publish(event())
    return gateway.notified[-1]


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
