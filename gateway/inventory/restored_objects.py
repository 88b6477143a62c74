"""Objects that lived when the core before this one ended, from the event log, until they are read again.

What waited on the broker meanwhile refers to objects by native ids that only the former core saw resolved,
and a transient object keeps its row as long as it lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.feed.records import Lifetime, ObjectRecord
from gateway.feed.values import ObjectLink
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.objects import ObjectTable


@dataclass(frozen=True, slots=True)
class RestoredObject:
    """One of them. ``class_name`` is ``package:name``; ``name`` its stable name."""

    class_name: str
    name: str
    row: int
    native_id: str
    durable: bool


class RestoredObjects:
    """The restored objects of one source; empty once everything was read again."""

    def __init__(self) -> None:
        self._links: dict[str, ObjectLink] = {}
        self._rows: dict[tuple[str, str], int] = {}

    def restore(self, objects: Iterable[RestoredObject], *, by_native_id: bool) -> None:
        """Take objects in.

        Args:
            objects: all that lived.
            by_native_id: whether reports may refer to them by their native ids. Otherwise an agent that
                restarted meanwhile may have given these to other objects.
        """
        for one in objects:
            if by_native_id:
                self._links[one.native_id] = ObjectLink(one.class_name, one.row, one.name)
            if not one.durable:
                self._rows[one.class_name, one.name] = one.row

    def link(self, native_id: str) -> ObjectLink | None:
        """Return the object that had a native id."""
        return self._links.get(native_id)

    def take_row(self, class_name: str, name: str) -> int | None:
        """Return the row that a transient object of this name had; at the second call it is ``None``."""
        return self._rows.pop((class_name, name), None)

    def forget_native_ids(self) -> None:
        """Drop the native ids: an agent restarted and gives its objects others."""
        self._links.clear()

    def clear(self) -> list[str]:
        """Drop everything, after a complete resync; returns the native ids that led here."""
        native_ids = list(self._links)
        self._links.clear()
        self._rows.clear()
        return native_ids


class RowNumbers:
    """Gives an object of one source its row: its own for ever, that of before a restart, or a new one.

    Args:
        source: number of the source.
        index: keeps the rows of durable objects, and what was given.
        objects: that live.
        restored: objects that lived when the core before this one ended.
    """

    def __init__(
        self, source: int, index: InstanceIndex, objects: ObjectTable, restored: RestoredObjects
    ) -> None:
        self._source = source
        self._index = index
        self._objects = objects
        self._restored = restored

    def row(self, class_name: str, name: str, *, durable: bool) -> int:
        """Return the row of an object with this stable name in its class (``package:name``)."""
        if durable:
            return self._index.durable_row(self._source, class_name, name)
        row = self._restored.take_row(class_name, name)
        if row is not None and self._may_return(class_name, row):
            return row
        return self._index.transient_row(
            self._source, class_name, lambda number: self._objects.row_in_use(class_name, number)
        )

    def retire(self, class_name: str, record: ObjectRecord, now: int) -> None:
        """Keep the row of a durable object that is removed for its return."""
        if record.lifetime is Lifetime.DURABLE:
            self._index.retire(self._source, class_name, record.stable_name, now)

    def _may_return(self, class_name: str, row: int) -> bool:
        # The index may be an older copy that has given the row to another object since.
        free = not self._objects.row_in_use(class_name, row)
        return free and self._index.gave_before(self._source, class_name, row)
