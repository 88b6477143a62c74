"""The compiled tables: whatever the rules are, they give the decisions that the rules give one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.access import AccessTables, ClassAccess, OperationShown, PolicyRecord, Received
from gateway.feed.records import ClassRecord, EventClassRecord
from gateway.feed.values import ObjectLink
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, Method
from gateway.model.values import ValueType
from gateway.policy.decisions import (
    CallMethod,
    ReadElement,
    ReadObject,
    ReadOperations,
    SetElement,
    Subject,
    Subscribe,
    decided,
    sees_source,
)
from gateway.policy.marks import Marks
from gateway.policy.rules import EVERYTHING, Role, RoleSet, Rule
from gateway.policy.tables import PolicyTables
from tests.components.shipped_mappings import shipped_mappings

MARKS = Marks(shipped_mappings())


def element(name: str, *, index: bool = False) -> Element:
    return Element(name, ValueType.STRING, index=index)


CONNECTION = ClassRecord(
    1,
    ClassSchema(
        ClassKey("rabbitmq", "connection"),
        (element("name", index=True), element("vhost"), element("peerHost")),
        (element("channels"),),
        (),
    ),
    "name",
    "",
)
QUEUE = ClassRecord(
    2,
    ClassSchema(
        ClassKey("rabbitmq", "queue"),
        (element("vhost", index=True), element("name", index=True)),
        (element("messages"),),
        (),
    ),
    "name",
    "vhost",
)
USER = ClassRecord(
    3, ClassSchema(ClassKey("rabbitmq", "user"), (element("name", index=True),), (), ()), "name", ""
)
CLASSES = (CONNECTION, QUEUE, USER)

OPERATED = (
    ClassRecord(
        7,
        ClassSchema(
            ClassKey("rabbitmq", "queue"),
            (element("name", index=True),),
            (),
            (Method("purge"), Method("delete"), Method("unknown")),
        ),
        "name",
        "",
    ),
    ClassRecord(
        8,
        ClassSchema(
            ClassKey("rabbitmq", "vhost"), (element("name", index=True), element("maxConnections")), (), ()
        ),
        "name",
        "",
    ),
)
"""Classes with dangerous elements and methods."""


def event(number: int, name: str, *arguments: str) -> EventClassRecord:
    of_event = tuple(Argument(argument, ValueType.STRING) for argument in arguments)
    return EventClassRecord(number, EventSchema(ClassKey("rabbitmq", name), of_event))


QUEUE_DELETED = event(4, "queueDeleted", "name", "by")
EVENTS = (QUEUE_DELETED, event(5, "connectionClosed", "name"), event(6, "memoryAlarmSet", "node"))


def tables(roles: RoleSet) -> AccessTables:
    """Return the tables of a front end, as the feed brings them."""
    compiled, received = PolicyTables(roles, MARKS), AccessTables()
    received.take(compiled.record)
    for record in CLASSES:
        received.take(compiled.class_access(record))
    for record_of_event in EVENTS:
        received.take(compiled.event_access(record_of_event))
    return received


def of_principal(roles: RoleSet, principal: str = "jmx:anna") -> tuple[AccessTables, int]:
    received = tables(roles)
    number = received.clearance(principal)
    assert number is not None
    return received, number


def with_rules(*rules: Rule) -> RoleSet:
    return RoleSet({"role": Role("role", rules)}, {"jmx:anna": ("role",)})


NAMES = ("/|orders", "/|orders.eu", "a|orders", "[x]", "")
SOURCES = ("east", "west", "gateway")
PATTERNS = st.sampled_from(["*", "/|*", "*orders", "/|orders*", "[[]x]", "?|orders", "east", "w*", ""])
ELEMENTS = st.sampled_from(["*", "name", "vhost", "peer*", "messages", "m*"])
CLASS_PATTERNS = st.sampled_from(["*:*", "*", "rabbitmq:*", "rabbitmq:queue", "*:user", "rabbitmq:conn*"])
EVENT_PATTERNS = st.sampled_from(["*:*", "rabbitmq:queue*", "rabbitmq:connectionClosed", "gateway:*"])


def some(patterns: st.SearchStrategy[str], least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(patterns, min_size=least, max_size=3).map(tuple)


RULES = st.builds(
    Rule,
    place=st.integers(0, 10**9).map(str),
    denies=st.booleans(),
    sources=some(PATTERNS, 1),
    classes=some(CLASS_PATTERNS, 1),
    objects=some(PATTERNS, 1),
    read=some(ELEMENTS),
    subscribe=some(EVENT_PATTERNS),
    audit=st.booleans(),
    private=st.booleans(),
)


def questions() -> Iterator[tuple[ClassRecord, str, str]]:
    return ((record, source, name) for record in CLASSES for source in SOURCES for name in NAMES)


@given(st.lists(RULES, max_size=5))
def test_elements_are_read_as_single_decisions_say(rules: list[Rule]) -> None:
    received, clearance = of_principal(with_rules(*rules))
    for record, source, name in questions():
        mask = received.vector(record.number, source, name)[clearance]
        key = record.schema.key
        subject = Subject(source, str(key), name)
        for position, one in enumerate(record.schema.elements):
            wish = ReadElement(one.name, MARKS.is_private_element(key, one.name))
            assert bool(mask >> position & 1) is decided(rules, subject, wish).allowed


@given(st.lists(RULES, max_size=5))
def test_sources_are_seen_by_the_core_as_by_front_ends(rules: list[Rule]) -> None:
    received, clearance = of_principal(with_rules(*rules))
    for source in SOURCES:
        assert sees_source(rules, source) is received.sees_source(clearance, source)


@given(st.lists(RULES, max_size=5))
def test_events_are_received_as_single_decisions_say(rules: list[Rule]) -> None:
    received, clearance = of_principal(with_rules(*rules))
    for record in EVENTS:
        key = record.schema.key
        for source in SOURCES:
            for name in NAMES:
                link = ObjectLink("rabbitmq:queue", 1, name)
                subject = Subject(source, link.class_name, name)
                exists = received.reads_named(clearance, source, link)
                whole = decided(rules, subject, Subscribe(str(key), private=True)).allowed
                some_of_it = decided(rules, subject, Subscribe(str(key), MARKS.is_private_event(key))).allowed
                expected = Received.WHOLE if some_of_it else Received.NOTHING
                if some_of_it and record is QUEUE_DELETED and not whole:
                    expected = Received.WITHOUT_PRIVATE  # it has the user who deleted it
                if not exists:
                    expected = Received.NOTHING
                assert received.receives_event(clearance, record.number, source, link) is expected


@given(st.lists(RULES, max_size=5))
def test_operations_of_others_are_seen_as_single_decisions_say(rules: list[Rule]) -> None:
    received, clearance = of_principal(with_rules(*rules))
    for source in SOURCES:
        for name in NAMES:
            link = ObjectLink("rabbitmq:queue", 1, name)
            exists = received.reads_named(clearance, source, link)
            audits = decided(rules, Subject(source, link.class_name, name), ReadOperations()).allowed
            of_other = received.shown_operation(clearance, "jmx:anna", "jmx:bert", source, link)
            assert of_other is (OperationShown.WHOLE if exists and audits else OperationShown.NOTHING)
            own = received.shown_operation(clearance, "jmx:anna", "jmx:anna", source, link)
            assert own is (OperationShown.WHOLE if exists else OperationShown.WITHOUT_OBJECT)


CHANGING = st.builds(
    Rule,
    place=st.integers(0, 10**9).map(str),
    denies=st.booleans(),
    sources=some(PATTERNS, 1),
    classes=some(CLASS_PATTERNS, 1),
    objects=some(PATTERNS, 1),
    write=some(st.sampled_from(["*", "name", "max*", "maxConnections", "vhost"])),
    invoke=some(st.sampled_from(["*", "purge", "p*", "*e", "close"])),
    refresh=st.booleans(),
)


@given(st.lists(CHANGING, max_size=5))
def test_what_may_be_changed_is_as_single_decisions_say(rules: list[Rule]) -> None:
    compiled = PolicyTables(with_rules(*rules), MARKS)
    clearance = compiled.record.principals["jmx:anna"]
    for record in OPERATED:
        key, methods = record.schema.key, record.schema.methods
        access = ClassAccess(
            compiled.class_access(record), [one.unrestricted for one in compiled.record.clearances]
        )
        for source, name in ((source, name) for source in SOURCES for name in NAMES):
            subject = Subject(source, str(key), name)
            writes, invokes = access.writes(source, name)[clearance], access.invokes(source, name)[clearance]
            for position, one in enumerate(record.schema.elements):
                wish = SetElement(one.name, MARKS.effect(key, one.name))
                assert bool(writes >> position & 1) is decided(rules, subject, wish).allowed
            for position, method in enumerate(methods):
                call = CallMethod(method.name, MARKS.is_dangerous_method(key, method.name))
                assert bool(invokes >> position & 1) is decided(rules, subject, call).allowed
            again = decided(rules, subject, ReadObject()).allowed
            assert bool(invokes >> len(methods) & 1) is again
    grants = [rule for rule in rules if not rule.denies]
    changes = any(rule.write or rule.invoke or rule.refresh for rule in grants)
    assert compiled.record.clearances[clearance].changes is changes


def test_a_rule_that_denies_an_element_denies_what_else_a_peer_sends_of_that_name() -> None:
    """A peer chooses the names: with a second ``depth`` it would show what is denied, as ``depth_2``."""
    names = ("name", "depth", "depth_2", "depth_3", "depth_01", "depth_1", "depths", "width_2")
    pond = ClassSchema(ClassKey("pond", "fish"), tuple(element(name) for name in names))
    rules = (
        Rule("1", read=("*",), write=("*",)),
        Rule("2", denies=True, read=("depth",), write=("depth",)),
    )
    compiled = PolicyTables(with_rules(*rules), MARKS)
    clearance = compiled.record.principals["jmx:anna"]
    unrestricted = [one.unrestricted for one in compiled.record.clearances]
    access = ClassAccess(compiled.class_access(ClassRecord(9, pond, "name", "")), unrestricted)
    for vector in (access.vector("a", "carp"), access.writes("a", "carp")):
        denied = [name for position, name in enumerate(names) if not vector[clearance] >> position & 1]
        assert denied == ["depth", "depth_2", "depth_3"]
    subject = Subject("a", "pond:fish", "carp")
    assert not decided(rules, subject, MARKS.reading(pond.key, "depth_2")).allowed
    assert not decided(rules, subject, MARKS.setting(pond.key, "depth_2")).allowed


def test_a_rule_that_grants_an_element_grants_no_second_one_of_its_name() -> None:
    subject, rules = Subject("a", "pond:fish", "carp"), (Rule("1", read=("depth",)),)
    assert decided(rules, subject, MARKS.reading(ClassKey("pond", "fish"), "depth")).allowed
    assert not decided(rules, subject, MARKS.reading(ClassKey("pond", "fish"), "depth_2")).allowed


def test_by_default_addresses_users_and_operations_of_others_are_hidden() -> None:
    received, clearance = of_principal(RoleSet())
    connection = received.of_class(CONNECTION.number)
    assert connection is not None
    mask = connection.vector("east", "127.0.0.1:50000 -> 127.0.0.1:5672")[clearance]
    assert mask == 0b1010  # vhost and channels, neither name nor peerHost
    assert not connection.names(mask)
    assert received.vector(QUEUE.number, "east", "/|orders")[clearance] == 0b111
    assert received.vector(USER.number, "east", "guest")[clearance] == 0
    link = ObjectLink("rabbitmq:queue", 1, "/|orders")
    shown = received.shown_operation(clearance, "jmx:anna", "jmx:bert", "east", link)
    assert shown is OperationShown.NOTHING
    assert received.receives_event(clearance, 5, "east", None) is Received.NOTHING
    assert received.receives_event(clearance, QUEUE_DELETED.number, "east", link) is Received.WITHOUT_PRIVATE
    assert received.receives_event(clearance, 6, "east", None) is Received.WHOLE
    assert received.sees_alarm(clearance, "memoryAlarm", "east", link)


def test_the_role_of_everything_needs_no_tables() -> None:
    received, clearance = of_principal(RoleSet(principals={"*": (EVERYTHING,)}))
    assert received.clearances[clearance].unrestricted
    assert received.vector(99, "nowhere", "nothing")[clearance] == -1


def test_without_tables_nothing_is_read() -> None:
    received = AccessTables()
    assert received.clearance("jmx:anna") is None
    received.take(PolicyTables(RoleSet(), MARKS).record)
    clearance = received.clearance("jmx:anna")
    assert clearance is not None
    assert received.vector(QUEUE.number, "east", "/|orders")[clearance] == 0
    assert not received.reads_named(clearance, "east", ObjectLink("rabbitmq:queue", 1, "/|orders"))
    assert received.receives_event(clearance, QUEUE_DELETED.number, "east", None) is Received.NOTHING


def test_principals_with_the_same_rules_share_a_clearance() -> None:
    roles = RoleSet(
        {"queues": Role("queues", (Rule("1", classes=("*:queue",), read=("*",)),))},
        {"jmx:anna": ("queues",), "jmx:bert": ("queues",), "snmp:(reader)": ("queues",)},
    )
    record = PolicyTables(roles, MARKS).record
    assert len({record.principals[name] for name in ("jmx:anna", "jmx:bert", "snmp:(reader)")}) == 1
    assert record.others["jmx"] != record.principals["jmx:anna"]


def test_vectors_of_a_class_are_shared() -> None:
    compiled = PolicyTables(with_rules(Rule("1", objects=("/|*",), read=("*",))), MARKS)
    access = ClassAccess(
        compiled.class_access(QUEUE), [one.unrestricted for one in compiled.record.clearances]
    )
    assert access.vector("east", "/|a") is access.vector("west", "/|b")
    assert access.vector("east", "/|a") is not access.vector("east", "a|a")
    assert not access.is_uniform("east")


def test_what_is_read_of_every_object_does_not_depend_on_rules_of_others() -> None:
    some = Rule("1", objects=("/|*",), read=("*",))
    roles = RoleSet(
        {
            "some": Role("some", (some,)),
            "all": Role("all", (Rule("1", read=("*",)), replace(some, denies=True, read=("messages",)))),
        },
        {"jmx:anna": ("some",), "jmx:bert": ("all",)},
    )
    compiled = PolicyTables(roles, MARKS)
    principals, clearances = compiled.record.principals, compiled.record.clearances
    access = ClassAccess(compiled.class_access(QUEUE), [one.unrestricted for one in clearances])
    whole, of_one = access.whole("east"), access.vector("east", "b|a")
    assert whole[principals["jmx:anna"]] == 0
    messages = 1 << QUEUE.schema.positions["messages"]
    assert whole[principals["jmx:bert"]] == of_one[principals["jmx:bert"]] & ~messages
    assert of_one[principals["jmx:bert"]] & messages


def test_a_policy_that_is_sent_again_changes_nothing() -> None:
    record = PolicyTables(RoleSet(), MARKS).record
    received = AccessTables()
    assert received.take(record)
    assert not received.take(PolicyTables(RoleSet(), MARKS).record)
    assert received.take(PolicyRecord({}, {}, ()))
