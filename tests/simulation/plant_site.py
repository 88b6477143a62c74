"""A plant as a source; its agent is a separate process and is connected with the gateway over AMQP."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from gateway.feed.operations import InvokeMethod, SetElements
from gateway.inventory.source import SourceInventory
from gateway.model.times import SECOND
from tests.simulation import plant as plants
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.core import Core, SourceRun
from tests.simulation.ledger import SECRET
from tests.simulation.plant import Plant
from tests.simulation.plant_agent import PlantAgent
from tests.simulation.scheduler import Clock
from tests.simulation.site import (
    OUTAGE,
    ConsoleOverAmqp,
    Fault,
    Stage,
    Wish,
    fall_silent,
    lose,
    stop_for_a_while,
)


class PlantSite:
    """The site of a plant; see `tests.simulation.site.Site`."""

    name = "plant"
    mapping = plants.MAPPING
    registry = plants.REGISTRY
    shown: Mapping[str, frozenset[str]] = {
        f"{plants.PACKAGE}:{schema.key.name}": frozenset(element.name for element in schema.elements)
        for schema in plants.SCHEMAS
    }

    durable = False
    sets_natively = True
    kind = "qmf"
    wishes: Mapping[str, Sequence[Wish]] = {
        "plant:machine": (
            lambda mark: SetElements({"limit": mark}),
            lambda mark: SetElements({"speed": mark}),
            lambda mark: InvokeMethod("polish", {"grade": mark, "pin": SECRET}),
        )
    }

    def __init__(self, stage: Stage) -> None:
        random = stage.scheduler.random
        clock = Clock(stage.scheduler, random.randrange(-5 * SECOND, 5 * SECOND))
        self._stage = stage
        self._clock = clock
        self._plant = Plant(stage.scheduler, stage.truth, self.name, clock, stage.ledger)
        self._broker = AmqpBroker(stage.scheduler)
        self._console = ConsoleOverAmqp(
            stage, self._broker, random.choice((40, 200, 1000)), self.sets_natively
        )
        self._remembers_boots = random.random() < 0.5
        self.keeps_identities = self._remembers_boots
        self._boots = itertools.count(1)
        self._agent: PlantAgent | None = None

    def begin(self) -> None:
        """Start the agent."""
        boot = next(self._boots) if self._remembers_boots else 1
        self._stage.scheduler.note("plant-agent", f"starts, boot {boot}")
        self._agent = PlantAgent(self._stage.scheduler, self._broker, self._plant, boot)
        self._plant.listener = self._agent

    def source(self, core: Core, source: SourceInventory) -> SourceRun:
        """Begin to watch the source with a core."""
        return self._console.source(core, source)

    def live(self) -> None:
        """Make one random change in the plant."""
        self._plant.live()

    def faults(self) -> dict[str, Fault]:
        """Return the faults of the site, by name."""
        return {
            **self._console.faults(),
            "agent killed": self._kill_agent,
            "agent's link lost": lambda: lose(self._link),
            "agent's link half-open": lambda: fall_silent(self._stage, self._link),
            "broker stopped": lambda: stop_for_a_while(self._stage, self._broker),
            "plant's clock set": lambda: self._clock.set(2 * SECOND),
        }

    def alarms(self) -> set[str]:
        """Return the conditions of the machines that are busy."""
        return {
            f'busy plant:machine "{thing.name}"'
            for thing in self._stage.truth.living(self.name)
            if thing.class_name == "plant:machine" and thing.now("state") == b"busy"
        }

    def end(self) -> None:
        """End the simulation; no task of the site waits for anything."""

    def heal(self) -> None:
        """Do nothing; every fault of the site heals by itself."""

    @property
    def _link(self) -> AmqpClient | None:
        return self._agent.client if self._agent is not None else None

    def _kill_agent(self) -> None:
        if self._agent is not None:
            self._stage.scheduler.note("plant-agent", "killed")
            self._agent.die()
            self._agent = self._plant.listener = None
            self._stage.soon(self.begin, longest=OUTAGE)
