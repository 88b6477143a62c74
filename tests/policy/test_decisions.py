"""Single decisions: nothing is allowed without a rule, a rule that denies wins, and each names its rule."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.policy.decisions import (
    CallMethod,
    Policy,
    PublishObject,
    ReadElement,
    ReadObject,
    ReadOperations,
    SetElement,
    Subject,
    Subscribe,
    Wish,
    decided,
)
from gateway.policy.rules import RoleSet, Rule

OPERATOR = "jmx:operator"
QUEUE = Subject("shop", "rabbitmq:queue", "/|orders.eu")
PURGE, START = CallMethod("purge", dangerous=True), CallMethod("start", dangerous=False)
LOCKOUT = SetElement("vhost", "new logins must ask for this name")
ALL = Rule(
    "allow rule 1 of the role all",
    read=("*",),
    write=("*",),
    invoke=("*",),
    subscribe=("*:*",),
    refresh=True,
    audit=True,
    private=True,
)
EVERY_WISH: tuple[Wish, ...] = (
    ReadElement("depth"),
    SetElement("limit"),
    START,
    ReadObject(),
    Subscribe("rabbitmq:queueDeleted"),
    ReadOperations(),
)


def policy(*rules: Rule) -> Policy:
    return Policy(RoleSet(principals={OPERATOR: ()}, grants={OPERATOR: rules}))


def decide(rule: Rule, wish: Wish, who: str = OPERATOR) -> bool:
    return policy(rule).decide(who, QUEUE, wish).allowed


@pytest.mark.parametrize("wish", EVERY_WISH)
def test_nothing_is_allowed_to_begin_with(wish: Wish) -> None:
    assert not policy().decide(OPERATOR, QUEUE, wish).allowed
    assert not decide(Rule("an empty rule"), wish)


@pytest.mark.parametrize("wish", EVERY_WISH)
def test_what_a_rule_matches_is_allowed_by_it(wish: Wish) -> None:
    decision = policy(ALL).decide(OPERATOR, QUEUE, wish)
    assert (decision.allowed, decision.rule) == (True, ALL)


@pytest.mark.parametrize("who", ["snmp:operator", "jmx:Operator", "jmx:operator2"])
def test_another_principal_has_other_rules(who: str) -> None:
    assert not decide(ALL, START, who)


@pytest.mark.parametrize("wish", EVERY_WISH)
def test_a_rule_that_denies_wins_wherever_it_stands(wish: Wish) -> None:
    denying = dataclasses.replace(ALL, place="deny rule 1 of the role all", denies=True)
    for rules in ((ALL, denying), (denying, ALL)):
        decision = policy(*rules).decide(OPERATOR, QUEUE, wish)
        assert (decision.allowed, decision.rule) == (False, denying)


@pytest.mark.parametrize(
    "narrower",
    [
        {"sources": ("sh?pp*",)},
        {"classes": ("rabbitmq:vhost", "*:exchange")},
        {"objects": ("/|Orders*",)},
        {"objects": ("/|orders",)},
    ],
)
def test_a_rule_is_about_the_objects_that_its_patterns_name(narrower: dict[str, tuple[str, ...]]) -> None:
    assert not decide(dataclasses.replace(ALL, **narrower), START)  # type: ignore[arg-type]  # patterns


@pytest.mark.parametrize(
    ("pattern", "name", "denied"),
    [
        ("shop|q003", "shop|q003", True),
        ("shop|q003", "shop|q003#7db6", True),
        ("shop|q00?", "shop|q003#7db6", True),
        ("shop|q003#7db6", "shop|q003#7db6", True),
        ("shop|q003#7db6", "shop|q003#7db7", False),
        ("shop|q003#7db6", "shop|q003", False),
        ("shop|q003", r"shop|q003\#x", False),
    ],
)
def test_a_pattern_is_for_names_without_what_distinguishes_transient_objects(
    pattern: str,
    name: str,
    denied: bool,  # noqa: FBT001  a parameter
) -> None:
    denying = Rule("deny rule 1 of the role all", objects=(pattern,), read=("*",), denies=True)
    queue = dataclasses.replace(QUEUE, object_name=name)
    assert policy(ALL, denying).decide(OPERATOR, queue, ReadElement("depth")).allowed is not denied


def test_patterns_are_those_of_a_shell() -> None:
    named = dataclasses.replace(
        ALL, sources=("other", "s*"), classes=("*:queue",), objects=("/|orders*",), write=("max*",)
    )
    assert decide(named, SetElement("maxLength"))
    assert not decide(named, SetElement("limit"))


@pytest.mark.parametrize(("written", "allowed"), [("*", False), ("purg?", False), ("purge", True)])
def test_what_is_dangerous_is_allowed_by_its_name_only(written: str, allowed: bool) -> None:  # noqa: FBT001  a case
    assert decide(dataclasses.replace(ALL, invoke=(written,)), PURGE) is allowed
    element = written.replace("purg", "vhos").replace("vhose", "vhost")
    assert decide(dataclasses.replace(ALL, write=(element,)), LOCKOUT) is allowed


def test_a_dangerous_method_that_is_called_like_a_pattern_is_named_by_none() -> None:
    assert not decide(ALL, CallMethod("*", dangerous=True))
    assert not decide(dataclasses.replace(ALL, invoke=("[x]",)), CallMethod("[x]", dangerous=True))


@pytest.mark.parametrize(
    "wish", [ReadElement("peerHost", private=True), Subscribe("rabbitmq:userCreated", private=True)]
)
def test_what_is_private_takes_a_rule_that_says_so(wish: Wish) -> None:
    assert decide(ALL, wish)
    public = dataclasses.replace(ALL, private=False)
    decision = policy(public).decide(OPERATOR, QUEUE, wish)
    assert (decision.allowed, decision.by_pattern) == (False, True)


def test_rules_do_not_add_up_to_more_than_each_grants() -> None:
    rules = (dataclasses.replace(ALL, objects=("/|a",)), Rule("a rule", read=("*",)))
    assert not decided(rules, QUEUE, SetElement("limit")).allowed


def test_a_denial_says_what_would_grant_it() -> None:
    nothing = policy()
    where = "rabbitmq:queue /|orders.eu of shop"
    takes = "it takes one with"
    assert nothing.denial(OPERATOR, QUEUE, PURGE) == (
        f"no rule lets jmx:operator call purge: {where}; {takes} invoke: [purge]"
    )
    assert nothing.denial(OPERATOR, QUEUE, ReadElement("user", private=True)) == (
        f"no rule lets jmx:operator read user: {where}; {takes} private: true"
    )


def test_a_denial_names_the_rule_that_denies() -> None:
    denying = Rule("deny rule 2 of the role narrow", denies=True, invoke=("p*",))
    assert policy(ALL, denying).denial(OPERATOR, QUEUE, PURGE) == (
        "deny rule 2 of the role narrow denies jmx:operator to call purge: rabbitmq:queue /|orders.eu of shop"
    )


def test_a_denial_does_not_name_an_object_whose_name_is_not_read() -> None:
    text = policy().denial(OPERATOR, QUEUE, PURGE, "row 7 of rabbitmq:queue")
    assert "orders" not in text
    assert "row 7 of rabbitmq:queue" in text


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (PURGE, "call methods by pattern, and purge cannot be undone"),
        (
            dataclasses.replace(PURGE, described=False),
            "call methods by pattern, and purge is in no mapping, so perhaps it cannot be undone",
        ),
        (
            LOCKOUT,
            "set elements by pattern, and vhost is dangerous (new logins must ask for this name)",
        ),
    ],
)
def test_a_denial_says_that_a_pattern_is_not_enough(wish: Wish, why: str) -> None:
    assert f"the rules let jmx:operator {why}: " in policy(ALL).denial(OPERATOR, QUEUE, wish)
    narrow = dataclasses.replace(ALL, objects=("other",))
    assert policy(narrow).denial(OPERATOR, QUEUE, wish).startswith("no rule lets jmx:operator")


TANK = Subject("plant", "ami:Tank", "pump-7|t1")
PEER = "ami:pump"


def test_peers_publish_without_a_rule_until_a_key_names_one() -> None:
    for principals in ({}, {"*": ("monitoring",)}, {"jmx:x": ()}):
        assert Policy(RoleSet(principals=principals)).decide(PEER, TANK, PublishObject()).allowed
    for key in (PEER, "ami:other", "ami:*"):
        assert (
            not Policy(RoleSet(principals={key: ("monitoring",)})).decide(PEER, TANK, PublishObject()).allowed
        )
    text = Policy(RoleSet(principals={PEER: ()})).denial(PEER, TANK, PublishObject())
    assert (
        text
        == "no rule lets ami:pump publish it: ami:Tank pump-7|t1 of plant; it takes one with publish: true"
    )


def test_a_rule_about_publishing_grants_nothing_else() -> None:
    rule = Rule("a rule", classes=("ami:*",), publish=True)
    peers = Policy(RoleSet(principals={PEER: ()}, grants={PEER: (rule,)}))
    assert peers.decide(PEER, TANK, PublishObject()).allowed
    assert not peers.decide(PEER, QUEUE, PublishObject()).allowed
    for wish in EVERY_WISH:
        assert not peers.decide(PEER, TANK, wish).allowed


def test_nothing_is_free_for_a_console() -> None:
    for principals in ({}, {"qmf:console": ()}):
        assert not Policy(RoleSet(principals=principals)).decide("qmf:console", QUEUE, PURGE).allowed
