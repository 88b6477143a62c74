"""The ledger of a workload agrees with the event log, SNMP, JMX and traps."""

from __future__ import annotations

from dataclasses import dataclass, field

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from tests.demo_check.ledger import PUBLISHED
from tests.end_to_end.chaos import Killer
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.story import Story
from tests.end_to_end.witness import GATEWAY_BEAN, Witness

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]

SOURCES = (SOURCE, AGENT_SOURCE)
VHOST = "shop"
PREFIX = "ledger-"
QUEUES = f"{VHOST}|{PREFIX}%"
KEPT, DELETED, CONNECTIONS = 4, 5, 3


@dataclass
class Ledger:
    """The actions of a workload, recorded by the workload itself.

    Attributes:
        published: number of messages by queue, confirmed by the broker.
        deleted: queues.
        connections: names of those that were opened, all of which are closed.
    """

    published: dict[str, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    connections: set[str] = field(default_factory=set)

    @property
    def kept(self) -> set[str]:
        """The queues that are left."""
        return self.published.keys() - self.deleted


async def work(observer: Observer) -> Ledger:
    """Declare and delete queues, publish, open and close connections."""
    ledger = Ledger()
    url = observer.broker.amqp_url(vhost=VHOST)
    for number in range(CONNECTIONS):
        name = f"{PREFIX}{number}"
        ledger.connections.add(name)
        connection = await aio_pika.connect(url, client_properties={"connection_name": name})
        async with connection:
            channel = await connection.channel()
            for one in range(number, KEPT + DELETED, CONNECTIONS):
                await publish(channel, f"{PREFIX}{one}", 3 * one + 1, ledger)
    await observer.until("the queues are shown", lambda: queues_are(observer, set(ledger.published)))
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        for one in range(DELETED):
            await channel.queue_delete(f"{PREFIX}{one}")
            ledger.deleted.add(f"{PREFIX}{one}")
    return ledger


async def publish(channel: AbstractChannel, name: str, messages: int, ledger: Ledger) -> None:
    """Declare a durable queue and publish to it, each message confirmed."""
    await channel.declare_queue(name, durable=True)
    ledger.published[name] = messages
    for _ in range(messages):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), name)


async def queues_are(observer: Observer, names: set[str]) -> bool:
    """Return whether both sources show these queues of ours in SNMP, and no others."""
    rows = (await observer.walk("rmqQueueRowName")).items()
    shown: dict[str, set[str]] = {number: set() for number in {index.split(".")[0] for index, _ in rows}}
    for index, cells in rows:
        if cells["rmqQueueRowName"].startswith(PREFIX):
            shown[index.split(".")[0]].add(cells["rmqQueueRowName"])
    return len(shown) == len(SOURCES) and all(found == names for found in shown.values())


async def counted(observer: Observer, since: int) -> dict[tuple[str, str, str], int]:
    """Return the creates and deletes of our queues and connections in the log, by source, class and kind."""
    rows = await observer.logged(
        """
        SELECT source, class, kind, count(DISTINCT object_id) FROM log
        WHERE seq > $since AND kind IN ('create', 'delete') AND (
          (class = 'queue' AND object_name LIKE $queues)
          OR (class = 'connection' AND object_id IN (
            SELECT object_id FROM log WHERE seq > $since AND ("values"->>'providedName') LIKE $connections)))
        GROUP BY ALL
        """,
        since=since,
        queues=QUEUES,
        connections=f"{PREFIX}%",
    )
    return {(str(source), str(of), str(kind)): int(str(count)) for source, of, kind, count in rows}


async def last_seq(observer: Observer) -> int:
    """Return the seq of the last record on the disk."""
    ((seq,),) = await observer.logged("SELECT max(seq) FROM log")
    return int(str(seq))


async def test_the_log_agrees_with_the_ledger_and_with_every_front_end(
    observer: Observer, story: Story, rightness: Rightness, witness: Witness
) -> None:
    since = await last_seq(observer)
    ledger = await work(observer)
    try:
        await agrees(observer, since, ledger)
        await shown_elsewhere(observer, witness, ledger)
        await events_are_the_same(observer, story, rightness, since)
    finally:
        await tidy(observer, ledger)
    await rightness.again()
    await story.end()


async def agrees(observer: Observer, since: int, ledger: Ledger) -> None:
    """Wait until the log agrees with the ledger: in beginnings and ends, and in messages."""
    expected = {
        (source, of, kind): count
        for source in SOURCES
        for of, kind, count in (
            ("queue", "create", len(ledger.published)),
            ("queue", "delete", len(ledger.deleted)),
            ("connection", "create", len(ledger.connections)),
            ("connection", "delete", len(ledger.connections)),
        )
    }
    found: dict[tuple[str, str, str], int] = {}

    async def lives_agree() -> bool:
        found.clear()
        found.update(await counted(observer, since))
        return found == expected

    await observer.until("the log has each beginning and end once", lives_agree)

    published: dict[tuple[str, str], int] = {}
    confirmed = {(source, name): ledger.published[name] for source in SOURCES for name in ledger.kept}

    async def messages_agree() -> bool:
        published.clear()
        for source, name, count, _ in await observer.logged(PUBLISHED, since=since):
            key = str(source), str(name).removeprefix(f"{VHOST}|")
            if key in confirmed:
                published[key] = int(str(count))
        return published == confirmed

    try:
        await observer.until("deltas add up to what was published", messages_agree)
    except AssertionError as error:
        error.add_note(f"deltas add up to {published}; published were {confirmed}")
        raise


