"""What an object is called and whether it is durable, as far as that is known by now."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.feed.records import ClassRecord, Lifetime
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.former_objects import FormerObjects
from gateway.inventory.identity import incarnation_name, stable_name
from gateway.inventory.objects import Entry, ObjectTable
from gateway.model.observations import ObjectSeen
from gateway.model.values import Reference


@dataclass(frozen=True, slots=True)
class Name:
    """The name that an object should have, going by what is known.

    Attributes:
        durable: whether it keeps its row number by this name.
        provisional: it is made of native ids, because a target is not known or has no name of its own yet;
            what is called so is transient until it can be named.
        unresolved: native ids of the targets that are not known.
    """

    text: str
    durable: bool
    provisional: bool = False
    unresolved: tuple[str, ...] = ()


def name_of(
    seen: ObjectSeen,
    class_record: ClassRecord,
    classes: ClassRegistry,
    objects: ObjectTable,
    former: FormerObjects,
) -> Name:
    """The name of an object told with all its properties; targets may be ``former`` objects."""
    schema, properties = class_record.schema, seen.properties or ()
    lent: list[Entry] = []  # those whose names became part of this one

    def target_name(native_id: str) -> str | None:
        target = objects.by_native_id(native_id)
        if target is None:
            link = former.link(native_id)
            return None if link is None else link.stable_name
        lent.append(target)
        return target.record.stable_name

    name = stable_name(schema, properties, seen.native_id, target_name, class_record.name_element)
    provisional = bool(name.unresolved) or any(target.provisional for target in lent)
    # What is named after an object that never comes back never comes back itself.
    transient = seen.transient or any(target.record.lifetime is Lifetime.TRANSIENT for target in lent)
    if provisional or transient or classes.is_transient(schema, properties):
        text = incarnation_name(name.text, seen.created, seen.native_id)
        known = former.link(seen.native_id)
        if known is not None and known.class_name == str(schema.key) and _is_of(known.stable_name, name.text):
            text = known.stable_name  # when it got that, the time of its creation was not known
        return Name(text, durable=False, provisional=provisional, unresolved=name.unresolved)
    return Name(name.text, durable=True)


def _is_of(incarnation: str, name: str) -> bool:
    """Whether a name is that of an incarnation of ``name``."""
    return incarnation.startswith(f"{name}#")


def is_another(entry: Entry, seen: ObjectSeen) -> bool:
    """Whether what is told under an object's native id cannot be that object.

    An agent without memory, restarted, calls other objects what it called so before, and may speak before
    anybody has noticed that it restarted.
    """
    record, schema = entry.record, entry.class_record.schema
    if seen.created and record.created and seen.created != record.created:
        return True
    return any(
        element.index and not isinstance(value, Reference) and value != record.values.get(position)
        for position, (element, value) in enumerate(
            zip(schema.properties, seen.properties or (), strict=False)
        )
    )
