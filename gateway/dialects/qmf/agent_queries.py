"""What an agent answers from what it knows: packages, classes, schemas, objects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.agent_objects import MAX_OBJECTS, AgentObject, AgentObjects, join_records
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import (
    FAILED,
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
from gateway.dialects.qmf.object_id import ObjectId
from gateway.dialects.qmf.writer import write


class AgentQueries:
    """The definitions and objects of an agent, as consoles ask for them.

    Args:
        objects: what the agent manages.

    Attributes:
        definitions: the classes and events served.
    """

    def __init__(self, objects: AgentObjects) -> None:
        self.definitions = Definitions()
        self._objects = objects
        self._packages: dict[str, list[ClassDefinition | EventDefinition]] = {}

    def serve(self, definition: ClassDefinition | EventDefinition) -> None:
        """Tell of a class or event from now on."""
        self.definitions.add(definition)
        self._packages.setdefault(definition.key.package, []).append(definition)

    @property
    def packages(self) -> Iterable[str]:
        """The packages, in the order in which they were served."""
        return self._packages

    def names(self, query: PackageQuery | ClassQuery) -> Iterator[bytes]:
        """The bodies that tell all packages, or all classes and events of a package."""
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
        """The schema of a class or event, or why there is none."""
        if request.key.package not in self._packages:
            return CommandComplete(request.sequence, FAILED, "Package not found")
        definition = self.definitions.find_class(request.key) or self.definitions.find_event(request.key)
        if definition is None:
            return CommandComplete(request.sequence, FAILED, "Class key not found")
        return SchemaResponse(request.sequence, definition)

    def objects(self, query: GetQuery) -> Iterator[bytes]:
        """The bodies that tell the objects of a class, or one by its id.

        Raises:
            ProtocolError: the query names neither; before anything is yielded.
        """
        records = ([one.object_record(query.sequence)] for one in self._selected(query))
        return join_records(records, limit=MAX_OBJECTS)

    def single(self, query: GetQuery) -> AgentObject | None:
        """The object that is asked for by its id; ``None`` where a class is, or there is no such object."""
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
