"""Asks agents for the objects that identify their broker, before what waits in a durable queue is read.

It is a conversation beside the console session's, over a queue of its own: what waits in the durable one may
be of another broker than the known one, and the answers to a console come behind it. Only the objects of few
classes are requested (`gateway.mapping.rules.IdentityRule`), and the schema of a class where it is not known.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.dialects.qmf.console_content import ContentTranslator
from gateway.dialects.qmf.console_requests import FetchObjects, FetchSchema, Subject, routing_key
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import (
    CommandComplete,
    Content,
    Received,
    SchemaResponse,
    UnknownClass,
)
from gateway.dialects.session import Binding, Delivery, Send
from gateway.model.observations import Observation
from gateway.model.times import MILLISECOND

MOST_QUERIES: Final = 256
"""Queries, each for a class of an agent; what would be more is not requested."""
MOST_SHOWN: Final = 4_096
"""Classes and objects that are kept of the answers; an answer with more counts as none."""
MOST_SENT: Final = 16 * MOST_QUERIES
"""Requests after which no answer leads to another one."""


class PeerQuestion:
    """Requests the objects of some classes from some agents; the answers are observations.

    Args:
        config: the configuration of the console session.
        definitions: the classes that are known.
        asked: the agents that are asked, by class (``package:name``).
        sequence: the number before that of the first request; arbitrary, so that no former answer matches.

    Attributes:
        shown: the classes and objects of the answers, in their order.
    """

    def __init__(
        self,
        config: ConsoleConfig,
        definitions: Iterable[ClassDefinition | EventDefinition],
        asked: Mapping[str, Collection[str]],
        sequence: int,
    ) -> None:
        self.shown: list[Observation] = []
        self._config = config
        self._definitions = Definitions(config.class_limit)
        self._translator = ContentTranslator(config.secrets)
        self._sequence, self._sent = sequence, 0
        self._subjects: dict[int, Subject] = {}
        self._queries = dict.fromkeys(itertools.islice(_queries(asked), MOST_QUERIES))
        self._open = dict(self._queries)
        self._refused: set[FetchObjects] = set()
        self._unread: set[int] = set()  # the numbers of queries of whose answers a part could not be read
        for definition in definitions:
            if f"{definition.key.package}:{definition.key.name}" in asked:
                self._learn(definition)

    @property
    def is_answered(self) -> bool:
        """Whether each query was answered, or refused."""
        return not self._open

    @property
    def answered(self) -> frozenset[str]:
        """The agents that have shown all that they were asked for."""
        return frozenset({query.agent for query in self._queries} - self.silent)

    @property
    def silent(self) -> frozenset[str]:
        """The agents that were asked for more than they have shown."""
        return frozenset(query.agent for query in (*self._open, *self._refused))

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """Return the bindings of the queue of this name, to which answers are sent."""
        return (Binding(self._config.direct_exchange, queue),)

    def requests(self, reply_to: str) -> list[Send]:
        """Return the requests that are not answered yet, to be sent now; also those that were sent before."""
        return [self._send(query, reply_to) for query in self._open]

    def take(self, delivery: Delivery) -> list[Send]:
        """Take a message that arrived in the queue; return the requests that follow from it."""
        trusted = self._config.trust_anyone or delivery.user_id in self._config.trusted_users
        if not trusted or delivery.exchange != self._config.direct_exchange or self._sent >= MOST_SENT:
            return []
        sends: list[Send] = []
        try:
            for message in read_body(delivery.body, self._definitions):
                sends += self._take(message, delivery.routing_key)
        except (ProtocolError, LocalProtocolError):
            sequence = int.from_bytes(delivery.body[4:8], "big")
            self._unread |= {sequence} & self._subjects.keys()
        return sends

    def _take(self, message: Received, reply_to: str) -> list[Send]:
        subject = self._subjects.get(message.sequence)
        match message:
            case SchemaResponse() if isinstance(subject, FetchSchema):
                del self._subjects[message.sequence]
                self._learn(message.definition)
                return self.requests(reply_to)  # also those whose answers could not be read
            case UnknownClass() if isinstance(subject, FetchObjects):
                self._unread.add(message.sequence)
                return [self._send(FetchSchema(message.key), reply_to)]
            case Content() if isinstance(subject, FetchObjects):
                if not self._show(self._translator.content(message, 0)):
                    self._unread.add(message.sequence)
            case CommandComplete() if isinstance(subject, FetchObjects):
                self._completed(message, subject)
        return []

    def _completed(self, end: CommandComplete, query: FetchObjects) -> None:
        """Note the end of an answer, which counts if all of it could be read."""
        if end.sequence in self._unread or query not in self._open:
            return
        del self._open[query]
        if end.code:
            self._refused.add(query)

    def _learn(self, definition: ClassDefinition | EventDefinition) -> None:
        if isinstance(definition, ClassDefinition) and self._definitions.add(definition):
            self._show(self._translator.learn(definition))

    def _show(self, observation: Observation) -> bool:
        """Keep an observation; return whether there was room for it."""
        if has_room := len(self.shown) < MOST_SHOWN:
            self.shown.append(observation)
        return has_room

    def _send(self, subject: Subject, reply_to: str) -> Send:
        self._sequence, self._sent = self._sequence + 1, self._sent + 1
        self._subjects[self._sequence] = subject
        return Send(
            self._config.management_exchange,
            routing_key(subject),
            write(subject.message(self._sequence)),
            reply_to=reply_to,
            content_type=addresses.CONTENT_TYPE,
            expiration=max(1, self._config.request_deadline // MILLISECOND),
        )


def _queries(asked: Mapping[str, Collection[str]]) -> Iterator[FetchObjects]:
    for class_name, agents in sorted(asked.items()):
        package, _, name = class_name.partition(":")
        yield from (FetchObjects(agent, package, name) for agent in sorted(agents))
