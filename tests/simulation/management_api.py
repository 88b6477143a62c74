"""What the management API of a simulated RabbitMQ says: late, in pages, and not always."""

from __future__ import annotations

from collections.abc import Callable

from gateway.agents.rabbitmq.management_api import (
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
from gateway.mapping.paths import Json
from tests.simulation.rabbitmq import RabbitMq
from tests.simulation.scheduler import MILLISECOND, SECOND, Scheduler
from tests.simulation.truth import Thing

CONNECTION_LAG = 4_500 * MILLISECOND
"""So long after its opening a connection is in no listing."""

_CACHED = frozenset({"queue", "exchange", "connection", "channel"})
"""Of which RabbitMQ keeps what it answered; all else is read for each answer."""


class ManagementApi:
    """Answers requests.

    Args:
        scheduler: time and chance.
        rabbitmq: what it tells of.

    Attributes:
        failing: what it answers to everything while it is in trouble.
    """

    def __init__(self, scheduler: Scheduler, rabbitmq: RabbitMq) -> None:
        self.failing: Callable[[], Answer | None] = lambda: None
        self._scheduler = scheduler
        self._rabbitmq = rabbitmq
        self._page_size = scheduler.random.choice((2, 500))
        self._cached_for = scheduler.random.choice((0, 3 * SECOND))
        self._cache: dict[str, tuple[int, int, list[dict[str, Json]]]] = {}

    def answer(self, request: ManagementRequest) -> Answer:
        """What comes of ``request`` now."""
        if not self._rabbitmq.up:
            return Unavailable("connection refused")
        return self.failing() or self._answer(request)

    def _answer(self, request: ManagementRequest) -> Answer:
        match request:
            case OverviewRequest():
                return Document({"cluster_name": "sim", "erlang_version": "25"})
            case ListingRequest():
                return self._page(request)
            case ObjectRequest():
                found = (request.name.class_name, *request.name.parts) in self._rabbitmq.things
                return Document({}) if found else NotFound()
            case PermissionRequest(host):
                return self._permission(host)
        return Document([{"name": "administrator", "tags": ["administrator"]}])

    def _permission(self, host: str) -> Answer:
        if ("vhost", host) not in self._rabbitmq.things:
            return NotFound()
        if host in self._rabbitmq.forbidden:
            return Refused(login=False, reason="not authorised")
        return Document({"items": []})

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
        """All that may be read of a class, as it is now."""
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
                told: dict[str, Json] = {path: value, "messages_ready": value}
                document |= told if path == "messages" else {"message_stats": {path: value}}
        if class_name == "policy":
            priority = thing.now("priority")
            document["priority"] = priority if isinstance(priority, int) else 0
        value = thing.now("messagesPublishedIn") if "messagesPublishedIn" in thing.values else None
        if isinstance(value, int):
            document["message_stats"] = {"publish_in": value}
        return document


def broken() -> Answer:
    """What a broker in trouble answers."""
    return Broken("status 500: internal error")


def unavailable() -> Answer:
    """What a proxy before it answers."""
    return Unavailable("status 503")
