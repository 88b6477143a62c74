"""The exit codes of commands for each answer of a core of these tests, and without waiting for one."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.feed.messages import VERSION
from gateway.feed.operations import InvokeMethod, OperationAnswer, OperationRequest, SetElements
from gateway.feed.records import Hello
from gateway.feed.server import FeedServer
from gateway.model.operations import Outcome
from gateway.service.processes.exit_codes import OF_OUTCOME, ExitCode
from tests.components.command_line import COMMAND, Ended, Site, environment
from tests.components.policy import UNRESTRICTED
from tests.components.scripted_operations import ScriptedOperations, nothing
from tests.components.shop import GATEWAY_ID, START
from tests.components.waiting import DEADLINE
from tests.terminal.reported import KNOWN, till

ONE_OF_EACH = sorted({code: outcome for outcome, code in OF_OUTCOME.items()}.values(), key=str)
"""One outcome for each exit code."""

TILL = "shop1/till/hall1|till1"


@asynccontextmanager
async def core(site: Site, operations: ScriptedOperations) -> AsyncIterator[None]:
    """Run a core that knows a till, and answers as ``operations`` says."""
    site.configure(operations={"deadline": "1min"})
    reported = (UNRESTRICTED, *KNOWN, till(1))
    feed = FeedServer(
        site.folder / "feed.sock",
        Hello(VERSION, 1, GATEWAY_ID, START),
        lambda: (reported, 1),
        asked=operations.asked,
    )
    await feed.start()
    try:
        yield
    finally:
        await feed.close()


async def start(site: Site, *words: str) -> asyncio.subprocess.Process:
    name, *rest = words
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *(name, "--config", str(site.configuration), *rest),
        env=environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def end(process: asyncio.subprocess.Process) -> Ended:
    async with asyncio.timeout(DEADLINE):
        output, errors = await process.communicate()
    assert process.returncode is not None
    return Ended(ExitCode(process.returncode), output.decode(), errors.decode())


async def asked(site: Site, answer: OperationAnswer, *words: str) -> tuple[OperationRequest, Ended]:
    """Return the request of a command to the core, and the end of the command."""
    operations = ScriptedOperations()
    operations.script = lambda _request: answer
    async with core(site, operations):
        ended = await end(await start(site, *words))
    (request,) = operations.requests
    return request, ended


@pytest.mark.parametrize("outcome", ONE_OF_EACH)
async def test_each_outcome_ends_a_command_with_its_code(site: Site, outcome: Outcome) -> None:
    answer = OperationAnswer(0, "7b0c.1.o9", outcome, "this is why", "mood", 3, {"mood": 0})
    request, ended = await asked(site, answer, "set", TILL, "mood=calm", "limit=20", "--json")

    assert request.action == SetElements({"mood": 0, "limit": 20})
    assert (request.source, request.class_name, request.row) == (1, "shop:till", 1)
    assert (request.principal.front_end, request.check_only) == ("cli", False)
    assert ended.code is OF_OUTCOME[outcome]
    assert json.loads(ended.output) == {
        "object": "shop1/shop:till/hall1|till1",
        "outcome": outcome.value,
        "operation_id": "7b0c.1.o9",
        "text": "this is why",
        "element": "mood",
        "code": 3,
        "values": {"mood": "calm"},
    }
    if outcome is Outcome.APPLIED:
        assert ended.reported == []
    elif outcome is Outcome.UNKNOWN:
        later = "; `amqp-gateway explain 7b0c.1.o9` shows when the outcome is known"
        assert ended.reported == [f"amqp-gateway: unknown: mood: this is why{later}"]
    else:
        assert ended.reported == [f"amqp-gateway: {outcome.value}: mood: this is why (operation 7b0c.1.o9)"]


async def test_a_method_s_arguments_and_outputs(site: Site) -> None:
    answer = OperationAnswer(0, "7b0c.1.o9", Outcome.APPLIED, "OK", values={"taken": 41})
    request, ended = await asked(site, answer, "invoke", TILL, "empty", "keep=1", "--timeout", "2s")
    assert request.action == InvokeMethod("empty", {"keep": 1})
    assert request.timeout == 2 * 10**9
    assert (ended.code, ended.output) == (ExitCode.OK, "taken  41\napplied: operation 7b0c.1.o9\n")

    request, ended = await asked(site, answer, "invoke", TILL, "empty", "--absent", "keep", "--check")
    assert request.action == InvokeMethod("empty", {"keep": None})
    assert request.check_only
    assert ended.output == "nothing speaks against it\n"


async def test_who_does_not_wait_does_not_know(site: Site) -> None:
    operations = ScriptedOperations()
    operations.script = nothing
    async with core(site, operations):
        process = await start(site, "set", TILL, "limit=20")
        await operations.until_asked(1)
        process.send_signal(signal.SIGINT)
        ended = await end(process)
    assert (ended.code, ended.output) == (ExitCode.UNKNOWN_OUTCOME, "")
    assert ended.reported[0].startswith("amqp-gateway: stopped waiting: the operation may still be applied")


async def test_a_core_that_ends_leaves_it_unknown(site: Site) -> None:
    operations = ScriptedOperations()
    operations.script = nothing
    async with core(site, operations):
        process = await start(site, "set", TILL, "limit=20")
        await operations.until_asked(1)
    ended = await end(process)
    assert ended.code is ExitCode.UNKNOWN_OUTCOME
    assert ended.reported[0].startswith("amqp-gateway: unknown: ")
