"""Two sessions of one process communicate as over a broker: in order, with a checked sender."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.clock import SystemClock
from gateway.dialects.session import Delivery, Effect, Send
from gateway.links.session_driver import MessageDriver
from tests.components.loopback import USER_ID, carry, delivered
from tests.components.scripted_session import ScriptedSession
from tests.components.waiting import eventually


@dataclass
class EchoSession(ScriptedSession):
    """A session that sends so many deliveries back."""

    echoes: int
    received: list[Delivery] = field(default_factory=list)
    unsent: list[tuple[list[Send], str]] = field(default_factory=list)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        assert delivery.timestamp <= now
        self.received.append(delivery)
        if len(self.received) > self.echoes:
            return []
        return [Send("", delivery.reply_to, delivery.body)]

    def not_sent(self, sends: Sequence[Send], reason: str, now: int) -> list[Effect]:
        assert now > 0
        self.unsent.append((list(sends), reason))
        return []

    def tick(self, now: int) -> list[Effect]:
        raise AssertionError(f"nobody asked to be woken at {now}")


def test_all_that_is_sent_arrives_with_a_checked_sender() -> None:
    send = Send("exchange", "key", b"body", "reply", "text/plain", "7", expiration=5)
    assert delivered(send, 42) == Delivery(
        "exchange", "key", b"body", "reply", "loopback", "text/plain", "7", timestamp=42, expiration=5
    )


def test_what_is_sent_once_lives_until_its_time() -> None:
    send = Send("exchange", "key", b"body", not_after=5_000_000_042)
    assert delivered(send, 42).expiration == 5_000


async def test_what_is_too_late_is_reported_and_not_carried() -> None:
    clock = SystemClock()
    caller, callee = EchoSession(echoes=0), EchoSession(echoes=0)
    here = MessageDriver("caller", caller, lambda _: None, clock, Counter())
    there = MessageDriver("callee", callee, lambda _: None, clock, Counter())
    late = Send("", "callee", b"late", not_after=clock.now())
    here.perform([late, Send("", "callee", b"in time", not_after=clock.now() + 3600 * 10**9)])
    carrying = asyncio.create_task(carry(here, there, clock))

    async def one_came() -> bool:
        return bool(callee.received)

    await eventually(one_came, "a message")
    carrying.cancel()
    await carrying
    assert [delivery.body for delivery in callee.received] == [b"in time"]
    assert caller.unsent == [([late], "its time was over before it could be sent")]


async def test_two_sessions_talk_in_order() -> None:
    clock = SystemClock()
    caller, callee = EchoSession(echoes=0), EchoSession(echoes=1000)
    here = MessageDriver("caller", caller, lambda _: None, clock, Counter())
    there = MessageDriver("callee", callee, lambda _: None, clock, Counter())
    parts = [asyncio.create_task(carry(here, there, clock)), asyncio.create_task(carry(there, here, clock))]
    here.perform(Send("", "callee", str(number).encode(), "caller") for number in range(500))

    async def all_came_back() -> bool:
        return len(caller.received) == 500

    await eventually(all_came_back, "all answers")
    for part in parts:
        part.cancel()
    await asyncio.gather(*parts)

    for session in (caller, callee):
        assert [delivery.body for delivery in session.received] == [str(n).encode() for n in range(500)]
        assert {delivery.user_id for delivery in session.received} == {USER_ID}


async def test_a_long_talk_gives_way_to_the_loop() -> None:
    clock = SystemClock()
    callee = EchoSession(echoes=0)
    here = MessageDriver("caller", EchoSession(0), lambda _: None, clock, Counter())
    there = MessageDriver("callee", callee, lambda _: None, clock, Counter())
    here.perform([Send("", "callee", b"")] * 1000)
    carrying = asyncio.create_task(carry(here, there, clock))

    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert 0 < len(callee.received) < 10
    carrying.cancel()
    await carrying
