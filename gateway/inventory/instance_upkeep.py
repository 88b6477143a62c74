"""What the instance index needs from a disk, done by a thread that may wait for it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gateway.inventory.instance_file import checkpoint, connect, explained, sync


@dataclass(frozen=True, slots=True)
class Reservation:
    """A block of row numbers of one source and class, to be reserved before the one before it is used up.

    Attributes:
        source: its number.
        class_name: ``package:class``.
        above: the last number reserved so far; the block is refused if that has changed meanwhile.
        upto: the last number of the block.
    """

    source: int
    class_name: str
    above: int
    upto: int


def keep_on_disk(path: Path, reservations: Collection[Reservation]) -> tuple[Reservation, ...]:
    """Sync what was committed, and reserve blocks.

    Whoever writes in another thread hardly waits: blocks are committed without a sync and synced after it.

    Args:
        path: of an index that is open.
        reservations: at most one for each source and class.

    Returns:
        Those that are on the disk now.

    Raises:
        InstanceIndexError: it cannot be done.
    """
    with explained(path), closing(connect(path)) as database:
        emptied = checkpoint(database)
        if not emptied and not reservations:
            return ()
        database.execute("BEGIN IMMEDIATE")
        if emptied:
            # The first to write after the log was emptied syncs its head: better this thread than another.
            database.execute("UPDATE about SET boot = boot")
        granted = tuple(
            reservation
            for reservation in reservations
            if database.execute(
                "UPDATE counters SET high_water = ? WHERE source = ? AND class = ? AND high_water = ?",
                (reservation.upto, reservation.source, reservation.class_name, reservation.above),
            ).rowcount
        )
        database.execute("COMMIT")
        sync(path)
        return granted
