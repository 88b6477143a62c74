"""The registry of classes and events: numbered for the feed, with their mapping applied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingOf

from gateway.feed.records import ClassRecord, EventClassRecord
from gateway.inventory.own_events import OWN_EVENTS
from gateway.mapping.files import applied, applied_event, settable_by_methods, settable_natively, with_kinds
from gateway.mapping.overrides import NO_OVERRIDES, Overrides
from gateway.mapping.rules import (
    AlarmRule,
    ClassRule,
    Condition,
    EventRule,
    IdentityRule,
    Mapping,
    MethodRule,
    SetRule,
)
from gateway.model.schema import (
    ClassKey,
    ClassSchema,
    EventSchema,
    with_distinct_arguments,
    with_distinct_names,
)
from gateway.model.stable_names import part_text
from gateway.model.values import Values, ValueType

ALWAYS_TRANSIENT = frozenset({"connection", "channel", "session", "consumer", "subscription"})
"""Classes whose objects never come back, unless a mapping has a rule for the class."""


class ClassRegistry:
    """All versions of classes and events met in this epoch over all sources, and the gateway's events.

    Two sources may report different schemas under one key (a Java broker's hashes are all zero), so a number
    belongs to a schema, not to a key.

    Args:
        mappings: the mappings by package.
        overrides: an operator's changes of them.

    Attributes:
        called_in_events: classes (``package:name``) whose objects are named by the text of an event's
            subject.
    """

    def __init__(self, mappings: MappingOf[str, Mapping], overrides: Overrides = NO_OVERRIDES) -> None:
        self._mappings = mappings
        self._overrides = overrides
        self.called_in_events = frozenset(_called_in(mappings.values()))
        self._classes: dict[ClassKey, list[ClassRecord]] = {}
        self._events: dict[ClassKey, list[EventClassRecord]] = {}
        self._names: dict[int, str] = {}
        self._event_names: dict[int, str] = {}
        self._parents: dict[int, tuple[int, ...]] = {}
        self._identity_rules = {
            f"{package}:{name}": rule.identity
            for package, mapping in mappings.items()
            for name, rule in mapping.classes.items()
            if rule.identity is not None
        }
        self._next_number = 1
        for schema in OWN_EVENTS:
            self.event_record(schema)

    def class_record(self, schema: ClassSchema, *, sets_natively: bool = False) -> ClassRecord:
        """Return the record of a class learnt from the wire; equal schemas have the same one.

        Args:
            schema: the schema as learnt, after `class_cut`.
            sets_natively: the source's dialect has a request of its own to set properties.
        """
        mapping, rule = self._mappings.get(schema.key.package), self._rule(schema.key)
        mapped = with_kinds(applied(mapping, schema) if mapping else schema, rule)
        mapped = self._overrides.class_schema(mapped, rule)
        if sets_natively:
            mapped = settable_natively(mapped, schema, rule)
        else:
            mapped = settable_by_methods(mapped, rule)
        mapped = with_distinct_names(mapped)
        versions = self._classes.setdefault(schema.key, [])
        for record in versions:
            if record.schema == mapped:
                return record
        names = {element.name for element in mapped.properties}
        record = ClassRecord(
            self._number(),
            mapped,
            rule.name if rule and rule.name in names else "",
            rule.parent if rule and rule.parent in names else "",
        )
        versions.append(record)
        self._names[record.number] = str(schema.key)
        return record

    def event_record(self, schema: EventSchema) -> EventClassRecord:
        """Return the record of an event learnt from the wire; equal schemas have the same one."""
        mapping = self._mappings.get(schema.key.package)
        overlaid = applied_event(mapping, schema) if mapping else schema
        mapped = with_distinct_arguments(self._overrides.event_schema(overlaid))
        versions = self._events.setdefault(schema.key, [])
        for record in versions:
            if record.schema == mapped:
                return record
        versions.append(record := EventClassRecord(self._number(), mapped))
        self._event_names[record.number] = str(mapped.key)
        return record

    def any_version(self, class_name: str) -> ClassRecord | None:
        """Return the record of a version of the class ``package:class``; ``None`` where none was met."""
        package, _, name = class_name.partition(":")
        versions = (each for key, each in self._classes.items() if (key.package, key.name) == (package, name))
        return next((records[0] for records in versions), None)

    @property
    def last_number(self) -> int:
        """The number of the record that was made last."""
        return self._next_number - 1

    def event_name(self, number: int) -> str:
        """Return the name of an event, ``package:name``, by the number of one of its versions."""
        return self._event_names[number]

    @property
    def excludes(self) -> bool:
        """Whether overrides may exclude anything."""
        return bool(self._overrides)

    def excludes_class(self, class_name: str) -> bool:
        """Return whether overrides exclude the class ``package:name``."""
        return self._overrides.excludes_class(class_name)

    def class_cut(self, schema: ClassSchema) -> ClassSchema | None:
        """Return a class without what overrides exclude; ``None`` if they exclude it as a whole."""
        return self._overrides.class_cut(schema, self._rule(schema.key))

    def event_cut(self, schema: EventSchema) -> EventSchema | None:
        """Return an event without what overrides exclude; ``None`` if they exclude it as a whole."""
        return self._overrides.event_cut(schema, self._mapped_event_rule(schema.key))

    def event_rule(self, key: ClassKey) -> EventRule | None:
        """Return the rule of an event; ``None`` where there is none."""
        return self._overrides.event_rule(key, self._mapped_event_rule(key))

    def identity_rule(self, class_name: str) -> IdentityRule | None:
        """Return how objects of a class (``package:name``) identify their peer; ``None`` if they do not."""
        return self._identity_rules.get(class_name)

    def set_rule(self, key: ClassKey, element: str) -> SetRule | None:
        """Return the rule for setting a property by a method; ``None`` where there is none."""
        rule = self._rule(key)
        known = rule.properties.get(element) if rule else None
        return known.set_by if known else None

    def method_rule(self, key: ClassKey, method: str) -> MethodRule | None:
        """Return the rule of a method; ``None`` where there is none."""
        rule = self._rule(key)
        return self._overrides.method_rule(key, method, rule.methods.get(method) if rule else None)

    def parent_positions(self, record: ClassRecord) -> tuple[int, ...]:
        """Return the positions of references to an object's parent: the first that is present leads to it."""
        known = self._parents.get(record.number)
        if known is None:
            rule = self._rule(record.schema.key)
            names = (record.parent_element, *(rule.fallback_parents if rule else ()))
            positions = record.schema.positions
            known = self._parents[record.number] = tuple(
                positions[name] for name in names if name in positions
            )
        return known

    def class_name(self, number: int) -> str:
        """Return ``package:class`` of a class by its number; empty where no class has it."""
        return self._names.get(number, "")

    def can_clear(self, alarm: str, class_name: str) -> bool:
        """Return whether a rule can end an alarm of a class's object (``package:name``; empty for none)."""
        package, _, name = class_name.rpartition(":")
        if name and alarm in self.alarm_rules(ClassKey(package, name)):
            return True
        return any(rule.clears == alarm for m in self._mappings.values() for rule in m.events.values())

    def alarm_rules(self, key: ClassKey) -> MappingOf[str, AlarmRule]:
        """Return the alarms of objects of a class, by name."""
        rule = self._rule(key)
        return self._overrides.alarms(key, rule.alarms if rule else {})

    def records(self) -> list[ClassRecord | EventClassRecord]:
        """Return all records in the order of their numbers."""
        known: list[ClassRecord | EventClassRecord] = [r for v in self._classes.values() for r in v]
        known += [r for v in self._events.values() for r in v]
        return sorted(known, key=lambda record: record.number)

    def is_transient(self, schema: ClassSchema, properties: Values) -> bool:
        """Return whether an object with these properties at its creation never comes back as the same one."""
        rule = self._rule(schema.key)
        if rule is None:
            return schema.key.name in ALWAYS_TRANSIENT
        lifetime = rule.lifetime
        return lifetime.default == "transient" or any(
            _holds(condition, schema, properties) for condition in lifetime.transient_when
        )

    def _mapped_event_rule(self, key: ClassKey) -> EventRule | None:
        mapping = self._mappings.get(key.package)
        return mapping.events.get(key.name) if mapping else None

    def _rule(self, key: ClassKey) -> ClassRule | None:
        mapping = self._mappings.get(key.package)
        return mapping.classes.get(key.name) if mapping else None

    def _number(self) -> int:
        number = self._next_number
        self._next_number += 1
        return number


def class_referred_to(package: str, references: str) -> str:
    """Return ``package:name`` of the class that an element or argument of a package ``references``."""
    return references if ":" in references else f"{package}:{references}"


def _called_in(mappings: Iterable[Mapping]) -> Iterator[str]:
    for mapping in mappings:
        for rule in mapping.events.values():
            subject = rule.arguments[rule.subject] if rule.subject is not None else None
            if subject is not None and subject.type is ValueType.STRING and subject.references:
                yield class_referred_to(mapping.package, subject.references)


def _holds(condition: Condition, schema: ClassSchema, properties: Values) -> bool:
    position = schema.positions.get(condition.property, len(properties))
    value = properties[position] if position < len(properties) else None
    if value is None:
        return False
    if condition.matches is not None:
        return re.search(condition.matches, part_text(value)) is not None
    return value == condition.equals
