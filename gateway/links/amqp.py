"""A session's link to a broker: one connection that only consumes, one that only publishes.

There are two connections because a broker under a memory alarm stops reading from publishers: a connection
that did both received 10 of 30 messages then, a separate one all 30. The only declared queue is exclusive,
auto-delete and length-limited, so a gateway that dies leaves nothing behind; or, if configured,
a durable queue that is kept for its return.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import aio_pika
import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

from gateway.clock import Clock
from gateway.dialects.session import (
    BacklogFollows,
    Binding,
    Delivery,
    LinkDown,
    LinkUp,
    LossSuspected,
    Note,
    ReceivedUntil,
    Send,
)
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
from gateway.links.durable_queue import (
    DurableSubscription,
    Loss,
    Reading,
    UnacknowledgedDeliveries,
    durable_queue,
    identity_of,
)
from gateway.links.election import Election
from gateway.links.inquiry import Inquiring, Inquiry
from gateway.links.own_queue import OwnQueue, Proofs, WatchedQueue
from gateway.links.protection import Protection
from gateway.links.publishing import HttpFallback, Publisher
from gateway.links.reconnecting import NodeChoice, link_errors, reconnecting
from gateway.links.session_driver import MessageDriver
from gateway.model.times import SECOND
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

WATCH_SECONDS = 5.0
REMEMBERED_MESSAGES = 10_000
"""Recently received messages that are remembered, so that a duplicate is recognised."""
_SUSPICIOUS_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class AmqpRole:
    """The purpose of a link.

    Attributes:
        name: part of the queue's name, ``amqp-gateway.<name>.<uuid>``.
        bindings: returns the bindings of its queue, by the queue's name: replies may be addressed to it.
        declare: durable topic exchanges to declare if they are missing (the manager's role).
        probed: an exchange of the bindings to which it may publish: the loss of that binding is
            detected (`BindingProbe`).
        max_queue_length: messages; the broker drops the oldest beyond it, which `AmqpLink` detects.
        durable: the durable queue to consume instead of one that ends with the connection. The session must
            accept `BacklogFollows` then.
        election: must be won before anything is declared or bound; ``None`` where there is no other
            candidate.
        protection: seals and opens all bodies; ``None`` where they are plain.
        takes_proofs: whether the session accepts `ReceivedUntil`.
        inquiry: returns a conversation to be had before a durable queue is read, on each connection;
            ``None`` where there is nothing to ask.
    """

    name: str
    bindings: Callable[[str], Sequence[Binding]]
    declare: Sequence[str] = ()
    probed: str = ""
    max_queue_length: int = 20_000
    durable: DurableSubscription | None = None
    election: Election | None = None
    protection: Protection | None = None
    takes_proofs: bool = False
    inquiry: Callable[[], Inquiry | None] = lambda: None


class AmqpLink:
    """Keeps a session connected to a broker for as long as it runs.

    Args:
        endpoint: the broker. After each end the next connection goes to another of several nodes:
            the node may have been the cause.
        role: what to declare and bind.
        driver: the driver of the session, which gets the link's events, and holds messages to be sent.
        clock: the gateway's clock.
        watch_seconds: interval of checks of queue and exchanges.
        fallback: carries messages while the broker accepts none over AMQP.
        on_unsent: called with messages that certainly were not sent, when the link has gone down and before
            the session is informed.
    """

    def __init__(
        self,
        endpoint: AmqpEndpoint,
        role: AmqpRole,
        driver: MessageDriver,
        clock: Clock,
        *,
        watch_seconds: float = WATCH_SECONDS,
        fallback: HttpFallback | None = None,
        on_unsent: Callable[[Sequence[Send]], None] = lambda _: None,
    ) -> None:
        self._nodes = NodeChoice(endpoint.nodes)
        self._role = role
        self._driver = driver
        self._clock = clock
        self._queue = OwnQueue(
            role.max_queue_length,
            int(role.max_queue_length * _SUSPICIOUS_SHARE),
            watch_seconds,
            purpose=role.name,
        )
        self._probe = self._new_probe()
        self._probed_queue = ""
        self._fallback = fallback
        self._on_unsent = on_unsent
        self._received: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._is_catching_up = False
        self._is_held = False  # messages wait for the next connection
        self._missing_reported = False  # that the durable queue is missing; it could not be declared since
        self._received_until = 0  # on the present connection, or the last one

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
        """Open one connection and use it until it ends.

        Raises:
            LinkError: always, in the end, with the reason.
        """
        name = f"amqp-gateway {self._role.name}"
        publisher = Publisher(
            self._endpoint,
            f"{name} publish",
            self._driver,
            self._clock,
            self._fallback,
            self._takes_messages,
            self._role.protection,
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
        """Report messages that will not be sent."""
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
        """Read a durable queue: first its waiting messages, then the greeting and its answers.

        One queue carries both, so that publications and answers of agents cannot overtake each other.
        """
        inquiry = self._role.inquiry()
        if inquiry is not None:
            inquiring = Inquiring(inquiry, self._queue, publisher.publish, self._signed)
            incoming = await inquiring.run(consuming, incoming)
        ledger, counts = subscription.ledger, subscription.counts
        queue = durable_queue(subscription, self._queue.watch_seconds)
        waiting, incoming = await queue.look(consuming, incoming)
        loss, waited = queue.loss(waiting), waiting or 0
        if loss is Loss.DOWN:
            waited = 0  # these messages are from before: the loss lasts until now
        if waiting is not None and not await self._is_bound(publisher, queue.name):
            loss, waited = Loss.UNBOUND, 0  # these messages are from before: the loss lasts until now
        protection = self._role.protection
        if protection is not None and not protection.backlog_follows() and waited:
            loss, waited = Loss.FORGOTTEN, 0
        missed = queue.missed(loss, waiting)
        first = waiting is None and not self._missing_reported
        if first:
            # Before it exists: a gateway that is killed in between would forget what was missed.
            self._missing_reported = True
            self._catch_up(subscription, missed, 0)
            await ledger.committed(ledger.position)
        declared = await queue.declare(consuming, incoming, self._bindings, is_new=waiting is None)
        caught_up = asyncio.Event()
        deliveries = UnacknowledgedDeliveries(
            ledger,
            self._deliver_kept,
            lambda: caught_up.is_set() and not self._is_held,
            counts,
            queue.received,
            read=None if protection is None else partial(self._read_protected, protection),
            commit=None if protection is None else partial(self._committing, protection),
        )
        await queue.consume(self._endpoint, declared, deliveries.arrived)
        if loss is not None:
            counts.losses[loss] += 1
        self._forget(self._driver.forget_sends(), "there was no connection to the broker")
        if not first:
            self._catch_up(subscription, missed, waited)
        self._missing_reported = False
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
        self._is_catching_up, self._is_held = True, False
        log.info("catching-up", role=self._role.name, queue=queue, waiting=waiting, missed=missed)
        self._driver.handle(BacklogFollows(missed, waiting))

    async def _is_bound(self, publisher: Publisher, queue: str) -> bool:
        """Return whether an existing queue is still bound, as far as that can be found out."""
        connection = publisher.connection()
        return not self._role.probed or connection is None or await self._probe.is_bound(connection, queue)

    async def _takes_messages(self, connection: AbstractConnection) -> bool:
        """Return whether the broker accepts messages on ``connection`` now, as far as can be found out."""
        if self._probed_queue:
            return await self._probe.takes_messages(connection, self._probed_queue)
        return not await is_blocked(connection)

    def _up(self, queue: str) -> None:
        self._probed_queue = queue if self._role.probed else ""
        self._is_catching_up = False
        log.info("link-up", role=self._role.name, broker=str(self._endpoint), queue=queue)
        self._driver.handle(LinkUp(queue))
        self._proved(self._clock.now())

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
        # OpenAMQ compares types in passive declarations, too, and ends the connection where one differs; the
        # type is unknown here.
        bound_to = [binding.exchange for binding in self._role.bindings(queue)] if able.extended else []
        proofs = Proofs(
            self._clock.now,
            self._proved,
            lambda reason, since: self._driver.handle(LossSuspected(reason, since)),
        )
        watching = watched.watch(incoming, queue, proofs, bound_to, bounded=able.extended)
        # If several end at once, the broker's reason for an end comes before its consequences.
        await until_one_ends(
            ended(incoming),
            ended(consuming),
            publisher.run(),
            watching,
            self._backed_up(),
            *parts,
            *([self._probe.run(publisher.connection, queue)] if self._role.probed else []),
        )

    def _bindings(self, queue: str) -> list[Binding]:
        """Return the bindings of the role, and the probed one."""
        probed = [Binding(self._role.probed, queue)] if self._role.probed else []
        return [*self._role.bindings(queue), *probed]

    async def _arrived(self, message: AbstractIncomingMessage) -> None:
        if not self._probe.is_mine(message):
            self._deliver(message)
        if message.processed:  # the broker expects no acknowledgement
            return
        with contextlib.suppress(*FAILURES):  # the end of the connection is detected elsewhere
            await message.ack()

    def _deliver_kept(self, message: AbstractIncomingMessage) -> None:
        """Deliver as `_arrived`; a durable queue may also contain probes of earlier connections."""
        if not self._is_probe(message):
            self._deliver(message)

    def _signed(self, message: AbstractIncomingMessage) -> Delivery | None:
        """Return a message as its sender signed it, not accepted yet; ``None`` for one that is refused.

        What waits in the durable queue was signed before, and is accepted only if nothing of later was.
        """
        delivery, protection = _delivery(message), self._role.protection
        if protection is None:
            return delivery
        verified = protection.verify(delivery, self._clock.now())
        if isinstance(verified, Note):
            self._driver.perform([verified])
        return None if verified is None or isinstance(verified, Note) else verified.delivery

    def _read_protected(self, protection: Protection, message: AbstractIncomingMessage) -> Reading | None:
        """Return what a message of a durable queue is, whose body has to be protected.

        One that is late waits for the next connection, which reads what waits as such: shown as current, an
        old state could be a broker's that holds messages back.
        """
        if self._is_probe(message):
            return Reading(identity_of(message), lambda: None)
        try:
            verified = protection.verify(_delivery(message), self._clock.now())
        except Exception as error:  # noqa: BLE001  aio-pika would hide it, and the queue would not be read any more
            self._driver.fail(error)
            return None
        if verified is None or isinstance(verified, Note):
            return Reading(identity_of(message), partial(self._pass_on, verified))
        if not self._is_catching_up and verified.has_waited(self._clock.now()):
            if not self._is_held:
                self._is_held = True
                text = f"{self._endpoint}: messages have waited for too long: they are read as a backlog"
                self._driver.fail(LinkError(Trouble.BROKEN, text))
            return None

        def deliver() -> None:
            self._pass_on(verified.accept(self._clock.now(), waited=self._is_catching_up))

        def repeated() -> None:
            self._pass_on(verified.remember(is_replay=not message.redelivered))

        return Reading(verified.identity, deliver, repeated, is_signed=True)

    def _committing(self, protection: Protection) -> Callable[[], None]:
        write = protection.commit(self._clock.now())

        def commit() -> None:
            try:
                write()
            except OSError as error:
                text = f"the file of accepted bodies cannot be written: {error.strerror or error}"
                raise LinkError(Trouble.BROKEN, f"{self._endpoint}: {text}") from error

        return commit

    def _pass_on(self, opened: Delivery | Note | None) -> None:
        try:
            match opened:
                # Known by what was opened: of a protected body its sender has signed that, and an exact
                # replay was refused before, and counted.
                case Delivery() if not self._is_repeated(opened):
                    self._driver.deliver(opened)
                case Note():
                    self._driver.perform([opened])
        except Exception as error:  # noqa: BLE001  aio-pika would hide it, and the queue would not be read any more
            self._driver.fail(error)
        self._is_held = self._is_held or self._driver.has_failed

    def _is_probe(self, message: AbstractIncomingMessage) -> bool:
        """Return whether a message of a durable queue is a probe, perhaps of an earlier connection."""
        queue = self._role.durable.queue if self._role.durable is not None else ""
        return message.exchange == self._role.probed and message.routing_key == queue

    def _deliver(self, message: AbstractIncomingMessage) -> None:
        protection = self._role.protection
        try:
            delivery = _delivery(message)
            opened = delivery if protection is None else protection.open(delivery, self._clock.now())
        except Exception as error:  # noqa: BLE001  aio-pika would hide it, and the queue would not be read any more
            self._driver.fail(error)
        else:
            self._pass_on(opened)

    def _is_repeated(self, message: Delivery) -> bool:
        """Return whether a message was received before: a sender without a confirmation sends it again."""
        if not message.message_id or not message.user_id:
            return False
        identity = (message.user_id, message.message_id)
        repeated = identity in self._received
        self._received[identity] = None
        if len(self._received) > REMEMBERED_MESSAGES:
            self._received.popitem(last=False)
        return repeated

    async def _backed_up(self) -> None:
        """Wait until more messages wait to be published than a working link leaves.

        Raises:
            LinkError: always, in the end.
        """
        await self._driver.until_backed_up()
        raise LinkError(Trouble.BROKEN, f"{self._endpoint}: the broker accepts no messages from the gateway")

    def _proved(self, received_until: int) -> None:
        self._received_until = received_until
        if self._role.takes_proofs:
            self._driver.handle(ReceivedUntil(received_until))

    def _down(self, error: LinkError) -> None:
        log.warning("link-down", role=self._role.name, trouble=error.trouble.value, detail=str(error))
        if self._nodes.failed(self._endpoint):
            self._probe = self._new_probe()
        received_until, self._received_until = self._received_until, 0
        self._driver.handle(LinkDown(str(error), received_until))


def _delivery(message: AbstractIncomingMessage) -> Delivery:
    timestamp, expiration = message.timestamp, message.expiration
    return Delivery(
        exchange=message.exchange or "",
        routing_key=message.routing_key or "",
        body=message.body,
        reply_to=message.reply_to or "",
        user_id=message.user_id or "",
        content_type=message.content_type or "",
        correlation_id=message.correlation_id or "",
        timestamp=int(timestamp.timestamp() * SECOND) if timestamp else 0,
        expiration=int(expiration * 1000) if isinstance(expiration, int | float) else 0,
        message_id=message.message_id or "",
    )
