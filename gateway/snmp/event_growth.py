"""How a schema lock grows by events and their arguments.

As with classes nothing is ever taken back: an argument that changes gets another number, one that goes keeps
its own, and the arguments of a notification grow at their end only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.schema import Argument, EventSchema
from gateway.snmp.lock import Lock
from gateway.snmp.lock_entries import ArgumentLock, ArgumentTwin, EventLock, Status
from gateway.snmp.lock_growth import LockFullError, extended_values, revised
from gateway.snmp.names import unique, upper_camel
from gateway.snmp.syntax import Form, Syntax, argument_fits, argument_form, element_of

ArgumentUnits: TypeAlias = Mapping[tuple[str, str], Sequence[str]]
"""``snmp_unit`` of durations and times, and ``snmp_also`` where there is one, by event and argument."""

MAX_EVENTS = 1_000
MAX_ARGUMENTS = 2_000
MAX_ARGUMENTS_OF_AN_EVENT = 100
"""More than a datagram holds."""

_ROW_SUFFIX = "Row"
_NAME_SUFFIX = "FullName"


def argument_units(mapping: MappingFile) -> dict[tuple[str, str], tuple[str, ...]]:
    """The units that a mapping names for arguments of events, for `extend_events`."""
    return {
        (event_name, name): (argument.snmp_unit, *filter(None, [argument.snmp_also]))
        for event_name, rule in mapping.events.items()
        for name, argument in rule.arguments.items()
        if argument.snmp_unit
    }


def extend_events(
    lock: Lock,
    schemas: Iterable[EventSchema],
    today: dt.date,
    *,
    units: ArgumentUnits | None = None,
    retire: bool = True,
) -> Lock:
    """``lock`` with numbers for everything in ``schemas`` that it has none for.

    Events share arguments of the same name and form. Several versions of one event share its notification.

    Args:
        lock: stays as it is; returned itself when nothing is new.
        schemas: events of the lock's package, with the mapping applied.
        today: becomes LAST-UPDATED when anything is new.
        units: what `argument_units` says.
        retire: the schemas are the whole truth about their events: arguments that none of them has any more,
            and no other event either, turn obsolete. ``False`` where versions come to be known one by one.

    Raises:
        LockFullError: a bound was met; ``lock`` can be used on.
        ValueError: a schema of another package, or a unit that does not suit its argument.
    """
    growing = _Growing(lock)
    told: set[str] = set()
    for schema in schemas:
        if not lock.provisional and schema.key.package != lock.package:
            raise ValueError(f"{schema.key} is not of the package {lock.package}")
        told.add(lock.entry_name(schema.key))
        growing.grow_event(schema, units or {})
    if retire:
        growing.retire(told)
    return revised(
        lock, today, arguments=tuple(growing.arguments.values()), events=tuple(growing.events.values())
    )


@dataclass(slots=True)
class _Growing:
    """A lock being extended: arguments by arc, events by name, and the descriptors that are taken."""

    lock: Lock
    arguments: dict[int, ArgumentLock] = field(init=False)
    events: dict[str, EventLock] = field(init=False)
    _wanted: set[int] = field(default_factory=set)
    _taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.arguments = {argument.arc: argument for argument in self.lock.arguments}
        self.events = {event_lock.name: event_lock for event_lock in self.lock.events}

    def grow_event(self, schema: EventSchema, units: ArgumentUnits) -> None:
        event_lock = self._event(self.lock.entry_name(schema.key))
        arcs = list(event_lock.arguments)
        for argument, unit, is_first in _in_units(schema, units):
            arc = self._argument(argument, argument_form(argument, unit), arcs, is_first=is_first)
            self._wanted.add(arc)
            if arc not in arcs:
                arcs.append(arc)
        if len(arcs) > MAX_ARGUMENTS_OF_AN_EVENT:
            raise LockFullError(f"{schema.key}: an event has at most {MAX_ARGUMENTS_OF_AN_EVENT} arguments")
        self.events[event_lock.name] = event_lock.model_copy(update={"arguments": tuple(arcs)})

    def retire(self, told: set[str]) -> None:
        """Make obsolete what none of the events ``told`` wants, and what no other event lists."""
        listed = {
            arc
            for name, event_lock in self.events.items()
            if name not in told
            for arc in event_lock.arguments
        }
        for arc, argument in self.arguments.items():
            if argument.current and arc not in self._wanted and arc not in listed:
                self.arguments[arc] = argument.model_copy(update={"status": Status.OBSOLETE})

    def _event(self, name: str) -> EventLock:
        """The event of that name, with the next arc where it is new."""
        if name not in self.events:
            arc = max((event_lock.arc for event_lock in self.events.values()), default=0) + 1
            if len(self.events) >= MAX_EVENTS:
                raise LockFullError(f"{name}: a module has at most {MAX_EVENTS} events")
            descriptor = self._take(self.lock.prefix + upper_camel(name))
            self.events[name] = EventLock(name=name, arc=arc, descriptor=descriptor)
        return self.events[name]

    def _argument(self, argument: Argument, form: Form, of_event: Sequence[int], *, is_first: bool) -> int:
        """The arc of the argument that takes these values: one that the event has before any other."""
        fitting = [
            lock
            for lock in self.arguments.values()
            if lock.current and lock.name == argument.name and argument_fits(form, lock.form)
        ]
        found = min(
            fitting, key=lambda lock: (lock.form != form, lock.arc not in of_event, lock.arc), default=None
        )
        if found is None or (found.form != form and found.arc not in of_event):
            found = self._new_argument(argument, form, "" if is_first else upper_camel(form.unit))
        if form.syntax is Syntax.ENUMERATION:
            values = extended_values(found.values, element_of(argument))
            found = found.model_copy(update={"values": values})
        self.arguments[found.arc] = found
        return found.arc

    def _new_argument(self, argument: Argument, form: Form, suffix: str) -> ArgumentLock:
        arc = max((arc for lock in self.arguments.values() for arc in lock.arcs), default=0) + 1
        if len(self.arguments) >= MAX_ARGUMENTS:
            raise LockFullError(f"{argument.name}: a module has at most {MAX_ARGUMENTS} arguments of events")
        base = f"{self.lock.prefix}Event{upper_camel(argument.name)}{suffix}"
        reference = form.syntax is Syntax.ROW_POINTER
        descriptor = self._take(base + _ROW_SUFFIX if reference else base)
        twin = ArgumentTwin(arc=arc + 1, descriptor=self._take(base + _NAME_SUFFIX)) if reference else None
        return ArgumentLock(
            name=argument.name,
            arc=arc,
            syntax=form.syntax,
            descriptor=descriptor,
            unit=form.unit,
            twin=twin,
            values=extended_values((), element_of(argument)) if form.syntax is Syntax.ENUMERATION else (),
        )

    def _take(self, wanted: str) -> str:
        if not self._taken:
            self._taken = {descriptor.lower() for descriptor in self.lock.descriptors()}
        descriptor = unique(wanted, self._taken)
        self._taken.add(descriptor.lower())
        return descriptor


def _in_units(schema: EventSchema, units: ArgumentUnits) -> Iterator[tuple[Argument, str, bool]]:
    """The arguments in the order of their objects, each with its unit, and whether it is the first one.

    Objects in further units come behind all others.
    """
    named = {
        argument.name: units.get((schema.key.name, argument.name), ("",)) for argument in schema.arguments
    }
    for argument in schema.arguments:
        yield argument, named[argument.name][0], True
    for argument in schema.arguments:
        for unit in named[argument.name][1:]:
            yield argument, unit, False
