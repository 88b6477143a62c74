"""The instance index: the row number of each object, kept in SQLite in the state folder.

Durable objects keep their number by stable name. Transient ones draw from the same counter and are not
stored: only the counter's high-water mark is, in blocks, so that a million short-lived objects cost a few
hundred writes. A number is not used again before the counter has passed 2^31-1 and wraps; after that,
numbers of objects that live or may return are passed over.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gateway.durable_files import FOR_STARTS, DiskReserve, with_room
from gateway.inventory.index_upkeep import (
    DiskState,
    Reservation,
    Upkeep,
    is_not_written,
    keep_on_disk,
)
from gateway.inventory.instance_file import (
    FAILURES,
    IndexNotWrittenError,
    InstanceIndexError,
    connect,
    explained,
    explanation,
    is_read_only,
    open_index,
    sync,
)
from gateway.model.times import SECOND

MAX_ROW = 2**31 - 1
"""Largest row number: ``Integer32 (1..2147483647)`` in every generated table (RFC 2578, 7.7)."""

BLOCK = 4096
"""The count of row numbers reserved at a time: the waste of a crash, and the steps of the stored counter."""

OWN_BLOCK = 16 * BLOCK
"""The same of the gateway's own series: objects end, and alarms are raised, while no disk takes a number."""

MAX_RETIRED = 1_000_000
"""The maximum number of kept numbers of gone objects: some 200 MB on the disk."""

MAX_UNSYNCED_CHANGES = 1_000
"""The number of changes after which the index asks for upkeep, so that the log on the disk does not grow."""

_RETIRED_KEPT = 400 * 24 * 3600 * SECOND
"""Nanoseconds for which the number of a durable object that is gone is kept for its return."""

GATEWAY = 0
"""Stands for a source's number, which are from 1 on: these series belong to the gateway."""

_Key = tuple[int, str]
_Name = tuple[int, str, str]


class _Block(msgspec.Struct):
    """The numbers of one source and class that may be given out: ``next`` up to ``reserved``.

    ``began`` is the first that this process may give out; until the counter wraps, earlier processes gave
    those below. No durable object has a number above ``highest``: only the others are looked up before they
    are given, which is rarely, because numbers ascend.
    """

    next: int
    reserved: int
    began: int
    highest: int


class IndexUsage(msgspec.Struct, frozen=True):
    """The usage of an index.

    Attributes:
        highest_rows: the highest number reserved for any class, by source number.
        retired: the count of numbers kept for objects that are gone; at most `MAX_RETIRED`.
        unsynced: the count of changes that are not on the disk yet.
    """

    highest_rows: Mapping[int, int]
    retired: int
    unsynced: int


