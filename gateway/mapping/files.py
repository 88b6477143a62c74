"""Mapping files: reading the shipped ones and an operator's own, and applying a mapping to a schema.

A mapping either defines a class or event (where an agent of ours serves it: `class_schemas`,
`event_schemas`) or overlays one that was learnt from the wire (`applied`, `applied_event`). Both go through
the same rules, so that a console of ours shows our own agent in the same way in both cases.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from typing import Any, Final, TypeVar

from gateway.mapping.errors import MappingError
from gateway.mapping.rules import (
    ArgumentRule,
    ClassRule,
    ElementRule,
    EventRule,
    Mapping,
    MethodArgumentRule,
    MethodRule,
)
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Element,
    EventSchema,
    Kind,
    Method,
    NamedValue,
)
from gateway.model.values import ValueType
from gateway.shipped_files import shipped_folder
from gateway.yaml_documents import DocumentFile, StrictModel, complaint_at, read_document


def load_mapping(file: DocumentFile) -> Mapping:
    """Read one mapping file.

    Raises:
        DocumentError: it cannot be read or is not a mapping.
    """
    return read_document(file, Mapping)


def load_shipped_mappings() -> dict[str, Mapping]:
    """Return the mappings that are shipped with the gateway, by package.

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


def load_mappings(own_files: Iterable[DocumentFile]) -> dict[str, Mapping]:
    """Return the shipped mappings and an operator's own, by package.

    Args:
        own_files: the files of the operator's own mappings.

    Raises:
        DocumentError: a file cannot be read, or is not a mapping.
        FileNotFoundError: the shipped mappings are missing, so the installation is damaged.
        MappingError: two mappings are of the same package, or a mapping contradicts the shipped one to which
            it adds.
    """
    shipped = load_shipped_mappings()
    own: dict[str, Mapping] = {}
    for file in own_files:
        mapping = load_mapping(file)
        package = mapping.package
        known = shipped.get(package)
        if package in own or (known is not None and not known.takes_additions):
            whose = "stands before it" if package in own else "is shipped with the gateway"
            text = f"a mapping of the package {package!r} {whose}: there can be one of each"
            raise MappingError(str(complaint_at(file, [(("package",), text)])))
        try:
            own[package] = mapping if known is None else with_additions(known, mapping)
        except MappingError as error:
            place, _, text = str(error).partition(": ")
            raise MappingError(str(complaint_at(file, [(place.split("."), text)]))) from error
    return {**shipped, **own}


def secret_patterns(mapping: Mapping) -> tuple[str, ...]:
    """Return regular expressions of the names that the mapping holds secret, for `SecretRules`."""
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


def is_statistic(mappings: MappingOf[str, Mapping], package: str, class_name: str, element: str) -> bool:
    """Return whether an element is a statistic by the mappings (by package), for a dialect with one list."""
    mapping = mappings.get(package)
    rule = mapping.classes.get(class_name) if mapping is not None else None
    return rule is not None and element in rule.statistics


def class_schemas(mapping: Mapping) -> dict[str, ClassSchema]:
    """Return the classes that a mapping defines, by name, in the file's order; without hash and secrets.

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
        methods=tuple(_method(place, method_name, method) for method_name, method in rule.methods.items()),
        label=rule.label,
        description=rule.description,
    )


def _method(place: str, name: str, rule: MethodRule) -> Method:
    arguments = tuple(_argument(f"{place}.{name}", n, a, "a method") for n, a in rule.arguments.items())
    return Method(name, arguments, rule.label, rule.description)


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
    """Return the events that a mapping defines, by name, in the file's order; without hash and secrets.

    Raises:
        MappingError: an argument has no type.
    """
    return {name: _event_schema(mapping.package, name, rule) for name, rule in mapping.events.items()}


def _event_schema(package: str, name: str, rule: EventRule) -> EventSchema:
    place = f"{package}:{name}"
    return EventSchema(
        key=ClassKey(package, name),
        arguments=tuple(
            _argument(place, n, a, "an event") for n, a in rule.arguments.items() if not a.secret
        ),
        label=rule.label,
        description=rule.description,
    )


def _argument(place: str, name: str, rule: ArgumentRule | MethodArgumentRule, of: str) -> Argument:
    if rule.type is None:
        raise MappingError(
            f"{place}.{name}: has no type, which only {of} learnt from the wire can do without"
        )
    written = _written(rule, ("direction", *_OVERLAID_ARGUMENT))
    return Argument(name, rule.type, **written, values=named_values(rule, rule.type))


def named_values(
    rule: ElementRule | ArgumentRule | MethodArgumentRule, type_: ValueType
) -> tuple[NamedValue, ...]:
    """Return the enumeration of an element or argument: labels stand for 0, 1, ..., or for themselves."""
    if type_.integer_bits:
        return tuple(NamedValue(label, number) for number, label in enumerate(rule.values))
    return tuple(NamedValue(label, label) for label in rule.values)


def applied(mapping: Mapping, schema: ClassSchema) -> ClassSchema:
    """Return ``schema``, as learnt from the wire, with the mapping applied.

    The wire determines which elements exist, their types, their order and whether they may be absent. For all
    else the mapping has precedence, where it has a value for an element. A class that the mapping does not
    know, or of another package, is returned unchanged.
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
        methods=tuple(_overlaid_method(method, rule.methods.get(method.name)) for method in schema.methods),
        label=rule.label or schema.label,
        description=rule.description or schema.description,
    )


