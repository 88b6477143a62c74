"""Several agents in one source: each is fresh, left out of a resync, or gone, independently of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.feed.records import AgentGoneRecord, AgentRecord, DeleteRecord, EventRecord, ObjectRecord, Record
from gateway.model.observations import (
    AgentGone,
    AgentLost,
    HeartbeatSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    Severity,
)
from gateway.model.times import SECOND
from tests.inventory.playbook import NOW, Playbook, of, queue, vhost

FARM = "1.10"


def theirs(seen: ObjectSeen, agent: str = FARM) -> ObjectSeen:
    return replace(seen, agent=agent)


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    """Return a broker with a virtual host, and an agent beside it with another one."""
    playbook = Playbook(tmp_path)
    playbook.synchronise(vhost("/", "v1"), theirs(vhost("barn", "f1")))
    return playbook


def agents(playbook: Playbook) -> dict[str, bool]:
    """Return whether each agent is fresh, from a snapshot."""
    return {one.agent: one.fresh for one in of(AgentRecord, playbook.snapshot())}


def read_without(playbook: Playbook, agent: str) -> list[Record]:
    """Run a whole resync that reports no objects, and leaves an agent out."""
    return playbook.publish(ResyncBegan(), ResyncEnded(complete=True, without=frozenset({agent})))


def test_what_an_agent_has_that_a_reading_leaves_out_is_neither_gone_nor_trusted(playbook: Playbook) -> None:
    playbook.publish(AgentLost(FARM, "it hangs"))
    read_without(playbook, FARM)
    assert list(playbook.objects()) == ["barn"]
    assert agents(playbook) == {"1.0": True, FARM: False}
    playbook.publish(ResyncBegan(FARM), theirs(vhost("barn", "f1")), ResyncEnded(complete=True, agent=FARM))
    assert agents(playbook) == {"1.0": True, FARM: True}


def test_an_agent_that_is_lost_while_another_is_read_is_not_trusted_after_it(playbook: Playbook) -> None:
    playbook.publish(ResyncBegan(), AgentLost(FARM), ResyncBegan("1.11"))
    playbook.publish(ResyncEnded(complete=True, agent="1.11"), ResyncEnded(complete=True))
    assert agents(playbook)[FARM] is False


def test_an_agent_that_is_gone_takes_its_objects_with_it(playbook: Playbook) -> None:
    reported = playbook.publish(AgentGone(FARM))
    assert [(one.stable_name, one.inferred) for one in of(DeleteRecord, reported)] == [("barn", True)]
    assert of(AgentRecord, reported)[0].fresh is False
    assert reported[-1] == AgentGoneRecord(1, FARM, NOW)
    assert agents(playbook) == {"1.0": True}
    assert list(playbook.objects()) == ["/"]


def test_an_agent_that_is_not_known_cannot_be_gone(playbook: Playbook) -> None:
    assert not of(AgentGoneRecord, playbook.publish(AgentGone("1.99")))


def test_an_agent_may_come_back_after_it_was_gone(playbook: Playbook) -> None:
    row = playbook.objects()["barn"].row
    playbook.publish(AgentGone(FARM))
    reported = playbook.publish(theirs(vhost("barn", "f2")))
    assert of(AgentRecord, reported)[0].agent == FARM
    assert playbook.objects()["barn"].row == row, "it is durable"


def test_an_agent_that_left_and_returned_under_another_bank_has_the_same_objects(playbook: Playbook) -> None:
    former = playbook.objects()["barn"]
    playbook.publish(AgentLost(FARM, "it left", leaving=True))
    reported = playbook.publish(theirs(vhost("barn", "g1"), "1.11"))
    (barn,) = of(ObjectRecord, reported)
    assert (barn.agent, barn.row, barn.stable_name) == ("1.11", former.row, "barn")
    reported = playbook.publish(AgentGone(FARM))
    assert not of(DeleteRecord, reported)
    assert agents(playbook).keys() == {"1.0", "1.11"}
    assert list(playbook.objects()) == ["/", "barn"]


def test_an_agent_that_restarted_has_its_objects_under_other_ids(
    playbook: Playbook,
) -> None:
    playbook.publish(theirs(vhost("shed", "f2")))
    former = playbook.objects()
    reported = playbook.publish(
        ResyncBegan(FARM, restarted=True), ResyncBegan(FARM), theirs(vhost("barn", "g1"))
    )
    assert not of(DeleteRecord, reported)
    reported = playbook.publish(theirs(vhost("barn", "g1")), ResyncEnded(complete=True, agent=FARM))
    (gone,) = of(DeleteRecord, reported)
    assert gone.row == former["shed"].row
    assert playbook.objects()["barn"].row == former["barn"].row
    assert list(playbook.objects()) == ["/", "barn"], "and nothing of another agent is touched"


def test_what_is_reported_under_a_name_of_an_agent_that_hangs_is_another_object(playbook: Playbook) -> None:
    playbook.publish(AgentLost(FARM, "it hangs"))
    playbook.publish(theirs(vhost("barn", "g1"), "1.11"))
    assert len(playbook.objects()) == 3


def test_an_agent_without_objects_is_gone_at_once(playbook: Playbook) -> None:
    playbook.publish(HeartbeatSeen("1.12", NOW))
    assert playbook.publish(AgentGone("1.12"))[-1] == AgentGoneRecord(1, "1.12", NOW)


def test_agents_that_come_and_go_leave_nothing_behind(playbook: Playbook) -> None:
    for bank in range(100, 400):
        agent = f"1.{bank}"
        playbook.publish(
            theirs(vhost("shed", f"s{bank}"), agent), theirs(queue("q", f"q{bank}", f"s{bank}"), agent)
        )
        playbook.publish(AgentGone(agent))
    assert agents(playbook).keys() == {"1.0", FARM}
    assert len(playbook.objects()) == 2


def test_which_of_several_agents_hangs_is_reported_once_and_so_is_that_it_is_back(playbook: Playbook) -> None:
    lost = AgentLost(FARM, "agent 1.10: it does not answer; asked again in 5 s", remote=True)
    (event,) = of(EventRecord, playbook.publish(lost))
    assert (event.severity, event.text) == (Severity.WARNING, f"shop: {lost.detail}")
    assert event.values == {0: FARM, 1: lost.detail}
    assert not of(EventRecord, playbook.publish(lost))
    read = playbook.publish(
        ResyncBegan(FARM), theirs(vhost("barn", "f1")), ResyncEnded(complete=True, agent=FARM)
    )
    (event,) = of(EventRecord, read)
    assert (event.severity, event.text) == (Severity.INFO, "shop: agent 1.10 was read again")


def test_nothing_is_reported_of_an_agent_that_never_reported(playbook: Playbook) -> None:
    assert not of(EventRecord, playbook.publish(AgentLost("1.99", "it does not answer", remote=True)))


# What was not confirmed in time.


def outdated(playbook: Playbook, records: list[Record]) -> list[tuple[str, ...]]:
    """Return the classes that are stale although their agent is fresh, by each of its records."""
    return [one.outdated_classes(playbook.now) for one in of(AgentRecord, records) if one.agent == FARM]


def test_an_agent_that_says_nothing_more_is_published_when_its_time_is_over(playbook: Playbook) -> None:
    """The event log and a serving role have no timer of their own: the record shows them what is stale."""
    playbook.publish(HeartbeatSeen(FARM, NOW, {"": playbook.now + 60 * SECOND}))
    assert outdated(playbook, playbook.tick(59)) == []
    assert outdated(playbook, playbook.tick(1)) == [("",)]
    assert outdated(playbook, playbook.tick(1)) == [], "once"
    later = {"": playbook.now + 60 * SECOND}
    assert outdated(playbook, playbook.publish(HeartbeatSeen(FARM, NOW, later))) == [()]


def test_a_heartbeat_without_a_time_extends_none(playbook: Playbook) -> None:
    playbook.publish(HeartbeatSeen(FARM, NOW, {"": playbook.now + 60 * SECOND}))
    playbook.now += 60 * SECOND
    assert outdated(playbook, playbook.publish(HeartbeatSeen(FARM, NOW))) == [("",)]
