"""The rights of the demonstration's users, revoked and granted again."""

from __future__ import annotations

import asyncio

from gateway.demo.broker import BrokerError
from gateway.demo.demonstration import Demonstration
from tests.components.waiting import eventually


class Rights:
    """The rights of users on the demonstration's broker.

    Args:
        demonstration: running.
    """

    def __init__(self, demonstration: Demonstration) -> None:
        assert demonstration.broker is not None
        self._demonstration = demonstration
        self._broker = demonstration.broker

    async def give(self) -> None:
        """Grant all users the rights of the demonstration's beginning, with their virtual hosts."""
        await self._demonstration.grant()

    async def change(self, method: str, path: str, body: object = None) -> None:
        """Send an administrator's request to the management API."""
        await asyncio.to_thread(self._change, method, path, body)

    async def close_connections(self, user: str) -> None:
        """Close the connections of a user: changed rights apply from the next connection on."""

        def are_closed() -> bool:
            try:
                self._broker.rabbitmqctl("close_all_user_connections", user, "rights have changed")
            except BrokerError as error:
                if "noproc" not in str(error):
                    raise
                return False  # one of them has just ended by itself
            return True

        await eventually(lambda: asyncio.to_thread(are_closed), "the connections are closed")

    def _change(self, method: str, path: str, body: object) -> None:
        with self._broker.http() as client:
            client.request(method, path, json=body).raise_for_status()
