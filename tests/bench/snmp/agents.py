"""The agents that are compared, each a process of its own over the same rows."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from gateway.feed.records import Record
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.service.state.snmp_security import enterprise_of, read_engine, stored_keys, write_user
from gateway.snmp.ber import Oid
from gateway.snmp.message import GET_NEXT
from gateway.snmp.oid_registry import DEFAULT_ROOT, read_registry
from gateway.snmp.v3.algorithms import AES128, SHA256
from gateway.snmp.v3.users import credentials
from tests.bench.feed_player import FeedPlayer
from tests.bench.rows import OURS
from tests.bench.snmp.table import COLUMNS, index, records, restricted_roles
from tests.components.command_line import new_site, running
from tests.components.ports import free_udp_port
from tests.components.waiting import DEADLINE, wait_until
from tests.snmp.datagrams import COMMUNITY, read_answer, request
from tests.snmp.net_snmp import dotted, exchange

USER: Final = "bench"
RESTRICTED: Final = "restricted"
"""The name and the community of the principal for whom `restricted_roles` hide something."""

PASSPHRASES: Final = ("an authentication phrase", "a privacy phrase")
"""The user of version 3 that our agent and net-snmp's know, with SHA-256 and AES-128."""

_NATIVE: Final = Path(__file__).with_name("native")
_CPU_CLOCK: Final = 2  # CPUCLOCK_SCHED of the kernel: what clock_getcpuclockid(3) puts into a clock's number


@dataclass(frozen=True, slots=True)
class Agent:
    """A running agent: its side's name, its port on the loopback, and its process."""

    side: str
    port: int
    process: int

    def processor_seconds(self) -> float:
        """Return the processor time of all its threads so far, to the nanosecond."""
        return time.clock_gettime((~self.process << 3) | _CPU_CLOCK)

    def resident_megabytes(self) -> float:
        """Return its resident memory in megabytes."""
        return float(psutil.Process(self.process).memory_info().rss) / 1e6


@dataclass(frozen=True, slots=True)
class Load:
    """A sender of requests to an agent: ``program`` is `native/load.c`, compiled."""

    program: Path

    def seconds(self, agent: Agent, requests: Path, window: int, count: int) -> tuple[float, float]:
        """Send ``count`` requests of a file, ``window`` at a time.

        Returns:
            The processor time of ``agent`` for them, and the time until the last answer.

        Raises:
            subprocess.CalledProcessError: a request had no answer.
        """
        words = (self.program, str(agent.port), str(window), str(count), requests)
        before, begun = agent.processor_seconds(), time.monotonic()
        subprocess.run(words, check=True, capture_output=True, timeout=DEADLINE)  # noqa: S603  our own program
        return agent.processor_seconds() - before, time.monotonic() - begun


