"""Rows follow how far their groups can be believed (`gateway.feed.freshness`), in slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway.feed.freshness import Belief, Freshness
from gateway.feed.records import AgentGoneRecord, AgentRecord, SourceRecord
from gateway.snmp.tables.rows import Row, RowGroup


@dataclass(slots=True)
class Snapshots:
    """The last snapshot that told a source, and the last one after which it was swept.

    Swept: rows that the snapshot had not told were taken away.
    """

    generation: int = 0
    swept: int = 0


class RowFreshness:
    """All sources, their agents, and the groups of rows that each agent vouches for.

    Args:
        clock: now, in nanoseconds since 1970-01-01 UTC.
        serve_stale_for: nanoseconds for which the values of a stale row are still shown.
        judged: told of sources of which something can be believed more or less than before.
    """

    def __init__(
        self, clock: Callable[[], int], serve_stale_for: int, judged: Callable[[Iterable[int]], None]
    ) -> None:
        self.snapshots: dict[int, Snapshots] = {}
        self._clock = clock
        self._judged = judged
        self._belief = Belief(RowGroup, self._unsettle, serve_stale_for)
        self._unsettled: dict[RowGroup, list[Row]] = {}

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something left to do."""
        return bool(self._unsettled)

    def source_told(self, record: SourceRecord, generation: int) -> None:
        """A source as it stands now, told by this snapshot."""
        self.snapshots.setdefault(record.number, Snapshots()).generation = generation
        if self._belief.source_told(record, self._clock()):
            self._judged([record.number])

    def vouch(self) -> None:
        """What is shown is what was told: the sources told to be believed are."""
        if vouched := self._belief.vouch(self._clock()):
            self._judged(vouched)

    def is_told_whole(self, source: int) -> bool:
        """Whether the source is believed, or will be when all that it did not tell has gone."""
        return self._belief.is_told_whole(source)

    def agent_told(self, record: AgentRecord) -> None:
        """An agent as it stands now."""
        if self._belief.agent_told(record, self._clock()):
            self._judged([record.source])

    def agent_gone(self, record: AgentGoneRecord) -> None:
        """An agent is no more."""
        if self._belief.agent_gone(record, self._clock()):
            self._judged([record.source])
        self._forget_gone()

    def snapshot_began(self) -> None:
        """Agents that are not told from here on are gone."""
        self._belief.snapshot_began()

    def snapshot_ended(self) -> None:
        """All agents that there are have been told; keep only groups that rows name."""
        self._belief.keep(lambda group: bool(group.rows))
        self._belief.snapshot_ended()
        self._forget_gone()

    def _forget_gone(self) -> None:
        if judged := self._belief.forget_gone(lambda group: bool(group.rows)):
            self._judged(judged)

    def doubt_all(self) -> None:
        """Nobody vouches for anything until sources are told anew."""
        self._belief.doubt_all(self._clock())
        self._judged(self._belief.sources)

    def forget_agents(self) -> None:
        """A new core has heard of no agent yet."""
        self._belief.forget_agents()

    def has_doubts(self, source: int) -> bool:
        """Whether the source, or one of its agents, is not believed."""
        return self._belief.has_doubts(source)

    def group(self, source: int, agent: str) -> RowGroup:
        """The rows of an agent."""
        return self._belief.group(source, agent, self._clock())

    def of_source(self, number: int) -> list[RowGroup]:
        """The groups of a source."""
        return self._belief.of_source(number)

    def remove_source(self, number: int) -> None:
        """A source is not configured any more; its rows must have gone before."""
        for group in self.of_source(number):
            self._unsettled.pop(group, None)
        self._belief.remove_source(number)
        del self.snapshots[number]

    def age(self) -> None:
        """Withhold what has been stale for too long."""
        self._belief.age(self._clock())
        self._forget_gone()

    def settle(self, rows_left: int, heavy: int) -> int:
        """Bring rows into the states of their groups while there are any left of ``rows_left``.

        Args:
            rows_left: how many rows may be changed.
            heavy: as how many a row counts of which every cell is touched.

        Returns:
            What is left then; below 0 where the last one was heavy.
        """
        while rows_left > 0 and self._unsettled:
            group, rows = next(iter(self._unsettled.items()))
            while rows_left > 0 and rows:
                row = rows.pop()
                if row in group.rows:
                    rows_left -= heavy if Freshness.WITHHELD in (row.state, group.freshness) else 1
                    row.table.settle(row)
            if not rows:
                del self._unsettled[group]
        return rows_left

    def _unsettle(self, group: RowGroup) -> None:
        self._unsettled[group] = list(group.rows)
