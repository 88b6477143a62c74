"""The permissions of principals: no change is allowed without one."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.model.operations import Principal
from gateway.operations.policy import (
    CallMethod,
    Permission,
    Policy,
    ReadObject,
    SetElement,
    Subject,
    Wish,
)

OPERATOR = Principal("jmx", "operator", "192.0.2.7:50123")
QUEUE = Subject("shop", "rabbitmq:queue", "/|orders.eu")
PURGE, START = CallMethod("purge", dangerous=True), CallMethod("start", dangerous=False)
ALL = Permission(frozenset({"jmx:operator"}), set=("*",), invoke=("*",), read=True)


def decide(permission: Permission, wish: Wish, who: Principal = OPERATOR, subject: Subject = QUEUE) -> bool:
    return Policy([permission]).decide(who, subject, wish)


@pytest.mark.parametrize("wish", [SetElement("limit"), START, PURGE, ReadObject()])
def test_nothing_is_allowed_to_begin_with(wish: Wish) -> None:
    assert not Policy().decide(OPERATOR, QUEUE, wish)
    assert not decide(Permission(frozenset({"jmx:operator"})), wish)


@pytest.mark.parametrize("wish", [SetElement("limit"), START, ReadObject()])
def test_what_fits_is_allowed_wherever_it_is_asked_from(wish: Wish) -> None:
    assert decide(ALL, wish)
    assert decide(ALL, wish, Principal("jmx", "operator"))


@pytest.mark.parametrize("who", [Principal("snmp", "operator"), Principal("jmx", "Operator")])
def test_another_is_another(who: Principal) -> None:
    assert not decide(ALL, START, who)


@pytest.mark.parametrize(
    "narrower",
    [{"sources": ("sh?pp*",)}, {"classes": ("rabbitmq:vhost", "*:exchange")}, {"objects": ("/|Orders*",)}],
)
def test_what_a_permission_does_not_name_it_does_not_allow(narrower: dict[str, tuple[str, ...]]) -> None:
    assert not decide(dataclasses.replace(ALL, **narrower), START)  # type: ignore[arg-type]  # patterns


def test_patterns_are_as_of_a_shell() -> None:
    named = dataclasses.replace(
        ALL, sources=("other", "s*"), classes=("*:queue",), objects=("/|orders*",), set=("max*",)
    )
    assert decide(named, SetElement("maxLength"))
    assert not decide(named, SetElement("limit"))


@pytest.mark.parametrize(("invoke", "allowed"), [("*", False), ("purg?", False), ("purge", True)])
def test_what_is_dangerous_is_allowed_by_its_name_only(invoke: str, allowed: bool) -> None:  # noqa: FBT001  a case
    assert decide(dataclasses.replace(ALL, invoke=(invoke,)), PURGE) is allowed


def test_permissions_do_not_add_up() -> None:
    policy = Policy(
        [dataclasses.replace(ALL, objects=("/|a",)), dataclasses.replace(ALL, set=(), invoke=(), read=False)]
    )
    assert not policy.decide(OPERATOR, QUEUE, SetElement("limit"))


def test_a_denial_says_which_rule_would_allow_it() -> None:
    nothing = Policy()
    where = "rabbitmq:queue /|orders.eu of shop"
    lacks = "no rule under operations.allow lets jmx:operator"
    takes = 'it takes one with who: ["jmx:operator"] and'
    assert nothing.denial(OPERATOR, QUEUE, PURGE) == f"{lacks} call purge: {where}; {takes} invoke: [purge]"
    assert nothing.denial(OPERATOR, QUEUE, SetElement("a")) == f"{lacks} set a: {where}; {takes} set: [a]"
    assert nothing.denial(OPERATOR, QUEUE, ReadObject()) == (
        f"{lacks} read it again: {where}; {takes} read: true"
    )


@pytest.mark.parametrize(
    ("described", "why"),
    [(True, "cannot be undone"), (False, "is in no mapping, so perhaps it cannot be undone")],
)
def test_a_denial_says_that_a_pattern_is_not_enough(described: bool, why: str) -> None:  # noqa: FBT001  a case
    wish = CallMethod("purge", dangerous=True, described=described)
    assert Policy([ALL]).denial(OPERATOR, QUEUE, wish) == (
        f"the rules under operations.allow let jmx:operator call methods by pattern, and purge {why}: "
        "rabbitmq:queue /|orders.eu of shop; one of them has to name it, invoke: [purge]"
    )
    narrow = dataclasses.replace(ALL, objects=("other",))
    assert Policy([narrow]).denial(OPERATOR, QUEUE, wish).startswith("no rule under operations.allow")
