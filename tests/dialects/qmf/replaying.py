"""Recorded peers at their own pace: the publications with their times and keys, and the answers.

Publications are the recorded octets. Answers are put together again, as our console asks in its own order
and numbers: schemas and indications as recorded, objects as they were reported last at that time.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_config import HeartbeatRules, Heartbeats
from gateway.dialects.qmf.fields import ObjectId, prefix_of
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassQuery,
    CommandComplete,
    Content,
    GetQuery,
    Message,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    Received,
    SchemaRequest,
    SchemaResponse,
    StatisticContent,
)
from gateway.dialects.session import Effect, Observed
from gateway.model.observations import Observation
from gateway.model.times import SECOND
from tests.dialects.qmf.playbook import ConsolePlay, Step
from tests.dialects.qmf.recordings import FOLDER, definitions, readable, recorded

AGENT_CLASS = ("org.apache.qpid.broker", "agent")


@dataclass(frozen=True)
class Publication:
    """A body that a peer published at ``at`` (nanoseconds)."""

    at: int
    key: str
    body: bytes


@cache
def publications(peer: str) -> tuple[Publication, ...]:
    bodies = {one.id: one.body for one in recorded(peer)}
    with gzip.open(FOLDER / "publications.jsonl.gz", "rt") as lines:
        rows = [row for row in map(json.loads, lines) if row["peer"] == peer]
    return tuple(Publication(int(row["at"] * SECOND), row["key"], bodies[row["id"]]) for row in rows)


@cache
def _records(peer: str) -> tuple[Received, ...]:
    known = definitions(peer)
    return tuple(one for message in recorded(peer) for one in readable(message.body, known))


class RecordedLife:
    """An object in a recording, from its beginning to its end."""

    def __init__(self, first: Content) -> None:
        self.object_id: ObjectId = first.object_id
        self.key = first.key
        self.created = first.created
        self.deleted = 0
        self.reported: list[Content] = []

    def lives(self, at: int, since: int) -> bool:
        """Return whether the object lives at ``at``, and its agent has reported it since ``since``."""
        return (
            self.created <= at
            and not 0 < self.deleted <= at
            and any(t.sampled >= since for t in self.reported)
        )

    def content(self, sequence: int, at: int) -> ObjectContent:
        """Return the content with which an agent answers at ``at``."""
        reported = [one for one in self.reported if one.sampled <= at][::-1] or self.reported
        properties = next(one.properties for one in (*reported, *self.reported) if one.properties is not None)
        statistics = next(
            (one.statistics for one in (*reported, *self.reported) if one.statistics is not None), ()
        )
        return ObjectContent(
            sequence,
            self.key,
            at,
            self.created,
            0,
            self.object_id,
            properties,
            statistics,
        )


class RecordedPeer:
    """Broker and agents of a recording, with their state at any time."""

    def __init__(self, peer: str) -> None:
        records = _records(peer)
        self.broker = next(one for one in records if isinstance(one, BrokerResponse))
        self.indications = {(one.kind, one.key): one for one in records if isinstance(one, ClassIndication)}
        self.schemas = {one.definition.key: one for one in records if isinstance(one, SchemaResponse)}
        self.responses = [one for one in records if isinstance(one, MethodResponse)]
        self.lives: dict[tuple[ObjectId, int], RecordedLife] = {}
        for one in records:
            if isinstance(one, PropertyContent | StatisticContent | ObjectContent):
                life = self.lives.setdefault((one.object_id, one.created), RecordedLife(one))
                life.reported.append(one)
                life.deleted = life.deleted or one.deleted
        self.announced = {
            one.package: publication.at
            for publication in publications(peer)
            if publication.key == "schema.package"
            for one in readable(publication.body, definitions(peer))
            if isinstance(one, PackageIndication)
        }
        self.asked: list[Message] = []

    def attached(self, agent: str, at: int) -> int | None:
        """Return the time since which an agent is present at ``at``; ``None`` if it is absent."""
        if agent == "1.0":
            return 0
        for life in self.lives.values():
            if (life.key.package, life.key.name) == AGENT_CLASS and life.lives(at, 0):
                properties = life.content(0, at).properties or ()
                if agent == f"{properties[-2]}.{properties[-1]}":
                    return life.created
        return None

    def answers(self, request: Message, key: str, at: int) -> list[Message]:
        self.asked.append(request)
        if isinstance(request, SchemaRequest):
            schema = self.schemas.get(request.key)
            if schema is None:
                return [CommandComplete(request.sequence, 1, "Schema not available")]
            return [SchemaResponse(request.sequence, schema.definition)]
        if isinstance(request, BrokerRequest):
            return [BrokerResponse(request.sequence, self.broker.broker)]
        agent = key.removeprefix("agent.") if isinstance(request, GetQuery) else "1.0"
        since = self.attached(agent, at)
        if since is None:
            return []
        return [*self._listed(request, agent, at, since), CommandComplete(request.sequence, 0, "OK")]

    def _listed(self, request: Message, agent: str, at: int, since: int) -> Iterator[Message]:
        if isinstance(request, PackageQuery):
            for package in dict.fromkeys(key.package for _, key in self.indications):
                if self.announced.get(package, 0) <= at:
                    yield PackageIndication(request.sequence, package)
        elif isinstance(request, ClassQuery):
            for one in self.indications.values():
                if one.key.package == request.package:
                    yield ClassIndication(request.sequence, one.kind, one.key)
        elif isinstance(request, GetQuery):
            for life in self.lives.values():
                belongs = prefix_of(life.object_id.prefix).agent == agent
                if belongs and life.key.name == request.selector["_class"] and life.lives(at, since):
                    yield life.content(request.sequence, at)


class Replay(ConsolePlay):
    """A console that receives a recording from its beginning, and answers to its requests.

    Attributes:
        reported: all steps that left the session except requests, in order.
    """

    def __init__(
        self,
        peer: str,
        observe: Callable[[tuple[Observation, ...], int], None] = lambda _, __: None,
        config: ConsoleConfig | None = None,
    ) -> None:
        rules = HeartbeatRules(Heartbeats.AUTO)
        super().__init__(config or ConsoleConfig(trust_anyone=True, heartbeats=rules), definitions(peer))
        self.peer = RecordedPeer(peer)
        self.reported: list[Step] = []
        self._observe = observe
        self._publications = list(publications(peer))
        self.now = self._publications[0].at

    def take(self, effects: Sequence[Effect]) -> None:
        super().take(effects)
        for effect in effects:
            if isinstance(effect, Observed):
                self._observe(effect.observations, self.now)

    def plays(self, seconds: float = 3600) -> None:
        """Connect if nothing was received yet, and pass on the publications of this many seconds."""
        if not self.sent:
            self.connects()
            self._answer()
        until = self.now + int(seconds * SECOND)
        while self._publications and self._publications[0].at <= until:
            publication = self._publications.pop(0)
            self.time_passes((publication.at - self.now) / SECOND)
            self._answer()
            self.arrives_octets(publication.body, key=publication.key, user="")
            self._answer()

    def _answer(self) -> None:
        waiting = self.left()
        while waiting:
            step = waiting.pop(0)
            if not isinstance(step, tuple):
                self.reported.append(step)
                continue
            key, request = step
            for answer in self.peer.answers(request, key, self.now):  # type: ignore[arg-type]  # a console's
                self.arrives(answer, user="")
                waiting.extend(self.left())