def compile_native(folder: Path) -> None:
    """Compile the programs in C into ``folder``.

    Raises:
        subprocess.CalledProcessError: the compiler failed, and has printed its errors.
    """
    options = ["-O2", "-Wall", "-Wextra", "-Werror"]
    for program in ("load", "sink", "poller"):
        _compile(*options, "-o", folder / program, _NATIVE / f"{program}.c")
    reported = [
        subprocess.run(  # noqa: S603  no shell; words from here
            ("net-snmp-config", option),  # noqa: S607  wherever the system has it
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for option in ("--base-cflags", "--agent-libs")
    ]
    compiler, libraries = map(shlex.split, reported)
    for program in ("container_agent", "notifier"):
        _compile(*options, *compiler, "-o", folder / program, _NATIVE / f"{program}.c", *libraries)


@contextlib.contextmanager
def our_agent(folder: Path, rows: int) -> Iterator[tuple[Agent, Oid]]:
    """Provide the process ``snmp`` as deployed, filled through the feed; and the OID of the table's entry."""
    with fed_agent(folder, rows) as (agent, _, entry):
        yield agent, entry


@contextlib.contextmanager
def fed_agent(
    folder: Path, rows: int, further: Iterable[Record] = (), **settings: object
) -> Iterator[tuple[Agent, FeedPlayer, Oid]]:
    """Provide the same with its core, which goes on.

    Args:
        folder: for its files; it is made.
        rows: the number of rows.
        further: records behind those of the table.
        settings: further settings of SNMP.
    """
    folder.mkdir()
    site = new_site(folder)
    community = site.secret(COMMUNITY.decode())
    restricted = site.secret(RESTRICTED)
    # All agents are to send the same answers, whatever their bounds are.
    limits = {"max_bulk_message": 8_192}
    site.configure(
        snmp={
            "listen": [f"127.0.0.1:{site.snmp_port}"],
            "community": community,
            "limits": limits,
            "users": {USER: {}},
            "writers": {RESTRICTED: {"community": restricted}},
            **settings,
        }
    )
    engine_id = bytes.fromhex(read_engine(site.state, enterprise_of(DEFAULT_ROOT)).engine_id)
    user = credentials(USER, SHA256, PASSPHRASES[0], AES128, PASSPHRASES[1]).at(engine_id)
    write_user(site.state, USER, [stored_keys(user, engine_id)])
    with contextlib.ExitStack() as stack:
        core = stack.enter_context(FeedPlayer(folder / "feed.sock"))
        command = ("process", "snmp", "--config", site.configuration)
        northbound = stack.enter_context(running(*command, log=folder / "snmp.log"))
        northbound.ready()
        policy = PolicyPublisher(restricted_roles(f"snmp:{RESTRICTED}"), Marks({}))
        core.begin(policy.snapshot((*records(rows), *further)))
        registry_file = site.state.path / "provisional.oids.yaml"
        wait_until(registry_file.exists, "the class of the rows")
        registry = read_registry(registry_file)
        [queue] = registry.classes
        assert queue.columns == tuple(COLUMNS)
        entry = registry.entry_oid(DEFAULT_ROOT, queue)
        _wait_for_last_row(site.snmp_port, entry, rows)
        yield Agent(OURS, site.snmp_port, northbound.process.pid), core, entry


@contextlib.contextmanager
def net_snmp_agent(program: Path, folder: Path, entry: Oid, data: Path, rows: int) -> Iterator[Agent]:
    """Provide net-snmp's agent library with its own container table, and its own access control."""
    folder.mkdir()
    (folder / "cert_indexes").mkdir()
    authentication, privacy = PASSPHRASES
    (folder / "container_agent.conf").write_text(
        f"rocommunity {COMMUNITY.decode()}\n"
        f'createUser {USER} SHA-256 "{authentication}" AES "{privacy}"\n'
        f"rouser {USER} priv\n"
    )
    assert entry[-1] == 1, "the table helper adds the entry's arc"
    arguments = (dotted(entry[:-1]), str(COLUMNS.start), str(data))
    own = {"MIBS": "", "SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder)}
    with _started("net-snmp", (str(program),), arguments, folder / "log", own) as agent:
        _wait_for_last_row(agent.port, entry, rows)
        yield agent


@contextlib.contextmanager
def pysnmp_agent(folder: Path, entry: Oid, data: Path, rows: int) -> Iterator[Agent]:
    """Provide the engine and the command responders of pysnmp over a sorted list of rows."""
    folder.mkdir()
    command = (sys.executable, "-m", "tests.bench.snmp.pysnmp_responder")
    with _started("pysnmp", command, (dotted(entry), str(data)), folder / "log") as agent:
        _wait_for_last_row(agent.port, entry, rows)
        yield agent


@contextlib.contextmanager
def udp_echo(folder: Path) -> Iterator[Agent]:
    """Provide a blocking socket that sends everything back."""
    folder.mkdir()
    command = (sys.executable, "-m", "tests.bench.snmp.udp_echo")
    with _started("udp-echo", command, (), folder / "log") as agent:
        wait_until(lambda: _answer(agent.port, b"anybody?") == b"anybody?", "an echo")
        yield agent


@contextlib.contextmanager
def _started(
    side: str,
    command: Sequence[str],
    arguments: Sequence[str],
    log: Path,
    variables: dict[str, str] | None = None,
) -> Iterator[Agent]:
    port = free_udp_port()
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  our own programs
            [*command, str(port), *arguments],
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield Agent(side, port, process.pid)
    except AssertionError as error:
        error.add_note(log.read_text(errors="replace"))
        raise
    finally:
        process.kill()
        process.wait()


def answers_with(port: int, after: Oid, name: Oid, community: bytes = COMMUNITY) -> bool:
    """Return whether the agent on this port of the loopback answers ``name`` as next after ``after``."""
    question = request(GET_NEXT, [after], community=community)
    answer = _answer(port, question)
    # While the port is free, the client may be given it, and receive its own requests.
    return answer not in {None, question} and read_answer(answer).varbinds[0][0] == name


def _wait_for_last_row(port: int, entry: Oid, rows: int) -> None:
    """Wait until the last cell of all is the answer."""
    column = (*entry, COLUMNS[-1])
    last = (*column, *index(rows))
    wait_until(lambda: answers_with(port, (*column, *index(rows - 1)), last), "the last row")


def _answer(port: int, question: bytes) -> bytes | None:
    try:
        return exchange(port, question, seconds=1.0)
    except OSError:
        return None


def _compile(*words: str | Path) -> None:
    subprocess.run(("cc", *words), check=True)  # noqa: S603, S607  the compiler of the system
