"""The console session as a play: records of objects that ended, and answers to queries that were not sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.qmf.console_agents import ENDED, EndedLives
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    GetQuery,
    Message,
    ObjectContent,
    PackageIndication,
    SchemaResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.model.observations import ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.operations import Answer, Outcome
from tests.dialects.qmf.console_story import (
    GET_TANKS,
    PUSHED,
    SEEN,
    changed,
    filled,
    got,
    listed,
    synchronised,
)
from tests.dialects.qmf.examples import TANK, shop
from tests.dialects.qmf.operations_story import FIRST, fetches
from tests.dialects.qmf.playbook import BROKER, START, ConsolePlay
from tests.dialects.qmf.remote_agents_story import with_agent

END = changed(deleted=START + 5)
POND = replace(TANK, key=replace(TANK.key, name="pond", hash=b"P" * 16))
AGAIN = ("resync", ("broker", BrokerRequest(6)))


def ended() -> ConsolePlay:
    """Return a console to which the end of the only tank was reported."""
    play = synchronised()
    play.arrives(END, key=PUSHED)
    play.leaves(replace(SEEN, deleted=START + 5, statistics=None))
    return play


def theirs(boot: int, sequence: int = 0) -> ObjectContent:
    """Return a tank of a remote agent."""
    return got(sequence, object_id=ObjectId.of(sequence=boot, agent_bank=10, number=1))


def seen(play: ConsolePlay) -> list[ObjectSeen]:
    return [step for step in play.left() if isinstance(step, ObjectSeen)]


# ---- records of objects that ended -------------------------------------------------------------------------


@pytest.mark.parametrize("late", [changed("t2"), filled(), replace(changed(), sampled=START + 5)])
def test_a_record_that_is_no_newer_than_the_end_does_not_revive_an_object(late: Message) -> None:
    play = ended()
    play.arrives(late, key=PUSHED)
    play.leaves()


def test_everything_is_read_again_after_a_late_record_in_case_the_object_lives() -> None:
    play = ended()
    play.arrives(changed(), changed(), key=PUSHED)
    play.time_passes(4)
    play.leaves()
    play.time_passes(2)
    play.leaves(*AGAIN)


def test_an_end_that_is_delivered_twice_is_one() -> None:
    play = ended()
    play.arrives(END, key=PUSHED)
    play.time_passes(6)
    play.leaves()


def test_the_last_statistics_may_follow_the_end_in_a_body_of_their_own() -> None:
    play = ended()
    play.arrives(filled(deleted=START + 5), key=PUSHED)
    assert [one.deleted for one in seen(play)] == [START + 5]


def test_statistics_without_the_end_belong_to_it_where_they_follow_at_once() -> None:
    play = synchronised()
    play.arrives(END, filled(50.0), key=PUSHED)
    play.leaves(replace(SEEN, deleted=START + 5))


def test_another_time_of_creation_is_another_life_also_where_the_former_one_is_reported_late() -> None:
    play = ended()
    successor = replace(changed("t2"), created=START + 4, sampled=START + 4)
    play.arrives(successor, key=PUSHED)
    assert [(one.created, one.deleted) for one in seen(play)] == [(START + 4, 0)]
    play.arrives(changed(), key=PUSHED)
    play.leaves()


def test_a_newer_record_revives_an_object_whose_end_was_a_mistake_and_it_may_end_again() -> None:
    play = ended()
    play.arrives(replace(changed(), sampled=START + 6), key=PUSHED)
    assert [one.deleted for one in seen(play)] == [0]
    play.arrives(changed(deleted=START + 9), key=PUSHED)
    assert [one.deleted for one in seen(play)] == [START + 9]


def test_an_answer_to_a_query_that_was_sent_before_the_end_is_as_late_as_any_record() -> None:
    play = ConsolePlay()
    listed(play)
    play.arrives(END, key=PUSHED)
    play.left()
    play.arrives(got(5), CommandComplete(5))
    assert seen(play) == []


def test_an_answer_to_a_query_that_was_sent_after_the_end_shows_that_the_object_lives() -> None:
    play = ended()
    fetches(play)
    play.left()
    play.arrives(got(FIRST), CommandComplete(FIRST))
    assert play.left() == [SEEN, Answer(1, Outcome.APPLIED, "", 0)]


def test_an_object_that_ends_while_it_is_fetched_is_gone_whatever_was_sent_before() -> None:
    play = synchronised()
    fetches(play)
    play.arrives(END, key=PUSHED)
    play.left()
    play.arrives(got(FIRST), CommandComplete(FIRST))
    play.leaves(Answer(1, Outcome.OBJECT_GONE, "the agent has no such object", 0))


def test_a_record_without_a_time_cannot_be_known_to_be_late() -> None:
    play = ended()
    play.arrives(replace(changed(), sampled=0), key=PUSHED)
    assert [one.deleted for one in seen(play)] == [0]


def test_the_ends_that_are_kept_are_bounded() -> None:
    ends = EndedLives()
    lives = [replace(END, object_id=ObjectId.of(sequence=5, number=one)) for one in range(ENDED + 1)]
    for life in lives:
        ends.ended(life, (0, 0))
    late = [ends.is_late(replace(life, deleted=0), 0) for life in (lives[0], lives[1], lives[-1])]
    assert late == [False, True, True]


# ---- answers to queries that were not sent -----------------------------------------------------------------


@pytest.mark.parametrize("unknown", [4, 77, FIRST + 3])
def test_an_answer_to_no_query_completes_nothing(unknown: int) -> None:
    play = ConsolePlay()
    listed(play)
    play.arrives(got(unknown), CommandComplete(unknown))
    play.leaves(SEEN)
    assert play.session.state is State.FETCHING
    play.arrives(CommandComplete(5))
    assert ResyncEnded(complete=True) in play.left()


@pytest.mark.parametrize("unknown", [5, 77, FIRST + 3])
def test_an_answer_to_no_query_revives_no_object(unknown: int) -> None:
    play = ended()
    play.arrives(got(unknown), CommandComplete(unknown))
    play.leaves()


def test_a_reading_of_an_agent_counts_no_answer_to_a_query_from_before_its_begin() -> None:
    play = with_agent()  # its tanks are requested: 6
    play.arrives(theirs(1, sequence=6))
    play.arrives(replace(changed(), object_id=theirs(2).object_id), key="console.obj.1.10.shop.tank")
    steps = play.left()
    assert ResyncBegan("1.10") in steps
    assert ("agent.1.10", GetQuery(7, GET_TANKS)) in steps
    play.arrives(CommandComplete(6))
    play.leaves()
    play.arrives(theirs(2, sequence=7), CommandComplete(7))
    assert ResyncEnded(complete=True, agent="1.10") in play.left()


def test_a_reading_in_which_a_restart_shows_is_incomplete_where_something_was_reported_before() -> None:
    known = shop()
    known.add(ClassDefinition.of(POND))
    play = ConsolePlay(known=known)
    listed(play)
    play.arrives(got(5), CommandComplete(5))
    play.disconnects()
    play.connects()
    play.arrives(BrokerResponse(play.sequence(), BROKER))
    play.arrives(PackageIndication(play.sequence(), "shop"), CommandComplete(play.sequence()))
    listing = play.sequence()
    for key in (TANK.key, POND.key):
        play.arrives(ClassIndication(listing, ClassKind.OBJECT, key))
    play.arrives(CommandComplete(listing))
    play.arrives(SchemaResponse(play.sequence(), ClassDefinition.of(POND)))
    tanks, ponds = play.sequence() - 1, play.sequence()
    play.arrives(got(tanks), CommandComplete(tanks))
    assert play.session.state is State.FETCHING
    pond = replace(got(ponds), key=POND.key, object_id=ObjectId.of(sequence=6, number=9))
    play.arrives(pond, CommandComplete(ponds))
    steps = play.left()
    assert ResyncBegan(restarted=True) in steps
    assert ResyncEnded(complete=False) in steps, "the tank was reported by the agent of before"
