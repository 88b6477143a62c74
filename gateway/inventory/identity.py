"""Identity: the object that a report is about, and the actions on that object.

A *native id* is an agent's identifier of an object. It finds an object and identifies none: an agent without
memory gives the ids of before its restart to other objects. An object is identified by its class and its
stable name (`gateway.model.stable_names`), which for a transient object includes its creation time. An object
whose stable name cannot be made yet, or is taken, has a provisional one.

The three tables below define the actions in each case. `IdentityMatcher` finds the case: by `owner`, `holder`
and `name` it decides which object is meant, and under which name. `gateway.inventory.lifecycle` carries the
actions out. `table` prints the tables.
Incomplete resyncs and the loss of an agent or source, which makes objects stale, have no row: they change no
identity.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gateway.feed.records import ClassRecord, Lifetime
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.objects import Entry, ObjectTable, Resyncs
from gateway.inventory.restored_objects import RestoredObjects
from gateway.model.observations import ObjectSeen
from gateway.model.stable_names import UNKNOWN, incarnation_name, stable_name
from gateway.model.values import Reference, Values


class Report(enum.Enum):
    """The kind of a report of an object."""

    PROPERTIES = "properties"  # with statistics or without
    STATISTICS = "statistics"  # alone
    END = "end"  # with properties
    BARE_END = "bare end"


class Owner(enum.Enum):
    """The object that has the native id of a report, as far as known."""

    NONE = "no object"
    SAME = "this object"
    OTHER = "an object with another index or creation time"
    OTHER_VERSION = "an object that has this name in another version of the class"
    OUTDATED = "an object that has another name in another version of the class"
    NAMEABLE = "a provisional object whose stable name is free"


class Holder(enum.Enum):
    """The object that has the stable name of a report, where the native id is new."""

    UNRESOLVED = "not known yet: the name refers to an unknown object"
    NONE = "no object"
    NONE_YET = "no object, and the name contains a native id"
    CONFIRMED = "an object reported since the last resync began"
    RETURNED = "an object not reported since, with the same creation time or lasting id"
    FORMER = "an object not reported since"
    FORMER_VERSION = "an object not reported since, of another version of the class"
    FORMER_ID = "a transient object identified by a native id of before a restart"


class Occasion(enum.Enum):
    """An occasion that concerns an object without a report of it."""

    MISSING = "a complete resync did not report it"
    RESTARTED = "its agent restarted"
    SOURCE_REMOVED = "its source was removed"
    NAMEABLE = "it is provisional, and its stable name is free"


class Action(enum.Enum):
    """An action on an object. The next action of a row finds the state that the one before it left."""

    UPDATE = "update"  # record its values
    END = "end"  # record its last values, then remove it
    END_LATER = "end later"  # remove it behind those that waited for it
    IGNORE = "ignore"  # count it: what was never reported with properties cannot be named
    MATCH_NAME = "match name"  # look for the holder of the stable name
    WAIT = "wait"  # for the object that the name refers to, for 10 s at most
    CREATE = "create"  # under the stable name
    CREATE_PROVISIONAL = "create provisional"  # transient, until the name can be made
    CREATE_DUPLICATE = "create duplicate"  # provisional, with the native id behind the name
    RENAME = "rename"  # remove it under the provisional name, match the stable name with all known values
    RESUME = "resume"  # the same incarnation under another native id: counters go on
    REBIND = "rebind"  # the same object under another native id: row and name stay, no former value does
    LEAVE_VERSION = "leave version"  # its record of the former version is deleted; that is no end
    UNBIND = "unbind"  # its native id means nothing any more
    REMOVE = "remove"  # an inferred end


BY_NATIVE_ID: Final[Mapping[tuple[Report, Owner], tuple[Action, ...]]] = {
    (Report.PROPERTIES, Owner.NONE): (Action.MATCH_NAME,),
    (Report.PROPERTIES, Owner.SAME): (Action.UPDATE,),
    (Report.PROPERTIES, Owner.OTHER): (Action.UNBIND, Action.MATCH_NAME),
    (Report.PROPERTIES, Owner.OTHER_VERSION): (Action.LEAVE_VERSION, Action.REBIND),
    (Report.PROPERTIES, Owner.OUTDATED): (Action.REMOVE, Action.MATCH_NAME),
    (Report.PROPERTIES, Owner.NAMEABLE): (Action.RENAME,),
    (Report.STATISTICS, Owner.NONE): (Action.IGNORE,),
    (Report.STATISTICS, Owner.SAME): (Action.UPDATE,),
    (Report.STATISTICS, Owner.OTHER): (Action.UNBIND, Action.IGNORE),
    (Report.STATISTICS, Owner.OUTDATED): (Action.REMOVE, Action.IGNORE),
    (Report.END, Owner.NONE): (Action.MATCH_NAME, Action.END_LATER),
    (Report.END, Owner.SAME): (Action.END,),
    (Report.END, Owner.OTHER): (Action.UNBIND, Action.MATCH_NAME, Action.END_LATER),
    (Report.END, Owner.OUTDATED): (Action.REMOVE, Action.MATCH_NAME, Action.END_LATER),
    (Report.BARE_END, Owner.NONE): (Action.IGNORE,),
    (Report.BARE_END, Owner.SAME): (Action.END,),
    (Report.BARE_END, Owner.OTHER): (Action.UNBIND, Action.IGNORE),
    (Report.BARE_END, Owner.OUTDATED): (Action.REMOVE, Action.IGNORE),
}
"""The actions by report and owner of its native id; any other pair is a mistake of ours."""

BY_NAME: Final[Mapping[Holder, tuple[Action, ...]]] = {
    Holder.UNRESOLVED: (Action.WAIT,),
    Holder.NONE: (Action.CREATE,),
    Holder.NONE_YET: (Action.CREATE_PROVISIONAL,),
    Holder.CONFIRMED: (Action.CREATE_DUPLICATE,),
    Holder.RETURNED: (Action.RESUME,),
    Holder.FORMER: (Action.REBIND,),
    Holder.FORMER_VERSION: (Action.LEAVE_VERSION, Action.REBIND),
    Holder.FORMER_ID: (Action.REMOVE, Action.MATCH_NAME),
}
"""The actions by holder of a stable name, where no object has the native id."""

WITHOUT_REPORT: Final[Mapping[Occasion, tuple[Action, ...]]] = {
    Occasion.MISSING: (Action.REMOVE,),
    Occasion.RESTARTED: (Action.UNBIND,),
    Occasion.SOURCE_REMOVED: (Action.REMOVE,),
    Occasion.NAMEABLE: (Action.RENAME,),
}
"""The actions on an object that is not reported."""


def table() -> str:
    """Return the three tables as text, a line for each row."""
    rows = [("report", "its native id belongs to", "actions"), ("", "", "")]
    rows += [(r.value, o.value, _text(actions)) for (r, o), actions in BY_NATIVE_ID.items()]
    rows += [("", "", ""), ("", "its stable name belongs to", ""), ("", "", "")]
    rows += [("match name", holder.value, _text(actions)) for holder, actions in BY_NAME.items()]
    rows += [("", "", ""), ("", "without a report", ""), ("", "", "")]
    rows += [("", occasion.value, _text(actions)) for occasion, actions in WITHOUT_REPORT.items()]
    return "\n".join(f"{first:<11} {second:<68} {third}".rstrip() for first, second, third in rows)


def _text(actions: tuple[Action, ...]) -> str:
    return ", ".join(action.value for action in actions)


def report_of(seen: ObjectSeen) -> Report:
    """Return the kind of a report."""
    if seen.deleted:
        return Report.BARE_END if seen.properties is None else Report.END
    return Report.STATISTICS if seen.properties is None else Report.PROPERTIES


class Name(msgspec.Struct, frozen=True):
    """The stable name that an object should have, as far as it can be made.

    Attributes:
        text: the name.
        durable: whether the object keeps its row by this name.
        provisional: the name contains native ids, because a target is not known or is provisional itself.
        unresolved: native ids of the targets that are not known.
    """

    text: str
    durable: bool
    provisional: bool = False
    unresolved: tuple[str, ...] = ()


class IdentityMatcher:
    """Finds the known object that a report is about. It changes nothing.

    Args:
        objects: the living objects.
        restored: objects of before the core's start, to which names may refer.
        classes: decides on lifetimes.
        resyncs: shows which objects are still to be reported.
        may_rename: returns whether an object gets the row number of a new name now.
    """

    def __init__(
        self,
        objects: ObjectTable,
        restored: RestoredObjects,
        classes: ClassRegistry,
        resyncs: Resyncs,
        may_rename: Callable[[], bool],
    ) -> None:
        self._objects = objects
        self._restored = restored
        self._classes = classes
        self._resyncs = resyncs
        self._may_rename = may_rename

    def owner(self, seen: ObjectSeen, class_record: ClassRecord) -> tuple[Owner, Entry | None]:
        """Return the relation of a report to the object that has its native id, and that object.

        An object of another class is another one, whatever its id is.
        """
        entry = self._objects.by_native_id(seen.native_id)
        if entry is None or entry.class_record is not class_record:
            entry = self._objects.of_class(seen.native_id, class_record.schema.class_name)
        if entry is None:
            return Owner.NONE, None
        # An agent without memory may report under the ids of before its restart before that is noticed.
        if seen.created != entry.record.created and seen.created and entry.record.created:
            return Owner.OTHER, entry
        if seen.properties is not None and _has_other_index(entry, seen.properties):
            return Owner.OTHER, entry
        if entry.class_record is not class_record:
            same = self._keeps_its_name(entry, seen, class_record)
            return (Owner.OTHER_VERSION if same else Owner.OUTDATED), entry
        if entry.provisional and self.is_nameable(entry, seen):
            return Owner.NAMEABLE, entry
        return Owner.SAME, entry

    def holder(
        self, name: Name, seen: ObjectSeen, class_record: ClassRecord, *, may_wait: bool
    ) -> tuple[Holder, Entry | None]:
        """Return the relation of a report with a new native id to the holder of its name, and the holder."""
        if name.unresolved and may_wait:
            return Holder.UNRESOLVED, None
        holder = self._objects.by_name(class_record.schema.class_name, name.text)
        if holder is None:
            return (Holder.NONE_YET if name.provisional else Holder.NONE), None
        former = holder.record
        is_same = self.goes_on(holder, seen)
        is_bound = self._objects.is_bound(holder)
        identified_by_id = former.lifetime is Lifetime.TRANSIENT and not former.created
        if not is_bound and identified_by_id and not is_same:
            return Holder.FORMER_ID, holder
        if is_bound and not self._resyncs.wait_for(holder):
            return Holder.CONFIRMED, holder
        if holder.class_record is not class_record:
            return Holder.FORMER_VERSION, holder
        return (Holder.RETURNED if is_same else Holder.FORMER), holder

    def goes_on(self, entry: Entry, seen: ObjectSeen) -> bool:
        """Return whether a report of an object is of its present incarnation, whose counters go on."""
        former = entry.record
        if self._objects.of_class(seen.native_id, entry.class_name) is entry:
            return True
        # Its agent restarted. The id may outlive that, and the agent may have forgotten the time of creation.
        has_same_id = seen.persistent_id and seen.native_id == former.native_id
        return (has_same_id and seen.created == former.created) or (
            former.created > 0 and seen.created in {former.created, 0}
        )

    def is_nameable(self, entry: Entry, seen: ObjectSeen) -> bool:
        """Return whether a provisional object, reported again, could have its intended stable name."""
        if not entry.provisional or seen.properties is None or seen.deleted or not self._may_rename():
            return False
        name = self.name(seen, entry.class_record)
        return not name.provisional and self._objects.by_name(entry.class_name, name.text) is None

    def name(self, seen: ObjectSeen, class_record: ClassRecord) -> Name:
        """Return the name of an object that was reported with all its properties."""
        schema, properties = class_record.schema, seen.properties or ()
        lent: list[Entry] = []  # those whose names became part of this one

        def target_name(native_id: str) -> str | None:
            if self._objects.is_shared(native_id):
                return None
            target = self._objects.by_native_id(native_id)
            if target is None:
                link = self._restored.link(native_id)
                return None if link is None else link.stable_name
            lent.append(target)
            return target.record.stable_name

        name = stable_name(schema, properties, seen.native_id, target_name, class_record.name_element)
        provisional = bool(name.unresolved) or any(target.provisional for target in lent)
        # What is named after an object that never comes back never comes back itself.
        transient = seen.transient or any(target.record.lifetime is Lifetime.TRANSIENT for target in lent)
        if not (provisional or transient or self._classes.is_transient(schema, properties)):
            return Name(name.text, durable=True)
        restored = self._restored.same(schema.class_name, seen)
        if restored is not None and provisional and UNKNOWN not in restored.name:
            # What its name refers to may have ended meanwhile, and is not reported any more.
            return Name(restored.name, restored.durable, unresolved=name.unresolved)
        text = incarnation_name(name.text, seen.created, seen.native_id)
        if restored is not None and restored.name.startswith(f"{name.text}#"):
            text = restored.name  # made when its creation time was not known
        return Name(text, durable=False, provisional=provisional, unresolved=name.unresolved)

    def _keeps_its_name(self, entry: Entry, seen: ObjectSeen, class_record: ClassRecord) -> bool:
        if entry.provisional or seen.properties is None or seen.deleted:
            return False
        name = self.name(seen, class_record)
        return (
            not name.provisional
            and name.text == entry.record.stable_name
            and class_record.schema.class_name == entry.class_name
        )


def _has_other_index(entry: Entry, properties: Values) -> bool:
    known = entry.record.values
    for position in entry.class_record.schema.index_positions:
        if position >= len(properties):
            break
        value = properties[position]
        if value != known.get(position) and not isinstance(value, Reference):
            return True
    return False
