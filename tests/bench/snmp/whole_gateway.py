"""The whole gateway with many objects: the time until all are shown, and its memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from gateway.demo.broker import PrivateBroker
from gateway.demo.node_setup import free_ports
from gateway.dialects.qmf.agent import ManagedObject
from gateway.jmx.names import object_name
from gateway.snmp.ber import Oid
from gateway.snmp.oid_registry import DEFAULT_ROOT, read_registry
from tests.bench.jmx.programs import Load, compile_java, load_client
from tests.bench.latency.agent import AGENT_USER, GATEWAY_USER, LinkedAgent
from tests.bench.latency.site import endpoint_of, grant, linked, url_of
from tests.bench.run import Run
from tests.bench.snmp.agents import answers_with
from tests.bench.snmp.table import COLUMNS, SCHEMA, TIME, cells, index
from tests.components.command_line import Site, new_site, running
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.waiting import wait_until

_DEADLINE: Final = 180.0
_MANY: Final = 10_000
"""The number of objects from which on the work of the core is mostly per object."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that a process has used until now.

    Attributes:
        resident: bytes in memory.
        proportional: the same with shared pages divided by the number of processes that share them (PSS).
        processor: seconds of processor time.
    """

    resident: float
    proportional: float
    processor: float


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the gateway.

    Attributes:
        first_answer: seconds until SNMP answered.
        all_shown: seconds until SNMP and JMX had every object.
        used: by process (``supervisor``, ``core``, ``snmp``, ``jmx``, ``java`` ...), until then.
        core_before: seconds of the core's processor time until SNMP answered.
    """

    first_answer: float
    all_shown: float
    used: Mapping[str, Usage]
    core_before: float


def measure(run: Run, objects: int) -> None:
    """Start the gateway without state and, if there is time, again with all numbers given; add figures."""
    folder = run.folder / f"whole-{objects}"
    folder.mkdir()
    asyncio.run(_measure(run, folder, objects))


async def _measure(run: Run, folder: Path, objects: int) -> None:
    agent = LinkedAgent((SCHEMA,))
    for number in range(1, objects + 1):
        name, durable, *numbers = cells(number)
        agent.session.put(ManagedObject(SCHEMA.key, number, TIME, (name, durable), tuple(numbers), TIME))
    jar = compile_java(folder)
    with PrivateBroker(settings=TEST_SETTINGS) as broker:
        await asyncio.to_thread(broker.start)
        passwords = await asyncio.to_thread(grant, broker)
        site = new_site(folder)
        (jmx_port,) = free_ports(1)
        amqp = {"url": url_of(broker), "user": GATEWAY_USER, "password": site.secret(passwords[GATEWAY_USER])}
        site.configure(
            sources={"bench": {"kind": "qmf", "amqp": amqp, "trusted_users": [AGENT_USER]}},
            snmp={"listen": [f"127.0.0.1:{site.snmp_port}"]},
            jmx={"enabled": True, "listen": f"127.0.0.1:{jmx_port}"},
        )
        async with linked(agent, endpoint_of(broker, AGENT_USER, passwords[AGENT_USER])):
            first = await asyncio.to_thread(_start, site, jar, jmx_port, objects)
            _leave_figures(run, f"whole gateway, {objects:,} objects, first start", first, objects)
            if first.all_shown < run.seconds_left():
                again = await asyncio.to_thread(_start, site, jar, jmx_port, objects)
                _leave_figures(run, f"whole gateway, {objects:,} objects, restart", again, objects)


def _leave_figures(run: Run, what: str, start: Start, objects: int) -> None:
    used = start.used
    run.figure(what, f"first SNMP answer {start.first_answer:.1f} s, all shown {start.all_shown:.1f} s")
    sizes = {
        "MB": {name: one.resident / 1e6 for name, one in used.items()},
        "MB, shared pages once (PSS)": {name: one.proportional / 1e6 for name, one in used.items()},
        "s of CPU": {name: one.processor for name, one in used.items()},
    }
    for unit, of_process in sizes.items():
        parts = ", ".join(f"{name} {size:.0f}" for name, size in of_process.items())
        run.figure(f"{what}, {unit}", f"{sum(of_process.values()):.0f}: {parts}")
    if objects >= _MANY:
        each = (used["core"].processor - start.core_before) / objects
        run.figure(f"{what}, processor time of the core for an object", f"{each * 1e3:.3f} ms")


def _start(site: Site, jar: Path, jmx_port: int, objects: int) -> Start:
    begun = time.monotonic()
    # As an installed gateway, which has been started before, does: nothing is compiled at a start.
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(site.folder / "compiled")}
    log, configuration = site.folder / "gateway.log", site.configuration
    with running("run", "--config", configuration, log=log, **compiled) as gateway:
        community = site.state.secret("community").encode()
        system = (1, 3, 6, 1, 2, 1, 1, 1, 0)
        wait_until(lambda: answers_with(site.snmp_port, (1, 3), system, community), "an answer", _DEADLINE)
        first_answer = time.monotonic() - begun
        core_before = _used(gateway.process.pid)["core"].processor
        gateway.ready()
        wait_until(lambda: _shows_last(site, community, objects), "the last object in SNMP", _DEADLINE)
        with load_client(jar, jmx_port, "monitor", site.state.secret("jmx-monitor")) as client:
            last = _object_name(str(cells(objects)[0]))
            wait_until(lambda: _is_there(client, last), "the last object in JMX", _DEADLINE)
            all_shown = time.monotonic() - begun
            used = _used(gateway.process.pid)
            count = int(client.ask("target", "all", "amqp.gateway:source=bench,package=bench,type=queue,*"))
            assert count == objects, f"{count} MBeans of {objects} objects"
        return Start(first_answer, all_shown, used, core_before)


def _object_name(name: str) -> str:
    return object_name([("source", "bench"), ("package", "bench"), ("type", "queue"), ("name", name)])


def _is_there(client: Load, name: str) -> bool:
    try:
        client.ask("read", name, "Name")
    except RuntimeError:  # InstanceNotFoundException
        return False
    return True


def _shows_last(site: Site, community: bytes, objects: int) -> bool:
    """Return whether SNMP shows the last row of this many objects."""
    path = site.state.path / "provisional.oids.yaml"
    if not path.exists():
        return False
    registry = read_registry(path)
    [queue] = registry.classes
    column: Oid = (*registry.entry_oid(DEFAULT_ROOT, queue), COLUMNS[-1])
    return answers_with(site.snmp_port, (*column, *index(objects - 1)), (*column, *index(objects)), community)


def _used(supervisor: int) -> dict[str, Usage]:
    """Return what each process of the gateway has used, by its name."""
    family = psutil.Process(supervisor)
    used = {}
    for process in (family, *family.children(recursive=True)):
        words = process.cmdline()
        name = words[words.index("process") + 1] if "process" in words else Path(words[0]).name
        times = process.cpu_times()
        name = "supervisor" if process is family else name
        memory = process.memory_full_info()
        used[name] = Usage(memory.rss, memory.pss, times.user + times.system)
    return used
