"""The look-up of classes and events in their registries; what no shipped one has gets numbers of the site."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.snmp.cells import date_of
from gateway.snmp.oid_registry import ClassEntry, EventEntry, OidRegistry
from gateway.snmp.registry_growth import RegistryFullError, extend, extend_events


class SeenSchemas(msgspec.Struct, frozen=True):
    """The schemas received in this run that no shipped registry knows, by ``package:name``."""

    classes: Mapping[str, ClassSchema] = msgspec.field(default_factory=dict)
    events: Mapping[str, EventSchema] = msgspec.field(default_factory=dict)


SaveProvisional: TypeAlias = Callable[[OidRegistry, SeenSchemas], None]
"""Saves a provisional registry that has grown; the schemas are for the text of its module."""

Log: TypeAlias = Callable[[str, str], None]
"""Logs an event for operators: a fixed event name, and a detail in words."""

_Schema = TypeVar("_Schema", ClassSchema, EventSchema)


class OidRegistries:
    """The registries of all classes and events: the shipped ones, and the site's own, which grows.

    Args:
        shipped: the shipped registries, which do not grow.
        provisional: the registry of this site for everything else.
        save: called with each new state of ``provisional``; may raise ``OSError``.
        log: called once for each class, event, element or argument that cannot be shown.
        clock: returns the time in nanoseconds since 1970-01-01 UTC.

    Attributes:
        has_changes: whether `save` may have something to do.
    """

    def __init__(
        self,
        shipped: Sequence[OidRegistry],
        provisional: OidRegistry,
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
        self.has_changes = False
        self._has_grown = False
        self._save_error = ""

    def class_entry(self, schema: ClassSchema) -> tuple[OidRegistry, ClassEntry] | None:
        """Find the entry of a class; ``None`` (logged and counted) where there is no room for it."""
        for registry in self._shipped:
            class_entry = registry.find(schema.key)
            if class_entry is not None and class_entry.elements:  # one without elements is only reserved
                return registry, class_entry
        if not self._grow(schema, self._classes, _with_class, self.classes_not_shown, "class-not-shown"):
            return None
        class_entry = self.provisional.find(schema.key)
        assert class_entry is not None
        return self.provisional, class_entry

    def event_entry(self, schema: EventSchema) -> tuple[OidRegistry, EventEntry] | None:
        """Find the entry of an event; ``None`` (logged and counted) where there is no room for it."""
        for registry in self._shipped:
            event_entry = registry.find_event(schema.key)
            if event_entry is not None:
                return registry, event_entry
        if not self._grow(schema, self._events, _with_event, self.events_not_shown, "event-not-shown"):
            return None
        event_entry = self.provisional.find_event(schema.key)
        assert event_entry is not None
        return self.provisional, event_entry

    def report(self, key: ClassKey, not_shown: Iterable[str]) -> None:
        """Log and count elements or arguments that the registry of their class or event lacks."""
        for name in not_shown:
            if (str(key), name) not in self.elements_not_shown:
                # Once: the versions of a class that one broker after another reports lack the same elements.
                self.elements_not_shown.add((str(key), name))
                self._log(
                    "element-not-in-registry", f"{key}.{name}: the shipped registry has no number for it"
                )

    def save(self) -> None:
        """Save the grown provisional registry: once a message of the feed, not once a class.

        The texts of its module may change without growth, as after a mapping was edited. They are saved when
        all classes and events of the registry were received, because any that was not would lose its texts.
        An error is logged, and the next call tries again; rows stay shown.
        """
        if not self.has_changes or not (self._has_grown or self._all_seen()):
            return
        try:
            self._save(self.provisional, SeenSchemas(self._classes, self._events))
        except OSError as error:
            # Each second another attempt: one line for each reason.
            if str(error) != self._save_error:
                self._log("provisional-registry-not-saved", f"numbers may change with a restart: {error}")
            self._save_error = str(error)
        else:
            self.has_changes = self._has_grown = False
            self._save_error = ""

    def _all_seen(self) -> bool:
        registry = self.provisional
        classes, events = ({one.name for one in known} for known in (registry.classes, registry.events))
        return classes <= self._classes.keys() and events <= self._events.keys()

    def _grow(
        self,
        schema: _Schema,
        seen: dict[str, _Schema],
        extended: Callable[[OidRegistry, _Schema, int], OidRegistry],
        not_shown: set[str],
        complaint: str,
    ) -> bool:
        name = str(schema.key)
        try:
            grown = extended(self.provisional, schema, self._clock())
        except (RegistryFullError, ValueError) as error:
            if name not in not_shown:
                not_shown.add(name)
                self._log(complaint, f"{name}: {error}")
            return False
        # The numbers may be the same, but the texts of the module have changed.
        if seen.get(name) != schema:
            seen[name] = schema
            self.has_changes = True
        if grown is not self.provisional:
            self.provisional = grown
            self.has_changes = self._has_grown = True
        return True


def _with_class(registry: OidRegistry, schema: ClassSchema, now: int) -> OidRegistry:
    return extend(registry, [schema], date_of(now), retire=False)


def _with_event(registry: OidRegistry, schema: EventSchema, now: int) -> OidRegistry:
    return extend_events(registry, [schema], date_of(now), retire=False)
