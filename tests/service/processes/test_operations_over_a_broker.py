"""Operations that a source of the gateway carries to an agent, over a real RabbitMQ."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.statuses import Status
from gateway.model.observations import SourceState
from gateway.model.operations import Answer, Outcome
from tests.components.called_agent import calling_site
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually
from tests.links.broker_side import close_connection

DOUBT = "it may have been carried out, or may still be"
TOO_LATE = "not carried out: it came after the time that it was given"


async def test_a_call_is_carried_out_and_its_answer_comes_behind_what_it_changed(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    async with calling_site(virtual_host.broker, virtual_host.name, tmp_path) as site:
        token = site.call(3)
        call = await site.agent.called()
        assert (call.method, call.arguments) == ("fill", (3,))
        site.agent.put(8)
        site.agent.answer(call, outputs=(8,))
        answer = await site.answered(token)

    assert answer == Answer(token, Outcome.APPLIED, "OK", 0, (8,))
    assert site.reported.steps[-2:] == [8, answer]


async def test_a_call_that_the_agent_refuses_failed_and_says_why(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    async with calling_site(virtual_host.broker, virtual_host.name, tmp_path) as site:
        token = site.call(3)
        site.agent.answer(await site.agent.called(), Status.FORBIDDEN, "the tap is locked")
        assert await site.answered(token) == Answer(
            token, Outcome.REMOTE_FAILURE, "the tap is locked", Status.FORBIDDEN
        )


async def test_an_object_is_read_again(virtual_host: VirtualHost, tmp_path: Path) -> None:
    async with calling_site(virtual_host.broker, virtual_host.name, tmp_path) as site:
        site.agent.put(9)
        token = site.fetch()
        answer = await site.answered(token)
        assert answer == Answer(token, Outcome.APPLIED, "", 0)
        assert 9 in site.reported.steps[: site.reported.steps.index(answer)]
        site.agent.session.delete(7, 1)
        token = site.fetch()
        assert (await site.answered(token)).outcome is Outcome.OBJECT_GONE


async def test_a_call_that_is_answered_late_is_unknown_first_and_reported_then(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    async with calling_site(virtual_host.broker, virtual_host.name, tmp_path) as site:
        token = site.call(3, seconds=5)
        call = await site.agent.called()
        assert await site.answered(token) == Answer(
            token, Outcome.UNKNOWN, f"no answer came in time: {DOUBT}"
        )
        site.agent.answer(call, outputs=(8,))
        assert await site.answered(token, 2) == Answer(token, Outcome.APPLIED, "OK", 0, (8,))
    assert len(site.agent.calls) == 1


async def test_when_the_link_is_cut_in_between_it_is_unknown_and_nothing_is_sent_again(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    broker = virtual_host.broker

    async def cut(part: str) -> None:
        async def is_closed() -> bool:
            name = f"amqp-gateway console {part}"
            return await asyncio.to_thread(close_connection, broker, virtual_host.path, name) > 0

        await eventually(is_closed, "the broker closed the connection")

    async with calling_site(broker, virtual_host.name, tmp_path) as site:
        token = site.call(3)
        call = await site.agent.called()
        await cut("consume")
        assert await site.answered(token) == Answer(
            token, Outcome.UNKNOWN, f"the link went down before an answer came: {DOUBT}"
        )
        refused = site.call(4)
        assert (await site.answered(refused)).outcome is Outcome.SOURCE_DOWN
        site.agent.answer(call, outputs=(8,))
        await site.stands(SourceState.SYNCHRONISED)
        token = site.call(5)
        call = await site.agent.called(2)
        site.agent.answer(call, outputs=(13,))
        await site.answered(token)

    assert [call.arguments for call in site.agent.calls] == [(3,), (5,)]


@pytest.mark.xdist_group("lent broker")
async def test_while_the_broker_takes_no_messages_calls_are_refused_and_none_is_carried_out_later(
    lent_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    async def watermark(share: str) -> None:
        await asyncio.to_thread(lent_rabbitmq.rabbitmqctl, "set_vm_memory_high_watermark", share)

    async with calling_site(lent_rabbitmq, "/", tmp_path) as site:
        await watermark("0.0000001")
        for _ in range(3):
            refusal = await site.answered(site.call(1))
            assert refusal.outcome is Outcome.SOURCE_DOWN
            assert "short of memory or disk" in refusal.text
        await watermark("0.6")

        async def is_carried_out() -> bool:
            token = site.call(3)
            await eventually(lambda: has_come_to_something(token), "it was refused, or arrived")
            if not site.agent.calls:
                return False
            site.agent.answer(await site.agent.called(), outputs=(8,))
            return (await site.answered(token)).outcome is Outcome.APPLIED

        async def has_come_to_something(token: int) -> bool:
            return bool(site.reported.answers(token) or site.agent.calls)

        await eventually(is_carried_out, "the broker takes messages again")

    assert [call.arguments for call in site.agent.calls] == [(3,)]
