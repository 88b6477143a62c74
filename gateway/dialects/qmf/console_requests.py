"""Requests of a console, which are repeated, and operations, which are sent once.

A reply may never come: each request has a deadline, is repeated a few times, each time with a new
sequence number and a longer deadline, and is given up in the end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.dialects.console import Pending, Timers
from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    ClassQuery,
    GetQuery,
    Message,
    PackageQuery,
    SchemaRequest,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey
from gateway.model.values import ValueType

REQUEST_SEQUENCES: Final = 1 << 31
"""The first sequence number of operations (`Operations`); those below it are for requests."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """Requests the broker's identity. It is repeated for ever: without an answer nothing else is possible."""

    def message(self, sequence: int) -> Message:
        """Return the request."""
        return BrokerRequest(sequence)


@dataclass(frozen=True, slots=True)
class ListPackages:
    """Requests the packages."""

    def message(self, sequence: int) -> Message:
        """Return the request."""
        return PackageQuery(sequence)


@dataclass(frozen=True, slots=True)
class ListClasses:
    """Requests the classes of a package."""

    package: str

    def message(self, sequence: int) -> Message:
        """Return the request."""
        return ClassQuery(sequence, self.package)


@dataclass(frozen=True, slots=True)
class FetchSchema:
    """Requests the schema of a class or event."""

    key: ClassKey

    def message(self, sequence: int) -> SchemaRequest:
        """Return the request."""
        return SchemaRequest(sequence, self.key)


@dataclass(frozen=True, slots=True)
class FetchObjects:
    """Requests the objects of a class from an agent."""

    agent: str
    package: str
    name: str

    def message(self, sequence: int) -> Message:
        """Return the request."""
        return GetQuery(sequence, {"_class": self.name, "_package": self.package})


@dataclass(frozen=True, slots=True)
class AwaitPublication:
    """Makes an agent from before AM2 publish everything again.

    From February 2008 on, agents do so after any request for a schema, as of ``key``; before that, whenever
    a queue is bound, so that nothing is sent.
    """

    key: ClassKey

    def message(self, sequence: int) -> SchemaRequest:
        """Return the request."""
        return SchemaRequest(sequence, self.key)


Subject: TypeAlias = Greeting | ListPackages | ListClasses | FetchSchema | FetchObjects | AwaitPublication


def routing_key(subject: Subject) -> str:
    """Return the routing key of a request: get queries go to the agent, all others to the broker."""
    if isinstance(subject, FetchObjects):
        return addresses.agent_key(subject.agent)
    return addresses.BROKER_KEY


def _is_of(subject: Subject, agent: str) -> bool:
    return isinstance(subject, FetchObjects) and subject.agent == agent


class _Request:
    __slots__ = ("attempts", "patience", "sequences", "subject")

    def __init__(self, subject: Subject, patience: int) -> None:
        self.subject = subject
        self.attempts = 0
        self.patience = patience
        self.sequences: list[int] = []


@dataclass(frozen=True, slots=True)
class RequestRules:
    """The deadlines and limits of requests. Durations are nanoseconds.

    Attributes:
        deadline: the time until the first answer is missing; each further attempt waits twice as long.
        longest: the upper bound of that time.
        attempts: the attempts after which a request is given up.
        window: requests in flight.
        limit: requests that may wait for their turn; more are refused.
    """

    deadline: int
    longest: int
    attempts: int = 3
    window: int = 16
    limit: int = 65_536


