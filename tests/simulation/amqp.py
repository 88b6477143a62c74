"""A broker between consoles and agents: queues that overflow, connections that end or fall silent.

AMQP keeps the order from one publisher to one queue and duplicates nothing; messages are lost with a
connection, by expiry, and where a length-limited queue drops its oldest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache

from gateway.dialects.session import Binding, Delivery, Send
from gateway.links.session_driver import TOO_LATE
from gateway.model.times import MILLISECOND, SECOND
from tests.simulation.half_open import Silence
from tests.simulation.pipes import QUICK, Pipe
from tests.simulation.processes import RUNNING, Process
from tests.simulation.scheduler import Clock, Scheduler, Timer
from tests.simulation.session_driver import SimulatedDriver, binding_matches

WATCH = 5 * SECOND
"""The interval at which a queue is checked, as in `gateway.links.own_queue`."""


class AmqpBroker:
    """A broker that routes messages between clients while it is up.

    Attributes:
        queue_names: the numbers that make all queue names unique.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.clients: list[AmqpClient] = []
        self.up = True
        self.blocked = False
        self.queue_names = itertools.count(1)
        self._scheduler = scheduler

    def route(self, send: Send, user: str, timestamp: int) -> bool:
        """Put a message into the queues that want it, and return whether there was one."""
        seconds = timestamp // SECOND * SECOND
        lifetime = send.lifetime(seconds)
        delivery = Delivery(
            send.exchange,
            send.routing_key,
            send.body,
            send.reply_to,
            user,
            send.content_type,
            send.correlation_id,
            seconds,
            lifetime,
            send.message_id,
        )
        expires = self._scheduler.now + lifetime * MILLISECOND if lifetime else 0
        taken = [client for client in self.clients if client.wants(send.exchange, send.routing_key)]
        for client in taken:
            client.queue.put((delivery, expires))
        return bool(taken)

    def stop(self) -> None:
        """Stop the broker and end every connection."""
        self.up = False
        for client in tuple(self.clients):
            client.lose("the broker was stopped")

    def start(self) -> None:
        """Start the broker; clients can connect to it again."""
        self.up = True


class AmqpClient:
    """One process's connection to a broker, as `gateway.links.amqp` keeps it.

    Args:
        scheduler: time and chance.
        broker: the broker; the client reconnects after each loss.
        conversation: the driver of the session that uses the connection.
        user: the user name at the broker.
        clock: the clock of the process.
        bindings: returns the bindings of the queue with the given name.
        limit: the number of messages that its queue holds.
        unsent: called with the messages that had not been sent when the connection ended.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        broker: AmqpBroker,
        conversation: SimulatedDriver,
        user: str,
        clock: Clock,
        bindings: Callable[[str], Sequence[Binding]],
        limit: int,
        unsent: Callable[[list[Send]], None] = lambda _: None,
    ) -> None:
        self._unsent = unsent
        self._process = RUNNING.get() or Process()
        self.conversation = conversation
        self._scheduler = scheduler
        self._broker = broker
        self._user = user
        self._clock = clock
        self._bindings_of = bindings
        self._bindings: tuple[Binding, ...] = ()
        self._limit = limit
        self._up = False
        self._closed = False
        self._fine_at = 0
        self._timers: list[Timer] = []
        self._wants = lru_cache(maxsize=256)(self._wants_uncached)
        self.queue: Pipe[tuple[Delivery, int]] = self._new_queue()
        self.outgoing: Pipe[Send] = self._new_outgoing()
        self._later(0, self._connect)

    @property
    def up(self) -> bool:
        """Whether the client is connected, as far as it knows."""
        return self._up

    def wants(self, exchange: str, key: str) -> bool:
        """Return whether a message with this exchange and key is routed to the client's queue."""
        return self._up and self._wants(exchange, key)

    def lose(self, detail: str) -> None:
        """End the connection and discard the queue and messages in transit; it is opened again later."""
        if self._up:
            unsent = self.outgoing.items
            self._hang_up()
            self._process.run(lambda: self._lost(unsent, detail))

    def fall_silent(self, silence: Silence) -> None:
        """Make the connection half-open until it heals or the loss is detected."""
        if self._up:
            self._scheduler.note(self.conversation.name, str(silence))
            queue = self.queue
            silence.falls([self.outgoing], [queue], lambda: self._found_out(queue))

    def _found_out(self, queue: Pipe[tuple[Delivery, int]]) -> None:
        if queue is self.queue:
            self.lose("no heartbeat of the peer")

    def _lost(self, unsent: list[Send], detail: str) -> None:
        self.conversation.unsent(unsent, detail)
        self.conversation.disconnected(detail)
        self._unsent(unsent)
        self._later(self._scheduler.between(500 * MILLISECOND, 8 * SECOND), self._connect)

    def slow_down(self, delay: tuple[int, int]) -> None:
        """Set the time that each message takes to be consumed."""
        self.queue.delay = delay

    def close(self) -> None:
        """Close the connection at the end of the process; the broker notices at once."""
        self._closed = True
        self._hang_up()
        self.conversation.stop()
        if self in self._broker.clients:
            self._broker.clients.remove(self)

    def _new_queue(self) -> Pipe[tuple[Delivery, int]]:
        return Pipe(self._scheduler, self._arrived, QUICK, self._limit)

    def _new_outgoing(self) -> Pipe[Send]:
        outgoing: Pipe[Send] = Pipe(self._scheduler, self._published)
        outgoing.owner = None
        return outgoing

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.time >= self._scheduler.now]
        self._timers.append(self._scheduler.after(delay, action))

    def _connect(self) -> None:
        if self._closed or self._up:
            return
        if not self._broker.up:
            self._later(self._scheduler.between(500 * MILLISECOND, 8 * SECOND), self._connect)
            return
        queue = f"amqp-gateway.{self.conversation.name}.{next(self._broker.queue_names)}"
        self._bindings = tuple(self._bindings_of(queue))
        self._wants.cache_clear()
        self.queue, self.outgoing = self._new_queue(), self._new_outgoing()
        if self not in self._broker.clients:
            self._broker.clients.append(self)
        self._up = True
        self._fine_at = self._scheduler.now
        self.conversation.send = self.outgoing.put
        self.conversation.connected(queue)
        self._later(WATCH, self._watch)

    def _hang_up(self) -> None:
        self._up = False
        self.queue.cut()
        self.outgoing.cut()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _watch(self) -> None:
        """Suspect loss once a queue that was too full has been emptied, as in `OwnQueue.watch`."""
        doubtful = self._limit // 2
        if self.queue.longest >= doubtful and len(self.queue) < doubtful:
            self.queue.longest = 0
            reason = f"messages waited in the queue, {self.queue.dropped} were dropped"
            self.conversation.doubted(reason, self._scheduler.now - self._fine_at)
        if self.queue.longest < doubtful:
            self._fine_at = self._scheduler.now
        self._later(WATCH, self._watch)

    def _published(self, send: Send) -> None:
        if send.is_too_late(self._clock.now()):
            self._process.run(lambda: self.conversation.unsent([send], TOO_LATE))
            return
        if not self._broker.route(send, self._user, self._clock.now()) and send.mandatory:
            returned = "the broker returned it: it leads into no queue"
            self._process.run(lambda: self.conversation.unsent([send], returned))

    def _arrived(self, item: tuple[Delivery, int]) -> None:
        delivery, expires = item
        if not expires or self._scheduler.now <= expires:
            self.conversation.deliver(delivery)

    def _wants_uncached(self, exchange: str, key: str) -> bool:
        return any(binding_matches(binding, exchange, key) for binding in self._bindings)
