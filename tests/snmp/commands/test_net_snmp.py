"""net-snmp's commands as a manager that calls methods, with the names of the module."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from gateway.config.snmp import SnmpSettings, SnmpWriter
from gateway.feed.client import FeedLink
from gateway.feed.messages import VERSION
from gateway.feed.operations import InvokeMethod, OperationAnswer
from gateway.feed.records import Hello
from gateway.feed.server import FeedServer
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from gateway.service.processes.snmp import Commands
from gateway.service.processes.snmp_secrets import secret_arguments
from gateway.snmp.commands.command import Submission
from gateway.snmp.oid_registry import DEFAULT_ROOT
from gateway.snmp.requests import Access, Responder
from gateway.snmp.server import UdpServer
from gateway.snmp.set_requests import SetRequests, SetSettings
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.written_values import AdvisoryLock
from tests.components.net_snmp import own_environment, with_modules
from tests.components.policy import UNRESTRICTED
from tests.components.scripted_operations import ScriptedOperations, nothing
from tests.components.shop import agent, hall, source
from tests.components.waiting import eventually
from tests.feed.test_server import Recorder
from tests.snmp.mib.shop import Gateway, classes, till

DEADLINE = 10 * SECOND
COMMUNITIES = {"anna": "annas", "bert": "berts"}
TILL = "AMQP-GATEWAY-MIB::agPackages.7.1.2.1.2.1.1"


@dataclass
class Agent:
    """An agent with two writers on a loopback port, and the core that receives its requests."""

    port: int
    operations: ScriptedOperations
    folder: Path

    async def snmpset(self, *assignments: str, version: str = "2c") -> list[str]:
        """Return the output of a SET by Anna; a successful one prints the values set."""
        return await self._run("snmpset", "annas", version, *assignments)

    async def table(self, community: str = "annas") -> dict[str, str]:
        """Return the output of a walk of the commands, without times."""
        lines = await self._run("snmpwalk", community, "2c", "agCommands")
        reported = dict(line.removeprefix("AMQP-GATEWAY-MIB::").split(" = ", 1) for line in lines)
        return {name: value for name, value in reported.items() if not name.startswith(_TIMES)}

    async def until_ended(self, command: str) -> None:
        async def has_ended() -> bool:
            return (await self.table()).get(f"agCommandState.{command}") == "INTEGER: ended(3)"

        await eventually(has_ended, "the end of the command")

    async def _run(self, program: str, community: str, version: str, *words: str) -> list[str]:
        process = await asyncio.create_subprocess_exec(
            program,
            *("-v", version, "-c", community, "-t", "20", "-r", "0"),
            *with_modules(["AMQP-GATEWAY-MIB"]),
            f"127.0.0.1:{self.port}",
            *words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=own_environment(self.folder),
        )
        output, _ = await process.communicate()
        return output.decode().splitlines()


_TIMES = ("agCommandSubmitted.", "agCommandEnded.", "agCommandExpires.")


@contextlib.asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Agent]:
    operations = ScriptedOperations()
    feed = FeedServer(
        tmp_path / "f.sock", Hello(VERSION, 1, "gw", 0), lambda: ((), 5), asked=operations.asked
    )
    link = FeedLink(tmp_path / "f.sock", Recorder())
    gateway = Gateway(root=DEFAULT_ROOT)
    gateway.hello()
    gateway.snapshot(UNRESTRICTED, source(), *classes(), agent(fresh=True), hall(), till(1))
    commands = Commands(
        SnmpSettings(writers={name: SnmpWriter() for name in COMMUNITIES}),
        DEFAULT_ROOT,
        gateway.store,
        gateway.projection,
        Submission(gateway.projection, secret_arguments(()), DEADLINE),
        link.ask,
        lambda: gateway.now,
    )
    gateway.projection.views.settle()  # the writers have come after the snapshot
    counters, failures = SnmpCounters(), list[Exception]()
    access = {
        community.encode(): Access(commands.view(writer), writer=writer)
        for writer, community in COMMUNITIES.items()
    }
    sets = SetRequests(
        gateway.projection,
        [commands.table],
        link.ask,
        counters,
        SetSettings(DEADLINE),
        lambda: gateway.now,
        AdvisoryLock(7),
    )
    server = UdpServer(
        Responder(access, counters, failures.append, sets=sets).answer, counters, failures.append
    )
    await feed.start()
    following = asyncio.create_task(link.run())
    server.open([("127.0.0.1", 0)])

    async def is_connected() -> bool:
        return link.is_connected

    try:
        await eventually(is_connected, "a connection")
        yield Agent(server.addresses[0][1], operations, tmp_path)
    finally:
        server.close()
        await commands.close()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await feed.close()
    assert failures == []


def named(command: str, **cells: str) -> list[str]:
    """Return columns of a command as snmpset takes them: ``Target="o 1.3.6"``."""
    words = []
    for column, value in cells.items():
        words += [f'agCommand{column}."anna"."{command}"', *value.split(" ", 1)]
    return words


def argument(command: str, name: str, value: str) -> list[str]:
    return [f'agCommandArgumentValue."anna"."{command}"."{name}"', "s", value]


async def test_one_set_calls_a_method(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        agent.operations.script = lambda _: OperationAnswer(
            0, "gw.1.o7", Outcome.APPLIED, "OK", code=0, values={"sales": 5, "rest": {"a": (1, 2)}}
        )
        reported = await agent.snmpset(
            *argument("c", "reason", "it is late"),
            *named("c", RowStatus="i createAndGo", Target=f"o {TILL}", Method="s close"),
        )
        assert reported == [
            'AMQP-GATEWAY-MIB::agCommandArgumentValue."anna"."c"."reason" = STRING: "it is late"',
            'AMQP-GATEWAY-MIB::agCommandRowStatus."anna"."c" = INTEGER: createAndGo(4)',
            f'AMQP-GATEWAY-MIB::agCommandTarget."anna"."c" = OID: {TILL}',
            'AMQP-GATEWAY-MIB::agCommandMethod."anna"."c" = STRING: close',
        ]
        await agent.until_ended('"anna"."c"')
        (request,) = agent.operations.requests
        assert request.action == InvokeMethod("close", {"reason": "it is late"})
        assert str(request.principal) == "snmp:anna"
        assert request.principal.origin.startswith("127.0.0.1:")
        assert await agent.table() == {
            'agCommandTarget."anna"."c"': f"OID: {TILL}",
            'agCommandMethod."anna"."c"': "STRING: close",
            'agCommandTimeout."anna"."c"': "Gauge32: 0 seconds",
            'agCommandRowStatus."anna"."c"': "INTEGER: active(1)",
            'agCommandState."anna"."c"': "INTEGER: ended(3)",
            'agCommandOutcome."anna"."c"': "INTEGER: applied(1)",
            'agCommandText."anna"."c"': "STRING: OK",
            'agCommandElement."anna"."c"': "STRING: ",
            'agCommandCode."anna"."c"': "INTEGER: 0",
            'agCommandOperationId."anna"."c"': "STRING: gw.1.o7",
            'agCommandArgumentValue."anna"."c"."reason"': 'STRING: "it is late"',
            'agCommandArgumentSyntax."anna"."c"."reason"': "INTEGER: text(1)",
            'agCommandArgumentRowStatus."anna"."c"."reason"': "INTEGER: active(1)",
            'agCommandResultName."anna"."c".1': "STRING: sales",
            'agCommandResultName."anna"."c".2': "STRING: rest",
            'agCommandResultValue."anna"."c".1': 'STRING: "5"',
            'agCommandResultValue."anna"."c".2': 'STRING: "{\\"a\\":[1,2]}"',
            'agCommandResultSyntax."anna"."c".1': "INTEGER: text(1)",
            'agCommandResultSyntax."anna"."c".2': "INTEGER: json(2)",
            'agCommandResultLength."anna"."c".1': "Gauge32: 1 octets",
            'agCommandResultLength."anna"."c".2': "Gauge32: 11 octets",
            "agCommandsQuota.0": "Gauge32: 32 rows",
            "agCommandsKeep.0": "Gauge32: 3600 seconds",
            "agCommandsCount.0": "Gauge32: 1 rows",
            "agCommandsSubmitted.0": "Counter64: 1 commands",
        }


async def test_step_by_step_and_destroyed_while_it_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        agent.operations.script = nothing
        await agent.snmpset(*named("c", RowStatus="i createAndWait"), version="1")
        await agent.snmpset(*named("c", Target=f"o {TILL}", Method="s close", Timeout="u 5"))
        assert (await agent.table())['agCommandRowStatus."anna"."c"'] == "INTEGER: notInService(2)"
        await agent.snmpset(*named("c", RowStatus="i active"), version="1")
        await agent.operations.until_asked(1)
        assert agent.operations.requests[0].timeout == 5 * SECOND
        assert (await agent.table())['agCommandState."anna"."c"'] == "INTEGER: running(2)"
        await agent.snmpset(*named("c", RowStatus="i destroy"))
        assert 'agCommandState."anna"."c"' not in await agent.table()
        agent.operations.answer(0, OperationAnswer(0, "gw.1.o1", Outcome.APPLIED))
        assert 'agCommandState."anna"."c"' not in await agent.table()


async def test_what_is_wrong_is_reported_in_the_words_of_the_version(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        active = named("c", RowStatus="i active")
        (reason,) = [line for line in await agent.snmpset(*active) if "Reason" in line]
        assert "inconsistentValue" in reason
        (reason,) = [line for line in await agent.snmpset(*active, version="1") if "Reason" in line]
        assert "badValue" in reason
        of_bert = ['agCommandRowStatus."bert"."c"', "i", "createAndWait"]
        (reason,) = [line for line in await agent.snmpset(*of_bert) if "Reason" in line]
        assert "noAccess" in reason


async def test_another_writer_sees_nothing_of_it(tmp_path: Path) -> None:
    async with running(tmp_path) as agent:
        await agent.snmpset(*named("c", RowStatus="i createAndWait"))
        assert (await agent.table("berts")).keys() == {
            "agCommandsQuota.0",
            "agCommandsKeep.0",
            "agCommandsCount.0",
            "agCommandsSubmitted.0",
        }
