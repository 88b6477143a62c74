"""Restores the objects of applications after a restart of the gateway, as stale until they are confirmed.

Applications report an object once. A relay that forgot it would end objects that still exist, and could not
apply partial changes. Restored statistics are shown until the application logs in, and then when it reports
them: whether the restored ones are the last ones is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gateway.dialects.ami.relay_applications import Applications
from gateway.dialects.ami.relay_config import RelayConfig
from gateway.dialects.ami.relay_effects import Collected, RefusedError
from gateway.dialects.ami.relay_objects import Objects, Report
from gateway.dialects.ami.relay_schemas import (
    ALERT,
    ALERT_CLASS,
    APPLICATION_CLASS,
    METRICS,
    METRICS_CLASS,
    OBJECT,
    alert_id,
    insert_id,
    metrics_id,
    object_id,
)
from gateway.dialects.ami.relay_tables import Fixed
from gateway.dialects.ami.values import AmiValue, from_model
from gateway.dialects.errors import LocalProtocolError
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.validation import validate
from gateway.model.values import Value

_OF_RELAY: Final = {ALERT_CLASS: ALERT, METRICS_CLASS: METRICS}
_EXPIRES: Final = "expires"
_MOST_DIGITS: Final = 19
"""Digits of a number of 64 bits."""


class Restoring:
    """Restores objects.

    Args:
        config: the configuration of the session; its schemas define the values of objects.
        objects: the objects of the session, none so far.
        applications: the applications of the session, none so far.
        out: collects the effects.
    """

    def __init__(
        self, config: RelayConfig, objects: Objects, applications: Applications, out: Collected
    ) -> None:
        self._config = config
        self._objects = objects
        self._applications = applications
        self._out = out
        self._schemas: dict[ClassKey, ClassSchema] = {schema.key: schema for schema in config.schemas}

    def restore(self, sightings: Iterable[ObjectSeen], now: int) -> None:
        """Restore these objects, except those that have expired or exceed the bounds."""
        # Applications come last, because they report the number of their objects.
        known = sorted(sightings, key=lambda one: one.key.name == APPLICATION_CLASS)
        left_out = 0
        for seen in known:
            schema = self._schemas.get(seen.key)
            try:
                if schema is None or not self._take(seen, schema, now):
                    left_out += 1
            except RefusedError:
                left_out += 1
        if left_out:
            self._out.note("objects-not-restored", f"{left_out} of {len(known)} that were known")

    def _take(self, seen: ObjectSeen, schema: ClassSchema, now: int) -> bool:
        elements = _elements(seen, schema)
        package, name = schema.key.package, schema.key.name
        if package != self._config.relay_package:
            names = _names_of_object(seen.agent, schema.label, elements)
            table, fixed = self._objects.table_of_type(schema.label, OBJECT, seen.agent), OBJECT
        elif name == APPLICATION_CLASS:
            self._applications.restore(seen.agent, elements, seen.created, now)
            return True
        elif name in _OF_RELAY:
            fixed = _OF_RELAY[name]
            alert = alert_id(seen.agent, str(elements.get("alert")))
            names = (alert if name == ALERT_CLASS else metrics_id(seen.agent),)
            table = self._objects.table(package, name, fixed)
        else:
            return False
        expires = elements.get(_EXPIRES)
        if seen.native_id not in names or (isinstance(expires, int) and 0 < expires <= now):
            return False
        row = self._objects.report(
            table,
            Report(
                seen.agent,
                seen.native_id,
                seen.sampled,
                tuple(elements.get(element.name) for element in fixed.properties),
                tuple(elements.get(element.name) for element in fixed.statistics),
                dict(_values(elements, fixed, schema)),
                expires if isinstance(expires, int) else 0,
                seen.created,
            ),
            now,
        )
        # The log records statistics less often: its last values need not be the last reported ones.
        measured = (one for one in schema.statistics if one.name not in fixed.names)
        row.unconfirmed = frozenset(one.label or one.name for one in measured)
        return True


def _elements(seen: ObjectSeen, schema: ClassSchema) -> dict[str, Value | None]:
    """Return values by element; without those of a wrong type, because a capture may be forged."""
    values = (*(seen.properties or ()), *(seen.statistics or ()))
    return {
        element.name: value if value is not None and validate(element, value) is None else None
        for element, value in zip(schema.elements, values, strict=False)
    }


def _names_of_object(agent: str, kind: str, elements: dict[str, Value | None]) -> tuple[str, ...]:
    """Return the native ids that a session can have given to an object of a type (T) with these values."""
    known_as = str(elements.get("object"))
    number = known_as.removeprefix("#")
    names = (object_id(agent, kind, known_as),)
    if number == known_as or not number.isascii() or not number.isdecimal() or len(number) > _MOST_DIGITS:
        return names
    return (*names, insert_id(agent, kind, int(number)))


def _values(
    elements: dict[str, Value | None], fixed: Fixed, schema: ClassSchema
) -> Iterator[tuple[str, AmiValue]]:
    """Yield the reported values by key; the label of an element is its key."""
    for element in schema.elements:
        value = elements.get(element.name)
        if value is None or element.name in fixed.names:
            continue
        try:
            yield element.label or element.name, from_model(value, element.type)
        except LocalProtocolError:
            continue  # the log has a value of another type
