"""Classes that applications reported, over a restart of the gateway."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from gateway.model.schema import Access, Argument, ClassKey, ClassSchema, Element, Kind, Method, NamedValue
from gateway.model.values import ValueType
from gateway.service.state.cached_schemas import CachedClasses
from tests.components.waiting import eventually

TANK = ClassSchema(
    ClassKey("ami", "Tank", b"\x01\xff"),
    properties=(Element("id", ValueType.STRING, index=True, description="who it is: “t1”"),),
    statistics=(
        Element("level", ValueType.S32, Access.READ_ONLY, optional=True, minimum=0, kind=Kind.HIGH),
        Element("state", ValueType.STRING, values=(NamedValue("Open", "open"),), group=("a", "b")),
    ),
    methods=(Method("drain", (Argument("why", ValueType.STRING, default="none", optional=True),), "Drain"),),
    label="Tank",
)


async def kept(state: Path, *schemas: ClassSchema) -> None:
    """Learn these, and wait until they are in the file."""
    classes = CachedClasses(state, "plant")
    classes.read()
    keeping = asyncio.create_task(classes.keep())
    classes.learnt(schemas)

    async def all_there() -> bool:
        return set(schemas) <= set(CachedClasses(state, "plant").read())

    await eventually(all_there, "the classes")
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping


async def test_they_are_the_same_afterwards(tmp_path: Path) -> None:
    await kept(tmp_path, TANK)
    assert CachedClasses(tmp_path, "plant").read() == (TANK,)


async def test_of_each_class_the_latest_version(tmp_path: Path) -> None:
    await kept(tmp_path, TANK)
    grown = ClassSchema(ClassKey("ami", "Tank", b"\x02"), (*TANK.properties, *TANK.statistics))
    pump = ClassSchema(ClassKey("ami", "Pump"))
    await kept(tmp_path, pump, grown)
    assert CachedClasses(tmp_path, "plant").read() == (grown, pump)


async def test_what_is_not_worth_keeping_goes_with_the_next_that_is_learnt(tmp_path: Path) -> None:
    pump = ClassSchema(ClassKey("ami", "Pump"))
    await kept(tmp_path, TANK)
    classes = CachedClasses(tmp_path, "plant")
    classes.keep_only(())
    assert classes.read() == (TANK,)
    classes.keep_only(())
    keeping = asyncio.create_task(classes.keep())
    classes.learnt([pump])

    async def is_alone() -> bool:
        return CachedClasses(tmp_path, "plant").read() == (pump,)

    await eventually(is_alone, "the class")
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping


@pytest.mark.parametrize("text", ["", "something else\n", "amqp-gateway classes 2\n"])
@pytest.mark.parametrize("line", ["", "[]", '[["a"]]', '[["ami","Tank","zz"],[],[],[],"",""]', "{", "7"])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "schemas").mkdir()
    first = text or "amqp-gateway classes 1: fields of each class in their order, JSON\n"
    (tmp_path / "schemas" / "plant.classes").write_text(f"{first}{line}\n", encoding="utf-8")
    assert CachedClasses(tmp_path, "plant").read() == ()


def test_none_were_kept(tmp_path: Path) -> None:
    assert CachedClasses(tmp_path, "plant").read() == ()
