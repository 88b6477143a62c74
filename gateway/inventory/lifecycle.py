"""The lifecycle of the objects of one source: created, updated, rebound, renamed, removed.

`gateway.inventory.identity` decides on the actions; here they are carried out, and recorded for the feed.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gateway.feed.records import ClassRecord, Lifetime, ObjectRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.identity import (
    BY_NAME,
    BY_NATIVE_ID,
    WITHOUT_REPORT,
    Action,
    IdentityMatcher,
    Name,
    Occasion,
    report_of,
)
from gateway.inventory.instance_file import IndexNotWrittenError
from gateway.inventory.object_records import (
    as_reported,
    delete_record,
    discontinuity,
    in_other_version,
    link_record,
    merged,
    new_record,
    update_record,
)
from gateway.inventory.objects import (
    NONE_LOST,
    EndedObjects,
    Entry,
    ObjectTable,
    References,
    Resyncs,
    Touched,
    Unnumbered,
    Waiting,
    WaitingRoom,
    covers,
)
from gateway.inventory.restored_objects import RestoredObject, RestoredObjects, RowNumbers
from gateway.inventory.scope import SourceScope
from gateway.model.observations import Counting, ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.schema import ClassKey
from gateway.model.stable_names import duplicate_name
from gateway.model.values import Reference


class ObjectLifecycle:
    """Keeps the objects of one source and appends a record to ``out`` for each change of them.

    Args:
        scope: the scope of the source; ``objects_created``, ``objects_deleted``, ``objects_refused``,
            ``objects_unshown``, ``unidentified`` are counted.
        max_objects: the maximum number of objects; more are refused.

    Attributes:
        known: the classes that the source has reported, by key; filled by the owner.
        steps: further work of a call, which may concern very many objects; to be done before the next call
            that changes anything.
        touched: the reported and the ended objects, until its reader clears it.
    """

    def __init__(self, scope: SourceScope, max_objects: int) -> None:
        self.known: dict[ClassKey, ClassRecord] = {}
        self.steps = WorkQueue()
        self.touched = Touched()
        self._source = scope.number
        self._classes = scope.classes
        self._ids = scope.ids
        self._out = scope.records
        self._counters = scope.counters
        self._max_objects = max_objects
        self._objects = ObjectTable(scope.classes.called_in_events)
        self._references = References()
        self._lately_ended = EndedObjects()
        self._restored = RestoredObjects()
        self._rows = RowNumbers(scope.number, scope.index, self._objects, self._restored)
        self._waiting = WaitingRoom()
        self._unnumbered = Unnumbered()
        self._index = scope.index
        self._resyncs = Resyncs()
        self._matcher = IdentityMatcher(
            self._objects, self._restored, scope.classes, self._resyncs, lambda: not scope.index.trouble
        )

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def unnumbered(self) -> int:
        """The number of objects that wait, not shown, until the disk takes their row numbers."""
        return len(self._unnumbered)

    def records(self) -> Iterator[ObjectRecord]:
        """Return an iterator over the current record of every object."""
        return (entry.record for entry in self._objects)

    def restore(self, objects: Iterable[RestoredObject], *, by_native_id: bool) -> None:
        """Add objects that lived when the previous core ended (`RestoredObjects.restore`)."""
        self._restored.restore(objects, by_native_id=by_native_id)

    def count_of(self, agent: str) -> int:
        """Return the number of objects that were last reported by an agent."""
        return self._objects.count_of(agent)

    def living(self, link: ObjectLink) -> Entry | None:
        """Return the object that a link leads to, if it lives."""
        return self._objects.living(link)

    def by_row(self, class_name: str, row: int) -> Entry | None:
        """Return the object that has this row number in its class (``package:name``)."""
        return self._objects.by_row(class_name, row)

    def is_bound(self, entry: Entry) -> bool:
        """Return whether the native id that an object was reported under still means that object."""
        return self._objects.is_bound(entry)

    def link(self, native_id: str) -> ObjectLink | None:
        """Return the object that has this native id, or had it last and ended lately."""
        return self._link(native_id) or self._lately_ended.link(native_id)

    def only_called(self, class_name: str, leaf: str) -> ObjectLink | None:
        """Return the only living object of a class (``package:name``) with this leaf name.

        Only classes to which events refer by leaf names are searched.
        """
        entry = self._objects.only_called(class_name, leaf)
        return None if entry is None else entry.link()

    # ---- reports ----------------------------------------------------------------------------------------

    def seen(self, seen: ObjectSeen, class_record: ClassRecord, now: int) -> None:
        """Apply a report of an object."""
        waiting = self._waiting.leave(seen.native_id) or self._unnumbered.get(seen.native_id)
        if waiting is not None and waiting.class_name != class_record.schema.class_name:
            self._let_in(waiting, now, may_wait=False)  # another object: an id should mean one of any class
        elif waiting is not None:
            seen = merged(waiting.seen, seen)
        generation = self._resyncs.generation
        owner, entry = self._matcher.owner(seen, class_record)
        for action in BY_NATIVE_ID[report_of(seen), owner]:
            if action is Action.UPDATE and entry is not None:
                if self._objects.beside:
                    self._objects.reported(entry)
                entry.generation = generation
                self._update(entry, seen, now)
            elif action is Action.MATCH_NAME:
                entry = self._identify(seen, class_record, generation, now)
            elif action is Action.IGNORE:
                self._counters["unidentified"] += 1
            elif entry is not None:
                self._act(action, entry, seen, class_record, generation, now)
        if seen.deleted:
            self._unnumbered.remove(seen.native_id)

    def _identify(
        self,
        seen: ObjectSeen,
        class_record: ClassRecord,
        generation: int,
        now: int,
        *,
        may_wait: bool = True,
    ) -> Entry | None:
        """Apply a report whose native id is new, by the name of its object; return the object, if any.

        Args:
            seen: the report, with properties. An object that is reported with its end is created first.
            class_record: its class.
            generation: that of the resync in which it was reported.
            now: the time of receipt.
            may_wait: it may wait for an object that its name refers to. One that ended or has waited may not.
        """
        if seen.deleted:
            seen, may_wait = dataclasses.replace(seen, deleted=0), False
        name = self._matcher.name(seen, class_record)
        holder, entry = self._matcher.holder(name, seen, class_record, may_wait=may_wait)
        for action in BY_NAME[holder]:
            if action is Action.WAIT:
                self._wait(Waiting(seen, generation, now, name.unresolved), now)
            elif action is Action.MATCH_NAME:
                entry = self._identify(seen, class_record, generation, now, may_wait=may_wait)
            elif entry is None or action is Action.CREATE_DUPLICATE:
                entry = self._create(action, name, seen, class_record, generation, now)
            else:
                self._act(action, entry, seen, class_record, generation, now)
        return entry

    def _act(
        self,
        action: Action,
        entry: Entry,
        seen: ObjectSeen,
        class_record: ClassRecord,
        generation: int,
        now: int,
    ) -> None:
        """Carry out an action on a known object because of a report of it."""
        match action:
            case Action.REBIND:
                entry.generation = generation
                self._rebind(entry, seen, class_record, now)
            case Action.RESUME:
                entry.generation = generation
                self._resume(entry, seen, now)
            case Action.RENAME:
                self._rename(entry, merged(self._as_reported(entry), seen), generation, now)
            case Action.LEAVE_VERSION:
                self._leave_version(entry, now)
            case Action.UNBIND:
                self._unbind(entry)
            case Action.REMOVE:
                self._remove(entry, 0, inferred=True, now=now)
            case Action.END:
                self._end_with_values(entry, seen, now)
            case Action.END_LATER:
                self.steps.add(self._end_later(entry, seen, now))
            case _:
                raise AssertionError(action)

    def _wait(self, waiting: Waiting, now: int) -> None:
        left = self._waiting.enter(waiting)
        if left is not None:
            self._let_in(left, now, may_wait=False)

    def _create(
        self,
        action: Action,
        name: Name,
        seen: ObjectSeen,
        class_record: ClassRecord,
        generation: int,
        now: int,
    ) -> Entry | None:
        """Create an object; ``None`` where there are too many, or it has to wait for its row number."""
        if len(self._objects) + len(self._unnumbered) >= self._max_objects:
            self._counters["objects_refused"] += 1
            return None
        text = duplicate_name(name.text, seen.native_id) if action is Action.CREATE_DUPLICATE else name.text
        durable = action is Action.CREATE and name.durable
        try:
            row = self._rows.row(class_record.schema.class_name, text, durable=durable)
        except IndexNotWrittenError:
            if self._unnumbered.put(Waiting(seen, generation, now, ())):
                self._counters["objects_unshown"] += 1
            return None
        self._unnumbered.remove(seen.native_id)
        record = self._record(seen, class_record, row, text, durable=durable, now=now)
        entry = Entry(record, class_record, generation, provisional=action is not Action.CREATE)
        self._objects.add(entry)
        self._counters["objects_created"] += 1
        self._publish_whole(entry, seen, now)
        return entry

    def _update(self, entry: Entry, seen: ObjectSeen, now: int) -> None:
        self._note_references(entry, seen)
        update = update_record(entry, seen, self._link, now)
        parent = entry.record.parent if seen.properties is None else self._parent(entry, seen)
        self._out.append(entry.apply(update, parent))
        # It may have been reported before its agent learned its creation time. Row and name stay.
        created = entry.record.created or seen.created
        unread_since = _unread_since(entry, seen)
        if (created, unread_since) != (entry.record.created, entry.record.unread_since):
            entry.record = msgspec.structs.replace(entry.record, created=created, unread_since=unread_since)
            self._out.append(entry.record)
        self.touched.reported[id(entry)] = entry

    def _rebind(self, entry: Entry, seen: ObjectSeen, class_record: ClassRecord, now: int) -> None:
        """Give an object another native id, or class: row and name stay, values only where it goes on."""
        former = entry.record
        self._references.forget(former.native_id)
        durable = former.lifetime is Lifetime.DURABLE
        record = self._record(seen, class_record, former.row, former.stable_name, durable=durable, now=now)
        lost: Mapping[int, FeedValue] = NONE_LOST
        if self._matcher.goes_on(entry, seen):
            record = msgspec.structs.replace(record, counting=seen.counting)  # what it inherited is known
            record, lost = in_other_version(entry, record, class_record.schema)
        else:
            # Another incarnation of what it describes has counted from zero, unless its source knows better.
            counting = max(record.counting, Counting.BEGAN)
            record = msgspec.structs.replace(
                record, reset=discontinuity(former.reset, now), counting=counting
            )
        record = msgspec.structs.replace(record, unread_since=_unread_since(entry, seen))
        self._objects.rebind(entry, record, class_record)
        entry.lost_counters = lost
        self._publish_whole(entry, seen, now)

    def _resume(self, entry: Entry, seen: ObjectSeen, now: int) -> None:
        """Give the same incarnation another native id, after its agent restarted."""
        former = entry.record
        self._references.forget(former.native_id)
        record = msgspec.structs.replace(
            former, native_id=seen.native_id, agent=seen.agent, unread_since=_unread_since(entry, seen)
        )
        self._objects.rebind(entry, record, entry.class_record)
        entry.apply(update_record(entry, seen, self._link, now), self._parent(entry, seen))
        self._publish_whole(entry, seen, now)

    def _rename(self, entry: Entry, seen: ObjectSeen, generation: int, now: int) -> None:
        """Remove a provisional object and create it under its stable name."""
        self._remove(entry, 0, inferred=True, now=now)
        self._identify(seen, entry.class_record, generation, now)

    def _leave_version(self, entry: Entry, now: int) -> None:
        """Delete an object's record of one version of its class, to publish one of another version."""
        self.touched.ended.append(entry.link())
        self._out.append(delete_record(entry.record, 0, 0, inferred=True, now=now))

    def _unbind(self, entry: Entry) -> None:
        """Drop an object's native id: it comes back under another one, or the next resync misses it."""
        self._references.forget(entry.record.native_id)
        self._objects.unbind(entry)

    def _end_with_values(self, entry: Entry, seen: ObjectSeen, now: int) -> None:
        if seen.properties is not None or seen.statistics is not None:
            self._update(entry, seen, now)
        self._end(entry, seen, now)

    def _end_later(self, entry: Entry, seen: ObjectSeen, now: int) -> Iterator[None]:
        self._end(entry, seen, now)
        yield

    def _end(self, entry: Entry, seen: ObjectSeen, now: int) -> None:
        self._remove(entry, 0 if seen.inferred else seen.deleted, inferred=seen.inferred, now=now)

    def _remove(self, entry: Entry, deleted: int, *, inferred: bool, now: int) -> None:
        record, link = entry.record, entry.link()
        native_id = record.native_id
        bound = self._objects.by_native_id(native_id) is entry  # otherwise another object has it by now
        if bound:
            self._lately_ended.note(native_id, record.agent, link)
        self.touched.ended.append(link)
        number = self._ids.end()
        self._out.append(delete_record(record, number, deleted, inferred=inferred, now=now))
        self._objects.remove(entry)
        self._rows.retire(link.class_name, record, now)
        self._counters["objects_deleted"] += 1
        if bound:
            self._references.forget(native_id)
            self._unlink_later(native_id, now)

    # ---- without a report -------------------------------------------------------------------------------

    def begin_resync(self, began: ResyncBegan, now: int) -> None:
        """Begin a resync, in steps: from here on, an object in its scope that is not reported is missing."""
        self.steps.add(self._begin(began, now))

    def _begin(self, began: ResyncBegan, now: int) -> Iterator[None]:
        if began.restarted:
            # The native ids of those that wait are about to mean nothing.
            yield from self._settle(self._waiting.everyone(began.agent, began.class_name), now)
        self._resyncs.begin(began)
        if not began.restarted:
            return
        self._unnumbered.keep(lambda one: not covers(began, one))
        self._restored.forget_native_ids()
        self._lately_ended.forget(began.agent)
        for entry in _each(self._objects_of(began.agent)):
            if entry is None:
                yield
            elif covers(began, entry):
                self._occurred(Occasion.RESTARTED, entry, now)

    def end_resync(self, ended: ResyncEnded, now: int) -> None:
        """After a complete resync, settle waiting objects and remove those that it did not report.

        This is done in steps, during which the objects to be removed live on, as they did during the resync.
        """
        if ended.complete:
            self.steps.add(self._sweep(ended, now))

    def _sweep(self, ended: ResyncEnded, now: int) -> Iterator[None]:
        yield from self._settle(self._waiting.everyone(ended.agent, ended.class_name), now)
        self._unnumbered.keep(lambda one: not self._resyncs.misses(one, ended))
        for entry in _each(reversed(self._objects_of(ended.agent))):  # who refers before what is referred to
            if entry is None:
                yield
            elif self._resyncs.misses(entry, ended):
                self._occurred(Occasion.MISSING, entry, now)
                yield
        for entry in _each(self._objects.provisional()):
            # The holder of its name may have been removed.
            if entry is None or self._try_to_name(entry, now):
                yield
        if not ended.class_name:
            for native_id in self._restored.clear(ended.agent, ended.without):
                if self._objects.by_native_id(native_id) is None:
                    self._unlink_later(native_id, now)
                    yield

    def _objects_of(self, agent: str) -> list[Entry]:
        """Return the objects of an agent, or all where it has no name; other agents' objects cost nothing."""
        return self._objects.of_agent(agent) if agent else list(self._objects)

    def remove_source(self, now: int) -> None:
        """Remove every object: its source is no longer configured."""
        self.steps.clear()
        for entry in self._objects:
            self._occurred(Occasion.SOURCE_REMOVED, entry, now)
            self.steps.run()

    def _occurred(self, occasion: Occasion, entry: Entry, now: int) -> None:
        """Carry out the actions on an object for an occasion without a report of it."""
        for action in WITHOUT_REPORT[occasion]:
            match action:
                case Action.REMOVE:
                    self._remove(entry, 0, inferred=True, now=now)
                case Action.UNBIND:
                    self._unbind(entry)
                case Action.RENAME:
                    self._rename(entry, self._as_reported(entry), entry.generation, now)
                case _:
                    raise AssertionError(action)

    def _try_to_name(self, entry: Entry, now: int) -> bool:
        """Give a provisional object its stable name, if possible now; return whether it was."""
        if not entry.provisional or not self.is_bound(entry):
            return False
        if not self._matcher.is_nameable(entry, self._as_reported(entry)):
            return False
        self._occurred(Occasion.NAMEABLE, entry, now)
        return True

    def _as_reported(self, entry: Entry) -> ObjectSeen:
        return as_reported(entry, self._references.targets(entry.record.native_id))

    # ---- those that wait --------------------------------------------------------------------------------

    def settle_overdue(self, now: int) -> None:
        """Let in objects that waited for what now is there, or too long; in steps.

        Those that waited too long for a reference's target get a provisional identity.
        """
        overdue = self._waiting.overdue(now)
        if overdue:
            self.steps.add(self._settle(overdue, now))
        if self._unnumbered and not self._index.trouble:
            self.steps.add(self._number(self._unnumbered.all(), now))

    def _number(self, waiting: Iterable[Waiting], now: int) -> Iterator[None]:
        """Show objects that waited for the disk."""
        for one in waiting:
            if self._unnumbered.get(one.seen.native_id) is not one:
                continue
            self._unnumbered.remove(one.seen.native_id)
            if self._objects.by_native_id(one.seen.native_id) is None:
                self._let_in(one, now, may_wait=False)
                yield

    def _settle(self, native_ids: Iterable[str], now: int, *, may_wait: bool = False) -> Iterator[None]:
        """Identify objects that waited; a resync that began meanwhile misses them unless it reported them."""
        for native_id in native_ids:
            one = self._waiting.leave(native_id)
            if one is not None:
                self._let_in(one, now, may_wait=may_wait)
                yield

    def _let_in(self, one: Waiting, now: int, *, may_wait: bool) -> None:
        self._identify(one.seen, self.known[one.seen.key], one.generation, now, may_wait=may_wait)

    # ---- references -------------------------------------------------------------------------------------

    def _publish_whole(self, entry: Entry, seen: ObjectSeen, now: int) -> None:
        """Publish a new record, and update objects that refer to the object or waited for it."""
        self._note_references(entry, seen)
        self._out.append(entry.record)
        self.touched.reported[id(entry)] = entry
        if self._references.lead_to(seen.native_id) or self._waiting.awaits(seen.native_id):
            self.steps.add(self._follow(entry, seen.native_id, now))

    def _note_references(self, entry: Entry, seen: ObjectSeen) -> None:
        """Note the references of a report, which are found by the id of the object that refers."""
        if self._objects.is_shared(seen.native_id):
            self._references.forget(seen.native_id)
        else:
            self._references.note(entry.class_record.schema, seen)

    def _follow(self, entry: Entry, native_id: str, now: int) -> Iterator[None]:
        """Make the references to a native id lead to its object, and let in objects that waited for it."""
        for referrer_id, position in self._references.referring_to(native_id):
            referrer = self._objects.by_native_id(referrer_id)
            if referrer is None or self._objects.by_native_id(native_id) is not entry:
                continue
            if not self._try_to_name(referrer, now) and referrer.record.values.get(position) != entry.link():
                self._relink(referrer, position, entry.link(), now)
            yield
        yield from self._settle(self._waiting.waiting_for(native_id), now, may_wait=True)

    def _unlink_later(self, native_id: str, now: int) -> None:
        """Make the references to an object lead nowhere; in steps."""
        if self._references.lead_to(native_id):
            self.steps.add(self._unlink(native_id, now))

    def _unlink(self, native_id: str, now: int) -> Iterator[None]:
        for referrer_id, position in self._references.referring_to(native_id):
            if self._objects.by_native_id(native_id) is not None:
                return  # another object has it by now, and that one is followed
            referrer = self._objects.by_native_id(referrer_id)
            if referrer is not None and position in referrer.record.values:
                self._relink(referrer, position, None, now)
            yield

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

    def _parent(self, entry: Entry, seen: ObjectSeen) -> ObjectLink | None:
        """Return the parent of an object by a report; one that cannot be found leaves it as it was."""
        properties = seen.properties
        positions = self._classes.parent_positions(entry.class_record)
        if not positions or properties is None or max(positions) >= len(properties):
            return entry.record.parent
        for position in positions:
            value = properties[position]
            if isinstance(value, Reference):
                return self._link(value.native_id) or entry.record.parent
        return None

    def _record(
        self, seen: ObjectSeen, class_record: ClassRecord, row: int, name: str, *, durable: bool, now: int
    ) -> ObjectRecord:
        if seen.inherited and self._restored.same(class_record.schema.class_name, seen) is not None:
            seen = dataclasses.replace(seen, inherited=False)  # its counters go on from those in the log
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

    def _link(self, native_id: str) -> ObjectLink | None:
        entry = self._objects.by_native_id(native_id)
        if entry is None:
            return self._restored.link(native_id)
        return None if self._objects.is_shared(native_id) else entry.link()


