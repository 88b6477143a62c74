"""The records of classes and events: what each element and argument is called everywhere behind them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gateway.feed.records import ClassRecord, ObjectRecord
from gateway.model.observations import ObjectSeen
from gateway.model.schema import (
    Argument,
    ClassKey,
    ClassSchema,
    Element,
    EventSchema,
    Method,
    distinct_names,
    with_distinct_arguments,
    with_distinct_names,
)
from gateway.model.values import ValueType
from tests.inventory.playbook import AGENT, NOW, Playbook, of

FISH = ClassSchema(
    ClassKey("pond", "fish"),
    (
        Element("name", ValueType.STRING, index=True),
        *(Element(name, ValueType.U32) for name in ("depth", "Depth", "")),
    ),
    tuple(Element(name, ValueType.U32) for name in ("depth", "depth_2", " ")),
)


def test_of_elements_with_one_name_each_has_its_own_and_one_without_any_gets_one(tmp_path: Path) -> None:
    """Of a property and a statistic of one name, some front ends showed the one, and others the other."""
    playbook = Playbook(tmp_path, schemas=(FISH,))
    playbook.synchronise(ObjectSeen(FISH.key, AGENT, "f1", NOW, 1, 0, ("carp", 1, 2, 3), (4, 5, 6)))
    (record,) = of(ClassRecord, playbook.snapshot())
    (fish,) = of(ObjectRecord, playbook.snapshot())
    names = [element.name for element in record.schema.elements]
    assert names == ["name", "depth", "Depth", "element3", "depth_3", "depth_2", "element6"]
    assert [fish.values[position] for position in range(len(names))] == ["carp", 1, 2, 3, 4, 5, 6]


def test_so_have_arguments_of_methods() -> None:
    arguments = tuple(Argument(name, ValueType.U32) for name in ("to", "", "to"))
    fish = replace(FISH, methods=(Method("feed", arguments), Method("catch", arguments[:1])))
    feed, catch = with_distinct_names(fish).methods
    assert [one.name for one in feed.arguments] == ["to", "element1", "to_2"]
    assert catch == fish.methods[1]


def test_so_have_arguments_of_events() -> None:
    jump = EventSchema(
        ClassKey("pond", "jump"), tuple(Argument(name, ValueType.U32) for name in ("h", "h", ""))
    )
    distinct = with_distinct_arguments(jump)
    assert [one.name for one in distinct.arguments] == ["h", "h_2", "element2"]
    assert with_distinct_arguments(distinct) is distinct


def test_thousands_of_one_name_are_distinct_at_once() -> None:
    """Comparing each with all would keep the core busy for half a minute: a peer may send as many."""
    names = distinct_names(["x"] * 30_000)
    assert (names[0], names[-1], len(set(names))) == ("x", "x_30000", 30_000)
