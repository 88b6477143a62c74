"""``BENCH=snmp``: the cost of a request for each agent, in processor time."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gateway.snmp.ber import Oid
from tests.bench.rows import OURS
from tests.bench.run import Run
from tests.bench.snmp import whole_gateway
from tests.bench.snmp.agents import (
    Agent,
    Load,
    compile_native,
    fed_agent,
    net_snmp_agent,
    our_agent,
    pysnmp_agent,
    udp_echo,
)
from tests.bench.snmp.changing import Changing
from tests.bench.snmp.events import event_classes
from tests.bench.snmp.notifications import Notifying, Receivers
from tests.bench.snmp.requests import (
    BULK_12_4,
    BULK_25,
    GET_ONE,
    NEXT_ONE,
    SECURED_BULK_25,
    SECURED_GET,
    WALK,
    WALK_TIME,
    Questions,
    all_questions,
)
from tests.bench.snmp.restricted import Restricted
from tests.bench.snmp.secured import SecuredAgent
from tests.bench.snmp.table import pack
from tests.snmp.datagrams import read_answer
from tests.snmp.net_snmp import exchange

_ROWS: Final = 100_000
_QUICK_ROWS: Final = 500
_CHANGING_ROWS: Final = 10_000
"""The rows of the process that sends notifications, and whose rows change: each once a second."""

_FEW_OBJECTS: Final = 25
"""The objects of a small gateway, most of whose memory is that of its programs."""
_TURNS: Final = 5
_TURN: Final = {
    GET_ONE: 8_000,
    NEXT_ONE: 8_000,
    BULK_25: 5_000,
    BULK_12_4: 3_000,
    WALK: 2_000,
    SECURED_GET: 4_000,
    SECURED_BULK_25: 3_000,
}
"""The number of requests in one turn of an agent."""

SECURED: Final = {GET_ONE: SECURED_GET, BULK_25: SECURED_BULK_25}
"""The cases that are measured in version 3, too (authPriv with SHA-256 and AES-128), beside net-snmp."""

_SLOW: Final = 50
"""The factor by which pysnmp receives fewer requests."""

_WHOLE_SECONDS: Final = 150.0
_SAMPLE: Final = 200
"""The number of answers of each case that are compared."""


@dataclass(frozen=True, slots=True)
class SnmpBenchmark:
    """The benchmark of SNMP: reads of a table, notifications, and reads while rows change."""

    name: str = "snmp"
    title: str = "SNMP: processor time of requests"

    def measure(self, run: Run) -> None:
        """Measure, as `tests.bench.run.Benchmark` requires."""
        rows = run.count(_ROWS, _QUICK_ROWS)
        compile_native(run.folder)
        load = Load(run.folder / "load")
        with contextlib.ExitStack() as stack:
            agents, entry = stack.enter_context(_all_agents(run.folder, rows))
            questions = all_questions(entry, rows)
            compare(agents, questions)
            run.say(f"{_SAMPLE} answers of each kind are the same")
            for agent in agents:
                run.figure(f"memory of {agent.side}, {rows:,} rows", f"{agent.resident_megabytes():.0f} MB")
            files = [run.folder / f"{each.case.name}.requests" for each in questions]
            for each, file in zip(questions, files, strict=True):
                each.write(file)
            secured = {agent: SecuredAgent(agent) for agent in agents if agent.side in {OURS, "net-snmp"}}
            cases = [replace(each, case=SECURED[each.case]) for each in questions if each.case in SECURED]
            compare_secured(secured.values(), cases)
            restricted = Restricted(run, load, agents[0], entry, rows)
            notifying, changing = _busy_sides(stack, run, agents)
            for number in run.rounds(reserve=_WHOLE_SECONDS):
                turns = agents if number % 2 == 0 else agents[::-1]
                for each, file in zip(questions, files, strict=True):
                    _measure(run, load, turns, each, dict.fromkeys(turns, file))
                for each in cases:
                    written = dict(_written(run.folder, secured, each))
                    _measure(run, load, [agent for agent in turns if agent in secured], each, written)
                restricted.measure(number)
                notifying.measure(number)
                changing.measure(number)
            notifying.leave_figures()
            changing.leave_figures()
        whole_gateway.measure(run, _FEW_OBJECTS)
        whole_gateway.measure(run, rows)


def _busy_sides(stack: contextlib.ExitStack, run: Run, agents: Sequence[Agent]) -> tuple[Notifying, Changing]:
    """Start a process ``snmp`` whose core reports events and changes; compare what it sends."""
    rows, receivers = run.count(_CHANGING_ROWS, _QUICK_ROWS), Receivers()
    fed = fed_agent(run.folder / "busy", rows, event_classes(), notifications=receivers.settings())
    agent, core, entry = stack.enter_context(fed)
    notifying = Notifying(run, agent, core, rows, receivers)
    notifying.compare()
    run.say("both sides send the same notifications")
    requests = run.folder / "changing.requests"
    gets = next(each for each in all_questions(entry, rows) if each.case is GET_ONE)
    gets.write(requests)
    echo = next(one for one in agents if one.side == "udp-echo")
    return notifying, Changing(run, agent, core, rows, echo, requests)


def compare(agents: Sequence[Agent], questions: Sequence[Questions]) -> None:
    """Assert that all agents give the same answers to a sample of all questions.

    Raises:
        AssertionError: the answers differ.
    """
    agents = [agent for agent in agents if agent.side != "udp-echo"]
    for each in questions:
        for question in each.requests[:: max(len(each.requests) // _SAMPLE, 1)]:
            ours, *others = (read_answer(exchange(agent.port, question)) for agent in agents)
            assert ours.status == 0
            assert others == [ours] * len(others), f"{each.case.name}: {ours} is not what others say"


def compare_secured(agents: Collection[SecuredAgent], cases: Sequence[Questions]) -> None:
    """Assert that all agents give the same answers in version 3 to a sample of all questions.

    Raises:
        AssertionError: the answers differ.
    """
    for each in cases:
        sample = replace(each, requests=each.requests[:: max(len(each.requests) // _SAMPLE, 1)])
        answers = [[agent.answer(one) for one in agent.questions(sample).requests] for agent in agents]
        assert all(one.first == 0 for one in answers[0])
        assert answers[1:] == answers[:1] * (len(answers) - 1), f"{each.case.name}: the answers differ"


def _written(
    folder: Path, agents: Mapping[Agent, SecuredAgent], questions: Questions
) -> Iterator[tuple[Agent, Path]]:
    """Write the questions for each agent: engines differ, and their times go on."""
    for agent, secured in agents.items():
        path = folder / f"{questions.case.name}.{agent.side}.requests"
        secured.questions(questions).write(path)
        yield agent, path


def _measure(
    run: Run, load: Load, agents: Sequence[Agent], questions: Questions, files: Mapping[Agent, Path]
) -> None:
    """Measure one round of a case in short turns of each agent, so that all meet the same disturbances."""
    case = questions.case
    worked, waited = dict.fromkeys(agents, 0.0), dict.fromkeys(agents, 0.0)
    counts = {
        agent: run.count(_TURN[case], 50) // (_SLOW if agent.side == "pysnmp" else 1) for agent in agents
    }
    for _ in range(_TURNS):
        for agent in agents:
            processor, wall = load.seconds(agent, files[agent], questions.window, counts[agent])
            worked[agent] += processor
            waited[agent] += wall
    for agent in agents:
        amount = _TURNS * counts[agent]
        if case is WALK:
            whole = 1e3 * len(questions.requests) / amount
            run.record(WALK, agent.side, worked[agent] * whole)
            run.record(WALK_TIME, agent.side, waited[agent] * whole)
        else:
            run.record(case, agent.side, worked[agent] * 1e6 / amount)


@contextlib.contextmanager
def _all_agents(folder: Path, rows: int) -> Iterator[tuple[list[Agent], Oid]]:
    """Provide our agent first, then its peers; and the OID of the entry that all of them serve."""
    data = folder / "rows"
    pack(rows, data)
    with contextlib.ExitStack() as stack:
        ours, entry = stack.enter_context(our_agent(folder / OURS, rows))
        program = folder / "container_agent"
        peers = (
            net_snmp_agent(program, folder / "net-snmp", entry, data, rows),
            pysnmp_agent(folder / "pysnmp", entry, data, rows),
            udp_echo(folder / "udp-echo"),
        )
        yield [ours, *map(stack.enter_context, peers)], entry
