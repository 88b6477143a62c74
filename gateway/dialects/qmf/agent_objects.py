"""The objects of an agent: their records for publication, and the answers to queries.

Values are encoded when they are put: a change is a difference of octets, and publishing or answering a
query only joins them.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.codec import write, write_header, write_times_and_id
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    GetQuery,
    PackageIndication,
    PackageQuery,
    SchemaRequest,
    SchemaResponse,
)
from gateway.dialects.qmf.model_values import wire_values, with_absence_marked, with_marks
from gateway.dialects.qmf.schema_records import described_class
from gateway.dialects.qmf.statuses import FAILED
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.values import Values

MAX_BODY: Final = 65_536
"""Octets of a body: qpidd neither sends nor accepts more."""

MAX_RECORDS: Final = 100
"""Records of a published body, as in qpidd."""

MAX_OBJECTS: Final = MAX_RECORDS // 2
"""Objects that one body has with all values, published or in an answer.

A console applies a body as a whole. qpidd fills its answers up to `MAX_BODY`, about 140 queues; that would
block a console of ours for too long.
"""


@dataclass(frozen=True, slots=True)
class ManagedObject:
    """An object with its present values, as the agent's program puts it.

    Attributes:
        key: package and name of the class; the hash is ignored.
        number: the object's number within the agent, 64 bits, unique over all classes.
        created: nanoseconds since 1970-01-01 UTC, 0 for unknown.
        properties: one value per property of the class; ``None`` only where it is optional.
        statistics: one value per statistic; ``None`` for absent.
        sampled: the time at which the values were read, nanoseconds since 1970-01-01 UTC.
        stale_since: the time since which the values are not confirmed, nanoseconds since 1970-01-01 UTC; 0
            while they are.
        inherited: its counters may have begun with the counts of another object.
    """

    key: ClassKey
    number: int
    created: int
    properties: Values
    statistics: Values
    sampled: int
    stale_since: int = 0
    inherited: bool = False


class AgentClass:
    """A class that the agent serves: its definition with marks added, and its objects by number."""

    __slots__ = ("definition", "key_octets", "marks_absence", "objects")

    def __init__(self, schema: ClassSchema) -> None:
        self.definition: ClassDefinition = described_class(with_marks(schema))
        self.marks_absence = bool(schema.statistics)
        self.key_octets = fields.class_key(self.definition.key)
        self.objects: dict[int, AgentObject] = {}

    def encode(self, managed: ManagedObject) -> tuple[bytes, bytes]:
        """Encode properties and statistics; raise `LocalProtocolError` if they do not fit the class."""
        marked = (*managed.properties, managed.stale_since or None)
        properties = self.definition.properties.write(wire_values(marked))
        statistics = wire_values(managed.statistics)
        if self.marks_absence:
            statistics = with_absence_marked(statistics, inherited=managed.inherited)
        return properties, self.definition.statistics.write(statistics)


class AgentObject:
    """One object; ``properties_changed`` and ``statistics_changed`` since the last publication."""

    __slots__ = (
        "agent_class",
        "created",
        "object_id",
        "properties",
        "properties_changed",
        "sampled",
        "statistics",
        "statistics_changed",
    )

    def __init__(self, agent_class: AgentClass, object_id: ObjectId, created: int) -> None:
        self.agent_class = agent_class
        self.object_id = object_id
        self.created = created
        self.sampled = 0
        self.properties = b""
        self.statistics = b""
        self.properties_changed = False
        self.statistics_changed = False

    @property
    def definition(self) -> ClassDefinition:
        """The definition of its class."""
        return self.agent_class.definition

    def property_record(self, deleted: int = 0) -> bytes:
        """Encode a c record."""
        return write_header(b"c", 0) + self._head(deleted) + self.properties

    def statistic_record(self, deleted: int = 0) -> bytes:
        """Encode an i record."""
        return write_header(b"i", 0) + self._head(deleted) + self.statistics

    def object_record(self, sequence: int) -> bytes:
        """Encode a g record."""
        return write_header(b"g", sequence) + self._head(0) + self.properties + self.statistics

    def _head(self, deleted: int) -> bytes:
        times_and_id = write_times_and_id(self.sampled, self.created, deleted, self.object_id)
        return self.agent_class.key_octets + times_and_id

    def mark_published(self) -> None:
        """Note that consoles have received all values."""
        self.properties_changed = self.statistics_changed = False

    def changed_records(self) -> list[bytes]:
        """Encode changed values as c and i records."""
        records = [self.property_record()] if self.properties_changed else []
        if self.statistics_changed and self.agent_class.marks_absence:
            records.append(self.statistic_record())
        return records

    def all_records(self) -> list[bytes]:
        """Encode all values as c and i records."""
        records = [self.property_record()]
        if self.agent_class.marks_absence:
            records.append(self.statistic_record())
        return records


@dataclass(frozen=True, slots=True)
class _Deletion:
    gone: AgentObject
    deleted: int
    unknown_to_consoles: bool

    def records(self) -> list[bytes]:
        records = [self.gone.property_record(self.deleted)]
        if (
            self.gone.statistics_changed
            and not self.unknown_to_consoles
            and self.gone.agent_class.marks_absence
        ):
            records.append(self.gone.statistic_record(self.deleted))
        return records


class AgentObjects:
    """The objects behind an agent session.

    Args:
        classes: the schemas that the agent serves; package and name are unique among them.
        object_id: the fields that all its object ids share.
        deletion_limit: deletions that are kept while they cannot be published.
    """

    def __init__(self, classes: Iterable[ClassSchema], object_id: ObjectId, deletion_limit: int) -> None:
        self.classes: dict[tuple[str, str], AgentClass] = {}
        for schema in classes:
            if (schema.key.package, schema.key.name) in self.classes:
                raise LocalProtocolError(f"class {schema.key} is given twice")
            self.classes[schema.key.package, schema.key.name] = AgentClass(schema)
        self._prefix = object_id.prefix
        self._objects: dict[int, AgentObject] = {}
        self._created: dict[int, AgentObject] = {}
        self._changed: dict[int, AgentObject] = {}
        self._deleted: deque[_Deletion] = deque(maxlen=deletion_limit)

    def serve(self, schema: ClassSchema) -> ClassDefinition | None:
        """Serve a class, in place of one of the same package and name; return ``None`` if it is unchanged.

        Raises:
            LocalProtocolError: AM2 cannot express the class.
        """
        agent_class = AgentClass(schema)
        name = (schema.key.package, schema.key.name)
        served = self.classes.get(name)
        if served is not None and served.definition.key == agent_class.definition.key:
            return None
        self.classes[name] = agent_class
        return agent_class.definition

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, number: int) -> bool:
        return number in self._objects

    def __iter__(self) -> Iterator[int]:
        return iter(self._objects)

    def find(self, object_id: ObjectId) -> AgentObject | None:
        """Return the object with this id; ``None`` if there is none."""
        return self._objects.get(object_id.number) if object_id.prefix == self._prefix else None

    def put(self, managed: ManagedObject) -> None:
        """Add an object or change its values; see `gateway.dialects.qmf.agent.AgentSession.put`."""
        agent_class = self.classes.get((managed.key.package, managed.key.name))
        if agent_class is None:
            raise LocalProtocolError(f"class {managed.key} is not served")
        properties, statistics = agent_class.encode(managed)
        known = self._objects.get(managed.number)
        if known is not None and known.agent_class is not agent_class:
            raise LocalProtocolError(f"object {managed.number} is of another class than {managed.key}")
        candidate = known or self._new(agent_class, managed)
        head = len(agent_class.key_octets) + 64
        if head + len(properties) + len(statistics) > MAX_BODY:
            raise LocalProtocolError(f"an object of {managed.key} does not fit {MAX_BODY} octets")
        # Raises if the times cannot be expressed.
        write_times_and_id(managed.sampled, managed.created, 0, candidate.object_id)
        if known is None:
            self._objects[managed.number] = agent_class.objects[managed.number] = candidate
            self._created[managed.number] = candidate
        self._update(candidate, managed, properties, statistics)

    def _new(self, agent_class: AgentClass, managed: ManagedObject) -> AgentObject:
        if not 0 <= managed.number < 1 << 64:
            raise LocalProtocolError(f"object number {managed.number} does not fit 64 bits")
        return AgentObject(agent_class, ObjectId(self._prefix, managed.number), managed.created)

    def _update(
        self, candidate: AgentObject, managed: ManagedObject, properties: bytes, statistics: bytes
    ) -> None:
        if properties != candidate.properties or managed.created != candidate.created:
            candidate.properties_changed = True
        if statistics != candidate.statistics:
            candidate.statistics_changed = True
        candidate.properties, candidate.statistics = properties, statistics
        candidate.created, candidate.sampled = managed.created, managed.sampled
        if candidate.properties_changed or candidate.statistics_changed:
            self._changed[managed.number] = candidate

    def delete(self, number: int, deleted: int) -> bool:
        """Remove an object; return False if there is none with this number."""
        gone = self._objects.pop(number, None)
        if gone is None:
            return False
        del gone.agent_class.objects[number]
        self._changed.pop(number, None)
        unknown_to_consoles = self._created.pop(number, None) is not None
        self._deleted.append(_Deletion(gone, deleted, unknown_to_consoles))
        return True

    def forget(self, number: int) -> None:
        """Remove an object without a deletion to publish."""
        known = self._objects.pop(number, None)
        if known is not None:
            del known.agent_class.objects[number]
            self._changed.pop(number, None)
            self._created.pop(number, None)

    def forget_unpublished(self) -> None:
        """Forget creations and deletions until now, which no console knows of."""
        self._created.clear()
        self._deleted.clear()

    def take_deletions(self) -> Iterator[tuple[ClassKey, bytes]]:
        """Yield class and body for each deletion, the newest object first, and remove them.

        Objects that consoles do not know follow in the order in which they ended: while nothing could be
        published, several of one name may have lived one after the other.
        """
        known = [deletion for deletion in self._deleted if not deletion.unknown_to_consoles]
        unknown = [deletion for deletion in self._deleted if deletion.unknown_to_consoles]
        deletions = [*reversed(known), *unknown]
        self._deleted.clear()
        yield from _bodies((deletion.gone.agent_class, deletion.records()) for deletion in deletions)

    def take_creations(self) -> Iterator[tuple[ClassKey, bytes]]:
        """Yield class and body for each creation, and remove them."""
        created = list(self._created.values())
        self._created.clear()
        for new in created:
            self._changed.pop(new.object_id.number, None)
        yield from _bodies((new.agent_class, new.all_records()) for new in created)
        for new in created:
            new.mark_published()

    def take_changes(self) -> Iterator[tuple[ClassKey, bytes]]:
        """Yield class and body for each changed object, and remove the changes."""
        changed = list(self._changed.values())
        self._changed.clear()
        yield from _bodies((one.agent_class, one.changed_records()) for one in changed)
        for one in changed:
            one.mark_published()

    def take_change(self, number: int) -> Iterator[tuple[ClassKey, bytes]]:
        """Yield class and body for the changes of one object, and remove them."""
        changed = self._changed.pop(number, None)
        if changed is not None:
            yield from _bodies([(changed.agent_class, changed.changed_records())])
            changed.mark_published()

    def take_all(self) -> Iterator[tuple[ClassKey, bytes]]:
        """Yield class and body for every object with all values."""
        self._created.clear()
        self._changed.clear()
        everything = list(self._objects.values())
        yield from _bodies((one.agent_class, one.all_records()) for one in everything)
        for one in everything:
            one.mark_published()


def _bodies(groups: Iterable[tuple[AgentClass, list[bytes]]]) -> Iterator[tuple[ClassKey, bytes]]:
    """Group the records by class and join them; the records of one object stay together."""
    by_class: dict[int, tuple[AgentClass, list[list[bytes]]]] = {}
    for agent_class, records in groups:
        by_class.setdefault(id(agent_class), (agent_class, []))[1].append(records)
    for agent_class, grouped in by_class.values():
        for body in join_records(grouped):
            yield agent_class.definition.key, body


def join_records(groups: Iterable[list[bytes]], limit: int = MAX_RECORDS) -> Iterator[bytes]:
    """Yield bodies of at most ``limit`` records and `MAX_BODY` octets; a group is split only to fit."""
    body: list[bytes] = []
    size = 0
    for group in groups:
        group_size = sum(map(len, group))
        parts = [group] if group_size <= MAX_BODY else [[record] for record in group]
        for part in parts:
            part_size = sum(map(len, part))
            if body and (size + part_size > MAX_BODY or len(body) + len(part) > limit):
                yield b"".join(body)
                body, size = [], 0
            body.extend(part)
            size += part_size
    if body:
        yield b"".join(body)


class AgentQueries:
    """The answers to consoles' queries of definitions and objects.

    Args:
        objects: the objects of the agent.

    Attributes:
        definitions: the classes and events.
    """

    def __init__(self, objects: AgentObjects) -> None:
        self.definitions = Definitions()
        self._objects = objects
        self._packages: dict[str, list[ClassDefinition | EventDefinition]] = {}

    def serve(self, definition: ClassDefinition | EventDefinition) -> None:
        """Answer with this class or event from now on."""
        self.definitions.add(definition)
        self._packages.setdefault(definition.key.package, []).append(definition)

    @property
    def packages(self) -> Iterable[str]:
        """The packages, in the order in which they were served."""
        return self._packages

    def names(self, query: PackageQuery | ClassQuery) -> Iterator[bytes]:
        """Yield the bodies with all packages, or with all classes and events of a package."""
        if isinstance(query, PackageQuery):
            if self._packages:
                yield b"".join(
                    write(PackageIndication(query.sequence, package)) for package in self._packages
                )
            return
        for definition in self._packages.get(query.package, ()):
            kind = ClassKind.OBJECT if isinstance(definition, ClassDefinition) else ClassKind.EVENT
            yield write(ClassIndication(query.sequence, kind, definition.key))

    def schema(self, request: SchemaRequest) -> SchemaResponse | CommandComplete:
        """Return the schema of a class or event, or the reason why there is none."""
        if request.key.package not in self._packages:
            return CommandComplete(request.sequence, FAILED, "Package not found")
        definition = self.definitions.find_class(request.key) or self.definitions.find_event(request.key)
        if definition is None:
            return CommandComplete(request.sequence, FAILED, "Class key not found")
        return SchemaResponse(request.sequence, definition)

    def objects(self, query: GetQuery) -> Iterator[bytes]:
        """Yield the bodies with the objects of a class, or with one object by its id.

        Raises:
            ProtocolError: the query names neither; it is raised before anything is yielded.
        """
        records = ([one.object_record(query.sequence)] for one in self._selected(query))
        return join_records(records, limit=MAX_OBJECTS)

    def single(self, query: GetQuery) -> AgentObject | None:
        """Return the object that is queried by its id; ``None`` for a query of a class or an unknown id."""
        object_id = query.selector.get("_objectid")
        if isinstance(query.selector.get("_class"), str) or not isinstance(object_id, str):
            return None
        with contextlib.suppress(ProtocolError):
            return self._objects.find(ObjectId.parse(object_id))
        return None

    def _selected(self, query: GetQuery) -> list[AgentObject]:
        name, package, object_id = map(query.selector.get, ("_class", "_package", "_objectid"))
        if isinstance(name, str):
            return [
                one
                for (of_package, of_name), agent_class in self._objects.classes.items()
                if of_name == name and package in (None, "", of_package)
                for one in agent_class.objects.values()
            ]
        if isinstance(object_id, str):
            found = self._objects.find(ObjectId.parse(object_id))
            return [] if found is None else [found]
        raise ProtocolError("a get query with _class or _objectid")
