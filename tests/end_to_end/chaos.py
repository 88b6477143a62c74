"""The kills of parts of a demonstration at instants that a seed chooses, and the restarts of these parts."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self

import psutil
import pytest

from gateway.demo.broker import BrokerError
from gateway.demo.demonstration import DemonstrationError
from tests.components.waiting import eventually
from tests.end_to_end.half_open import Ways
from tests.end_to_end.observer import Observer
from tests.end_to_end.witness import Witness
from tests.hypothesis_profiles import PROVING

VICTIMS = ("broker", "agent", "core", "snmp", "jmx", "jvm", "compactor")

KILLED_ELSEWHERE = ("core", "jvm", "compactor")
"""The victims of other tests too: of the event log, of JMX's process, of compaction, and of the ledger."""

LONGEST_WAIT = 40
"""Observations before the first kill: a few seconds of a quiet machine, all phases of every interval."""

LONGEST_RECOVERY = 60
"""Observations between the first kill and the second: somewhere in the recovery of most parts."""

_START_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of kills; instants are counted in observations, so that a slow machine has the same ones.

    Attributes:
        victim: killed first, after ``wait`` observations.
        another: killed in the recovery, after ``pause`` more; ``None`` for nothing.
        patient: whether the other parts have time to report the failure before the victim is restarted.
    """

    victim: str
    wait: int
    another: str | None
    pause: int
    patient: bool

    @property
    def killed(self) -> list[str]:
        """The victims of all kills, in order; the same one may be there twice."""
        return [self.victim] if self.another is None else [self.victim, self.another]

    @classmethod
    def of(cls, victim: str, seed: int) -> Self:
        """Return the plan of a seed: the first kills alone and waits, every third kills twice."""
        chance = random.Random(f"{victim} {seed}")  # noqa: S311  repeatable on purpose
        another = chance.choice(VICTIMS) if seed % 3 == 2 else None
        return cls(
            victim,
            chance.randrange(LONGEST_WAIT),
            another,
            chance.randrange(LONGEST_RECOVERY),
            patient=seed % 3 == 0,
        )


class Killer:
    """A killer of processes (by SIGKILL), which also restarts broker and agent, as no supervisor does.

    Args:
        observer: finds the processes.
        witness: counts the observations.

    Attributes:
        kills: the number of kills of each victim so far.
    """

    def __init__(self, observer: Observer, witness: Witness) -> None:
        self._broker = observer.broker
        self._demonstration = observer.demonstration
        self._observer = observer
        self._witness = witness
        self.kills = dict.fromkeys(VICTIMS, 0)

    async def kill(self, victim: str) -> None:
        """Kill the victim as soon as it runs."""
        self.kills[victim] += 1
        await eventually(partial(self._killed, victim), f"{victim} is there to be killed")

    async def recover(self, plan: Plan) -> None:
        """Restart the victim of the first kill of ``plan``, and kill again in the middle of its recovery."""
        async with asyncio.TaskGroup() as parts:
            recovery = parts.create_task(self.bring_back())
            if plan.another is not None:
                await self._witness.after(plan.pause)
                await self.kill(plan.another)
            await recovery
        await self.bring_back()

    async def bring_back(self) -> None:
        """Start broker and agent if they do not run."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._bring_back_broker())
            parts.create_task(self._bring_back_agent())

    async def _killed(self, victim: str) -> bool:
        with contextlib.suppress(psutil.Error, AssertionError, KeyError, ProcessLookupError):
            match victim:
                case "agent":
                    await self._demonstration.kill_process("agent")
                case "broker":
                    psutil.Process(self._broker.node_process()).kill()
                case "jvm":
                    self._observer.virtual_machine().kill()
                case _:
                    self._observer.process(victim).kill()
            return True
        return False

    async def _bring_back_broker(self) -> None:
        for attempts_left in reversed(range(_START_ATTEMPTS)):
            try:
                await asyncio.to_thread(self._broker.start)
            except BrokerError:  # killed while it started
                if not attempts_left:
                    raise
            else:
                return

    async def _bring_back_agent(self) -> None:
        for attempts_left in reversed(range(_START_ATTEMPTS)):
            if self._observer.is_alive("agent"):
                return
            try:
                await self._demonstration.start_agent()
            except DemonstrationError:
                if not attempts_left:
                    raise


async def mend(observer: Observer, killer: Killer, ways: Ways) -> None:
    """Restart the parts that a failed test has left stopped, silent or dead; leave the rest alone."""
    observer.resume()
    for way in (ways.amqp, ways.http):
        await way.speak_again()
    if observer.broker.node_process() is not None:
        await asyncio.to_thread(observer.broker.rabbitmqctl, "start_app")
    await killer.bring_back()
    if not observer.is_alive("gateway"):
        await observer.demonstration.start_gateway()


@contextlib.contextmanager
def repeatable(request: pytest.FixtureRequest) -> Iterator[None]:
    """Add the command that runs only this test to the notes of a failure."""
    try:
        yield
    except Exception as error:
        proving = "PROVE=1 " if PROVING else ""
        error.add_note(f"to run only this: {proving}pytest '{request.node.nodeid}'")
        raise
