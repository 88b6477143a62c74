"""Telling systemd how the gateway is (sd_notify(3)); without systemd, nobody is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_MICROSECONDS: Final = 10**6
_SHARE: Final = 4
"""Signs of life in one interval of the watchdog: a late one is no reason to be killed."""


class ServiceManager:
    """The service manager that started this process.

    Args:
        address: of its socket; empty where there is none. ``@`` begins an abstract one.
        watchdog: seconds in which it wants a sign of life; 0 for none.
    """

    def __init__(self, address: str = "", watchdog: float = 0.0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog = watchdog

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str] = os.environ) -> ServiceManager:
        """As the environment says. Its variables are taken away: they are not for our own processes."""
        address, interval, pid = (environment.pop(name, "") for name in _VARIABLES)
        ours = not pid or pid == str(os.getpid())
        watchdog = (
            int(interval) / _MICROSECONDS if ours and interval.isascii() and interval.isdigit() else 0.0
        )
        return cls(address if address[:1] in {"/", "@"} else "", watchdog)

    def ready(self) -> None:
        """The gateway does its work now."""
        self._tell("READY=1", "STATUS=running")

    def stopping(self) -> None:
        """The gateway is about to end."""
        self._tell("STOPPING=1", "STATUS=stopping")

    async def watch(self, silent: Callable[[], Awaitable[list[str]]]) -> None:
        """Give signs of life, for ever, as long as no process is silent.

        One that is silent for a whole interval is hung; systemd ends the gateway then and starts it again.

        Args:
            silent: names of the processes that do not answer.
        """
        if not self._watchdog or not self._address:
            await asyncio.get_running_loop().create_future()
        while True:
            names = await silent()
            if names:
                log.warning("processes-silent", names=names)
                self._tell(f"STATUS=silent: {', '.join(names)}")
            else:
                self._tell("WATCHDOG=1", "STATUS=running")
            await asyncio.sleep(self._watchdog / _SHARE)

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # It may have ended, or its queue may be full: neither is a reason for us to wait or to fail.
        with (
            contextlib.suppress(OSError),
            socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            ) as line,
        ):
            line.sendto("\n".join(lines).encode(), self._address)
