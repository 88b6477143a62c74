"""Reconnection: the choice of the node, and the pauses."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

import structlog

from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    is_cancelled,
    link_error,
)

Node = TypeVar("Node")


class NodeChoice(Generic[Node]):
    """Nodes in the order in which to try them: the one that failed last comes last.

    Args:
        nodes: the nodes in the initial order; at least one.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._order = list(nodes)

    @property
    def preferred(self) -> Node:
        """The node to try first: the one in use, until it fails."""
        return self._order[0]

    def in_order(self) -> tuple[Node, ...]:
        """Return every node once, the preferred one first."""
        return tuple(self._order)

    def failed(self, node: Node) -> bool:
        """Note that ``node`` failed; return whether another one is preferred from now on."""
        before = self.preferred
        self._order.remove(node)
        self._order.append(node)
        return self.preferred != before

    def prefer(self, node: Node) -> None:
        """Try ``node`` first from now on."""
        self._order.remove(node)
        self._order.insert(0, node)


log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.5, 10.0
STEADY_SECONDS = 10.0
"""A connection that lasted so long was a good one: the pause is reset after it."""


async def reconnecting(
    converse: Callable[[], Awaitable[None]],
    down: Callable[[LinkError], None],
    sooner: asyncio.Event | None = None,
) -> None:
    """Run ``converse`` until cancelled, with back-off and jitter.

    Args:
        converse: opens a connection and uses it; always ends by a `LinkError`.
        down: called with the reason of each end.
        sooner: set when something else shows that the broker is back: that ends the pause, and the next ones
            are short again.
    """
    is_back = sooner or asyncio.Event()
    loop = asyncio.get_running_loop()
    pause = FIRST_PAUSE_SECONDS
    while True:
        began = loop.time()
        try:
            await converse()
        except LinkError as error:
            if is_cancelled():  # while opening a connection, which reports it as a failure
                raise asyncio.CancelledError from error
            down(error)
        if loop.time() - began > STEADY_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        seconds = pause * random.uniform(0.5, 1.0)  # noqa: S311  jitter needs no secrecy
        pause = min(2 * pause, LAST_PAUSE_SECONDS)
        # Not wait_for: in Python 3.11 it ignores a cancellation that comes just when the event was set.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await is_back.wait()
            is_back.clear()
            pause = FIRST_PAUSE_SECONDS


@contextlib.contextmanager
def link_errors(endpoint: AmqpEndpoint, role: str) -> Iterator[None]:
    """Convert any error of a conversation with ``endpoint`` to a `LinkError`, except cancellation.

    Args:
        endpoint: the broker.
        role: the role of the connection, for the log.
    """
    try:
        yield
    except LinkError:
        raise
    except FAILURES as error:
        raise link_error(endpoint, error) from error
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise LinkError(Trouble.BROKEN, f"{endpoint.url}: the connection ended") from error
    except Exception as error:
        # An error of the gateway itself, in one source: the others go on, and this one connects again.
        log.exception("link-failed", role=role)
        text = f"{endpoint.url}: internal error {type(error).__name__}: see the log"
        raise LinkError(Trouble.BROKEN, text) from error
