"""Overrides: an operator's changes of the mappings, applied to classes and events as they are learnt.

They come after the mapping of the package, and reach classes and elements that no mapping has. What is
excluded is cut out of schemas first (`class_cut`, `event_cut`); the inventory then drops its values before
anything else receives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from pydantic import ValidationError

from gateway.mapping.override_rules import (
    AlarmOverride,
    ArgumentOverride,
    ClassOverride,
    ElementOverride,
    EventOverride,
    MethodOverride,
    OverrideFile,
)
from gateway.mapping.rules import AlarmRule, ClassRule, EventRule, MethodRule
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, Method

_Override = TypeVar("_Override")
_SAID = ("label", "description")


class Overrides:
    """The overrides of all files.

    Args:
        files: in the order of the configuration; later ones count over earlier ones.

    Attributes:
        secrets: regular expressions of the names of secrets, for `SecretRules`.
    """

    def __init__(self, files: Iterable[OverrideFile] = ()) -> None:
        files = tuple(files)
        self.secrets = tuple(pattern for file in files for pattern in file.secrets)
        self._secret = tuple(map(re.compile, self.secrets))
        self._classes = [item for file in files for item in file.classes.items()]
        self._events = [item for file in files for item in file.events.items()]
        self._of_class: dict[str, tuple[ClassOverride, ...]] = {}
        self._of_event: dict[str, tuple[EventOverride, ...]] = {}
        self._alarms: dict[str, dict[str, AlarmRule]] = {}

    def __bool__(self) -> bool:
        return bool(self._classes or self._events or self.secrets)

    @property
    def log_intervals(self) -> dict[str, int]:
        """The shortest times between records of statistics (ns), by patterns; the first match counts."""
        # What is said last counts, so that it comes first here.
        given: dict[str, int] = {}
        for pattern, override in reversed(self._classes):
            if override.log_interval is not None:
                given.setdefault(pattern, override.log_interval)
        return given

    @property
    def exclusions(self) -> tuple[object, ...]:
        """What is said of the exclusion of classes and elements, in order; for comparison only."""
        return tuple(
            (pattern, override.exclude, excluded)
            for pattern, override in self._classes
            if (excluded := _exclusions(override)) or override.exclude is not None
        )

    def excludes_class(self, class_name: str) -> bool:
        """Return whether the class ``package:name`` is dropped whole."""
        return _is_excluded(self._class(class_name))

    def class_cut(self, schema: ClassSchema, rule: ClassRule | None) -> ClassSchema | None:
        """Return a class without what is excluded, or secret by `secrets`; ``None`` if nothing is left of it.

        What names and lifetimes of its objects are made of stays: see `needed_elements`.

        Args:
            schema: as learnt.
            rule: the mapping's rule of the class, if it has one.
        """
        given = self._class(str(schema.key))
        if _is_excluded(given):
            return None
        needed = needed_elements(schema, rule)

        def stays(element: Element) -> bool:
            return element.name in needed or not self._drops(element.name, (one.elements for one in given))

        properties, statistics = (tuple(filter(stays, e)) for e in (schema.properties, schema.statistics))
        methods = tuple(
            method
            for method in schema.methods
            if not _is_excluded(_matching(method.name, (one.methods for one in given)))
        )
        if (properties, statistics, methods) == (schema.properties, schema.statistics, schema.methods):
            return schema
        return replace(schema, properties=properties, statistics=statistics, methods=methods)

    def event_cut(self, schema: EventSchema, rule: EventRule | None) -> EventSchema | None:
        """Return an event without arguments that are excluded or secret; ``None`` if it is excluded."""
        given = self._event(str(schema.key))
        if _is_excluded(given):
            return None
        subject = None if rule is None else rule.subject
        arguments = tuple(
            argument
            for argument in schema.arguments
            if argument.name == subject or not self._drops(argument.name, (one.arguments for one in given))
        )
        return schema if arguments == schema.arguments else replace(schema, arguments=arguments)

    def class_schema(self, schema: ClassSchema, rule: ClassRule | None) -> ClassSchema:
        """Return a class, with its mapping applied, with labels, descriptions, units and kinds of overrides.

        Args:
            schema: what `class_cut` left, with the mapping applied.
            rule: the mapping's rule of the class, if it has one: a unit that it states stays.
        """
        given = self._class(str(schema.key))
        if not given:
            return schema
        stated = {} if rule is None else {**rule.properties, **rule.statistics}

        def changed(element: Element) -> Element:
            has_unit = element.name in stated and bool(stated[element.name].unit)
            return _element(element, _matching(element.name, (one.elements for one in given)), has_unit)

        return replace(
            schema,
            properties=tuple(map(changed, schema.properties)),
            statistics=tuple(map(changed, schema.statistics)),
            methods=tuple(
                _method(method, _matching(method.name, (one.methods for one in given)))
                for method in schema.methods
            ),
            **_last(given, _SAID),
        )

    def event_schema(self, schema: EventSchema) -> EventSchema:
        """Return an event, with its mapping applied, with labels, descriptions and units of overrides."""
        given = self._event(str(schema.key))
        if not given:
            return schema
        arguments = tuple(
            _argument(argument, _matching(argument.name, (one.arguments for one in given)))
            for argument in schema.arguments
        )
        return replace(schema, arguments=arguments, **_last(given, _SAID))

    def alarms(self, key: ClassKey, rules: MappingOf[str, AlarmRule]) -> MappingOf[str, AlarmRule]:
        """Return the alarms of a class, of which the mapping has ``rules``.

        A change that makes no alarm of one, because the mapping has none of that name, changes nothing.
        """
        given = self._class(str(key))
        if not given:
            return rules
        known = self._alarms.get(str(key))
        if known is None:
            known = dict(rules)
            for override in given:
                for name, change in override.alarms.items():
                    _change_alarm(known, name, change)
            self._alarms[str(key)] = known
        return known

    def event_rule(self, key: ClassKey, rule: EventRule | None) -> EventRule | None:
        """Return the rule of an event, of which the mapping has ``rule``."""
        changes = _last(self._event(str(key)), ("severity", "text"))
        if not changes:
            return rule
        return (EventRule() if rule is None else rule).model_copy(update=changes)

    def method_rule(self, key: ClassKey, method: str, rule: MethodRule | None) -> MethodRule | None:
        """Return the rule of a method, of which the mapping has ``rule``; it may only become dangerous."""
        given = _matching(method, (one.methods for one in self._class(str(key))))
        if rule is None or not any(one.dangerous for one in given):
            return rule  # what no mapping has is dangerous anyway
        return rule.model_copy(update={"dangerous": True})

    def hides(self, name: str) -> bool:
        """Return whether a name is that of a secret by these overrides."""
        return any(pattern.search(name) for pattern in self._secret)

    def _drops(
        self, name: str, given: Iterable[MappingOf[str, ElementOverride] | MappingOf[str, ArgumentOverride]]
    ) -> bool:
        return self.hides(name) or _is_excluded(
            [one for patterns in given for pattern, one in patterns.items() if fnmatchcase(name, pattern)]
        )

    def _class(self, class_name: str) -> tuple[ClassOverride, ...]:
        if class_name not in self._of_class:
            self._of_class[class_name] = _fitting(class_name, self._classes)
        return self._of_class[class_name]

    def _event(self, event_name: str) -> tuple[EventOverride, ...]:
        if event_name not in self._of_event:
            self._of_event[event_name] = _fitting(event_name, self._events)
        return self._of_event[event_name]


def _exclusions(override: ClassOverride) -> tuple[tuple[str, bool], ...]:
    elements = override.elements.items()
    return tuple((name, one.exclude) for name, one in elements if one.exclude is not None)


NO_OVERRIDES = Overrides()


def needed_elements(schema: ClassSchema, rule: ClassRule | None) -> frozenset[str]:
    """Return the elements of a class that cannot be excluded: objects are named and recognised by them.

    These are the index properties, ``name``, and what the mapping's rule has as name, parent or condition of
    the lifetime.
    """
    needed = {"name", *(element.name for element in schema.properties if element.index)}
    if rule is not None:
        needed |= {name for name in (rule.name, rule.parent) if name is not None}
        needed |= {*rule.fallback_parents, *(one.property for one in rule.lifetime.transient_when)}
    return frozenset(needed)


def _change_alarm(alarms: dict[str, AlarmRule], name: str, change: AlarmOverride) -> None:
    if change.remove:
        alarms.pop(name, None)
        return
    try:
        alarms[name] = change.changed(alarms.get(name))
    except ValidationError:
        return


def _fitting(name: str, patterns: Sequence[tuple[str, _Override]]) -> tuple[_Override, ...]:
    return tuple(override for pattern, override in patterns if fnmatchcase(name, pattern))


def _matching(name: str, given: Iterable[MappingOf[str, _Override]]) -> list[_Override]:
    return [one for patterns in given for one in _fitting(name, tuple(patterns.items()))]


def _is_excluded(
    given: Iterable[ClassOverride | ElementOverride | MethodOverride | EventOverride | ArgumentOverride],
) -> bool:
    said = [one.exclude for one in given if one.exclude is not None]
    return bool(said) and said[-1]


def _last(given: Iterable[object], names: Iterable[str]) -> dict[str, Any]:
    """Return the last value that is given of each of these names."""
    return {name: value for one in given for name in names if (value := getattr(one, name)) is not None}


def _element(element: Element, given: Iterable[ElementOverride], has_unit: bool) -> Element:  # noqa: FBT001
    changes = _last(given, ("unit", "kind", *_SAID))
    if has_unit:
        changes.pop("unit", None)
    if not element.type.is_number:
        changes.pop("kind", None)
    return replace(element, **changes) if changes else element


def _method(method: Method, given: Iterable[MethodOverride]) -> Method:
    changes = _last(given, _SAID)
    return replace(method, **changes) if changes else method


def _argument(argument: Argument, given: Iterable[ArgumentOverride]) -> Argument:
    changes = _last(given, ("unit", *_SAID))
    if argument.unit:
        changes.pop("unit", None)
    return replace(argument, **changes) if changes else argument
