"""The feed over its real Unix socket: snapshot, batches, a killed core, a stranger's path."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

from gateway.feed.client import FeedLink
from gateway.feed.messages import VERSION, FrameReader, encode
from gateway.feed.records import (
    Alive,
    Batch,
    BatchPart,
    FeedMessage,
    Hello,
    Record,
    SnapshotBegan,
    SnapshotEnded,
)
from gateway.feed.server import FeedServer
from tests.components.waiting import DEADLINE
from tests.feed.test_messages import OBJECT, RECORDS


class Recorder:
    """A north that records the messages that it receives."""

    def __init__(self) -> None:
        self.messages: list[FeedMessage | str] = []
        self._changed = asyncio.Event()

    def received(self, message: FeedMessage) -> None:
        self.messages.append(message)
        self._changed.set()

    def disconnected(self, reason: str) -> None:
        self.messages.append(reason)
        self._changed.set()

    async def until(self, message: FeedMessage | str) -> None:
        async with asyncio.timeout(DEADLINE):
            while message not in self.messages:
                self._changed.clear()
                await self._changed.wait()


def server(path: Path, epoch: int, records: list[Record], limit: int = 1000) -> FeedServer:
    return FeedServer(path, Hello(VERSION, epoch, "gw", 0), lambda: (tuple(records), 5), limit)


@contextlib.asynccontextmanager
async def following(
    path: Path, silence: float = DEADLINE, slice_records: int | None = None
) -> AsyncIterator[Recorder]:
    recorder = Recorder()
    link = FeedLink(path, recorder, silence=silence, slice_records=slice_records)
    task = asyncio.create_task(link.run())
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_large_batch_is_received_in_slices_if_the_front_end_wants_them(tmp_path: Path) -> None:
    feed = server(tmp_path / "f.sock", 1, [])
    await feed.start()
    async with following(tmp_path / "f.sock", slice_records=3) as northbound:
        await northbound.until(SnapshotEnded(1, 5))
        feed.publish(Batch(1, 6, (OBJECT,) * 3))
        feed.publish(Batch(1, 7, (OBJECT,) * 7))
        feed.publish(Batch(1, 8, (OBJECT,)))
        await northbound.until(Batch(1, 8, (OBJECT,)))
        assert northbound.messages[-5:] == [
            Batch(1, 6, (OBJECT,) * 3),
            BatchPart(1, 7, (OBJECT,) * 3),
            BatchPart(1, 7, (OBJECT,) * 3),
            Batch(1, 7, (OBJECT,)),
            Batch(1, 8, (OBJECT,)),
        ]
    await feed.close()


async def test_a_front_end_receives_the_gateways_identity_then_everything_then_changes(
    tmp_path: Path,
) -> None:
    feed = server(tmp_path / "f.sock", 1, [OBJECT])
    await feed.start()
    async with following(tmp_path / "f.sock") as northbound:
        await northbound.until(SnapshotEnded(1, 5))
        feed.publish(Batch(1, 6, tuple(RECORDS)))
        await northbound.until(Batch(1, 6, tuple(RECORDS)))
        assert northbound.messages == [
            Hello(VERSION, 1, "gw", 0),
            SnapshotBegan(1, 5),
            Batch(1, 5, (OBJECT,)),
            SnapshotEnded(1, 5),
            Batch(1, 6, tuple(RECORDS)),
        ]
    await feed.close()


async def test_a_front_end_finds_a_new_core_and_sees_that_it_is_another(tmp_path: Path) -> None:
    path = tmp_path / "f.sock"
    first = server(path, 1, [])
    await first.start()
    async with following(path) as northbound:
        await northbound.until(SnapshotEnded(1, 5))
        await first.close()
        await northbound.until("the core closed the feed")
        second = server(path, 2, [])
        await second.start()
        await northbound.until(SnapshotEnded(2, 5))
        await second.close()


async def test_a_core_that_ends_when_all_was_sent_loses_nothing(tmp_path: Path) -> None:
    feed = server(tmp_path / "f.sock", 1, [OBJECT] * 1000, limit=100_000)
    await feed.start()
    async with following(tmp_path / "f.sock") as northbound:
        await northbound.until(Hello(VERSION, 1, "gw", 0))
        last = Batch(1, 200, (OBJECT,))
        for number in range(6, 201):
            feed.publish(Batch(1, number, (OBJECT,)))
        await asyncio.wait_for(feed.until_sent(), DEADLINE)
        await feed.close()
        await northbound.until("the core closed the feed")
        assert SnapshotEnded(1, 5) in northbound.messages
        assert last in northbound.messages


async def test_a_subscriber_that_stands_still_delays_neither_others_nor_the_end_of_the_core(
    tmp_path: Path,
) -> None:
    """As a process that was sent SIGSTOP: it is connected, and reads nothing of a snapshot."""
    feed = server(tmp_path / "f.sock", 1, [OBJECT] * 20_000)
    await feed.start()
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.connect(str(tmp_path / "f.sock"))
        async with following(tmp_path / "f.sock") as northbound:
            await northbound.until(SnapshotEnded(1, 5))
            feed.publish(Batch(1, 6, (OBJECT,)))
            await northbound.until(Batch(1, 6, (OBJECT,)))
            assert feed.subscribers == 2
            assert feed.waiting > 0, "what the other one does not read"
            await asyncio.wait_for(feed.close(), DEADLINE)
            await northbound.until("the core closed the feed")


async def test_a_core_with_nothing_to_report_says_that_it_lives(tmp_path: Path) -> None:
    path = tmp_path / "f.sock"
    feed = server(path, 1, [])
    await feed.start()
    reader, writer = await asyncio.open_unix_connection(path)
    frames, reported = FrameReader(), list[FeedMessage]()
    async with asyncio.timeout(DEADLINE):
        while reported.count(Alive()) < 2:
            reported += frames.feed(await reader.read(1024))
    assert reported == [
        Hello(VERSION, 1, "gw", 0),
        SnapshotBegan(1, 5),
        SnapshotEnded(1, 5),
        Alive(),
        Alive(),
    ]
    writer.close()
    await feed.close()


async def test_a_core_that_stands_still_is_taken_for_gone_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "f.sock"

    async def stand_still(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode(Hello(VERSION, 1, "gw", 0)))
        await reader.read()  # until the north hangs up
        writer.close()

    still = await asyncio.start_unix_server(stand_still, path)
    async with following(path, silence=0.2) as northbound:
        await northbound.until("the core has said nothing for 0.2 s: it stands still")
        path.unlink()
        feed = server(path, 1, [])
        await feed.start()
        await northbound.until(SnapshotEnded(1, 5))
        await feed.close()
    still.close()


async def test_a_front_end_that_stood_still_marks_all_stale_before_it_shows_anything(tmp_path: Path) -> None:
    path = tmp_path / "f.sock"
    feed = server(path, 1, [])
    await feed.start()
    northbound = Recorder()
    link = FeedLink(path, northbound, silence=0.2)
    task = asyncio.create_task(link.run())
    await northbound.until(SnapshotEnded(1, 5))
    feed.publish(Batch(1, 6, tuple(RECORDS)))
    time.sleep(0.5)  # noqa: ASYNC251  as a process stands still, with all that its event loop has to do
    link.judge()
    assert "this process stood still" in str(northbound.messages[-1])
    link.judge()
    assert "this process stood still" in str(northbound.messages[-1])
    assert Batch(1, 6, tuple(RECORDS)) not in northbound.messages  # nor what waited in the socket meanwhile
    northbound.messages.clear()
    await northbound.until(SnapshotEnded(1, 5))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await feed.close()


async def test_a_socket_left_by_a_killed_core_is_no_obstacle(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(str(tmp_path / "f.sock"))
    feed = server(tmp_path / "f.sock", 1, [])
    await feed.start()
    async with following(tmp_path / "f.sock") as northbound:
        await northbound.until(SnapshotEnded(1, 5))
    await feed.close()


async def test_only_the_owner_may_open_the_socket(tmp_path: Path) -> None:
    feed = server(tmp_path / "run" / "f.sock", 1, [])
    await feed.start()
    assert (tmp_path / "run" / "f.sock").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    await feed.close()
