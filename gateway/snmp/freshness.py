"""How far rows can be believed: by their source, by their agent, and by how long that has lasted.

What is stale for a second reason has been stale since the first. Groups of rows are judged at once; the
rows themselves follow in slices (`RowGroup.state`, `ClassTable.settle`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway.feed.records import AgentRecord, SourceRecord
from gateway.model.observations import SourceState
from gateway.snmp.row_columns import RowState
from gateway.snmp.tables.rows import Row, RowGroup

_BELIEVED = frozenset({SourceState.SYNCHRONISED, SourceState.DEGRADED})
_NOT_BELIEVED = frozenset({SourceState.CONNECTING, SourceState.DOWN})


@dataclass(slots=True)
class Source:
    """What is remembered of a source: since when it is not believed (0: it is), and the snapshots.

    ``generation`` is the snapshot that told the source last; ``swept`` the last one after which rows that
    it had not told were taken away.
    """

    doubted_since: int
    generation: int = 0
    swept: int = 0


class Freshness:
    """All sources, their agents, and the groups of rows that each agent vouches for.

    Args:
        clock: now, in nanoseconds since 1970-01-01 UTC.
        serve_stale_for: nanoseconds for which the values of a stale row are still shown.
        judged: told of sources of which something can be believed more or less than before.
    """

    def __init__(
        self, clock: Callable[[], int], serve_stale_for: int, judged: Callable[[Iterable[int]], None]
    ) -> None:
        self.sources: dict[int, Source] = {}
        self._clock = clock
        self._serve_stale_for = serve_stale_for
        self._judged = judged
        self._agents: dict[tuple[int, str], AgentRecord] = {}
        self._groups: dict[tuple[int, str], RowGroup] = {}
        self._unsettled: dict[RowGroup, list[Row]] = {}

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something left to do."""
        return bool(self._unsettled)

    def source_told(self, record: SourceRecord, generation: int) -> None:
        """A source as it stands now, told by this snapshot."""
        source = self.sources.setdefault(record.number, Source(self._clock()))
        source.generation = generation
        was_doubted = bool(source.doubted_since)
        if record.state in _BELIEVED:
            source.doubted_since = 0
        elif record.state in _NOT_BELIEVED:
            source.doubted_since = source.doubted_since or self._clock()
        if bool(source.doubted_since) != was_doubted:
            self._judge(self.of_source(record.number))
            self._judged([record.number])

    def agent_told(self, record: AgentRecord) -> None:
        """An agent as it stands now."""
        former = self._agents.get((record.source, record.agent))
        self._agents[record.source, record.agent] = record
        group = self._groups.get((record.source, record.agent))
        if group is not None:
            self._judge([group])
        if former is None or former.fresh is not record.fresh:
            self._judged([record.source])

    def doubt_all(self) -> None:
        """Nobody vouches for anything until sources are told anew."""
        now = self._clock()
        for source in self.sources.values():
            source.doubted_since = source.doubted_since or now
        self._judge(self._groups.values())
        self._judged(self.sources)

    def forget_agents(self) -> None:
        """A new core has heard of no agent yet."""
        self._agents.clear()

    def doubted(self, source: int) -> bool:
        """Whether the source, or one of its agents, is not believed."""
        known = self.sources.get(source)
        return (
            known is None
            or bool(known.doubted_since)
            or any(not agent.fresh for (number, _), agent in self._agents.items() if number == source)
        )

    def group(self, source: int, agent: str) -> RowGroup:
        """The rows of an agent."""
        group = self._groups.get((source, agent))
        if group is None:
            group = self._groups[source, agent] = RowGroup(source, agent)
            self._judge([group])
        return group

    def of_source(self, number: int) -> list[RowGroup]:
        """The groups of a source."""
        return [group for group in self._groups.values() if group.source == number]

    def forget_empty_groups(self) -> None:
        """Agents come and go: keep only those that rows name."""
        self._groups = {key: group for key, group in self._groups.items() if group.rows}

    def remove_source(self, number: int) -> None:
        """A source is not configured any more; its rows must have gone before."""
        for group in self.of_source(number):
            del self._groups[number, group.agent]
            self._unsettled.pop(group, None)
        del self.sources[number]

    def age(self) -> None:
        """Withhold what has been stale for too long."""
        self._judge(group for group in self._groups.values() if group.state is RowState.STALE)

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
                    rows_left -= heavy if RowState.WITHHELD in (row.state, group.state) else 1
                    row.table.settle(row)
            if not rows:
                del self._unsettled[group]
        return rows_left

    def _judge(self, groups: Iterable[RowGroup]) -> None:
        """Decide how far the rows of these groups can be believed now."""
        now = self._clock()
        for group in groups:
            since = self._stale_since(group)
            # What is stale for a second reason has been stale since the first.
            group.stale_since = min(group.stale_since or since, since) if since else 0
            state = RowState.FRESH
            if group.stale_since:
                withheld = now - group.stale_since >= self._serve_stale_for
                state = RowState.WITHHELD if withheld else RowState.STALE
            if state is not group.state:
                group.state = state
                self._unsettled[group] = list(group.rows)

    def _stale_since(self, group: RowGroup) -> int:
        """Since when nobody vouches for these rows; 0 if somebody does."""
        source = self.sources.get(group.source)
        agent = self._agents.get((group.source, group.agent))
        reasons = [
            source.doubted_since if source else self._clock(),
            agent.since if agent and not agent.fresh else 0,
        ]
        return min((since for since in reasons if since), default=0)