class Requests:
    """The unanswered requests of a session; their numbers begin at ``first_sequence`` + 1."""

    def __init__(self, rules: RequestRules, first_sequence: int = 0) -> None:
        self._rules = rules
        self._sequence = first_sequence
        self._waiting: deque[Subject] = deque()
        self._known: dict[Subject, _Request | None] = {}
        self._by_sequence: dict[int, _Request] = {}
        self._timers: Timers[_Request] = Timers()
        self._objects_of: Counter[str] = Counter()

    @property
    def last_sequence(self) -> int:
        """The number of the request that was sent last."""
        return self._sequence

    def __bool__(self) -> bool:
        """Return whether any request is unanswered."""
        return bool(self._known)

    def clear(self) -> None:
        """Drop all requests; late replies will match none."""
        self._waiting.clear()
        self._known.clear()
        self._by_sequence.clear()
        self._timers = Timers()
        self._objects_of.clear()

    def add(self, subject: Subject) -> bool:
        """Add a request, once however often it is added; return False if too many are waiting."""
        if subject in self._known:
            return True
        if len(self._waiting) >= self._rules.limit:
            return False
        self._known[subject] = None
        self._waiting.append(subject)
        if isinstance(subject, FetchObjects):
            self._objects_of[subject.agent] += 1
        return True

    def asks_objects_of(self, agent: str) -> bool:
        """Return whether objects of this agent are requested."""
        return self._objects_of[agent] > 0

    def asks_beside(self, agents: Iterable[str]) -> bool:
        """Return whether anything but the objects of these agents is requested."""
        return len(self._known) > sum(self._objects_of[agent] for agent in agents)

    def drop_objects_of(self, agent: str) -> None:
        """Drop all requests for objects of this agent."""
        if not self.asks_objects_of(agent):
            return
        for subject in [one for one in self._known if _is_of(one, agent)]:
            self.drop(subject)
            self._known.pop(subject, None)
        self._waiting = deque(one for one in self._waiting if one in self._known)
        del self._objects_of[agent]

    def subject(self, sequence: int) -> Subject | None:
        """Return the request that a reply of this sequence answers; ``None`` if there is none."""
        request = self._by_sequence.get(sequence)
        return request.subject if request else None

    def sequence(self, subject: Subject) -> int:
        """Return the last number of the request ``subject``; 0 where it is unknown."""
        request = self._known.get(subject)
        return request.sequences[-1] if request else 0

    def attempts(self, subject: Subject) -> int:
        """Return the number of attempts of ``subject`` since it was added or `retry_at` was called."""
        request = self._known.get(subject)
        return request.attempts if request else 0

    def progress(self, sequence: int, now: int) -> None:
        """Note a part of a reply, which extends the deadline."""
        request = self._by_sequence.get(sequence)
        if request is not None:
            self._timers.set(request, now + request.patience)

    def complete(self, sequence: int) -> Subject | None:
        """End and return the request that a complete reply of this sequence answers."""
        request = self._by_sequence.get(sequence)
        if request is None:
            return None
        self._forget(request)
        return request.subject

    def drop(self, subject: Subject) -> None:
        """Drop the request ``subject``."""
        request = self._known.get(subject)
        if request is not None:
            self._forget(request)

    def _forget(self, request: _Request) -> None:
        self._timers.cancel(request)
        for sequence in request.sequences:
            del self._by_sequence[sequence]
        del self._known[request.subject]
        if isinstance(request.subject, FetchObjects):
            self._objects_of[request.subject.agent] -= 1

    def retry_at(self, subject: Subject, at: int) -> None:
        """Repeat the request at ``at`` if that is sooner, as if for the first time."""
        request = self._known.get(subject)
        if request is not None:
            self._timers.set(request, at)
            request.patience = self._rules.deadline
            request.attempts = 0

    def launch(self, now: int) -> list[tuple[Subject, int]]:
        """Return the requests to send now, with their sequence numbers."""
        launched = []
        while self._waiting and len(self._known) - len(self._waiting) < self._rules.window:
            subject = self._waiting.popleft()
            request = self._known[subject] = _Request(subject, self._rules.deadline)
            launched.append((subject, self._number(request, now)))
        return launched

    def overdue(self, now: int) -> tuple[list[tuple[Subject, int]], list[Subject]]:
        """Return the requests to repeat, with sequence numbers, and those that are given up."""
        again: list[tuple[Subject, int]] = []
        given_up: list[Subject] = []
        for request in self._timers.take(now):
            if request.attempts >= self._rules.attempts and not isinstance(request.subject, Greeting):
                self._forget(request)
                given_up.append(request.subject)
                continue
            if request.attempts:
                request.patience = min(2 * request.patience, self._rules.longest)
            again.append((request.subject, self._number(request, now)))
        return again, given_up

    def _number(self, request: _Request, now: int) -> int:
        self._sequence = (self._sequence + 1) % REQUEST_SEQUENCES or 1  # 0 marks unsolicited messages
        request.attempts += 1
        self._timers.set(request, now + request.patience)
        request.sequences.append(self._sequence)
        self._by_sequence[self._sequence] = request
        # A late answer to an earlier attempt counts; only greetings are repeated without a limit.
        for old in request.sequences[: -self._rules.attempts]:
            del self._by_sequence[old]
        del request.sequences[: -self._rules.attempts]
        return self._sequence

    @property
    def next_deadline(self) -> int:
        """The time at which `overdue` returns something; `NEVER` for never."""
        return self._timers.first


