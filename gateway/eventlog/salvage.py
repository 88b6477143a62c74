"""What is whole in a segment, and what is not, whatever happened to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gateway.eventlog.block import Block, Damage
from gateway.eventlog.segment import Segment, scan_segment


@dataclass(slots=True)
class Salvage:
    """The whole blocks of a segment that belong to one log and go upwards; all else is damage.

    Attributes:
        log_id: of the log; empty where no block is whole.
        records: in whole blocks.
        octets: of their lines.
        first_seq: of the first record; 0 where there is none.
        last_seq: of the last record.
        sum_of_seqs: of all records.
        end: where the last whole block ends, in octets.
        damages: what is no block, or does not go on where the one before ended.
    """

    log_id: str = ""
    records: int = 0
    octets: int = 0
    first_seq: int = 0
    last_seq: int = 0
    sum_of_seqs: int = 0
    end: int = 0
    damages: list[Damage] = field(default_factory=list)


def salvage(segment: Segment) -> Salvage:
    """Read a segment to its end.

    Raises:
        OSError: it cannot be read.
    """
    found = Salvage()
    for _ in _whole_blocks(segment, found):
        pass
    return found


def copy_whole_lines(segment: Segment, target: Path) -> Salvage:
    """Write the record lines of what is whole into ``target``, a new file.

    Raises:
        OSError: it cannot be read or written.
    """
    found = Salvage()
    with target.open("xb") as file:
        for block in _whole_blocks(segment, found):
            file.write(block.lines)
    return found


def _whole_blocks(segment: Segment, into: Salvage) -> Iterator[Block]:
    least = segment.first_seq
    hole_is_told = False
    for found in scan_segment(segment.path):
        if isinstance(found, Damage):
            into.damages.append(found)
            hole_is_told = True
            continue
        log_id = into.log_id or found.log_id
        fits = found.log_id == log_id and found.first_seq >= least
        if not fits or (found.first_seq > least and not hole_is_told):
            expected, name = f"seq {least} of log {log_id}", f"seq {found.first_seq} of log {found.log_id}"
            into.damages.append(Damage(found.offset, found.end, expected, name))
        if fits:
            _add(found, into)
            least = found.last_seq + 1
            yield found
        hole_is_told = not fits


def _add(block: Block, into: Salvage) -> None:
    count = block.last_seq - block.first_seq + 1
    into.log_id = block.log_id
    into.first_seq = into.first_seq or block.first_seq
    into.last_seq = block.last_seq
    into.records += count
    into.octets += len(block.lines)
    into.sum_of_seqs += (block.first_seq + block.last_seq) * count // 2
    into.end = block.end
