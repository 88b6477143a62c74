"""Observations of a console from the objects and events of an agent before AM2."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import EventIndication, MethodResponse, PackageQuery
from gateway.model.observations import EventLearned, EventSeen, ObjectSeen, RecordLost, Severity
from gateway.model.schema import ClassKey
from tests.dialects.qmf.am01.examples import KEY, OBJECT_ID
from tests.dialects.qmf.am01.playbook import Play, synchronised
from tests.dialects.qmf.playbook import START

REVISIONS = pytest.mark.parametrize("revision", list(Revision), ids=lambda one: one.value)


def test_the_end_of_an_object_waits_for_its_last_statistics() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(deleted=START + 9))
    play.leaves()
    play.publishes(play.inst(deleted=START + 9))
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert (seen.deleted, seen.properties is None, seen.statistics) == (START + 9, False, (7, 50.0, "hi"))


def test_the_end_of_an_object_does_not_wait_long() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(deleted=START + 9))
    play.leaves()
    play.time_passes(1)
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert seen.statistics is None


def test_the_end_of_an_object_is_reported_before_whatever_else_comes() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(deleted=START + 9), play.config(object_id=ObjectId(0, 5)))
    ended, other = play.left()
    assert isinstance(ended, ObjectSeen)
    assert isinstance(other, ObjectSeen)
    assert (ended.native_id, other.native_id) == (str(OBJECT_ID), "0-0-0-0-5")


def test_the_end_of_an_object_is_reported_when_the_link_ends() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(deleted=START + 9), play.config(deleted=START + 9, object_id=ObjectId(0, 5)))
    play.disconnects()
    assert len([one for one in play.left() if isinstance(one, ObjectSeen)]) == 2


def test_an_object_known_by_its_statistics_only_is_not_made_up() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.inst(object_id=ObjectId(0, 5)))
    (seen,) = play.left()
    assert isinstance(seen, ObjectSeen)
    assert seen.properties is None


@REVISIONS
def test_nothing_that_arrives_without_a_link_is_taken(revision: Revision) -> None:
    play = synchronised(revision)
    play.disconnects()
    play.left()
    play.publishes(play.config())
    play.leaves()


def test_messages_that_only_agents_are_sent_change_nothing() -> None:
    play = synchronised(Revision.MARCH_2008)
    play.arrives(PackageQuery(9), MethodResponse(77, 0, "OK"))
    play.leaves()


def test_an_event_is_reported_with_the_severity_of_its_key() -> None:
    play = synchronised(Revision.DESIGN_NOTES, {"events": True})
    key = ClassKey("shop", "tank.leak", KEY.hash)
    play.arrives(EventIndication(0, key, START + 1, 3, (12,)), key="mgmt.event.shop.tank.error")
    play.leaves(EventSeen(key, "1.0", START + 1, Severity.MAJOR, (12,)))


def test_an_event_is_no_message_of_who_is_not_configured_for_it() -> None:
    play = synchronised(Revision.DESIGN_NOTES)
    key = ClassKey("shop", "tank.leak", KEY.hash)
    play.arrives(EventIndication(0, key, START + 1, 3, (12,)), key="mgmt.event.shop.tank.error")
    play.leaves()


def test_an_event_of_a_class_without_a_schema_is_lost() -> None:
    play = Play(Revision.DESIGN_NOTES, {"events": True})
    play.connects()
    play.left()
    key = ClassKey("shop", "tank.leak", KEY.hash)
    play.arrives(EventIndication(0, key, START + 1, 3, (12,)), key="mgmt.event.shop.tank.error")
    assert play.left()[-1] == RecordLost(key, "1.0")


def test_events_come_with_a_class_that_is_asked_for() -> None:
    play = Play(Revision.MARCH_2008)
    play.listed()
    assert [one.schema.key.name for one in play.reported if isinstance(one, EventLearned)] == ["tank.leak"]
