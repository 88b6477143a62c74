"""Changes of a simulated RabbitMQ through its management API: late, not at all, or without an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote

from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import Broken, Document, NotFound, Refused, Unavailable
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    ChangeAnswer,
    Changed,
    Lookup,
    NotSent,
    Purge,
    PurgeAnswer,
    Purged,
    Unanswered,
)
from tests.simulation.ledger import Key, key_of, mark_in
from tests.simulation.management_api import ManagementApi
from tests.simulation.processes import RUNNING
from tests.simulation.rabbitmq import RabbitMq
from tests.simulation.site import Stage
from tests.simulation.truth import Thing

_QUICK = (1 * MILLISECOND, 200 * MILLISECOND)
_SLOW = (1 * SECOND, 30 * SECOND)
_PATIENCE = 10 * SECOND
"""The longest time to wait for an answer, as in `HttpWriter`."""

WRITER = "operator"
"""The user who changes the broker for the gateway."""

_SINGULAR = {
    "queues": "queue",
    "exchanges": "exchange",
    "connections": "connection",
    "nodes": "node",
    "policies": "policy",
}

Answered = Callable[[BrokerAnswer], None]


class ManagementChanges:
    """The requests of calls; each is made once.

    Args:
        stage: time and chance, and the ledger of operations.
        rabbitmq: the broker that is changed.
        management: the API that is read.

    Attributes:
        slow: whether requests take long.
        mute: whether some requests are carried out and not answered.
        management: the API that is read.
    """

    def __init__(self, stage: Stage, rabbitmq: RabbitMq, management: ManagementApi) -> None:
        self.slow = False
        self.mute = False
        self._stage = stage
        self._scheduler = stage.scheduler
        self._rabbitmq = rabbitmq
        self.management = management
        stage.ledger.is_empty = self._is_empty

    def _is_empty(self, queue: str) -> bool:
        """Return whether a queue has been empty in the last minute; one without values may be."""
        thing = self._rabbitmq.things.get(("queue", *queue.split("|")))
        shown = None if thing is None else thing.values.get("messages")
        now = self._scheduler.now
        return (
            shown is None or shown.held(0, now - 60 * SECOND, now) or shown.held(None, now - 60 * SECOND, now)
        )

    def make(self, request: BrokerRequest, answered: Answered) -> None:
        """Make a request; a failure is an answer, too. The process that asked may be gone by then."""
        is_open = True
        asking = RUNNING.get()

        def answer(what: BrokerAnswer) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                answered(what)

        def arrived() -> None:
            if not is_open and isinstance(request, Lookup):
                return
            what = self._arrived(request)
            if not (self.mute and self._scheduler.random.random() < 0.5):
                delay = self._delay()
                self._scheduler.after_in(
                    asking, delay, lambda: answer(self._broken_off(request, process, what))
                )

        process = self._rabbitmq.process if self._rabbitmq.up else 0
        if not process:
            reason = "connection refused"
            is_change = not isinstance(request, Lookup)
            what: BrokerAnswer = NotSent(reason) if is_change else Unavailable(reason)
            self._scheduler.after(MILLISECOND, lambda: answer(what))
            return
        self._scheduler.after_in(None, self._delay(), arrived)
        reason = "no answer within 10 s"
        none: BrokerAnswer = Unavailable(reason) if isinstance(request, Lookup) else Unanswered(reason)
        self._scheduler.after(_PATIENCE, lambda: answer(none))

    def _broken_off(self, request: BrokerRequest, process: int, what: BrokerAnswer) -> BrokerAnswer:
        """Return the answer, or a failure if the broker ended meanwhile."""
        if self._rabbitmq.up and self._rabbitmq.process == process:
            return what
        reason = "the connection was reset"
        return Unavailable(reason) if isinstance(request, Lookup) else Unanswered(reason)

    def _delay(self) -> int:
        return self._scheduler.between(*(_SLOW if self.slow else _QUICK))

    def _arrived(self, request: BrokerRequest) -> BrokerAnswer:
        """Carry out a request and return the broker's answer."""
        if not self._rabbitmq.up:
            return Unavailable("connection reset")
        trouble = self.management.failing()
        if isinstance(request, Lookup):
            return trouble or self._found(request)
        if isinstance(trouble, Broken):
            return Unanswered(trouble.reason)
        if trouble is not None:
            return Unanswered("status 503")
        if isinstance(request, Purge):
            queue = "queue", request.virtual_host, request.queue
            return self._purge(self._rabbitmq.things.get(queue), self._scheduler.random.randrange(-1, 3))
        return self._changed(request)

    # ---- what is read ---------------------------------------------------------------------------------

    def _found(self, request: Lookup) -> BrokerAnswer:
        path = request.target.partition("?")[0]
        collection, *parts = [unquote(part) for part in path.split("/")]
        if collection == "vhost-limits":
            return Document(
                [
                    {"vhost": host, "value": {"max-connections": limit}}
                    for host, limit in self._rabbitmq.limits.items()
                ]
            )
        if not parts:
            return Document([*self.management.present(_SINGULAR.get(collection, "vhost"))])
        if collection == "policies" and len(parts) == 1:
            return Document([one for one in self.management.present("policy") if one["vhost"] == parts[0]])
        class_name = _SINGULAR[collection]
        for document in self.management.present(class_name):
            names = [document[part] for part in ("vhost", "name") if part in document][-len(parts) :]
            if names == parts:
                return Document(document)
        if class_name in {"queue", "exchange"} and parts[0] in self._rabbitmq.forbidden:
            return Refused(login=False, reason="not authorised")
        return NotFound()

    # ---- what is changed ------------------------------------------------------------------------------

    def _changed(self, change: Change) -> ChangeAnswer:
        path, _, _ = change.target.partition("?")
        collection, *parts = [unquote(part) for part in path.split("/")]
        match change.method, collection, parts:
            case "PUT", "vhost-limits", [host, "max-connections"]:
                return self._limit(host, change.body or {})
            case "PUT", "policies", [host, name]:
                return self._priority(host, name, change.body or {})
            case "DELETE", "connections", [name]:
                thing = self._rabbitmq.things.get(("connection", name))
                key = mark_in({"reason": change.reason}) or ""
                return self._end(thing, key)
            case "DELETE", "queues", [host, name]:
                return self._delete(self._rabbitmq.things.get(("queue", host, name)))
        raise AssertionError(change)

    def _limit(self, host: str, body: Mapping[str, Json]) -> ChangeAnswer:
        limit = body["value"]
        assert isinstance(limit, int)
        if not self._rabbitmq.set_limit(host, limit):
            return NotFound()
        thing = self._rabbitmq.things["vhost", host]
        self._stage.ledger.carried_out(limit, thing.values["maxConnections"])
        return Changed()

    def _priority(self, host: str, name: str, body: Mapping[str, Json]) -> ChangeAnswer:
        priority, policy = body["priority"], self._rabbitmq.things.get(("policy", host, name))
        assert isinstance(priority, int)
        if policy is None:
            return NotFound()
        self._rabbitmq.set_priority(policy, priority)
        self._stage.ledger.carried_out(priority, policy.values["priority"])
        return Changed()

    def _end(self, thing: Thing | None, key: Key) -> ChangeAnswer:
        if thing is None:
            return NotFound()
        self._rabbitmq.end(thing, by=WRITER)
        self._stage.ledger.carried_out(key)
        return Changed()

    def _purge(self, thing: Thing | None, messages: int) -> PurgeAnswer:
        """Purge a queue; ``messages`` is the number that the broker reports, less than 0 for none."""
        if thing is None:
            return NotFound()
        if str(thing.name).split("|")[0] in self._rabbitmq.forbidden:
            return Refused(login=False, reason="not authorised")
        self._rabbitmq.purge(thing)
        self._stage.ledger.carried_out(key_of(thing.class_name, thing.name, "purge", {}))
        return Purged(messages) if messages >= 0 else Changed()

    def _delete(self, thing: Thing | None) -> ChangeAnswer:
        if thing is not None and str(thing.name).split("|")[0] in self._rabbitmq.forbidden:
            return Refused(login=False, reason="not authorised")
        return self._end(thing, key_of(thing.class_name, thing.name, "delete", {}) if thing else "")
