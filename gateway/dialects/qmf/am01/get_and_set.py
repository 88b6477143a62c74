"""Get and set, whose routing keys the design notes reserve without saying what the bodies are: ours.

Used only with peers that are configured for it. Both are calls (M, answered by R) under the keys
``method.<package>.<class>.get`` and ``.set``. A get has no arguments; its answer has the values of all
configuration elements, then those of all instrumentation elements, as in content records. A set has, for
each element that is to change, its name (str8) and the new value in the form of its type, until the end of
the body; its answer has no arguments, and its status says whether all were set or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.layout import Layout
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues

GET: Final = "get"
"""The method's name in the routing key."""

SET: Final = "set"
"""The method's name in the routing key."""


def write_object(definition: ClassDefinition, properties: QmfValues, statistics: QmfValues) -> bytes:
    """Encode the arguments of the answer to a get; raises as `Layout.write`."""
    return definition.properties.write(properties) + definition.statistics.write(statistics)


def read_object(definition: ClassDefinition, arguments: bytes) -> tuple[QmfValues, QmfValues]:
    """Return properties and statistics out of the answer to a get.

    Raises:
        ProtocolError: the arguments are not the values of this class, exactly.
    """
    properties, middle = definition.properties.read(arguments, 0)
    statistics, end = definition.statistics.read(arguments, middle)
    if end != len(arguments):
        raise ProtocolError("the end of the values", f"{len(arguments) - end} more octets", end)
    return properties, tuple(statistics)


def write_changes(definition: ClassDefinition, changes: Mapping[str, QmfValue]) -> bytes:
    """Encode the arguments of a set.

    Raises:
        LocalProtocolError: the class has no such property, or a value does not fit its type.
    """
    layouts = _layouts(definition)
    unknown = changes.keys() - layouts.keys()
    if unknown:
        raise LocalProtocolError(f"class {definition.key} has no property {min(unknown)}")
    return b"".join(fields.str8(name) + layouts[name].write((value,)) for name, value in changes.items())


def read_changes(definition: ClassDefinition, arguments: bytes) -> dict[str, QmfValue]:
    """Return the new values out of a set, by property.

    Raises:
        ProtocolError: a name is no property of the class or comes twice, or a value is malformed.
    """
    layouts = _layouts(definition)
    cursor = Cursor(arguments)
    changes: dict[str, QmfValue] = {}
    while cursor.remaining:
        start = cursor.position
        name = cursor.name("a property's name")
        if name not in layouts or name in changes:
            raise ProtocolError(f"a property of {definition.key}, once", repr(name), start)
        (changes[name],), cursor.position = layouts[name].read(arguments, cursor.position)
    return changes


def _layouts(definition: ClassDefinition) -> dict[str, Layout]:
    elements = zip(definition.schema.properties, definition.property_codes, strict=True)
    return {element.name: Layout((code,), definition.forms) for element, code in elements}
