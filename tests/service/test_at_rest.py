"""The gateway at rest, by the broker's own figures: no connection, no channel, no crash report."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from gateway.demo.broker import PrivateBroker
from tests.components.waiting import eventually
from tests.hypothesis_profiles import PROVING
from tests.service.processes.test_agent import site
from tests.sources.rabbitmq.watching import reading_user, watch

OPENED_AND_CLOSED = (
    *("connection_created", "connection_closed", "channel_created", "channel_closed"),
    *("queue_created", "queue_deleted"),
)
REST_MILLISECONDS = 17_000 if PROVING else 6_000
"""The time in which each watch and probe of the gateway comes round three times, or once."""


class Figures:
    """The broker's figures about its connections, channels and queues, by its own clock."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._uptime, self._counted = self._read()

    def rest(self) -> bool:
        """Return whether nothing was opened or closed for `REST_MILLISECONDS`."""
        uptime, counted = self._read()
        if counted != self._counted:
            self._uptime, self._counted = uptime, counted
        return None not in counted.values() and uptime - self._uptime >= REST_MILLISECONDS

    def _read(self) -> tuple[int, dict[str, int | None]]:
        (node,) = self._client.get("nodes").raise_for_status().json()
        # A node that has only just started shows no figures yet.
        return node.get("uptime", 0), {name: node.get(name) for name in OPENED_AND_CLOSED}


@pytest.mark.long
@pytest.mark.each_rabbitmq(takes_long=True)
async def test_at_rest_the_gateway_opens_and_closes_nothing(
    own_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    """The gateway has sources of kind rabbitmq and qmf, and an agent in a process of its own."""
    with own_rabbitmq.http() as client, reading_user(own_rabbitmq, ["/"]) as user:

        async def rests() -> None:
            figures = Figures(client)

            async def rested() -> bool:
                return await asyncio.to_thread(figures.rest)

            await eventually(rested, "nothing is opened or closed")

        async with site(own_rabbitmq, tmp_path), watch(own_rabbitmq, user) as watched:

            async def synchronised() -> bool:
                return watched.synchronised

            await eventually(synchronised, "the source has read everything")
            await rests()
        await rests()
    log = own_rabbitmq.log_file.read_text(errors="replace").lower()
    assert "crash" not in log
    assert "[error]" not in log
