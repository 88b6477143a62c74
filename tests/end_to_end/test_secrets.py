"""Secrets planted in all places where RabbitMQ permits it: none leaves by AM2, feed, SNMP or any log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aio_pika
import pytest
from aiormq.abc import FieldTable

from gateway.demo.demonstration import Demonstration
from tests.end_to_end.observer import Observer

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]

QUEUE = "planted"
SECRETS = [f"Planted-{number}-Secret" for number in range(6)]
ARGUMENTS: FieldTable = {
    "x-upstream": f"amqp://somebody:{SECRETS[0]}@far.example/vhost",
    "x-password": SECRETS[1],
    "x-nested": {"private_key": SECRETS[2], "uris": [f"amqps://{SECRETS[3]}@near.example"]},
}
CLIENT_PROPERTIES: FieldTable = {
    "connection_name": "planter",
    "api_key": SECRETS[4],
    "information": f"see https://somebody:{SECRETS[5]}@far.example/",
}
MASKED = b"amqp://***@far.example/vhost"


async def octets_of_feed(path: Path) -> bytes:
    """Return all octets that a north receives, up to the end of its snapshot."""
    reader, writer = await asyncio.open_unix_connection(path)
    octets = b""
    while b"\x93\xa3end" not in octets:  # the array ["end", epoch, sequence]
        octets += await asyncio.wait_for(reader.read(65536), timeout=60)
    writer.close()
    await writer.wait_closed()
    return octets


async def test_no_planted_secret_leaves(observer: Observer, demonstration: Demonstration) -> None:
    broker = observer.broker
    received: list[bytes] = []
    tap = await aio_pika.connect(broker.amqp_url(vhost="amqp-gateway"))
    planter = await aio_pika.connect(broker.amqp_url(vhost="shop"), client_properties=CLIENT_PROPERTIES)
    async with tap, planter:
        queue = await (await tap.channel()).declare_queue(exclusive=True)
        await queue.bind("qpid.management", "#")
        with broker.http() as client:
            bindings = client.get("exchanges/amqp-gateway/amq.direct/bindings/source").json()
        for binding in bindings:
            await queue.bind("amq.direct", binding["routing_key"])

        async def receive(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            received.append(message.body)

        await queue.consume(receive, no_ack=True)
        channel = await planter.channel()
        planted = await channel.declare_queue(QUEUE, durable=True, arguments=ARGUMENTS)
        with broker.http() as client:
            reported = client.get(f"queues/shop/{QUEUE}").text
            assert all(secret in reported for secret in SECRETS[:4]), (
                "the broker tells them to who may read it"
            )
        try:

            async def shown() -> bool:
                rows = (await observer.walk("rmqQueueTable")).values()
                queues = [cells for cells in rows if cells["rmqQueueRowName"] == QUEUE]
                connections = (await observer.walk("rmqConnectionProvidedName")).values()
                return (
                    len(queues) == 2
                    and all(MASKED.decode() in cells.get("rmqQueueArguments", "") for cells in queues)
                    and sum("planter" in cells.values() for cells in connections) == 2
                )

            await observer.until("queue and connection are shown, arguments masked, by both sources", shown)

            async def published() -> bool:
                return MASKED in b"".join(received)

            await observer.until("AM2 carries the masked argument", published)
            logged = await observer.until_logged(lambda text: MASKED.decode() in text, "FROM log")
            everything = await asyncio.to_thread(observer.snmp.run, "snmpbulkwalk", "-On", "-Oa", "1")
            feed = await octets_of_feed(demonstration.folder / "feed.sock")
        finally:
            await planted.delete(if_unused=False, if_empty=False)
    assert MASKED in feed
    assert MASKED in everything.encode()
    logs = (demonstration.log_of("gateway") + demonstration.log_of("agent")).encode()
    passwords = [path.read_text() for path in demonstration.folder.glob("password-of-*")]
    assert len(passwords) == 2
    for secret in [*SECRETS, *passwords, broker.administrator.password]:
        for place, octets in (
            ("AM2", b"".join(received)),
            ("feed", feed),
            ("SNMP", everything.encode()),
            ("logs", logs),
            ("event log", logged.encode()),
        ):
            assert secret.encode() not in octets, f"{place} carries a secret"