def _unread_since(entry: Entry, seen: ObjectSeen) -> int:
    return entry.record.unread_since if seen.unread_since is None else seen.unread_since


def _each(entries: Iterable[Entry]) -> Iterator[Entry | None]:
    """Yield each entry, and ``None`` in between where a step may end."""
    for number, entry in enumerate(entries):
        yield entry
        if number % LIGHT == LIGHT - 1:
            yield None


LIGHT = 32
"""The number of objects that are only examined in one step."""


class WorkQueue:
    """Works that are done in steps, one after the other.

    A work is an iterator that does one step each time it is asked for the next. What a step adds is done
    before that step's own work goes on, so that the order is that of plain calls, in which a call that is
    made last is deferred.

    Attributes:
        left: the number of works that are not done.
    """

    def __init__(self) -> None:
        self.left = 0
        self._works: deque[Iterator[None]] = deque()
        self._added: list[Iterator[None]] = []

    def add(self, work: Iterator[None]) -> None:
        """Add a work that follows the present one, and those added by it before."""
        self._added.append(work)
        self.left += 1

    def run(self, budget: int | None = None) -> int:
        """Do at most ``budget`` steps, all where it is ``None``; return their number."""
        done = 0
        while self.left and (budget is None or done < budget):
            if self._added:
                self._works.extendleft(reversed(self._added))
                self._added.clear()
            work = self._works[0]
            try:
                next(work)
                done += 1
            except StopIteration:
                self._works.popleft()  # what its end added is put in front of the rest above
                self.left -= 1
        return done

    def clear(self) -> None:
        """Drop all works."""
        self._works.clear()
        self._added.clear()
        self.left = 0
