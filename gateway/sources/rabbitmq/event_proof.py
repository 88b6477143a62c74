"""The proof that the broker's events arrive, which an open connection and an empty queue do not give.

A plugin that is disabled and enabled again takes all bindings of its exchange with it, and leaves queue and
connection; a RabbitMQ 4 can take its event exchange for unbound, and publish nothing; a policy can let the
broker drop events. So a proof has four parts: the management API shows every binding of the queue, and no
policy that may have dropped events from it; an event arrived that was published since the last proof; and
nothing waited in the queue (`gateway.links.own_queue.WatchedQueue.watch`). Only the gateway binds its queue,
so a binding that is there was there all the time.

Where no other event comes, a binding with a key of its own is made and removed on the channel that consumes:
its event shows that events are published. Another channel would itself be opened, counted and reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from gateway.links.amqp_connection import LinkError, Trouble
from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.event_headers import plain_headers
from gateway.sources.rabbitmq.events import BINDING_CREATED, BINDING_DELETED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.management_api import (
    Answer,
    BindingsRequest,
    Document,
    ManagementRequest,
    NotFound,
    PoliciesRequest,
    Unavailable,
)
from gateway.sources.rabbitmq.object_names import OWN_QUEUES, PROOF_KEY, ObjectName
from gateway.sources.rabbitmq.own_queue_policies import (
    NONE,
    POLICY_EVENTS,
    PolicyChanges,
    QueuePolicies,
    policies_of,
)

PROOF_SECONDS = 5.0
"""Seconds between two proofs: a gap begins as much earlier than what interrupts the events, or twice that."""
SILENT_SECONDS = 3.0
"""Seconds to wait for the event of the queue's own binding, which a broker publishes within milliseconds."""
_LOOK_SECONDS: Final = 0.05
_LOOKS: Final = round(SILENT_SECONDS / _LOOK_SECONDS)
_BINDING_LOOKS: Final = 3
"""How often the bindings are asked for that seem to lack: another node of the cluster may show them late."""
_AGAIN_SECONDS: Final = 1.0

_REPORT_AGAIN: Final = 60 * SECOND
"""Nanoseconds between two reports that a policy may have dropped events: each has everything listed again."""

Ask: TypeAlias = Callable[[ManagementRequest], Awaitable[Answer | None]]
"""Sends a request to the management API; returns ``None`` if its path cannot be used."""


_UNREADABLE: Final = NotFound()


class EventsSilentError(LinkError):
    """The queue is bound, and nothing arrives in it."""


def lacking(keys: Collection[str], answer: Answer | None) -> frozenset[str] | None:
    """Return the keys by which a queue is not bound to the event exchange; ``None`` if nothing shows that.

    Args:
        keys: the routing keys by which it should be bound.
        answer: the management API's answer to the request for its bindings. Without any, where a proxy
            changes the path, the bindings are taken for those that were made.
    """
    if answer is None:
        return frozenset()
    if not isinstance(answer, Document) or not isinstance(answer.body, list):
        return None
    shown = {
        str(one.get("routing_key"))
        for one in answer.body
        if isinstance(one, Mapping) and one.get("source") == EVENT_EXCHANGE
    }
    return frozenset(keys) - shown


def is_proof(key: str, headers: Mapping[str, Json]) -> bool:
    """Return whether an event is about a binding by which a gateway proves that events arrive."""
    if key not in {BINDING_CREATED, BINDING_DELETED} or headers.get("routing_key") != PROOF_KEY:
        return False
    return str(headers.get("destination_name")).startswith(OWN_QUEUES)


