"""The line between a process and whoever started it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from gateway.service.lifeline import READY, Lifeline

Line = tuple[socket.socket, Lifeline]


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
