"""The meaning of an object identifier of the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.schema import ClassKey
from gateway.terminal.view import ObjectKey


@dataclass(frozen=True, slots=True)
class SnmpMeaning:
    """The meaning of an object identifier below the gateway's root.

    Attributes:
        oid: the object identifier, without the leading dot.
        descriptor: ``MODULE::descriptor.index``, as net-snmp's commands write and take it.
        key: the class or event; ``None`` where it is a module, or something that has none.
        element: the name of an element, of a column of the gateway's, or of an argument of events.
        description: the description of a column of the gateway's, or of a name in the gateway's own module.
        row: the object, where it names an instance.
        is_event: whether ``key`` is an event.
    """

    oid: str
    descriptor: str
    key: ClassKey | None = None
    element: str = ""
    description: str = ""
    row: ObjectKey | None = None
    is_event: bool = False
