"""A console of QMF, captured over a real RabbitMQ, sends and observes the same when it is replayed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from gateway.clock import SystemClock
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.capture import CapturedSession
from gateway.links.capture_file import AS_CONSOLE, CaptureFile
from gateway.links.capture_reading import read_capture
from gateway.links.replay import replay
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import Observation, SourceState, SourceStateSeen
from tests.components.called_agent import calling_site
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually
from tests.links.captures import Seen
from tests.links.recording import endpoint_of

SYNCHRONISED = SourceStateSeen(SourceState.SYNCHRONISED)


async def test_a_console_says_and_observes_the_same_again(virtual_host: VirtualHost, tmp_path: Path) -> None:
    path, clock = tmp_path / "console.jsonl", SystemClock()
    user = virtual_host.broker.administrator.name
    config = ConsoleConfig(trusted_users=frozenset({user}))
    seen: list[Observation] = []
    session = ConsoleSession(config)
    file = CaptureFile(path, "shop", "qmf", AS_CONSOLE, clock.now())
    captured = CapturedSession(session, file)
    conversation = MessageDriver("shop", captured, seen.extend, clock, Counter())
    role = AmqpRole("console", session.bindings, probed="qpid.management")
    link = AmqpLink(endpoint_of(virtual_host.broker, virtual_host.name), role, conversation, clock)

    async def synchronised() -> bool:
        return SYNCHRONISED in seen

    async with calling_site(virtual_host.broker, virtual_host.name, tmp_path):
        running = asyncio.create_task(link.run())
        await eventually(synchronised, "the console has read everything")
        running.cancel()
        await asyncio.wait({running})
    conversation.stop()
    file.close()

    again = Seen()
    with path.open("rb") as written:
        outcome = replay(read_capture(written), ConsoleSession(config), again)

    assert not outcome.differences
    assert outcome.same > 2
    assert again.observations == seen
