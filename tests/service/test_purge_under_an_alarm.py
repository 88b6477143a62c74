"""A purge that is stuck behind a memory alarm, on its way to an agent process that could carry it out."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.messages import Status
from gateway.model.operations import Outcome
from tests.service.test_election import site
from tests.service.test_who_is_obeyed import filled_queue, messages

LOW_WATERMARK, USUAL_WATERMARK = "0.0001", "0.6"


async def test_it_is_refused_as_late_when_the_alarm_is_over(
    own_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    async def watermark(share: str) -> None:
        await asyncio.to_thread(own_rabbitmq.rabbitmqctl, "set_vm_memory_high_watermark", share)

    async with site(own_rabbitmq, tmp_path) as shop:
        await filled_queue(shop)
        gateway, stuck = shop.gateway, list[int]()
        await watermark(LOW_WATERMARK)
        while True:
            # Until the broker has said to the gateway that it takes nothing, what is asked for is stuck.
            token = len(stuck) + 1
            gateway.ask(token, "queue", "orders", "purge", seconds=2)
            outcome = (await gateway.answer(token)).outcome
            if outcome is Outcome.SOURCE_DOWN:
                break
            assert outcome is Outcome.UNKNOWN
            stuck.append(token)
        assert stuck
        await watermark(USUAL_WATERMARK)
        for token in stuck:
            settled = await gateway.answer(token, 2)
            assert (settled.outcome, settled.code) == (Outcome.REMOTE_FAILURE, Status.EXCEPTION)
            assert "not carried out: it came after the time" in settled.text
        assert await messages(own_rabbitmq) == 3
        purged = await gateway.call(len(stuck) + 2, "queue", "orders", "purge")
        assert purged.outcome is Outcome.APPLIED
        assert await messages(own_rabbitmq) == 0
