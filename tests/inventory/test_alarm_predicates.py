"""Evaluation of a condition from the values of an object."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.feed.records import ClassRecord
from gateway.feed.values import FeedValue
from gateway.inventory.alarms import Predicate, predicates_of
from gateway.mapping.rules import AlarmRule
from gateway.model.schema import ClassKey, ClassSchema, Element, NamedValue
from gateway.model.values import ValueType

SCHEMA = ClassSchema(
    ClassKey("shop", "till"),
    statistics=(
        Element("value", ValueType.U32),
        Element("state", ValueType.U8, values=(NamedValue("closed", 0), NamedValue("open", 1))),
    ),
)


def predicate(element: str = "value", **test: Any) -> Predicate:  # noqa: ANN401  as a mapping file has it
    rule = AlarmRule.model_validate({"element": element, "severity": "major", "text": "", **test})
    (one,) = predicates_of(ClassRecord(1, SCHEMA, "", ""), {"alarm": rule})
    return one


@pytest.mark.parametrize(
    ("test", "value", "holds"),
    [
        ({"equals": True}, True, True),
        ({"equals": True}, 1, False),
        ({"equals": False}, False, True),
        ({"equals": False}, 0, False),
        ({"equals": 0}, 0, True),
        ({"equals": 0}, False, False),
        ({"equals": 1}, 1.0, True),
        ({"equals": "down"}, "down", True),
        ({"equals": "down"}, "up", False),
        ({"not_empty": True}, "", False),
        ({"not_empty": True}, "x", True),
        ({"not_empty": True}, ("x",), True),
        ({"not_empty": True}, {}, False),
        ({"not_empty": True}, {"x": 1}, True),
        ({"not_empty": True}, 7, False),
        ({"at_least": 5}, 5, True),
        ({"at_least": 5}, 4.9, False),
        ({"at_least": 5}, 2**64 - 1, True),
        ({"at_least": 5}, float("nan"), False),
        ({"at_least": 0}, True, False),
        ({"at_least": 0}, "7", False),
    ],
)
def test_it_holds_of_these_values_only(test: dict[str, Any], value: FeedValue, *, holds: bool) -> None:
    assert predicate(**test).holds({0: value}, active=False) is holds


@pytest.mark.parametrize("test", [{"equals": False}, {"not_empty": True}, {"at_least": 0}])
def test_it_never_holds_of_an_absent_value(test: dict[str, Any]) -> None:
    assert not predicate(**test).holds({1: 1}, active=True)


def test_a_second_threshold_holds_what_stands() -> None:
    full = predicate(at_least=90, clear_below=70)
    assert [full.holds({0: value}, active=False) for value in (70, 89, 90)] == [False, False, True]
    assert [full.holds({0: value}, active=True) for value in (69, 70, 90)] == [False, True, True]


@pytest.mark.parametrize("wanted", ["open", 1])
def test_a_value_of_an_enumeration_is_named_by_label_or_number(wanted: str | int) -> None:
    opened = predicate("state", equals=wanted)
    assert [opened.holds({1: value}, active=False) for value in (0, 1, 2)] == [False, True, False]


def test_a_version_of_a_class_without_the_element_says_nothing() -> None:
    rule = AlarmRule.model_validate({"element": "other", "severity": "major", "text": "", "equals": 1})
    assert predicates_of(ClassRecord(1, SCHEMA, "", ""), {"alarm": rule}) == ()
