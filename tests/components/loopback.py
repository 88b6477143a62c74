"""A loopback that connects two sessions of one process as a broker would."""

from __future__ import annotations

import asyncio
import contextlib

from gateway.clock import Clock
from gateway.dialects.session import Delivery, Send
from gateway.links.session_driver import TOO_LATE, MessageDriver

USER_ID = "loopback"
"""The checked sender of every loopback message: there are no other senders."""


async def carry(sender: MessageDriver, receiver: MessageDriver, clock: Clock) -> None:
    """Move what ``sender`` sends to ``receiver``, in order, until cancelled.

    It moves one body at a time and yields to the loop in between, so that a resync of thousands of objects
    does not block it.
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
    """Return the delivery that the other side receives for ``send``."""
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
