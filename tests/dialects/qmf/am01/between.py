"""Our agent and our console before AM2 with each other over an exchange in memory, in any revision."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from gateway.dialects.qmf.agent_objects import ManagedObject
from gateway.dialects.qmf.am01.console import Am01ConsoleConfig, Am01ConsoleSession
from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.session import (
    Answered,
    Called,
    Effect,
    LinkDown,
    LinkUp,
    ModifyAsked,
    Note,
    Rebind,
)
from gateway.model.observations import ClassLearned
from gateway.model.operations import Answer
from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.model.values import Reference, Value
from tests.dialects.qmf import between as exchange
from tests.dialects.qmf.am01.examples import KEY, leak, tank
from tests.dialects.qmf.playbook import AGENT_USER, CONSOLE_USER, QUEUE, START
from tests.peers.am01_agent import Am01AgentConfig, Am01AgentSession


def tank_object(
    number: int = 1, name: str = "t1", size: Value | None = 100, fills: int = 7, level: float = 50.0
) -> ManagedObject:
    """Return a tank as an agent's program provides it."""
    return ManagedObject(KEY, number, START, (name, Reference(""), size), (fills, level, "hi"), START)


class Between(exchange.Between[Am01ConsoleSession, Am01AgentSession]):
    """An agent and a console before AM2; see `tests.dialects.qmf.between`.

    Args:
        revision: the revision of the agent.
        known: whether the console is configured with that revision.
        receives_binds: whether the agent learns that a queue was bound, as an agent within a broker does.
    """

    def __init__(
        self,
        revision: Revision,
        *,
        known: bool = False,
        receives_binds: bool = True,
        classes: tuple[ClassSchema, ...] = (tank(),),
        events: tuple[EventSchema, ...] = (leak(),),
        console: dict[str, object] | None = None,
        agent: dict[str, object] | None = None,
    ) -> None:
        self.revision = revision
        self.package = classes[0].key.package
        self._classes, self._events = classes, events
        self._receives_binds = receives_binds
        self._agent_settings = agent or {}
        config = Am01ConsoleConfig(trusted_users=frozenset({AGENT_USER}), package=self.package)
        if known:
            config = replace(config, revisions=frozenset((revision,)))
        super().__init__(Am01ConsoleSession(replace(config, **(console or {}))))  # type: ignore[arg-type]  # its fields
        self.answers: list[Answer] = []
        self.asked: list[Called | ModifyAsked] = []
        self.notes: list[Note] = []
        self._rebinding = ""
        self._boot = 0
        self.start_agent()

    def start_agent(self) -> None:
        """Start a new process of the agent, without the state of the one before."""
        self._boot += 1
        config = Am01AgentConfig(
            self.revision,
            allowed_users=frozenset({CONSOLE_USER}),
            broker=UUID(int=self._boot),
            package=self.package,
        )
        settings = replace(config, **self._agent_settings)  # type: ignore[arg-type]  # its fields
        self.agent = Am01AgentSession(settings, self._classes, self._events)

    def connects(self) -> None:
        if self._receives_binds:
            self.agent_does(self.agent.console_bound(self.now))
        self.console_does(self.console.handle(LinkUp(QUEUE), self.now))

    def disconnects(self) -> None:
        self.console_does(self.console.handle(LinkDown("test"), self.now))

    def starts(self) -> None:
        """Start the agent, connect the console, and let 40 seconds pass."""
        self.agent_does(self.agent.start(self.now))
        self.connects()
        self.time_passes(40)

    def deliver(self) -> None:
        super().deliver()
        if self._rebinding:
            self._rebinding = ""
            self.disconnects()
            self.connects()

    def noticed(self, effect: Effect) -> None:
        if isinstance(effect, Answered):
            self.answers.append(effect.answer)
        elif isinstance(effect, Called | ModifyAsked):
            self.asked.append(effect)
        elif isinstance(effect, Note):
            self.notes.append(effect)
        elif isinstance(effect, Rebind):
            self._rebinding = effect.reason

    def key(self, name: str = "tank") -> ClassKey:
        """Return the key of the class as the console reported it last."""
        return next(
            one.schema.key
            for one in reversed(self.observed)
            if isinstance(one, ClassLearned) and one.schema.key.name == name
        )


def shown(*objects: ManagedObject) -> exchange.Picture:
    """Return the values that a console should observe of these objects, by native id."""
    return {
        f"0-0-0-0-{one.number}": (
            tuple(None if value == Reference("") else value for value in one.properties),
            one.statistics,
        )
        for one in objects
    }
