"""Protected bodies in a durable queue of a RabbitMQ: each is read once, also late, and no replayed one."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import aio_pika
import pytest

from gateway.dialects.session import Send
from gateway.links.durable_queue import DurableQueueCounts, Loss
from gateway.model.times import HOUR, MILLISECOND, MINUTE, SECOND
from gateway.protection.bodies import BodyProtection
from gateway.protection.envelope import Refusal
from gateway.protection.keys import Use, generated
from gateway.protection.replay_file import ReplayFile, machine_boot_id
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.links.ledger import MemoryLedger
from tests.links.recording import Linked, endpoint_of, linked
from tests.links.test_durable_queue import QUEUE, ResumingSession, keeping, left, released
from tests.protection.parties import LATE, Side, protection

EXPIRES: Final = HOUR
ANOTHER_BOOT: Final = bytes(16)


@dataclass
class Sender:
    """An agent that signs at any time.

    Attributes:
        vhost: where it publishes.
        bodies: its protection; a new one is a new start.
        side: its keys.
    """

    vhost: VirtualHost
    bodies: BodyProtection
    side: Side

    def sealed(self, body: str, ago: int = 0) -> Send:
        """Return a message that was signed ``ago`` nanoseconds before now."""
        user = self.vhost.broker.administrator.name
        made = self.bodies.seal(Send("amq.topic", "said", body.encode()), user, time.time_ns() - ago)
        assert isinstance(made, Send)
        return made

    async def say(self, *sends: Send, headers: dict[str, str] | None = None) -> None:
        """Publish messages, and wait until the broker has confirmed them."""
        async with await aio_pika.connect(self.vhost.amqp_url()) as connection:
            channel = await connection.channel(publisher_confirms=True)
            exchange = await channel.get_exchange("amq.topic")
            for send in sends:
                message = aio_pika.Message(
                    send.body,
                    user_id=self.vhost.broker.administrator.name,
                    content_type=send.content_type,
                    headers=dict(headers or {}),
                )
                await exchange.publish(message, send.routing_key)


@dataclass
class Receiver:
    """The gateway's end: what outlives it is its ledger, and the file of accepted bodies."""

    vhost: VirtualHost
    side: Side
    path: Path
    ledger: MemoryLedger
    counts: DurableQueueCounts
    bodies: BodyProtection | None = None
    accepted: ReplayFile | None = None

    @asynccontextmanager
    async def running(
        self, boot: bytes | None = None, *, since: int = 3 * HOUR
    ) -> AsyncIterator[tuple[ResumingSession, Linked]]:
        """Provide its link and session, which read what waits and are up then.

        Args:
            boot: of the machine, if it is another one.
            since: nanoseconds since the start, if there is no file: what was signed before is not accepted.
        """
        now, waits = (time.time_ns() - since) // MILLISECOND, EXPIRES // MILLISECOND
        machine_boot = machine_boot_id if boot is None else lambda: boot
        with closing(ReplayFile(self.path, LATE, now, machine_boot, waits)) as accepted:
            self.accepted = accepted
            self.bodies = BodyProtection(self.side, accepted, 8)
            of = keeping(self.ledger, expires=EXPIRES, counts=self.counts)
            session = ResumingSession()
            endpoint = endpoint_of(self.vhost.broker, self.vhost.name)
            async with linked(endpoint, replace(of, protection=self.bodies), session) as link:
                await link.up()
                yield session, link
        await released(self.vhost)

    def refused(self) -> dict[Refusal, int]:
        assert self.bodies is not None
        return dict(self.bodies.refusals)

    async def all_acknowledged(self) -> None:
        async def nothing_is_left() -> bool:
            return self.counts.unacknowledged == 0 and await left(self.vhost) == 0

        await until(lambda: self.counts.unacknowledged == 0, "everything is acknowledged")
        assert await nothing_is_left()


@pytest.fixture
def parties(virtual_host: VirtualHost, tmp_path: Path) -> tuple[Sender, Receiver]:
    one, other = generated([Use.SIGN, Use.READ]), generated([Use.SIGN, Use.READ])
    side = Side(one, [other.public()])
    sender = Sender(virtual_host, protection(side, boot=7), side)
    path = tmp_path / "replay" / "shop.window"
    counts = DurableQueueCounts()
    return sender, Receiver(virtual_host, Side(other, [one.public()]), path, MemoryLedger(), counts)


async def test_what_waited_for_longer_than_a_body_may_be_late_is_read_once(
    parties: tuple[Sender, Receiver],
) -> None:
    sender, receiver = parties
    async with receiver.running():
        pass
    said = [f"meanwhile {number}" for number in range(50)]
    for ago, body in enumerate(said):
        await sender.say(sender.sealed(body, 40 * MINUTE - ago * SECOND))
    # The agent was started again meanwhile.
    sender.bodies = protection(sender.side, boot=9)
    said.append("of another start")
    await sender.say(sender.sealed(said[-1], 30 * MINUTE))
    async with receiver.running() as (session, link):
        await sender.say(sender.sealed("now"))
        await link.received(len(said) + 1)
        assert session.bodies == [*said, "now"]
        assert session.received_before == [len(said)], "as a backlog"
        await receiver.all_acknowledged()
    async with receiver.running() as (session, _):
        assert session.bodies == []
        assert receiver.refused() == {}