OperationRequest: TypeAlias = MethodCall | ObjectModify | ObjectFetch
"""The requests of users; `ObjectModify` only before AM2, which has no such request."""


@dataclass(slots=True)
class Operation:
    """A call or fetch that was sent, or is about to be.

    Attributes:
        request: the user's request.
        definition: the class of the object.
        object_id: the id of the object.
        found: whether the answer to a fetch had the object.
        trouble: the part of the answer to a fetch that could not be processed.
    """

    request: OperationRequest
    definition: ClassDefinition
    object_id: ObjectId
    found: bool = False
    trouble: str = ""

    def answer(self, outcome: Outcome, text: str, code: int | None = None) -> Answer:
        """Return the answer to the request, without outputs."""
        return Answer(self.request.token, outcome, text, code)


class Operations(Pending[int, Operation]):
    """The operations of a session.

    Args:
        limit: the number of operations that may wait for an answer.
        first_sequence: as in `Requests`.
    """

    def __init__(self, limit: int, first_sequence: int) -> None:
        super().__init__()
        self.limit = limit
        self._number = first_sequence % REQUEST_SEQUENCES

    @property
    def last_sequence(self) -> int:
        """The number of the operation that was sent last."""
        return REQUEST_SEQUENCES + self._number

    @property
    def is_full(self) -> bool:
        """Whether no further operation may wait for an answer."""
        return len(self) >= self.limit

    def ask(self, operation: Operation) -> int:
        """Wait for an answer to this operation; return its sequence number."""
        self._number = (self._number + 1) % REQUEST_SEQUENCES
        self.begin(self.last_sequence, operation, operation.request.deadline)
        return self.last_sequence


ClassName: TypeAlias = tuple[str, str]
"""Package and name."""

_REFERENCE: Final = "Ref"


def targets_first(listed: Iterable[ClassName], definitions: Iterable[ClassDefinition]) -> Iterator[ClassName]:
    """Yield the classes, each after those that its properties refer to, else in the order listed.

    An object that refers to an unknown one has to wait for it, and a broker lists queues before the
    virtual hosts of a hundred thousand of them. qpidd describes a reference only by the name of
    the property: ``vhostRef`` refers to a ``vhost``.
    """
    targets: dict[ClassName, list[ClassName]] = {}
    for definition in definitions:
        name = (definition.key.package, definition.key.name)
        targets.setdefault(name, []).extend(_referred_to(definition))
    wanted = dict.fromkeys(listed)
    for name in tuple(wanted):
        yield from _with_targets(name, targets, wanted)


def _with_targets(
    name: ClassName, targets: Mapping[ClassName, list[ClassName]], wanted: dict[ClassName, None]
) -> Iterator[ClassName]:
    """Yield a class after those that it refers to; of a circle, the first one comes last."""
    if name not in wanted:
        return
    under_way = [(name, iter(targets.get(name, ())))]
    del wanted[name]
    while under_way:
        target = next(under_way[-1][1], None)
        if target is None:
            yield under_way.pop()[0]
        elif target in wanted:
            del wanted[target]
            under_way.append((target, iter(targets.get(target, ()))))


def _referred_to(definition: ClassDefinition) -> Iterator[ClassName]:
    for element in definition.schema.properties:
        if element.type is not ValueType.REFERENCE:
            continue
        name = element.references or element.name.removesuffix(_REFERENCE)
        package, _, name = name.rpartition(":")
        yield package or definition.key.package, name
