"""A receiver of version 2c notifications on a socket of its own, which answers informs if enabled."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

from gateway.snmp import message
from tests.components.waiting import DEADLINE
from tests.snmp.notifications.story import Received, answer_to, read


class UdpReceiver:
    """A receiver at a free port of 127.0.0.1; ``answering`` may be changed at any time."""

    def __init__(self, bound: socket.socket) -> None:
        self.socket = bound
        self.answering = False
        self.received: list[Received] = []

    @property
    def address(self) -> str:
        """The address as in a configuration."""
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def until(self, condition: Callable[[Received], bool], what: str) -> Received:
        """Return the next notification for which ``condition`` holds; keep all in ``received``."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            found = self._take(end - time.monotonic())
            if found is not None and condition(found):
                return found
        raise AssertionError(f"not within {DEADLINE:g} s: {what}; got {[each.oid for each in self.received]}")

    def drain(self) -> list[Received]:
        """Receive what has arrived by now; return all notifications received so far."""
        while self._take(0.001) is not None:
            pass
        return self.received

    def _take(self, seconds: float) -> Received | None:
        self.socket.settimeout(max(seconds, 0.001))
        try:
            datagram, sender = self.socket.recvfrom(65_536)
        except TimeoutError:
            return None
        found = read(datagram)
        self.received.append(found)
        if self.answering and found.pdu_type == message.INFORM:
            self.socket.sendto(answer_to(datagram), sender)
        return found


@contextlib.contextmanager
def udp_receiver() -> Iterator[UdpReceiver]:
    """Provide a receiver for as long as the context lasts."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        yield UdpReceiver(bound)
