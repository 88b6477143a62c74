"""Agents that listen on loopback ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from gateway.snmp.requests import Access, Responder
from gateway.snmp.server import UdpServer
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import MibView
from tests.snmp.datagrams import COMMUNITY

Serve = Callable[[MibView], int]
"""A function that serves a view in the running loop until the end of the test, and returns the port."""


@pytest.fixture
def failures() -> Iterator[list[Exception]]:
    """Provide the list of the agent's own errors; assert that it is empty at the end."""
    reported: list[Exception] = []
    yield reported
    assert reported == []


@pytest.fixture
def serve(failures: list[Exception]) -> Iterator[Serve]:
    """Provide the function `Serve`."""
    with ExitStack() as servers:

        def start(view: MibView) -> int:
            counters = SnmpCounters()
            responder = Responder({COMMUNITY: Access(view)}, counters, failures.append)
            server = UdpServer(responder.answer, counters, failures.append)
            server.open([("127.0.0.1", 0)])
            servers.callback(server.close)
            return server.addresses[0][1]

        yield start
