"""The objects of one source: the record of each, the indexes that find them, the resyncs they wait for.

References go by native ids. Links follow their targets, also past their end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final

import msgspec

from gateway.feed.records import ClassRecord, ObjectRecord, UpdateRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.times import SECOND
from gateway.model.values import Reference

NONE_LOST: Final[Mapping[int, FeedValue]] = MappingProxyType({})
"""Of an object all of whose counters have a value, or never had one."""


class Entry(msgspec.Struct):
    """An object in the inventory.

    Attributes:
        record: immutable and replaced with each change, so that a snapshot is a list of references.
        generation: the generation of the resync in which the object was last reported.
        provisional: its name is not its intended one (a target is not known, or the name is taken):
            it is renamed when it is reported again and that has changed.
        lost_counters: counters that have no value now, by position, and the value that each had last.
    """

    record: ObjectRecord
    class_record: ClassRecord
    generation: int
    provisional: bool = False
    lost_counters: Mapping[int, FeedValue] = msgspec.field(default_factory=lambda: NONE_LOST)

    @property
    def key(self) -> ClassKey:
        """The key of its class."""
        return self.class_record.schema.key

    @property
    def class_name(self) -> str:
        """``package:name`` of its class."""
        return self.class_record.schema.class_name

    @property
    def agent(self) -> str:
        """The agent that reported it last."""
        return self.record.agent

    def link(self) -> ObjectLink:
        """Return the link that a reference to this object resolves to."""
        return ObjectLink(self.class_name, self.record.row, self.record.stable_name)

    def apply(self, update: UpdateRecord, parent: ObjectLink | None) -> ObjectRecord | UpdateRecord:
        """Apply an update to ``record``; return the record to publish.

        It is the whole object if its parent changed to ``parent``: an update cannot express that.
        """
        moved = parent != self.record.parent
        values = self.record.values
        if update.absent:
            values = {p: v for p, v in values.items() if p not in update.absent}
        if update.values:
            values = {**values, **update.values}
        if update.absent or self.lost_counters:
            self._note_lost(update)
        self.record = msgspec.structs.replace(
            self.record,
            properties_sampled=update.properties_sampled,
            statistics_sampled=update.statistics_sampled,
            reset=update.reset,
            changed=update.changed,
            values=values,
            parent=parent,
            counting=update.counting,
        )
        return self.record if moved else update

    def _note_lost(self, update: UpdateRecord) -> None:
        """Note the last values of counters that an update removes: one that returns with less fell."""
        gone = self.class_record.schema.counters.intersection(update.absent)
        lost = {**self.lost_counters, **{p: v for p, v in self.record.values.items() if p in gone}}
        self.lost_counters = {p: v for p, v in lost.items() if p not in update.values} or NONE_LOST


class Touched(msgspec.Struct):
    """Objects that one message body reported or ended, for evaluation when it is applied.

    Attributes:
        reported: the reported objects by ``id`` of the entry; some may have ended since.
        ended: the ended objects in order; some may live again.
    """

    reported: dict[int, Entry] = msgspec.field(default_factory=dict)
    ended: list[ObjectLink] = msgspec.field(default_factory=list)

    def clear(self) -> None:
        """Remove all of them."""
        self.reported.clear()
        self.ended.clear()


class ObjectTable:
    """Entries by native id, by (class, stable name), by (class, row), and by agent.

    Args:
        called: classes (``package:name``) whose objects are found by their leaf names, too.

    A native id should mean one object of an agent, whatever its class, and references have no class. Where
    two of different classes live with one, that which got it last has it; the other one is beside it, and is
    found by its class. Once both were reported while they lived, references to that id lead nowhere, since
    they could mean either.

    Attributes:
        by_native_id: returns the object that has a native id now, or ``None``.
        beside: the objects whose native ids others of another class have, by that and their class.
    """

    def __init__(self, called: Collection[str] = ()) -> None:
        self._called = called
        self._by_leaf: dict[tuple[str, str], dict[int, Entry]] = {}
        self._by_native_id: dict[str, Entry] = {}
        self.by_native_id: Callable[[str], Entry | None] = self._by_native_id.get  # no frame
        self.beside: dict[tuple[str, str], Entry] = {}
        self._shared: set[str] = set()
        self._by_name: dict[tuple[str, str], Entry] = {}
        self._rows: dict[str, dict[int, Entry]] = {}  # by class: no tuple is kept for each object
        self._by_agent: dict[str, dict[tuple[str, str], Entry]] = {}
        self._provisional: dict[tuple[str, str], Entry] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._by_name.values()))

    def of_agent(self, agent: str) -> list[Entry]:
        """Return the objects that were last reported by an agent."""
        return list(self._by_agent.get(agent, {}).values())

    def count_of(self, agent: str) -> int:
        """Return the number of these objects."""
        return len(self._by_agent.get(agent, ()))

    def provisional(self) -> list[Entry]:
        """Return the objects whose names are provisional."""
        return list(self._provisional.values())

    def by_name(self, class_name: str, name: str) -> Entry | None:
        """Return the object that has this stable name in its class (``package:name``)."""
        return self._by_name.get((class_name, name))

    def only_called(self, class_name: str, leaf: str) -> Entry | None:
        """Return the only object of a class (``package:name``) with this leaf name."""
        entries = self._by_leaf.get((class_name, leaf), {})
        return next(iter(entries.values())) if len(entries) == 1 else None

    def by_row(self, class_name: str, row: int) -> Entry | None:
        """Return the object that has this row number in its class (``package:name``)."""
        return self._rows.get(class_name, {}).get(row)

    def living(self, link: ObjectLink) -> Entry | None:
        """Return the object that a link leads to, if it lives."""
        entry = self._by_name.get((link.class_name, link.stable_name))
        return entry if entry is not None and entry.record.row == link.row else None

    def row_in_use(self, class_name: str, row: int) -> bool:
        """Return whether a live object of the class has this row number."""
        return row in self._rows.get(class_name, ())

    def of_class(self, native_id: str, class_name: str) -> Entry | None:
        """Return the object that has this native id in its class (``package:name``)."""
        entry = self._by_native_id.get(native_id)
        if entry is not None and entry.class_name == class_name:
            return entry
        return self.beside.get((native_id, class_name)) if self.beside else None

    def is_bound(self, entry: Entry) -> bool:
        """Return whether the native id of an object's record means it, in its class."""
        return self.of_class(entry.record.native_id, entry.class_name) is entry

    def is_shared(self, native_id: str) -> bool:
        """Return whether objects of several classes live with this native id."""
        return native_id in self._shared

    def reported(self, entry: Entry) -> None:
        """Note a report of a living object where any is `beside` another one."""
        native_id = entry.record.native_id
        if self.beside.get((native_id, entry.class_name)) is not entry:
            return
        if native_id in self._by_native_id:
            self._shared.add(native_id)
        else:
            del self.beside[native_id, entry.class_name]
            self._by_native_id[native_id] = entry

    def _bind(self, entry: Entry) -> None:
        native_id = entry.record.native_id
        former = self._by_native_id.get(native_id)
        if former is not None and former.class_name != entry.class_name:
            self.beside[native_id, former.class_name] = former
        self.beside.pop((native_id, entry.class_name), None)
        self._by_native_id[native_id] = entry

    def add(self, entry: Entry) -> None:
        """Add a new object; its native id is free in its class, and so is its name."""
        class_name = entry.class_name
        key = class_name, entry.record.stable_name
        self._bind(entry)
        self._by_name[key] = entry
        self._rows.setdefault(class_name, {})[entry.record.row] = entry
        self._by_agent.setdefault(entry.record.agent, {})[key] = entry
        if entry.provisional:
            self._provisional[key] = entry
        self._call(class_name, entry)

    def remove(self, entry: Entry) -> None:
        """Remove an object."""
        class_name = entry.class_name
        self.unbind(entry)
        key = class_name, entry.record.stable_name
        self._by_name.pop(key, None)
        self._rows[class_name].pop(entry.record.row, None)
        self._provisional.pop(key, None)
        self._leave(entry.record.agent, key)
        self._uncall(class_name, entry)

    def unbind(self, entry: Entry) -> None:
        """Drop an object's native id; it may come back under the same or another one."""
        native_id = entry.record.native_id
        if self._by_native_id.get(native_id) is entry:
            del self._by_native_id[native_id]
        elif self.beside.get((native_id, entry.class_name)) is entry:
            del self.beside[native_id, entry.class_name]
        else:
            return
        self._shared.discard(native_id)

    def rebind(self, entry: Entry, record: ObjectRecord, class_record: ClassRecord) -> None:
        """Give an object that came back as ``record`` its new native id."""
        self.unbind(entry)
        self._uncall(entry.class_name, entry)
        if record.agent != entry.record.agent:
            key = entry.class_name, record.stable_name
            self._leave(entry.record.agent, key)
            self._by_agent.setdefault(record.agent, {})[key] = entry
        entry.record = record
        entry.class_record = class_record
        self._call(entry.class_name, entry)
        self._bind(entry)

    def _leave(self, agent: str, key: tuple[str, str]) -> None:
        entries = self._by_agent[agent]
        del entries[key]
        if not entries:
            del self._by_agent[agent]

    def _call(self, class_name: str, entry: Entry) -> None:
        if class_name in self._called:
            self._by_leaf.setdefault((class_name, entry.record.leaf_name), {})[entry.record.row] = entry

    def _uncall(self, class_name: str, entry: Entry) -> None:
        key = class_name, entry.record.leaf_name
        entries = self._by_leaf.get(key)
        if entries is not None and entries.pop(entry.record.row, None) is not None and not entries:
            del self._by_leaf[key]


class Resyncs:
    """The resyncs of a source that began, and their scopes.

    Attributes:
        generation: that of objects reported now: the number of the last resync that began, from 1.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._began: dict[tuple[str, str], int] = {}

    def begin(self, began: ResyncBegan) -> None:
        """Note the beginning of a resync."""
        self.generation += 1
        self._began[began.agent, began.class_name] = self.generation

    def misses(self, one: Entry | Waiting, ended: ResyncEnded) -> bool:
        """Return whether a resync covers an object that was not reported between its beginning and end."""
        began = self._began.get((ended.agent, ended.class_name), 0)
        return one.generation < began and covers(ended, one) and one.agent not in ended.without

    def wait_for(self, entry: Entry) -> bool:
        """Return whether any resync that covers an object began since the object was reported."""
        agent, class_name = entry.record.agent, entry.class_name
        scopes = (("", ""), (agent, ""), ("", class_name), (agent, class_name))
        return any(entry.generation < self._began.get(scope, 0) for scope in scopes)


def covers(resync: ResyncBegan | ResyncEnded, one: Entry | Waiting) -> bool:
    """Return whether an object is in the scope of a resync."""
    return resync.agent in {"", one.agent} and resync.class_name in {"", one.class_name}


class Unnumbered:
    """Objects that wait, not shown, until the disk takes their row numbers."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, native_id: str) -> Waiting | None:
        """Return the object with this native id, if it waits here."""
        return self._waiting.get(native_id)

    def put(self, waiting: Waiting) -> bool:
        """Let an object wait, in its last reported state; return whether it did not before."""
        is_new = waiting.seen.native_id not in self._waiting
        self._waiting[waiting.seen.native_id] = waiting
        return is_new

    def remove(self, native_id: str) -> None:
        """Let an object wait no longer; it may not have waited."""
        self._waiting.pop(native_id, None)

    def keep(self, stays: Callable[[Waiting], bool]) -> None:
        """Let only those wait on that stay."""
        self._waiting = {native_id: one for native_id, one in self._waiting.items() if stays(one)}

    def all(self) -> list[Waiting]:
        """Return all objects, those first that have waited longest."""
        return list(self._waiting.values())


class References:
    """References of live objects in both directions."""

    def __init__(self) -> None:
        self._targets: dict[str, dict[int, str]] = {}
        self._referrers: dict[str, dict[tuple[str, int], None]] = {}

    def note(self, schema: ClassSchema, seen: ObjectSeen) -> None:
        """Note the references of a report, and drop those that it replaces."""
        properties, statistics = seen.properties or (), seen.statistics or ()
        targets = self._targets.get(seen.native_id)
        if targets is None:
            # Most reports have none, and each is looked at: in C.
            if Reference not in map(type, properties) and Reference not in map(type, statistics):
                return
            targets = {}
        for position, value in chain(enumerate(properties), enumerate(statistics, len(schema.properties))):
            former = targets.get(position)
            target = value.native_id if isinstance(value, Reference) else None
            if target == former:
                continue
            if former is not None:
                self._unlink(former, (seen.native_id, position))
                del targets[position]
            if target is not None:
                targets[position] = target
                self._referrers.setdefault(target, {})[seen.native_id, position] = None
        if targets:
            self._targets[seen.native_id] = targets

    def targets(self, native_id: str) -> Mapping[int, str]:
        """Return the native ids that an object refers to, by position."""
        return self._targets.get(native_id, {})

    def forget(self, native_id: str) -> None:
        """Remove the references of an object that is gone, or has another native id now."""
        for position, target in self._targets.pop(native_id, {}).items():
            self._unlink(target, (native_id, position))

    def lead_to(self, native_id: str) -> bool:
        """Return whether there are references to an object."""
        return native_id in self._referrers

    def referring_to(self, native_id: str) -> list[tuple[str, int]]:
        """Return native id and position of every reference to an object, in the order of the reports."""
        return list(self._referrers.get(native_id, ()))

    def _unlink(self, target: str, referrer: tuple[str, int]) -> None:
        referrers = self._referrers.get(target)
        if referrers is not None:
            referrers.pop(referrer, None)
            if not referrers:
                del self._referrers[target]


class EndedObjects:
    """Native ids of objects that ended lately, for events that are reported afterwards; bounded in number.

    Args:
        limit: the number of ids kept; the oldest is dropped when another comes.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._links: OrderedDict[str, tuple[str, ObjectLink]] = OrderedDict()

    def note(self, native_id: str, agent: str, link: ObjectLink) -> None:
        """Note that an object of ``agent`` ended."""
        self._links.pop(native_id, None)
        self._links[native_id] = (agent, link)
        if len(self._links) > self._limit:
            self._links.popitem(last=False)

    def link(self, native_id: str) -> ObjectLink | None:
        """Return the object that had this native id last, if it is still known."""
        entry = self._links.get(native_id)
        return entry[1] if entry is not None else None

    def forget(self, agent: str) -> None:
        """Drop the native ids of an agent that restarted (of all agents, if empty): they are invalid."""
        for native_id in [n for n, (owner, _) in self._links.items() if agent in {"", owner}]:
            del self._links[native_id]


class Waiting(msgspec.Struct, frozen=True):
    """A waiting object: its report, generation of the resync, time of entry, and missing targets."""

    seen: ObjectSeen
    generation: int
    since: int
    targets: tuple[str, ...]

    @property
    def agent(self) -> str:
        """The agent that reported it."""
        return self.seen.agent

    @property
    def class_name(self) -> str:
        """``package:name`` of its class."""
        return str(self.seen.key)


class WaitingRoom:
    """Objects whose names need a target that was not reported yet; bounded in number and time.

    Args:
        limit: the number of objects that may wait; the oldest must leave when another comes.
        patience: the nanoseconds that one may wait.
    """

    def __init__(self, limit: int = 10_000, patience: int = 10 * SECOND) -> None:
        self._limit = limit
        self._patience = patience
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._waiters: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, waiting: Waiting) -> Waiting | None:
        """Let an object wait; return one that must leave instead, where there are too many."""
        native_id = waiting.seen.native_id
        self._waiting[native_id] = waiting
        for target in waiting.targets:
            self._waiters.setdefault(target, set()).add(native_id)
        if len(self._waiting) > self._limit:
            return self.leave(next(iter(self._waiting)))
        return None

    def leave(self, native_id: str) -> Waiting | None:
        """Remove an object and return it; ``None`` if it does not wait here."""
        waiting = self._waiting.pop(native_id, None)
        if waiting is None:
            return None
        for target in waiting.targets:
            waiters = self._waiters.get(target, set())
            waiters.discard(native_id)
            if not waiters:
                self._waiters.pop(target, None)
        return waiting

    def awaits(self, target: str) -> bool:
        """Return whether any object waits for ``target``."""
        return target in self._waiters

    def waiting_for(self, target: str) -> list[str]:
        """Return the native ids of all objects that wait for ``target``."""
        return sorted(self._waiters.get(target, ()))

    def overdue(self, now: int) -> list[str]:
        """Return the native ids of all objects that have waited long enough, the oldest first."""
        return [n for n, one in self._waiting.items() if now - one.since >= self._patience]

    def everyone(self, agent: str = "", class_name: str = "") -> list[str]:
        """Return the native ids of an agent and class (``package:name``), oldest first; empty matches all."""
        return [
            native_id
            for native_id, one in self._waiting.items()
            if agent in {"", one.agent} and class_name in {"", one.class_name}
        ]
