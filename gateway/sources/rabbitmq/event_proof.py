"""The proof that the broker's events arrive, which an open connection and an empty queue do not give.

A plugin that is disabled and enabled again takes all bindings of its exchange with it, and leaves queue and
connection; a RabbitMQ 4 can take its event exchange for unbound, and publish nothing; a policy can let the
broker drop events. So a proof has four parts: the management API shows every binding of the queue; it names
the policies that reach the queue, and none may have dropped events from it; an event arrived that was
published after the last proof, as it came after the queue was seen empty; and nothing waited in the queue
(`gateway.links.own_queue.WatchedQueue.watch`). Only the gateway binds its queue, so a binding that is there
was there all the time. All this is of the node to which the gateway is connected: that another node of the
cluster publishes is not shown.

Where no other event comes, a binding of its own is made and removed on the channel that consumes: its event
shows that events are published. It has another key than that event, which so arrives by the binding of before
alone. Another channel would itself be opened, counted and reported.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from gateway.links.amqp_connection import LinkError, Trouble
from gateway.links.own_queue import messages_in, taken
from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.event_headers import plain_headers, readable_headers
from gateway.sources.rabbitmq.events import BINDING_CREATED, BINDING_DELETED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.management_api import (
    Answer,
    BindingsRequest,
    Document,
    ManagementRequest,
    NotFound,
    PoliciesRequest,
    QueuePoliciesRequest,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.object_names import OWN_QUEUES, PROOF, ObjectName
from gateway.sources.rabbitmq.own_queue_policies import (
    NONE,
    POLICY_EVENTS,
    PossibleDrops,
    QueuePolicies,
    candidates_of,
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


_READ: Final = POLICY_EVENTS | {BINDING_CREATED}
_UNPROVEN: Final = 4
"""The number of proofs in a row that fail because something is not shown, from which on this is reported."""


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
        if isinstance(one, Mapping) and one.get("source") == EVENT_EXCHANGE and not _is_of_proof(one)
    }
    return frozenset(keys) - shown


def _is_of_proof(binding: Mapping[str, Json]) -> bool:
    """Return whether a binding is that of a proof, as one that a killed gateway left behind."""
    arguments = binding.get("arguments")
    return isinstance(arguments, Mapping) and PROOF in arguments


def _key_of_proof(keys: Collection[str]) -> str:
    """Return the key of the binding of a proof: not that by which its event arrives, if there is another."""
    return min({*keys} - {BINDING_CREATED}, default=BINDING_CREATED)


def proof_of(key: str, headers: Mapping[str, Json]) -> str:
    """Return the token of a binding by which a gateway proves that events arrive; empty for another event."""
    if key not in {BINDING_CREATED, BINDING_DELETED} or not headers.get("arguments"):
        return ""
    arguments = readable_headers({"arguments": headers["arguments"]})["arguments"]
    token = arguments.get(PROOF) if isinstance(arguments, Mapping) else None
    is_own = str(headers.get("destination_name")).startswith(OWN_QUEUES)
    return token if is_own and isinstance(token, str) else ""


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
        is_unavailable: whether the management API did not answer when the last question showed nothing.
        is_blind: whether the bindings could not be asked for, because a proxy changes the path.
        took: nanoseconds that the last proof took.
        drops: whether these may have let the broker drop events.
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
    is_unavailable: bool = False
    is_blind: bool = False
    took: int = 0
    drops: PossibleDrops = field(init=False)
    _published: int = 0
    _arrivals: int = 0
    _awaited: str = ""
    _began_before: int = 0
    _unproven: int = 0
    _not_shown: str = ""
    _dropped: str = ""
    _reported_at: int = 0

    def __post_init__(self) -> None:
        self.drops = PossibleDrops(self.virtual_host, self.queue, self.max_length)

    @property
    def remark(self) -> str:
        """A remark for people: by what events may be lost, or why that is not known; empty for nothing."""
        unproven = self._not_shown if self._unproven >= _UNPROVEN else ""
        return self.policies.text or unproven

    @property
    def not_shown(self) -> str:
        """Why the last question whose answer showed nothing did so."""
        return self._not_shown

    def arrived(self, message: AbstractIncomingMessage) -> None:
        """Note a message that arrived; only the broker can publish to its event exchange."""
        if message.exchange != EVENT_EXCHANGE:
            return
        self._arrivals += 1
        key = message.routing_key or ""
        headers = plain_headers(message.headers) if key in _READ else {}
        # All that was published before the queue was seen empty had arrived then.
        self._published = max(self._published, self.drops.emptied_at)
        if self._awaited and proof_of(key, headers) == self._awaited:
            self._awaited = ""
        self.drops.arrived(key, headers)

    async def lacks(self) -> frozenset[str] | None:
        """Return the keys by which the queue is not bound; ``None`` if that is not shown."""
        lacks = await self._lacking()
        for _ in range(_BINDING_LOOKS - 1):
            if lacks is not None and not lacks:
                break
            await asyncio.sleep(_AGAIN_SECONDS)
            lacks = await self._lacking()
        return lacks

    async def prove_again_and_again(self, queue: AbstractQueue) -> None:
        """Prove it every `PROOF_SECONDS`; never returns.

        Raises:
            LinkError: a binding is gone, or nothing arrives.
        """
        while True:
            await asyncio.sleep(PROOF_SECONDS)
            await self.prove(queue)

    async def prove(self, queue: AbstractQueue) -> None:
        """Prove it now, unless the management API does not show that: then `until` stays.

        Args:
            queue: the queue, which is consumed on its channel.

        Raises:
            LinkError: a binding is gone, or nothing arrives.
        """
        began = self.now()
        # Together: the next proof must come before this one is too old, also if answers take long.
        is_known, lacks = await asyncio.gather(self.read_policies(), self._lacking())
        is_bound = await self._is_bound(lacks)
        can_ask = BINDING_CREATED in self.keys
        # Also while nothing is proved, because bindings or policies cannot be read.
        if can_ask and self._published <= self._began_before:
            await self._await_event(queue)
        self._began_before = began
        self._unproven = 0 if is_bound and is_known else self._unproven + 1
        self.took = self.now() - began
        if is_bound and is_known:
            self._proved(min(began, self._published) if can_ask else began)

    def _proved(self, until: int) -> None:
        """Move `until` on, unless a policy may have dropped events: that is reported now or later."""
        drops = self.drops.found(self.policies)
        self._dropped = self._dropped or drops
        if self._dropped and (not drops or until - self._reported_at >= _REPORT_AGAIN):
            self.lost(self._dropped, self.until)
            self._dropped, self._reported_at = "", until
        if not self._dropped:
            # What was received since the queue was seen empty is judged with the next proof.
            self.until = max(self.until, min(until, self.drops.emptied_at))

    def judge_backlog(self) -> str:
        """Return why a policy may have dropped some of what waited, all of which has arrived; or nothing."""
        return self.drops.found(self.policies)

    async def read_policies(self) -> bool:
        """Read what policies make of the queue; return whether the management API shows that."""
        answer = None if self.ask is None else await self.ask(QueuePoliciesRequest(self._name))
        # Where a proxy changes the path it cannot be asked for.
        found = NONE if answer is None else policies_of(self.queue, self.max_length, answer)
        # A login that is refused again and again may lock the user out.
        is_refused = isinstance(answer, Refused) and answer.login
        if found is None and not isinstance(answer, Unavailable) and not is_refused:
            found, answer = await self._candidates()
        if found is None:
            self._note_not_shown(answer, "what policies reach the queue")
            return False
        self.policies = found
        return True

    async def _candidates(self) -> tuple[QueuePolicies | None, Answer | None]:
        """Return the policies that may reach the queue, and an answer that shows why they are not known."""
        if self.ask is None:
            return NONE, None
        usual, operator = [
            await self.ask(PoliciesRequest(self.virtual_host, operator)) or NotFound()
            for operator in (False, True)
        ]
        found = candidates_of(self.queue, self.max_length, usual, operator)
        return found, operator if isinstance(usual, Document) else usual

    @property
    def _name(self) -> ObjectName:
        return ObjectName("queue", (self.virtual_host, self.queue))

    def _note_not_shown(self, answer: Answer | None, what: str) -> None:
        reason = getattr(answer, "reason", "its answer has none (404)")
        self.is_unavailable = isinstance(answer, Unavailable)
        self._not_shown = (
            f"that all events arrive is not proven: the management API does not show {what} {self.queue}:"
            f" {reason}"
        )

    async def _is_bound(self, lacks: frozenset[str] | None) -> bool:
        """Return whether all bindings are shown; false if the management API does not show that.

        Args:
            lacks: those that it did not show; it is asked again for them.

        Raises:
            LinkError: a binding is gone.
        """
        if lacks:
            lacks = await self.lacks()
        if not lacks:
            return lacks is not None
        raise LinkError(
            Trouble.BROKEN,
            f"{len(lacks)} of {len(self.keys)} bindings of the queue {self.queue} to {EVENT_EXCHANGE} were"
            " removed, as by disabling the plugin rabbitmq_event_exchange: it is bound again",
        )

    async def _lacking(self) -> frozenset[str] | None:
        answer = None if self.ask is None else await self.ask(BindingsRequest(self._name))
        self.is_blind = answer is None
        lacks = lacking(self.keys, answer)
        if lacks is None:
            self._note_not_shown(answer, "the bindings of the queue")
        return lacks

    async def _await_event(self, queue: AbstractQueue) -> None:
        """Make and remove a binding, and wait for its event.

        Raises:
            EventsSilentError: none arrives, and none waits: those would be under way, behind what is not
                acknowledged yet.
        """
        token, began, arrivals = secrets.token_hex(4), self.now(), self._arrivals
        self._awaited = token
        await bind_and_unbind(queue, self.keys, token)
        # Looks rather than one long wait: while the process stands still only one of them passes.
        for _ in range(_LOOKS):
            if not self._awaited:
                self._published = max(self._published, began)
                return
            await asyncio.sleep(_LOOK_SECONDS)
        waiting = await messages_in(queue.channel, queue.name)
        await taken()
        if not waiting and self._arrivals == arrivals:
            raise EventsSilentError(
                Trouble.BROKEN,
                f"{EVENT_EXCHANGE} is bound to the queue {self.queue}, and nothing arrives in it",
            )


async def bind_and_unbind(queue: AbstractQueue, keys: Collection[str], token: str) -> None:
    """Make and remove a binding of a queue with such keys; it has the events of that, if any arrive."""
    key = _key_of_proof(keys)
    await queue.bind(EVENT_EXCHANGE, key, arguments={PROOF: token})
    await queue.unbind(EVENT_EXCHANGE, key, arguments={PROOF: token})


async def is_published(queue: AbstractQueue, keys: Collection[str], max_length: int) -> bool:
    """Return whether an event of its own is published to a queue that this gateway does not consume yet.

    In one that is full an event takes the place of another, and from one that another process consumes it is
    taken: both show nothing. Then the result is true.
    """
    waiting, consumers = await _depth_of(queue)
    if consumers or waiting >= max_length:
        return True
    await bind_and_unbind(queue, keys, secrets.token_hex(4))
    lowest = waiting
    for _ in range(_LOOKS):
        waiting, consumers = await _depth_of(queue)
        if consumers or waiting > lowest:
            return True
        lowest = min(lowest, waiting)  # as messages expire
        await asyncio.sleep(_LOOK_SECONDS)
    return False


async def _depth_of(queue: AbstractQueue) -> tuple[int, int]:
    """Return how many messages wait in a queue, and how many consumers it has."""
    declared = (await queue.channel.declare_queue(queue.name, passive=True)).declaration_result
    return declared.message_count or 0, declared.consumer_count or 0
