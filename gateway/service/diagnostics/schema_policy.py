"""What a change of schemas means for the rules of the policy: which of them match less or more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gateway.feed.access import fits
from gateway.model.schema import Access, ClassKey, ClassSchema, Element, EventSchema, Method
from gateway.policy.decisions import (
    CallMethod,
    NamedWish,
    ReadElement,
    SetElement,
    Subscribe,
    counts,
    name_and_patterns,
)
from gateway.policy.differences import limits_of
from gateway.policy.marks import Marks
from gateway.policy.rules import EVERY, EVERY_CLASS, RoleSet, Rule

MAX_NAMED: Final = 5
"""The number of principals of a rule that are named; of more, the rest is counted."""

_VERBS: Final = {ReadElement: "read", SetElement: "set", CallMethod: "invoke", Subscribe: "receive"}
"""Wishes in words."""


class PolicyEffects:
    """The effects of changes on rules.

    A rule without principals has none. Reading and receiving are lost only with a pattern that matches
    nothing any more: what is gone is gone for everyone.

    Args:
        roles: the roles and their principals.
        principals: the principals that the configuration knows (``front end:name``).
        marks: what is private or dangerous.
        classes: the classes that are left.
        events: the events that are left.
    """

    def __init__(
        self,
        roles: RoleSet,
        principals: Iterable[str],
        marks: Marks,
        classes: Sequence[ClassSchema],
        events: Sequence[EventSchema],
    ) -> None:
        named = dict.fromkeys((*principals, *roles.principals, *roles.grants))
        self._principals: dict[Rule, list[str]] = {}
        for principal in named:
            for rule in roles.rules_of(principal):
                self._principals.setdefault(rule, []).append(principal)
        self._marks = marks
        self._classes, self._events = classes, events

    @property
    def name_objects(self) -> bool:
        """Whether a rule names objects by patterns of their names."""
        return any(rule.objects != EVERY for rule in self._principals)

    def of_element(self, key: ClassKey, was: Element | None, now: Element | None) -> tuple[str, ...]:
        """Return the effects, one line each, of an element that comes, goes or changes."""
        (name,) = {element.name for element in (was, now) if element is not None}
        reading = self._changed(key, self._marks.reading(key, name), was, now)
        setting = self._changed(key, self._marks.setting(key, name), is_settable(was), is_settable(now))
        return (*reading, *setting)

    def of_method(self, key: ClassKey, name: str, was: object, now: object) -> tuple[str, ...]:
        """Return the effects of a method that comes or goes."""
        return tuple(self._changed(key, self._marks.calling(key, name), was, now))

    def of_event(self, key: ClassKey, was: object, now: object) -> tuple[str, ...]:
        """Return the effects of an event that comes or goes."""
        return tuple(self._changed(key, self._marks.subscribing(key), was, now))

    def of_class(self, schema: ClassSchema, *, is_new: bool) -> tuple[str, ...]:
        """Return the effects of a class that comes or goes as a whole.

        Elements that are read are counted.
        """
        was, now = (None, schema) if is_new else (schema, None)
        lines = [*self._reading_class(schema)] if is_new else []
        for element in filter(is_settable, schema.elements):
            lines += self._changed(schema.key, self._marks.setting(schema.key, element.name), was, now)
        for method in schema.methods:
            lines += self.of_method(schema.key, method.name, was, now)
        if not is_new:
            lines += self._without_class(schema.key)
        return tuple(lines)

    def _reading_class(self, schema: ClassSchema) -> Iterator[str]:
        wishes = [self._marks.reading(schema.key, element.name) for element in schema.elements]
        for rule in self._rules_of(schema.key):
            if read := sum(counts(rule, wish) for wish in wishes):
                number = "all" if read == len(wishes) else f"{read} of {len(wishes)}"
                yield self._line(rule, f"read {number} elements of {schema.key}")

    def _without_class(self, key: ClassKey) -> Iterator[str]:
        """Yield the rules whose patterns of classes match nothing without a class."""
        for rule in self._rules_of(key):
            is_left = any(fits(str(schema.key), rule.classes) for schema in self._classes)
            if not is_left and rule.classes != EVERY_CLASS:
                yield f"{rule.place}: its classes, {' '.join(rule.classes)}, match nothing any more"

    def _changed(self, key: ClassKey, wish: NamedWish, was: object, now: object) -> Iterator[str]:
        if bool(was) == bool(now):
            return
        of = "" if isinstance(wish, Subscribe) else f" of {key}"
        for rule in self._rules_of(None if isinstance(wish, Subscribe) else key):
            if not counts(rule, wish):
                continue
            name, patterns = name_and_patterns(rule, wish)
            what = f"{_VERBS[type(wish)]} {name}{of}"
            if now:
                yield self._line(rule, what)
                continue
            pattern = next(one for one in patterns if fits(name, (one,)))
            left = self._left(rule, wish, pattern)
            is_lost = left == 0 and pattern not in (*EVERY, *EVERY_CLASS)
            if is_lost or isinstance(wish, SetElement | CallMethod):
                others = f"matches {left} others" if left else "matches nothing any more"
                yield f"{self._line(rule, what, no_longer=True)}: {pattern!r} {others}"

    def _rules_of(self, key: ClassKey | None) -> Iterator[Rule]:
        """Yield the rules about objects of a class; without one, all."""
        for rule in self._principals:
            if key is None or fits(str(key), rule.classes):
                yield rule

    def _line(self, rule: Rule, what: str, *, no_longer: bool = False) -> str:
        principals = self._principals[rule]
        named = ", ".join(principals[:MAX_NAMED])
        if len(principals) > MAX_NAMED:
            named += f" and {len(principals) - MAX_NAMED} others"
        verb = "denies" if rule.denies else "lets"
        to = "to " if rule.denies else ""
        limits = limits_of(rule, with_classes=False)
        where = f", {limits}" if limits else ""
        return f"{rule.place} {'no longer ' if no_longer else ''}{verb} {named} {to}{what}{where}"

    def _left(self, rule: Rule, wish: NamedWish, pattern: str) -> int:
        """Return what a pattern of a rule still matches."""
        if isinstance(wish, Subscribe):
            return sum(fits(str(event.key), (pattern,)) for event in self._events)
        return sum(
            fits(part.name, (pattern,))
            for schema in self._classes
            if fits(str(schema.key), rule.classes)
            for part in _parts(schema, wish)
        )


def is_settable(element: Element | None) -> bool:
    """Return whether an element is there and can be set."""
    return element is not None and element.access is Access.READ_WRITE


def _parts(schema: ClassSchema, wish: NamedWish) -> Iterable[Element | Method]:
    """Return what wishes of this kind are about."""
    match wish:
        case CallMethod():
            return schema.methods
        case SetElement():
            return filter(is_settable, schema.elements)
        case _:
            return schema.elements
