"""Ports of 127.0.0.1 that nobody uses now."""

from __future__ import annotations

import socket


def free_udp_port() -> int:
    """For datagrams."""
    return _free(socket.SOCK_DGRAM)


def free_tcp_port() -> int:
    """For connections."""
    return _free(socket.SOCK_STREAM)


def _free(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
