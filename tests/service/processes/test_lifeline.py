"""The line between a process and the process that started it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from gateway.service.metrics import families
from gateway.service.metrics.families import Reading
from gateway.service.processes.lifeline import (
    MAX_ANNOUNCED_OCTETS,
    MAX_ANSWER_OCTETS,
    READY,
    Announcement,
    GatewayStop,
    Lifeline,
    Message,
    NewListener,
    ProcessEnd,
    ProcessLine,
)

Line = tuple[socket.socket, Lifeline]
BATCHES = families.FEED_BATCHES.at(7)
DEADLINE = 60.0


@pytest.fixture
def line() -> Iterator[Line]:
    """The parent's end, and the child's."""
    ours, theirs = socket.socketpair()
    child = Lifeline(theirs.detach())
    with ours:
        yield ours, child
    child.close()


def test_the_child_says_that_it_is_ready(line: Line) -> None:
    parent, child = line
    child.ready()
    assert parent.recv(2) == READY


async def test_the_child_learns_that_its_parent_has_gone(line: Line) -> None:
    parent, child = line
    gone = asyncio.create_task(child.parent_gone())
    await asyncio.sleep(0)
    assert not gone.done()

    parent.close()

    await gone


async def test_a_parent_that_goes_without_having_listened_has_gone_too(line: Line) -> None:
    parent, child = line
    child.ready()
    parent.close()  # with the unread octet in it, which resets the connection
    await child.parent_gone()


async def test_a_parent_that_is_gone_already_does_not_keep_the_child_from_ending(line: Line) -> None:
    parent, child = line
    parent.close()
    child.ready()
    await child.parent_gone()


async def test_who_was_started_by_hand_has_no_parent() -> None:
    alone = Lifeline(None)
    alone.ready()
    gone = asyncio.create_task(alone.parent_gone())
    done, _ = await asyncio.wait({gone}, timeout=0.05)
    assert not done
    gone.cancel()


@asynccontextmanager
async def both_ends(line: Line) -> AsyncIterator[tuple[ProcessLine, Lifeline, asyncio.Event]]:
    """Provide the listening supervisor's end, the child's end, and the event of the child's readiness."""
    parent, child = line
    listening, ready = ProcessLine(parent), asyncio.Event()
    receiving = asyncio.create_task(listening.receive(ready.set))
    try:
        yield listening, child, ready
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)


async def test_the_child_answers_as_often_as_it_is_asked(line: Line) -> None:
    async with both_ends(line) as (parent, child, ready):
        child.metrics.add("feed", lambda: [BATCHES])
        child.ready()
        await ready.wait()
        answering = asyncio.create_task(child.parent_gone())
        assert await parent.ask(DEADLINE) == [BATCHES]
        for answer in await asyncio.gather(parent.ask(DEADLINE), parent.ask(DEADLINE)):
            assert answer == [BATCHES]
        answering.cancel()


async def test_one_that_is_not_ready_is_not_asked(line: Line) -> None:
    async with both_ends(line) as (parent, _, ready):
        assert await parent.ask(DEADLINE) is None
        assert not parent.is_ready
        assert not ready.is_set()


async def test_one_that_was_silent_answers_who_asks_next(line: Line) -> None:
    async with both_ends(line) as (parent, child, ready):
        child.metrics.add("feed", lambda: [BATCHES])
        child.ready()
        await ready.wait()
        assert await parent.ask(0.01) is None
        assert parent.is_ready
        answering = asyncio.create_task(child.parent_gone())
        assert await parent.ask(DEADLINE) == [BATCHES]
        answering.cancel()


async def test_one_that_ends_answers_no_request(line: Line) -> None:
    async with both_ends(line) as (parent, child, ready):
        child.ready()
        await ready.wait()
        asking = asyncio.create_task(parent.ask(DEADLINE))
        await asyncio.sleep(0)
        child.close()
        assert await asking is None
        assert not parent.is_ready


async def test_the_child_receives_what_is_announced(line: Line) -> None:
    async with both_ends(line) as (parent, child, ready):
        assert not parent.announce(GatewayStop("too early")), "nobody reads it yet"
        child.ready()
        await ready.wait()
        announced: list[Message] = []
        answering = asyncio.create_task(child.parent_gone(announced.append))
        assert parent.announce(ProcessEnd("snmp", "it was ended by SIGKILL"))
        assert parent.announce(GatewayStop("it got SIGTERM"))
        assert await parent.ask(DEADLINE) == []
        assert announced == [ProcessEnd("snmp", "it was ended by SIGKILL"), GatewayStop("it got SIGTERM")]
        answering.cancel()


