"""A source on a real broker, and its observations: direct, or published by AM2 and read by a console."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import quote

from pydantic import SecretStr

from gateway.clock import SystemClock
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.dialects.session import Effect, LinkUp
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.durable_queue import DurableSubscription
from gateway.links.session_driver import MessageDriver, SessionDriver
from gateway.model.observations import (
    TRUSTED,
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    ObjectSeen,
    Observation,
    SourceState,
    SourceStateSeen,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch
from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint, PrometheusReader
from gateway.sources.rabbitmq.http_writer import HttpWriter
from gateway.sources.rabbitmq.management_api import Answer as ManagementAnswer
from gateway.sources.rabbitmq.management_api import ManagementRequest, Unavailable
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import UserRights, consuming_events, watching
from gateway.sources.rabbitmq.runner import SourceRunner
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import (
    METRICS_SHARE,
    PollingConfig,
    RabbitMqSourceConfig,
    StatisticsConfig,
)
from gateway.sources.rabbitmq.status import SourceStatus
from tests.components.loopback import USER_ID, carry
from tests.components.served_rabbitmq import ServedRabbitMq
from tests.components.shipped_mappings import shipped_mappings
from tests.components.waiting import eventually, until

MAPPING = shipped_mappings()["rabbitmq"]
OFTEN = PollingConfig(budget=0.25, interval=2 * SECOND, slow={}, longest_pause=2 * SECOND)
"""Frequent listings.

