"""Converts content records to observations of the model, without secrets.

Elements that hold secrets are dropped from schemas and values here, references become the model's, and
the marks of an agent of this gateway are applied: for absent statistics, for objects that may count on where
others ended, and for stale objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition, schema_hash
from gateway.dialects.qmf.fields import NO_HASH, prefix_of
from gateway.dialects.qmf.messages import Content, EventIndication
from gateway.dialects.qmf.model_values import (
    absence_applied,
    counts_inherited,
    has_absence_marks,
    has_stale_marks,
    model_severity,
    staleness_applied,
    without_marks,
)
from gateway.dialects.qmf.schema_records import write_class, write_event
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues
from gateway.model.observations import ClassLearned, EventLearned, EventSeen, ObjectSeen
from gateway.model.schema import Argument, ClassKey, Direction, Element
from gateway.model.secrets import SecretRules, mask_uris
from gateway.model.values import Reference, Value, Values, ValueType

_Convert = Callable[[QmfValue], "Value | None"]


class _Group:
    """Converts one group of wire values to values of the model, without the dropped ones."""

    __slots__ = ("_converters", "_kept")

    def __init__(self, items: Sequence[Element | Argument], rules: SecretRules) -> None:
        kept = [position for position, item in enumerate(items) if not rules.hides(item.name)]
        self._kept = None if len(kept) == len(items) else tuple(kept)
        converters = ((place, _converter(items[position].type, rules)) for place, position in enumerate(kept))
        self._converters = tuple((place, convert) for place, convert in converters if convert is not None)

    def shown(self, values: QmfValues) -> Values:
        picked = list(values) if self._kept is None else [values[position] for position in self._kept]
        # A value without a converter is the same in both: it is neither reference nor map nor list.
        shown = cast("list[Value | None]", picked)
        for place, convert in self._converters:
            value = picked[place]
            if value is not None:
                shown[place] = convert(value)
        return tuple(shown)


def _converter(value_type: ValueType, rules: SecretRules) -> _Convert | None:
    if value_type is ValueType.REFERENCE:
        return _reference
    if value_type is ValueType.STRING:
        return lambda value: mask_uris(str(value))
    if value_type in (ValueType.MAP, ValueType.LIST):
        return lambda value: rules.masked(_plain(value))
    return None


def _reference(value: QmfValue) -> Reference | None:
    return Reference(str(value)) if value else None


def _plain(value: QmfValue) -> Value:
    """Return a map or list without its nulls, for which the model has no value."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, tuple):
        return tuple(_plain(inner) for inner in value if inner is not None)
    return cast("Value", value)  # neither null nor an object id, which cannot be nested


class _ClassView:
    __slots__ = ("key", "marks_absence", "marks_staleness", "properties", "statistics")

    def __init__(self, key: ClassKey, definition: ClassDefinition, rules: SecretRules) -> None:
        visible = without_marks(definition.schema)
        self.key = key
        self.marks_absence = has_absence_marks(definition.schema)
        self.marks_staleness = has_stale_marks(definition.schema)
        self.properties = _Group(visible.properties, rules)
        self.statistics = _Group(visible.statistics, rules)


