"""Records that wait for the disk: numbered, encoded, in blocks, within a bound; lost ones are counted.

A record that is not taken is counted in a gap that has its own place, and so its seq, among the waiting
ones: a waiter for that seq learns that the loss is on the disk. There is one such gap at a time; it
takes what is lost until it is its turn to be written.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.eventlog.audit_chain import AuditChain, ChainEnd
from gateway.eventlog.block import MAX_BLOCK_OCTETS, BlockDraft
from gateway.eventlog.record import AUDITED_KINDS, AnyRecord, LogRecord, RecordKind


class Pressure(enum.Enum):
    """The records that should still reach the log while it is written too slowly, or not at all.

    ``NONE``: all. ``MERGE``: values less often. ``FULL``: only creations, ends and events; changes of values
    would be dropped, and counted.
    """

    NONE = "none"
    MERGE = "merge"
    FULL = "full"


COMMIT_OCTETS: Final = 8 << 20
"""The approximate maximum size of the records that are written and synced together."""

MAX_COMMIT_OCTETS: Final = COMMIT_OCTETS + MAX_BLOCK_OCTETS + 1024
"""The strict maximum of that size."""

_RECORD_OCTETS: Final = 1024  # that a waiting record may have on average
_VALUES: Final = frozenset({RecordKind.UPDATE, RecordKind.SNAPSHOT})


@dataclass(frozen=True, slots=True)
class Batch:
    """Blocks of one segment, one behind the other, that are written and synced together.

    Attributes:
        segment: number of the segment, in this process only.
        first_seq: the seq of the first record.
        last_seq: the seq of the last record.
        last_ts: ``ingest_ts`` of the last record.
        octets: the size of the record lines.
        blocks: in order, each with its commit line.
        chain_end: the end of the chain of audited records, up to the last record.
    """

    segment: int
    first_seq: int
    last_seq: int
    last_ts: str
    octets: int
    blocks: tuple[bytearray, ...]
    chain_end: ChainEnd


@dataclass(slots=True)
class _Gap:
    """A count of records that were not taken."""

    ingest_ts: str
    from_ts: str
    to_ts: str
    lost: dict[RecordKind, int] = field(default_factory=dict)

    def record(self) -> LogRecord:
        total = sum(self.lost.values())
        return LogRecord(
            kind=RecordKind.GAP,
            ingest_ts=self.ingest_ts,
            text=f"{total} records were lost, because too many waited for the disk",
            from_ts=self.from_ts,
            to_ts=self.to_ts,
            lost=total,
            values={kind.value: count for kind, count in sorted(self.lost.items())},
        )


@dataclass(slots=True)
class _WaitingBlock:
    segment: int
    draft: BlockDraft
    chain_end: ChainEnd
    last_ts: str = ""
    gap: _Gap | None = None


class WaitingRecords:
    """The queue between the appender and the disk.

    Args:
        log_id: the identity of the log.
        next_seq: the seq of the record that is added first.
        bound: the maximum number of records; with 1 KiB for each on average.
        chain_end: the end of the chain of audited records on the disk; ``None`` where there are none.

    Attributes:
        chain: the chain of audited records.
        next_seq: the seq of the record that is added next.
        appended: the size of all lines so far.
        lost: the number of records not taken so far.
        segment: the number of the segment that takes added records.
    """

    def __init__(self, log_id: str, next_seq: int, bound: int, chain_end: ChainEnd | None = None) -> None:
        self.chain = AuditChain(log_id, chain_end)
        self.next_seq = next_seq
        self.appended = 0
        self.lost = 0
        self.segment = 0
        self._log_id = log_id
        self._bound = bound
        self._first_seq = next_seq  # of what waits
        self._written = 0  # octets of what waits no more
        self._blocks: deque[_WaitingBlock] = deque()
        self._draft: BlockDraft | None = None  # the last block's, while it takes records
        self._last_ts = ""
        self._gap: _Gap | None = None  # while its turn has not come
        self._gap_seq = 0
        self._lost_audited: Counter[RecordKind] = Counter()
        self._calm_seq = self._calm_appended = 0
        self._set_calm()

    @property
    def records(self) -> int:
        """The number of waiting records, those being written included."""
        return self.next_seq - self._first_seq

    @property
    def octets(self) -> int:
        """The size of the waiting lines, in octets."""
        return self.appended - self._written

    @property
    def pressure(self) -> Pressure:
        """The pressure, by the distance to the bound."""
        waiting = max(self.records, self.octets // _RECORD_OCTETS)
        if waiting * 2 < self._bound:
            return Pressure.NONE
        return Pressure.MERGE if waiting * 4 < self._bound * 3 else Pressure.FULL

    def takes(self, kind: RecordKind) -> bool:
        """Return whether a record of this kind still fits."""
        if self.next_seq < self._calm_seq and self.appended < self._calm_appended:
            return True
        waiting = max(self.records, self.octets // _RECORD_OCTETS)
        # The last quarter is for what begins, ends and happens: a value is repeated later, an event is not.
        return waiting < self._bound and (kind not in _VALUES or waiting * 4 < self._bound * 3)

    def add(self, record: AnyRecord) -> int:
        """Number a record, encode it and keep it, whether it fits or not; return its seq.

        Raises:
            TypeError, ValueError: a value has no form in JSON; nothing was added.
        """
        draft = self._draft
        if draft is None or draft.is_full:
            draft = self._begin_block()
        if record.kind in AUDITED_KINDS and isinstance(record, LogRecord):
            record = self.chain.linked(record, self.next_seq)
        self.appended += draft.add(record)
        self._last_ts = record.ingest_ts
        seq = self.next_seq
        self.next_seq = seq + 1
        return seq

    def add_all(self, records: Sequence[AnyRecord], ingest_ts: str, octets: int) -> int:
        """Number, encode and keep records that need no special treatment; quicker than `add` for each.

        It ends before records that perhaps do not fit, and where `BlockDraft.add_all` ends; `takes` and `add`
        are for the next one.

        Args:
            records: in order.
            ingest_ts: the time that they must have.
            octets: the size after which it ends.

        Returns:
            The number of records added.
        """
        if self.next_seq + len(records) > self._calm_seq or self.appended >= self._calm_appended:
            return 0
        draft = self._draft
        if draft is None or draft.is_full:
            draft = self._begin_block()
        before = len(draft.lines)
        added = draft.add_all(records, ingest_ts, octets)
        if added:
            self.appended += len(draft.lines) - before
            self.next_seq += added
            self._last_ts = ingest_ts
        return added

    def lose(self, kind: RecordKind, at: str, last_ts: str) -> int:
        """Count a record instead of taking it.

        Args:
            kind: its kind.
            at: its ``ingest_ts``.
            last_ts: that of the segment's last record: the gap has it too, and so is of the same hour.

        Returns:
            The seq of the gap that records it.
        """
        self.lost += 1
        gap = self._gap
        if gap is None:
            gap = self._begin_gap(at, last_ts)
        gap.to_ts = max(gap.to_ts, at)
        gap.lost[kind] = gap.lost.get(kind, 0) + 1
        if kind in AUDITED_KINDS:
            self._lost_audited[kind] += 1
        return self._gap_seq

    def take_lost_audited(self) -> dict[str, int]:
        """Return the number of audited records not taken since the last call, by kind, for the chain."""
        lost, self._lost_audited = self._lost_audited, Counter()
        return {kind.value: count for kind, count in sorted(lost.items())}

    def begin_segment(self) -> None:
        """Begin a segment, which takes the records added from here on."""
        self._end_block()
        self.segment += 1

    def take(self) -> Batch | None:
        """Return the next records to be written, for `done`; ``None`` where none wait."""
        taken: list[_WaitingBlock] = []
        octets = 0
        while self._blocks and octets < COMMIT_OCTETS:
            # A batch is one write to one file.
            if taken and self._blocks[0].segment != taken[0].segment:
                break
            block = self._blocks.popleft()
            # Its last record's time is kept here while it takes records.
            if block.draft is self._draft:
                block.last_ts, block.chain_end = self._last_ts, self.chain.end
                self._draft = None
            # Now at the latest: what is lost from here on begins the next gap.
            if block.gap is not None:
                self._render(block)
            if block.draft.records:
                taken.append(block)
                octets += len(block.draft.lines)
        if not taken:
            return None
        last = taken[-1]
        return Batch(
            segment=last.segment,
            first_seq=taken[0].draft.first_seq,
            last_seq=last.draft.next_seq - 1,
            last_ts=last.last_ts,
            octets=octets,
            blocks=tuple(block.draft.seal() for block in taken),
            chain_end=last.chain_end,
        )

    def done(self, batch: Batch) -> None:
        """Note that a batch is on the disk."""
        self._first_seq = batch.last_seq + 1
        self._written += batch.octets
        self._set_calm()

    def _begin_block(self) -> BlockDraft:
        self._end_block()
        self._draft = BlockDraft(self._log_id, self.next_seq)
        self._blocks.append(_WaitingBlock(self.segment, self._draft, self.chain.end))
        return self._draft

    def _end_block(self) -> None:
        if self._draft is not None:
            self._blocks[-1].last_ts, self._blocks[-1].chain_end = self._last_ts, self.chain.end
            self._draft = None

    def _begin_gap(self, at: str, last_ts: str) -> _Gap:
        self._end_block()
        self._gap = gap = _Gap(last_ts, at, at)
        self._gap_seq = self.next_seq
        self._blocks.append(
            # A block of its own, which is filled when it is written: it counts what is lost until then.
            _WaitingBlock(self.segment, BlockDraft(self._log_id, self.next_seq), self.chain.end, last_ts, gap)
        )
        self.next_seq += 1
        return gap

    def _render(self, block: _WaitingBlock) -> None:
        assert block.gap is not None
        self.appended += block.draft.add(block.gap.record())
        self._gap = None

    def _set_calm(self) -> None:
        """Note the limit up to which everything is taken without counting: a half of the bound."""
        self._calm_seq = self._first_seq + self._bound // 2
        self._calm_appended = self._written + self._bound // 2 * _RECORD_OCTETS
