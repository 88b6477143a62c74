"""The management API of a simulated RabbitMQ: its answers are late, in pages, and sometimes missing."""

from __future__ import annotations

from collections.abc import Callable

from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.http_reader import LISTING_SECONDS
from gateway.sources.rabbitmq.management_api import (
    Answer,
    BeyondLastPage,
    Broken,
    Document,
    ListingRequest,
    ManagementRequest,
    NotFound,
    ObjectRequest,
    OverviewRequest,
    PermissionRequest,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from tests.simulation.half_open import Silence
from tests.simulation.pipes import Pipe
from tests.simulation.rabbitmq import RabbitMq
from tests.simulation.rabbitmq_documents import NODE
from tests.simulation.scheduler import Scheduler
from tests.simulation.truth import Thing

CONNECTION_LAG = 4_500 * MILLISECOND
"""The time after its opening for which a connection is in no listing."""

_REQUEST = (MILLISECOND, 100 * MILLISECOND)
"""The range of the transit time of a request and of its answer."""
_DEADLINE = 20 * SECOND
"""The deadline of a request, as in `gateway.sources.rabbitmq.http_reader.ManagementEndpoint`."""

_CACHED = frozenset({"queue", "exchange", "connection", "channel"})
"""The classes of which RabbitMQ caches its answers; all others are read for each answer."""


class ManagementApi:
    """The management API, which answers requests.

    Args:
        scheduler: time and chance.
        rabbitmq: the broker that it describes.

    Attributes:
        failing: returns the answer to every request while the API is in trouble.
    """

    def __init__(self, scheduler: Scheduler, rabbitmq: RabbitMq) -> None:
        self.failing: Callable[[], Answer | None] = lambda: None
        self._scheduler = scheduler
        self._rabbitmq = rabbitmq
        self._page_size = scheduler.random.choice((2, 500))
        self._cached_for = scheduler.random.choice((0, 3 * SECOND))
        self._cache: dict[str, tuple[int, int, list[dict[str, Json]]]] = {}

    def answer(self, request: ManagementRequest) -> Answer:
        """Return the answer to ``request`` now."""
        if not self._rabbitmq.up:
            return Unavailable("connection refused")
        return self.failing() or self._answer(request)

    def _answer(self, request: ManagementRequest) -> Answer:
        match request:
            case OverviewRequest():
                return Document({"cluster_name": "sim", "erlang_version": "25", "node": NODE})
            case ListingRequest():
                return self._page(request)
            case ObjectRequest():
                name = request.name
                thing = self._rabbitmq.things.get((name.class_name, *name.parts))
                return NotFound() if thing is None else Document(self._document(name.class_name, thing))
            case PermissionRequest(host):
                return self._permission(host)
        return Document([{"name": "administrator", "tags": ["administrator"]}])

    def _permission(self, host: str) -> Answer:
        if ("vhost", host) not in self._rabbitmq.things:
            return NotFound()
        if host in self._rabbitmq.forbidden:
            return Refused(login=False, reason="not authorised")
        return Document({"items": [{"vhost": host, "name": ""}], "page": 1, "page_count": 1})

    def _page(self, request: ListingRequest) -> Answer:
        items = self._listed(request.class_name)
        pages = max(1, -(-len(items) // self._page_size))
        if request.page > pages:
            return BeyondLastPage()
        first = (request.page - 1) * self._page_size
        part: list[Json] = [*items[first : first + self._page_size]]
        return Document({"items": part, "page": request.page, "page_count": pages})

    def _listed(self, class_name: str) -> list[dict[str, Json]]:
        now = self._scheduler.now
        process, time, items = self._cache.get(class_name, (0, 0, []))
        is_old = now - time >= self._cached_for or class_name not in _CACHED
        if process != self._rabbitmq.process or is_old:
            items = self.present(class_name)
            self._cache[class_name] = self._rabbitmq.process, now, items
        return items

    def present(self, class_name: str) -> list[dict[str, Json]]:
        """Return all readable documents of a class, with their present values."""
        now = self._scheduler.now
        return [
            self._document(class_name, thing)
            for (kind, *parts), thing in self._rabbitmq.things.items()
            if kind == class_name
            and not (kind in {"queue", "exchange", "binding"} and parts[0] in self._rabbitmq.forbidden)
            and not (kind in {"connection", "channel"} and now - thing.created < CONNECTION_LAG)
        ]

    def _document(self, class_name: str, thing: Thing) -> dict[str, Json]:
        document = dict(self._rabbitmq.documents[thing.serial])
        if class_name == "node":
            document |= {
                "os_pid": str(self._rabbitmq.process),
                "uptime": (self._scheduler.now - self._rabbitmq.started) // MILLISECOND,
                "mem_alarm": self._rabbitmq.alarm,
            }
        for element, path in (("messages", "messages"), ("messagesPublished", "publish")):
            value = thing.now(element) if element in thing.values else None
            if isinstance(value, int):
                reported: dict[str, Json] = {path: value, "messages_ready": value}
                document |= reported if path == "messages" else {"message_stats": {path: value}}
        if class_name == "policy":
            priority = thing.now("priority")
            document["priority"] = priority if isinstance(priority, int) else 0
        value = thing.now("messagesPublishedIn") if "messagesPublishedIn" in thing.values else None
        if isinstance(value, int):
            document["message_stats"] = {"publish_in": value}
        return document


class ManagementLink:
    """One process's connection to the management API: one request at a time, each with a deadline.

    Args:
        scheduler: time and chance.
        management: answers the requests that arrive.
    """

    def __init__(self, scheduler: Scheduler, management: ManagementApi) -> None:
        self._scheduler = scheduler
        self._management = management
        self._requests: Pipe[tuple[int, ManagementRequest]] = Pipe(scheduler, self._asked, _REQUEST)
        self._requests.owner = None
        self._answers: Pipe[tuple[int, Answer]] = Pipe(scheduler, self._answered, _REQUEST)
        self._number = 0
        self._take: Callable[[Answer], None] | None = None

    def ask(self, request: ManagementRequest, take: Callable[[Answer], None]) -> None:
        """Make ``request``; ``take`` is called with the answer, once. A failure is an answer, too."""
        self._number += 1
        number, self._take = self._number, take
        seconds = LISTING_SECONDS if isinstance(request, ListingRequest) else _DEADLINE / SECOND
        none = Unavailable(f"no answer within {seconds:.2g} s", late=True)
        self._requests.put((number, request))
        self._scheduler.after(int(seconds * SECOND), lambda: self._answered((number, none)))

    def fall_silent(self, silence: Silence) -> None:
        """Make the connection half-open for a while."""
        silence.falls([self._requests], [self._answers], self._cut)

    def _asked(self, asked: tuple[int, ManagementRequest]) -> None:
        number, request = asked
        self._answers.put((number, self._management.answer(request)))

    def _answered(self, answered: tuple[int, Answer]) -> None:
        number, answer = answered
        if number == self._number and self._take is not None:
            take, self._take = self._take, None
            take(answer)

    def _cut(self) -> None:
        """Discard all that is in transit; the next connection is a new one."""
        for pipe in (self._requests, self._answers):
            pipe.cut()
            pipe.resume()


def broken() -> Answer:
    """Return the answer of a broker in trouble."""
    return Broken("status 500: internal error")


def unavailable() -> Answer:
    """Return the answer of a proxy in front of the broker."""
    return Unavailable("status 503")


def _named(name: ObjectName) -> dict[str, Json]:
    host, leaf = name.parts if len(name.parts) > 1 else ("", name.leaf)
    return {"vhost": host, "name": leaf}