class ContentTranslator:
    """Converts schemas, content and events to observations.

    Args:
        rules: which elements are dropped, and what is masked in the rest.
    """

    def __init__(self, rules: SecretRules) -> None:
        self._rules = rules
        self._classes: dict[ClassKey, _ClassView] = {}
        self._events: dict[ClassKey, tuple[ClassKey, _Group]] = {}
        self._definitions: dict[ClassKey, ClassDefinition] = {}

    def learn(self, definition: ClassDefinition | EventDefinition) -> ClassLearned | EventLearned:
        """Return the observation of a schema, and prepare for its records."""
        if isinstance(definition, ClassDefinition):
            return self._learn_class(definition)
        key = self.model_key(definition)
        self._events[definition.key] = key, _Group(definition.schema.arguments, self._rules)
        arguments = tuple(one for one in definition.schema.arguments if not self._rules.hides(one.name))
        return EventLearned(replace(definition.schema, key=key, arguments=arguments))

    def _learn_class(self, definition: ClassDefinition) -> ClassLearned:
        key = self.model_key(definition)
        previous = self._classes.get(definition.key)
        if previous is not None:
            self._definitions.pop(previous.key, None)
        self._classes[definition.key] = _ClassView(key, definition, self._rules)
        self._definitions[key] = definition
        visible = without_marks(definition.schema)
        shown = replace(
            visible,
            key=key,
            properties=tuple(one for one in visible.properties if not self._rules.hides(one.name)),
            statistics=tuple(one for one in visible.statistics if not self._rules.hides(one.name)),
            methods=definition.callable_methods,
        )
        return ClassLearned(shown)

    def model_key(self, definition: ClassDefinition | EventDefinition) -> ClassKey:
        """Return the model's key of a class or event.

        It has a computed hash where the agent sends none, as the Java broker does.
        """
        key = definition.key
        if key.hash != NO_HASH:
            return key
        if isinstance(definition, ClassDefinition):
            octets = write_class(definition)
        else:
            octets = write_event(definition)
        return replace(key, hash=schema_hash(key, octets))

    def definition(self, key: ClassKey) -> ClassDefinition | None:
        """Return the class that was observed under ``key``, unless it has changed since."""
        return self._definitions.get(key)

    def outputs(self, definition: ClassDefinition, method: str, octets: bytes) -> Values:
        """Return the outputs of a method, in schema order; a secret is absent, so that positions are kept.

        Raises:
            ProtocolError: ``octets`` are not valid outputs of the method.
        """
        values, end = definition.outputs[method].read(octets, 0)
        if end != len(octets):
            raise ProtocolError("the end of the outputs", f"{len(octets) - end} more octets", end)
        arguments = definition.methods[method].arguments
        outputs = [one for one in arguments if one.direction is not Direction.IN]
        return tuple(self._shown(argument, value) for argument, value in zip(outputs, values, strict=True))

    def _shown(self, argument: Argument, value: QmfValue) -> Value | None:
        if value is None or self._rules.hides(argument.name):
            return None
        convert = _converter(argument.type, self._rules)
        return cast("Value", value) if convert is None else convert(value)

    def content(self, message: Content, now: int) -> ObjectSeen:
        """Return the observation of a c, i or g record of a known class, received ``now`` (ns)."""
        view = self._classes[message.key]
        properties = message.properties
        unread_since: int | None = 0
        if view.marks_staleness:
            properties, unread_since = staleness_applied(properties, now)
        statistics, inherited = message.statistics, False
        if statistics is not None and view.marks_absence:
            statistics, inherited = absence_applied(statistics), counts_inherited(statistics)
        agent, text, is_persistent = prefix_of(message.object_id.prefix)
        return ObjectSeen(
            view.key,
            agent,
            f"{text}{message.object_id.number}",
            message.sampled,
            message.created,
            message.deleted,
            None if properties is None else view.properties.shown(properties),
            None if statistics is None else view.statistics.shown(statistics),
            persistent_id=is_persistent,
            unread_since=unread_since,
            inherited=inherited,
        )

    def event(self, message: EventIndication, agent: str) -> EventSeen:
        """Return the observation of an e record of a known event."""
        key, group = self._events[message.key]
        severity = model_severity(message.severity)
        return EventSeen(key, agent, message.time, severity, group.shown(message.arguments))


def joined(first: ObjectSeen, second: ObjectSeen) -> ObjectSeen | None:
    """Return one observation for a c record and the following i record of the same object, if they match.

    Otherwise a deleted object would be reported again after its end.
    """
    belongs = first.native_id == second.native_id and first.key == second.key
    if not belongs or first.statistics is not None or second.properties is not None:
        return None
    return ObjectSeen(
        second.key,
        second.agent,
        second.native_id,
        second.sampled,
        second.created,
        first.deleted or second.deleted,
        first.properties,
        second.statistics,
        persistent_id=second.persistent_id,
        unread_since=first.unread_since,
        inherited=second.inherited,
    )
