"""Unused ports of 127.0.0.1."""

from __future__ import annotations

import socket


def free_udp_port() -> int:
    """Return an unused UDP port."""
    return _free(socket.SOCK_DGRAM)


def free_tcp_port() -> int:
    """Return an unused TCP port."""
    return _free(socket.SOCK_STREAM)


def _free(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
