"""A class and an event that use every feature of AM01, with their octets put together by hand."""

from __future__ import annotations

from gateway.dialects.qmf.am01.forms import AM01
from gateway.dialects.qmf.am01.schemas import event_key
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

KEY = ClassKey("shop", "tank", b"T" * 16)
NAMED_KEY = ClassKey("", "tank")
"""The key of the class in revisions without packages and hashes."""

KEY_OCTETS = b"\x04shop\x04tank" + b"T" * 16


def tank(key: ClassKey = KEY) -> ClassSchema:
    return ClassSchema(
        key,
        properties=(
            Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True, max_length=255),
            Element("owner", ValueType.REFERENCE),
            Element("size", ValueType.U16, access=Access.READ_WRITE, unit="litre", minimum=1),
        ),
        statistics=(
            Element("fills", ValueType.U32),
            Element("level", ValueType.F64, description="How full"),
            Element("note", ValueType.STRING),
        ),
        methods=(
            Method(
                "drain",
                (
                    Argument("amount", ValueType.U32, Direction.INOUT, default="10"),
                    Argument("reason", ValueType.STRING, Direction.IN, default=""),
                    Argument("left", ValueType.F64, Direction.OUT),
                ),
                description="Lets it run out",
            ),
        ),
    )


def leak(owner: ClassKey = KEY) -> EventSchema:
    return EventSchema(
        event_key(owner, "leak"),
        (Argument("rate", ValueType.U32, unit="litre/hour"),),
        description="Wet feet",
    )


# configuration, instrumentation, method and event counts
COUNTS = b"\0\x03\0\x03\0\x01\0\x01"
SCHEMA_OCTETS = (
    COUNTS
    # 0xa4: text behind a length of 32 bits; 0x21: a 32-bit integer; names in alphabetical order; no count
    + b"\0\0\0\x2f\x06access\x21\0\0\0\x01\x05index\x21\0\0\0\x01\x04name\xa4\0\0\0\x04name"
    + b"\x04type\x21\0\0\0\x06"
    + b"\0\0\0\x30\x06access\x21\0\0\0\x03\x05index\x21\0\0\0\0\x04name\xa4\0\0\0\x05owner"
    + b"\x04type\x21\0\0\0\x0a"
    + b"\0\0\0\x47\x06access\x21\0\0\0\x02\x05index\x21\0\0\0\0\x03min\x21\0\0\0\x01"
    + b"\x04name\xa4\0\0\0\x04size"
    + b"\x04type\x21\0\0\0\x02\x04unit\xa4\0\0\0\x05litre"
    + b"\0\0\0\x19\x04name\xa4\0\0\0\x05fills\x04type\x21\0\0\0\x03"
    + b"\0\0\0\x2b\x04desc\xa4\0\0\0\x08How full\x04name\xa4\0\0\0\x05level\x04type\x21\0\0\0\x0d"
    + b"\0\0\0\x18\x04name\xa4\0\0\0\x04note\x04type\x21\0\0\0\x07"
    + b"\0\0\0\x36\x08argCount\x21\0\0\0\x03\x04desc\xa4\0\0\0\x0fLets it run out\x04name\xa4\0\0\0\x05drain"
    + b"\0\0\0\x34\x07default\xa4\0\0\0\x0210\x03dir\xa4\0\0\0\x02IO\x04name\xa4\0\0\0\x06amount"
    + b"\x04type\x21\0\0\0\x03"
    + b"\0\0\0\x31\x07default\xa4\0\0\0\0\x03dir\xa4\0\0\0\x01I\x04name\xa4\0\0\0\x06reason"
    + b"\x04type\x21\0\0\0\x07"
    + b"\0\0\0\x22\x03dir\xa4\0\0\0\x01O\x04name\xa4\0\0\0\x04left\x04type\x21\0\0\0\x0d"
    + b"\0\0\0\x2e\x08argCount\x21\0\0\0\x01\x04desc\xa4\0\0\0\x08Wet feet\x04name\xa4\0\0\0\x04leak"
    + b"\0\0\0\x2c\x04name\xa4\0\0\0\x04rate\x04type\x21\0\0\0\x03\x04unit\xa4\0\0\0\x0alitre/hour"
)

OBJECT_ID = ObjectId(0, 0x1122)
TIMES_AND_ID = bytes.fromhex("0000000000000101 0000000000000202 0000000000000000 0000000000001122")
SAMPLED, CREATED = 0x0101, 0x0202
PROPERTIES = ("t1", ObjectId(0, 9), 100)
PROPERTY_OCTETS = b"\x02t1" + bytes(7) + b"\x09" + b"\0\x64"
STATISTICS = (7, 50.0, "hi")
STATISTIC_OCTETS = b"\0\0\0\x07" + b"\x40\x49\0\0\0\0\0\0" + b"\0\0\0\x02hi"


def shop() -> Definitions:
    """Return the definitions of the class and the event, with the keys of each revision."""
    known = Definitions()
    for key in (KEY, NAMED_KEY):
        known.add(ClassDefinition.of(tank(key), AM01))
        known.add(EventDefinition.of(leak(key), AM01))
    return known
