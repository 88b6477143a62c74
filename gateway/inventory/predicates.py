"""Alarm rules, bound to one version of a class: does the condition hold, and what to say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.feed.records import ClassRecord, ObjectRecord
from gateway.feed.values import FeedValue
from gateway.inventory.event_texts import ABSENT, line_from, value_text
from gateway.mapping.rules import AlarmRule
from gateway.model.schema import ClassSchema


@dataclass(frozen=True, slots=True)
class Predicate:
    """A rule and the position of the element that it tests in ``ClassSchema.elements``."""

    name: str
    rule: AlarmRule
    position: int
    schema: ClassSchema

    def holds(self, values: Mapping[int, FeedValue], *, standing: bool) -> bool:
        """Whether an object with these values has the condition; an absent value has none.

        Args:
            values: by position.
            standing: the condition held before, which matters where a rule has a second threshold to end it.
        """
        value = values.get(self.position)
        if value is None:
            return False
        rule = self.rule
        if rule.not_empty:
            return isinstance(value, str | bytes | tuple | Mapping) and len(value) > 0
        if rule.at_least is not None:
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            lasts_to = rule.clear_below if standing and rule.clear_below is not None else rule.at_least
            return value >= lasts_to
        return self._equals(value)

    def text(self, record: ObjectRecord) -> str:
        """What to tell people of an object that has the condition."""
        return line_from(self.rule.text, lambda name: self._text_of(name, record))

    def _equals(self, value: FeedValue) -> bool:
        """The value itself, or the label of an enumeration. In Python true is 1; here it is not."""
        wanted = self.rule.equals
        if isinstance(value, bool) or isinstance(wanted, bool):
            return value is wanted
        labels = self.schema.elements[self.position].values
        return value == wanted or any(n.label == wanted and n.value == value for n in labels)

    def _text_of(self, name: str, record: ObjectRecord) -> str:
        if name == "name":
            return record.leaf_name
        position = self.schema.positions.get(name)
        if position is None:
            return ABSENT
        return value_text(record.values.get(position), self.schema.elements[position])


def predicates_of(record: ClassRecord, rules: Mapping[str, AlarmRule]) -> tuple[Predicate, ...]:
    """The rules that can be tested: a version of the class that lacks an element says nothing of it."""
    schema = record.schema
    return tuple(
        Predicate(name, rule, schema.positions[rule.element], schema)
        for name, rule in rules.items()
        if rule.element in schema.positions
    )
