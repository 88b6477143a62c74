"""Objects that lived when the previous core ended, from the event log, until they are read again.

Messages that waited on the broker meanwhile refer to objects by native ids that only the previous core
could resolve, and a transient object keeps its row as long as it lives. An agent may have restarted while no
core ran, and may have given earlier native ids to other objects. Therefore a name that contains a native id
of one run of its agent finds no row: its object may be another one, which must not inherit anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial

from gateway.feed.records import Lifetime, ObjectRecord
from gateway.feed.values import ObjectLink
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.objects import ObjectTable
from gateway.model.observations import ObjectSeen
from gateway.model.times import MICROSECOND


@dataclass(frozen=True, slots=True)
class RestoredObject:
    """A restored object.

    Attributes:
        class_name: ``package:name``.
        name: its stable name.
        row: its row number.
        native_id: its last identifier at its agent.
        durable: whether it keeps its row by its name in any case.
        agent: the agent that reported it last.
        identified: whether its name means the same object after a restart of its agent, by a creation time or
            by a native id that outlives restarts.
        persistent_id: whether its native id means no other object after a restart of its agent.
        created: its time of creation, to the microsecond; 0 for unknown.
    """

    class_name: str
    name: str
    row: int
    native_id: str
    durable: bool
    agent: str = ""
    identified: bool = True
    persistent_id: bool = False
    created: int = 0

    def link(self) -> ObjectLink:
        """Return a reference to it."""
        return ObjectLink(self.class_name, self.row, self.name)


class RestoredObjects:
    """The restored objects of one source; empty once everything was read again."""

    def __init__(self) -> None:
        self._any_id = False
        self._by_native_id: dict[str, RestoredObject] = {}
        self._by_name: dict[tuple[str, str], RestoredObject] = {}
        self._durable: dict[tuple[str, str], RestoredObject] | None = None

    def restore(self, objects: Iterable[RestoredObject], *, by_native_id: bool) -> None:
        """Add objects.

        Args:
            objects: all objects that lived.
            by_native_id: whether reports refer to them by their native ids, until an agent reports that it
                restarted. Otherwise a native id means an object only if it outlives such a restart.
        """
        self._any_id = by_native_id
        for one in objects:
            self._by_native_id[one.native_id] = one
            if not one.durable and (by_native_id or one.identified):
                self._by_name[one.class_name, one.name] = one

    def link(self, native_id: str) -> ObjectLink | None:
        """Return the object that has a native id, if the id alone identifies it."""
        one = self._by_native_id.get(native_id)
        return one.link() if one is not None and (self._any_id or one.persistent_id) else None

    def same(self, class_name: str, seen: ObjectSeen) -> RestoredObject | None:
        """Return the object that a report is certainly about: by its native id, with its creation time."""
        one = self._by_native_id.get(seen.native_id)
        if one is None or one.class_name != class_name:
            return None
        if self._any_id:
            return one
        if seen.created and one.created:
            return one if seen.created // MICROSECOND == one.created // MICROSECOND else None
        return one if one.persistent_id else None

    def take_row(self, class_name: str, name: str) -> int | None:
        """Return the row that a transient object of this name had; at the second call it is ``None``."""
        one = self._by_name.pop((class_name, name), None)
        return None if one is None else one.row

    def take_durable_row(self, class_name: str, name: str) -> int:
        """Return the row that a durable object of this name had, 0 for none; as `take_row`."""
        if self._durable is None:  # after a power failure only: the index has the rows of all others
            self._durable = {
                (one.class_name, one.name): one for one in self._by_native_id.values() if one.durable
            }
        one = self._durable.pop((class_name, name), None)
        return 0 if one is None else one.row

    def forget_native_ids(self) -> None:
        """Let native ids mean nothing that a restart of the agents ended, nor names that contain them."""
        self._any_id = False
        self._by_name = {key: one for key, one in self._by_name.items() if one.identified}

    def clear(self, agent: str = "", without: Collection[str] = ()) -> list[str]:
        """Drop the objects that a complete resync would have reported.

        Args:
            agent: the agent that was read; empty for all.
            without: agents that were not read.

        Returns:
            The native ids for which `link` returned an object.
        """

        def is_over(one: RestoredObject) -> bool:
            return (not agent or one.agent == agent) and one.agent not in without

        over = [key for key, one in self._by_native_id.items() if is_over(one)]
        native_ids = [key for key in over if self.link(key) is not None]
        for native_id in over:
            del self._by_native_id[native_id]
        self._by_name = {key: one for key, one in self._by_name.items() if not is_over(one)}
        if self._durable is not None:
            self._durable = {key: one for key, one in self._durable.items() if not is_over(one)}
        return native_ids


class RowNumbers:
    """Assigns a row to an object of one source: its own for ever, that of before a restart, or a new one.

    Args:
        source: the number of the source.
        index: keeps the rows of durable objects, and the numbers assigned.
        objects: the living objects.
        restored: objects that lived when the previous core ended.
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

        def in_use(number: int) -> bool:
            return self._objects.row_in_use(class_name, number)

        if durable:
            recorded = partial(self._restored.take_durable_row, class_name, name)
            return self._index.durable_row(self._source, class_name, name, in_use, recorded)
        row = self._restored.take_row(class_name, name)
        if row is not None and self._may_return(class_name, row):
            return row
        return self._index.transient_row(self._source, class_name, in_use)

    def retire(self, class_name: str, record: ObjectRecord, now: int) -> None:
        """Keep the row of a durable object that is removed, for its return."""
        if record.lifetime is Lifetime.DURABLE:
            self._index.retire(self._source, class_name, record.stable_name, now)

    def _may_return(self, class_name: str, row: int) -> bool:
        # The index may be an older copy that has given the row to another object since.
        free = not self._objects.row_in_use(class_name, row)
        return free and self._index.gave_before(self._source, class_name, row)
