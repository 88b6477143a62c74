"""The instance index: the row number of each object, kept in SQLite in the state folder.

Durable objects keep their number by stable name. Transient ones draw from the same counter and are not
stored: only the counter's high-water mark is, in blocks, so that a million short-lived objects cost a few
hundred writes. A number is not used again before the counter has passed 2^31-1 and wraps; after that,
numbers of objects that live or may return are passed over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.inventory.instance_file import (
    FAILURES,
    InstanceIndexError,
    checkpoint,
    connect,
    explained,
    explanation,
    open_index,
    sync,
)
from gateway.model.times import SECOND

MAX_ROW = 2**31 - 1
"""Largest row number: ``Integer32 (1..2147483647)`` in every generated table (RFC 2578, 7.7)."""

BLOCK = 4096
"""The count of row numbers reserved at a time: the waste of a crash, and the steps of the stored counter."""

MAX_RETIRED = 1_000_000
"""The maximum number of kept numbers of gone objects: some 200 MB on the disk."""

MAX_UNSYNCED_CHANGES = 1_000
"""The number of changes after which the index asks for upkeep, so that the log on the disk does not grow."""

_RETIRED_KEPT = 400 * 24 * 3600 * SECOND
"""Nanoseconds for which the number of a durable object that is gone is kept for its return."""

_GATEWAY = 0
"""Stands for a source's number, which are from 1 on: these series belong to the gateway."""

_ALARM_SERIES = "gateway:alarm"
_END_SERIES = "gateway:end"

_Key = tuple[int, str]


@dataclass(slots=True)
class _Block:
    """The numbers of one source and class that may be given out: ``next`` up to ``reserved``.

    ``began`` is the first that this process may give out; until the counter wraps, earlier processes gave
    those below. No durable object has a number above ``highest``: only the others are looked up before they
    are given, which is rarely, because numbers ascend.
    """

    next: int
    reserved: int
    began: int
    highest: int


@dataclass(frozen=True, slots=True)
class IndexUsage:
    """The usage of an index.

    Attributes:
        highest_rows: the highest number reserved for any class, by source number.
        retired: the count of numbers kept for objects that are gone; at most `MAX_RETIRED`.
        unsynced: the count of changes that are not on the disk yet.
    """

    highest_rows: Mapping[int, int]
    retired: int
    unsynced: int


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