@dataclass(slots=True)
class EventProof:
    """Proves again and again that the events of a queue arrive.

    Attributes:
        virtual_host: where the queue is.
        queue: its name.
        keys: the routing keys by which it is bound.
        max_length: the number of messages to which it is declared to be bounded.
        ask: asks the management API; ``None`` if that cannot be asked.
        now: returns the time of the gateway's clock (ns).
        lost: called when a policy may have dropped events, with the reason and the last time before (ns).
        until: the time (ns) until which every event was published to the queue, and not dropped from it; 0
            while nothing is proved.
        policies: what policies make of the queue.
        changes: what was changed of that since the last proof.
    """

    virtual_host: str
    queue: str
    keys: Collection[str]
    max_length: int
    ask: Ask | None
    now: Callable[[], int]
    lost: Callable[[str, int], None]
    until: int = 0
    policies: QueuePolicies = NONE
    changes: PolicyChanges = field(init=False)
    _arrived: int = 0
    _arrived_at: int = 0
    _arrived_before: int = 0
    _began_before: int = 0
    _answer: Answer | None = None
    _dropped: str = ""
    _reported_at: int = 0

    def __post_init__(self) -> None:
        self.changes = PolicyChanges(self.virtual_host, self.queue, self.max_length)

    def arrived(self, message: AbstractIncomingMessage) -> None:
        """Note a message that arrived; only the broker can publish to its event exchange."""
        if message.exchange == EVENT_EXCHANGE:
            self._arrived += 1
            self._arrived_at = self.now()
            if message.routing_key in POLICY_EVENTS:
                self.changes.take(message.routing_key, plain_headers(message.headers))

    async def lacks(self) -> frozenset[str]:
        """Return the keys by which the queue is not shown to be bound.

        Raises:
            LinkError: the management API does not answer now.
        """
        for look in range(_BINDING_LOOKS):
            await asyncio.sleep(_AGAIN_SECONDS if look else 0)
            lacks = await self._lacking()
            if lacks is not None and not lacks:
                return lacks
        if isinstance(self._answer, Unavailable):
            text = f"the management API does not show the bindings of the queue {self.queue}"
            raise LinkError(Trouble.UNREACHABLE, f"{text}, by which it has all events: {self._answer.reason}")
        return frozenset(self.keys) if lacks is None else lacks

    async def prove_again_and_again(self, queue: AbstractQueue) -> None:
        """Prove it every `PROOF_SECONDS`; never returns.

        Raises:
            LinkError: a binding is gone, or nothing arrives.
        """
        while True:
            await asyncio.sleep(PROOF_SECONDS)
            await self.prove(queue)

    async def prove(self, queue: AbstractQueue) -> None:
        """Prove it now, unless the management API does not answer: then `until` stays.

        Args:
            queue: the queue, which is consumed on its channel.

        Raises:
            LinkError: a binding is gone, or nothing arrives.
        """
        began = self.now()
        is_bound = await self._is_bound()
        is_known = await self.read_policies()
        can_ask = BINDING_CREATED in self.keys
        # Also while nothing is proved, because bindings or policies cannot be read.
        if can_ask and self._arrived_at <= self._began_before:
            await self._await_event(queue)
        self._began_before = began
        if is_bound and is_known:
            self._proved(min(began, self._arrived_at) if can_ask else began)

    def _proved(self, until: int) -> None:
        """Move `until` on, unless a policy may have dropped events: that is reported now or later."""
        received, self._arrived_before = self._arrived - self._arrived_before, self._arrived
        drops = bool(self.until) and self.policies.may_have_dropped(received, until - self.until)
        changed = self.changes.text if self.until else ""
        self._dropped = self._dropped or changed or (self.policies.text if drops else "")
        self.changes = PolicyChanges(self.virtual_host, self.queue, self.max_length)
        if self._dropped and (not drops or until - self._reported_at >= _REPORT_AGAIN):
            self.lost(self._dropped, self.until)
            self._dropped, self._reported_at = "", until
        if not self._dropped:
            self.until = until

    async def read_policies(self) -> bool:
        """Read what policies make of the queue; return whether the management API shows that."""
        if self.ask is None:
            return True
        answers = [await self.ask(PoliciesRequest(self.virtual_host, operator)) for operator in (False, True)]
        usual, operator = (_UNREADABLE if one is None else one for one in answers)
        found = policies_of(self.queue, self.max_length, usual, operator)
        self.policies = self.policies if found is None else found
        return found is not None

    async def _is_bound(self) -> bool:
        """Return whether all bindings are shown; false if the management API shows none or does not answer.

        Raises:
            LinkError: it does, and a binding is gone.
        """
        lacks = await self._lacking()
        if not lacks:
            return lacks is not None
        try:
            lacks = await self.lacks()
        except LinkError:
            return False
        if not lacks:
            return True
        raise LinkError(
            Trouble.BROKEN,
            f"{len(lacks)} of {len(self.keys)} bindings of the queue {self.queue} to {EVENT_EXCHANGE} were"
            " removed, as by disabling the plugin rabbitmq_event_exchange: it is bound again",
        )

    async def _lacking(self) -> frozenset[str] | None:
        if self.ask is None:
            return frozenset()
        request = BindingsRequest(ObjectName("queue", (self.virtual_host, self.queue)))
        self._answer = await self.ask(request)
        return lacking(self.keys, self._answer)

    async def _await_event(self, queue: AbstractQueue) -> None:
        """Make and remove a binding, and wait for an event.

        Raises:
            EventsSilentError: none arrives.
        """
        before = self._arrived
        await queue.bind(EVENT_EXCHANGE, PROOF_KEY)
        await queue.unbind(EVENT_EXCHANGE, PROOF_KEY)
        # Looks rather than one long wait: while the process stands still only one of them passes.
        for _ in range(_LOOKS):
            if self._arrived > before:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        if self._arrived == before:
            raise EventsSilentError(
                Trouble.BROKEN,
                f"{EVENT_EXCHANGE} is bound to the queue {self.queue}, and nothing arrives in it",
            )
