"""All processes of the gateway stand still: a gap has all that was missed, and begins before that."""

from __future__ import annotations

import asyncio
import secrets
import time
from functools import partial
from pathlib import Path

import aio_pika
import pytest

from gateway.demo.broker import PrivateBroker
from gateway.eventlog.query import ask
from tests.components.command_line import Site
from tests.components.rabbitmq import connections_of
from tests.components.stopping import standing_still
from tests.components.waiting import wait_until
from tests.durable.test_clock_set import SetClock, has_recorded, publish, watched

SECONDS, LONG_SECONDS = 15.0, 140.0
LATEST_PROOF_SECONDS = 30.0
"""More than the last proof is old, with the allowed delay of events, on a busy machine."""


async def come_and_go(broker: PrivateBroker, queue: str) -> None:
    async with await aio_pika.connect(broker.amqp_url()) as connection, connection.channel() as channel:
        await channel.declare_queue(queue)
        await channel.queue_delete(queue)


def rows(site: Site, sql: str, **parameters: str) -> list[tuple[object, ...]]:
    with ask(site.folder / "state" / "log", sql, dict(parameters)) as answer:
        return list(answer.rows)


def gaps(site: Site) -> list[tuple[float, float]]:
    """Return the recorded gaps of the source, in seconds since 1970, without that of the first start."""
    sql = "SELECT epoch(from_ts), epoch(to_ts) FROM log WHERE kind = 'gap' AND source = 'orders' ORDER BY seq"
    return [(float(str(began)), float(str(ended))) for began, ended in rows(site, sql)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("seconds", "jump"),
    [
        pytest.param(SECONDS, 0, id="stopped"),
        # A clock that jumps while the gateway runs, test_clock_set.py has in every run.
        pytest.param(0.0, LONG_SECONDS, id="suspended", marks=pytest.mark.prove),
        pytest.param(LONG_SECONDS, 0, id="stopped for long", marks=pytest.mark.prove),
    ],
)
def test_a_gap_begins_before_a_standstill(
    seconds: float, jump: float, rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    """A queue is made with its event left in the socket; another one comes and goes when that is closed.

    After 140 s the broker has closed the connection by itself.

    A machine that is suspended has a clock that jumps, while its monotonic clock stands still.
    """
    clock, name = SetClock(tmp_path), secrets.token_hex(4)
    before, left, passing = (f"{what}-{name}" for what in ("before", "left", "passing"))
    with watched(rabbitmq, tmp_path, clock) as (site, gateway):
        asyncio.run(publish(rabbitmq, before, 3))
        wait_until(partial(has_recorded, site, before, 3), "the source is read")
        synchronised = "SELECT * FROM log WHERE source = 'orders' AND state = 'synchronised'"
        wait_until(lambda: rows(site, synchronised), "everything is read, and events are received")
        wait_until(
            lambda: list(connections_of(gateway.process.pid, rabbitmq)), "the broker lists its connection"
        )
        (connection,) = connections_of(gateway.process.pid, rabbitmq)
        began = time.time()
        with standing_still(gateway.process.pid):
            asyncio.run(publish(rabbitmq, left, 1))
            time.sleep(seconds)  # it is to last
            if seconds < LONG_SECONDS:
                with rabbitmq.http() as http:
                    http.delete(f"connections/{connection}").raise_for_status()
            asyncio.run(come_and_go(rabbitmq, passing))
            clock.set_ahead(int(jump))
            ended = time.time() + jump
        wait_until(lambda: any(to >= ended for _, to in gaps(site)), "the gap is recorded")
    (start, _) = next(gap for gap in gaps(site) if gap[1] >= ended)
    assert began - LATEST_PROOF_SECONDS <= start <= began
    assert not rows(site, "SELECT * FROM log WHERE object_name = $name", name=f"/|{passing}")
    with rabbitmq.http() as http:
        for queue in (before, left):
            http.delete(f"queues/%2F/{queue}").raise_for_status()