async def shown_elsewhere(observer: Observer, witness: Witness, ledger: Ledger) -> None:
    """Wait until SNMP and JMX show the queues that are left; SNMP has each end of a queue once."""
    await observer.until("SNMP shows what is left", lambda: queues_are(observer, ledger.kept))

    async def in_jmx() -> bool:
        assert witness.client is not None
        names = await witness.client.names("amqp.gateway:type=queue,*")
        return sum(f"name={PREFIX}" in name for name in names) == len(SOURCES) * len(ledger.kept)

    await observer.until("JMX shows what is left", in_jmx)

    async def ends_in_snmp() -> bool:
        # A row that is new during a walk lacks the columns that were walked before.
        names = [cells.get("agDeletedName") for cells in (await observer.walk("agDeletedTable")).values()]
        return sorted(name for name in names if name in ledger.deleted) == sorted(
            [*ledger.deleted] * len(SOURCES)
        )

    await observer.until("SNMP has each end once", ends_in_snmp)


async def events_are_the_same(observer: Observer, story: Story, rightness: Rightness, since: int) -> None:
    """Check that each event has one id: in the log, in the trap and in the notification."""
    (until,) = (await observer.logged("SELECT max(seq) FROM log WHERE kind = 'event'"))[0]
    rows = await observer.logged(
        "SELECT event_id, text FROM log WHERE kind = 'event' AND seq > $since AND seq <= $until",
        since=since,
        until=until,
    )
    logged = {str(event_id): str(text) for event_id, text in rows}
    assert len(rows) == len(logged) > len(SOURCES) * (KEPT + 2 * DELETED)

    async def reported() -> bool:
        traps = {t.values.get("agEventId"): t.values.get("agEventText") for t in await rightness.traps()}
        received = {
            str(one["data"]["eventId"]): str(one["message"])
            for one in rightness.notifications
            if one.get("data")
        }
        return all(traps.get(key) == received.get(key) == text for key, text in logged.items())

    await observer.until("every event of the log was told by trap and notification", reported)
    traps = (await rightness.traps())[story.traps :]
    ids = {trap.values["agEventId"] for trap in traps if trap.values["agEventId"].split(".")[-1].isdecimal()}
    everything = {str(event_id) for (event_id,) in await observer.logged("SELECT event_id FROM log")}
    assert ids <= everything, "what was sent as a trap is in the log"


async def tidy(observer: Observer, ledger: Ledger) -> None:
    """Delete the queues that are left."""
    async with await aio_pika.connect(observer.broker.amqp_url(vhost=VHOST)) as connection:
        channel = await connection.channel()
        for name in ledger.kept:
            await channel.queue_delete(name)
    await observer.until("the queues are gone", lambda: queues_are(observer, set()))


async def test_the_log_goes_on_after_the_core_is_killed(
    observer: Observer, story: Story, rightness: Rightness, witness: Witness, killer: Killer
) -> None:
    assert witness.client is not None
    acknowledged = (await witness.client.read(GATEWAY_BEAN))["EventLogCommitted"].value
    assert acknowledged > 0
    before = await reported_whole(observer)
    await killer.kill("core")
    await rightness.again()
    await story.end({"core"})

    async def recovered() -> bool:
        return bool(await observer.logged(RECOVERED, seq=acknowledged))

    await observer.until("the log says that it was recovered", recovered)
    ((count, first, last),) = await observer.logged("SELECT count(DISTINCT seq), min(seq), max(seq) FROM log")
    assert count == int(str(last)) - int(str(first)) + 1, "no hole, nothing twice"
    ((start,),) = await observer.logged(RECOVERED, seq=acknowledged)
    gaps = await observer.logged(
        "FROM log WHERE kind = 'gap' AND source IS NULL AND seq > $seq AND from_ts < to_ts", seq=start
    )
    assert len(gaps) == 1, "from when to when nobody recorded anything"
    created = await observer.logged(
        "SELECT object_name FROM log WHERE kind = 'create' AND seq > $seq", seq=start
    )
    assert not before & {str(name) for (name,) in created}, "what was there before is no news"

    async def all_are_reported() -> bool:
        return before <= await reported_whole(observer)

    await observer.until("the new segment tells all that lives", all_are_reported)


RECOVERED = """
SELECT seq FROM log WHERE kind = 'start' AND seq > $seq AND ("values"->>'why') = 'recovered'
"""


async def reported_whole(observer: Observer) -> set[str]:
    """Return the workload's durable queues with a whole record since the last segment began."""
    rows = await observer.logged(
        """
        SELECT object_name FROM log WHERE kind IN ('snapshot', 'create') AND class = 'queue'
        AND lifetime = 'durable' AND object_name LIKE $workload AND object_name NOT LIKE $ours
        AND seq > (SELECT max(seq) FROM log WHERE kind = 'start')
        """,
        workload=f"{VHOST}|%",
        ours=QUEUES,
    )
    return {str(name) for (name,) in rows}


async def test_the_gateway_says_how_its_log_is(observer: Observer, story: Story, witness: Witness) -> None:
    assert witness.client is not None
    scalars = {
        name: value for cells in (await observer.walk("agLog")).values() for name, value in cells.items()
    }
    assert scalars["agLogState"] == "writing"
    assert scalars["agLogLost"] == "0"
    bean = await witness.client.read(GATEWAY_BEAN)
    assert bean["EventLogState"].value == "writing"
    committed = int(scalars["agLogCommitted"])

    async def went_on() -> bool:
        assert witness.client is not None
        reported = (await witness.client.read(GATEWAY_BEAN))["EventLogCommitted"].value
        return int(reported) > committed and await last_seq(observer) >= int(reported)

    await observer.until("what is told as committed can be read", went_on)
    await story.end()
