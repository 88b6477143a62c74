"""Which row number an object gets: its own for ever, that of its former life, or a new one."""

from __future__ import annotations

from gateway.feed.records import Lifetime, ObjectRecord
from gateway.inventory.former_objects import FormerObjects
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.objects import ObjectTable


class RowNumbers:
    """Those of one source.

    Args:
        source: its number.
        index: that keeps them.
        objects: that live.
        former: objects that lived when the gateway before this one ended.
    """

    def __init__(
        self, source: int, index: InstanceIndex, objects: ObjectTable, former: FormerObjects
    ) -> None:
        self._source = source
        self._index = index
        self._objects = objects
        self._former = former

    def row(self, class_name: str, name: str, *, durable: bool) -> int:
        """That of an object of this stable name in its class (``package:name``), which is about to live."""
        if durable:
            return self._index.durable_row(self._source, class_name, name)
        former = self._former.take_row(class_name, name)
        if former is not None and self._may_return(class_name, former):
            return former
        return self._index.transient_row(
            self._source, class_name, lambda row: self._objects.row_in_use(class_name, row)
        )

    def retire(self, class_name: str, record: ObjectRecord, now: int) -> None:
        """An object is no more; a durable one's number waits for its return."""
        if record.lifetime is Lifetime.DURABLE:
            self._index.retire(self._source, class_name, record.stable_name, now)

    def _may_return(self, class_name: str, row: int) -> bool:
        """Whether a row can be a former object's again: the index may be an older copy, and have given it."""
        free = not self._objects.row_in_use(class_name, row)
        return free and self._index.gave_before(self._source, class_name, row)
