"""Unused ports of 127.0.0.1."""

from __future__ import annotations

import itertools
import os
import random
import socket

_FIRST, _NUMBER = 10_000, 10_000
"""Below those from which systems take the ports of clients, of which other tests have many."""
_WORKERS = 8
"""Parts of these ports. What starts later than it was given a port would meet another worker's test there."""


def _ports_of_this_worker() -> list[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = list(range(_FIRST + worker % _WORKERS, _FIRST + _NUMBER, _WORKERS))
    random.SystemRandom().shuffle(ports)
    return ports


_PORTS = itertools.cycle(_ports_of_this_worker())
"""None is given twice before all others were."""


def free_udp_port() -> int:
    """Return an unused UDP port."""
    return _free(socket.SOCK_DGRAM)


def free_tcp_port() -> int:
    """Return an unused TCP port."""
    return _free(socket.SOCK_STREAM)


def _free(kind: socket.SocketKind) -> int:
    for port in _PORTS:
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError
