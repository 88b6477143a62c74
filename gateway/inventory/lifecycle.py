"""Objects of one source from their first sight to their end: named, numbered, updated, swept."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gateway.feed.records import ClassRecord, Lifetime, ObjectRecord, Record
from gateway.feed.values import ObjectLink
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.former_objects import FormerObject, FormerObjects
from gateway.inventory.id_allocator import IdAllocator
from gateway.inventory.identity import duplicate_name
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.naming import Name, is_another, name_of
from gateway.inventory.object_records import (
    delete_record,
    discontinuity,
    link_record,
    new_record,
    told_again,
    update_record,
)
from gateway.inventory.objects import Entry, ObjectTable, Touched
from gateway.inventory.references import EndedObjects, References, Waiting, WaitingRoom
from gateway.inventory.resyncs import Resyncs, covers
from gateway.inventory.rows import RowNumbers
from gateway.inventory.values import merged
from gateway.inventory.work_queue import LIGHT, WorkQueue
from gateway.model.observations import ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.schema import ClassKey
from gateway.model.values import Reference


class ObjectLifecycle:
    """Keeps the objects of one source and appends to ``out`` a record for all that happens to them.

    Args:
        source: its number.
        classes: for lifetimes.
        known: the classes that the source has told, by key; filled by the owner.
        index: row numbers.
        numbers: of ends.
        out: where records go, in order.
        counters: ``objects_created``, ``objects_deleted``, ``objects_refused``, ``unidentified`` are counted.
        max_objects: more than these are refused.

    Attributes:
        steps: what follows from a call and may concern very many objects; to be done before the next call
            that changes anything.
        touched: what was told and what ended, until its reader clears it.
    """

    def __init__(
        self,
        source: int,
        classes: ClassRegistry,
        known: Mapping[ClassKey, ClassRecord],
        index: InstanceIndex,
        numbers: IdAllocator,
        out: list[Record],
        counters: Counter[str],
        max_objects: int,
    ) -> None:
        self._source = source
        self._classes = classes
        self._known = known
        self._numbers = numbers
        self._out = out
        self.steps = WorkQueue()
        self.touched = Touched()
        self._counters = counters
        self._max_objects = max_objects
        self._objects = ObjectTable(classes.called_in_events)
        self._references = References()
        self._lately_ended = EndedObjects()
        self._former = FormerObjects()
        self._rows = RowNumbers(source, index, self._objects, self._former)
        self._waiting = WaitingRoom()
        self._resyncs = Resyncs()

    def __len__(self) -> int:
        return len(self._objects)

    def records(self) -> Iterator[ObjectRecord]:
        """The current record of every object."""
        return (entry.record for entry in self._objects)

    def remember(self, objects: Iterable[FormerObject], *, by_native_id: bool) -> None:
        """These lived when the gateway before this one ended (`FormerObjects.remember`)."""
        self._former.remember(objects, by_native_id=by_native_id)

    def count_of(self, agent: str) -> int:
        """How many objects an agent told of last."""
        return self._objects.count_of(agent)

    def living(self, link: ObjectLink) -> Entry | None:
        """The object that a link leads to, if it lives."""
        return self._objects.living(link)

    def by_row(self, class_name: str, row: int) -> Entry | None:
        """The object that has this row number in its class (``package:name``)."""
        return self._objects.by_row(class_name, row)

    def is_bound(self, entry: Entry) -> bool:
        """Whether the native id that an object was told under means that object still."""
        return self._objects.by_native_id(entry.record.native_id) is entry

    def link(self, native_id: str) -> ObjectLink | None:
        """The object that has this native id, or had it last and ended lately."""
        return self._link(native_id) or self._lately_ended.link(native_id)

    def only_called(self, class_name: str, leaf: str) -> ObjectLink | None:
        """The only living object of a class (``package:name``) that people call so, where events name it."""
        entry = self._objects.only_called(class_name, leaf)
        return None if entry is None else entry.link()

    def begin_resync(self, began: ResyncBegan, now: int) -> None:
        """From here on, an object in the resync's scope that is not told again is missing; in steps."""
        self.steps.add(self._begin(began, now))

    def _begin(self, began: ResyncBegan, now: int) -> Iterator[None]:
        if began.restarted:
            # Their native ids are about to mean nothing.
            yield from self._settle(self._waiting.everyone(began.agent, began.class_name), now)
        self._resyncs.begin(began)
        if not began.restarted:
            return
        self._former.forget_native_ids()
        self._lately_ended.forget(began.agent)
        for entry in _each(self._told_by(began.agent)):
            if entry is None:
                yield
            elif covers(began, entry):
                self._unbind(entry)

    def end_resync(self, ended: ResyncEnded, now: int) -> None:
        """Settle who still waits; after a complete resync, objects not told in it are gone (inferred).

        In steps, over the last of which the objects that are gone live on, as they did during the resync.
        """
        if ended.complete:
            self.steps.add(self._sweep(ended, now))

    def _sweep(self, ended: ResyncEnded, now: int) -> Iterator[None]:
        yield from self._settle(self._waiting.everyone(ended.agent, ended.class_name), now)
        for entry in _each(reversed(self._told_by(ended.agent))):  # who refers before what is referred to
            if entry is None:
                yield
            elif self._resyncs.misses(entry, ended):
                self._remove(entry, 0, inferred=True, now=now)
                yield
        for entry in _each(self._objects.provisional()):
            # Who held its name may be gone.
            if entry is None or self._name_anew(entry, now):
                yield
        if not ended.agent and not ended.class_name:
            for native_id in self._former.forget():
                if self._objects.by_native_id(native_id) is None:
                    self._refer_no_more(native_id, now)
                    yield

    def _told_by(self, agent: str) -> list[Entry]:
        """The objects of an agent; of all where it has no name. One of many costs what it has itself."""
        return self._objects.of_agent(agent) if agent else list(self._objects)

    def end(self, now: int) -> None:
        """Nothing is known of any object any more."""
        self.steps.clear()
        for entry in self._objects:
            self._remove(entry, 0, inferred=True, now=now)
            self.steps.take()

    def settle_overdue(self, now: int) -> None:
        """Give a provisional identity to objects that waited too long for a reference's target; in steps."""
        overdue = self._waiting.overdue(now)
        if overdue:
            self.steps.add(self._settle(overdue, now))

    def _settle(self, native_ids: Iterable[str], now: int, *, provisionally: bool = True) -> Iterator[None]:
        """Let objects appear that waited; a resync that began meanwhile misses them unless it told them."""
        for native_id in native_ids:
            one = self._waiting.leave(native_id)
            if one is not None:
                self._let_appear(one, now, provisionally=provisionally)
                yield

    def _let_appear(self, one: Waiting, now: int, *, provisionally: bool) -> None:
        self._appear(one.seen, self._known[one.seen.key], now, one.generation, provisionally=provisionally)

    def seen(self, seen: ObjectSeen, class_record: ClassRecord, now: int) -> None:
        """An agent told of an object: new, changed, unchanged or deleted."""
        waiting = self._waiting.leave(seen.native_id)
        if waiting is not None:
            seen = merged(waiting.seen, seen)
        entry = self._objects.by_native_id(seen.native_id)
        if entry is not None and is_another(entry, seen):
            self._unbind(entry)
            entry = None
        if entry is not None and self._is_another_version(entry, seen, class_record):
            entry.generation = self._resyncs.generation
            self._come_back(entry, seen, class_record, now)
            return
        if entry is not None and (
            entry.class_record is not class_record or self._can_be_named_now(entry, seen)
        ):
            # Told whole below, under the name that it has in the new version of its class, or should have.
            if entry.class_record is class_record:
                seen = merged(told_again(entry, self._references.targets(seen.native_id)), seen)
            self._remove(entry, 0, inferred=True, now=now)
            entry = None
        if seen.deleted:
            self._delete(entry, seen, class_record, now)
        elif entry is not None:
            entry.generation = self._resyncs.generation
            self._update(entry, seen, now)
        elif seen.properties is None:
            # Statistics of an object that was never told: it cannot be named. The next resync brings it.
            self._counters["unidentified"] += 1
        else:
            self._appear(seen, class_record, now, self._resyncs.generation)

    def _unbind(self, entry: Entry) -> None:
        """An object's native id means nothing any more: it comes back under another one, or is missed."""
        self._references.forget(entry.record.native_id)
        self._objects.unbind(entry)

    def _appear(
        self,
        seen: ObjectSeen,
        class_record: ClassRecord,
        now: int,
        generation: int,
        *,
        provisionally: bool = False,
    ) -> Entry | None:
        """A native id that is new: a new object, or one that came back under another id."""
        name = self._name(seen, class_record)
        if name.unresolved and not provisionally:
            left = self._waiting.enter(Waiting(seen, generation, now, name.unresolved))
            if left is not None:
                self._let_appear(left, now, provisionally=True)
            return None
        class_name = str(seen.key)
        text, durable, provisional = name.text, name.durable, name.provisional
        holder = self._objects.by_name(class_name, text)
        if holder is not None and self._is_another(holder):
            self._remove(holder, 0, inferred=True, now=now)
            holder = None
        if holder is not None:
            if self._unconfirmed(holder):
                holder.generation = generation
                return self._come_back(holder, seen, class_record, now)
            durable, provisional = False, True
            text = duplicate_name(text, seen.native_id)
        if len(self._objects) >= self._max_objects:
            self._counters["objects_refused"] += 1
            return None
        row = self._rows.row(class_name, text, durable=durable)
        record = self._record(seen, class_record, row, text, durable=durable, now=now)
        entry = Entry(record, class_record, generation, provisional)
        self._objects.add(entry)
        self._counters["objects_created"] += 1
        self._told_whole(entry, seen, now)
        return entry

    def _come_back(self, holder: Entry, seen: ObjectSeen, class_record: ClassRecord, now: int) -> Entry:
        """A name told under a new native id, whose holder was not told since the resync began.

        It is the same object: row and name stay, no value of its former incarnation does.
        """
        former = holder.record
        if holder.class_record is not class_record:
            self._leave_class(holder, now)
        elif former.created and seen.created in {former.created, 0}:
            return self._live_on(holder, seen, now)
        self._references.forget(former.native_id)
        durable = former.lifetime is Lifetime.DURABLE
        record = self._record(seen, class_record, former.row, former.stable_name, durable=durable, now=now)
        record = msgspec.structs.replace(record, reset=discontinuity(former.reset, now))
        self._objects.rebind(holder, record, class_record)
        holder.lost_counters = frozenset()
        self._told_whole(holder, seen, now)
        return holder

    def _live_on(self, holder: Entry, seen: ObjectSeen, now: int) -> Entry:
        """The same incarnation, told by an agent that was restarted, and may have forgotten when it began."""
        former = holder.record
        self._references.forget(former.native_id)
        record = msgspec.structs.replace(former, native_id=seen.native_id, agent=seen.agent)
        self._objects.rebind(holder, record, holder.class_record)
        holder.apply(update_record(holder, seen, self._link, now), self._parent(holder, seen))
        self._told_whole(holder, seen, now)
        return holder

    def _told_whole(self, entry: Entry, seen: ObjectSeen, now: int) -> None:
        """Tell a new record, and let follow whoever refers to the object or waited for it."""
        self._references.note(entry.class_record.schema, seen)
        self._out.append(entry.record)
        self.touched.tell(entry)
        if self._references.lead_to(seen.native_id) or self._waiting.awaits(seen.native_id):
            self.steps.add(self._follow(entry, seen.native_id, now))

    def _follow(self, entry: Entry, native_id: str, now: int) -> Iterator[None]:
        """Let all that refers to a native id lead to its object, and those appear that waited for it."""
        for referrer_id, position in self._references.referring_to(native_id):
            referrer = self._objects.by_native_id(referrer_id)
            if referrer is None or self._objects.by_native_id(native_id) is not entry:
                continue
            if not self._name_anew(referrer, now) and referrer.record.values.get(position) != entry.link():
                self._relink(referrer, position, entry.link(), now)
            yield
        yield from self._settle(self._waiting.waiting_for(native_id), now, provisionally=False)

    def _update(self, entry: Entry, seen: ObjectSeen, now: int) -> None:
        self._references.note(entry.class_record.schema, seen)
        update = update_record(entry, seen, self._link, now)
        self._out.append(entry.apply(update, self._parent(entry, seen)))
        if seen.created and not entry.record.created:
            # It was seen before its agent heard when it began. Row and name stay.
            entry.record = msgspec.structs.replace(entry.record, created=seen.created)
            self._out.append(entry.record)
        self.touched.tell(entry)

    def _parent(self, entry: Entry, seen: ObjectSeen) -> ObjectLink | None:
        """What an object belongs to by what is told; one that cannot be found leaves it as it was."""
        properties = seen.properties
        positions = self._classes.parent_positions(entry.class_record)
        if not positions or properties is None or max(positions) >= len(properties):
            return entry.record.parent
        for position in positions:
            told = properties[position]
            if isinstance(told, Reference):
                return self._link(told.native_id) or entry.record.parent
        return None

    def _delete(self, entry: Entry | None, seen: ObjectSeen, class_record: ClassRecord, now: int) -> None:
        if entry is None:
            if seen.properties is None:
                self._counters["unidentified"] += 1
                return
            # It came and went between two looks: told as created, with its values, then as deleted.
            alive = dataclasses.replace(seen, deleted=0)
            entry = self._appear(alive, class_record, now, self._resyncs.generation, provisionally=True)
            if entry is not None:
                self.steps.add(self._deleted(entry, seen, now))  # behind who waited for it
            return
        if seen.properties is not None or seen.statistics is not None:
            self._update(entry, seen, now)
        self._remove_as_told(entry, seen, now)

    def _deleted(self, entry: Entry, seen: ObjectSeen, now: int) -> Iterator[None]:
        self._remove_as_told(entry, seen, now)
        yield

    def _remove_as_told(self, entry: Entry, seen: ObjectSeen, now: int) -> None:
        self._remove(entry, 0 if seen.inferred else seen.deleted, inferred=seen.inferred, now=now)

    def _remove(self, entry: Entry, deleted: int, *, inferred: bool, now: int) -> None:
        record = entry.record
        native_id = record.native_id
        bound = self._objects.by_native_id(native_id) is entry  # else it is another's by now
        self._end(entry, deleted, inferred=inferred, now=now)
        self._objects.remove(entry)
        self._rows.retire(str(entry.key), record, now)
        self._counters["objects_deleted"] += 1
        if not bound:
            return
        self._references.forget(native_id)
        self._refer_no_more(native_id, now)

    def _refer_no_more(self, native_id: str, now: int) -> None:
        """What references to an object led to is gone; in steps."""
        if self._references.lead_to(native_id):
            self.steps.add(self._unlink(native_id, now))

    def _unlink(self, native_id: str, now: int) -> Iterator[None]:
        for referrer_id, position in self._references.referring_to(native_id):
            if self._objects.by_native_id(native_id) is not None:
                return  # another has it by now: that one is followed
            referrer = self._objects.by_native_id(referrer_id)
            if referrer is not None and position in referrer.record.values:
                self._relink(referrer, position, None, now)
            yield

    def _end(self, entry: Entry, deleted: int, *, inferred: bool, now: int) -> None:
        """Tell that an object, as it was last told, is no more."""
        record, link = entry.record, entry.link()
        if self._objects.by_native_id(record.native_id) is entry:
            self._lately_ended.note(record.native_id, record.agent, link)
        self.touched.ended.append(link)
        number = self._numbers.end()
        self._out.append(delete_record(record, number, deleted, inferred=inferred, now=now))

    def _leave_class(self, entry: Entry, now: int) -> None:
        """Take an object out of the version of its class that it has, to be told in another one: no end."""
        self.touched.ended.append(entry.link())
        self._out.append(delete_record(entry.record, 0, 0, inferred=True, now=now))

    def _relink(self, referrer: Entry, position: int, link: ObjectLink | None, now: int) -> None:
        update = link_record(referrer.record, position, link, now)
        belongs = link is not None and self._leads_to_parent(referrer, position)
        self._out.append(referrer.apply(update, link if belongs else referrer.record.parent))

    def _leads_to_parent(self, referrer: Entry, position: int) -> bool:
        positions = self._classes.parent_positions(referrer.class_record)
        if position not in positions:
            return False
        before = positions[: positions.index(position)]
        return not any(earlier in referrer.record.values for earlier in before)

    def _record(
        self, seen: ObjectSeen, class_record: ClassRecord, row: int, name: str, *, durable: bool, now: int
    ) -> ObjectRecord:
        return new_record(
            seen,
            class_record,
            self._link,
            source=self._source,
            row=row,
            name=name,
            durable=durable,
            now=now,
            parents=self._classes.parent_positions(class_record),
        )

    def _name(self, seen: ObjectSeen, class_record: ClassRecord) -> Name:
        return name_of(seen, class_record, self._classes, self._objects, self._former)

    def _name_anew(self, entry: Entry, now: int) -> bool:
        """Give a provisional object the name it should have, if it can have that now."""
        native_id = entry.record.native_id
        if not entry.provisional or self._objects.by_native_id(native_id) is not entry:
            return False
        seen = told_again(entry, self._references.targets(native_id))
        if not self._can_be_named_now(entry, seen):
            return False
        self._remove(entry, 0, inferred=True, now=now)
        self._appear(seen, entry.class_record, now, entry.generation)
        return True

    def _unconfirmed(self, entry: Entry) -> bool:
        """Whether an object is still to be told: it lost its native id, or a resync began since."""
        if self._objects.by_native_id(entry.record.native_id) is not entry:
            return True
        return self._resyncs.wait_for(entry)

    def _is_another(self, holder: Entry) -> bool:
        """Whether the name that a new object should have was a former one's, told apart by a native id only.

        Native ids of before a restart mean nothing any more.
        """
        record = holder.record
        unbound = self._objects.by_native_id(record.native_id) is not holder
        return unbound and record.lifetime is Lifetime.TRANSIENT and not record.created

    def _can_be_named_now(self, entry: Entry, seen: ObjectSeen) -> bool:
        """Whether a provisional object, told again, could have the name it should have."""
        if not entry.provisional or seen.properties is None or seen.deleted:
            return False
        name = self._name(seen, entry.class_record)
        return not name.provisional and self._objects.by_name(str(entry.key), name.text) is None

    def _is_another_version(self, entry: Entry, seen: ObjectSeen, class_record: ClassRecord) -> bool:
        """Whether only the version of its class is new of an object: its class and name are the same."""
        if entry.class_record is class_record or entry.provisional or seen.properties is None or seen.deleted:
            return False
        name = self._name(seen, class_record)
        told = (str(seen.key), name.text, name.provisional)
        return told == (str(entry.key), entry.record.stable_name, False)

    def _link(self, native_id: str) -> ObjectLink | None:
        entry = self._objects.by_native_id(native_id)
        return entry.link() if entry is not None else self._former.link(native_id)


def _each(entries: Iterable[Entry]) -> Iterator[Entry | None]:
    """Each of these; ``None`` in between, where a step may end."""
    for number, entry in enumerate(entries):
        yield entry
        if number % LIGHT == LIGHT - 1:
            yield None
