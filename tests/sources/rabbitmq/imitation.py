"""An imitated broker, the source, the role that serves it, and a console.

Time advances only when a test lets it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.model_values import with_marks
from gateway.dialects.qmf.schema_records import described_class, described_event
from gateway.dialects.session import (
    Answered,
    Delivery,
    Effect,
    LinkUp,
    Note,
    Observed,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.mapping.files import class_schemas, event_schemas
from gateway.mapping.paths import Json
from gateway.model.observations import (
    AgentLost,
    EventLearned,
    EventSeen,
    ObjectSeen,
    Observation,
    ResyncBegan,
    Severity,
)
from gateway.model.operations import Answer as OperationAnswer
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import (
    Answer,
    BeyondLastPage,
    Document,
    ListingRequest,
    ManagementRequest,
    NotFound,
    ObjectRequest,
    OverviewRequest,
    OwnerRequest,
    PermissionRequest,
    Refused,
    SessionsRequest,
    UsedFeaturesRequest,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.source_events import (
    AnswerReceived,
    BrokerEventReceived,
    EventsReceived,
    RequestSent,
    SourceEvent,
    Work,
    WorkContinues,
)
from tests.components.served_rabbitmq import ServedRabbitMq
from tests.components.shipped_mappings import shipped_mappings

MAPPING = shipped_mappings()["rabbitmq"]
EPOCH = 1_795_000_000 * SECOND
NODE = "rabbit@shop"
POLICY: dict[str, Json] = {
    "vhost": "/",
    "name": "all",
    "pattern": ".*",
    "apply-to": "all",
    "priority": 0,
    "definition": {},
}
_CONTENTS = {"queue", "exchange", "binding", "policy", "operatorPolicy", "shovel", "federationLink"}
"""Classes of which a reader is shown what is in virtual hosts where it has a permission."""
_OF_USERS = {"connection", "channel", "consumer", "streamConsumer", "streamPublisher"}
"""Classes of which a reader without the tag `monitoring` is shown its own objects only: here, none."""
_OF_MONITORS = {"node", "shovel", "federationLink"}
"""Classes that are refused without that tag."""
_NO_TAG = Refused(login=False, reason="User not authorised to access object")
_WITHOUT_STATISTICS = {"vhost", "name", "durable", "auto_delete", "exclusive", "type", "node", "state"}
"""The properties of a queue in a listing with ``disable_stats=true``."""


@dataclass(frozen=True)
class Reported:
    """An event as the console received it; arguments are by name."""

    name: str
    time: int
    severity: Severity
    arguments: dict[str, Any]


class ImitatedBroker:
    """The answers of the management API.

    Objects are JSON, by class and index.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, ...], dict[str, Json]]] = {
            name: {} for name in MAPPING.classes
        }
        self.users: dict[str, list[str]] | None = {"administrator": ["administrator"], "gateway": []}
        """The tags by user; ``None`` if they may not be read."""
        self.version = "4.0.5"
        self.cluster_name = "shop"
        self.answering = ""
        """The node that answers, which the overview names; the first one if empty."""
        self.listeners: list[Json] = []
        """The listeners that the overview names."""
        self.sessions: dict[str, Json] = {}
        """Answers about the sessions of AMQP 1.0 connections, by connection name; for other names, 404."""
        self.used_features: Json = None
        self.statistics_off = False
        self.owners: dict[str, str] = {}
        """The connections that own exclusive queues, by queue."""
        self.forbidden: set[str] = set()
        self.monitoring = True
        """Whether the reader has the tag `monitoring`, without which much is refused or left out."""
        self.failure: Callable[[ManagementRequest], Answer | None] = lambda _: None
        self.hidden_listings: set[str] = set()
        self.requests: list[ManagementRequest] = []
        self.add_node()
        self.add_vhost("/")

    def add_node(self, process: int = 100, uptime: int = 60_000) -> None:
        self.objects["node"][NODE,] = {
            "name": NODE,
            "type": "disc",
            "running": True,
            "os_pid": str(process),
            "uptime": uptime,
            "mem_used": 1000,
        }

    def add_vhost(self, name: str) -> None:
        self.objects["vhost"][name,] = {
            "name": name,
            "cluster_state": {NODE: "running"},
            "messages": 0,
            "tracing": False,
        }
        self.add_exchange("", name)

    def add_exchange(self, name: str, vhost: str, *, durable: bool = True) -> None:
        self.objects["exchange"][vhost, name] = {
            "vhost": vhost,
            "name": name,
            "type": "direct",
            "durable": durable,
            "auto_delete": False,
            "internal": False,
        }

    def add_queue(self, name: str, vhost: str = "/", **more: Json) -> None:
        self.objects["queue"][vhost, name] = {
            "vhost": vhost,
            "name": name,
            "durable": True,
            "auto_delete": False,
            "exclusive": False,
            "type": "classic",
            "node": NODE,
            **more,
        }

    def add_connection(self, name: str, connected_at: int, **more: Json) -> None:
        self.objects["connection"][name,] = {
            "name": name,
            "vhost": "/",
            "user": "app",
            "connected_at": connected_at,
            "state": "running",
            **more,
        }

    def answer(self, request: ManagementRequest) -> Answer:
        """Return the answer to ``request`` at this time."""
        self.requests.append(request)
        failure = self.failure(request)
        if failure is not None:
            return failure
        match request:
            case OverviewRequest():
                return Document(self._overview())
            case ListingRequest():
                return self._page(request)
            case PermissionRequest():
                return self._permission(request.virtual_host)
            case ObjectRequest() | OwnerRequest() | SessionsRequest() | UsedFeaturesRequest():
                return self._single(request)
        return self._users()

    def _overview(self) -> dict[str, Json]:
        totals: dict[str, Json] = {"queues": len(self.objects["queue"])}
        shown: dict[str, Json] = {
            "cluster_name": self.cluster_name,
            "erlang_version": "25",
            "rabbitmq_version": self.version,
            "disable_stats": self.statistics_off,
            "object_totals": totals,
        }
        if self.monitoring:
            shown["node"] = self.answering or next(iter(self.objects["node"]), ("",))[0]
            shown["listeners"] = self.listeners
            totals["connections"] = len(self.objects["connection"])
        return shown

    def _single(
        self, request: ObjectRequest | OwnerRequest | SessionsRequest | UsedFeaturesRequest
    ) -> Answer:
        if isinstance(request, ObjectRequest):
            return self._at(request)
        if isinstance(request, OwnerRequest):
            owner = self.owners.get(request.queue.leaf)
            host, leaf = request.queue.parts
            named: dict[str, Json] = {"vhost": host, "name": leaf}
            return self._about(
                request.queue, {**named, "owner_pid_details": {"name": owner}} if owner else named
            )
        asked_for = (
            self.sessions.get(request.connection)
            if isinstance(request, SessionsRequest)
            else self.used_features
        )
        return NotFound() if asked_for is None else Document(asked_for)

    def _at(self, request: ObjectRequest) -> Answer:
        class_name = request.name.class_name
        objects = self.objects[class_name]
        if class_name in _CONTENTS and request.name.parts[0] in self.forbidden:
            return self._permission(request.name.parts[0])
        is_page = class_name in _OF_USERS and not request.place.is_listing
        if not self.monitoring and (is_page or class_name in _OF_MONITORS):
            return _NO_TAG
        if request.place.is_listing:
            items = [dict(one) for one in self._shown(class_name) if request.place.items([one])]
            return Document([*items])
        known = objects.get(request.name.parts)
        return NotFound() if known is None else Document(dict(known))

    def _about(self, name: ObjectName, reported: Json) -> Answer:
        return Document(reported) if name.parts in self.objects[name.class_name] else NotFound()

    def _users(self) -> Answer:
        if self.users is None:
            return Refused(login=False, reason="Not administrator user")
        return Document([{"name": name, "tags": list(tags)} for name, tags in self.users.items()])

    def _permission(self, virtual_host: str) -> Answer:
        if (virtual_host,) not in self.objects["vhost"]:
            return NotFound()
        if virtual_host in self.forbidden:
            if self.version.startswith("4.3"):
                return NotFound()
            return Refused(login=False, reason="User not authorised to access virtual host")
        item: Json = {"vhost": virtual_host, "name": ""}
        return Document({"items": [item], "page": 1, "page_count": 1})

    def _page(self, request: ListingRequest) -> Answer:
        if not self.monitoring and request.class_name in _OF_MONITORS:
            return _NO_TAG
        items = [dict(item) for item in self._shown(request.class_name)]
        if request.class_name in self.hidden_listings:
            items = []
        if request.class_name == "user" and self.users is None:
            return Refused(login=False, reason="Not administrator user")
        if request.lean:
            return Document([{key: item[key] for key in item.keys() & _WITHOUT_STATISTICS} for item in items])
        count = max(1, -(-len(items) // request.page_size))
        if request.page > count:
            return BeyondLastPage()
        part: list[Json] = [*items[(request.page - 1) * request.page_size : request.page * request.page_size]]
        pages = {"page": request.page, "page_count": count, "total_count": len(items)}
        return Document({"items": part, **pages})

    def _shown(self, class_name: str) -> list[dict[str, Json]]:
        """Return the objects of a class that the reader may see."""
        every = list(self.objects[class_name].values())
        if class_name in _CONTENTS:
            return [one for one in every if one.get("vhost") not in self.forbidden]
        if self.monitoring:
            return every
        if class_name == "vhost":
            return [one for one in every if one.get("name") not in self.forbidden]
        return [] if class_name in _OF_USERS else every


@functools.cache
def all_definitions() -> tuple[ClassDefinition | EventDefinition, ...]:
    """Return the classes and events of the mapping, as the agent describes them."""
    classes = [described_class(with_marks(schema)) for schema in class_schemas(MAPPING).values()]
    return (*classes, *map(described_event, event_schemas(MAPPING).values()))


@dataclass
class World:
    """Agent and console over a loopback, with the imitated broker.

    Attributes:
        seen: every object that the console received, in order.
        sent: every message of the agent.
        notes: every note of the agent, in order.
        observed: the observations of the source.
        answers: the answers of the source to calls and reads.
    """

    config: RabbitMqSourceConfig = field(default_factory=lambda: RabbitMqSourceConfig(user="gateway"))
    broker: ImitatedBroker = field(default_factory=ImitatedBroker)
    now: int = EPOCH
    sent: list[Send] = field(default_factory=list)
    seen: list[ObjectSeen] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    observed: list[Observation] = field(default_factory=list)
    answers: list[OperationAnswer] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    request_takes: int = 2 * MILLISECOND
    proved_at: int = 0
    broker_takes: int = 0

    def __post_init__(self) -> None:
        session = AgentConfig(
            UUID(int=7), 1, frozenset({"loopback"}), publish_interval=5 * SECOND, rereads=True
        )
        self.source = _NotedSource(self)
        self.agent = ServedRabbitMq(self.source, self.config, session)
        # As of an earlier console: questions for schemas, always the same, would take a quarter of the time.
        known = ConsoleConfig(trusted_users=frozenset({"loopback"}), definitions=all_definitions())
        self.console = ConsoleSession(known)
        self._agent_wakes = self._console_wakes = 0
        self._asked: tuple[ManagementRequest, Answer, int] | None = None
        self._answer_at = self._proof_at = 0
        self._console_does(self.console.handle(LinkUp("reply"), self.now))
        self.agent_does(self.agent.handle(LinkUp(""), self.now))

    def source_does(self, effects: list[Effect]) -> None:
        """Publish the observations and answers of the source."""
        self.note(effects)
        self.agent_does(self.agent.publish(effects, self.now))

    def note(self, effects: list[Effect]) -> None:
        """Record the observations and answers of the source."""
        for effect in effects:
            if isinstance(effect, Observed):
                self.observed.extend(effect.observations)
            elif isinstance(effect, Answered):
                self.answers.append(effect.answer)

    def agent_does(self, effects: list[Effect]) -> None:
        """Carry out the effects of the agent."""
        for effect in effects:
            match effect:
                case Send():
                    self.sent.append(effect)
                    self._console_does(self.console.handle(self._delivered(effect), self.now))
                case WakeAt(time):
                    self._agent_wakes = time
                case Note():
                    self.notes.append(effect)

    def _console_does(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.agent_does(self.agent.handle(self._delivered(effect), self.now))
                case WakeAt(time):
                    self._console_wakes = time
                case Observed(observations):
                    self.observations.extend(observations)
                    self.seen.extend(one for one in observations if isinstance(one, ObjectSeen))

    def _delivered(self, send: Send) -> Delivery:
        return Delivery(send.exchange, send.routing_key, send.body, send.reply_to, "loopback")

    def run(self, seconds: float) -> None:
        """Let time pass, with the requests and timers of that time and their effects."""
        end = self.now + int(seconds * SECOND)
        while True:
            wakes = [time for time in (self._agent_wakes, self._console_wakes) if time]
            asks = self._answer_at or self.source.request_at
            nearest = max(self.now, min(asks, *wakes))
            nearest = min(nearest, max(self.now, self._proof_at))
            if nearest > end:
                self.now = end
                return
            self.now = nearest
            if self.now >= self._proof_at:
                self._proof_at = self.now + 2 * SECOND
                self._prove()
                continue
            if self._agent_wakes and self._agent_wakes <= self.now:
                self._agent_wakes = 0
                self.agent_does(self.agent.handle(TimerExpired(), self.now))
            elif self._console_wakes and self._console_wakes <= self.now:
                self._console_wakes = 0
                self._console_does(self.console.handle(TimerExpired(), self.now))
            elif self._asked is None:
                self._ask()
            else:
                self._answer(*self._asked)

    @property
    def asked(self) -> ManagementRequest | None:
        """The request that is under way, with its answer of when it was sent."""
        return self._asked[0] if self._asked is not None else None

    def _prove(self) -> None:
        """Report that no event waits in the queue, as its checks do while it is consumed."""
        if self.source.status.events_since and not self.source.is_catching_up:
            self.proved_at = self.now
            self.source_does(self.source.handle(EventsReceived(self.now), self.now))

    def _ask(self) -> None:
        request = self.source.next_request(self.now)
        assert request is not None, "a request was due"
        answer = self.broker.answer(request)
        if isinstance(answer, Document):
            answer = replace(answer, spent=self.broker_takes)
        self._asked = (request, answer, self.now)
        self._answer_at = self.now + self.request_takes
        self.source_does(self.source.handle(RequestSent(), self.now))

    def _answer(self, request: ManagementRequest, answer: Answer, began: int) -> None:
        self._asked, self._answer_at = None, 0
        self.source_does(self.source.handle(AnswerReceived(request, answer, began), self.now))
        while self.source.busy:
            self.source_does(self.source.handle(WorkContinues(Work.LISTING), self.now))

    def event(self, key: str, **headers: object) -> None:
        """Deliver an event of the broker, now."""
        reported = {"timestamp_in_ms": self.now // MILLISECOND, **headers}
        self.source_does(self.source.handle(BrokerEventReceived.of_message(key, reported), self.now))
        self.agent_does(self.agent.event(key, reported, self.now))

    def queue_created(self, name: str, vhost: str = "/", **more: object) -> None:
        """Deliver the event of a queue's creation, now."""
        self.event(
            "queue.created",
            **{
                "vhost": vhost,
                "name": name,
                "durable": True,
                "auto_delete": False,
                "exclusive": False,
                **more,
            },
        )

    def names(self, class_name: str) -> list[str]:
        """Return the names of the objects of a class that the source knows now, in order."""
        return sorted("/".join(known.name.parts) for known in self.source.known(class_name))

    def value(self, class_name: str, leaf: str, element: str) -> Any:  # noqa: ANN401  as the schema says
        """Return a value of an object that the source knows."""
        (known,) = [one for one in self.source.known(class_name) if one.name.leaf == leaf]
        rule = MAPPING.classes[class_name]
        values = dict(zip(rule.properties, known.properties, strict=True))
        values |= dict(zip(rule.statistics, known.statistics, strict=True))
        return values[element]

    def story(self, class_name: str, since: int = 0) -> list[tuple[str, str]]:
        """Return the console's updates of properties of a class, in short: ``("orders", "there")``."""
        position = 1 if class_name in {"queue", "exchange"} else 0
        return [
            (str(one.properties[position]), "deleted" if one.deleted else "there")
            for one in self.seen[since:]
            if one.key.name == class_name and one.properties is not None
        ]

    def events(self, since: int = 0) -> list[Reported]:
        """Return the events that the console received, from the observation at ``since`` on."""
        schemas = {one.schema.key: one.schema for one in self.observations if isinstance(one, EventLearned)}
        return [
            Reported(
                one.key.name,
                one.time,
                one.severity,
                {
                    argument.name: value
                    for argument, value in zip(schemas[one.key].arguments, one.arguments, strict=True)
                },
            )
            for one in self.observations[since:]
            if isinstance(one, EventSeen)
        ]

    @property
    def silent(self) -> bool:
        """Whether the console has lost the agent."""
        return any(isinstance(one, AgentLost) for one in self.observations)

    @property
    def resyncs(self) -> int:
        """The number of resyncs that the console began."""
        return sum(isinstance(one, ResyncBegan) for one in self.observations)

    @property
    def note_counts(self) -> Mapping[str, int]:
        """The number of the agent's notes of each name."""
        names = [note.event for note in self.notes]
        return {name: names.count(name) for name in names}


class _NotedSource(RabbitMqSource):
    """The source of a world; it notes its effects when its timer expires."""

    def __init__(self, noted_by: World) -> None:
        super().__init__(noted_by.config, MAPPING)
        self._noted_by = noted_by

    def handle(self, event: SourceEvent, now: int) -> list[Effect]:
        effects = super().handle(event, now)
        if isinstance(event, TimerExpired):
            self._noted_by.note(effects)
        return effects
