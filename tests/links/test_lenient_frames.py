"""Messages whose properties no strict reader takes arrive, and the connection lasts."""

from __future__ import annotations

import asyncio
import struct
from datetime import UTC, datetime
from typing import Final

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aiormq import spec
from hypothesis import given
from hypothesis import strategies as st

from gateway.links.lenient_frames import short_text, table, timestamp
from tests.components.rabbitmq import VirtualHost

HEADERS, REPLY_TO, TIMESTAMP = 1 << 13, 1 << 9, 1 << 6
"""The flags of properties (AMQP 0-9-1 section 1.8.3.1)."""
AT_1970: Final = datetime.fromtimestamp(0, UTC)


def short(octets: bytes) -> bytes:
    return bytes([len(octets)]) + octets


def long(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


ODD: Final = {
    "a name that is not UTF-8": (REPLY_TO, short(b"a\xff"), {}),
    "a key that is not UTF-8": (HEADERS, long(short(b"k\xff") + b"t\1"), {r"k\xff": True}),
    "such a key inside a table": (
        *(HEADERS, long(short(b"x") + b"F" + long(short(b"k\xff") + b"t\1"))),
        {"x": {r"k\xff": True}},
    ),
    "a time after the year 9999": (TIMESTAMP, b"\x7f" + b"\xff" * 7, {}),
    "a time before the year 1": (TIMESTAMP, b"\x80" + b"\0" * 7, {}),
    "such a time in a table": (HEADERS, long(short(b"x") + b"T" + b"\xff" * 8), {"x": AT_1970}),
}


class Octets(spec.Basic.Properties):
    """Properties in their form on the wire."""

    octets = b""

    def marshal(self) -> bytes:
        return self.octets


@pytest.mark.each_rabbitmq
async def test_messages_of_any_publisher_arrive(virtual_host: VirtualHost) -> None:
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    async with (
        await aio_pika.connect(virtual_host.amqp_url()) as reading,
        await aio_pika.connect(virtual_host.amqp_url()) as writing,
    ):
        queue = await (await reading.channel()).declare_queue("events")
        await queue.consume(received.put, no_ack=True)
        publishing = await (await writing.channel(publisher_confirms=False)).get_underlay_channel()
        for what, (flags, octets, headers) in ODD.items():
            properties = Octets()
            properties.octets = struct.pack(">H", flags) + octets
            await publishing.basic_publish(b"x", routing_key="events", properties=properties)
            async with asyncio.timeout(60):
                message = await received.get()
            assert message.headers == headers, what
        assert queue.name == "events"


def test_a_table_is_read_as_far_as_it_is_known() -> None:
    octets = long(short(b"a") + b"t\1" + short(b"b") + b"Zxyz")
    assert table(octets + b"more") == (len(octets), {"a": True})


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_one_error(octets: bytes) -> None:
    for read in (short_text, timestamp, table):
        try:
            consumed, _ = read(octets)
        except ValueError:
            continue
        assert 0 < consumed <= len(octets)
