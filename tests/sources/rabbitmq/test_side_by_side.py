"""A broker that is observed directly shows the same as one that is published by AM2 and read by a console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from gateway.demo.broker import Credentials
from gateway.dialects.qmf.fields import ObjectId
from gateway.model.operations import Outcome
from gateway.model.values import Reference, Values
from gateway.sources.rabbitmq.source_config import PollingConfig
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.sources.rabbitmq.test_live_methods import writer
from tests.sources.rabbitmq.watching import Watch, reading_user, ready, watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

__all__ = ["writer"]

COUNTED = ("messages", "messagesReady", "messagesPublished", "consumers")
"""Statistics of a queue that are constant while its clients rest; others may differ between two readings."""

MESSAGES = 3

SELDOM = PollingConfig(budget=0.5)
"""Seldom listings: an object that one source lists before its event arrives has another id there."""


@dataclass
class Known:
    """An object as it was observed last, with numbers in place of native ids."""

    class_name: str
    created: int = 0
    properties: tuple[object, ...] = ()
    statistics: Values = ()


def number(native_id: str) -> int:
    """Return the number in a native id: hexadecimal if observed directly, part of the object id over AM2."""
    return ObjectId.parse(native_id).number if "-" in native_id else int(native_id, 16)


def plain(value: object) -> object:
    return number(value.native_id) if isinstance(value, Reference) else value


def living(watched: Watch) -> Mapping[int, Known]:
    """Return the objects that were observed and have not ended, without those of other virtual hosts.

    Objects of other tests come and go, and at no time both ways may show the same of them.
    """
    objects: dict[int, Known] = {}
    elsewhere = watched.elsewhere()
    for seen in watched.seen:
        if seen.native_id in elsewhere:
            continue
        if seen.deleted:
            objects.pop(number(seen.native_id), None)
            continue
        known = objects.setdefault(number(seen.native_id), Known(seen.key.name))
        known.created = seen.created
        if seen.properties is not None:
            known.properties = tuple(map(plain, seen.properties))
        if seen.statistics is not None:
            known.statistics = seen.statistics
    return objects


def shown(watched: Watch) -> dict[int, object]:
    """Return the values that must be the same, without those that differ from one reading to the next.

    The latter are most statistics, and a node's start time, which is computed from the time of a reading.
    """
    queues = [element.name for element in watched.schemas["queue"].statistics]
    counted = [queues.index(name) for name in COUNTED]
    started = [element.name for element in watched.schemas["node"].properties].index("startTime")

    def lasting(known: Known) -> tuple[object, ...]:
        properties = known.properties
        return properties[:started] + properties[started + 1 :] if known.class_name == "node" else properties

    return {
        key: (
            known.class_name,
            known.created,
            lasting(known),
            tuple(known.statistics[position] for position in counted) if known.class_name == "queue" else (),
        )
        for key, known in living(watched).items()
        if known.class_name
        not in {"connection", "channel", "session"}  # requests and other tests come and go
    }


async def same(directly: Watch, by_am2: Watch) -> None:
    """Wait until both show the same.

    Raises:
        AssertionError: they do not; the text has the differences.
    """
    try:
        await until(lambda: shown(directly) == shown(by_am2), "both show the same")
    except AssertionError as error:
        one, other = (set(map(repr, shown(watched).items())) for watched in (directly, by_am2))
        raise AssertionError(f"{error}: {sorted(one ^ other)}") from error


def closed(watched: Watch) -> bool:
    return bool(watched.reported("connectionClosed", vhost=watched.virtual_host))


async def ignore(message: AbstractIncomingMessage) -> None:
    """Ignore a message."""


def events(watched: Watch, virtual_host: str) -> list[tuple[object, ...]]:
    """Return the events of a virtual host.

    AM2 has no absent argument: empty texts and zeros stand for it.
    """
    return [
        (one.key, one.time, one.severity, {name: plain(value) or None for name, value in reported.items()})
        for one, reported in watched.events
        if reported.get("vhost") == virtual_host
    ]


async def test_objects_values_and_events_are_the_same_both_ways(virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    of = virtual_host.name
    with reading_user(broker, [of]) as user:
        async with (
            watch(broker, user, virtual_host=of, polling=SELDOM) as directly,
            watch(broker, user, virtual_host=of, polling=SELDOM, by_am2=True) as by_am2,
        ):
            await ready(directly)
            await ready(by_am2)
            connection = await aio_pika.connect(virtual_host.amqp_url())
            async with connection:
                channel = await connection.channel()
                orders = await channel.declare_queue("orders", durable=True, arguments={"x-max-length": 50})
                live = await channel.declare_queue("live", exclusive=True)
                returns = await channel.declare_exchange("returns", aio_pika.ExchangeType.TOPIC)
                await orders.bind(returns, "order.#", arguments={"weight": 7})
                await live.consume(ignore, no_ack=True)
                for _ in range(MESSAGES):
                    await returns.publish(aio_pika.Message(b"x"), "order.new")
                passing = await channel.declare_queue("passing", auto_delete=True)
                await passing.delete()

                def counted(watched: Watch, name: str, number: int) -> bool:
                    exists = bool(watched.exists("queue", "orders"))
                    return exists and watched.value("queue", "orders", name) == number

                def all_counted() -> bool:
                    return counted(directly, "messages", MESSAGES) and counted(by_am2, "messages", MESSAGES)

                def all_published() -> bool:
                    return all(counted(one, "messagesPublished", MESSAGES) for one in (directly, by_am2))

                await until(all_counted, "messages were counted")
                await until(all_published, "published messages were counted")
                await same(directly, by_am2)
            await until(lambda: directly.gone("queue", "live") and by_am2.gone("queue", "live"), "its end")
            await until(lambda: closed(directly) and closed(by_am2), "the event of the connection's end")
    assert events(directly, virtual_host.name) == events(by_am2, virtual_host.name)
    assert {one[0].name for one in events(directly, virtual_host.name)} >= {  # type: ignore[attr-defined]
        "queueCreated",
        "queueDeleted",
        "exchangeCreated",
        "connectionOpened",
        "connectionClosed",
    }
    assert directly.schemas.keys() == by_am2.schemas.keys()
    for name, schema in directly.schemas.items():
        assert schema.key == by_am2.schemas[name].key
        assert [(one.name, one.type, one.index, one.unit) for one in schema.elements] == [
            (one.name, one.type, one.index, one.unit) for one in by_am2.schemas[name].elements
        ]


async def test_operations_have_the_same_outcomes_both_ways(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    broker = virtual_host.broker
    of = virtual_host.name
    with virtual_host.http() as client, reading_user(broker, [virtual_host.name]) as user:
        for name in ("first", "second"):
            client.put(f"queues/{virtual_host.path}/{name}", json={"durable": True}).raise_for_status()
        async with (
            watch(broker, user, writer=writer, virtual_host=of) as directly,
            watch(broker, user, writer=writer, virtual_host=of, by_am2=True) as by_am2,
        ):
            ways = ((directly, "first"), (by_am2, "second"))
            for watched, queue in ways:
                await ready(watched)
                await until(partial(watched.exists, "queue", queue), "the queue")
            for method, arguments in (
                ("purge", ()),
                ("delete", (True, True)),
                ("delete", (False, False)),
            ):
                first, second = [
                    await watched.call("queue", queue, method, *arguments) for watched, queue in ways
                ]
                assert (first.outcome, first.text.replace("first", "second"), first.code) == (
                    second.outcome,
                    second.text,
                    second.code,
                ), method
            unknown = [await watched.call("queue", queue, "noSuchMethod") for watched, queue in ways]
            assert [one.outcome for one in unknown] == [Outcome.UNKNOWN_ELEMENT, Outcome.UNKNOWN_ELEMENT]
            assert [(await watched.fetch("queue", queue)).outcome for watched, queue in ways] == [
                Outcome.OBJECT_GONE,
                Outcome.OBJECT_GONE,
            ]
