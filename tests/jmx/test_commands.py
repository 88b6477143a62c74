"""The parts of ``check``, ``health`` and ``run`` that concern JMX."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Ended, amqp_gateway, running
from tests.components.waiting import DEADLINE
from tests.jmx.conftest import JmxSite
from tests.service.processes.test_core import processes_of


def as_of_the_gateway(jmx: JmxSite) -> AbstractContextManager[int]:
    """Hold the state as a gateway does: the fixture's Core, which listens at the feed's socket, does not."""
    return jmx.site.state.locked()


async def command(name: str, jmx: JmxSite, *arguments: str) -> Ended:
    return await asyncio.to_thread(amqp_gateway, name, *arguments, "--config", jmx.site.configuration)


async def test_check_finds_java(jmx: JmxSite, tmp_path: Path) -> None:
    with as_of_the_gateway(jmx):
        assert (await command("check", jmx)).code is ExitCode.OK
    jmx.configure(java=str(tmp_path / "nowhere"))
    with as_of_the_gateway(jmx):
        ended = await command("check", jmx)
    assert ended.code is ExitCode.NOT_INSTALLED
    assert "holds no Java runtime" in ended.reported[0]


async def test_check_reads_passwords(jmx: JmxSite) -> None:
    jmx.configure(users={"monitor": {"password": {"file": "nowhere"}}})
    assert (await command("check", jmx)).code is ExitCode.CONFIGURATION


async def test_check_connect_says_who_has_the_port(jmx: JmxSite) -> None:
    with as_of_the_gateway(jmx):
        assert f"jmx: 127.0.0.1:{jmx.port} is free\n" in (await command("check", jmx, "--connect")).output
    with as_of_the_gateway(jmx), socket.socket() as other:
        other.bind(("127.0.0.1", jmx.port))
        other.listen()
        ended = await command("check", jmx, "--connect")
    assert ended.code is ExitCode.ADDRESS_IN_USE
    assert ended.reported == [
        (
            f"amqp-gateway: jmx: 127.0.0.1:{jmx.port} is taken by something that is no JMX agent: "
            "end it, or choose another address under jmx.listen"
        )
    ]


async def test_health_asks_whether_jmx_takes_connections(jmx: JmxSite) -> None:
    jmx.configure()
    jmx.site.configure(
        jmx={"enabled": True, "listen": f"127.0.0.1:{jmx.port}", "heap": 64}, snmp={"enabled": False}
    )
    ended = await command("health", jmx)
    assert ended.code is ExitCode.UNREACHABLE
    assert ended.reported[0].endswith("is `amqp-gateway run` running?")
    async with jmx.running():
        ended = await command("health", jmx)
        with as_of_the_gateway(jmx):
            checked = await command("check", jmx, "--connect")
    assert (ended.code, ended.output) == (ExitCode.OK, f"JMX 127.0.0.1:{jmx.port} takes connections\n")
    assert "has a JMX agent: this gateway's, if it runs\n" in checked.output


async def test_health_needs_a_process_that_answers(jmx: JmxSite) -> None:
    jmx.site.configure(snmp={"enabled": False})
    ended = await command("health", jmx)
    assert ended.code is ExitCode.CONFIGURATION
    assert ended.reported == [
        "amqp-gateway: neither snmp nor jmx nor metrics.objects is enabled: enable one of them for this check"
    ]


async def test_run_runs_it_with_the_others(jmx: JmxSite) -> None:
    await jmx.core.stop()
    with running("run", "--config", jmx.site.configuration, log=jmx.log) as gateway:
        await asyncio.to_thread(gateway.ready)
        assert sorted(processes_of(psutil.Process(gateway.process.pid))) == [
            "core",
            "jmx",
            "snmp",
        ]
        async with jmx.client() as client:
            assert await client.read("amqp.gateway:type=Gateway", "Epoch") == "java.lang.Long 1"
        everybody = psutil.Process(gateway.process.pid).children(recursive=True)
        gateway.process.kill()
        _, alive = await asyncio.to_thread(psutil.wait_procs, everybody, DEADLINE)
        assert alive == []