async def test_the_child_is_handed_a_socket_between_questions_and_announcements(line: Line) -> None:
    async with both_ends(line) as (parent, child, ready):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            assert not parent.hand_over(listener), "the child is not ready yet"
            child.ready()
            await ready.wait()
            received: list[Message] = []
            answering = asyncio.create_task(child.parent_gone(received.append))
            assert parent.announce(GatewayStop("before"))
            assert parent.hand_over(listener)
            assert parent.announce(GatewayStop("behind"))
            assert await parent.ask(DEADLINE) == []
            before, handed, behind = received
            assert (before, behind) == (GatewayStop("before"), GatewayStop("behind"))
            assert isinstance(handed, NewListener)
            with handed.listener as same:
                assert same.getsockname() == listener.getsockname()
                assert not same.get_inheritable()
        answering.cancel()


async def test_a_child_that_takes_no_socket_keeps_none_open(line: Line) -> None:
    async with both_ends(line) as (parent, child, ready):
        child.ready()
        await ready.wait()
        answering = asyncio.create_task(child.parent_gone())
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                assert parent.hand_over(theirs)
            assert await parent.ask(DEADLINE) == []
            assert ours.recv(1) == b"", "its other end is closed"
        answering.cancel()


async def test_a_child_that_wants_no_announcements_goes_on_answering(line: Line) -> None:
    async with both_ends(line) as (parent, child, ready):
        child.ready()
        await ready.wait()
        answering = asyncio.create_task(child.parent_gone())
        assert parent.announce(GatewayStop("it got SIGTERM"))
        assert await parent.ask(DEADLINE) == []
        answering.cancel()


async def test_the_child_reports_the_end_of_what_it_started_before_its_next_answer(line: Line) -> None:
    parent_end, child = line
    parent, ready, reported = ProcessLine(parent_end), asyncio.Event(), list[Announcement]()
    receiving = asyncio.create_task(parent.receive(ready.set, reported.append))
    child.metrics.add("feed", lambda: [BATCHES])
    child.ready()
    await ready.wait()
    child.report(ProcessEnd("jvm", "it was ended by SIGKILL"))
    answering = asyncio.create_task(child.parent_gone())
    assert await parent.ask(DEADLINE) == [BATCHES]
    assert reported == [ProcessEnd("jvm", "it was ended by SIGKILL")]
    for task in (receiving, answering):
        task.cancel()


@pytest.mark.parametrize("announced", [b"\x80", b"\x81\xa4type\xa3new", b"\xc1"])
async def test_an_announcement_of_another_version_is_passed_over(line: Line, announced: bytes) -> None:
    (parent, child), taken = line, list[Message]()
    answering = asyncio.create_task(child.parent_gone(taken.append))
    parent.sendall(b"!" + struct.pack(">I", len(announced)) + announced + b"?")
    loop = asyncio.get_running_loop()
    parent.setblocking(False)
    assert await loop.sock_recv(parent, 4) == struct.pack(">I", 1)
    assert taken == []
    answering.cancel()


async def test_an_announcement_without_measure_ends_the_conversation(line: Line) -> None:
    parent, child = line
    parent.sendall(b"!" + struct.pack(">I", MAX_ANNOUNCED_OCTETS + 1))
    await child.parent_gone()


@asynccontextmanager
async def asked_by_another_version(
    line: Line,
) -> AsyncIterator[tuple[asyncio.Task[list[Reading] | None], socket.socket]]:
    """Provide the task of a request, and the socket on which a child of another version answers it."""
    parent, child = line
    async with both_ends((parent, Lifeline(None))) as (listening, _, ready):
        child.ready()
        await ready.wait()
        asking = asyncio.create_task(listening.ask(DEADLINE))
        await asyncio.sleep(0)
        assert child._socket is not None  # noqa: SLF001  it says what ours never would
        yield asking, child._socket  # noqa: SLF001


@pytest.mark.parametrize("answer", [b"\xc1", b"", b"\x91\xc0"])
async def test_an_answer_that_makes_no_sense_reports_nothing(line: Line, answer: bytes) -> None:
    async with asked_by_another_version(line) as (asking, child):
        child.sendall(struct.pack(">I", len(answer)) + answer)
        assert await asking == []


async def test_an_answer_without_measure_ends_the_conversation(line: Line) -> None:
    async with asked_by_another_version(line) as (asking, child):
        child.sendall(struct.pack(">I", MAX_ANSWER_OCTETS + 1))
        assert await asking is None
