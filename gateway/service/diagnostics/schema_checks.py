"""The check of mappings, overrides and rules of operations against what a broker or gateway reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.policy import OperationRule
from gateway.config.sources import AmiSource
from gateway.feed.records import ClassRecord
from gateway.mapping.files import load_mapping, load_mappings
from gateway.mapping.override_files import Place, known_of_schemas, nearest, remarks
from gateway.mapping.rules import Mapping
from gateway.mapping.schema_documents import SavedClass, SavedSchemas
from gateway.model.schema import Access, ClassSchema, EventSchema
from gateway.service.sources.standalone import first_reading
from gateway.terminal.view import TerminalView
from gateway.yaml_documents import DocumentFile, complaint_at

_OWN_PACKAGE = "gateway"


def schemas_of(view: TerminalView) -> SavedSchemas:
    """Return all classes and events of a view, without the gateway's own events."""
    records = [one for one in view.versions.values() if one.schema.key.package != _OWN_PACKAGE]
    classes = [one for one in records if isinstance(one, ClassRecord)]
    return SavedSchemas(
        tuple(SavedClass(one.schema, one.name_element, one.parent_element) for one in classes),
        tuple(one.schema for one in records if not isinstance(one, ClassRecord)),
    )


async def live_schemas(loaded: LoadedConfiguration, clock: Clock, patience: float) -> SavedSchemas:
    """Read the schemas of all sources, without overrides; a source that cannot be reached has none.

    Applications are not waited for: the port of a source of kind ``ami`` may be that of the running gateway.

    Args:
        loaded: the configuration.
        clock: the gateway's.
        patience: seconds for each source.

    Raises:
        DocumentError, MappingError, SecretError, CommandError: as of `first_reading`.
    """
    classes: list[SavedClass] = []
    events: list[EventSchema] = []
    for name, source in loaded.settings.sources.items():
        if not isinstance(source, AmiSource):
            found = schemas_of(await first_reading(loaded, name, clock, patience, overridden=False))
            classes += found.classes
            events += found.events
    return SavedSchemas(tuple(classes), tuple(events))


def check_against(loaded: LoadedConfiguration, schemas: SavedSchemas, *, is_bare: bool) -> list[str]:
    """Return remarks on what a configuration names that the schemas lack, each with file and line.

    Args:
        loaded: the configuration.
        schemas: what is there.
        is_bare: whether no overrides were applied to them; otherwise they may lack what is excluded.

    Raises:
        DocumentError: an override names what is not there; the text has file, line and the nearest name.
        MappingError: mappings contradict each other.
    """
    known = [saved.schema for saved in schemas.classes]
    mappings = load_mappings(loaded.mapping_files)
    found = remarks(
        loaded.override_files, known_of_schemas(known, schemas.events, mappings), may_lack=not is_bare
    )
    for path in loaded.mapping_files:
        found += _lines(path, _of_mapping(load_mapping(path), schemas))
    found += _lines(loaded.path, _of_rules(loaded.settings.operations.allow, known))
    return found


def _lines(file: DocumentFile, places: Iterable[tuple[Place, str]]) -> list[str]:
    found = list(places)
    return str(complaint_at(file, found)).splitlines() if found else []


def _of_mapping(mapping: Mapping, schemas: SavedSchemas) -> Iterator[tuple[Place, str]]:
    """Yield what a mapping of the operator names that its package lacks."""
    classes = {
        c.schema.key.name: c.schema for c in schemas.classes if c.schema.key.package == mapping.package
    }
    events = {e.key.name: e for e in schemas.events if e.key.package == mapping.package}
    for name, rule in mapping.classes.items():
        if name not in classes:
            yield ("classes", name), f"the package has no such class{nearest(name, classes)}"
            continue
        there = {element.name: element for element in classes[name].elements}
        for group, rules in (("properties", rule.properties), ("statistics", rule.statistics)):
            for element in rules:
                if element not in there:
                    text = f"{name} has no such element{nearest(element, there)}"
                    yield ("classes", name, group, element), text
    for name in mapping.events:
        if events and name not in events:
            yield ("events", name), f"the package has no such event{nearest(name, events)}"


def _of_rules(rules: Sequence[OperationRule], known: Sequence[ClassSchema]) -> Iterator[tuple[Place, str]]:
    names = {str(schema.key) for schema in known}
    for number, rule in enumerate(rules):
        place: Place = ("operations", "allow", number)
        for position, pattern in enumerate(rule.classes):
            if not any(fnmatchcase(name, pattern) for name in names):
                yield (*place, "classes", position), f"matches no class{nearest(pattern, names)}"
        meant = [one for one in known if any(fnmatchcase(str(one.key), each) for each in rule.classes)]
        if not meant:
            continue
        settable = {e.name for one in meant for e in one.elements if e.access is Access.READ_WRITE}
        methods = {method.name for one in meant for method in one.methods}
        for key, patterns, there, what in (
            ("set", rule.set, settable, "element that can be set"),
            ("invoke", rule.invoke, methods, "method"),
        ):
            for position, pattern in enumerate(patterns):
                if not any(fnmatchcase(name, pattern) for name in there):
                    yield (*place, key, position), f"matches no {what}{nearest(pattern, there)}"
