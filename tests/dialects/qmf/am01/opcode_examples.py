"""Octets put together by hand, the revisions that send them, the routing key, and their message."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from gateway.dialects.qmf.am01.messages import (
    AgentHello,
    AgentIdentity,
    AttachRequest,
    AttachResponse,
    ClassDescription,
    Message,
    MethodRequest,
    Revision,
)
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    EventIndication,
    GetQuery,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    SchemaRequest,
    StatisticContent,
)
from gateway.model.schema import ClassKey
from tests.dialects.qmf.am01.examples import (
    CREATED,
    KEY,
    KEY_OCTETS,
    NAMED_KEY,
    OBJECT_ID,
    PROPERTIES,
    PROPERTY_OCTETS,
    SAMPLED,
    SCHEMA_OCTETS,
    STATISTIC_OCTETS,
    STATISTICS,
    TIMES_AND_ID,
    leak,
    shop,
)

NOTES, NOVEMBER, JANUARY, FEBRUARY, MARCH = (
    Revision.DESIGN_NOTES,
    Revision.NOVEMBER_2007,
    Revision.JANUARY_2008,
    Revision.FEBRUARY_2008,
    Revision.MARCH_2008,
)
BROKER = UUID("dc6e87c1-4c67-4e91-90ff-edfef4f39008")
REPLY = "reply-console-1"
CALL = ClassKey("shop", "tank")
ARGUMENTS = b"\0\0\0\x03\0\0\0\x02ab"
SHOP = shop()


def described(key: ClassKey) -> ClassDescription:
    definition, event = SHOP.find_class(key), SHOP.find_event(ClassKey(key.package, "tank.leak", key.hash))
    assert isinstance(definition, ClassDefinition)
    assert isinstance(event, EventDefinition)
    return ClassDescription(0, definition, (event,))


def properties(key: ClassKey, sequence: int = 0) -> PropertyContent:
    return PropertyContent(sequence, key, SAMPLED, CREATED, 0, OBJECT_ID, PROPERTIES)


def statistics(key: ClassKey, sequence: int = 0) -> StatisticContent:
    return StatisticContent(sequence, key, SAMPLED, CREATED, 0, OBJECT_ID, None, STATISTICS)


ID = bytes(6) + b"\x11\x22"
NAME = b"\x04tank"
AM1_KEY = f"mgmt.{BROKER}."

EXAMPLES: list[tuple[set[Revision], str, bytes, Message]] = [
    # the design notes
    ({NOTES}, "mgmt.schema.shop.tank", b"AM01S\0" + KEY_OCTETS + SCHEMA_OCTETS, described(KEY)),
    (
        {NOTES},
        "mgmt.config.shop.tank",
        b"AM01CC" + KEY_OCTETS + TIMES_AND_ID + PROPERTY_OCTETS,
        properties(KEY),
    ),
    (
        {NOTES},
        "mgmt.inst.shop.tank",
        b"AM01CI" + KEY_OCTETS + TIMES_AND_ID + STATISTIC_OCTETS,
        statistics(KEY),
    ),
    # the agents of November 2007 and January 2008: no package, no hash
    ({NOVEMBER, JANUARY}, "mgmt.schema.tank", b"AM01S\0" + NAME + SCHEMA_OCTETS, described(NAMED_KEY)),
    (
        {NOVEMBER, JANUARY},
        "mgmt.config.tank",
        b"AM01CC" + NAME + TIMES_AND_ID + PROPERTY_OCTETS,
        properties(NAMED_KEY),
    ),
    (
        {NOVEMBER, JANUARY},
        "mgmt.inst.tank",
        b"AM01CI" + NAME + TIMES_AND_ID + STATISTIC_OCTETS,
        statistics(NAMED_KEY),
    ),
    (
        {NOTES, JANUARY},
        "method.shop.tank.drain",
        b"AM01M\0\0\0\0\x07" + ID + ARGUMENTS,
        MethodRequest(7, OBJECT_ID, CALL, "drain", ARGUMENTS),
    ),
    (
        {NOTES, JANUARY},
        REPLY,
        b"AM01R\0\0\0\0\x07\0\0\0\0\x02OK" + ARGUMENTS,
        MethodResponse(7, 0, "OK", ARGUMENTS),
    ),
    # November 2007: calls without a header
    (
        {NOVEMBER},
        "method.shop.tank.drain",
        b"\0\0\0\x07" + ID + b"\x03rq1" + ARGUMENTS,
        MethodRequest(7, OBJECT_ID, CALL, "drain", ARGUMENTS, "rq1"),
    ),
    ({NOVEMBER}, REPLY, b"\0\0\0\x07\0\0\0\x03\x02no", MethodResponse(7, 3, "no")),
    # February 2008
    ({FEBRUARY}, "agent", b"AM01H\0", AgentHello()),
    ({FEBRUARY}, "agent", b"AM01H\0xx", AgentHello(rest=b"xx")),
    ({FEBRUARY}, REPLY, b"AM01I\0\0\x09Broker ID", AgentIdentity("Broker ID")),
    ({FEBRUARY}, "agent", b"AM01P\0", PackageQuery(0)),
    ({FEBRUARY}, REPLY, b"AM01p\0\x04shop", PackageIndication(0, "shop")),
    ({FEBRUARY}, "mgmt.schema.package", b"AM01p\0\x04shop", PackageIndication(0, "shop")),
    ({FEBRUARY}, "agent", b"AM01Q\0\x04shop", ClassQuery(0, "shop")),
    ({FEBRUARY}, REPLY, b"AM01q\0" + KEY_OCTETS, ClassIndication(0, ClassKind.OBJECT, KEY)),
    ({FEBRUARY}, "agent", b"AM01S\0" + KEY_OCTETS, SchemaRequest(0, KEY)),
    ({FEBRUARY}, REPLY, b"AM01s\0" + KEY_OCTETS + SCHEMA_OCTETS, described(KEY)),
    (
        {FEBRUARY},
        "mgmt.config.tank",
        b"AM01CC" + KEY_OCTETS + TIMES_AND_ID + PROPERTY_OCTETS,
        properties(KEY),
    ),
    (
        {FEBRUARY},
        "mgmt.inst.tank",
        b"AM01CI" + KEY_OCTETS + TIMES_AND_ID + STATISTIC_OCTETS,
        statistics(KEY),
    ),
    (
        {FEBRUARY},
        "agent.method.shop.tank.drain",
        b"AM01M\0\0\0\0\x07" + ID + ARGUMENTS,
        MethodRequest(7, OBJECT_ID, CALL, "drain", ARGUMENTS),
    ),
    ({FEBRUARY}, REPLY, b"AM01m\0\0\0\0\x07\0\0\0\x02\x02no", MethodResponse(7, 2, "no")),
    ({FEBRUARY}, "agent", b"AM01A\0\x04farm\0\0\0\x65", AttachRequest(0, "farm", 101)),
    ({FEBRUARY}, REPLY, b"AM01a\0\0\0\0\x66", AttachResponse(0, 102)),
    # March 2008: AM1
    ({MARCH}, "agent", b"AM1B\0\0\0\x01", BrokerRequest(1)),
    ({MARCH}, REPLY, b"AM1b\0\0\0\x01" + BROKER.bytes, BrokerResponse(1, BROKER)),
    ({MARCH}, "agent", b"AM1P\0\0\0\x02", PackageQuery(2)),
    ({MARCH}, AM1_KEY + "schema.package", b"AM1p\0\0\0\0\x04shop", PackageIndication(0, "shop")),
    ({MARCH}, REPLY, b"AM1z\0\0\0\x02\0\0\0\0\x02OK", CommandComplete(2)),
    ({MARCH}, "agent", b"AM1Q\0\0\0\x03\x04shop", ClassQuery(3, "shop")),
    ({MARCH}, REPLY, b"AM1q\0\0\0\x03" + KEY_OCTETS, ClassIndication(3, ClassKind.OBJECT, KEY)),
    ({MARCH}, "agent", b"AM1S\0\0\0\x04" + KEY_OCTETS, SchemaRequest(4, KEY)),
    (
        {MARCH},
        REPLY,
        b"AM1s\0\0\0\x04" + KEY_OCTETS + SCHEMA_OCTETS,
        replace(described(KEY), sequence=4),
    ),
    (
        {MARCH},
        AM1_KEY + "config.tank",
        b"AM1c\0\0\0\0" + KEY_OCTETS + TIMES_AND_ID + PROPERTY_OCTETS,
        properties(KEY),
    ),
    (
        {MARCH},
        AM1_KEY + "inst.tank",
        b"AM1i\0\0\0\0" + KEY_OCTETS + TIMES_AND_ID + STATISTIC_OCTETS,
        statistics(KEY),
    ),
    (
        {MARCH},
        REPLY,
        b"AM1g\0\0\0\x05" + KEY_OCTETS + TIMES_AND_ID + PROPERTY_OCTETS + STATISTIC_OCTETS,
        ObjectContent(5, KEY, SAMPLED, CREATED, 0, OBJECT_ID, PROPERTIES, STATISTICS),
    ),
    (
        {MARCH},
        "agent",
        b"AM1G\0\0\0\x05\0\0\0\x10\x06_class\xa4\0\0\0\x04tank",
        GetQuery(5, {"_class": "tank"}),
    ),
    (
        {MARCH},
        "agent.method.shop.tank.drain",
        b"AM1M\0\0\0\x07" + ID + ARGUMENTS,
        MethodRequest(7, OBJECT_ID, CALL, "drain", ARGUMENTS),
    ),
    ({MARCH}, REPLY, b"AM1m\0\0\0\x07\0\0\0\0\x02OK" + ARGUMENTS, MethodResponse(7, 0, "OK", ARGUMENTS)),
    ({MARCH}, "agent", b"AM1A\0\0\0\x08\x04farm\0\0\0\x65", AttachRequest(8, "farm", 101)),
    ({MARCH}, REPLY, b"AM1a\0\0\0\x08\0\0\0\x66", AttachResponse(8, 102)),
]
EVENT = EventIndication(0, leak().key, SAMPLED, 4, (5,))
EVENT_OCTETS = b"AM01E\0" + KEY_OCTETS + b"\x04leak" + b"\0\0\0\0\0\0\x01\x01" + b"\0\0\0\x05"
