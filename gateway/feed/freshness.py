"""The freshness of a feed's values: by source, agent and class, and by the time that they have been stale.

Objects are fresh while their source is synchronised or degraded, their agent is fresh, the source can read
them, and the values of their class were confirmed in time; else they are stale, and after a while their
values are withheld. Whether it was in time is decided here, by the front end's clock: the broker, the core or
the feed may be what is late. Objects that become stale for a second reason stay stale since the first. There
is no clock in here: times are in nanoseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.feed.records import AgentGoneRecord, AgentRecord, SourceRecord
from gateway.model.observations import TRUSTED, SourceState

_NOT_REACHED = frozenset({SourceState.CONNECTING, SourceState.DOWN})


class Freshness(enum.IntEnum):
    """The freshness of values.

    ``FRESH``: the agent confirms them. ``STALE``: it does not at present; they are the last ones known.
    ``WITHHELD``: it has not confirmed them for so long that they are not shown any more.
    """

    FRESH = 1
    STALE = 2
    WITHHELD = 3


@dataclass(slots=True, eq=False)
class Group:
    """The objects of one class of one agent of one source, which become stale and fresh together.

    Those that the source cannot read since the same time are a group of their own.

    Attributes:
        source: number of the source.
        agent: name of the agent within its source.
        class_name: name of the class, ``package:name``.
        unread_since: the time since which the source cannot read them; 0 if it can.
        freshness: the freshness of all of its objects.
        stale_since: the time since which they are stale; 0 while they are fresh.
        objects: the number of objects.
        is_outdated: whether values may be shown that are hidden now; they are withheld until they are fresh.
    """

    source: int
    agent: str
    class_name: str
    freshness: Freshness = Freshness.STALE
    stale_since: int = 0
    objects: int = 0
    is_outdated: bool = False
    unread_since: int = 0


AnyGroup = TypeVar("AnyGroup", bound=Group)


class FreshnessTracker(Generic[AnyGroup]):
    """The freshness of all sources and agents, with a group for the objects of each agent and class.

    Args:
        new_group: makes the group of a source's agent and a class.
        changed: called with a group whose freshness has changed.
        serve_stale_for: nanoseconds for which the values of stale objects are still shown.

    Attributes:
        awaited: the sources that `confirm_sources` makes trusted.
    """

    def __init__(
        self,
        new_group: Callable[[int, str, str], AnyGroup],
        changed: Callable[[AnyGroup], None],
        serve_stale_for: int,
    ) -> None:
        self._new_group = new_group
        self._changed = changed
        self._serve_stale_for = serve_stale_for
        self._stale_sources: dict[int, int] = {}  # since when each source is stale; 0 while it is fresh
        self.awaited: set[int] = set()
        self._agents: dict[tuple[int, str], AgentRecord] = {}
        # Of an agent: by class and `unread_since`.
        self._groups: dict[tuple[int, str], dict[tuple[str, int], AnyGroup]] = {}
        self._gone: set[tuple[int, str]] = set()
        self._unseen: set[tuple[int, str]] = set()

    def __iter__(self) -> Iterator[AnyGroup]:
        return iter([group for groups in self._groups.values() for group in groups.values()])

    def source_received(self, record: SourceRecord, now: int) -> bool:
        """Process the state of a source; return whether that changes its freshness.

        A source that was stale stays so until `confirm_sources`.
        """
        known = record.number in self._stale_sources
        lost = min(record.since or now, now) if record.state in _NOT_REACHED else now
        previous = self._stale_sources.setdefault(record.number, lost)
        if record.state in TRUSTED:
            if previous or not known:
                self.awaited.add(record.number)
        elif record.state in _NOT_REACHED:
            self.awaited.discard(record.number)
            self._stale_sources[record.number] = previous or lost
        if known and bool(self._stale_sources[record.number]) == bool(previous):
            return False
        self._judge(self.of_source(record.number), now)
        return True

    def will_be_trusted(self, source: int) -> bool:
        """Return whether the source is trusted, or will be after `confirm_sources`."""
        return source in self.awaited or not self.is_stale(source)

    def confirm_sources(self, now: int) -> list[int]:
        """Trust the sources whose state permits it; return their numbers.

        Must be called when what is shown of them is what the core sent: after a snapshot, once all that it
        did not contain has been removed. Earlier, values from before the snapshot would be shown as fresh.
        """
        confirmed = sorted(self.awaited)
        self.awaited.clear()
        for number in confirmed:
            self._stale_sources[number] = 0
            self._judge(self.of_source(number), now)
        return confirmed

    def agent_received(self, record: AgentRecord, now: int) -> bool:
        """Process the state of an agent; return whether that changes its freshness."""
        key = record.source, record.agent
        previous = self._agents.get(key)
        self._agents[key] = record
        self._gone.discard(key)
        self._unseen.discard(key)
        changed = self._judge(self._of_agent(key), now)
        return changed or previous is None or previous.fresh is not record.fresh

    def agent_gone(self, record: AgentGoneRecord, now: int) -> bool:
        """Note that an agent is gone; its remaining objects are stale.

        Return whether that changes its freshness.
        """
        key = record.source, record.agent
        if key not in self._agents:
            return False
        stale = AgentRecord(record.source, record.agent, fresh=False, since=record.gone, confirmed=0)
        changes = self.agent_received(stale, now)
        self._gone.add(key)
        return changes

    def snapshot_began(self) -> None:
        """Prepare for a snapshot: agents that it does not contain are gone."""
        self._unseen = set(self._agents)

    def snapshot_ended(self) -> None:
        """End the snapshot, and forget groups without objects."""
        kept = {
            key: {part: group for part, group in groups.items() if group.objects}
            for key, groups in self._groups.items()
        }
        self._groups = {key: groups for key, groups in kept.items() if groups}
        self._gone |= self._unseen
        self._unseen = set()

    def forget_gone(self) -> list[int]:
        """Forget agents that are gone and have no objects left; return the numbers of their sources."""
        over = [key for key in self._gone if not any(one.objects for one in self._of_agent(key))]
        for key in over:
            self._gone.discard(key)
            self._agents.pop(key, None)
            self._groups.pop(key, None)
        return sorted({source for source, _ in over})

    def mark_all_stale(self, now: int) -> None:
        """Mark every source stale until the core has sent its state again."""
        self.awaited.clear()
        for number, since in self._stale_sources.items():
            self._stale_sources[number] = since or now
        self._judge(self, now)

    def withhold_all(self) -> None:
        """Withhold the values of all objects until they are fresh again; `mark_all_stale` is called next."""
        for group in self:
            group.is_outdated = True

    def forget_agents(self) -> None:
        """Forget all agents, because a new core begins without any; `mark_all_stale` is called with it."""
        self._agents.clear()
        self._gone.clear()
        self._unseen.clear()

    def is_stale(self, source: int) -> bool:
        """Return whether no object of the source is fresh."""
        return bool(self._stale_sources.get(source, 1))

    def has_stale_parts(self, source: int) -> bool:
        """Return whether the source, one of its agents, or a class of one that has objects is stale."""
        return (
            self.is_stale(source)
            or any(not agent.fresh for (number, _), agent in self._agents.items() if number == source)
            or any(group.stale_since for group in self.of_source(source) if group.objects)
        )

    def stale_since(self, source: int, agent: str, class_name: str, now: int, unread_since: int = 0) -> int:
        """Return the time since which the source, the agent or the class is stale, or something unread.

        It is 0 while all are fresh.
        """
        record = self._agents.get((source, agent))
        reasons = (
            self._stale_sources.get(source, now),
            record.since if record and not record.fresh else 0,
            record.outdated_since(class_name, now) if record else 0,
            unread_since,
        )
        return min((since for since in reasons if since), default=0)

    def group(self, source: int, agent: str, class_name: str, now: int, unread_since: int = 0) -> AnyGroup:
        """Return a group of an agent and class; the objects of an unknown source are stale from now on."""
        groups = self._groups.setdefault((source, agent), {})
        group = groups.get((class_name, unread_since))
        if group is None:
            group = groups[class_name, unread_since] = self._new_group(source, agent, class_name)
            group.unread_since = unread_since
            self._judge([group], now)
        return group

    def of_source(self, source: int) -> list[AnyGroup]:
        """Return the groups of a source."""
        return [group for group in self if group.source == source]

    def _of_agent(self, key: tuple[int, str]) -> Iterable[AnyGroup]:
        return self._groups.get(key, {}).values()

    def remove_source(self, source: int) -> None:
        """Forget a source that is no longer configured."""
        del self._stale_sources[source]
        self.awaited.discard(source)
        self._gone.update(key for key in self._agents if key[0] == source)
        self._groups = {key: groups for key, groups in self._groups.items() if key[0] != source}

    def age(self, now: int) -> list[int]:
        """Mark stale what was not confirmed in time, and withhold what has been stale for too long.

        Return the sources of which anything changed.
        """
        for groups in self._groups.values():
            for part in [part for part, group in groups.items() if part[1] and not group.objects]:
                del groups[part]
        aging = [group for group in self if group.freshness is not Freshness.WITHHELD]
        return sorted({group.source for group in aging if self._judge([group], now)})

    def _judge(self, groups: Iterable[AnyGroup], now: int) -> bool:
        """Judge groups; return whether the freshness of any has changed."""
        changed = False
        for group in groups:
            since = self.stale_since(group.source, group.agent, group.class_name, now, group.unread_since)
            group.stale_since = min(group.stale_since or since, since) if since else 0
            freshness = Freshness.FRESH
            if group.stale_since:
                is_withheld = group.is_outdated or now - group.stale_since >= self._serve_stale_for
                freshness = Freshness.WITHHELD if is_withheld else Freshness.STALE
            else:
                group.is_outdated = False
            if freshness is not group.freshness:
                group.freshness = freshness
                self._changed(group)
                changed = True
        return changed
