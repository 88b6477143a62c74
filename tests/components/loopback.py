"""Two sessions of one process talking to each other as if a broker stood between them."""

from __future__ import annotations

import asyncio
import contextlib

from gateway.clock import Clock
from gateway.dialects.session import Delivery, Send
from gateway.links.session_driver import TOO_LATE, MessageDriver

USER_ID = "loopback"
"""The checked sender of every loopback message: nobody else can reach a loopback."""


async def carry(sender: MessageDriver, receiver: MessageDriver, clock: Clock) -> None:
    """Move what ``sender`` sends to ``receiver``, in order, until cancelled.

    One body at a time, giving way to the loop in between: a resync of thousands of objects must not hold it.
    """
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            send = await sender.next_send()
            if send.is_too_late(clock.now()):
                sender.unsent([send], TOO_LATE)
            else:
                receiver.deliver(delivered(send, clock.now()))
            await asyncio.sleep(0)


def delivered(send: Send, now: int) -> Delivery:
    """``send`` as the other side sees it."""
    return Delivery(
        exchange=send.exchange,
        routing_key=send.routing_key,
        body=send.body,
        reply_to=send.reply_to,
        user_id=USER_ID,
        content_type=send.content_type,
        correlation_id=send.correlation_id,
        timestamp=now,
        expiration=send.lifetime(now),
        message_id=send.message_id,
    )
