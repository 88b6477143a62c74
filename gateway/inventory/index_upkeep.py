"""The upkeep of the instance index by another thread, which waits for the disk and keeps the reserve."""

from __future__ import annotations

import enum
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import msgspec

from gateway.durable_files import DiskReserve, with_room
from gateway.inventory.instance_file import IndexNotWrittenError, checkpoint, connect, explained, sync


class DiskState(enum.Enum):
    """What the disk of the index takes."""

    ROOM = "room"  # all changes
    RESERVE = "reserve"  # all changes, but the reserve for a full disk is in use, or was never made
    NOTHING = "nothing"  # none


class Reservation(msgspec.Struct, frozen=True):
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


class Upkeep(msgspec.Struct, frozen=True):
    """The result of an upkeep.

    Attributes:
        granted: the reservations that are on the disk now.
        reserve_is_whole: the reserve for a full disk is whole, or there is to be none.
    """

    granted: tuple[Reservation, ...]
    reserve_is_whole: bool


def keep_on_disk(
    path: Path,
    reservations: Collection[Reservation],
    reserve: DiskReserve | None = None,
    *,
    writes: bool = False,
) -> Upkeep:
    """Sync committed changes, reserve blocks, and refill the reserve.

    A writer in another thread hardly waits: blocks are committed without a sync and synced after it.

    Args:
        path: the path of an index that is open.
        reservations: at most one for each source and class.
        reserve: room for a full disk.
        writes: something is written in any case, which shows that the disk takes it.

    Raises:
        InstanceIndexError: it cannot be done.
    """
    granted = with_room(reserve, lambda: _kept_on_disk(path, reservations, writes=writes), is_not_written)
    return Upkeep(granted, reserve is None or reserve.refill())


def _kept_on_disk(
    path: Path, reservations: Collection[Reservation], *, writes: bool
) -> tuple[Reservation, ...]:
    with explained(path), closing(connect(path)) as database:
        emptied = checkpoint(database)
        if not emptied and not reservations and not writes:
            return ()
        database.execute("BEGIN IMMEDIATE")
        if emptied or writes:
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


def is_not_written(error: Exception) -> bool:
    """Return whether an error of the index is that of its disk, on which a reserve may have room."""
    return isinstance(error, IndexNotWrittenError)
