"""A minimal class and a minimal event that use every feature, and their values."""

from __future__ import annotations

from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Method,
)
from gateway.model.values import ValueType

TANK = ClassSchema(
    ClassKey("shop", "tank", b"T" * 16),
    properties=(
        Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True, max_length=255),
        Element("size", ValueType.U16, unit="litre", minimum=1, maximum=500),
        Element("note", ValueType.STRING, access=Access.READ_WRITE, optional=True, max_length=100),
        Element("owner", ValueType.REFERENCE, optional=True, references="shop:person"),
    ),
    statistics=(
        Element("level", ValueType.F64, unit="litre", description="How full"),
        Element("fills", ValueType.U32),
    ),
    methods=(
        Method(
            "drain",
            (
                Argument("amount", ValueType.U32, Direction.IN, unit="litre", default=10),
                Argument("left", ValueType.F64, Direction.OUT),
                Argument("token", ValueType.STRING, Direction.INOUT, max_length=255),
            ),
            description="Lets it run out",
        ),
    ),
)
LEAK = EventSchema(
    ClassKey("shop", "leak", b"L" * 16),
    (
        Argument("tank", ValueType.STRING, max_length=255),
        Argument("rate", ValueType.U32, unit="litre/hour"),
    ),
)
OBJECT_ID = ObjectId.of(sequence=5, number=0x1122)


def shop() -> Definitions:
    known = Definitions()
    known.add(ClassDefinition.of(TANK))
    known.add(EventDefinition.of(LEAK))
    return known
