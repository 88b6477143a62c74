"""Two queues that can be operated."""

from __future__ import annotations

from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Command,
    DefineClass,
    Operation,
    Parameter,
    Register,
    Result,
    SetGroup,
)

QUEUE = DefineClass(
    1,
    "rabbitmq:queue",
    "A queue",
    (
        Attribute("StableName", AttributeType.STRING, "d"),
        Attribute("messages", AttributeType.LONG, "d"),
        Attribute("limit", AttributeType.LONG, "d", minimum=0, maximum=9, writable=True),
        Attribute("tags", AttributeType.MAP, "d", writable=True),
        Attribute("secret", AttributeType.STRING, "d", readable=False, writable=True),
    ),
    operations=(
        Operation("purge", "Empty it"),
        Operation(
            "move",
            "Move messages",
            parameters=(
                Parameter("to", AttributeType.OBJECT_NAME, "Where to"),
                Parameter("count", AttributeType.LONG, "How many", minimum=1, maximum=100, default=10),
                Parameter("mode", AttributeType.STRING, "How", legal=("fast", "slow"), default="slow"),
            ),
            results=(Result("moved", AttributeType.BIG_INTEGER, "How many were"),),
        ),
        Operation(
            "statistics",
            "Count again",
            reads_only=True,
            results=(
                Result("ready", AttributeType.LONG, "d"),
                Result("since", AttributeType.DATE, "d"),
                Result("first", AttributeType.OBJECT_NAME, "d"),
            ),
        ),
    ),
)
ORDERS = "amqp.gateway:type=queue,name=orders"
BILLS = "amqp.gateway:type=queue,name=bills"
FULL: tuple[Command, ...] = (
    QUEUE,
    SetGroup(1, Freshness.FRESH),
    Register(7, 1, 1, ORDERS, ("/|orders", 3, 5, (), None)),
    Register(8, 1, 1, BILLS, ("/|bills", 0, 5, (), None)),
)
