"""The objects that an agent before AM2 manages, and which of them consoles have to hear about."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent_objects import ManagedObject
from gateway.dialects.qmf.am01.forms import AM01
from gateway.dialects.qmf.am01.messages import ClassDescription
from gateway.dialects.qmf.am01.reader import MAX_BODY
from gateway.dialects.qmf.am01.revisions import BROADCASTING, Revision
from gateway.dialects.qmf.am01.schemas import described_class, event_key, event_name
from gateway.dialects.qmf.am01.writer import write
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import ObjectContent, PropertyContent, StatisticContent
from gateway.dialects.qmf.model_values import wire_values
from gateway.dialects.qmf.object_id import ObjectId
from gateway.dialects.qmf.typed_values import QmfValues
from gateway.model.schema import ClassKey, ClassSchema, EventSchema

News: TypeAlias = ClassDescription | PropertyContent | StatisticContent
"""What an agent says by itself."""


class ServedClass:
    """A class as a revision has it, and whether consoles have to hear of its schema."""

    def __init__(self, schema: ClassSchema, events: Iterable[EventSchema], revision: Revision) -> None:
        definition, described = described_class(schema, tuple(events))
        if revision in BROADCASTING:
            key = ClassKey("", schema.key.name)
            definition = ClassDefinition.of(replace(schema, key=key), AM01)
            described = tuple(
                EventDefinition.of(replace(one.schema, key=event_key(key, event_name(one.key)[1])), AM01)
                for one in described
            )
        self.package = schema.key.package
        self.definition = definition
        self.events = described
        self.untold = True

    @property
    def description(self) -> ClassDescription:
        """Its schema."""
        return ClassDescription(0, self.definition, self.events)


class ServedObject:
    """One object; ``properties_changed`` and ``statistics_changed`` since consoles were last told."""

    def __init__(self, served: ServedClass, managed: ManagedObject) -> None:
        self.served = served
        self.object_id = ObjectId(0, managed.number)
        self.created = managed.created
        self.sampled = 0
        self.properties: QmfValues = ()
        self.statistics: QmfValues = ()
        self.properties_changed = self.statistics_changed = True

    @property
    def definition(self) -> ClassDefinition:
        """Of its class."""
        return self.served.definition

    def is_of(self, key: ClassKey) -> bool:
        """Whether its class has this package and name, as calls tell them."""
        own = self.definition.key
        return (own.package, own.name) == (key.package, key.name)

    def take(self, managed: ManagedObject) -> None:
        """Know the values as they are now."""
        properties, statistics = wire_values(managed.properties), wire_values(managed.statistics)
        self.properties_changed |= properties != self.properties
        self.statistics_changed |= statistics != self.statistics
        self.properties, self.statistics, self.sampled = properties, statistics, managed.sampled

    def records(self, deleted: int = 0) -> Iterator[PropertyContent | StatisticContent]:
        """Return what consoles have to hear, and be done with it."""
        key = self.definition.key
        head = (key, self.sampled, self.created, deleted, self.object_id)
        if self.properties_changed or deleted:
            yield PropertyContent(0, *head, self.properties)
        if self.statistics_changed and self.definition.schema.statistics:
            yield StatisticContent(0, *head, None, self.statistics)
        self.properties_changed = self.statistics_changed = False

    def whole(self, sequence: int) -> ObjectContent:
        """Return the answer to a get query."""
        head = (self.definition.key, self.sampled, self.created, 0, self.object_id)
        return ObjectContent(sequence, *head, self.properties, self.statistics)


class ServedObjects:
    """The store behind an agent session before AM2.

    Args:
        revision: what is spoken.
        classes: what is served; names are unique within a package, until January 2008 over all.
        events: named ``<class>.<event>``, of classes among these.
        deletion_limit: deletions kept while they cannot be published.

    Raises:
        LocalProtocolError: the revision cannot carry one of them, or it is given twice.
    """

    def __init__(
        self,
        revision: Revision,
        classes: Iterable[ClassSchema],
        events: Iterable[EventSchema],
        deletion_limit: int,
    ) -> None:
        self.definitions = Definitions()
        self.classes: dict[tuple[str, str], ServedClass] = {}
        told = tuple(events)
        self._revision = revision
        self._objects: dict[int, ServedObject] = {}
        self._deleted: deque[tuple[ServedObject, int]] = deque(maxlen=deletion_limit)
        for schema in classes:
            name = (schema.key.package, schema.key.name)
            own = [one for one in told if (one.key.package, event_name(one.key)[0]) == name]
            served = ServedClass(schema, own, revision)
            if served.definition.key in self.definitions:
                raise LocalProtocolError(f"class {schema.key} is given twice")
            self.classes[name] = served
            self.definitions.add(served.definition)
            for event in served.events:
                self.definitions.add(event)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, number: int) -> bool:
        return number in self._objects

    def __iter__(self) -> Iterator[int]:
        return iter(self._objects)

    def find(self, object_id: ObjectId) -> ServedObject | None:
        """Return the object of this id."""
        return None if object_id.prefix else self._objects.get(object_id.number)

    def of_class(self, name: str) -> Iterator[ServedObject]:
        """Return the objects of a class of this name, in any package."""
        return (one for one in self._objects.values() if one.definition.key.name == name)

    def put(self, managed: ManagedObject) -> None:
        """Add an object or tell its values again.

        Raises:
            LocalProtocolError: its class is not served, or its values do not fit it or a message; nothing
                has changed then.
        """
        served = self.classes.get((managed.key.package, managed.key.name))
        if served is None:
            raise LocalProtocolError(f"class {managed.key} is not served")
        known = self._objects.get(managed.number)
        if known is not None and known.served is not served:
            raise LocalProtocolError(f"object {managed.number} is of another class than {managed.key}")
        tried = ServedObject(served, managed)
        tried.take(managed)
        # Together, as who asks for the object is told both at once.
        octets = sum(len(write(record, self._revision, self.definitions)) for record in tried.records())
        if octets > MAX_BODY:
            raise LocalProtocolError(f"an object of {managed.key} does not fit {MAX_BODY} octets")
        if known is None:
            known = self._objects[managed.number] = ServedObject(served, managed)
        known.take(managed)

    def delete(self, number: int, deleted: int) -> bool:
        """Remove an object; False if there is none of this number."""
        gone = self._objects.pop(number, None)
        if gone is None:
            return False
        self._deleted.append((gone, deleted))
        return True

    def tell_everything(self) -> None:
        """Consoles know nothing: neither schemas nor objects."""
        for served in self.classes.values():
            served.untold = True
        for one in self._objects.values():
            one.properties_changed = one.statistics_changed = True

    def take_news(self, *, schemas: bool) -> Iterator[News]:
        """Return what consoles have to hear, and be done with it; ``schemas`` of classes, too."""
        deleted = list(self._deleted)
        self._deleted.clear()
        for gone, when in deleted:
            yield from self._records(gone, when, schemas=schemas)
        for number in sorted(self._objects):
            yield from self._records(self._objects[number], 0, schemas=schemas)

    def _records(self, served: ServedObject, deleted: int, *, schemas: bool) -> Iterator[News]:
        if schemas and served.served.untold:
            served.served.untold = False
            yield served.served.description
        yield from served.records(deleted)