On a busy machine, whose answers take long, the default would read seldom. Every class is listed as often as
the others, and a node that starts again is found soon: tests wait for listings.
"""


@contextmanager
def reading_user(broker: PrivateBroker, virtual_hosts: Iterable[str]) -> Iterator[Credentials]:
    """Provide a user with only the rights to watch these virtual hosts and to receive events."""
    user = Credentials(f"reader-{secrets.token_hex(4)}", secrets.token_hex(8))
    rights = UserRights.of(("monitoring",), [*map(watching, virtual_hosts), consuming_events()])
    with broker.http() as client:
        provision(client, (ProvisionedUser(user.name, user.password, rights),), vhost="")
        try:
            yield user
        finally:
            client.delete(f"users/{quote(user.name)}").raise_for_status()


def event_endpoint(broker: PrivateBroker, user: Credentials, password: str = "") -> AmqpEndpoint:
    """Return the endpoint of the event exchange of ``broker``."""
    secret = SecretStr(password or user.password)
    return AmqpEndpoint(f"amqp://127.0.0.1:{broker.ports.amqp}", "/", user.name, secret)


class Watch:
    """The observations of the console, and the agent's view of the broker.

    Attributes:
        virtual_host: if set, objects of other virtual hosts are ignored: on a broker that tests share,
            others have queues of the same names, which events report before the agent knows that it may not
            read them.
    """

    def __init__(self, source: RabbitMqSource, virtual_host: str = "") -> None:
        self.source = source
        self.virtual_host = virtual_host
        self.synchronised = False
        self.seen: list[ObjectSeen] = []
        self.gaps: list[Gap] = []
        self.events: list[tuple[EventSeen, dict[str, object]]] = []
        self.schemas: dict[str, ClassSchema] = {}
        self.delays: list[int] = []
        """The delay of each event until its observation (ns)."""
        self.event_schemas: dict[ClassKey, EventSchema] = {}
        self.answers: dict[int, Answer] = {}
        """The answers to calls and reads, by token; the last one if there are several."""
        self.received_before: dict[int, int] = {}
        """The number of objects that had been observed when an answer came, by token."""
        self.call_source: Callable[[MethodCall, int], None]
        self.fetch_source: Callable[[ObjectFetch, int], None]
        self.statuses: list[SourceStatus] = []
        self.asked: Counter[str] = Counter()
        """The number of requests for each part of the management API, by path."""
        self.also: Callable[[Iterable[Observation]], None] = lambda _observations: None
        """Takes all observations, too."""
        self.demanding = ""
        """A part of the paths to whose requests a server answers that nothing is to be sent for a minute."""

    def observed(self, observations: Iterable[Observation]) -> None:
        observations = tuple(observations)
        self.also(observations)
        for one in observations:
            if isinstance(one, ObjectSeen):
                self.seen.append(one)
            elif isinstance(one, ClassLearned):
                self.schemas[one.schema.key.name] = one.schema
            elif isinstance(one, Gap):
                self.gaps.append(one)
            elif isinstance(one, EventLearned):
                self.event_schemas[one.schema.key] = one.schema
            elif isinstance(one, EventSeen):
                names = [argument.name for argument in self.event_schemas[one.key].arguments]
                self.delays.append(SystemClock().now() - one.time)
                self.events.append((one, dict(zip(names, one.arguments, strict=True))))
            elif isinstance(one, SourceStateSeen):
                self.synchronised = one.state in TRUSTED

    def answered(self, answer: Answer) -> None:
        self.answers[answer.token] = answer
        self.received_before[answer.token] = len(self.seen)

    async def call(
        self, class_name: str, leaf: str, method: str, *arguments: Value | None, seconds: float = 30
    ) -> Answer:
        """Call a method of an observed object."""
        target = self.received(class_name, leaf)[-1]
        token, now = len(self.answers) + 1, SystemClock().now()
        deadline = now + int(seconds * SECOND)
        call = MethodCall(token, target.key, "1.0", target.native_id, method, arguments, deadline)
        self.call_source(call, now)
        return await self._answer(token)

    async def fetch(self, class_name: str, leaf: str) -> Answer:
        """Read an observed object again."""
        target = self.received(class_name, leaf)[-1]
        token, now = len(self.answers) + 1, SystemClock().now()
        fetch = ObjectFetch(token, target.key, "1.0", target.native_id, now + 30 * SECOND)
        self.fetch_source(fetch, now)
        return await self._answer(token)

    async def _answer(self, token: int) -> Answer:
        async def there() -> bool:
            return token in self.answers

        await eventually(there, "an answer")
        return self.answers[token]

    @property
    def status(self) -> SourceStatus | None:
        """The agent's present status of the broker."""
        return self.statuses[-1] if self.statuses else None

    def received(self, class_name: str, leaf: str) -> list[ObjectSeen]:
        """Return the observations of an object's properties."""
        elsewhere = self._other_virtual_hosts() if class_name != "vhost" else frozenset[Reference]()
        return [
            one
            for one in self._called(class_name, leaf)
            if one.properties is not None and elsewhere.isdisjoint(self._references(one.properties))
        ]

    def elsewhere(self) -> frozenset[str]:
        """Return the native ids of the other virtual hosts, and of all that was observed in them."""
        others = self._other_virtual_hosts()
        inside = (
            one.native_id
            for one in self.seen
            if one.properties is not None and not others.isdisjoint(self._references(one.properties))
        )
        return frozenset([*(host.native_id for host in others), *inside])

    def _other_virtual_hosts(self) -> frozenset[Reference]:
        own = {one.native_id for one in self._called("vhost", self.virtual_host)}
        hosts = {one.native_id for one in self.seen if one.key.name == "vhost"}
        return frozenset(map(Reference, hosts - own)) if self.virtual_host else frozenset()

    def _references(self, properties: tuple[Value | None, ...]) -> Iterator[Reference]:
        return (one for one in properties if isinstance(one, Reference))

    def _called(self, class_name: str, leaf: str) -> list[ObjectSeen]:
        rule = MAPPING.classes[class_name]
        position = list(rule.properties).index(rule.name or "name")
        return [
            one
            for one in self.seen
            if one.key.name == class_name and one.properties is not None and one.properties[position] == leaf
        ]

    def reported(self, event: str, /, **arguments: object) -> list[dict[str, object]]:
        """Return the arguments of the events of a name that have these among them."""
        return [
            reported
            for one, reported in self.events
            if one.key.name == event and arguments.items() <= reported.items()
        ]

    def exists(self, class_name: str, leaf: str) -> bool:
        """Return whether the object was observed and has not ended."""
        received = self.received(class_name, leaf)
        return bool(received) and not received[-1].deleted

    def gone(self, class_name: str, leaf: str) -> bool:
        """Return whether the object's end was observed."""
        received = self.received(class_name, leaf)
        return bool(received) and bool(received[-1].deleted)

    def value(self, class_name: str, leaf: str, element: str) -> object:
        """Return the value of an element that was observed last."""
        rule = MAPPING.classes[class_name]
        if element in rule.properties:
            last = self.received(class_name, leaf)[-1].properties
            return last[list(rule.properties).index(element)] if last else None
        native_id = self.received(class_name, leaf)[-1].native_id
        reported = [one.statistics for one in self.seen if one.native_id == native_id and one.statistics]
        return reported[-1][list(rule.statistics).index(element)] if reported else None


class CountedReader:
    """A reader that counts the requests of a watched source, by their path."""

    def __init__(self, reader: HttpReader, watched: Watch) -> None:
        self._reader = reader
        self._watched = watched

    async def read(self, request: ManagementRequest) -> ManagementAnswer:
        """Read as `HttpReader.read`, and count the request."""
        demanding = self._watched.demanding
        if demanding and demanding in request.target:
            answer: ManagementAnswer = Unavailable("status 429", responded=True, pause=60 * SECOND)
        else:
            answer = await self._reader.read(request)
        self._watched.asked[request.target.partition("?")[0]] += 1
        return answer


