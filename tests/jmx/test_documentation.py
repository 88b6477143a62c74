"""``docs/jmx.md`` describes the attributes, types, exceptions and items that there are."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.jmx.classes import OWN_ATTRIBUTES, STALE
from gateway.jmx.commands import Attribute, AttributeType
from gateway.jmx.notifications import COMMON_ITEMS, OPERATION_ITEMS
from gateway.jmx.own_beans import GATEWAY_ATTRIBUTES, SOURCE_ATTRIBUTES
from gateway.jmx.types import attribute_type
from gateway.model.operations import Outcome
from gateway.model.schema import Element
from gateway.model.values import ValueType
from tests.jmx.test_operating import INVOKES, SETS

OPERATIONS = (
    (Path(__file__).parents[2] / "docs" / "set-and-invoke.md")
    .read_text(encoding="utf-8")
    .partition("\n## Outcomes\n")[2]
    .partition("\n## ")[0]
)
PAGE = (Path(__file__).parents[2] / "docs" / "jmx.md").read_text(encoding="utf-8")
JAVA = {
    AttributeType.BOOLEAN: "Boolean",
    AttributeType.LONG: "Long",
    AttributeType.BIG_INTEGER: "BigInteger",
    AttributeType.DOUBLE: "Double",
    AttributeType.STRING: "String",
    AttributeType.DATE: "Date",
    AttributeType.BYTES: "byte[]",
    AttributeType.OBJECT_NAME: "ObjectName",
    AttributeType.MAP: "TabularData",
    AttributeType.LIST: "String[]",
}


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(attributes: tuple[Attribute, ...]) -> list[str]:
    return [f"| `{a.name}` | {JAVA[a.type]} | {a.description} |" for a in attributes]


def test_the_attributes_of_every_object() -> None:
    reported = [line for line in section("Every object").splitlines() if line.startswith("| `")]
    assert reported[:-1] == rows(OWN_ATTRIBUTES)
    assert reported[-1].startswith(f"| `{STALE}` | Boolean |")


def test_the_attributes_of_the_gateway_and_its_sources() -> None:
    reported = [line for line in section("The gateway itself").splitlines() if line.startswith("| `")]
    assert reported == rows(GATEWAY_ATTRIBUTES) + rows(SOURCE_ATTRIBUTES)


def test_the_types() -> None:
    reported: dict[str, str] = {}
    for line in section("Types").splitlines():
        types, java, _ = [*line.strip("| ").split(" | "), "", ""][:3]
        reported |= dict.fromkeys(re.findall(r"`(\w+)`", types) if line.startswith("| `") else (), java)
    expected = {
        type_.value: {
            JAVA[attribute_type(Element("e", type_), statistic=statistic)] for statistic in (False, True)
        }
        for type_ in ValueType
    }
    assert {type_: set(java.split(", ")) for type_, java in reported.items()} == expected


def test_the_exceptions_of_each_outcome() -> None:
    reported: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for line in section("Set and invoke").splitlines():
        if line.startswith("| `"):
            outcomes, by_set, by_invoke = line.strip("| ").split(" | ")
            exceptions = (named_exceptions(by_set), named_exceptions(by_invoke))
            reported |= dict.fromkeys(re.findall(r"`([a-z-]+)`", outcomes), exceptions)
    assert reported == {
        outcome.value: (simple_names(SETS[outcome]), simple_names(INVOKES[outcome])) for outcome in Outcome
    }


def test_the_page_for_all_front_ends_says_the_same() -> None:
    rows = [line.strip("| ").split(" | ") for line in OPERATIONS.splitlines() if line.startswith("| `")]
    reported = {cells[0].strip("`"): cells[-2] for cells in rows}
    for outcome in Outcome:
        by_set, _, by_invoke = reported[outcome.value].partition("of a call")
        assert named_exceptions(by_set)[:1] == simple_names(SETS[outcome])[:1], outcome
        if by_invoke:
            assert named_exceptions(by_invoke)[:1] == simple_names(INVOKES[outcome])[:1], outcome


def named_exceptions(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`(\w*Exception)`", text))


def simple_names(classes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.rpartition(".")[2] for name in classes)


def test_the_items_of_every_operation() -> None:
    assert [name for name, _ in OPERATION_ITEMS if f"`{name}`" not in section("Notifications")] == []


def test_the_items_of_every_event() -> None:
    assert [name for name, _ in COMMON_ITEMS if f"`{name}`" not in section("Notifications")] == []
