"""A session's link to a broker: one connection that only consumes, one that only publishes.

Two connections because a broker under a memory alarm stops reading from whoever publishes: a connection
that did both received 10 of 30 messages then, a separate one all 30. Everything declared is one exclusive,
auto-delete, length-limited queue, so a gateway that dies leaves nothing behind; or, where it is asked for,
one that is kept for its return.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import aio_pika
import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

from gateway.clock import Clock
from gateway.dialects.session import BacklogFollows, Binding, Delivery, LinkDown, LinkUp, LossSuspected, Send
from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    abilities,
    close_soon,
    ended,
    is_blocked,
    open_connection,
)
from gateway.links.binding_probe import BindingProbe
from gateway.links.durable_queue import DurableSubscription, Loss, UnacknowledgedDeliveries, kept_queue
from gateway.links.election import Election
from gateway.links.own_queue import OwnQueue, WatchedQueue
from gateway.links.publishing import HttpFallback, Publisher
from gateway.links.reconnecting import NodeChoice, link_errors, reconnecting
from gateway.links.session_driver import MessageDriver
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

WATCH_SECONDS = 5.0
REMEMBERED_MESSAGES = 10_000
"""Messages received lately, by which one that is sent again is known."""
_DOUBTFUL_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class AmqpRole:
    """What a link is for.

    Attributes:
        name: part of the queue's name, ``amqp-gateway.<name>.<uuid>``.
        bindings: of its queue, whose name they are given: replies may be addressed to it.
        declare: topic exchanges to declare, durable, if they are missing (the manager's role).
        probed: an exchange among those bound to, and to which it may publish: a binding that is lost there is
            noticed (`BindingProbe`).
        max_queue_length: messages; the broker drops the oldest beyond it, which `AmqpLink` watches for.
        durable: consume this durable queue, in place of one that goes with the connection. The session takes
            `BacklogFollows` then.
        election: to be won before anything is declared or bound; ``None`` where no other plays the role.
    """

    name: str
    bindings: Callable[[str], Sequence[Binding]]
    declare: Sequence[str] = ()
    probed: str = ""
    max_queue_length: int = 20_000
    durable: DurableSubscription | None = None
    election: Election | None = None


class AmqpLink:
    """Keeps a session connected to a broker for as long as it runs.

    Args:
        endpoint: of the broker. After each end the next connection goes to another of several nodes:
            what ended the connection may have ended its node.
        role: what to declare and bind.
        driver: of the session: it is given what happens to the link, and holds what the session wants sent.
        clock: the gateway's.
        watch_seconds: between two looks at queue and exchanges.
        detour: what messages take while the broker takes none over AMQP.
        on_unsent: told, when the link has gone down and before the session hears of it, which messages were
            not sent for certain.
    """

    def __init__(
        self,
        endpoint: AmqpEndpoint,
        role: AmqpRole,
        driver: MessageDriver,
        clock: Clock,
        *,
        watch_seconds: float = WATCH_SECONDS,
        detour: HttpFallback | None = None,
        on_unsent: Callable[[Sequence[Send]], None] = lambda _: None,
    ) -> None:
        self._nodes = NodeChoice(endpoint.nodes)
        self._role = role
        self._driver = driver
        self._clock = clock
        self._queue = OwnQueue(
            role.max_queue_length,
            int(role.max_queue_length * _DOUBTFUL_SHARE),
            watch_seconds,
            purpose=role.name,
        )
        self._probe = self._new_probe()
        self._probed_queue = ""
        self._detour = detour
        self._on_unsent = on_unsent
        self._received: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._missing_told = False  # that the kept queue is; it could not be made since

    @property
    def _endpoint(self) -> AmqpEndpoint:
        """The node in use, or to be tried next."""
        return self._nodes.preferred

    def _new_probe(self) -> BindingProbe:
        return BindingProbe(self._endpoint, self._role.probed, self._queue.watch_seconds)

    async def run(self) -> None:
        """Connect, carry messages, reconnect with back-off and jitter; ends by cancellation only."""
        await reconnecting(self.run_once, self._down)

    async def run_once(self) -> None:
        """One connection from its opening to its end.

        Raises:
            LinkError: always, in the end: says what ended it.
        """
        name = f"amqp-gateway {self._role.name}"
        publisher = Publisher(
            self._endpoint,
            f"{name} publish",
            self._driver,
            self._clock,
            self._detour,
            self._takes_messages,
        )
        consuming: AbstractConnection | None = None
        try:
            with link_errors(self._endpoint, self._role.name):
                consuming = await open_connection(self._endpoint, f"{name} consume")
                if self._role.election is not None:
                    await self._role.election.won(consuming)
                await publisher.open()
                await self._converse(consuming, publisher)
        finally:
            unsent, _ = await asyncio.gather(publisher.close(), close_soon(consuming))
            self._forget([*unsent, *self._driver.forget_sends()], "the connection to the broker ended")

    def _forget(self, sends: Sequence[Send], reason: str) -> None:
        """These will not be sent by us."""
        self._driver.unsent(sends, reason)
        self._on_unsent(sends)

    async def _converse(self, consuming: AbstractConnection, publisher: Publisher) -> None:
        incoming = await consuming.channel(publisher_confirms=False)
        for exchange in self._role.declare:
            await incoming.declare_exchange(exchange, aio_pika.ExchangeType.TOPIC, durable=True)
        able = abilities(consuming)
        if self._role.durable is not None:
            if not able.extended:
                text = "a durable subscription needs a broker that bounds queues and expires them"
                raise LinkError(Trouble.MISCONFIGURED, f"{self._endpoint}: {text}: remove 'durable'")
            with self._role.durable.counts.connection():
                await self._converse_durably(self._role.durable, consuming, incoming, publisher)
            return
        queue = await self._queue.declare(incoming, self._bindings, extended=able.extended)
        self._forget(self._driver.forget_sends(), "there was no connection to the broker")
        with self._queue.listening(self._arrived) as arrived:
            await queue.consume(arrived, no_ack=not able.extended)
            self._up(queue.name)
            await self._while_up(consuming, incoming, publisher, self._queue, queue.name)

    async def _converse_durably(
        self,
        subscription: DurableSubscription,
        consuming: AbstractConnection,
        incoming: AbstractChannel,
        publisher: Publisher,
    ) -> None:
        """Over a queue that is kept: first what waited in it, then the greeting, with its answers behind it.

        One queue for both, or what agents push and what they answer could overtake each other.
        """
        ledger, counts = subscription.ledger, subscription.counts
        queue = kept_queue(subscription, self._queue.watch_seconds)
        waiting = await queue.waiting(consuming)
        loss, heard = queue.loss(waiting), waiting or 0
        if loss is Loss.DOWN:
            heard = 0  # what waits is from before: the loss lasts until now
        if waiting is not None and not await self._is_bound(publisher, queue.name):
            loss, heard = Loss.UNBOUND, 0  # what waits is from before: the loss lasts until now
        missed = queue.missed(loss, waiting)
        first = waiting is None and not self._missing_told
        if first:
            # Before it is there, or a gateway killed in between would not know any more what was missed.
            self._missing_told = True
            self._catch_up(subscription, missed, 0)
            await ledger.lasting(ledger.position)
        declared = await queue.declare(consuming, incoming, self._bindings, is_new=waiting is None)
        caught_up = asyncio.Event()
        deliveries = UnacknowledgedDeliveries(ledger, self._tell_kept, caught_up.is_set, counts, queue.heard)
        await queue.consume(self._endpoint, declared, deliveries.arrived)
        if loss is not None:
            counts.losses[loss] += 1
        self._forget(self._driver.forget_sends(), "there was no connection to the broker")
        if not first:
            self._catch_up(subscription, missed, heard)
        self._missing_told = False
        caught_up.set()
        deliveries.proceed()

        async def greet() -> None:
            await queue.drained(incoming)
            log.info("caught-up", role=self._role.name, queue=queue.name, repeated=deliveries.repeated)
            self._up(queue.name)
            await asyncio.Event().wait()

        await self._while_up(
            consuming, incoming, publisher, queue, queue.name, deliveries.acknowledge(), greet()
        )

    def _catch_up(self, subscription: DurableSubscription, missed: str, waiting: int) -> None:
        queue = subscription.queue
        log.info("catching-up", role=self._role.name, queue=queue, waiting=waiting, missed=missed)
        self._driver.handle(BacklogFollows(missed, waiting))

    async def _is_bound(self, publisher: Publisher, queue: str) -> bool:
        """Whether a queue that is there is bound still, as far as that can be found out."""
        connection = publisher.connection()
        return not self._role.probed or connection is None or await self._probe.is_bound(connection, queue)

    async def _takes_messages(self, connection: AbstractConnection) -> bool:
        """Whether the broker takes what we publish on ``connection`` now, as far as that can be found out."""
        if self._probed_queue:
            return await self._probe.takes_messages(connection, self._probed_queue)
        return not await is_blocked(connection)

    def _up(self, queue: str) -> None:
        self._probed_queue = queue if self._role.probed else ""
        log.info("link-up", role=self._role.name, broker=str(self._endpoint), queue=queue)
        self._driver.handle(LinkUp(queue))

    async def _while_up(
        self,
        consuming: AbstractConnection,
        incoming: AbstractChannel,
        publisher: Publisher,
        watched: WatchedQueue,
        queue: str,
        *parts: Coroutine[Any, Any, None],
    ) -> None:
        able = abilities(consuming)
        # OpenAMQ compares types in passive declarations too, and ends the connection where one differs; the
        # type is not ours to know.
        bound_to = [binding.exchange for binding in self._role.bindings(queue)] if able.extended else []
        watching = watched.watch(
            consuming,
            queue,
            self._doubt,
            bound_to,
            channel=None if able.several_channels else incoming,
            bounded=able.extended,
        )
        # Where several end at once, what the broker said of an end comes before what it led to.
        await until_one_ends(
            ended(incoming),
            ended(consuming),
            publisher.run(),
            watching,
            self._clogged(),
            *parts,
            *([self._probe.run(publisher.connection, queue)] if self._role.probed else []),
        )

    def _bindings(self, queue: str) -> list[Binding]:
        """Those of the role, and the one that is probed."""
        probed = [Binding(self._role.probed, queue)] if self._role.probed else []
        return [*self._role.bindings(queue), *probed]

    async def _arrived(self, message: AbstractIncomingMessage) -> None:
        if not (self._probe.is_mine(message) or self._is_repeated(message)):
            self._tell(message)
        if message.processed:  # from a broker that wants no acknowledgements
            return
        with contextlib.suppress(*FAILURES):  # the connection's end is noticed elsewhere
            await message.ack()

    def _tell_kept(self, message: AbstractIncomingMessage) -> None:
        """As `_arrived`; in a queue that is kept there may be probes of earlier connections too."""
        queue = self._role.durable.queue if self._role.durable is not None else ""
        is_probe = message.exchange == self._role.probed and message.routing_key == queue
        if not (is_probe or self._is_repeated(message)):
            self._tell(message)

    def _tell(self, message: AbstractIncomingMessage) -> None:
        timestamp, expiration = message.timestamp, message.expiration
        delivery = Delivery(
            exchange=message.exchange or "",
            routing_key=message.routing_key or "",
            body=message.body,
            reply_to=message.reply_to or "",
            user_id=message.user_id or "",
            content_type=message.content_type or "",
            correlation_id=message.correlation_id or "",
            timestamp=int(timestamp.timestamp() * 10**9) if timestamp else 0,
            expiration=int(expiration * 1000) if isinstance(expiration, int | float) else 0,
            message_id=message.message_id or "",
        )
        try:
            self._driver.deliver(delivery)
        except Exception as error:  # noqa: BLE001  aio-pika would hide it, and the queue would stand still
            self._driver.fail(error)

    def _is_repeated(self, message: AbstractIncomingMessage) -> bool:
        """Whether it was received before: a sender that got no confirmation sends a message again."""
        if not message.message_id or not message.user_id:
            return False
        identity = (message.user_id, message.message_id)
        repeated = identity in self._received
        self._received[identity] = None
        if len(self._received) > REMEMBERED_MESSAGES:
            self._received.popitem(last=False)
        return repeated

    async def _clogged(self) -> None:
        """Until more waits to be published than a moving link leaves.

        Raises:
            LinkError: so it is.
        """
        await self._driver.until_clogged()
        raise LinkError(Trouble.BROKEN, f"{self._endpoint}: the broker takes no messages from us")

    def _doubt(self, reason: str, seconds: float) -> None:
        self._driver.handle(LossSuspected(reason, self._clock.now() - int(seconds * 10**9)))

    def _down(self, error: LinkError) -> None:
        log.warning("link-down", role=self._role.name, trouble=error.trouble.value, detail=str(error))
        if self._nodes.failed(self._endpoint):
            self._probe = self._new_probe()
        self._driver.handle(LinkDown(str(error)))
