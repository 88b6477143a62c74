"""Which lock knows a class or event: a shipped one, else the provisional one of this site, which grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.snmp.cells import date_of
from gateway.snmp.event_growth import extend_events
from gateway.snmp.lock import Lock
from gateway.snmp.lock_entries import ClassLock, EventLock
from gateway.snmp.lock_growth import LockFullError, extend


@dataclass(frozen=True, slots=True)
class SeenSchemas:
    """What a site's sources have told in this run of what no shipped lock knows, by ``package:name``."""

    classes: Mapping[str, ClassSchema] = field(default_factory=dict)
    events: Mapping[str, EventSchema] = field(default_factory=dict)


SaveProvisional: TypeAlias = Callable[[Lock, SeenSchemas], None]
"""Keeps a provisional lock that has grown; the schemas are for the text of its module."""

Log: TypeAlias = Callable[[str, str], None]
"""Told of what an operator may want to know: a fixed event name, and a detail for people."""

_Schema = TypeVar("_Schema", ClassSchema, EventSchema)


class SchemaLocks:
    """The locks, and what could not be shown for want of one.

    Args:
        shipped: they do not grow here.
        provisional: the lock of this site for everything else.
        save: called with each new state of ``provisional``; may raise ``OSError``.
        log: called once for each class, event, element or argument that cannot be shown.
        clock: now, in nanoseconds since 1970-01-01 UTC.
    """

    def __init__(
        self,
        shipped: Sequence[Lock],
        provisional: Lock,
        *,
        save: SaveProvisional,
        log: Log,
        clock: Callable[[], int],
    ) -> None:
        self.provisional = provisional
        self.classes_not_shown: set[str] = set()
        self.events_not_shown: set[str] = set()
        self.elements_not_shown: set[tuple[str, str]] = set()
        self._shipped = tuple(shipped)
        self._save = save
        self._log = log
        self._clock = clock
        self._classes: dict[str, ClassSchema] = {}
        self._events: dict[str, EventSchema] = {}
        self._unsaved = False
        self._told_otherwise = False
        self._save_error = ""

    def class_lock(self, schema: ClassSchema) -> tuple[Lock, ClassLock] | None:
        """Where the class stands; ``None`` (logged and counted) where there is no room for it."""
        for lock in self._shipped:
            class_lock = lock.find(schema.key)
            if class_lock is not None and class_lock.elements:  # one without elements is only reserved
                return lock, class_lock
        if not self._grow(schema, self._classes, _with_class, self.classes_not_shown, "class-not-shown"):
            return None
        class_lock = self.provisional.find(schema.key)
        assert class_lock is not None
        return self.provisional, class_lock

    def event_lock(self, schema: EventSchema) -> tuple[Lock, EventLock] | None:
        """Where the event stands; ``None`` (logged and counted) where there is no room for it."""
        for lock in self._shipped:
            event_lock = lock.find_event(schema.key)
            if event_lock is not None:
                return lock, event_lock
        if not self._grow(schema, self._events, _with_event, self.events_not_shown, "event-not-shown"):
            return None
        event_lock = self.provisional.find_event(schema.key)
        assert event_lock is not None
        return self.provisional, event_lock

    def report(self, key: ClassKey, not_shown: Iterable[str]) -> None:
        """Log and count elements or arguments that the lock of their class or event lacks."""
        for name in not_shown:
            if (str(key), name) not in self.elements_not_shown:
                self.elements_not_shown.add((str(key), name))
                self._log("element-not-in-lock", f"{key}.{name}: the shipped lock has no number for it")

    def save(self) -> None:
        """Keep what the provisional lock has got since the last call: once a message, not once a class.

        The texts of its module may be others without that, as after a mapping was edited: they are kept when
        all classes and events of the lock were told, because those that were not would lose theirs. Where
        something cannot be kept it is logged and tried again with the next call; what is shown stays shown.
        """
        if not self._unsaved and not (self._told_otherwise and self._all_told()):
            return
        try:
            self._save(self.provisional, SeenSchemas(self._classes, self._events))
        except OSError as error:
            if str(error) != self._save_error:
                self._log("provisional-lock-not-saved", f"numbers may change with a restart: {error}")
            self._save_error = str(error)
        else:
            self._unsaved = self._told_otherwise = False
            self._save_error = ""

    def _all_told(self) -> bool:
        lock = self.provisional
        classes, events = ({one.name for one in known} for known in (lock.classes, lock.events))
        return classes <= self._classes.keys() and events <= self._events.keys()

    def _grow(
        self,
        schema: _Schema,
        seen: dict[str, _Schema],
        extended: Callable[[Lock, _Schema, int], Lock],
        not_shown: set[str],
        complaint: str,
    ) -> bool:
        name = str(schema.key)
        try:
            grown = extended(self.provisional, schema, self._clock())
        except (LockFullError, ValueError) as error:
            if name not in not_shown:
                not_shown.add(name)
                self._log(complaint, f"{name}: {error}")
            return False
        if seen.get(name) != schema:
            seen[name] = schema
            self._told_otherwise = True
        if grown is not self.provisional:
            self.provisional = grown
            self._unsaved = True
        return True


def _with_class(lock: Lock, schema: ClassSchema, now: int) -> Lock:
    return extend(lock, [schema], date_of(now), retire=False)


def _with_event(lock: Lock, schema: EventSchema, now: int) -> Lock:
    return extend_events(lock, [schema], date_of(now), retire=False)
