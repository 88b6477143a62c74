"""Which message a broker without confirms returned, because no queue is bound where it was sent."""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from aio_pika.abc import AbstractChannel
from aiormq import spec
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel

from gateway.dialects.session import Send

REMEMBERED: Final = 1_000
"""Mandatory messages that may still come back: without confirms nothing tells that one arrived."""

_Return: TypeAlias = "asyncio.Future[DeliveredMessage]"


def why_returned(message: DeliveredMessage) -> str:
    """What the broker said, for people."""
    returned = message.delivery
    said = returned.reply_text if isinstance(returned, spec.Basic.Return) else ""
    return f"no queue is bound there ({said})" if said else "no queue is bound there"


class MandatorySends:
    """Tells of each mandatory message that comes back on one channel without confirms.

    aiormq tells of returned messages to who waits for their confirmation, found by message id, and to nobody
    else. So it is given somebody who waits, under a tag that no confirmation has.

    Args:
        channel: that they are published on.
        returned: told which message was returned, and why.
    """

    def __init__(self, channel: AbstractChannel, returned: Callable[[Send, str], None]) -> None:
        self._channel = channel
        self._returned = returned
        self._tags = itertools.count(-1, -1)
        self._waiting: OrderedDict[int, str] = OrderedDict()

    async def expect(self, send: Send) -> None:
        """Before ``send``, which has a message id, is published."""
        underlying = await self._channel.get_underlay_channel()
        if not isinstance(underlying, Channel):
            return
        tag = next(self._tags)
        waiting: _Return = asyncio.get_running_loop().create_future()

        def told(outcome: _Return) -> None:
            self._forget(underlying, tag)
            if not outcome.cancelled():
                self._returned(send, why_returned(outcome.result()))

        waiting.add_done_callback(told)
        underlying.message_id_delivery_tag[send.message_id] = tag
        underlying.confirmations[tag] = waiting
        self._waiting[tag] = send.message_id
        if len(self._waiting) > REMEMBERED:
            self._forget(underlying, next(iter(self._waiting)))

    def _forget(self, underlying: Channel, tag: int) -> None:
        message_id = self._waiting.pop(tag, "")
        underlying.confirmations.pop(tag, None)
        if underlying.message_id_delivery_tag.get(message_id) == tag:
            del underlying.message_id_delivery_tag[message_id]
