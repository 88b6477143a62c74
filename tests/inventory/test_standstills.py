"""The gateway stood still: first it publishes until when its sources had received everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.records import GapRecord, SourceRecord
from gateway.inventory.inventory import STANDSTILL
from gateway.inventory.source import DEAD_LINK_FOUND
from gateway.model.observations import EVENT_DELAY_BOUNDS, HeartbeatSeen, SourceState, SourceStateSeen
from gateway.model.source_kinds import source_kind
from gateway.model.times import SECOND
from tests.inventory.playbook import AGENT, Playbook, of

LASTED = 140 * SECOND


def shown(play: Playbook) -> int:
    """Return the time until which all of the source was received, 0 while that goes on."""
    return play.source_record().complete_until


def test_the_end_of_what_was_received_is_published_before_what_waited(tmp_path: Path) -> None:
    """Of every source, whichever is called first: a core that is killed then leaves that in the log."""
    play = Playbook(tmp_path)
    other = play.inventory.add_source("other", "rabbitmq")
    play.synchronise()
    play.inventory.observed(other, [SourceStateSeen(SourceState.SYNCHRONISED)], play.now)
    play.tick(1)
    since = play.now
    play.now += LASTED
    records = play.publish(HeartbeatSeen(AGENT, play.now), SourceStateSeen(SourceState.SYNCHRONISED))
    first, second = of(SourceRecord, records)[:2]
    assert {first.name, second.name} == {"shop", "other"}
    assert first.complete_until == since - EVENT_DELAY_BOUNDS[1]
    assert second.complete_until == first.complete_until - source_kind("rabbitmq").unproven, "as after a kill"
    assert records[:2] == [first, second]
    assert of(GapRecord, records) == []


def test_it_holds_until_the_end_of_the_connection_would_have_been_found(tmp_path: Path) -> None:
    play = Playbook(tmp_path)
    play.synchronise()
    play.tick(1)
    since = play.now
    play.tick(LASTED / SECOND)
    play.tick(STANDSTILL / SECOND + 5)
    assert shown(play) == since - EVENT_DELAY_BOUNDS[1], "the later standstill ends no earlier one"
    for _ in range(DEAD_LINK_FOUND // SECOND):
        play.tick(1)
    assert shown(play) == 0


@pytest.mark.parametrize("kind", ["cml", "ami"])
def test_what_is_polled_or_connects_by_itself_has_a_gap(kind: str, tmp_path: Path) -> None:
    play = Playbook(tmp_path, kind=kind)
    play.synchronise()
    play.tick(1)
    since = play.now
    play.now += LASTED
    (gap,) = of(GapRecord, play.publish(HeartbeatSeen(AGENT, play.now)))
    assert (gap.start, gap.end) == (since, play.now)
    assert of(GapRecord, play.tick(1)) == []
    assert shown(play) == 0


@pytest.mark.parametrize("kind", ["cml", "qmf"])
def test_a_source_that_is_not_reached_has_a_gap_already(kind: str, tmp_path: Path) -> None:
    play = Playbook(tmp_path, kind=kind)
    play.synchronise()
    play.publish(SourceStateSeen(SourceState.DOWN, "gone", complete_until=play.now))
    play.tick(1)
    until = shown(play)
    assert of(GapRecord, play.tick(LASTED / SECOND)) == []
    assert shown(play) == until


@pytest.mark.parametrize("seconds", [STANDSTILL / SECOND, -3600])
def test_a_tick_that_is_a_little_late_or_a_clock_that_is_set_back_is_none(
    seconds: float, tmp_path: Path
) -> None:
    play = Playbook(tmp_path, kind="cml")
    play.synchronise()
    play.tick(1)
    assert of(GapRecord, play.tick(seconds)) == []
    assert shown(play) == 0