def with_kinds(schema: ClassSchema, rule: ClassRule | None) -> ClassSchema:
    """Return ``schema`` in which numbers that are properties have no kind, unless the mapping says theirs.

    A property is a port, an identifier, a limit or a setting; what is measured is a statistic.
    """
    written = set() if rule is None else {n for n, r in rule.properties.items() if _written(r, ("kind",))}

    def kind(element: Element) -> Kind:
        is_default = element.kind is Kind.GAUGE and element.name not in written
        return Kind.NONE if is_default and element.type.is_number else element.kind

    kinds = tuple(map(kind, schema.properties))
    if kinds == tuple(element.kind for element in schema.properties):
        return schema
    return replace(schema, properties=tuple(map(_of_kind, schema.properties, kinds)))


def _of_kind(element: Element, kind: Kind) -> Element:
    return element if element.kind is kind else replace(element, kind=kind)


def settable_by_methods(schema: ClassSchema, rule: ClassRule | None) -> ClassSchema:
    """Return ``schema`` in which only those elements are settable that a method of it sets, by the mapping.

    For sources whose dialect has no way to set a property, as QMF AM2, whatever access an agent reports of
    it: there must be a method, and the mapping must name it.
    """
    methods = _arguments_by_method(schema)
    return replace(
        schema,
        properties=tuple(
            _only_if(_is_set_by_method(_rule_of(rule, element), methods), element)
            for element in schema.properties
        ),
    )


def settable_natively(schema: ClassSchema, reported: ClassSchema, rule: ClassRule | None) -> ClassSchema:
    """Return ``schema`` in which only those elements are settable that a method or the own request sets.

    The dialect's own request sets the elements that the agent reports as settable. Where the mapping knows
    such an element, it must have it as settable, too: elements that MIB modules call read-only are not set.

    Args:
        schema: ``reported`` with the mapping applied.
        reported: the schema as learnt from the wire.
        rule: the mapping's rule of the class.
    """
    methods = _arguments_by_method(schema)

    def settable(element: Element, on_the_wire: Element) -> Element:
        known = _rule_of(rule, element)
        is_native = on_the_wire.access is Access.READ_WRITE and (
            known is None or known.access is Access.READ_WRITE
        )
        return _only_if(is_native or _is_set_by_method(known, methods), element)

    return replace(
        schema,
        properties=tuple(map(settable, schema.properties, reported.properties)),
        statistics=tuple(map(settable, schema.statistics, reported.statistics)),
    )


def _arguments_by_method(schema: ClassSchema) -> dict[str, set[str]]:
    return {method.name: {a.name for a in method.arguments} for method in schema.methods}


def _rule_of(rule: ClassRule | None, element: Element) -> ElementRule | None:
    return None if rule is None else rule.element(element.name)


def _is_set_by_method(known: ElementRule | None, methods: MappingOf[str, set[str]]) -> bool:
    set_by = known.set_by if known is not None else None
    return set_by is not None and set_by.argument in methods.get(set_by.method, ())


def _only_if(is_settable: bool, element: Element) -> Element:  # noqa: FBT001  what it asks is its name
    if is_settable or element.access is not Access.READ_WRITE:
        return element
    return replace(element, access=Access.READ_ONLY)


_OVERLAID = (
    *("access", "index", "unit", "minimum", "maximum", "max_length"),
    *("references", "label", "description", "kind"),
)


def _overlaid(element: Element, rule: ElementRule | None) -> Element:
    if rule is None:
        return element
    return replace(
        element, **_written(rule, _OVERLAID), values=named_values(rule, element.type) or element.values
    )


