"""Commands of the projection as batches: in order, bounded, and as many at a time as have collected."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgpack
import pytest
import structlog

from gateway.feed.records import Batch, Hello, SnapshotBegan, SnapshotEnded
from gateway.jmx import delivery as module
from gateway.jmx.commands import Unregister, encode_batch
from gateway.jmx.delivery import Delivery, batches
from gateway.jmx.notifications import EventCursor, OperationCursor
from gateway.jmx.projection import Projection, ProjectionSettings
from gateway.jmx.virtual_machine import PushResult
from tests.components.shop import SERVE_STALE_FOR, START, agent, source
from tests.components.waiting import eventually
from tests.jmx.shop import classes, hall, till

REGISTER = 3


@dataclass
class SlowMachine:
    """A machine that accepts a batch when the test permits it."""

    batches: list[list[list[object]]] = field(default_factory=list)
    sent: int = 0
    let: asyncio.Event = field(default_factory=asyncio.Event)
    result: PushResult = field(default_factory=lambda: PushResult(0, ()))

    async def push(self, batch: bytes) -> PushResult:
        self.sent += 1
        await self.let.wait()
        self.batches.append(msgpack.unpackb(batch, strict_map_key=False))
        return self.result

    def registered(self) -> list[str]:
        """The names of the objects of class till, in order."""
        reported = [c[4] for batch in self.batches for c in batch if c[0] == REGISTER]
        return [str(name).rpartition("id=")[2] for name in reported if "type=till" in str(name)]


def new_projection() -> Projection:
    return Projection(
        ProjectionSettings(SERVE_STALE_FOR, "1.2.3"),
        cursor=EventCursor(),
        operations=OperationCursor(),
        clock=lambda: START,
        log=lambda _event, _detail: None,
    )


@contextlib.asynccontextmanager
async def delivering(machine: SlowMachine) -> AsyncIterator[Delivery]:
    delivery = Delivery(new_projection(), machine.push)
    running = asyncio.create_task(delivery.run(lambda: None))
    try:
        yield delivery
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def publish(delivery: Delivery, first: int, last: int) -> None:
    delivery.received(Batch(1, 1, tuple(till(row) for row in range(first, last + 1))))


def begin(delivery: Delivery) -> None:
    delivery.received(Hello(2, 1, "7b0c", START))
    delivery.received(SnapshotBegan(1, 1))
    delivery.received(Batch(1, 1, (source(), *classes(), agent(fresh=True), hall())))


async def test_what_collects_while_a_batch_is_on_its_way_is_one_batch() -> None:
    machine = SlowMachine()
    async with delivering(machine) as delivery:
        begin(delivery)
        await asyncio.sleep(0)  # the first batch is on its way
        for row in range(1, 10):
            publish(delivery, row, row)
        machine.let.set()
        await asyncio.wait_for(_reported(machine, 9), 60)
    assert len(machine.batches) == 2
    assert machine.registered() == [str(row) for row in range(1, 10)]


async def test_a_batch_is_sent_before_the_former_one_has_arrived_and_a_third_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BATCH_COMMANDS", 10)
    machine = SlowMachine()
    async with delivering(machine) as delivery:
        begin(delivery)
        publish(delivery, 1, 55)
        for _ in range(10):
            await asyncio.sleep(0)
        assert machine.sent == 2
        machine.let.set()
        await asyncio.wait_for(_reported(machine, 55), 60)
    assert machine.registered() == [str(row) for row in range(1, 56)]


async def test_a_fault_behind_a_batch_that_is_on_its_way_is_the_end() -> None:
    ended = asyncio.Event()

    async def push(batch: bytes) -> PushResult:
        if msgpack.unpackb(batch):
            await ended.wait()
        raise ConnectionError("gone")

    delivery = Delivery(new_projection(), push)
    running = asyncio.create_task(delivery.run(lambda: None))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(delivery.caught_up())
    ended.set()
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(running, 60)
    await asyncio.wait_for(waiting, 60)


async def test_a_batch_has_only_so_many_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_COMMANDS", 10)
    machine = SlowMachine()
    machine.let.set()
    async with delivering(machine) as delivery:
        begin(delivery)
        publish(delivery, 1, 55)
        await asyncio.wait_for(_reported(machine, 55), 60)
    assert max(map(len, machine.batches)) == 10
    assert machine.registered() == [str(row) for row in range(1, 56)]


async def test_no_more_is_read_while_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 20)
    monkeypatch.setattr(module, "BATCH_COMMANDS", 10)
    machine = SlowMachine()
    async with delivering(machine) as delivery:
        begin(delivery)
        await asyncio.wait_for(delivery.ready(), 60)
        publish(delivery, 1, 50)
        waiting = asyncio.create_task(delivery.ready())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        machine.let.set()
        await asyncio.wait_for(waiting, 60)
        assert len(machine.registered()) == 50


async def test_it_is_complete_when_the_machine_has_the_whole_snapshot() -> None:
    machine = SlowMachine()
    async with delivering(machine) as delivery:
        begin(delivery)
        publish(delivery, 1, 3)
        delivery.received(SnapshotEnded(1, 1))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not delivery.complete.is_set()
        machine.let.set()
        await asyncio.wait_for(delivery.complete.wait(), 60)
        assert machine.registered() == ["1", "2", "3"]


async def test_it_is_complete_when_there_is_no_one_to_notify() -> None:
    machine = SlowMachine()
    machine.let.set()
    async with delivering(machine) as delivery:
        delivery.disconnected("no such file")
        await asyncio.wait_for(delivery.complete.wait(), 60)


async def test_the_end_of_the_machine_is_the_end() -> None:
    async def push(_batch: bytes) -> PushResult:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await Delivery(new_projection(), push).run(lambda: None)


async def test_what_the_machine_could_not_do_is_logged_and_bounded() -> None:
    machine = SlowMachine(result=PushResult(40, tuple(f"mistake {number}" for number in range(40))))
    machine.let.set()
    with structlog.testing.capture_logs() as logged:
        async with delivering(machine) as delivery:
            begin(delivery)
            await asyncio.wait_for(_any(machine), 60)
            await asyncio.sleep(0)
    assert len(logged) == 20
    assert logged[0] == {
        "event": "jmx-command-failed",
        "log_level": "error",
        "reason": "mistake 0",
        "errors": 40,
        "left_out": 0,
    }


async def test_waiting_for_the_virtual_machine_covers_what_was_sent_before() -> None:
    machine = SlowMachine()
    async with delivering(machine) as delivery:
        begin(delivery)
        publish(delivery, 1, 3)
        waiting = asyncio.create_task(delivery.caught_up())
        given_up = asyncio.create_task(delivery.caught_up())
        await asyncio.sleep(0)
        given_up.cancel()
        assert not waiting.done()
        machine.let.set()
        await asyncio.wait_for(waiting, 60)
        assert machine.registered() == ["1", "2", "3"]
        machine.let.clear()
        await asyncio.wait_for(delivery.caught_up(), 60)
        publish(delivery, 4, 4)
        waiting = asyncio.create_task(delivery.caught_up())
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 60)  # the machine has ended: nobody is left to be told
    await asyncio.wait_for(delivery.caught_up(), 60)


async def test_a_virtual_machine_that_gets_no_updates_gets_signs_of_life() -> None:
    machine = SlowMachine()
    machine.let.set()
    async with delivering(machine):

        async def twice() -> bool:
            return machine.batches.count([]) >= 2

        await eventually(twice, "empty batches were pushed")


def test_a_batch_that_is_too_large_is_halved_and_a_command_left_out() -> None:
    commands = [Unregister(number) for number in range(1, 101)]
    limit = len(encode_batch(commands)) // 3
    made = batches(commands, limit)
    assert len(made) == 4
    assert all(len(octets) <= limit for octets in made)
    assert [command[1] for octets in made for command in msgpack.unpackb(octets)] == list(range(1, 101))
    with structlog.testing.capture_logs() as logged:
        assert batches(commands, 3) == []
    assert {record["event"] for record in logged} == {"jmx-command-too-large"}
    assert batches([]) == []


async def _reported(machine: SlowMachine, tills: int) -> None:
    async def all_reported() -> bool:
        return len(machine.registered()) >= tills

    await eventually(all_reported, f"{tills} are registered")


async def _any(machine: SlowMachine) -> None:
    async def something() -> bool:
        return bool(machine.batches)

    await eventually(something, "something was pushed")
