"""Objects of two classes that live with one native id: neither ends the other."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    SchemaResponse,
    StatisticContent,
)
from gateway.dialects.qmf.session_state import State
from gateway.feed.records import ClassRecord, DeleteRecord, ObjectRecord
from gateway.feed.values import ObjectLink
from gateway.model.observations import ObjectSeen, Observation
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import Reference, ValueType
from tests.dialects.qmf.console_story import PUSHED
from tests.dialects.qmf.playbook import BROKER, START, ConsolePlay
from tests.inventory.playbook import AGENT, NOW, Playbook, of


def a_class(name: str, letter: bytes) -> ClassSchema:
    return ClassSchema(
        ClassKey("pond", name, letter * 16),
        (Element("name", ValueType.STRING, index=True),),
        (Element("depth", ValueType.U32),),
    )


FISH: Final = a_class("fish", b"F")
FROG: Final = a_class("frog", b"G")
NET: Final = ClassSchema(
    ClassKey("pond", "net", b"N" * 16),
    (Element("name", ValueType.STRING, index=True), Element("caught", ValueType.REFERENCE)),
)


def whole(
    schema: ClassSchema, depth: int, *, created: int = 1, deleted: int = 0, name: str = "one"
) -> ObjectSeen:
    return ObjectSeen(schema.key, AGENT, "x", NOW, created, deleted, (name,), (depth,))


def depth_of(schema: ClassSchema, depth: int, *, created: int = 1) -> ObjectSeen:
    """Return a report of statistics alone, which most reports are."""
    return ObjectSeen(schema.key, AGENT, "x", NOW, created, 0, None, (depth,))


def net(caught: str) -> ObjectSeen:
    return ObjectSeen(NET.key, AGENT, "n", NOW, 1, 0, ("net", Reference(caught)))


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    return Playbook(tmp_path, schemas=(FISH, FROG, NET))


def depths(playbook: Playbook) -> dict[str, object]:
    """Return the depth of each object that lives, by its class."""
    names = {number: schema.key.name for number, schema in classes(playbook).items()}
    objects = of(ObjectRecord, playbook.snapshot())
    return {names[one.class_number]: one.values.get(1) for one in objects if names[one.class_number] != "net"}


def classes(playbook: Playbook) -> dict[int, ClassSchema]:
    return {one.number: one.schema for one in of(ClassRecord, playbook.snapshot())}


@pytest.mark.parametrize("created", [(1, 1), (1, 2), (0, 0)], ids=["one time", "two times", "no time"])
def test_neither_ends_the_other(playbook: Playbook, created: tuple[int, int]) -> None:
    fish, frog = created
    records = playbook.synchronise(whole(FISH, 1, created=fish), whole(FROG, 2, created=frog))
    for depth in (10, 20, 30):
        records += playbook.publish(depth_of(FISH, depth, created=fish))
        records += playbook.publish(depth_of(FROG, depth + 1, created=frog))
        assert depths(playbook) == {"fish": depth, "frog": depth + 1}
        records += playbook.publish(whole(FISH, depth + 2, created=fish))
        records += playbook.publish(whole(FROG, depth + 3, created=frog))
        assert depths(playbook) == {"fish": depth + 2, "frog": depth + 3}
    records += playbook.synchronise(whole(FROG, 40, created=frog), whole(FISH, 41, created=fish))
    assert depths(playbook) == {"fish": 41, "frog": 40}
    assert of(DeleteRecord, records) == []


def test_the_end_of_one_is_its_own(playbook: Playbook) -> None:
    playbook.synchronise(whole(FISH, 1), whole(FROG, 2))
    playbook.publish(whole(FISH, 3, deleted=NOW))
    assert depths(playbook) == {"frog": 2}
    playbook.publish(depth_of(FROG, 4))
    playbook.publish(whole(FISH, 5))
    assert depths(playbook) == {"fish": 5, "frog": 4}
    playbook.publish(ObjectSeen(FROG.key, AGENT, "x", NOW, 1, NOW))
    assert depths(playbook) == {"fish": 5}


def test_one_that_a_complete_resync_misses_ends_alone(playbook: Playbook) -> None:
    playbook.synchronise(whole(FISH, 1), whole(FROG, 2))
    playbook.synchronise(whole(FISH, 3))
    assert depths(playbook) == {"fish": 3}
    playbook.publish(depth_of(FISH, 4))
    assert depths(playbook) == {"fish": 4}


def caught(playbook: Playbook) -> object:
    return playbook.objects()["net"].values.get(1)


def test_a_reference_to_the_id_of_two_that_live_leads_nowhere(playbook: Playbook) -> None:
    """It could mean either. An id that an agent gave to another object leads to that one."""
    playbook.synchronise(whole(FISH, 1), net("x"))
    assert caught(playbook) == ObjectLink("pond:fish", 1, "one")
    playbook.publish(whole(FROG, 2, created=2), net("x"))
    assert caught(playbook) == ObjectLink("pond:frog", 1, "one")
    playbook.publish(depth_of(FISH, 3), net("x"))
    assert caught(playbook) is None
    playbook.publish(whole(FISH, 4, deleted=NOW), net("x"))
    assert caught(playbook) == ObjectLink("pond:frog", 1, "one")


SHARED_ID: Final = ObjectId.of(sequence=5, number=7)


def properties(schema: ClassSchema, *, deleted: int = 0) -> PropertyContent:
    return PropertyContent(0, schema.key, START, START, deleted, SHARED_ID, ("one",))


def statistics(schema: ClassSchema, depth: int) -> StatisticContent:
    return StatisticContent(0, schema.key, START, START, 0, SHARED_ID, None, (depth,))


def test_the_bytes_of_an_agent_that_gives_one_id_twice(playbook: Playbook) -> None:
    """Both were created at one time, and the clock of the agent stands still."""
    known = Definitions()
    for schema in (FISH, FROG):
        known.add(ClassDefinition.of(schema))
    play = ConsolePlay(known=known)
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "pond"), CommandComplete(2))
    listed = [ClassIndication(3, ClassKind.OBJECT, schema.key) for schema in (FISH, FROG)]
    play.arrives(*listed, CommandComplete(3))
    for sequence, one in enumerate((FISH, FROG), 4):
        definition = known.find_class(one.key)
        assert definition is not None
        play.arrives(SchemaResponse(sequence, definition))
    for sequence, (schema, depth) in enumerate(((FISH, 1), (FROG, 2)), 6):
        play.arrives(ObjectContent(sequence, schema.key, START, START, 0, SHARED_ID, ("one",), (depth,)))
        play.arrives(CommandComplete(sequence))
    assert play.session.state is State.SYNCHRONISED

    def shown() -> dict[str, object]:
        playbook.publish(*(step for step in play.left() if isinstance(step, Observation)))
        return depths(playbook)

    assert shown() == {"fish": 1, "frog": 2}
    play.arrives(statistics(FISH, 3), statistics(FROG, 4), key=PUSHED)
    assert shown() == {"fish": 3, "frog": 4}
    play.arrives(properties(FISH, deleted=START), key=PUSHED)
    assert shown() == {"frog": 4}
    play.arrives(properties(FROG), statistics(FROG, 5), key=PUSHED)
    assert shown() == {"frog": 5}
