"""The exit codes of commands for each answer of a core of these tests, and without waiting for one."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.cli.running_gateway import operate
from gateway.config.files import load_configuration
from gateway.feed.messages import VERSION
from gateway.feed.operations import (
    InvokeMethod,
    OperationAnswer,
    OperationKind,
    OperationRecord,
    OperationRequest,
    OperationState,
    ReloadRequest,
    SetElements,
)
from gateway.feed.records import Batch, Hello, Record
from gateway.feed.server import FeedServer, Reload, Reply, refuse_operation
from gateway.model.observations import SourceState
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from gateway.service.diagnostics.feed_session import feed_session
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.outcome_codes import OF_OUTCOME
from gateway.service.state.running_configuration import note_running
from gateway.state_folder import held
from tests.components.command_line import COMMAND, Ended, Site, amqp_gateway, environment
from tests.components.policy import UNRESTRICTED
from tests.components.scripted_operations import ScriptedOperations, nothing
from tests.components.shop import GATEWAY_ID, START, source
from tests.components.waiting import DEADLINE, eventually
from tests.hypothesis_profiles import PROVING
from tests.terminal.reported import KNOWN, till

ONE_OF_EACH = sorted({code: outcome for outcome, code in OF_OUTCOME.items()}.values(), key=str)
"""One outcome for each exit code."""

TILL = "shop1/till/hall1|till1"
NEVER_READ = "shop1/till/hall1|till9"


@asynccontextmanager
async def core(
    site: Site, operations: ScriptedOperations, *more: Record, reload: Reload = refuse_operation
) -> AsyncIterator[FeedServer]:
    """Run a core that knows a till, and ``more``, and answers as ``operations`` and ``reload`` say."""
    site.configure(operations={"deadline": "1min"})
    reported = (UNRESTRICTED, *KNOWN, till(1), *more)
    feed = FeedServer(
        site.folder / "feed.sock",
        Hello(VERSION, 1, GATEWAY_ID, START),
        lambda: (reported, 1),
        asked=operations.asked,
        reload=reload,
    )
    await feed.start()
    try:
        yield feed
    finally:
        await feed.close()


async def start(
    site: Site,
    *words: str,
    output: int = asyncio.subprocess.PIPE,
    errors: int = asyncio.subprocess.PIPE,
    closing: str = "",
) -> asyncio.subprocess.Process:
    """Start a command; ``closing`` closes its streams, as a shell writes that (``>&-``)."""
    name, *rest = words
    return await asyncio.create_subprocess_exec(
        *(("sh", "-c", f'exec "$@" {closing}', "sh") if closing else ()),
        *COMMAND,
        *(name, "--config", str(site.configuration), *rest),
        env=environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
    )


async def end(process: asyncio.subprocess.Process) -> Ended:
    async with asyncio.timeout(DEADLINE):
        output, errors = await process.communicate()
    assert process.returncode is not None
    return Ended(ExitCode(process.returncode), (output or b"").decode(), (errors or b"").decode())


async def ran(site: Site, *words: str) -> Ended:
    """Run a command to its end, in a process that costs less than one that is started."""
    name, *rest = words
    return await asyncio.to_thread(amqp_gateway, name, "--config", site.configuration, *rest)


async def asked(site: Site, answer: OperationAnswer, *words: str) -> tuple[OperationRequest, Ended]:
    """Return the request of a command to the core, and the end of the command."""
    operations = ScriptedOperations()
    operations.script = lambda _request: answer
    async with core(site, operations):
        ended = await ran(site, *words)
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
    checked = OperationAnswer(0, "", Outcome.APPLIED)
    _, ended = await asked(site, checked, "invoke", TILL, "empty", "--check", "--json")
    assert (ended.code, json.loads(ended.output)["outcome"]) == (ExitCode.OK, "accepted")


ALL_TROUBLES = list(
    itertools.product(
        ("full", "closed", "none"), (Outcome.APPLIED, Outcome.REMOTE_FAILURE, Outcome.UNKNOWN), (True, False)
    )
)
SOME_TROUBLES = [
    ("full", Outcome.APPLIED, False),
    ("full", Outcome.UNKNOWN, True),
    ("closed", Outcome.APPLIED, True),
    ("closed", Outcome.REMOTE_FAILURE, False),
    ("none", Outcome.UNKNOWN, False),
    ("none", Outcome.REMOTE_FAILURE, True),
]
"""Each output and each outcome in both forms; a process is started for each."""


@pytest.mark.parametrize(("output", "outcome", "as_json"), ALL_TROUBLES if PROVING else SOME_TROUBLES)
async def test_an_outcome_comes_before_troubles_of_the_output(
    site: Site, output: str, outcome: Outcome, *, as_json: bool
) -> None:
    """Something was done: a full disk, or a reader who has gone, neither hides that nor asks for it again."""
    operations = ScriptedOperations()
    operations.script = lambda _request: OperationAnswer(0, "7b0c.1.o9", outcome, "OK", values={"taken": 41})
    reading, closed = os.pipe()
    os.close(reading)
    full = os.open("/dev/full", os.O_WRONLY)
    words = ("invoke", TILL, "empty", "keep=1", *(["--json"] if as_json else []))
    closing = ">&-" if output == "none" else ""
    try:
        async with core(site, operations):
            written = full if output == "full" else closed
            ended = await end(await start(site, *words, output=written, closing=closing))
    finally:
        os.close(full)
        os.close(closed)
    assert ended.code is OF_OUTCOME[outcome]
    (line,) = ended.reported
    assert outcome.value in line
    assert "7b0c.1.o9" in line
    assert "again" not in line
    if outcome is Outcome.APPLIED:
        assert line.startswith("amqp-gateway: applied: operation 7b0c.1.o9; its output cannot be written: ")


async def test_an_outcome_is_the_exit_code_where_nothing_can_be_printed(site: Site) -> None:
    operations = ScriptedOperations()
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        async with core(site, operations):
            done = await end(await start(site, "invoke", TILL, "empty", output=full, errors=full))
            operations.script = lambda _: OperationAnswer(0, "7b0c.1.o9", Outcome.REMOTE_FAILURE, "no")
            failed = await end(await start(site, "invoke", TILL, "empty", output=full, errors=full))
        assert (done.code, failed.code) == (ExitCode.OK, ExitCode.REMOTE_FAILURE)
    finally:
        os.close(full)


async def test_streams_that_are_closed_are_no_trouble(site: Site) -> None:
    """No socket of the command is taken for one of them."""
    operations, closing = ScriptedOperations(), "<&- >&- 2>&-"
    async with core(site, operations):
        done = await end(await start(site, "invoke", TILL, "empty", closing=closing))
        operations.script = lambda _: OperationAnswer(0, "7b0c.1.o9", Outcome.REMOTE_FAILURE, "no")
        failed = await end(await start(site, "invoke", TILL, "empty", closing=closing))
        read = await end(await start(site, "get", TILL, closing=">&-"))
    assert (done.code, failed.code) == (ExitCode.OK, ExitCode.REMOTE_FAILURE)
    assert (read.code, read.errors) == (ExitCode.NOT_READ, "")


@pytest.mark.parametrize("words", [("get", NEVER_READ), ("invoke", NEVER_READ, "empty", "keep=1")])
@pytest.mark.parametrize(
    ("state", "code"),
    [
        (SourceState.SYNCHRONISING, ExitCode.SOURCE_DOWN),
        (SourceState.DOWN, ExitCode.SOURCE_DOWN),
        (SourceState.SYNCHRONISED, ExitCode.NOT_FOUND),
    ],
)
async def test_an_unknown_object_may_exist_until_its_source_is_read(
    site: Site, state: SourceState, code: ExitCode, words: tuple[str, ...]
) -> None:
    reported = source(state)
    async with core(site, ScriptedOperations(), reported):
        ended = await ran(site, *words)
    assert ended.code is code
    (line, *_) = ended.reported
    assert ("is not known yet" in line) is (code is ExitCode.SOURCE_DOWN)


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


def begun(request: OperationRequest) -> Batch:
    """Return the record of the operation of a request, which has begun."""
    record = OperationRecord(
        *(1, "7b0c.1.o9", OperationKind.SET, OperationState.BEGUN, request.principal, 1),
        class_name=request.class_name,
        row=request.row,
        stable_name=request.stable_name,
        leaf_name="till1",
        began=START,
        reference=request.reference,
    )
    return Batch(1, 2, (record,))


async def test_an_operation_that_has_begun_is_named_when_waiting_stops(site: Site) -> None:
    operations = ScriptedOperations()
    operations.script = nothing
    async with core(site, operations) as feed, feed_session(site.folder / "feed.sock") as session:
        known = next(one for one in session.view.objects.values() if one.class_name == "shop:till")
        waiting = asyncio.create_task(operate(session, known, SetElements({"limit": 20}), 60 * SECOND))
        await operations.until_asked(1)
        feed.publish(begun(operations.requests[0]))

        async def is_known() -> bool:
            return "7b0c.1.o9" in session.view.operations

        await eventually(is_known, "the operation has begun")
        waiting.cancel()
        with pytest.raises(CommandError, match=r"amqp-gateway explain 7b0c\.1\.o9"):
            await waiting


async def test_a_core_that_ends_leaves_it_unknown(site: Site) -> None:
    operations = ScriptedOperations()
    operations.script = nothing
    async with core(site, operations):
        process = await start(site, "set", TILL, "limit=20")
        await operations.until_asked(1)
    ended = await end(process)
    assert ended.code is ExitCode.UNKNOWN_OUTCOME
    assert ended.reported[0].startswith("amqp-gateway: unknown: ")


async def test_a_reload_of_which_a_core_does_not_know_what_holds_is_requested_once(site: Site) -> None:
    requests: list[ReloadRequest] = []
    text = "the policy was applied; an internal error of the gateway"

    def reload(request: ReloadRequest, reply: Reply) -> None:
        requests.append(request)
        reply(OperationAnswer(request.request, "", Outcome.UNKNOWN, text))

    async with core(site, ScriptedOperations(), reload=reload):
        note_running(load_configuration(site.configuration))
        with held(site.state.path, patience_seconds=0):
            ended = await ran(site, "reload")
    assert (ended.code, len(requests)) == (ExitCode.UNKNOWN_OUTCOME, 1)
    assert text in ended.errors