def _overlaid_method(method: Method, rule: MethodRule | None) -> Method:
    if rule is None:
        return method
    arguments = tuple(_overlaid_argument(a, rule.arguments.get(a.name)) for a in method.arguments)
    return replace(
        method,
        arguments=arguments,
        label=rule.label or method.label,
        description=rule.description or method.description,
    )


def applied_event(mapping: Mapping, schema: EventSchema) -> EventSchema:
    """Return ``schema``, as learnt from the wire, with the mapping applied, by the rules of `applied`.

    The mapping determines which arguments may be absent: no wire does.
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


_OVERLAID_ARGUMENT = (
    *("unit", "minimum", "maximum", "max_length", "default"),
    *("references", "label", "description", "optional"),
)


def _overlaid_argument(argument: Argument, rule: ArgumentRule | MethodArgumentRule | None) -> Argument:
    if rule is None:
        return argument
    written = _written(rule, _OVERLAID_ARGUMENT)
    return replace(argument, **written, values=named_values(rule, argument.type) or argument.values)


def _written(rule: ElementRule | ArgumentRule | MethodArgumentRule, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of these names that the mapping's rule has explicitly."""
    return {name: getattr(rule, name) for name in names if name in rule.model_fields_set}


_TEXTS: Final = frozenset({"label", "description"})
_OF_CLASS: Final = _TEXTS | {"alarms", "methods", "properties", "statistics"}
_OF_EVENT: Final = _TEXTS | {"severity", "text", "raises", "clears", "arguments"}

_Part = TypeVar("_Part", bound=StrictModel)


def with_additions(shipped: Mapping, own: Mapping) -> Mapping:
    """Return ``shipped`` with the additions of ``own``.

    Classes and events that are in ``shipped`` get the labels, descriptions, alarms, methods, severities and
    texts of ``own``; of elements and arguments only labels and descriptions. All other ones are added.

    Raises:
        MappingError: ``own`` contradicts what is published; the text says where.
    """
    added_classes = {
        name: _class(shipped.classes.get(name), rule, name) for name, rule in own.classes.items()
    }
    added_events = {name: _event(shipped.events.get(name), rule, name) for name, rule in own.events.items()}
    return shipped.model_copy(
        update={
            "classes": {**shipped.classes, **added_classes},
            "events": {**shipped.events, **added_events},
            "secrets": (*shipped.secrets, *own.secrets),
        }
    )


def _class(shipped: ClassRule | None, own: ClassRule, name: str) -> ClassRule:
    if shipped is None:
        return own
    _check_same(shipped, own, _OF_CLASS, f"classes.{name}")
    parts = {
        group: _parts(getattr(shipped, group), getattr(own, group), f"classes.{name}.{group}")
        for group in ("properties", "statistics")
    }
    alarms, methods = {**shipped.alarms, **own.alarms}, {**shipped.methods, **own.methods}
    return shipped.model_copy(update={**_said(own, _TEXTS), **parts, "alarms": alarms, "methods": methods})


def _event(shipped: EventRule | None, own: EventRule, name: str) -> EventRule:
    if shipped is None:
        return own
    _check_same(shipped, own, _OF_EVENT, f"events.{name}")
    arguments = _parts(shipped.arguments, own.arguments, f"events.{name}.arguments")
    return shipped.model_copy(update={**_said(own, _OF_EVENT), "arguments": arguments})


def _parts(shipped: MappingOf[str, _Part], own: MappingOf[str, _Part], place: str) -> dict[str, _Part]:
    """Return elements or arguments with the labels and descriptions of ``own``."""
    for name, part in own.items():
        if name not in shipped:
            raise MappingError(f"{place}.{name}: there is no such thing in the shipped mapping")
        _check_same(shipped[name], part, _TEXTS, f"{place}.{name}")
    return {
        name: part.model_copy(update=_said(own[name], _TEXTS)) if name in own else part
        for name, part in shipped.items()
    }


def _check_same(shipped: StrictModel, own: StrictModel, may_differ: frozenset[str], place: str) -> None:
    for name, value in _given(own):
        published = getattr(shipped, name)
        if name not in may_differ and value != published:
            shown = published.value if isinstance(published, enum.Enum) else published
            raise MappingError(f"{place}.{name}: the shipped mapping, which is published, has {shown!r} here")


def _said(own: StrictModel, names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in _given(own) if name in names}


def _given(rule: StrictModel) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(rule, name)) for name in type(rule).model_fields if name in rule.model_fields_set)
