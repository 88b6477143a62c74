"""Consumes the broker's events, and reports when it cannot, or when some may have been lost."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.clock import Clock
from gateway.dialects.session import BacklogFollows, Binding, LinkDown, LinkUp, LossSuspected
from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    close_soon,
    cluster_name,
    ended,
    open_connection,
)
from gateway.links.durable_queue import (
    DurableQueue,
    DurableSubscription,
    Loss,
    UnacknowledgedDeliveries,
    durable_queue,
)
from gateway.links.own_queue import PREFETCH, Arrived, OwnQueue, Proofs, bind, messages_in
from gateway.links.reconnecting import NodeChoice, link_errors, reconnecting
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.event_proof import (
    SILENT_SECONDS,
    Ask,
    EventProof,
    EventsSilentError,
    is_published,
    proof_of,
)
from gateway.sources.rabbitmq.events import BINDING_CREATED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.object_names import OWN_QUEUES
from gateway.sources.rabbitmq.source_events import BrokerEventReceived, BrokerReached, EventsReceived
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

MAX_QUEUE_LENGTH = 100_000
"""Maximum length of the queue, by default; beyond it the broker drops the oldest event without a trace."""
SUSPECTED_SHARE = 0.5
"""The share of that from which on some may be lost: less than the other half is consumed between checks."""
WATCH_SECONDS = 2.0
"""Seconds between two checks how much waits in the queue."""
WATCHED_EVENTS = 2_000
"""Number of events after which the queue is checked before `WATCH_SECONDS` have passed."""
NOT_SHOWN_LIMIT = 30 * SECOND
"""Nanoseconds for which a kept queue waits for a management API that answers, and does not show it."""
SILENT: Final = (
    f"{EVENT_EXCHANGE} is bound, and the broker publishes nothing to it: disable and enable the plugin"
    " rabbitmq_event_exchange"
)
_LOOK_SECONDS = 0.02
_UNDERSTOOD_SECONDS = 0.05
"""Seconds between two checks whether events can be taken."""
_SAME_SECONDS = 1.0
"""Seconds between two checks whether the events are of the broker whose management API is read."""
_LOOKS = 3
"""How often the management API is asked for a queue that was just declared."""


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """The settings of a queue of events that is kept for the gateway's return.

    Attributes:
        subscription: the durable subscription of the queue.
        ready: whether events can be taken; until then they wait.
    """

    subscription: DurableSubscription
    ready: Callable[[], bool]


Received: TypeAlias = (
    BrokerReached | LinkUp | LinkDown | BacklogFollows | LossSuspected | BrokerEventReceived | EventsReceived
)
"""The reports of a consumer, which it passes on in order, on the event loop."""


class EventConsumer:
    """Keeps a queue bound to the broker's event exchange for as long as it runs.

    It uses one connection, which consumes only, and on it one exclusive, auto-delete, length-limited queue,
    or one that is kept. After a connection has ended, the next one goes to another node, if the endpoint has
    several: the node may have ended, too.

    Args:
        endpoint: the virtual host in which the broker declares its event exchange, ``/`` by default.
        keys: routing keys of the events wanted.
        receive: called with each report of `Received`.
        clock: the gateway's clock.
        kept: a queue that is kept, in place of one that ends with the connection.
        understood: whether events can be taken. Until they can they wait in the queue.
        clusters: the names of the cluster whose management API is read, as far as they are known. Events of
            another cluster are not taken.
        has_queue: asks that management API whether it has a queue, by virtual host and name. Nodes of one
            cluster may report different names; then a new queue shows whether they are of one broker.
        ask: asks that management API for bindings and policies; without it they are not proved.
        max_length: the largest number of events that wait, of a queue that is not kept.
    """

    def __init__(  # noqa: PLR0913  what events mean is known elsewhere
        self,
        endpoint: AmqpEndpoint,
        keys: Sequence[str],
        receive: Callable[[Received], None],
        clock: Clock,
        kept: KeptEvents | None = None,
        understood: Callable[[], bool] = lambda: True,
        clusters: Callable[[], Collection[str]] = tuple,
        has_queue: Callable[[str, str], Awaitable[bool]] | None = None,
        *,
        ask: Ask | None = None,
        max_length: int = MAX_QUEUE_LENGTH,
    ) -> None:
        self._nodes = NodeChoice(endpoint.nodes)
        self._keys = keys
        self._receive = receive
        self._clock = clock
        self._kept = kept
        self._understood = understood
        self._clusters = clusters
        self._has_queue = has_queue
        self._ask = ask
        self._proved: set[tuple[str, frozenset[str]]] = set()  # other names of one cluster
        self._reported_missing = ""  # what the kept queue missed, as reported; it was not consumed since
        self._had_no_exchange = False  # since the last connection; its bindings are gone with it
        self._not_shown_since = 0  # since when the API shows no bindings or policies (ns)
        self._was_silent = False  # the kept queue was bound, and nothing arrived
        self._reported: EventsReceived | None = None
        self._max_length = max_length if kept is None else kept.subscription.max_length
        self._failure: Exception | None = None
        self._failed = asyncio.Event()
        self._sooner = asyncio.Event()
        self._since_watch = 0
        suspected = int(max_length * SUSPECTED_SHARE)
        self._queue = OwnQueue(max_length, suspected, WATCH_SECONDS, PREFETCH, purpose="events")

    async def run(self) -> None:
        """Consume, reconnect with back-off and jitter; ends by cancellation only."""
        await reconnecting(self._run_once, self._down, self._sooner)

    def try_again(self) -> None:
        """End the pause between two connections, because something shows that the broker is back."""
        self._sooner.set()

    def bind_again(self, reason: str) -> None:
        """End the connection, and bind the queue again in the next one: something shows that events lack."""
        self._was_silent = True
        self._failure = EventsSilentError(Trouble.BROKEN, f"{self._endpoint}: {reason}")
        self._failed.set()

    def _down(self, error: LinkError) -> None:
        self._nodes.failed(self._endpoint)
        self._receive(LinkDown(str(error)))

    @property
    def _endpoint(self) -> AmqpEndpoint:
        return self._nodes.preferred

    async def _run_once(self) -> None:
        """Open one connection and consume until it ends.

        Raises:
            LinkError: always, at the end, with the reason why it ended, or why no events could be consumed.
        """
        self._failed.clear()
        with link_errors(self._endpoint, "events"):
            connection = await open_connection(self._endpoint, "amqp-gateway events")
            try:
                if self._understood():
                    await self._compare(connection)
                if self._kept is None:
                    await self._consume(connection)
                else:
                    with self._kept.subscription.counts.connection():
                        await self._consume_kept(connection, self._kept)
            finally:
                await close_soon(connection)

    async def _consume(self, connection: AbstractConnection) -> None:
        channel = await connection.channel(publisher_confirms=False)
        with self._exchange_missing():
            queue = await self._queue.declare(channel, self._bindings)
            proof = self._proof(queue.name)
            await self._check_arrival(channel, queue, proof)
        proof.until = now = self._clock.now()
        proof.drops.emptied_at = now  # it is new
        self._receive(LinkUp(""))
        watch = self._queue.watch(channel, queue.name, self._proofs(proof), [EVENT_EXCHANGE])

        async def consume(arrived: Arrived) -> None:
            while not self._understood():  # noqa: ASYNC110  of a source that knows no event loop
                await asyncio.sleep(_UNDERSTOOD_SECONDS)
            await self._compare(connection)
            await queue.consume(arrived)
            await until_one_ends(self._until_another(connection), proof.prove_again_and_again(queue))

        async def take(message: AbstractIncomingMessage) -> None:
            proof.arrived(message)
            await self._arrived(message)

        with self._exchange_missing(), self._queue.listening(take) as arrived:
            await until_one_ends(
                self._until_failed(), ended(channel), ended(connection), watch, consume(arrived)
            )

    def _is_same(self, connection: AbstractConnection) -> bool:
        found, names = cluster_name(connection), frozenset(self._clusters())
        return not found or not names or found in names or (found, names) in self._proved

    async def _compare(self, connection: AbstractConnection) -> None:
        """Compare the broker of a connection with the one whose management API is read.

        Raises:
            LinkError: they are two.
        """
        if self._is_same(connection):
            return
        found, names = cluster_name(connection), frozenset(self._clusters())
        if self._has_queue is None or not await self._shows_new_queue(connection, self._has_queue):
            raise LinkError(
                Trouble.BROKEN,
                f"{self._endpoint}: is another broker, cluster {found!r}, than the management API, cluster"
                f" {min(names)!r}: its events are not taken",
            )
        self._proved.add((found, names))

    async def _shows_new_queue(
        self, connection: AbstractConnection, has_queue: Callable[[str, str], Awaitable[bool]]
    ) -> bool:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(f"{OWN_QUEUES}same.{uuid.uuid4()}", exclusive=True)
        for _ in range(_LOOKS):
            if await has_queue(self._endpoint.vhost, queue.name):
                await queue.delete(if_unused=False, if_empty=False)
                await channel.close()
                return True
            await asyncio.sleep(_SAME_SECONDS)
        return False

    async def _until_another(self, connection: AbstractConnection) -> None:
        """Wait until the management API is that of another broker than a connection.

        Raises:
            LinkError: it is.
        """
        while True:
            if self._understood():
                await self._compare(connection)
            await asyncio.sleep(_SAME_SECONDS)

    async def _check_arrival(self, channel: AbstractChannel, queue: AbstractQueue, proof: EventProof) -> None:
        """Check that events arrive in the queue, which is bound and has no consumer yet.

        RabbitMQ 4 publishes events only while it regards its event exchange as bound. If the last binding of
        another consumer is removed while the first one of this queue is added, it can be wrong about that
        until all bindings are gone (observed with 4.0.5). Bindings cause events themselves, so silence shows
        this fault.

        Raises:
            LinkError: no event arrives.
        """
        can_ask = BINDING_CREATED in self._keys and len(self._keys) > 1
        if not can_ask or await _receives(channel, queue):
            return
        if await proof.read_policies() and proof.policies.lets_nothing_wait:
            raise LinkError(Trouble.MISCONFIGURED, f"{self._endpoint}: {proof.policies.text}")
        await self._bind_again(queue)
        if await _receives(channel, queue):
            return
        raise EventsSilentError(Trouble.BROKEN, f"{self._endpoint}: {SILENT}")

    async def _bind_again(self, queue: AbstractQueue) -> None:
        log.warning("events-silent", queue=queue.name)
        for binding in self._bindings(queue.name):
            await queue.unbind(binding.exchange, binding.routing_key)
        await bind(queue, self._bindings)

    def _proof(self, queue: str) -> EventProof:
        """Return the proof that events arrive in a queue."""

        def lost(reason: str, since: int) -> None:
            self._receive(LossSuspected(reason, since))

        place = (self._endpoint.vhost, queue)
        return EventProof(*place, self._keys, self._max_length, self._ask, self._clock.now, lost)

    async def _loss(
        self, queue: DurableQueue, waiting: int | None, proof: EventProof, channel: AbstractChannel
    ) -> tuple[Loss | None, str]:
        """Return why the kept queue lacks events, also for people; before anything is bound.

        Raises:
            LinkError: the management API does not answer now.
        """
        loss = queue.loss(waiting)
        if waiting is None:
            await proof.read_policies()  # for `_receives_events`
            return loss, queue.missed(loss, waiting)
        unbound = await self._unbound(proof, channel)
        if unbound:
            return Loss.UNBOUND, unbound
        if self._was_silent:
            return Loss.SILENT, queue.missed(Loss.SILENT, waiting)
        if loss is None and proof.policies.may_have_dropped_meanwhile(waiting):
            return Loss.DROPPED, proof.policies.text
        return loss, queue.missed(loss, waiting)

    async def _unbound(self, proof: EventProof, channel: AbstractChannel) -> str:
        """Return why the kept queue was not bound, or is not known to have been; empty if it was.

        Raises:
            LinkError: the management API does not show that now.
        """
        lacks = await proof.lacks() if not self._had_no_exchange else frozenset(self._keys)
        if proof.is_blind and not lacks:
            kept = await channel.get_queue(proof.queue, ensure=False)
            with self._exchange_missing():
                lacks = frozenset(() if await self._receives_events(kept, proof) else self._keys)
        if lacks:
            return f"the queue {proof.queue} was not bound any more, as after its plugin was disabled"
        if lacks is None or not await proof.read_policies():
            return self._not_shown(proof)
        self._not_shown_since = 0
        return ""

    async def _report_first(self, missed: str, subscription: DurableSubscription) -> None:
        """Report a loss before what removes its trace.

        A gateway that is killed in between would not know what was missed. While the queue cannot be used, no
        further report is made: each would have the source wait for what waited. The loss lasts until it is
        consumed.
        """
        if self._reported_missing:
            return
        self._reported_missing = missed
        self._receive(BacklogFollows(missed, 0))
        await subscription.ledger.committed(subscription.ledger.position)

    async def _receives_events(self, queue: AbstractQueue, proof: EventProof) -> bool:
        """Return whether events arrive in the kept queue, which is bound and has no consumer yet."""
        bound = proof.policies.max_length
        bound = self._max_length if bound is None else min(bound, self._max_length)
        return BINDING_CREATED not in self._keys or await is_published(queue, self._keys, bound)

    async def _receive_again(self, queue: AbstractQueue, proof: EventProof) -> None:
        """Bind the kept queue again, in which nothing arrives.

        Raises:
            LinkError: nothing arrives all the same.
        """
        self._was_silent = True
        await self._bind_again(queue)
        if await self._receives_events(queue, proof):
            return
        if await proof.read_policies() and proof.policies.lets_nothing_wait:
            raise LinkError(Trouble.MISCONFIGURED, f"{self._endpoint}: {proof.policies.text}")
        raise EventsSilentError(Trouble.BROKEN, f"{self._endpoint}: {SILENT}")

    def _not_shown(self, proof: EventProof) -> str:
        """Return that it is not known whether a queue was bound all the time, for people.

        Raises:
            LinkError: the management API has not answered for long, as that of a node that starts.
        """
        now = self._clock.now()
        self._not_shown_since = 0 if proof.is_unavailable else self._not_shown_since or now
        if proof.is_unavailable or now - self._not_shown_since < NOT_SHOWN_LIMIT:
            raise LinkError(Trouble.UNREACHABLE, f"{self._endpoint}: {proof.not_shown}")
        return proof.not_shown

    async def _consume_kept(self, connection: AbstractConnection, kept: KeptEvents) -> None:
        subscription = kept.subscription
        queue = durable_queue(subscription, WATCH_SECONDS)
        channel = await connection.channel(publisher_confirms=False)
        waiting, channel = await queue.look(connection, channel)
        self._receive(BrokerReached())  # what follows is asked of a management API that is not given up
        proof = self._proof(queue.name)
        loss, missed = await self._loss(queue, waiting, proof, channel)
        if loss in {Loss.MISSING, Loss.UNBOUND}:
            await self._report_first(missed, subscription)
        with self._exchange_missing():
            declared = await queue.declare(connection, channel, self._bindings, is_new=waiting is None)
            if not await self._receives_events(declared, proof):
                # From when on is not known: also what was kept before may lack events.
                loss, missed = Loss.SILENT, queue.missed(Loss.SILENT, waiting)
                await self._report_first(missed, subscription)
                await self._receive_again(declared, proof)
        deliveries = UnacknowledgedDeliveries(
            subscription.ledger,
            self._take,
            lambda: kept.ready() and self._is_same(connection),
            subscription.counts,
            queue.received,
        )

        async def take(message: AbstractIncomingMessage) -> None:
            proof.arrived(message)
            await deliveries.arrived(message)

        await queue.consume(self._endpoint, declared, take)
        if loss is not None:
            subscription.counts.losses[loss] += 1
        log.info("catching-up", role="events", queue=queue.name, waiting=waiting)
        # What waits in a queue whose node was down, or that was unbound, is from before: it lasts until now.
        is_old = bool(self._reported_missing) or loss in {Loss.DOWN, Loss.DROPPED}
        self._receive(BacklogFollows(missed or self._reported_missing, 0 if is_old else waiting or 0))
        self._reported_missing, self._had_no_exchange = "", False

        async def catch_up() -> None:
            began = self._clock.now()
            await queue.drained(channel)
            await deliveries.all_passed_on()
            proof.drops.emptied(began, self._clock.now())
            dropped = proof.judge_backlog()
            if dropped and loss is not Loss.DROPPED:
                subscription.counts.losses[Loss.DROPPED] += 1
                self._receive(BacklogFollows(dropped, 0))
            try:
                await proof.prove(declared)
                self._was_silent = False
                log.info("caught-up", role="events", queue=queue.name, repeated=deliveries.repeated)
                self._receive(LinkUp(""))
                await proof.prove_again_and_again(declared)
            except EventsSilentError:
                self._was_silent = True
                raise

        proofs = self._proofs(proof, lambda: deliveries.are_passed_on)
        with self._exchange_missing():
            await until_one_ends(
                self._until_failed(),
                ended(channel),
                ended(connection),
                queue.watch(channel, queue.name, proofs, [EVENT_EXCHANGE]),
                deliveries.acknowledge(),
                deliveries.release(),
                catch_up(),
                self._until_another(connection),
            )

    def _proofs(self, proof: EventProof, are_passed_on: Callable[[], bool] = lambda: True) -> Proofs:
        def received(asked: int) -> None:
            proof.drops.emptied(asked, self._clock.now())
            report = EventsReceived(min(asked, proof.until), proof.remark, proof.took)
            if are_passed_on() and (report.until or report.remark) and report != self._reported:
                self._reported = report
                self._receive(report)

        return Proofs(
            self._clock.now, received, lambda reason, since: self._receive(LossSuspected(reason, since))
        )

    def _bindings(self, _queue: str) -> list[Binding]:
        # The first one makes the others known: the broker publishes the event of each binding.
        keys = sorted(self._keys, key=lambda key: key != BINDING_CREATED)
        return [Binding(EVENT_EXCHANGE, key) for key in keys]

    @contextlib.contextmanager
    def _exchange_missing(self) -> Iterator[None]:
        try:
            yield
        except exceptions.ChannelNotFoundEntity as error:
            if EVENT_EXCHANGE not in str(error):
                raise
            self._had_no_exchange = True
            raise LinkError(
                Trouble.MISSING,
                f"{self._endpoint}: there is no exchange {EVENT_EXCHANGE} ({error}): enable the plugin"
                " rabbitmq_event_exchange, or name the virtual host that it is configured for",
            ) from error

    async def _arrived(self, message: AbstractIncomingMessage) -> None:
        if not self._take(message):
            return
        self._since_watch += 1
        if self._since_watch >= WATCHED_EVENTS:
            self._since_watch = 0
            self._queue.sooner.set()
        with contextlib.suppress(*FAILURES):  # the connection's end is noticed elsewhere
            await message.ack()

    def _take(self, message: AbstractIncomingMessage) -> bool:
        """Take in a message; return whether that succeeded. If not, the connection ends with the error."""
        try:
            self._pass_on(message)
        except Exception as error:  # noqa: BLE001  aio-pika would hide it, and the event would be lost
            self._failure = error
            self._failed.set()
            return False
        return True

    def _pass_on(self, message: AbstractIncomingMessage) -> None:
        # Anybody who may publish to the default exchange can put a message into this queue; only the
        # broker can publish to its event exchange.
        if message.exchange == EVENT_EXCHANGE:
            event = BrokerEventReceived.of_message(
                message.routing_key or "", message.headers, message.timestamp
            )
            if not proof_of(event.key, event.headers):
                self._receive(event)
        else:
            log.warning("foreign-event-refused", exchange=message.exchange)

    async def _until_failed(self) -> None:
        """Wait until an event could not be taken.

        Raises:
            Exception: the source's error.
        """
        await self._failed.wait()
        self._failed.clear()
        if self._failure is not None:
            raise self._failure


async def _receives(channel: AbstractChannel, queue: AbstractQueue) -> bool:
    """Return whether something arrives in a queue that has no consumer yet, within `SILENT_SECONDS`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SILENT_SECONDS):
            while not await messages_in(channel, queue.name):  # noqa: ASYNC110  a broker does not say when
                await asyncio.sleep(_LOOK_SECONDS)
            return True
    return False
