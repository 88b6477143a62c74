"""Freshness by source, by agent, and by how long something has been stale."""

from __future__ import annotations

from gateway.feed.freshness import Freshness, FreshnessTracker, Group
from gateway.feed.records import AgentGoneRecord, AgentRecord, SourceRecord
from gateway.model.observations import SourceState

SERVED_FOR = 300


class Watched:
    """A tracker, and the changes of its groups."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, Freshness]] = []
        self.tracker = FreshnessTracker(
            Group, lambda g: self.changes.append((g.agent, g.freshness)), SERVED_FOR
        )

    def source(self, state: SourceState, now: int, number: int = 1) -> bool:
        changed = self.tracker.source_received(SourceRecord(number, "r", "qmf", state, "", now, now), now)
        return bool(self.tracker.confirm_sources(now)) or changed

    def agent(self, name: str, now: int, *, fresh: bool) -> bool:
        return self.tracker.agent_received(AgentRecord(1, name, fresh, now, now), now)

    def confirmed(self, now: int, **until: int) -> bool:
        """The agent 1.0 confirms its objects, for classes of package shop or (``others``) all others."""
        names = {"others": ""}
        limits = {names.get(name, f"shop:{name}"): time for name, time in until.items()}
        return self.tracker.agent_received(AgentRecord(1, "1.0", True, 10, now, limits), now)

    def gone(self, name: str, now: int) -> bool:
        return self.tracker.agent_gone(AgentGoneRecord(1, name, now), now)


def freshness(group: Group) -> Freshness:
    return group.freshness


def test_what_belongs_to_a_trusted_source_and_a_fresh_agent_is_fresh() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    assert freshness(watched.tracker.group(1, "1.0", "shop:queue", 10)) is Freshness.FRESH
    assert not watched.tracker.has_stale_parts(1)


def test_a_source_not_reported_yet_is_stale_from_now_on() -> None:
    group = Watched().tracker.group(7, "1.0", "shop:queue", 10)
    assert (group.freshness, group.stale_since) == (Freshness.STALE, 10)


def test_while_a_source_synchronises_it_is_trusted_as_before() -> None:
    watched = Watched()
    watched.source(SourceState.CONNECTING, 10)
    group = watched.tracker.group(1, "1.0", "shop:queue", 10)
    assert not watched.source(SourceState.SYNCHRONISING, 11)
    assert freshness(group) is Freshness.STALE
    assert watched.source(SourceState.DEGRADED, 12)
    assert not watched.source(SourceState.SYNCHRONISING, 13)
    assert freshness(group) is Freshness.FRESH


def test_a_silent_agent_makes_its_own_objects_stale_and_no_others() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    one, other = (
        watched.tracker.group(1, "1.0", "shop:queue", 10),
        watched.tracker.group(1, "1.1", "shop:queue", 10),
    )
    assert watched.agent("1.0", 20, fresh=False)
    assert (one.freshness, other.freshness) == (Freshness.STALE, Freshness.FRESH)
    assert not watched.tracker.is_stale(1)
    assert watched.tracker.has_stale_parts(1)


def test_what_is_stale_for_a_second_reason_has_been_stale_since_the_first() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    group = watched.tracker.group(1, "1.0", "shop:queue", 10)
    watched.agent("1.0", 20, fresh=False)
    watched.source(SourceState.DOWN, 50)
    watched.agent("1.0", 60, fresh=True)
    assert group.stale_since == 20
    watched.tracker.age(20 + SERVED_FOR - 1)
    assert freshness(group) is Freshness.STALE
    watched.tracker.age(20 + SERVED_FOR)
    assert freshness(group) is Freshness.WITHHELD
    watched.source(SourceState.SYNCHRONISED, 400)
    assert (group.freshness, group.stale_since) == (Freshness.FRESH, 0)
    assert watched.changes == [
        ("1.0", Freshness.FRESH),
        ("1.0", Freshness.STALE),
        ("1.0", Freshness.WITHHELD),
        ("1.0", Freshness.FRESH),
    ]


def test_what_is_not_confirmed_in_time_is_stale_until_it_is() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    watched.confirmed(10, queue=40, others=90)
    queues, tills = (watched.tracker.group(1, "1.0", name, 10) for name in ("shop:queue", "shop:till"))
    queues.objects = tills.objects = 1
    assert watched.tracker.age(39) == []
    assert watched.tracker.age(40) == [1]
    assert (queues.freshness, queues.stale_since) == (Freshness.STALE, 40)
    assert freshness(tills) is Freshness.FRESH
    assert watched.tracker.has_stale_parts(1)
    assert not watched.confirmed(50, queue=40, others=90), "of queues it says the same as before"
    assert watched.tracker.age(90) == [1]
    assert (tills.freshness, tills.stale_since) == (Freshness.STALE, 90)
    assert watched.confirmed(100, queue=130, others=190)
    assert {queues.freshness, tills.freshness} == {Freshness.FRESH}
    assert not watched.tracker.has_stale_parts(1)


def test_what_is_not_confirmed_for_long_is_withheld() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    watched.confirmed(10, queue=40)
    group = watched.tracker.group(1, "1.0", "shop:queue", 10)
    watched.tracker.age(40 + SERVED_FOR - 1)
    assert freshness(group) is Freshness.STALE
    watched.tracker.age(40 + SERVED_FOR)
    assert freshness(group) is Freshness.WITHHELD


def test_an_object_that_comes_while_its_class_is_stale_is_stale() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    watched.confirmed(10, queue=40)
    group = watched.tracker.group(1, "1.0", "shop:queue", 60)
    assert (group.freshness, group.stale_since) == (Freshness.STALE, 40)


def test_without_the_core_everything_is_stale_until_it_is_reported_again() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    watched.source(SourceState.SYNCHRONISED, 10, number=2)
    groups = [watched.tracker.group(number, "1.0", "shop:queue", 10) for number in (1, 2)]
    watched.tracker.mark_all_stale(30)
    watched.tracker.forget_agents()
    assert [group.stale_since for group in groups] == [30, 30]
    watched.source(SourceState.SYNCHRONISED, 40, number=2)
    assert [group.freshness for group in groups] == [Freshness.STALE, Freshness.FRESH]


def test_what_may_be_hidden_now_is_withheld_until_it_is_fresh() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    group = watched.tracker.group(1, "1.0", "shop:queue", 10)
    watched.tracker.withhold_all()
    watched.tracker.mark_all_stale(30)
    assert freshness(group) is Freshness.WITHHELD
    watched.source(SourceState.SYNCHRONISING, 31)
    assert freshness(group) is Freshness.WITHHELD
    watched.source(SourceState.SYNCHRONISED, 32)
    assert freshness(group) is Freshness.FRESH
    watched.tracker.mark_all_stale(40)
    assert freshness(group) is Freshness.STALE


def test_what_is_not_configured_any_more_is_forgotten() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    watched.tracker.group(1, "1.0", "shop:queue", 10)
    watched.tracker.remove_source(1)
    assert list(watched.tracker) == []
    assert watched.tracker.is_stale(1)


def test_what_a_snapshot_says_of_a_source_counts_when_the_snapshot_is_whole() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    group = watched.tracker.group(1, "1.0", "shop:queue", 10)
    watched.tracker.mark_all_stale(30)
    reported = SourceRecord(1, "r", "qmf", SourceState.SYNCHRONISED, "", 40, 40)
    assert not watched.tracker.source_received(reported, 40)
    assert watched.tracker.will_be_trusted(1)
    assert (group.freshness, watched.tracker.is_stale(1)) == (Freshness.STALE, True)
    assert watched.tracker.confirm_sources(50) == [1]
    assert group.freshness is Freshness.FRESH
    assert watched.tracker.confirm_sources(60) == []


def test_a_source_that_is_lost_before_the_snapshot_is_whole_is_not_trusted() -> None:
    watched = Watched()
    watched.tracker.source_received(SourceRecord(1, "r", "qmf", SourceState.SYNCHRONISED, "", 40, 40), 40)
    watched.tracker.source_received(SourceRecord(1, "r", "qmf", SourceState.DOWN, "", 45, 45), 45)
    assert watched.tracker.confirm_sources(50) == []
    assert watched.tracker.is_stale(1)


def test_an_agent_that_is_gone_is_no_reason_for_doubts() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    watched.agent("1.0", 10, fresh=True)
    watched.agent("1.10", 10, fresh=False)
    assert watched.tracker.has_stale_parts(1)
    assert not watched.gone("1.10", 20)
    assert watched.tracker.forget_gone() == [1]
    assert not watched.tracker.has_stale_parts(1)
    assert not watched.gone("1.10", 30), "it is known no more"


def test_what_is_left_of_an_agent_that_is_gone_is_stale_until_its_objects_are_gone() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    watched.agent("1.10", 10, fresh=True)
    group = watched.tracker.group(1, "1.10", "shop:queue", 10)
    group.objects = 1
    assert watched.gone("1.10", 20)
    assert watched.tracker.forget_gone() == []
    assert freshness(group) is Freshness.STALE
    group.objects = 0
    assert watched.tracker.forget_gone() == [1]
    assert list(watched.tracker) == []


def test_an_agent_that_a_snapshot_does_not_report_is_gone() -> None:
    watched = Watched()
    watched.source(SourceState.SYNCHRONISED, 10)
    for name in ("1.0", "1.10"):
        watched.agent(name, 10, fresh=False)
    watched.tracker.snapshot_began()
    watched.agent("1.0", 20, fresh=True)
    watched.tracker.snapshot_ended()
    assert watched.tracker.forget_gone() == [1]
    assert not watched.tracker.has_stale_parts(1)


def test_an_agent_that_was_gone_and_came_back_is_kept() -> None:
    watched = Watched()
    watched.agent("1.10", 10, fresh=True)
    watched.gone("1.10", 20)
    watched.agent("1.10", 30, fresh=True)
    assert watched.tracker.forget_gone() == []


def test_what_its_source_cannot_read_is_stale_beside_what_it_reads() -> None:
    watched = Watched()
    watched.source(SourceState.DEGRADED, 10)
    read, unread = (watched.tracker.group(1, "1.0", "shop:queue", 20, since) for since in (0, 15))
    assert (freshness(read), freshness(unread), unread.stale_since) == (Freshness.FRESH, Freshness.STALE, 15)
    watched.agent("1.0", 30, fresh=False)
    assert (read.stale_since, unread.stale_since) == (30, 15)
    watched.agent("1.0", 40, fresh=True)
    assert (freshness(read), freshness(unread)) == (Freshness.FRESH, Freshness.STALE)
    read.objects = unread.objects = 1
    watched.tracker.age(15 + SERVED_FOR)
    assert (freshness(read), freshness(unread)) == (Freshness.FRESH, Freshness.WITHHELD)


def test_a_time_since_which_nothing_is_unread_any_more_is_forgotten() -> None:
    watched = Watched()
    watched.source(SourceState.DEGRADED, 10)
    watched.tracker.group(1, "1.0", "shop:queue", 20)
    for since in range(15, 20):
        watched.tracker.group(1, "1.0", "shop:queue", 20, since)
    watched.tracker.age(21)
    assert [group.unread_since for group in watched.tracker] == [0]
