"""Objects that are read one by one: the listing of their class fails, or lacks something. Without I/O.

A broker answers a whole listing with an error if it cannot show one of the objects. The others are read by
names that are known, or to which other objects refer. Whether a listing that lacks objects is right, they are
asked themselves, or, where they have no page of their own, the smallest listing that has them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from typing import Final

from gateway.dialects.session import Effect
from gateway.mapping.paths import Json
from gateway.model.times import MINUTE, SECOND
from gateway.sources.rabbitmq.broker_view import BrokerView
from gateway.sources.rabbitmq.listing import listed_items
from gateway.sources.rabbitmq.management_api import (
    NARROWED,
    Answer,
    Broken,
    Document,
    NotFound,
    ObjectRequest,
    OwnerRequest,
    Refused,
    is_narrowed,
    spent_on,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.object_places import Arrivals, any_within, place_key
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.path_proof import PathProof
from gateway.sources.rabbitmq.polling import PollingPlan
from gateway.sources.rabbitmq.reading import ClassReader

OWN_PAGES: Final = {
    "node",
    "vhost",
    "queue",
    "exchange",
    "connection",
    "channel",
    "user",
    "permission",
    "parameter",
}
"""Classes whose objects have a page of their own in the management API."""
_LISTINGS: Final = {
    *("policy", "operatorPolicy", "topicPermission", "binding", "consumer"),
    *("streamConsumer", "streamPublisher", "shovel", "federationLink"),
}
"""Classes whose objects are in smaller listings, such as those of a virtual host."""
READ_SINGLY: Final = frozenset(OWN_PAGES | _LISTINGS)
MAX_SINGLY: Final = 1_000
"""Maximum number of objects of a class that are read one by one."""
ROUND: Final = 15 * SECOND
"""Nanoseconds from the begin of a round to that of the next, at least."""
HOLDS: Final = MINUTE
"""Nanoseconds for which values that were read singly count as current."""
_OWNER_ATTEMPTS: Final = 3
"""Maximum number of requests for the owner of a queue: RabbitMQ knows its name only after some seconds."""
_OWNER_PAUSE: Final = 4 * SECOND
"""Nanoseconds between two such requests, if queues are listed more often."""


class SingleReadings:
    """Decides which object to read next by itself.

    Args:
        readers: the reader of each class.
        view: the known objects.
        stream: publishes what changes.
        apply: applies a document that was requested by itself; it takes its class, the document, and when it
            was requested and answered (ns).
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        view: BrokerView,
        stream: ObservationStream,
        apply: Callable[[str, Json, int, int], list[Effect]],
    ) -> None:
        self._readers = readers
        self._view = view
        self._stream = stream
        self._apply = apply
        self._failing: frozenset[str] = frozenset()
        self._refused: set[str] = set()
        self._round: deque[ObjectName] = deque()
        self._listed_together: dict[tuple[str, ...], set[ObjectName]] = {}
        # By class and `place_key`, what its last listing lacked.
        self._lacked_beside: dict[str, dict[tuple[str, ...], list[ObjectName]]] = {}
        self._began = 0
        self._read_at: dict[ObjectName, int] = {}
        self._arrivals = Arrivals()

    def learn(self, failing: Collection[str]) -> None:
        """Take the classes whose listing fails now."""
        wanted = READ_SINGLY.intersection(failing)
        if wanted != self._failing:
            self._failing = wanted
            self._refused &= wanted
            self._round.clear()
            self._listed_together.clear()
            self._began = 0

    def next_request(self, paths: PathProof, now: int) -> ObjectRequest | None:
        """Return the next request, if one is due; ``paths`` says which names arrive at the broker."""
        if not self._round and self._failing - self._refused and now - self._began >= ROUND:
            self._began = now
            self._round = deque(self._of_a_round())
            self._listed_together = self._known_beside(self._round)
        while self._round:
            name = self._round.popleft()
            reader = self._readers[name.class_name]
            request = ObjectRequest(name, reader.rule.listing, reader.columns)
            is_ambiguous = self._view.same_names.is_ambiguous(name)  # its path shows any of them
            is_wanted = name.class_name in self._failing - self._refused and not is_ambiguous
            if is_wanted and not paths.fault(request.target):
                return request
        return None

    def current(self, now: int) -> Container[ObjectName]:
        """Return the objects that were read singly a short time ago."""
        self._read_at = {name: at for name, at in self._read_at.items() if now - at < HOLDS}
        return self._read_at.keys()

    def _of_a_round(self) -> Iterable[ObjectName]:
        """Return an object of each place of a round, those first that were not read for longest."""
        names = chain.from_iterable(
            islice(dict.fromkeys(self._names_of(class_name)), MAX_SINGLY)
            for class_name in sorted(self._failing - self._refused)
        )
        places: dict[tuple[str, ...], ObjectName] = {}
        for name in names:
            places.setdefault(place_key(name), name)
        return sorted(places.values(), key=lambda name: self._read_at.get(name, 0))

    def _known_beside(self, asked: Iterable[ObjectName]) -> dict[tuple[str, ...], set[ObjectName]]:
        """Return the known objects in the listings that a round reads, by `place_key`.

        They are looked up once for all answers of a round: there may be 100,000 bindings.
        """
        beside: dict[tuple[str, ...], set[ObjectName]] = {
            place_key(name): set() for name in asked if name.class_name in _LISTINGS
        }
        for class_name in {class_name for class_name, *_ in beside}:
            for known in self._view.known.of_class(class_name):
                names = beside.get(place_key(known.name))
                if names is not None:
                    names.add(known.name)
        return beside

    def _names_of(self, class_name: str) -> list[ObjectName]:
        """Return names of a class that are known, or to which others refer, or that stand for any others."""
        known = [one.name for one in self._view.known.of_class(class_name)]
        found = [*self._stream.awaited(class_name), *self._view.known.missing_owners(class_name)]
        indexes = sum(element.index for element in self._readers[class_name].schema.properties)
        hosts = [one.name.leaf for one in self._view.known.of_class("vhost")]
        unknown = (any_within(class_name, host, indexes) for host in hosts)
        return [*(one for one in unknown if one is not None), *known, *found]

    # Answers.

    def take(self, request: ObjectRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        """Take the answer about objects whose class cannot be listed: one ends if two answers lack it.

        Args:
            request: the request.
            answer: its answer.
            began: when the request was sent (ns).
            ended: when its answer was taken (ns).
        """
        class_name, place = request.name.class_name, request.place
        if isinstance(answer, Refused):  # the broker logs each refusal
            self._refused.add(class_name)
        shown = place.items(answer.body) if isinstance(answer, Document) else []
        if not isinstance(answer, Document | NotFound) or shown is None:
            return []
        listed = listed_items(class_name, shown)
        documents = [(self._view.name_of(class_name, one), one) for one in listed]
        names = {name for name, _ in documents}  # as the broker has them, and several may have one
        if shown and not place.is_listing and request.name.plain not in names:
            return []  # it is about another object
        effects: list[Effect] = []
        for name, document in documents:
            if name is not None:
                self._read_at[name] = ended
                self._arrivals.shown(name, place, ended)
                effects += self._apply(class_name, document, began, ended)
        expected = self._expected_at(request)
        lacking = {name for name in expected if name.plain not in names}
        self._read_at.update(dict.fromkeys(expected - lacking, ended))
        if not self._arrivals.arrives(request.name, place, ended):
            return effects
        missed = [known.missed for known in map(self._view.known.get, lacking) if known is not None]
        for name in lacking:
            effects += self._stream.apply(self._view.lacked(name, began, ended))
        if 0 in missed:
            self.doubt(class_name, began)
        return effects

    # What a listing lacks.

    def doubt(self, class_name: str, began: int) -> bool:
        """Let nothing end that a listing lacks which began then (ns), before an overview was read.

        Returns:
            Whether the next overview shows whether the reader may see all objects of the class.
        """
        if class_name not in NARROWED:
            return False
        listings, every = self._view.known.listings, ObjectName(class_name, ())
        if self._view.is_narrowed:
            listings.answered(every, contradicts=True)
        else:
            listings.asked(every, began)
        return True

    def overview_read(self, overview: Json) -> list[str]:
        """Take an overview, which shows whether the reader may see all; return the classes that waited."""
        listings = self._view.known.listings
        self._view.is_narrowed = is_narrowed(overview)
        waited = [name for name in sorted(NARROWED) if listings.awaits(name)]
        for class_name in NARROWED & self._readers.keys():
            listings.answered(ObjectName(class_name, ()), contradicts=self._view.is_narrowed)
        return waited

    def question(self, name: ObjectName) -> ObjectRequest:
        """Return the request that shows whether an object exists."""
        reader = self._readers[name.class_name]
        columns = () if name.class_name in OWN_PAGES else reader.columns
        return ObjectRequest(name, reader.rule.listing, columns, urgent=True)

    def to_ask(
        self, class_name: str, suspects: list[ObjectName], seen: AbstractSet[ObjectName]
    ) -> list[ObjectName]:
        """Return those of the ``suspects``, which a listing lacks, that say whether it is right.

        Without pages of their own these are one of each smaller listing of which this one shows nothing at
        all, so that the answer is small if it is right; each if listings of the class are partial.
        """
        if class_name not in _LISTINGS:
            return suspects if class_name in OWN_PAGES else []
        places: dict[tuple[str, ...], list[ObjectName]] = {}
        for name in suspects:
            places.setdefault(place_key(name), []).append(name)
        self._lacked_beside[class_name] = places.copy()
        if places and not self._view.known.listings.are_partial(class_name):
            for name in seen:
                places.pop(place_key(name), None)
        return [names[0] for names in places.values()]

    def answered(self, request: ObjectRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        """Apply whether a smaller listing has what a listing lacks.

        If it has, the listing is partial. Then what two of them lack ends if the smaller one lacks it, too:
        all that belongs there.
        """
        known, class_name = self._view.known, request.name.class_name
        shown = request.place.items(answer.body) if isinstance(answer, Document) else []
        names = {self._view.name_of(class_name, one) for one in listed_items(class_name, shown or [])}
        fails = isinstance(answer, Broken | Refused) or shown is None or None in names
        changes = known.answered(request.name, ended, exists=request.name.plain in names, failed=fails)
        for name in names - {request.name, None}:
            if name is not None:
                changes += known.answered(name, ended, exists=True)
        says_so = isinstance(answer, Document | NotFound) and not fails
        beside = self._lacked_beside.get(class_name, {}).get(place_key(request.name), [])
        for one in beside if says_so and known.listings.are_partial(class_name) else ():
            lacked = known.get(one)
            if one.plain not in names and lacked is not None and lacked.missed and lacked.unread_since:
                changes += self._view.lacked(one, began, ended)
        return self._stream.apply(changes)

    def _expected_at(self, request: ObjectRequest) -> set[ObjectName]:
        """Return the objects that an answer shows if the broker has them.

        Objects in a listing that became known after the round began are expected in the next one.
        """
        if not request.place.is_listing:
            return {request.name}
        return self._listed_together.get(place_key(request.name), set())


class QueueOwners:
    """Asks for the owners of exclusive queues, which events report, and listings do not.

    Args:
        readers: the reader of each class.
        view: the known objects.
        stream: publishes what changes.
        plan: takes the requests.
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        view: BrokerView,
        stream: ObservationStream,
        plan: PollingPlan,
    ) -> None:
        self._readers = readers
        self._view = view
        self._stream = stream
        self._plan = plan
        self._asked: dict[tuple[ObjectName, int], tuple[int, int]] = {}  # how often, and when last

    def listed(self, item: Json, now: int) -> None:
        """Take a queue that a listing shows: its owner is asked for a few times."""
        if not isinstance(item, Mapping) or item.get("exclusive") is not True:
            return
        name = self._view.name_of("queue", item)
        queue = self._view.known.get(name) if name is not None else None
        if queue is None:
            return
        exclusive, owner = self._view.values(queue, "exclusive", "exclusiveOwner")
        asked = (queue.name, queue.first_seen)
        times, last = self._asked.get(asked, (0, now - _OWNER_PAUSE))
        wanted = exclusive is True and owner is None and times < _OWNER_ATTEMPTS
        if wanted and now >= last + _OWNER_PAUSE and self._plan.ask(OwnerRequest(queue.name)):
            self._asked[asked] = times + 1, now

    def retain(self, names: Container[ObjectName]) -> None:
        """Forget all other queues."""
        self._asked = {queue: asked for queue, asked in self._asked.items() if queue[0] in names}

    def take(self, request: OwnerRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        """Take the answer to a request that was sent at ``began`` and ended at ``ended`` (ns)."""
        self._plan.extra_read(request, spent_on(answer, began, ended), ended)
        queue = self._view.known.get(request.queue)
        if queue is None or not isinstance(answer, Document):
            return []
        reader = self._readers["queue"]
        owner = reader.property_of(answer.body, "exclusiveOwner")
        # The answer may be about an earlier queue of that name.
        if (
            owner is None
            or queue.first_seen > began
            or self._view.name_of("queue", answer.body) != request.queue
        ):
            return []
        return self._stream.apply(self._view.known.with_property(queue, "exclusiveOwner", owner))
