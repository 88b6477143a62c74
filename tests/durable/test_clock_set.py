"""The machine's clock is set while the gateway runs: no old data is shown as current; the log goes on."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import aio_pika
import pytest

from gateway.demo.broker import PrivateBroker
from gateway.eventlog.query import ask
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.waiting import wait_until

HOUR = 3600


def libfaketime() -> Path:
    """Return the library that gives a program another time of day."""
    found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    assert found is not None, "apt-get install faketime"
    return found


class SetClock:
    """The clock of the gateway's processes, which is set through a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set_ahead(0)

    def set_ahead(self, seconds: int) -> None:
        """Set the clock so many seconds ahead of the machine's."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n", encoding="ascii")
        new.rename(self._file)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of the processes."""
        return {
            "LD_PRELOAD": str(libfaketime()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def read_every_second(broker: PrivateBroker, site: Site) -> dict[str, object]:
    """Return the configuration of a source that reads a broker as its administrator, without events."""
    return {
        "kind": "rabbitmq",
        "management": broker.management_url,
        "user": broker.administrator.name,
        "password": site.secret(broker.administrator.password),
        "interval": "1s",
        "budget": 0.5,
    }


@contextmanager
def watched(broker: PrivateBroker, folder: Path, clock: SetClock) -> Iterator[tuple[Site, RunningCommand]]:
    site = new_site(folder)
    source = read_every_second(broker, site) | {"events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"}}
    site.configure(sources={"orders": source}, log={"statistics_interval": "1s"}, snmp={"enabled": False})
    with running("run", "--config", site.configuration, log=folder / "log.txt", **clock.variables) as gateway:
        gateway.ready()
        yield site, gateway


async def publish(broker: PrivateBroker, queue: str, messages: int) -> None:
    async with await aio_pika.connect(broker.amqp_url()) as connection, connection.channel() as channel:
        await channel.declare_queue(queue, durable=True)
        for _ in range(messages):
            await channel.default_exchange.publish(aio_pika.Message(b"order"), queue)


def has_recorded(site: Site, queue: str, messages: int) -> bool:
    """Return whether the last recorded number of messages of a queue is this one."""
    sql = """SELECT "values"->>'messages' FROM log WHERE class = 'queue' AND object_name = $name
             AND ("values"->>'messages') IS NOT NULL ORDER BY seq DESC LIMIT 1"""
    with ask(site.folder / "state" / "log", sql, {"name": f"/|{queue}"}) as answer:
        return [str(found) for (found,) in answer.rows] == [str(messages)]


@pytest.mark.long
@pytest.mark.parametrize("ahead", [pytest.param(-24 * HOUR, marks=pytest.mark.prove), 24 * HOUR])
def test_a_source_is_read_on_when_the_clock_was_set(
    ahead: int, rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    clock, queue = SetClock(tmp_path), f"clock-{secrets.token_hex(4)}"
    with watched(rabbitmq, tmp_path, clock) as (site, gateway):
        asyncio.run(publish(rabbitmq, queue, 3))
        wait_until(partial(has_recorded, site, queue, 3), "the first messages are recorded")
        for seconds, messages in ((ahead, 6), (0, 9)):
            clock.set_ahead(seconds)
            asyncio.run(publish(rabbitmq, queue, 3))
            wait_until(partial(has_recorded, site, queue, messages), "what came then is recorded")
        steps = [record["seconds"] for record in gateway.log if record["event"] == "clock-set"]
    assert [round(step, -1) for step in steps] == [ahead, -ahead]
    lives = """SELECT DISTINCT object_id, kind = 'delete' FROM log
               WHERE class = 'queue' AND object_name = $name AND kind IN ('create', 'snapshot', 'delete')"""
    with ask(site.folder / "state" / "log", lives, {"name": f"/|{queue}"}) as answer:
        assert [ended for _, ended in answer.rows] == [False], "it is one object, and lives"
    with ask(site.folder / "state" / "log", "SELECT from_ts, to_ts FROM log WHERE kind = 'gap'") as answer:
        gaps = list(answer.rows)
    assert gaps
    assert all(str(began) <= str(ended) for began, ended in gaps)
    with rabbitmq.http() as http:
        http.delete(f"queues/%2F/{queue}").raise_for_status()