class InstanceIndex:
    """The row numbers by (source, class, stable name).

    Changes are gathered in one transaction until `commit`, which must be called before they are published: a
    number that was seen by anyone survives the death of the process. Blocks of numbers are on the disk before
    a number of them is seen, so that a power cut cannot make one be used twice. `keep_on_disk` reserves the
    next block in time and does all other waiting for a disk, in another thread; where no thread calls it,
    `commit` waits for the disk once a block.

    A failure is final: what was not committed is in memory only, so nothing may be published any more.

    Args:
        path: the path of the file; made if it does not exist.
        must_exist: refuse a file that is missing or empty: it has been used, so rows would change.
        needs_upkeep: called when `keep_on_disk` should be called before long, and after a failure.

    Raises:
        InstanceIndexError: (by all methods) the file cannot be used, is damaged, or of a newer version.
    """

    def __init__(
        self, path: Path, *, must_exist: bool = False, needs_upkeep: Callable[[], None] = lambda: None
    ) -> None:
        self._path = path
        self._needs_upkeep = needs_upkeep
        self._blocks: dict[_Key, _Block] = {}
        self._owes_sync = False
        self._changes = 0
        self._failure: InstanceIndexError | None = None
        self._database = open_index(path, must_exist=must_exist)
        self._retired: int = self._row("SELECT COUNT(*) FROM durable WHERE retired > 0")[0]

    @property
    def usage(self) -> IndexUsage:
        """The present usage, without access to the disk."""
        highest: dict[int, int] = {}
        for (source, _), block in self._blocks.items():
            highest[source] = max(highest.get(source, 0), block.reserved)
        return IndexUsage(highest, self._retired, self._changes)

    def start(self, gateway: str, boot: int) -> None:
        """Note the ``boot``-th start of ``gateway``, and reserve a block of every known counter.

        All is on the disk when this returns, by one sync.

        Raises:
            InstanceIndexError: the index is another gateway's, or was last used at a start that does not fit:
                one file of the state was replaced without the others.
        """
        owner, last = self._row("SELECT gateway, boot FROM about")
        if owner not in {"", gateway}:
            raise InstanceIndexError(
                f"{self._path}: belongs to gateway {owner}, and 'identity' beside it says {gateway}: "
                "restore all files of one backup"
            )
        # It is `boot` already if the process died after the index was written and before the file of starts.
        if last and last not in {boot - 1, boot}:
            raise InstanceIndexError(
                f"{self._path}: was last used at start {last}, and 'boots' beside it says {boot - 1}: one of "
                "them is an older copy or damaged: restore all files of one backup with `amqp-gateway state "
                "restore`"
            )
        self._begin()
        self._change("UPDATE about SET gateway = ?, boot = ?", (gateway, boot))
        known = self._rows("SELECT source, class FROM counters")
        for source, class_name in known:
            key = (source, class_name)
            self._reserve(key, self._block(key))
        self._owes_sync = True
        self.commit()

    def source_number(self, name: str) -> int:
        """Return the number of a source, given at its first appearance and kept for its name for ever."""
        row = self._row_or_none("SELECT number FROM sources WHERE name = ?", (name,))
        if row is not None:
            return int(row[0])
        self._begin()
        self._change(
            "INSERT INTO sources (number, name) VALUES (1 + MAX("
            "(SELECT COALESCE(MAX(number), 0) FROM sources), (SELECT source_floor FROM about)), ?)",
            (name,),
        )
        self._owes_sync = True
        self.commit()
        return self.source_number(name)

    def rename_source(self, old: str, new: str) -> None:
        """Give the number of source ``old``, and with it all its rows, to the name ``new``.

        Where ``new`` has a number already, the two exchange theirs: nothing is lost.

        Raises:
            KeyError: no source was ever called ``old``.
        """
        sources = self.sources()
        if old not in sources:
            raise KeyError(old)
        if old == new:
            return
        self._begin()
        self._change("DELETE FROM sources WHERE name IN (?, ?)", (old, new))
        self._change("INSERT INTO sources VALUES (?, ?)", (sources[old], new))
        if new in sources:
            self._change("INSERT INTO sources VALUES (?, ?)", (sources[new], old))
        self._owes_sync = True
        self.commit()

    def sources(self) -> Mapping[str, int]:
        """Return the number of every source that ever was, by its name."""
        return dict(self._rows("SELECT name, number FROM sources ORDER BY number"))

    def durable_row(
        self,
        source: int,
        class_name: str,
        name: str,
        in_use: Callable[[int], bool] = lambda _: False,
        recorded: Callable[[], int] = int,
    ) -> int:
        """Return the number of a durable object: its former one, or a new one, kept from now on.

        Args:
            source: its number.
            class_name: ``package:class``.
            name: stable name of the object.
            in_use: as for `transient_row`, which gives a new one.
            recorded: returns the number that it had according to the event log, which is on the disk sooner
                than the index: a power failure may have taken the number from here. 0 where it is not known.
        """
        row = self._row_or_none(
            "SELECT number, retired FROM durable WHERE source = ? AND class = ? AND name = ?",
            (source, class_name, name),
        )
        if row is not None:
            if row[1]:
                self._retired -= self._set_retired(source, class_name, name, 0)
            return int(row[0])
        number = recorded()
        if not (number and self.gave_before(source, class_name, number) and not in_use(number)):
            number = self.transient_row(source, class_name, in_use)
        self._begin()
        self._change(
            "INSERT INTO durable (source, class, name, number) VALUES (?, ?, ?, ?)",
            (source, class_name, name, number),
        )
        block = self._blocks[source, class_name]
        block.highest = max(block.highest, number)
        return number

    def transient_row(
        self, source: int, class_name: str, in_use: Callable[[int], bool] = lambda _: False
    ) -> int:
        """Return a number that no other object of this source and class has, or had since the last wrap.

        ``in_use`` returns whether a living transient object has a number: after a wrap it keeps it, too.
        """
        key = (source, class_name)
        block = self._block(key)
        while True:
            if block.next > block.reserved:
                self._reserve(key, block)
            number = block.next
            block.next += 1
            # Half a block is left for the time that the other thread needs to reserve the next one.
            if block.reserved - number == BLOCK // 2:
                self._needs_upkeep()
            # The counter wraps: the next block is reserved from 1 on.
            if number == MAX_ROW:
                block.next, block.reserved = 1, 0
            # Numbers ascend, so that only after a wrap one can belong to a durable object.
            is_taken = number <= block.highest and self._taken(key, number)
            if not is_taken and not in_use(number):
                return number

    def gave_before(self, source: int, class_name: str, row: int) -> bool:
        """Return whether a number was given out before this process began, and to no durable object.

        Numbers of transient objects are not stored: a number known from elsewhere must be checked here.
        """
        key = (source, class_name)
        return 0 < row < self._block(key).began and not self._taken(key, row)

    def retire(self, source: int, class_name: str, name: str, now: int) -> None:
        """Retire the number of a durable object that is gone: it is kept for its return, for about a year."""
        self._retired += self._set_retired(source, class_name, name, now)

    def forget_retired(self, now: int, limit: int = 500) -> int:
        """Drop numbers of durable objects gone for too long, or too many of them, the oldest first.

        Args:
            now: nanoseconds.
            limit: the maximum number in one call, so that it does not hold its caller.

        Returns:
            The number of dropped ones; call again soon where it is ``limit``.
        """
        too_many = self._retired - MAX_RETIRED
        self._begin()
        forgotten = self._change(
            "DELETE FROM durable WHERE (source, class, name) IN (SELECT source, class, name FROM durable "
            "WHERE retired > 0 AND retired < ? ORDER BY retired LIMIT ?)",
            (now if too_many > 0 else now - _RETIRED_KEPT, min(limit, too_many) if too_many > 0 else limit),
        )
        self._retired -= forgotten
        self.commit()
        return forgotten

    def keep_alarm(self, source: int, number: int, alarm: str) -> None:
        """Store an active alarm of a source; ``alarm`` is the text to restore it from."""
        self._begin()
        self._change("INSERT OR REPLACE INTO alarms VALUES (?, ?, ?)", (number, source, alarm))

    def drop_alarm(self, number: int) -> None:
        """Remove an alarm that is over."""
        self._begin()
        self._change("DELETE FROM alarms WHERE number = ?", (number,))

    def alarms(self, source: int) -> list[tuple[int, str]]:
        """Return number and text of each alarm of a source that was active at the last use, oldest first."""
        return self._rows("SELECT number, alarm FROM alarms WHERE source = ? ORDER BY number", (source,))

    def commit(self) -> None:
        """Commit the gathered changes; call before publishing them."""
        if self._failure is not None:
            raise self._failure
        if not self._database.in_transaction:
            return
        self._execute("COMMIT")
        if self._owes_sync:
            try:
                sync(self._path)
            except OSError as error:
                raise self._failed(error) from error
            self._owes_sync = False
        if self._changes >= MAX_UNSYNCED_CHANGES:
            self._needs_upkeep()

    def check(self) -> None:
        """Raise the earlier failure, if there was one."""
        if self._failure is not None:
            raise self._failure

    def upkeep(self) -> Callable[[], Collection[Reservation]] | None:
        """Return the work for another thread, ``None`` for none; give its result to `reserved`."""
        wanted = tuple(
            Reservation(source, class_name, block.reserved, min(block.reserved + BLOCK, MAX_ROW))
            for (source, class_name), block in self._blocks.items()
            if 0 < block.reserved < min(block.next + BLOCK // 2, MAX_ROW)
        )
        if not wanted and not self._changes:
            return None
        self._changes = 0
        return lambda: keep_on_disk(self._path, wanted)

    def reserved(self, reservations: Collection[Reservation]) -> None:
        """Use blocks that are on the disk now, unless `commit` reserved them meanwhile."""
        for reservation in reservations:
            block = self._blocks[reservation.source, reservation.class_name]
            if block.reserved == reservation.above:
                block.reserved = reservation.upto

    def checkpoint(self) -> None:
        """Do the upkeep in this thread, which may wait for the disk."""
        upkeep = self.upkeep()
        if upkeep is not None:
            self.reserved(upkeep())

    def jump_ahead(self, rows: int, sources: int, boot: int) -> None:
        """Leave out numbers that may have been given since this copy of the index was made.

        Args:
            rows: the count of numbers of each source and class, known or not.
            sources: the count of numbers of sources.
            boot: the start that the index was last used at, from now on.
        """
        self._begin()
        self._change("UPDATE counters SET high_water = (high_water + ? - 1) % ? + 1", (rows, MAX_ROW))
        self._change(
            "UPDATE about SET boot = ?, floor = (floor + ? - 1) % ? + 1, "
            "source_floor = ? + MAX(source_floor, (SELECT COALESCE(MAX(number), 0) FROM sources))",
            (boot, rows, MAX_ROW, sources),
        )
        self._blocks.clear()
        self._owes_sync = True
        self.commit()

    def close(self) -> None:
        """Commit and close; after a failure, close."""
        try:
            if self._failure is None:
                self.commit()
        finally:
            self._database.close()

    def _block(self, key: _Key) -> _Block:
        """Return the block of a counter; at first it is empty, behind all that earlier runs reserved."""
        block = self._blocks.get(key)
        if block is None:
            row = self._row_or_none("SELECT high_water FROM counters WHERE source = ? AND class = ?", key)
            (high_water,) = row or self._row("SELECT floor FROM about")
            high_water %= MAX_ROW
            (highest,) = self._row("SELECT MAX(number) FROM durable WHERE source = ? AND class = ?", key)
            block = self._blocks[key] = _Block(high_water + 1, high_water, high_water + 1, highest or 0)
        return block

    def _reserve(self, key: _Key, block: _Block) -> None:
        """Reserve the next block in the gathered transaction, which is committed before it is used."""
        block.reserved = min(block.next + BLOCK - 1, MAX_ROW)
        self._begin()
        self._change(
            "INSERT INTO counters VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET high_water = excluded.high_water",
            (*key, block.reserved),
        )
        self._owes_sync = True

    def _taken(self, key: _Key, number: int) -> bool:
        row = self._row_or_none(
            "SELECT 1 FROM durable WHERE source = ? AND class = ? AND number = ?", (*key, number)
        )
        return row is not None

    def _set_retired(self, source: int, class_name: str, name: str, retired: int) -> int:
        """Retire a row or bring it back; return the number of rows changed: one, or none."""
        self._begin()
        return self._change(
            "UPDATE durable SET retired = ? "
            "WHERE source = ? AND class = ? AND name = ? AND (retired > 0) <> (? > 0)",
            (retired, source, class_name, name, retired),
        )

    def _begin(self) -> None:
        self.check()
        if not self._database.in_transaction:
            # The lock is taken at once: a deferred one could fail in the middle of a batch.
            self._execute("BEGIN IMMEDIATE")

    def _change(self, statement: str, parameters: tuple[object, ...] = ()) -> int:
        self._changes += 1
        return self._execute(statement, parameters).rowcount

    def _row(self, query: str, parameters: tuple[object, ...] = ()) -> tuple[Any, ...]:
        row = self._row_or_none(query, parameters)
        assert row is not None, query
        return row

    def _row_or_none(self, query: str, parameters: tuple[object, ...] = ()) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._execute(query, parameters).fetchone()
        return row

    def _rows(self, query: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return self._execute(query, parameters).fetchall()

    def _execute(self, statement: str, parameters: tuple[object, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, parameters)
        except FAILURES as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> InstanceIndexError:
        self._failure = explanation(self._path, error)
        self._needs_upkeep()
        return self._failure


def keep_on_disk(path: Path, reservations: Collection[Reservation]) -> tuple[Reservation, ...]:
    """Sync committed changes, and reserve blocks.

    A writer in another thread hardly waits: blocks are committed without a sync and synced after it.

    Args:
        path: the path of an index that is open.
        reservations: at most one for each source and class.

    Returns:
        The reservations that are on the disk now.

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


class IdAllocator:
    """Allocates numbers of one ascending series each for events, alarms and ends.

    Events are counted from 1 in each epoch; with the gateway's uuid and the epoch their number makes an id
    that is never given twice. Alarms and ends are numbered for ever: a series that has passed 2^31-1 (after
    eleven years of half a million ends a day) begins at 1 again, and passes over alarms that stand then. A
    restart leaves out what was left of a reserved block: the next number is greater, not one greater. Drawing
    one writes to the disk once in a block, as short-lived objects do (`InstanceIndex.transient_row`); it is
    published only after the index's commit, as every row number is.

    Args:
        gateway: its uuid, text.
        epoch: boot of this core.
        index: keeps the marks of the lasting series.
    """

    def __init__(self, gateway: str, epoch: int, index: InstanceIndex) -> None:
        self._prefix = f"{gateway}.{epoch}"
        self._index = index
        self._events = 0
        self._alarms: set[int] = set()

    def event(self) -> tuple[int, str]:
        """Return the number within the epoch, and the id, of the next event."""
        self._events += 1
        return self._events, f"{self._prefix}.{self._events}"

    @property
    def events(self) -> int:
        """The number of events numbered so far."""
        return self._events

    def alarm(self) -> int:
        """Return the number of an alarm that is raised now; its own until `alarm_over`."""
        number = self._index.transient_row(_GATEWAY, _ALARM_SERIES, self._alarms.__contains__)
        self._alarms.add(number)
        return number

    def alarm_stands(self, number: int) -> None:
        """Note the number of an alarm that was raised before this core began and is still active."""
        self._alarms.add(number)

    def alarm_over(self, number: int) -> None:
        """Release the number of an alarm that is over."""
        self._alarms.discard(number)

    def end(self) -> int:
        """Return the number of an object's end."""
        return self._index.transient_row(_GATEWAY, _END_SERIES)
