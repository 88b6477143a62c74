"""A purge under a memory alarm, on its way to an agent process that could carry it out."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.model.operations import Outcome
from tests.components.waiting import eventually
from tests.service.test_election import site
from tests.service.test_who_is_accepted import filled_queue, messages

pytestmark = pytest.mark.xdist_group("lent broker")

LOW_WATERMARK, USUAL_WATERMARK = "0.0001", "0.6"


async def test_it_is_not_sent_and_nothing_is_carried_out_later(
    lent_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    async def watermark(share: str) -> None:
        await asyncio.to_thread(lent_rabbitmq.rabbitmqctl, "set_vm_memory_high_watermark", share)

    async with site(lent_rabbitmq, tmp_path) as shop:
        await filled_queue(shop)
        gateway, tokens = shop.gateway, range(1, 6)
        await watermark(LOW_WATERMARK)
        for token in tokens:
            asked = time.monotonic()
            gateway.ask(token, "queue", "orders", "purge")
            answer = await gateway.answer(token)
            assert answer.outcome is Outcome.SOURCE_DOWN
            assert answer.text.startswith("not sent: ")
            # Greetings of agents are blocked, too: in time none is known, which is another reason.
            later = token > 1 and "no agent has answered the greeting" in answer.text
            assert later or "short of memory or disk" in answer.text
            assert time.monotonic() - asked < 30, "long before the deadline"

        await watermark(USUAL_WATERMARK)

        async def purged() -> bool:
            """Purge; return whether the broker accepts messages again. Stuck ones precede this purge."""
            token = len(gateway.answers) + 1
            gateway.ask(token, "queue", "orders", "purge")
            answer = await gateway.answer(token)
            assert answer.outcome in {Outcome.APPLIED, Outcome.SOURCE_DOWN}
            return answer.outcome is Outcome.APPLIED

        await eventually(purged, "a purge is carried out")
        assert gateway.answers[len(gateway.answers)][0].outputs == (3,), "all three were there still"
        assert await messages(lent_rabbitmq) == 0
        assert {len(answers) for answers in gateway.answers.values()} == {1}