@asynccontextmanager
async def watch(  # noqa: PLR0913  what a test chooses, by name
    broker: PrivateBroker,
    user: Credentials,
    *,
    password: str = "",
    events: bool = True,
    writer: Credentials | None = None,
    lockout: Iterable[str] = (),
    virtual_host: str = "",
    by_am2: bool = False,
    metrics: bool = False,
    prometheus: tuple[str, ...] = (),
    polling: PollingConfig | None = None,
    management: str = "",
    subscription: DurableSubscription | None = None,
) -> AsyncIterator[Watch]:
    """Provide a source that reads ``broker`` as ``user`` and changes it as ``writer``, during the context.

    With ``by_am2``, an agent publishes it, and a console watches it. With ``metrics``, it reads metrics, too,
    from the URLs ``prometheus``, if the broker does not name their listeners. ``polling``: the intervals of
    its listings, if other than `OFTEN`. ``management``: the URL of its management API, if behind a proxy.
    ``subscription``: a durable one to its events.
    """
    clock = SystemClock()
    secret = SecretStr(password or user.password)
    config = RabbitMqSourceConfig(
        user=user.name,
        writer=writer.name if writer else "",
        lockout=frozenset(lockout),
        statistics=StatisticsConfig(
            broker.management_url,
            metrics,
            prometheus,
            interval=SECOND,
            share=METRICS_SHARE * OFTEN.budget,
            first_pause=SECOND,
        ),
        polling=polling or OFTEN,
    )
    source = RabbitMqSource(config, MAPPING)
    watched = Watch(source, virtual_host)
    amqp = event_endpoint(broker, user, password)
    reading = ManagementEndpoint(management or broker.management_url, user.name, secret)
    writing = None
    if writer is not None:
        writing = ManagementEndpoint(broker.management_url, writer.name, SecretStr(writer.password))
    async with (
        HttpReader(reading, writing) as reader,
        HttpWriter(reading, writing) as changes,
        PrometheusReader() as scraper,
        _am2(source, config, watched, clock) if by_am2 else _directly(source, watched, clock) as perform,
    ):
        runner = SourceRunner(
            source,
            CountedReader(reader, watched),
            perform,
            clock,
            events=amqp if events else None,
            subscription=subscription,
            on_status=watched.statuses.append,
            writer=changes,
            scraper=scraper,
        )
        if not by_am2:
            watched.call_source = lambda call, _: runner.handle(call)
            watched.fetch_source = lambda fetch, _: runner.handle(fetch)
        async with _in_background(runner.run()):
            yield watched


def complaints(broker: PrivateBroker) -> list[str]:
    """Return the lines of the broker's log that report errors."""
    lines = broker.log_file.read_text(errors="replace").splitlines()
    return [line for line in lines if "[error]" in line or "crash" in line.lower()]


def synchronised(watched: Watch) -> Callable[[], bool]:
    return lambda: watched.status is not None and watched.status.state is SourceState.SYNCHRONISED


async def ready(watched: Watch, *, events: bool = True) -> None:
    """Wait until everything that may be read has been read and shown once, and events arrive."""

    def is_read() -> bool:
        return watched.status is not None and watched.status.state in TRUSTED and watched.synchronised

    await until(is_read, "everything is read")
    if events:
        await until(lambda: watched.status and "cannot be seen" not in watched.status.detail, "events arrive")


def node_name(watched: Watch) -> str:
    return next((known.name.leaf for known in watched.source.known("node")), "")


@asynccontextmanager
async def _directly(
    source: RabbitMqSource, watched: Watch, clock: SystemClock
) -> AsyncIterator[Callable[[Iterable[Effect]], None]]:
    driver = SessionDriver("broker", source, watched.observed, clock, Counter(), watched.answered)

    def perform(effects: Iterable[Effect]) -> None:
        driver.perform(effects)
        watched.synchronised = source.synchronised

    try:
        yield perform
    finally:
        driver.stop()


@asynccontextmanager
async def _am2(
    source: RabbitMqSource, config: RabbitMqSourceConfig, watched: Watch, clock: SystemClock
) -> AsyncIterator[Callable[[Iterable[Effect]], None]]:
    session = AgentConfig(uuid.uuid4(), 1, frozenset({USER_ID}), publish_interval=SECOND, rereads=True)
    agent = ServedRabbitMq(source, config, session)
    console = ConsoleSession(ConsoleConfig(trusted_users=frozenset({USER_ID})))
    console_side = MessageDriver("console", console, watched.observed, clock, Counter(), watched.answered)
    watched.call_source = lambda call, now: console_side.perform(console.handle(call, now))
    watched.fetch_source = lambda fetch, now: console_side.perform(console.handle(fetch, now))
    agent_side = MessageDriver("agent", agent, lambda _: None, clock, Counter())
    console_side.perform(console.handle(LinkUp("console"), clock.now()))
    agent_side.perform(agent.handle(LinkUp(""), clock.now()))
    try:
        async with (
            _in_background(carry(agent_side, console_side, clock)),
            _in_background(carry(console_side, agent_side, clock)),
        ):
            yield lambda effects: agent_side.perform(agent.publish(effects, clock.now()))
    finally:
        console_side.stop()
        agent_side.stop()


@asynccontextmanager
async def _in_background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run ``work`` during the context; its error ends the context at once."""
    body, task = asyncio.current_task(), asyncio.create_task(work)

    def failed() -> BaseException | None:
        return task.exception() if task.done() and not task.cancelled() else None

    task.add_done_callback(lambda _: body.cancel() if body is not None and failed() else None)
    try:
        yield
    except asyncio.CancelledError:
        error = failed()
        if error is None:
            raise
        raise error from None
    finally:
        task.cancel()
        await asyncio.wait({task})
