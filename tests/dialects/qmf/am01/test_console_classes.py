"""Learning of the classes of an agent before AM2 by a console."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.am01.forms import AM01
from gateway.dialects.qmf.am01.keys import content_key
from gateway.dialects.qmf.am01.messages import AgentHello, ClassDescription, Revision
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.messages import ClassIndication, ClassKind, PackageIndication, SchemaRequest
from gateway.model.observations import ClassLearned, ObjectSeen, RecordLost
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.dialects.qmf.am01.examples import KEY, PROPERTY_OCTETS, TIMES_AND_ID
from tests.dialects.qmf.am01.playbook import BROKER, Play, synchronised
from tests.dialects.qmf.playbook import START


def test_an_end_of_a_class_without_a_schema_is_lost() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.arrives_octets(b"AM01CC\x04ship" + TIMES_AND_ID + b"\x01", "mgmt.config.ship")
    play.leaves()
    ended = TIMES_AND_ID[:16] + b"\0\0\0\0\0\0\0\x01" + TIMES_AND_ID[24:]
    play.arrives_octets(b"AM01CC\x04ship" + ended + b"\x01", "mgmt.config.ship")
    play.leaves(RecordLost(ClassKey("shop", "ship"), "1.0"))


def test_a_class_that_comes_up_is_asked_for() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    octets = b"\x04shop\x04ship" + b"S" * 16
    play.arrives_octets(b"AM01CC" + octets + TIMES_AND_ID + b"\x01", "mgmt.config.ship")
    play.leaves(("agent", SchemaRequest(0, ClassKey("shop", "ship", b"S" * 16))))
    ship = ClassSchema(ClassKey("shop", "ship", b"S" * 16), (Element("ready", ValueType.BOOL),))
    play.arrives(ClassDescription(0, ClassDefinition.of(ship, AM01)))
    (learnt,) = play.left()
    assert isinstance(learnt, ClassLearned)
    play.arrives_octets(b"AM01CC" + octets + TIMES_AND_ID + b"\x01", "mgmt.config.ship")
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert seen.properties == (True,)


def test_a_class_whose_schema_changes_is_learnt_again() -> None:
    play = synchronised(Revision.JANUARY_2008)
    before = play.class_key
    other = ClassSchema(ClassKey("", "tank"), (Element("name", ValueType.STRING, max_length=255),))
    play.publishes(ClassDescription(0, ClassDefinition.of(other, AM01)))
    assert play.class_key.hash != before.hash
    octets = PROPERTY_OCTETS[:3]
    play.arrives_octets(b"AM01CC\x04tank" + TIMES_AND_ID + octets, "mgmt.config.tank")
    seen = play.left()[-1]
    assert isinstance(seen, ObjectSeen)
    assert (seen.key, seen.properties) == (play.class_key, ("t1",))


def test_more_classes_than_are_kept_are_said_once_and_left_out() -> None:
    play = Play(Revision.JANUARY_2008, {"class_limit": 1})
    play.connects()
    play.left()
    one = ClassSchema(ClassKey("", "ship"), (Element("ready", ValueType.BOOL),))
    play.publishes(ClassDescription(0, ClassDefinition.of(one, AM01)))
    play.left()
    play.publishes(play.described())
    play.publishes(play.described())
    assert play.notes() == ["too-many-classes"]


def test_classes_that_were_not_asked_about_change_nothing() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    ship = ClassSchema(ClassKey("shop", "ship", b"S" * 16), (Element("ready", ValueType.BOOL),))
    play.arrives(ClassDescription(0, ClassDefinition.of(ship, AM01)))
    play.arrives(ClassIndication(0, ClassKind.OBJECT, KEY), PackageIndication(0, "shop"))
    assert not any(isinstance(one, ClassLearned) for one in play.left())


def test_a_package_that_is_announced_is_a_reason_to_list_again() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    play.arrives(PackageIndication(0, "dock"), key="mgmt.schema.package")
    assert ("agent", AgentHello()) in play.left()


@pytest.mark.parametrize("revision", [Revision.DESIGN_NOTES, Revision.FEBRUARY_2008, Revision.MARCH_2008])
def test_of_packages_that_are_left_out_nothing_is_learnt_or_missed(revision: Revision) -> None:
    play = synchronised(revision, {"packages": frozenset({"shop"})})
    pier = ClassKey("dock", "pier", b"P" * 16)
    schema = ClassSchema(pier, (Element("free", ValueType.BOOL),))
    play.publishes(ClassDescription(0, ClassDefinition.of(schema, AM01)))
    ended = b"\x04dock\x04pier" + b"P" * 16 + TIMES_AND_ID[:16] + b"\0\0\0\0\0\0\0\x01" + TIMES_AND_ID[24:]
    head = b"AM1c" + bytes(4) if revision is Revision.MARCH_2008 else b"AM01CC"
    play.arrives_octets(head + ended + b"\x01", content_key(revision, "config", pier, BROKER))
    play.leaves()


def test_classes_that_are_reported_without_a_package_are_not_left_out() -> None:
    play = synchronised(Revision.JANUARY_2008, {"packages": frozenset({"dock"})})
    assert play.class_key.package == "shop"


PUMP = {
    name: ClassDescription(
        0, ClassDefinition.of(ClassSchema(ClassKey("", "pump"), (Element(name, ValueType.U32),)), AM01)
    )
    for name in ("speed", "pressure")
}
"""Two versions of a class, which differ on the wire only in their descriptions."""


def pumps(play: Play, number: int, value: int, deleted: int = 0) -> list[ObjectSeen]:
    """Pass the content of a pump to the console; return the resulting observations of objects."""
    head = START.to_bytes(8, "big") * 2 + deleted.to_bytes(8, "big") + number.to_bytes(8, "big")
    play.arrives_octets(b"AM01CC\x04pump" + head + value.to_bytes(4, "big"), "mgmt.config.pump")
    return [one for one in play.left() if isinstance(one, ObjectSeen)]


def reconnected(described: str) -> Play:
    """Return a console that knows the former class of the pump and has just reconnected."""
    play = Play(Revision.JANUARY_2008, {"republish_interval": 60 * SECOND})
    play.connects()
    play.publishes(PUMP[described])
    assert pumps(play, START, 9)
    play.time_passes(70)
    play.disconnects()
    play.connects()
    play.left()
    return play


def test_a_class_without_a_hash_is_another_one_perhaps_behind_a_start_that_was_missed() -> None:
    play = reconnected("speed")
    later = START + 60 * SECOND
    assert pumps(play, later, 1_013) == []
    assert pumps(play, later + 1, 1_014) == []
    play.publishes(PUMP["pressure"])
    (seen,) = pumps(play, later, 1_015)
    assert (seen.key, seen.properties) == (play.class_key, (1_015,))


def test_what_ended_and_cannot_be_read_for_that_is_lost() -> None:
    play = reconnected("speed")
    play.arrives_octets(
        b"AM01CC\x04pump" + bytes(16) + bytes(7) + b"\1" + (2 * START).to_bytes(8, "big") + bytes(4),
        "mgmt.config.pump",
    )
    assert RecordLost(ClassKey("shop", "pump"), "1.0") in play.left()


def test_a_class_of_an_agent_that_runs_on_is_what_it_was() -> None:
    play = reconnected("speed")
    (seen,) = pumps(play, START, 10)
    assert (seen.key, seen.properties) == (play.class_key, (10,))


def test_a_class_that_was_described_since_is_what_it_was_described_as() -> None:
    play = reconnected("speed")
    play.publishes(PUMP["pressure"])
    (seen,) = pumps(play, START + 60 * SECOND, 1_013)
    assert (seen.key, seen.properties) == (play.class_key, (1_013,))
