"""Mapping files: finding the shipped ones, and what a mapping makes of a schema.

A mapping either defines a class or event (where an agent of ours serves it: `class_schemas`,
`event_schemas`) or overlays one that was learnt from the wire (`applied`, `applied_event`). Both go through
the same rules, so what a console of ours shows of our own agent is the same either way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from pathlib import Path

from gateway.mapping.rules import ArgumentRule, ClassRule, ElementRule, EventRule, Mapping
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, NamedValue
from gateway.model.values import ValueType
from gateway.shipped_files import shipped_folder
from gateway.yaml_documents import read_document


class MappingError(Exception):
    """A mapping cannot be used for what is asked of it; the text says which element and why."""


def load_mapping(path: Path) -> Mapping:
    """Read one mapping file.

    Raises:
        DocumentError: it cannot be read or is not a mapping.
    """
    return read_document(path, Mapping)


def load_shipped_mappings() -> dict[str, Mapping]:
    """The mappings that travel with the gateway, by package.

    Raises:
        DocumentError: one of them is damaged.
        FileNotFoundError: there are none, so the installation is damaged.
        MappingError: two of them are of the same package.
    """
    mappings: dict[str, Mapping] = {}
    for path in sorted(shipped_folder("mappings").glob("*.yaml")):
        mapping = load_mapping(path)
        if mapping.package in mappings:
            raise MappingError(f"{path}: a second mapping of the package {mapping.package!r}")
        mappings[mapping.package] = mapping
    return mappings


def secret_patterns(mapping: Mapping) -> tuple[str, ...]:
    """Regular expressions of the names that the mapping holds secret, for `SecretRules`."""
    named = {
        name
        for rule in mapping.classes.values()
        for name, element in (*rule.properties.items(), *rule.statistics.items())
        if element.secret
    }
    named |= {
        n for rule in mapping.events.values() for n, argument in rule.arguments.items() if argument.secret
    }
    return (*mapping.secrets, *(rf"^{re.escape(name)}$" for name in sorted(named)))


def class_schemas(mapping: Mapping) -> dict[str, ClassSchema]:
    """The classes that a mapping defines, by name, in the file's order; without a hash, without secrets.

    Raises:
        MappingError: an element has no type.
    """
    return {name: _class_schema(mapping.package, name, rule) for name, rule in mapping.classes.items()}


def _class_schema(package: str, name: str, rule: ClassRule) -> ClassSchema:
    place = f"{package}:{name}"
    return ClassSchema(
        key=ClassKey(package, name),
        properties=_elements(place, rule.properties),
        statistics=_elements(place, rule.statistics),
        label=rule.label,
        description=rule.description,
    )


def _elements(place: str, rules: MappingOf[str, ElementRule]) -> tuple[Element, ...]:
    return tuple(_element(place, name, rule) for name, rule in rules.items() if not rule.secret)


def _element(place: str, name: str, rule: ElementRule) -> Element:
    if rule.type is None:
        raise MappingError(
            f"{place}.{name}: has no type, which only a class learnt from the wire can do without"
        )
    return Element(
        name=name,
        type=rule.type,
        access=rule.access,
        index=rule.index,
        optional=rule.optional,
        unit=rule.unit,
        minimum=rule.minimum,
        maximum=rule.maximum,
        max_length=rule.max_length,
        references=rule.references,
        label=rule.label,
        description=rule.description,
        values=named_values(rule, rule.type),
        kind=rule.kind,
    )


def event_schemas(mapping: Mapping) -> dict[str, EventSchema]:
    """The events that a mapping defines, by name, in the file's order; without a hash, without secrets.

    Raises:
        MappingError: an argument has no type.
    """
    return {name: _event_schema(mapping.package, name, rule) for name, rule in mapping.events.items()}


def _event_schema(package: str, name: str, rule: EventRule) -> EventSchema:
    place = f"{package}:{name}"
    return EventSchema(
        key=ClassKey(package, name),
        arguments=tuple(_argument(place, n, a) for n, a in rule.arguments.items() if not a.secret),
        label=rule.label,
        description=rule.description,
    )


def _argument(place: str, name: str, rule: ArgumentRule) -> Argument:
    if rule.type is None:
        raise MappingError(
            f"{place}.{name}: has no type, which only an event learnt from the wire can do without"
        )
    return Argument(
        name=name,
        type=rule.type,
        unit=rule.unit,
        max_length=rule.max_length,
        label=rule.label,
        description=rule.description,
        values=named_values(rule, rule.type),
        optional=rule.optional,
        references=rule.references,
    )


def named_values(rule: ElementRule | ArgumentRule, type_: ValueType) -> tuple[NamedValue, ...]:
    """The enumeration of an element or argument: labels of an integer are 0, 1, 2 ..., else themselves."""
    if type_.integer_bits:
        return tuple(NamedValue(label, number) for number, label in enumerate(rule.values))
    return tuple(NamedValue(label, label) for label in rule.values)


def applied(mapping: Mapping, schema: ClassSchema) -> ClassSchema:
    """``schema`` as learnt from the wire with the mapping laid over it.

    The wire decides what exists, its type, its order and what may be absent. Whatever else the mapping says
    of an element holds over what the wire says; what it leaves unsaid stays. A class that the mapping does
    not know, or of another package, comes back as it is.
    """
    rule = mapping.classes.get(schema.key.name)
    if rule is None or schema.key.package != mapping.package:
        return schema
    return replace(
        schema,
        properties=tuple(
            _overlaid(element, rule.properties.get(element.name)) for element in schema.properties
        ),
        statistics=tuple(
            _overlaid(element, rule.statistics.get(element.name)) for element in schema.statistics
        ),
        label=rule.label or schema.label,
        description=rule.description or schema.description,
    )


_OVERLAID = (
    *("access", "index", "unit", "minimum", "maximum", "max_length"),
    *("references", "label", "description", "kind"),
)


def _overlaid(element: Element, rule: ElementRule | None) -> Element:
    if rule is None:
        return element
    told = {name: getattr(rule, name) for name in _OVERLAID if name in rule.model_fields_set}
    return replace(element, **told, values=named_values(rule, element.type) or element.values)


def applied_event(mapping: Mapping, schema: EventSchema) -> EventSchema:
    """``schema`` as learnt from the wire with the mapping laid over it, by the rules of `applied`.

    What of the arguments may be absent is the mapping's to say: no wire does.
    """
    rule = mapping.events.get(schema.key.name)
    if rule is None or schema.key.package != mapping.package:
        return schema
    return replace(
        schema,
        arguments=tuple(_overlaid_argument(a, rule.arguments.get(a.name)) for a in schema.arguments),
        label=rule.label or schema.label,
        description=rule.description or schema.description,
    )


_OVERLAID_ARGUMENT = ("unit", "max_length", "references", "label", "description", "optional")


def _overlaid_argument(argument: Argument, rule: ArgumentRule | None) -> Argument:
    if rule is None:
        return argument
    told = {name: getattr(rule, name) for name in _OVERLAID_ARGUMENT if name in rule.model_fields_set}
    return replace(argument, **told, values=named_values(rule, argument.type) or argument.values)
