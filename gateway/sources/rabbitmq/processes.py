"""Which Erlang process serves which connection or channel: events call them so, the management API never."""

from __future__ import annotations

MAX_PROCESSES = 500_000
"""Connections, and channels, known by their process; of further ones events do not tell whose they are."""


class Processes:
    """Names by process, learnt from creation events; those of what was there before are not known."""

    def __init__(self) -> None:
        self._connections: dict[str, str] = {}
        self._of_connections: dict[str, str] = {}
        self._channels: dict[str, str] = {}

    def connection(self, process: str) -> str | None:
        """The name of the connection that a process serves."""
        return self._connections.get(process)

    def channel(self, process: str) -> str | None:
        """The name of the channel that a process serves."""
        return self._channels.get(process)

    def connection_opened(self, process: str, name: str) -> None:
        """A process serves a connection from now on."""
        if len(self._of_connections) < MAX_PROCESSES:
            self._connections[process] = name
            self._of_connections[name] = process

    def connection_closed(self, name: str) -> None:
        """A connection ended, and its process with it."""
        self._connections.pop(self._of_connections.pop(name, ""), None)

    def channel_opened(self, process: str, name: str) -> None:
        """A process serves a channel from now on."""
        if len(self._channels) < MAX_PROCESSES:
            self._channels[process] = name

    def channel_closed(self, process: str) -> None:
        """A process that serves a channel ended."""
        self._channels.pop(process, None)

    def forget(self) -> None:
        """Events were lost: a process may by now serve another, or none."""
        self._connections.clear()
        self._of_connections.clear()
        self._channels.clear()
