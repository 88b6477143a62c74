"""A reader of datagrams that only stores them, and passes them on as fast as a slower program takes them."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RECEIVED_OCTETS = 4 << 20
"""The size that is asked of the kernel for what waits for the reader; it gives what it permits."""
_LONGEST = 65_535


@contextmanager
def buffered(port: int, onward: int) -> Iterator[None]:
    """Receive all datagrams at a UDP port, and send them over TCP to ``onward``, in order.

    SNMP over TCP (RFC 3430) is the messages one behind the other. What waits is bounded by memory alone.
    """
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as received,
        socket.create_connection(("127.0.0.1", onward)) as passed_on,
    ):
        received.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_OCTETS)
        received.bind(("127.0.0.1", port))
        threads = [
            threading.Thread(target=_receive, args=(received, waiting), daemon=True),
            threading.Thread(target=_pass_on, args=(waiting, passed_on), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                received.shutdown(socket.SHUT_RDWR)  # an error for UDP, but it wakes the thread
            waiting.put(b"")
            for thread in threads:
                thread.join()


def _receive(received: socket.socket, waiting: queue.SimpleQueue[bytes]) -> None:
    while datagram := received.recv(_LONGEST):
        waiting.put(datagram)


def _pass_on(waiting: queue.SimpleQueue[bytes], passed_on: socket.socket) -> None:
    while datagram := waiting.get():
        passed_on.sendall(datagram)
