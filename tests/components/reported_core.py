"""A core that sends a front end one change after the other, and can build the equivalent snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from gateway.feed.records import ObjectRecord, Record
from gateway.feed.values import FeedValue
from gateway.model.observations import SourceState
from tests.components.shop import Feeding, agent, source, update

Northbound = TypeVar("Northbound", bound=Feeding)
AGENTS = ("1.0", "2.0")


@dataclass
class ReportedCore(ABC, Generic[Northbound]):
    """A core with one source and two agents, whose objects are tills.

    A history is a list of steps: the name of a method, and its arguments.
    """

    gateway: Northbound
    state: SourceState = SourceState.SYNCHRONISED
    fresh: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(AGENTS, True))
    objects: dict[int, ObjectRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connect(0)

    @abstractmethod
    def till(self, row: int, reported: Mapping[int, FeedValue], agent_name: str) -> ObjectRecord:
        """Return the record of a till."""

    @abstractmethod
    def known(self) -> list[Record]:
        """Return the records of a snapshot beside source and agents."""

    def snapshot(self) -> list[Record]:
        agents = [agent(fresh=fresh, name=name) for name, fresh in self.fresh.items()]
        return [source(self.state), *agents, *self.known()]

    def connect(self, cores_later: int) -> None:
        self.gateway.disconnect()
        self.gateway.hello(self.gateway.epoch + cores_later)
        self.gateway.snapshot(*self.snapshot())

    def publish(self, row: int, reported: Mapping[int, FeedValue], name: str) -> None:
        self.objects[row] = self.till(row, reported, name)
        self.gateway.publish(self.objects[row])

    def update(self, row: int, reported: Mapping[int, FeedValue], absent: set[int]) -> None:
        before = self.objects.get(row)
        if before is not None:
            change = update(row, reported, tuple(sorted(absent - reported.keys())))
            kept = {place: value for place, value in before.values.items() if place not in change.absent}
            self.objects[row] = msgspec.structs.replace(
                before, values={**kept, **reported}, statistics_sampled=change.statistics_sampled
            )
            self.gateway.publish(change)

    def set_agent(self, name: str, fresh: bool) -> None:  # noqa: FBT001  drawn by position
        self.fresh[name] = fresh
        self.gateway.publish(agent(fresh=fresh, name=name))

    def set_source(self, state: SourceState) -> None:
        self.state = state
        self.gateway.publish(source(state))

    def wait(self, seconds: int) -> None:
        self.gateway.wait(seconds)

    def run(self, steps: list[tuple[Any, ...]]) -> None:
        for name, *arguments in steps:
            getattr(self, name)(*arguments)

    def trust(self) -> None:
        """Make the source synchronised and all agents fresh, so that no earlier staleness leaves a trace."""
        self.set_source(SourceState.SYNCHRONISED)
        for name in AGENTS:
            self.set_agent(name, fresh=True)
        self.gateway.settle()
