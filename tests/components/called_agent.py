"""An agent of one class whose method calls a test answers, and a source that calls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from gateway.clock import SystemClock
from gateway.config.sources import QmfSource
from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import Called, Effect, Event
from gateway.feed.records import Batch, ObjectRecord, SourceRecord, UpdateRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.observations import SourceState
from gateway.model.operations import Answer, MethodCall, ObjectFetch, Outcome
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, Method
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.model.values import Values, ValueType
from gateway.operations.operation import NoOperations, SourcePort
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from tests.components.agent_on_link import AgentOnLink
from tests.components.waiting import eventually

NUMBER = 7
VESSEL = ClassSchema(
    ClassKey("shop", "vessel"),
    (Element("name", ValueType.STRING, index=True),),
    (Element("level", ValueType.U32),),
    (
        Method(
            "fill",
            (Argument("amount", ValueType.U32), Argument("level", ValueType.U32, Direction.OUT)),
        ),
    ),
)


class CalledAgent(AgentOnLink):
    """An agent that manages one vessel; a test answers the calls.

    Attributes:
        calls: the calls in the order in which they arrived.
    """

    def __init__(self, user: str) -> None:
        config = AgentConfig(uuid4(), 1, frozenset({user}))
        self.session = AgentSession(config, [VESSEL])
        super().__init__(self.session)
        self.calls: list[Called] = []
        self.put(5)

    def put(self, level: int) -> None:
        """Set the level of the vessel, as of now."""
        self.session.put(ManagedObject(VESSEL.key, NUMBER, SECOND, ("v",), (level,), SystemClock().now()))

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for effect in super().handle(event, now):
            if isinstance(effect, Called):
                self.calls.append(effect)
            else:
                effects.append(effect)
        return effects

    async def called(self, count: int = 1) -> Called:
        """Wait until so many calls have arrived; return the last one."""

        async def were_called() -> bool:
            return len(self.calls) >= count

        await eventually(were_called, f"{count} calls")
        return self.calls[count - 1]

    def answer(self, call: Called, status: int = Status.OK, text: str = "OK", outputs: Values = ()) -> None:
        """Answer a call, after the values that it changed are published."""
        now = SystemClock().now()
        self.conversation.perform(self.session.publish(NUMBER, now))
        self.conversation.perform(self.session.method_done(call.handle, status, text, outputs))


@dataclass
class Reported(NoOperations):
    """The output of the source, in order: answers, and levels of the vessel as front ends show them."""

    steps: list[Answer | int] = field(default_factory=list)
    port: SourcePort | None = None

    def connect(self, source: int, port: SourcePort) -> None:
        assert source
        self.port = port

    def answered(self, answer: Answer) -> None:
        self.steps.append(answer)

    def take(self, batch: Batch) -> None:
        records = [record for record in batch.records if isinstance(record, ObjectRecord | UpdateRecord)]
        self.steps += [level for record in records if isinstance(level := record.values.get(1), int)]

    def answers(self, token: int) -> list[Answer]:
        """Return the answers to one operation."""
        return [step for step in self.steps if isinstance(step, Answer) and step.token == token]

    def outcomes(self, token: int) -> list[Outcome]:
        return [answer.outcome for answer in self.answers(token)]


@dataclass
class CallingSite:
    """A source of the gateway, and the agent that it calls."""

    agent: CalledAgent
    reported: Reported
    inventory: Inventory
    tokens: int = 0

    @property
    def state(self) -> SourceState:
        """The state of the source."""
        (source,) = (one for one in self.inventory.snapshot()[0] if isinstance(one, SourceRecord))
        return source.state

    async def stands(self, *states: SourceState) -> None:
        """Wait until the source is in one of these states."""

        async def does() -> bool:
            return self.state in states

        await eventually(does, f"the source is one of {states}")

    def call(self, amount: int, seconds: float = 60) -> int:
        """Call ``fill``; return the token."""
        assert self.reported.port is not None
        self.tokens += 1
        deadline = SystemClock().now() + int(seconds * SECOND)
        arguments = (amount,)
        self.reported.port.call(MethodCall(self.tokens, *self._object, "fill", arguments, deadline))
        return self.tokens

    def fetch(self, seconds: float = 60) -> int:
        """Read the vessel again; return the token."""
        assert self.reported.port is not None
        self.tokens += 1
        deadline = SystemClock().now() + int(seconds * SECOND)
        self.reported.port.fetch(ObjectFetch(self.tokens, *self._object, deadline))
        return self.tokens

    @property
    def _object(self) -> tuple[ClassKey, str, str]:
        key = self.agent.session.class_key("shop", "vessel")
        return key, "1.0", str(self.agent.session.object_id(NUMBER))

    async def answered(self, token: int, count: int = 1) -> Answer:
        """Wait until an operation has ``count`` answers; return the last one of these."""

        async def was_answered() -> bool:
            return len(self.reported.answers(token)) >= count

        await eventually(was_answered, f"answer {count} to operation {token}")
        return self.reported.answers(token)[count - 1]


@asynccontextmanager
async def calling_site(broker: PrivateBroker, vhost: str, folder: Path) -> AsyncIterator[CallingSite]:
    """Provide an agent and a synchronised source on one broker."""
    user = broker.administrator
    url = f"amqp://127.0.0.1:{broker.ports.amqp}"
    agent = CalledAgent(user.name)
    (folder / "password").write_text(user.password)
    (folder / "password").chmod(0o600)
    amqp = {"url": url, "vhost": vhost, "user": user.name, "password": {"file": "password"}}
    settings = QmfSource.model_validate({"kind": "qmf", "amqp": amqp, "trusted_users": [user.name]})
    reported = Reported()
    with closing(InstanceIndex(folder / "index")) as index:
        inventory = Inventory("gw", 1, ClassRegistry({}), index, reported.take)
        around = SourceContext(inventory, {}, SecretRules(), SystemClock(), folder, 1, operations=reported)
        running = [
            asyncio.create_task(agent.speak(broker, vhost)),
            asyncio.create_task(source_of("shop", settings, around)()),
        ]
        try:
            site = CallingSite(agent, reported, inventory)
            await site.stands(SourceState.SYNCHRONISED)
            yield site
        finally:
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
            for end in ended:
                if isinstance(end, Exception):
                    raise end
