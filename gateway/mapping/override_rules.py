"""The shape of an override file: an operator's changes of mappings, by patterns of classes and elements.

Keys are patterns as of a shell. Where several match, all apply, in the order of the files and of the keys
within a file: what is said last counts.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.mapping.rules import AlarmRule, Name, RegularExpression
from gateway.model.schema import Kind
from gateway.yaml_documents import ClassPattern, Duration, Pattern, SeverityName, StrictModel, between

MAX_PATTERNS = 1_000
_WILD = re.compile(r"[*?\[]")

Text = Annotated[str, Field(max_length=1_000)]
"""A label or description."""


def is_exact(pattern: str) -> bool:
    """Return whether a pattern matches one name only, because it has no ``*``, ``?`` or ``[``."""
    return _WILD.search(pattern) is None


class _Shown(StrictModel):
    """What can be said of everything that has a name.

    Attributes:
        exclude: whether it is dropped before it is stored, logged or shown; ``false`` includes again what an
            earlier pattern excluded.
    """

    exclude: bool | None = None
    label: Text | None = None
    description: Text | None = None


class ElementOverride(_Shown):
    """Changes of properties and statistics.

    Attributes:
        unit: the unit of the value, where neither mapping nor agent has one. Values are not converted.
        kind: how a number behaves over time.
    """

    unit: Annotated[str, Field(max_length=64)] | None = None
    kind: Kind | None = None


class ArgumentOverride(_Shown):
    """Changes of the arguments of events; ``unit`` as of an element."""

    unit: Annotated[str, Field(max_length=64)] | None = None


class MethodOverride(_Shown):
    """Changes of methods.

    Attributes:
        dangerous: whether a rule under ``operations.allow`` has to name it in full. A mapping that says so
            cannot be contradicted.
    """

    dangerous: Literal[True] | None = None


class AlarmOverride(StrictModel):
    """A new alarm of a class, or changes of one that it has.

    A test that is given replaces the test that the alarm has.

    Attributes:
        remove: the class has no such alarm.
    """

    remove: Literal[True] | None = None
    element: Name | None = None
    equals: bool | int | str | None = None
    not_empty: bool | None = None
    at_least: int | float | None = None
    clear_below: int | float | None = None
    hold_down: bool | None = None
    absent_is_unknown: bool | None = None
    severity: SeverityName | None = None
    text: Text | None = None
    description: Text | None = None

    @model_validator(mode="after")
    def _either(self) -> AlarmOverride:
        if self.remove and self.model_fields_set != {"remove"}:
            raise ValueError("'remove: true' stands alone")
        return self

    def changed(self, former: AlarmRule | None) -> AlarmRule:
        """Return the alarm with these changes.

        Args:
            former: the alarm as it is; ``None`` for a new one.

        Raises:
            ValueError: the result is no alarm, because a part is missing or contradicts another one.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set if name != "remove"}
        if former is not None:
            known = {name: getattr(former, name) for name in former.model_fields_set}
            if given.keys() & {"equals", "not_empty", "at_least"}:
                for name in ("equals", "not_empty", "at_least", "clear_below"):
                    known.pop(name, None)
            given = known | given
        return AlarmRule.model_validate(given)


class ClassOverride(_Shown):
    """Changes of classes.

    Attributes:
        log_interval: the shortest time between two records of one object's statistics in the event log, as
            ``log.statistics_intervals``, which it precedes.
        elements: changes of properties and statistics, by patterns of their names.
        methods: changes of methods, by patterns of their names.
        alarms: changes of alarms, by name.
    """

    log_interval: Annotated[Duration, between("1ms", "1d")] | None = None
    elements: Annotated[dict[Pattern, ElementOverride], Field(max_length=MAX_PATTERNS)] = Field(
        default_factory=dict
    )
    methods: Annotated[dict[Pattern, MethodOverride], Field(max_length=MAX_PATTERNS)] = Field(
        default_factory=dict
    )
    alarms: Annotated[dict[Name, AlarmOverride], Field(max_length=MAX_PATTERNS)] = Field(default_factory=dict)


class EventOverride(_Shown):
    """Changes of events.

    Attributes:
        severity: counts over that of the mapping and of the agent; the end of a condition stays ``cleared``.
        text: one line for people, as in a mapping.
        arguments: changes of arguments, by patterns of their names.
    """

    severity: SeverityName | None = None
    text: Text | None = None
    arguments: Annotated[dict[Pattern, ArgumentOverride], Field(max_length=MAX_PATTERNS)] = Field(
        default_factory=dict
    )


class OverrideFile(StrictModel):
    """A whole override file, ``version: 1``.

    Attributes:
        secrets: regular expressions; an element, argument or key of a map whose name matches one is a secret
            in all packages.
        classes: changes by patterns of ``package:class``.
        events: changes by patterns of ``package:event``.
    """

    version: Literal[1]
    secrets: Annotated[
        tuple[Annotated[RegularExpression, Field(max_length=500)], ...], Field(max_length=100)
    ] = ()
    classes: Annotated[dict[ClassPattern, ClassOverride], Field(max_length=MAX_PATTERNS)] = Field(
        default_factory=dict
    )
    events: Annotated[dict[ClassPattern, EventOverride], Field(max_length=MAX_PATTERNS)] = Field(
        default_factory=dict
    )