class InstanceIndex:
    """The row numbers by (source, class, stable name).

    Changes are gathered until `commit`, which must be called before they are published: a number that was
    seen by anyone survives the death of the process. Blocks of numbers are on the disk before
    a number of them is seen, so that a power cut cannot make one be used twice. `keep_on_disk` reserves the
    next block in time and does all other waiting for a disk, in another thread; where no thread calls it,
    `commit` waits for the disk once a block.

    Where the disk is full, the reserve makes room. Without any, or where the disk cannot be written, changes
    wait in memory until `upkept`. Those of the commit that failed may be published: their numbers are of
    blocks on the disk, so that no other object can get one. From then on a new durable object gets no number
    (`IndexNotWrittenError`), and others get what is left of their block. Series of the gateway itself go on
    beyond theirs (`own_number`). Any other failure is final: nothing may be published any more.

    Args:
        path: the path of the file; made if it does not exist.
        must_exist: refuse a file that is missing or empty: it has been used, so rows would change.
        needs_upkeep: called when `keep_on_disk` should be called before long, and after a failure.
        reserve: room for a full disk, on the same disk.

    Attributes:
        disk: what the disk takes.
        trouble: why it takes nothing, and what to do about that; empty while it does.

    Raises:
        InstanceIndexError: (by all methods) the file cannot be used, is damaged, or of a newer version.
        IndexNotWrittenError: (by methods that give rows) there is none that the disk has.
    """

    def __init__(
        self,
        path: Path,
        *,
        must_exist: bool = False,
        needs_upkeep: Callable[[], None] = lambda: None,
        reserve: DiskReserve | None = None,
    ) -> None:
        self.disk = DiskState.ROOM
        self.trouble = ""
        self._path = path
        self._needs_upkeep = needs_upkeep
        self._reserve_file = reserve
        self._blocks: dict[_Key, _Block] = {}
        self._rows_changed: dict[_Name, tuple[int, int]] = {}
        self._numbers_changed: set[tuple[int, str, int]] = set()
        self._alarms_changed: dict[int, tuple[int, str] | None] = {}
        self._owes_sync = False
        self._changes = 0
        self._failure: InstanceIndexError | None = None
        self._was_read_only = path.exists() and is_read_only(path)
        self._database = with_room(reserve, lambda: open_index(path, must_exist=must_exist), is_not_written)
        self._was_read_only |= is_read_only(path)
        if reserve is not None and reserve.is_in_use:
            self.disk = DiskState.RESERVE
        if self._lacks_reserve():
            needs_upkeep()
        self._retired: int = self._row("SELECT COUNT(*) FROM durable WHERE retired > 0")[0]

    @property
    def usage(self) -> IndexUsage:
        """The present usage, without access to the disk."""
        highest: dict[int, int] = {}
        for (source, _), block in self._blocks.items():
            highest[source] = max(highest.get(source, 0), block.reserved)
        return IndexUsage(highest, self._retired, self._changes)

    @property
    def reserve_left(self) -> int:
        """The bytes that are left of the reserve for a full disk."""
        return 0 if self._reserve_file is None else self._reserve_file.left

    @property
    def is_left_read_only(self) -> bool:
        """Whether the disk takes changes now, and was read-only when the file was opened.

        Nothing more is written: SQLite only reads a file of which this process has such a connection.
        """
        return self._was_read_only and not is_read_only(self._path)

    def leave_room_for_starts(self) -> None:
        """Leave the last of the reserve to the starts that follow: this one is counted."""
        if self._reserve_file is not None:
            self._reserve_file.leaves = FOR_STARTS

    def start(self, gateway: str, boot: int, noted: int | None = None) -> None:
        """Note the ``boot``-th start of ``gateway``, and reserve a block of every known counter.

        All is on the disk when this returns, by one sync.

        Args:
            gateway: the uuid of the gateway.
            boot: the number of the start.
            noted: the start that the file ``boots`` has; by default the one before. Starts between the two
                found a disk that took nothing, or their numbers were reserved and not used.

        Raises:
            IndexNotWrittenError: the disk takes nothing. Known objects keep their rows; what is new waits.
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
        noted = boot - 1 if noted is None else noted
        if last and not noted <= last <= boot:
            raise InstanceIndexError(
                f"{self._path}: was last used at start {last}, and 'boots' beside it says {noted}: one of "
                "them is an older copy or damaged: restore all files of one backup with `amqp-gateway state "
                "restore`"
            )
        blocks = {
            (source, class_name): self._block((source, class_name))
            for source, class_name in self._rows("SELECT source, class FROM counters")
        }
        marks = {key: _next_mark(key, block) for key, block in blocks.items()}
        self._write(
            lambda: self._change("UPDATE about SET gateway = ?, boot = ?", (gateway, boot)),
            lambda: self._mark(marks),
        )
        for key, block in blocks.items():
            block.reserved = marks[key]
        self.commit()

    def note_start(self, boot: int) -> None:
        """Note a start that `start` could not: it is on the disk when this returns.

        Raises:
            IndexNotWrittenError: the disk takes nothing.
        """
        self._refuse_in_trouble()
        self._write(lambda: self._change("UPDATE about SET boot = ?", (boot,)))
        self.commit()

    def source_number(self, name: str) -> int:
        """Return the number of a source, given at its first appearance and kept for its name for ever."""
        row = self._row_or_none("SELECT number FROM sources WHERE name = ?", (name,))
        if row is not None:
            return int(row[0])
        self._write(
            lambda: self._change(
                "INSERT INTO sources (number, name) VALUES (1 + MAX("
                "(SELECT COALESCE(MAX(number), 0) FROM sources), (SELECT source_floor FROM about)), ?)",
                (name,),
            )
        )
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
        renamed = {new: sources[old], **({old: sources[new]} if new in sources else {})}

        def rename() -> None:
            self._change("DELETE FROM sources WHERE name IN (?, ?)", (old, new))
            for name, number in renamed.items():
                self._change("INSERT INTO sources VALUES (?, ?)", (number, name))

        self._write(rename)
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
        key = (source, class_name, name)
        row = self._durable(key)
        if row is not None:
            if row[1]:
                self._retired -= self._set_retired(key, 0)
            return row[0]
        number = recorded()
        if not (number and self.gave_before(source, class_name, number) and not in_use(number)):
            self._refuse_in_trouble()
            number = self.transient_row(source, class_name, in_use)
        self._rows_changed[key] = (number, 0)
        self._numbers_changed.add((source, class_name, number))
        block = self._blocks[source, class_name]
        block.highest = max(block.highest, number)
        return number

    def transient_row(
        self, source: int, class_name: str, in_use: Callable[[int], bool] = lambda _: False
    ) -> int:
        """Return a number that no other object of this source and class has, or had since the last wrap.

        ``in_use`` returns whether a living transient object has a number: after a wrap it keeps it, too.
        """
        return self._next_number((source, class_name), in_use, goes_beyond=False)

    def own_number(self, series: str, in_use: Callable[[int], bool] = lambda _: False) -> int:
        """Return the next number of a series of the gateway itself, which `prepare` has begun.

        It is given whatever the disk does, for what it numbers has happened already. Where the disk takes no
        further block, it is one beyond the last; `upkeep` reserves these numbers as soon as it can. A core
        that ends before gives them again to the next one: who compares numbers of two cores must know that.

        Args:
            series: its name.
            in_use: as for `transient_row`.
        """
        return self._next_number((GATEWAY, series), in_use, goes_beyond=True)

    def _next_number(self, key: _Key, in_use: Callable[[int], bool], *, goes_beyond: bool) -> int:
        block = self._block(key)
        while True:
            try:
                self._reserve_if_used_up(key, block)
            except IndexNotWrittenError:
                if not goes_beyond:
                    raise
            number = block.next
            block.next += 1
            # Half a block is left for the time that the other thread needs to reserve the next one.
            if block.reserved - number == _block_of(key) // 2:
                self._needs_upkeep()
            # The counter wraps: the next block is reserved from 1 on.
            if number == MAX_ROW:
                block.next, block.reserved = 1, 0
            # Numbers ascend, so that only after a wrap one can belong to a durable object.
            is_taken = number <= block.highest and self._taken(key, number)
            if not is_taken and not in_use(number):
                return number

    def prepare(self, source: int, class_name: str) -> None:
        """Reserve a block now, if there is none: before the disk takes no more."""
        key = (source, class_name)
        self._reserve_if_used_up(key, self._block(key))

    def gave_before(self, source: int, class_name: str, row: int) -> bool:
        """Return whether a number was given out before this process began, and to no durable object.

        Numbers of transient objects are not stored: a number known from elsewhere must be checked here.
        """
        key = (source, class_name)
        return 0 < row < self._block(key).began and not self._taken(key, row)

    def retire(self, source: int, class_name: str, name: str, now: int) -> None:
        """Retire the number of a durable object that is gone: it is kept for its return, for about a year.

        Where the disk cannot be read, it is kept as that of an object that lives, for this one ends all the
        same.
        """
        with contextlib.suppress(IndexNotWrittenError):
            self._retired += self._set_retired((source, class_name, name), now)

    def forget_retired(self, now: int, limit: int = 500) -> int:
        """Drop numbers of durable objects gone for too long, or too many of them, the oldest first.

        Args:
            now: nanoseconds.
            limit: the maximum number in one call, so that it does not hold its caller.

        Returns:
            The number of dropped ones; call again soon where it is ``limit``.
        """
        self.commit()
        if self.trouble:
            return 0
        too_many = self._retired - MAX_RETIRED
        before = now if too_many > 0 else now - _RETIRED_KEPT
        limit = min(limit, too_many) if too_many > 0 else limit
        forgotten = 0

        def forget() -> None:
            nonlocal forgotten
            forgotten = self._change(
                "DELETE FROM durable WHERE (source, class, name) IN (SELECT source, class, name FROM durable "
                "WHERE retired > 0 AND retired < ? ORDER BY retired LIMIT ?)",
                (before, limit),
            )

        try:
            self._write(forget, synced=False)
        except IndexNotWrittenError:
            return 0
        self._retired -= forgotten
        return forgotten

    def keep_alarm(self, source: int, number: int, alarm: str) -> None:
        """Store an active alarm of a source; ``alarm`` is the text to restore it from."""
        self._alarms_changed[number] = (source, alarm)

    def drop_alarm(self, number: int) -> None:
        """Remove an alarm that is over."""
        self._alarms_changed[number] = None

    def alarms(self, source: int) -> list[tuple[int, str]]:
        """Return number and text of each alarm of a source that was active at the last use, oldest first."""
        self.commit()
        return self._rows("SELECT number, alarm FROM alarms WHERE source = ? ORDER BY number", (source,))

    def commit(self) -> None:
        """Commit the gathered changes; call before publishing them.

        Those that the disk does not take wait, and may be published.
        """
        self.check()
        if (self._rows_changed or self._alarms_changed) and not self.trouble:
            self._commit_gathered()
        if self._owes_sync:
            try:
                sync(self._path)
            except OSError as error:
                # A block may be on no disk that numbers were given of.
                self._failure = InstanceIndexError(str(self._failed(error)))
                raise self._failure from error
            self._owes_sync = False
        if self._changes >= MAX_UNSYNCED_CHANGES and not self.trouble:
            self._needs_upkeep()

    def check(self) -> None:
        """Raise the earlier failure, if there was one."""
        if self._failure is not None:
            raise self._failure

    def upkeep(self) -> Callable[[], Upkeep] | None:
        """Return the work for another thread, ``None`` for none; give its result to `upkept`."""
        wanted = tuple(
            Reservation(key[0], key[1], block.reserved, _next_reserved(key, block))
            for key, block in self._blocks.items()
            if 0 < block.reserved < min(block.next + _block_of(key) // 2, MAX_ROW)
        )
        if not wanted and not self._changes and self.disk is DiskState.ROOM and not self._lacks_reserve():
            return None
        self._changes = 0
        in_trouble = bool(self.trouble)
        return lambda: keep_on_disk(self._path, wanted, self._reserve_file, writes=in_trouble)

    def upkept(self, done: Upkeep) -> None:
        """Use blocks that are on the disk now, and write what waited for it."""
        self.reserved(done.granted)
        self.trouble = ""
        self._commit_gathered()
        if not self.trouble:
            self.disk = DiskState.ROOM if done.reserve_is_whole else DiskState.RESERVE

    def not_kept(self, error: IndexNotWrittenError) -> None:
        """Take that the disk took nothing of the last `upkeep`, which is to be tried again."""
        self._changes += 1
        self._note_trouble(error)

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
            self.upkept(upkeep())

    def jump_ahead(self, rows: int, sources: int, boot: int) -> None:
        """Leave out numbers that may have been given since this copy of the index was made.

        Args:
            rows: the count of numbers of each source and class, known or not.
            sources: the count of numbers of sources.
            boot: the start that the index was last used at, from now on.
        """
        self.commit()

        def jump() -> None:
            self._change("UPDATE counters SET high_water = (high_water + ? - 1) % ? + 1", (rows, MAX_ROW))
            self._change(
                "UPDATE about SET boot = ?, floor = (floor + ? - 1) % ? + 1, "
                "source_floor = ? + MAX(source_floor, (SELECT COALESCE(MAX(number), 0) FROM sources))",
                (boot, rows, MAX_ROW, sources),
            )

        self._write(jump)
        self._blocks.clear()
        self.commit()

    def close(self) -> None:
        """Commit and close; after a failure, close."""
        try:
            if self._failure is None and self.is_left_read_only:
                self._database.close()
                with explained(self._path):
                    self._database = connect(self._path)
                self.trouble = ""
                # The next core gives none of the gateway's own numbers again.
                given = {key: block.next - 1 for key, block in self._blocks.items()}
                self._write(
                    lambda: self._mark({key: n for key, n in given.items() if n > self._blocks[key].reserved})
                )
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

    def _reserve_if_used_up(self, key: _Key, block: _Block) -> None:
        if block.next > block.reserved:
            self._refuse_in_trouble()
            mark = _next_mark(key, block)
            self._write(partial(self._mark, {key: mark}))
            block.reserved = mark

    def _mark(self, marks: Mapping[_Key, int]) -> None:
        """Reserve blocks up to these numbers."""
        for key, mark in marks.items():
            self._change(
                "INSERT INTO counters VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET high_water = excluded.high_water",
                (*key, mark),
            )

    def _taken(self, key: _Key, number: int) -> bool:
        row = self._row_or_none(
            "SELECT 1 FROM durable WHERE source = ? AND class = ? AND number = ?", (*key, number)
        )
        return row is not None or (*key, number) in self._numbers_changed

    def _durable(self, key: _Name) -> tuple[int, int] | None:
        """Return the number of a durable object, and since when it is retired, 0 if it is not."""
        changed = self._rows_changed.get(key)
        if changed is not None:
            return changed
        row: tuple[int, int] | None = self._row_or_none(
            "SELECT number, retired FROM durable WHERE source = ? AND class = ? AND name = ?", key
        )
        return row

    def _set_retired(self, key: _Name, retired: int) -> int:
        """Retire a row or bring it back; return the number of rows changed: one, or none."""
        row = self._durable(key)
        if row is None or (row[1] > 0) is (retired > 0):
            return 0
        self._rows_changed[key] = (row[0], retired)
        return 1

    def _commit_gathered(self) -> None:
        """Write the gathered changes; those that the disk does not take stay gathered."""
        rows, alarms = self._rows_changed, self._alarms_changed
        if not rows and not alarms:
            return

        def write() -> None:
            self._change_each(
                "INSERT INTO durable VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (source, class, name) DO UPDATE SET retired = excluded.retired",
                [(*key, *row) for key, row in rows.items()],
            )
            self._change_each(
                "INSERT OR REPLACE INTO alarms VALUES (?, ?, ?)",
                [(number, *alarm) for number, alarm in alarms.items() if alarm is not None],
            )
            self._change_each(
                "DELETE FROM alarms WHERE number = ?",
                [(number,) for number, alarm in alarms.items() if alarm is None],
            )

        try:
            self._write(write, synced=False)
        except IndexNotWrittenError:
            return
        rows.clear()
        alarms.clear()
        self._numbers_changed.clear()

    def _write(self, *changes: Callable[[], object], synced: bool = True) -> None:
        """Do changes in one transaction, and commit it, if need be with room of the reserve.

        Args:
            changes: each executes statements.
            synced: the next `commit` is to bring it to the disk.
        """
        self.check()

        def write() -> None:
            try:
                # The lock is taken at once: a deferred one could fail in the middle of a batch.
                self._database.execute("BEGIN IMMEDIATE")
                for change in changes:
                    change()
                self._database.execute("COMMIT")
            except FAILURES as error:
                with contextlib.suppress(sqlite3.Error):
                    self._database.rollback()
                raise explanation(self._path, error) from error

        try:
            with_room(self._reserve_file, write, is_not_written, self._reserve_released)
        except InstanceIndexError as error:
            self._noted(error)
            raise
        self._owes_sync = self._owes_sync or synced

    def _reserve_released(self) -> None:
        self.disk = DiskState.RESERVE
        self._needs_upkeep()

    def _refuse_in_trouble(self) -> None:
        if self.trouble:
            raise IndexNotWrittenError(self.trouble)

    def _lacks_reserve(self) -> bool:
        return self._reserve_file is not None and not self._reserve_file.is_whole

    def _change(self, statement: str, parameters: tuple[object, ...] = ()) -> int:
        self._changes += 1
        return self._database.execute(statement, parameters).rowcount

    def _change_each(self, statement: str, parameters: Collection[tuple[object, ...]]) -> None:
        if parameters:
            self._changes += len(parameters)
            self._database.executemany(statement, parameters)

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
        return self._noted(explanation(self._path, error))

    def _noted(self, found: InstanceIndexError) -> InstanceIndexError:
        if isinstance(found, IndexNotWrittenError):
            self._note_trouble(found)
        else:
            self._failure = found
        self._needs_upkeep()
        return found

    def _note_trouble(self, error: IndexNotWrittenError) -> None:
        self.disk, self.trouble = DiskState.NOTHING, str(error)


def _block_of(key: _Key) -> int:
    return OWN_BLOCK if key[0] == GATEWAY else BLOCK


def _next_mark(key: _Key, block: _Block) -> int:
    """Return the last number of the next block of a counter."""
    return min(block.next + _block_of(key) - 1, MAX_ROW)


def _next_reserved(key: _Key, block: _Block) -> int:
    """Return the last number of the block behind the present one, and behind numbers given beyond that."""
    return min(max(block.reserved, block.next - 1) + _block_of(key), MAX_ROW)
