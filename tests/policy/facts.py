"""What a principal sees of the world, as single facts: as the evaluator says, to compare front ends with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

from tests.policy.evaluator import Evaluator
from tests.policy.world import (
    ALARM,
    SOURCES,
    Happening,
    Thing,
    alarm_condition,
    alarm_text,
    endings,
    happenings,
    number_of,
    operation_id,
    quotes_of,
    things,
)

Fact: TypeAlias = tuple[str | int | frozenset[str], ...]
"""Its kind, and what is seen; `expected` says what each kind has."""


class Expected:
    """The facts of one principal.

    Args:
        evaluator: reads the policy.
        who: the principal.
        stamp: the number in all values.

    Attributes:
        things: all objects, seen or not.
        stamp: the number in all values.
    """

    def __init__(self, evaluator: Evaluator, who: str, stamp: int) -> None:
        self._evaluator = evaluator
        self._who = who
        self.things = things(stamp)
        self._happenings = happenings(self.things, stamp)
        self.stamp = stamp

    def sources(self) -> set[Fact]:
        """``("source", name)``."""
        return {("source", name) for name in SOURCES.values() if self._evaluator.sees(self._who, name)}

    def objects(self) -> set[Fact]:
        """``("object", path)``: those that are shown with their names."""
        return self._objects

    def values(self) -> set[Fact]:
        """``("value", path, element, value)`` of objects that are shown; a reference is a path."""
        return {
            ("value", thing.path, element, value.path if isinstance(value, Thing) else value)
            for thing in self.things
            for element, value in thing.values.items()
            if self._shows(thing)
            and self._reads(thing, element)
            and (not isinstance(value, Thing) or self._shows(value))
        }

    def numbers(self) -> set[Fact]:
        """``("number", path, element, value)``."""
        return {("number", *fact[1:]) for fact in self.values() if isinstance(fact[3], int)}

    def parents(self) -> set[Fact]:
        """``("parent", path, path of the parent)``."""
        return {
            ("parent", thing.path, thing.parent.path)
            for thing in self.things
            if thing.parent is not None and self.shows_parent(thing)
        }

    def shows_parent(self, thing: Thing) -> bool:
        """Whether the parent of an object is shown: the reference is read, and leads to what is shown."""
        parent = thing.parent
        return (
            parent is not None and self._shows(thing) and self._reads(thing, "vhost") and self._shows(parent)
        )

    def events(self) -> set[Fact]:
        """``("event", id, text, names of arguments)``."""
        return {fact for what in self._happenings for fact in self._event(what)}

    def ends_of_alarms(self) -> set[Fact]:
        """Events that end the alarms of objects that have ended themselves, as `events`."""
        return {fact for what in endings(self.things, self.stamp) for fact in self._event(what)}

    def text_of_alarm(self, thing: Thing) -> str:
        """Return the text with which the alarm of an object is shown."""
        return alarm_text(thing) if self._may_quote(thing, quotes_of(thing)) else alarm_condition(thing)

    def alarms(self) -> set[Fact]:
        """``("alarm", path)``."""
        return {
            ("alarm", thing.path)
            for thing in self.things
            if thing.class_name == "rabbitmq:queue"
            and self._shows(thing)
            and self._evaluator.raises(self._who, thing.place[0], ALARM, thing.place[1:])
        }

    def operations(self) -> set[Fact]:
        """``("operation", id, names of values)``, of another principal."""
        return self._operations

    @property
    def questions(self) -> int:
        """The number of facts that who sees everything sees."""
        values = sum(len(thing.values) for thing in self.things)
        return len(SOURCES) + values + 2 * len(self.things) + len(self._happenings)

    def elements(self, thing: Thing) -> set[str]:
        """Return the elements of an object that are read."""
        return {element for element in thing.values if self._reads(thing, element)}

    def thing(self, path: str) -> Thing:
        """Return an object, seen or not."""
        [thing] = [thing for thing in self.things if thing.path == path]
        return thing

    def operation_on(self, path: str) -> str:
        """Return the id of the operation on an object."""
        return operation_id(self.thing(path))

    def operations_on(self, path: str) -> set[Fact]:
        """Return the facts of the operation on an object."""
        return {fact for fact in self.operations() if fact[1] == self.operation_on(path)}

    @cached_property
    def _objects(self) -> set[Fact]:
        return {("object", thing.path) for thing in self.things if self._shows(thing)}

    @cached_property
    def _operations(self) -> set[Fact]:
        return {
            ("operation", operation_id(thing), frozenset({number_of(thing)} & self.elements(thing)))
            for thing in self.things
            if self._shows(thing) and self._evaluator.audits(self._who, *thing.place)
        }

    # ---- questions ----------------------------------------------------------------------------------------

    def _reads(self, thing: Thing, element: str) -> bool:
        return self._evaluator.reads(self._who, *thing.place, element)

    def _shows(self, thing: Thing) -> bool:
        return self._evaluator.sees(self._who, thing.place[0]) and self._evaluator.shows_name(
            self._who, *thing.place, thing.named
        )

    def _event(self, what: Happening) -> Iterator[Fact]:
        source, event = SOURCES[what.source], str(what.in_class.schema.key)
        subject = None if what.subject is None else what.subject.place[1:]
        exists = (
            self._evaluator.sees(self._who, source) if what.subject is None else self._shows(what.subject)
        )
        if not exists or not self._evaluator.receives(self._who, source, event, subject):
            return
        if what.alarm:
            assert subject is not None
            if not self._evaluator.raises(self._who, source, what.alarm, subject):
                return
        private = self._evaluator.private_arguments(event)
        if private and self._evaluator.reveals(self._who, source, event, subject):
            private = set()
        shown = {
            name
            for name, value in what.values.items()
            if name not in private and (not isinstance(value, Thing) or self._shows(value))
        }
        is_whole = not private and shown == what.values.keys()
        if event.startswith("gateway:") and what.subject is not None:
            is_whole = is_whole and self._may_quote(what.subject, what.quotes)
        yield (
            "event",
            what.event_id,
            what.text if is_whole else what.in_class.schema.label,
            frozenset(shown),
        )

    def _may_quote(self, thing: Thing, elements: tuple[str, ...] | None) -> bool:
        """Return whether a text that quotes these elements, ``None`` for any, is shown."""
        if elements is None:
            return self._evaluator.sees_everything(self._who)
        values = [thing.values[element] for element in elements]
        return all(self._reads(thing, element) for element in elements) and all(
            self._shows(value) for value in values if isinstance(value, Thing)
        )
