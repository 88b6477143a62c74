"""Unused ports of 127.0.0.1."""

from __future__ import annotations

import secrets
import socket

_FIRST, _NUMBER = 10_000, 10_000
"""Below those from which systems take the ports of clients, of which other tests have many."""


def free_udp_port() -> int:
    """Return an unused UDP port."""
    return _free(socket.SOCK_DGRAM)


def free_tcp_port() -> int:
    """Return an unused TCP port."""
    return _free(socket.SOCK_STREAM)


def _free(kind: socket.SocketKind) -> int:
    while True:
        port = _FIRST + secrets.randbelow(_NUMBER)
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
