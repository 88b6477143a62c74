"""An application that speaks AMI: plain lines on a socket, written by hand."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from tests.components.waiting import DEADLINE


class Application:
    """An application's connection to a relay.

    Args:
        connection: the open connection.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")

    def say(self, *lines: str) -> None:
        """Send lines, all at once."""
        self._connection.sendall("".join(f"{line}\n" for line in lines).encode("ascii"))

    def receive(self) -> str:
        """Return the next line, without its end; an empty text if the other side closed the connection."""
        return self._lines.readline().decode("ascii").strip("\r\n")

    def receives(self, pattern: str) -> re.Match[str]:
        """Return the match of the pattern in the next line that has one; skip the lines before it.

        Raises:
            AssertionError: the other side has closed the connection.
        """
        while line := self.receive():
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the connection is closed, and nothing like {pattern!r} was heard")

    def receive_all(self) -> list[str]:
        """Return all lines until the other side closes the connection."""
        return list(iter(self.receive, ""))

    def log_in(self, name: str, more: str = "") -> None:
        """Log in, and wait for the reply, unless the login asks for none (QUIET)."""
        self.say(f'L|I="{name}"{more}')
        if "QUIET" not in more:
            self.receives(r"\|S=0")

    def close(self) -> None:
        """Close the connection."""
        self._lines.close()
        self._connection.close()


@contextmanager
def connected(port: int, context: ssl.SSLContext | None = None) -> Iterator[Application]:
    """Provide an application that is connected to a port of this machine and not logged in."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
    if context is not None:
        connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
    application = Application(connection)
    try:
        yield application
    finally:
        application.close()