async def test_what_the_log_did_not_have_at_a_kill_is_read_again(parties: tuple[Sender, Receiver]) -> None:
    sender, receiver = parties
    receiver.ledger = MemoryLedger(prompt=False)
    async with receiver.running() as (session, link):
        await sender.say(*(sender.sealed(body, 40 * MINUTE) for body in ("a", "b")))
        await link.up(2)  # the messages are late, and read again as a backlog
        await link.received(2)
    receiver.ledger = MemoryLedger()  # the process was killed: the log has nothing of them
    async with receiver.running() as (session, link):
        await link.received(2)
        assert session.bodies == ["a", "b"]
        await receiver.all_acknowledged()
        assert receiver.refused() == {}


async def test_what_the_log_had_at_a_kill_is_not_read_again_under_whatever_headers(
    parties: tuple[Sender, Receiver],
) -> None:
    """The log has what followed from the bodies, and the process was killed before the file had them."""
    sender, receiver = parties
    receiver.ledger = MemoryLedger(prompt=False)
    body = sender.sealed("applied")
    async with receiver.running() as (_, link):
        await sender.say(body)
        await link.received(1)
    receiver.ledger = MemoryLedger(reported=tuple(receiver.ledger.reported))
    async with receiver.running() as (session, _):
        await sender.say(body, headers={"forged": "yes"})
        await until(lambda: receiver.refused() == {Refusal.REPLAYED: 1}, "the replay is refused")
        assert session.bodies == []
        await receiver.all_acknowledged()
    receiver.ledger = MemoryLedger()  # and the log was deleted: the file has it now
    async with receiver.running(ANOTHER_BOOT) as (session, _):
        await sender.say(body)
        await until(lambda: receiver.refused() == {Refusal.REPLAYED: 1}, "the replay is refused")
        assert session.bodies == []


async def test_a_replayed_backlog_is_refused(parties: tuple[Sender, Receiver]) -> None:
    sender, receiver = parties
    async with receiver.running():
        pass
    said = [sender.sealed(f"{number}", 40 * MINUTE) for number in range(3)]
    await sender.say(*said, *said)
    async with receiver.running() as (session, link):
        await link.received(3)
        await receiver.all_acknowledged()
        assert session.bodies == ["0", "1", "2"]
        assert receiver.refused() == {Refusal.REPLAYED: 3}
    await sender.say(*said)
    receiver.ledger = MemoryLedger()
    async with receiver.running() as (session, _):
        await until(lambda: receiver.refused() == {Refusal.REPLAYED: 3}, "also after a restart")
        assert session.bodies == []


async def test_what_is_older_than_the_queue_keeps_it_is_refused(parties: tuple[Sender, Receiver]) -> None:
    sender, receiver = parties
    async with receiver.running():
        pass
    await sender.say(sender.sealed("too old", EXPIRES + LATE * MILLISECOND + SECOND), sender.sealed("new"))
    async with receiver.running() as (session, link):
        await link.received(1)
        assert session.bodies == ["new"]
        assert receiver.refused() == {Refusal.LATE: 1}


async def test_what_was_held_back_is_refused_when_later_bodies_were_accepted(
    parties: tuple[Sender, Receiver],
) -> None:
    sender, receiver = parties
    former = sender.sealed("of the start before", 40 * MINUTE)
    sender.bodies = protection(sender.side, boot=9)
    held, later = sender.sealed("held back", 30 * MINUTE), sender.sealed("later", 20 * MINUTE)
    async with receiver.running():
        pass
    await sender.say(later, held, former)
    async with receiver.running() as (session, link):
        await link.received(1)
        await receiver.all_acknowledged()
        assert session.bodies == ["later"]
        assert receiver.refused() == {Refusal.LATE: 2}


async def test_old_messages_are_never_shown_as_current(parties: tuple[Sender, Receiver]) -> None:
    sender, receiver = parties
    async with receiver.running() as (session, link):
        await sender.say(sender.sealed("late", 6 * MINUTE), sender.sealed("current"))
        assert "they are read as a backlog" in await link.down()
        await link.up(2)
        await link.received(2)
        assert session.bodies == ["late", "current"]
        assert session.received_before[1] >= 1, "before the session was connected again"
        assert receiver.refused() == {}


async def test_what_cannot_be_written_down_is_not_acknowledged(parties: tuple[Sender, Receiver]) -> None:
    sender, receiver = parties
    async with receiver.running() as (_, link):
        assert receiver.accepted is not None
        receiver.accepted.close()
        await sender.say(sender.sealed("applied"))
        assert "the file of accepted bodies cannot be written" in await link.down()
    assert await left(receiver.vhost) == 1
    async with receiver.running() as (session, _):
        await receiver.all_acknowledged()
        assert session.bodies == [], "the log had it"
        assert receiver.refused() == {}


async def test_without_the_file_what_waited_is_refused_and_that_is_a_gap(
    parties: tuple[Sender, Receiver],
) -> None:
    sender, receiver = parties
    async with receiver.running():
        pass
    await sender.say(sender.sealed("waited", MINUTE))
    receiver.path.unlink()
    async with receiver.running(since=0) as (session, link):
        ((missed, waiting),) = session.resumed
        assert f"the queue {QUEUE} had protected bodies, and it is not known which were accepted" in missed
        assert waiting == 0
        await sender.say(sender.sealed("new"))
        await link.received(1)
        assert session.bodies == ["new"]
        assert receiver.refused() == {Refusal.LATE: 1}
        assert receiver.counts.losses[Loss.FORGOTTEN] == 1
