"""What the records of an agent before AM2 show of objects that it does not mention."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.qmf.am01.published_objects import MISSED, PublishedObjects
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import PropertyContent
from gateway.model.observations import ObjectSeen, ResyncBegan
from gateway.model.times import SECOND
from tests.dialects.qmf.am01.examples import PROPERTIES
from tests.dialects.qmf.am01.examples import tank as schema
from tests.dialects.qmf.am01.playbook import Play, synchronised

INTERVAL = 10


def tank(play: Play, number: int, name: str, *, created: int = 5, deleted: int = 0) -> PropertyContent:
    properties = (name, *PROPERTIES[1:])
    found = replace(play.config(object_id=ObjectId(0, number)), properties=properties)
    return replace(found, sampled=play.now, created=created, deleted=deleted)


def ends(play: Play) -> list[tuple[str, bool]]:
    seen = [one for one in play.left() if isinstance(one, ObjectSeen) and one.deleted]
    return [(one.native_id, one.inferred) for one in seen]


def restarts(play: Play) -> int:
    return sum(isinstance(one, ResyncBegan) and one.restarted for one in play.left())


@pytest.fixture
def play() -> Play:
    play = synchronised(Revision.JANUARY_2008, {"republish_interval": INTERVAL * SECOND})
    play.publishes(play.config(deleted=1))  # the one that it began with
    play.time_passes(2)
    play.left()
    return play


def test_an_object_that_is_left_out_of_three_publications_has_ended(play: Play) -> None:
    play.publishes(tank(play, 1, "north"), tank(play, 2, "south"))
    for _ in range(MISSED):
        play.time_passes(INTERVAL)
        play.publishes(tank(play, 1, "north"))
        assert ends(play) == []
    play.time_passes(INTERVAL)
    play.publishes(tank(play, 1, "north"))
    play.time_passes(2)  # an end waits for its last statistics
    assert ends(play) == [("0-0-0-0-2", True)]
    play.time_passes(INTERVAL)
    play.publishes(tank(play, 1, "north"), tank(play, 2, "south"))
    assert ends(play) == []


def test_an_agent_may_repeat_its_records_with_the_times_that_they_had(play: Play) -> None:
    first, second = tank(play, 1, "north"), tank(play, 2, "south")
    play.publishes(first, second)
    for _ in range(2 * MISSED):
        play.time_passes(INTERVAL)
        play.publishes(first, second)
    assert ends(play) == []
    for _ in range(MISSED + 1):
        play.time_passes(INTERVAL)
        play.publishes(first)
        assert ends(play) == []
    play.time_passes(INTERVAL)
    play.publishes(first)
    play.time_passes(2)
    assert ends(play) == [("0-0-0-0-2", True)]


def test_changes_of_one_object_are_no_rounds(play: Play) -> None:
    second = tank(play, 2, "south")
    play.publishes(tank(play, 1, "north"), second)
    for nanosecond in range(MISSED * INTERVAL + 2):
        play.time_passes(1)
        play.publishes(replace(tank(play, 1, "north"), sampled=second.sampled + nanosecond + 1))
    assert ends(play) == []


def test_records_that_waited_while_the_gateway_stood_still_end_nothing(play: Play) -> None:
    play.publishes(tank(play, 1, "north"), tank(play, 2, "south"))
    waiting = []
    for _ in range(2 * MISSED):
        play.now += INTERVAL * SECOND
        waiting += [tank(play, 1, "north"), tank(play, 2, "south")]
    play.publishes(*waiting)
    assert ends(play) == []


def test_an_agent_that_publishes_everything_only_when_asked_leaves_nothing_out() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(tank(play, 1, "north"), tank(play, 2, "south"))
    for _ in range(2 * MISSED):
        play.time_passes(INTERVAL)
        play.publishes(tank(play, 1, "north"))
    assert ends(play) == []


def test_a_number_with_another_time_of_creation_shows_a_restart(play: Play) -> None:
    play.publishes(tank(play, 1, "north"), tank(play, 2, "south"))
    play.publishes(tank(play, 1, "north"))
    assert restarts(play) == 0
    play.publishes(tank(play, 1, "east", created=9))
    assert restarts(play) == 1
    play.publishes(tank(play, 2, "north", created=9))
    assert restarts(play) == 0, "it is the same restart"


def test_a_name_under_another_number_shows_a_restart(play: Play) -> None:
    play.publishes(tank(play, 1, "north"), tank(play, 2, "south"))
    play.left()
    play.time_passes(INTERVAL)
    play.publishes(tank(play, 71, "north", created=9))
    assert restarts(play) == 1


def test_an_agent_that_is_started_again_at_once_shows_it_by_a_name_that_it_published_a_moment_ago(
    play: Play,
) -> None:
    for _ in range(2):
        play.publishes(tank(play, 1, "north"), tank(play, 2, "south"))
        play.time_passes(INTERVAL)
    play.publishes(tank(play, 1, "north"), tank(play, 2, "south"))
    play.left()
    play.time_passes(1)
    play.publishes(tank(play, 71, "north", created=9), tank(play, 72, "south", created=9))
    assert restarts(play) == 1


def test_two_objects_of_one_name_of_which_one_came_later_are_taken_for_restarts_until_both_are_read(
    play: Play,
) -> None:
    play.publishes(tank(play, 1, "north"))
    play.time_passes(INTERVAL)
    shown = 0
    for _ in range(4):
        play.publishes(tank(play, 1, "north"), tank(play, 2, "north"))
        shown = restarts(play)
        play.time_passes(INTERVAL)
    assert shown == 0


def test_a_name_that_is_used_again_after_its_object_ended_shows_none(play: Play) -> None:
    play.publishes(tank(play, 1, "north"))
    play.left()
    play.time_passes(INTERVAL)
    play.publishes(tank(play, 1, "north", deleted=8), tank(play, 3, "north", created=9))
    assert restarts(play) == 0


def test_two_living_objects_of_one_name_show_none(play: Play) -> None:
    for _ in range(3):
        play.publishes(tank(play, 1, "north"), tank(play, 2, "north"))
        play.time_passes(INTERVAL)
    assert restarts(play) == 0


def test_names_of_ended_objects_are_not_kept() -> None:
    objects, play = PublishedObjects(), synchronised(Revision.JANUARY_2008, {})
    sizes = []
    for number in range(1, 2_001):
        living = tank(play, number, f"tank {number}")
        seen = ObjectSeen(living.key, "agent", str(number), play.now, 5, 0)
        objects.published(living, seen, schema(), play.now)
        objects.published(replace(living, deleted=play.now), seen, schema(), play.now)
        if number % 1_000 == 0:
            sizes.append(len(pickle.dumps(objects)))
    assert sizes[1] < 1.2 * sizes[0]
