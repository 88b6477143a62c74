"""What each of several users sees of one gateway, by roles."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from gateway.feed.access import PolicyRecord, Quoted
from gateway.feed.records import ClassRecord, EventClassRecord, Record
from gateway.feed.values import ObjectLink
from gateway.inventory.own_events import ALARM_RAISED
from gateway.jmx.commands import JmxValue
from gateway.jmx.own_beans import GATEWAY_NAME, source_name
from gateway.model.observations import EventState, Severity
from gateway.model.operations import Principal
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import EVERYTHING, Role, RoleSet, Rule
from tests.components.shop import agent, source
from tests.jmx.shop import (
    SAFE_NAME,
    Gateway,
    alarm,
    classes,
    delete,
    event,
    hall,
    hall_name,
    operation,
    safe,
    safe_update,
    till,
    till_name,
)

VISITOR, KEEPER = range(2)
"""The numbers of the users."""

TILL_ONE = Rule(
    "",
    sources=("shop1",),
    classes=("shop:till",),
    objects=("hall1|till1*",),
    read=("hall", "name", "state", "next"),
)
THE_SAFE = Rule("", classes=("shop:safe",), read=("name", "limit"))


class Shop(Gateway):
    """A gateway with a visitor, who has the rules of a test, and a keeper, who sees everything."""

    def __init__(self, *rules: Rule) -> None:
        self._publisher = PolicyPublisher(roles(*rules), Marks({}))
        super().__init__(users=("visitor", "keeper"), policy=self._record())
        self.hello()

    def change(self, *rules: Rule) -> None:
        """Give the visitor other rules, as of the next snapshot."""
        self._publisher.change(roles(*rules))
        self.policy = self._record()

    def publish(self, *records: Record) -> None:
        extended = self._publisher.snapshot(records)[1:] if has_classes(records) else records
        super().publish(*extended)

    def show(self, *records: Record) -> None:
        """Take a snapshot with a hall, two tills, and these records."""
        self.snapshot(
            source(),
            *classes(),
            agent(fresh=True),
            hall(),
            till(1, {2: "open", 3: link(2)}),
            till(2),
            *records,
        )
        self.settle()

    def seen(self, user: int) -> set[str]:
        """Return the names of the MBeans of objects that exist for a user."""
        return {name for name in self.machine.names_of(user) if "package=" in name}

    def own(self, user: int, name: str = GATEWAY_NAME) -> Mapping[str, JmxValue]:
        """Return what a user reads of an MBean."""
        self.settle()
        return self.machine.read(name, user)

    def _record(self) -> PolicyRecord:
        record = self._publisher.snapshot(())[0]
        assert isinstance(record, PolicyRecord)
        return record


def roles(*rules: Rule) -> RoleSet:
    return RoleSet(
        {"visiting": Role("visiting", rules)},
        {"jmx:visitor": ("visiting",), "jmx:keeper": (EVERYTHING,)},
    )


def has_classes(records: tuple[Record, ...]) -> bool:
    return any(isinstance(record, ClassRecord | EventClassRecord) for record in records)


def link(row: int) -> ObjectLink:
    return ObjectLink("shop:till", row, f"hall1|till{row}#1")


def test_objects_and_attributes_that_are_not_read_do_not_exist() -> None:
    shop = Shop(TILL_ONE)
    shop.show()
    assert shop.seen(VISITOR) == {till_name(1)}
    assert shop.seen(KEEPER) == {hall_name(), till_name(1), till_name(2)}
    read = shop.machine.read(till_name(1), VISITOR)
    assert read["state"] is not None
    assert "sales" not in read
    assert "sales" in shop.machine.read(till_name(1), KEEPER)
    assert (read["hall"], read["next"], read["Parent"]) == (None, None, None)
    assert shop.machine.read(till_name(1), KEEPER)["next"] == till_name(2)


def test_an_object_whose_name_is_not_read_is_no_mbean() -> None:
    shop = Shop(Rule("", classes=("shop:till",), read=("state", "sales")))
    shop.show()
    assert shop.seen(VISITOR) == set()


def test_who_has_no_rule_sees_that_the_gateway_runs() -> None:
    shop = Shop()
    shop.show()
    assert shop.machine.names_of(VISITOR) == [GATEWAY_NAME]
    read = shop.own(VISITOR)
    assert (read["FeedConnected"], read["Sources"], read["Objects"]) == (True, 0, 0)
    assert "EventLogDetail" not in read
    assert "EventLogDetail" in shop.own(KEEPER)


def test_what_exists_is_counted() -> None:
    shop = Shop(TILL_ONE)
    shop.show()
    for name in (GATEWAY_NAME, source_name("shop1")):
        assert shop.own(VISITOR, name)["Objects"] == 1
        assert shop.own(KEEPER, name)["Objects"] == 3
    shop.publish(delete(1, 1))
    assert shop.own(VISITOR)["Objects"] == 0
    assert shop.own(KEEPER)["Objects"] == 2


def test_counts_of_what_is_hidden_do_not_exist() -> None:
    shop = Shop(TILL_ONE, Rule("", sources=("gateway",), read=("*",)))
    shop.show()
    for name, hidden, shown in (
        (GATEWAY_NAME, ("EventsEmitted", "EventsLost", "FeedMessages"), ("FeedConnected", "EventLogState")),
        (source_name("shop1"), ("ObjectsCreated", "ObjectsDeleted", "Events"), ("Messages", "State")),
    ):
        assert {*hidden, *shown} <= shop.own(KEEPER, name).keys()
        assert {*shown} <= shop.own(VISITOR, name).keys()
        assert not {*hidden} & shop.own(VISITOR, name).keys()


def test_who_reads_all_but_what_is_private_has_the_counts_of_all() -> None:
    shop = Shop(Rule("monitoring", read=("*",), subscribe=("*:*",)))
    shop.show()
    for name in (GATEWAY_NAME, source_name("shop1")):
        assert shop.own(VISITOR, name).keys() == shop.own(KEEPER, name).keys()


def test_ends_of_objects_that_never_existed_for_a_user_are_not_listed() -> None:
    shop = Shop(TILL_ONE)
    shop.show()
    shop.publish(delete(1, 1), delete(2, 2))
    mine = shop.own(VISITOR, source_name("shop1"))["RecentlyDeleted"]
    assert "till1" in str(mine)
    assert "till2" not in str(mine)
    assert "till2" in str(shop.own(KEEPER, source_name("shop1"))["RecentlyDeleted"])


def test_a_source_of_which_nothing_is_read_does_not_exist() -> None:
    shop = Shop(TILL_ONE)
    shop.show(source(number=2))
    assert source_name("shop2") not in shop.machine.names_of(VISITOR)
    assert source_name("shop2") in shop.machine.names_of(KEEPER)
    assert (shop.own(VISITOR)["Sources"], shop.own(KEEPER)["Sources"]) == (1, 2)
    assert (shop.own(VISITOR)["SourcesSynchronised"], shop.own(KEEPER)["SourcesSynchronised"]) == (1, 2)


def test_events_reach_those_who_may_subscribe_and_see_the_object() -> None:
    events = Rule("", subscribe=("shop:tillBurns", "shop:burning"))
    for rules, numbers in (((TILL_ONE,), []), ((TILL_ONE, events), [1]), ((events,), [])):
        shop = Shop(*rules)
        shop.show()
        shop.publish(event(1, link(1)), event(2, link(2)))
        received = [data["eventId"] for _, data in shop.machine.received(VISITOR)]
        assert received == [f"7b0c.1.{number}" for number in numbers]
        assert len(shop.machine.received(KEEPER)) == 2


def test_an_argument_that_leads_to_a_hidden_object_is_absent_and_so_is_the_text() -> None:
    shop = Shop(TILL_ONE, Rule("", subscribe=("shop:tillBurns", "shop:burning")))
    shop.show()
    shop.publish(replace(event(1, link(1)), values={0: link(2), 1: "open"}))
    ((message, data),) = shop.machine.received(VISITOR)
    assert message == "shop:tillBurns"
    assert (data["till"], data["tillName"], data["condition"]) == (None, None, None)
    assert (data["object"], data["state_"]) == ("hall1|till1#1", "open")
    ((message, data),) = shop.machine.received(KEEPER)
    assert (message, data["tillName"]) == ("a till burns", "hall1|till2#1")


def test_an_event_of_an_alarm_reaches_those_who_receive_both() -> None:
    for names, received in ((("shop:tillBurns",), 0), (("shop:burning",), 0), (("shop:*",), 1)):
        shop = Shop(TILL_ONE, Rule("", subscribe=names))
        shop.show()
        ending = replace(event(1, link(1)), state=EventState.CLEARED, severity=Severity.CLEARED)
        shop.publish(ending)
        assert len(shop.machine.received(VISITOR)) == received


def test_the_text_of_an_alarm_is_for_those_who_read_what_it_quotes() -> None:
    every = Rule("", subscribe=("*:*",))
    for quoted, text in (
        (Quoted(("state",)), "it burns"),
        (Quoted(("state", "sales")), "burning till1"),
        (Quoted(("state",), (link(2),)), "burning till1"),
        (Quoted(("no such element",)), "burning till1"),
        (Quoted((), (), "shop:tillBurns"), "it burns"),
        (Quoted((), (), "shop:tillCools"), "burning till1"),
        (None, "burning till1"),
    ):
        shop = Shop(TILL_ONE, every)
        shop.show(replace(alarm(1), subject=link(1), quoted=quoted))
        for user, expected in ((VISITOR, text), (KEEPER, "it burns")):
            listed = str(shop.own(user, source_name("shop1"))["ActiveAlarms"])
            assert listed.endswith(f": {expected}'),)")


def test_the_text_alone_of_an_event_is_hidden() -> None:
    raised = EventClassRecord(40, ALARM_RAISED)
    shop = Shop(TILL_ONE, Rule("", subscribe=("*:*",)))
    shop.show(raised)
    reported = replace(event(1, link(1)), class_number=40, values={0: "burning"})
    forms = ((Quoted(("state",)), "a till burns"), (Quoted(("sales",)), "Alarm raised"))
    for number, (quoted, text) in enumerate(forms, 1):
        shop.publish(replace(reported, quoted=quoted, number=number))
        *_, (message, data) = shop.machine.received(VISITOR)
        assert (message, data["condition"], data["alarm"]) == (text, "burning till1", "burning")


def test_alarms_are_those_of_objects_that_exist_and_may_be_received() -> None:
    alarms = Rule("", subscribe=("shop:*",))
    shop = Shop(TILL_ONE, alarms)
    shop.show(replace(alarm(1), subject=link(1)), replace(alarm(2, "burning till2"), subject=link(2)))
    for name in (GATEWAY_NAME, source_name("shop1")):
        assert (shop.own(VISITOR, name)["ActiveAlarmCount"], shop.own(KEEPER, name)["ActiveAlarmCount"]) == (
            1,
            2,
        )
    assert "till2" not in str(shop.own(VISITOR, source_name("shop1"))["ActiveAlarms"])
    shop.publish(replace(alarm(3, "burning till1", cleared=5), subject=link(1)))
    assert shop.own(VISITOR)["WorstSeverity"] == "cleared"
    assert shop.own(KEEPER)["WorstSeverity"] == "major"


def test_operations_of_others_are_hidden_and_own_ones_are_not() -> None:
    shop = Shop(THE_SAFE)
    shop.show(*safe())
    shop.publish(operation(1), operation(2, principal=Principal("jmx", "visitor")))
    assert [data["operationId"] for _, data in shop.machine.received(VISITOR)] == ["7b0c.1.o2"]
    assert [line.partition(" [")[2][:9] for line in lines(shop, VISITOR)] == ["7b0c.1.o2"]
    assert len(lines(shop, KEEPER)) == 2
    shop.publish(operation(3))
    assert shop.own(VISITOR, SAFE_NAME)["LastOperation"] is None
    assert "o3]" in str(shop.own(KEEPER, SAFE_NAME)["LastOperation"])


def test_an_operation_does_not_reveal_elements_that_are_not_read() -> None:
    shop = Shop(replace_read(THE_SAFE, "name"), Rule("", audit=True))
    shop.show(*safe())
    shop.publish(operation(1, text="limit was 5"))
    ((message, data),) = shop.machine.received(VISITOR)
    assert "limit" not in message
    assert [data[name] for name in ("values", "former", "found", "text")] == [None] * 4
    assert "limit" not in str(shop.own(VISITOR, SAFE_NAME)["LastOperation"])
    assert "limit" not in str(lines(shop, VISITOR))
    ((_, data),) = shop.machine.received(KEEPER)
    assert data["values"] == (("limit", "7"),)


def test_another_policy_hides_everything_until_the_snapshot_shows_it() -> None:
    shop = Shop(TILL_ONE)
    shop.show()
    shop.change(Rule("", classes=("shop:hall",), read=("*",)))
    shop.begin_snapshot()
    assert shop.machine.names_of(VISITOR) == [GATEWAY_NAME, source_name("shop1")]
    assert shop.own(VISITOR)["Objects"] == 0
    assert len(shop.seen(KEEPER)) == 3
    shop.show()
    assert shop.seen(VISITOR) == {hall_name()}
    assert shop.own(VISITOR)["Objects"] == 1
    shop.publish(safe_update({}))  # of no object that is known: nothing happens
    assert len(shop.seen(KEEPER)) == 3


def test_a_core_that_is_started_again_shows_the_same() -> None:
    shop = Shop(TILL_ONE)
    shop.show()
    shop.disconnect()
    assert shop.seen(VISITOR) == {till_name(1)}
    shop.hello(epoch=2)
    shop.show()
    assert shop.seen(VISITOR) == {till_name(1)}
    assert shop.own(VISITOR)["Objects"] == 1


def test_what_a_user_may_not_do_is_not_described() -> None:
    shop = Shop(THE_SAFE, Rule("", classes=("shop:*",), write=("*",), invoke=("empty", "m*"), refresh=True))
    shop.show(*safe())
    assert shop.machine.operations(SAFE_NAME, VISITOR) == ["empty", "readFresh"]  # a pattern names no danger
    assert shop.machine.operations(SAFE_NAME, KEEPER) == []
    assert shop.machine.writable(SAFE_NAME, VISITOR) == ["limit"]  # nothing that is not read
    assert shop.machine.writable(SAFE_NAME, KEEPER) == []


def lines(shop: Shop, user: int) -> tuple[str, ...]:
    shown = shop.own(user)["LastOperations"]
    assert isinstance(shown, tuple)
    return tuple(map(str, shown))


def replace_read(rule: Rule, *read: str) -> Rule:
    return Rule(rule.place, classes=rule.classes, read=read)


def test_another_policy_hides_alarms_and_histories_before_it_shows_anything() -> None:
    shop = Shop(TILL_ONE, Rule("", subscribe=("shop:*",)), Rule("", audit=True), THE_SAFE)
    shop.show(replace(alarm(1), subject=link(1)), *safe())
    shop.publish(delete(1, 1), operation(2))
    name = source_name("shop1")
    before = shop.own(VISITOR, name)
    assert "till1" in str(before["RecentlyDeleted"])
    assert "burning" in str(before["ActiveAlarms"])
    assert "o2]" in str(shop.own(VISITOR)["LastOperations"])
    shop.change(Rule("", classes=("shop:hall",), read=("*",)))
    shop.begin_snapshot()
    after = shop.machine.read(name, VISITOR)
    assert (after["RecentlyDeleted"], after["ActiveAlarms"], after["ActiveAlarmCount"]) == ((), (), 0)
    gateway = shop.machine.read(GATEWAY_NAME, VISITOR)
    assert (gateway["LastOperations"], gateway["ActiveAlarmCount"], gateway["WorstSeverity"]) == (
        (),
        0,
        "cleared",
    )
