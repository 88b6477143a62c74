"""An agent of version 3 on a loopback port, with a user for each pair of protocols."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from gateway.snmp.processing import Access
from gateway.snmp.requests import Responder
from gateway.snmp.server import UdpServer
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from gateway.snmp.v3.accepted_sets import AcceptedSets
from gateway.snmp.v3.algorithms import AUTHENTICATION_PROTOCOLS, PRIVACY_PROTOCOLS
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.responder import Version3
from gateway.snmp.v3.rights import NoAccess
from gateway.snmp.v3.users import SecurityLevel, User, credentials
from tests.snmp.v3.secured_agent import AUTH, BOOTS, ENGINE_ID, GUEST

AUTH_PASSPHRASE, PRIV_PASSPHRASE = "authpassphrase", "privpassphrase"


@pytest.fixture(scope="session")
def pair_users() -> list[User]:
    """Provide a user for each pair of protocols, who may leave out privacy, and one without both."""
    pairs = itertools.product(AUTHENTICATION_PROTOCOLS.values(), PRIVACY_PROTOCOLS.values())
    made = [
        credentials(
            f"{protocol.name}-{privacy.name}", protocol, AUTH_PASSPHRASE, privacy, PRIV_PASSPHRASE
        ).at(ENGINE_ID, AUTH)
        for protocol, privacy in pairs
    ]
    return [*made, GUEST]


ServeVersion3 = Callable[[Store], tuple[int, SnmpCounters]]
"""A function that serves a store in the running loop until the end of the test; port and counters."""


@pytest.fixture
def serve_version_3(failures: list[Exception], pair_users: list[User]) -> Iterator[ServeVersion3]:
    """Provide the function `ServeVersion3`; all users write, in the default context."""
    with ExitStack() as servers:

        def start(store: Store) -> tuple[int, SnmpCounters]:
            def access(user: str, level: SecurityLevel, context: bytes) -> Access | NoAccess:
                del level
                return NoAccess.UNKNOWN_CONTEXT if context else Access(store, user)

            counters = SnmpCounters()
            engine = Engine(ENGINE_ID, BOOTS, time.monotonic_ns)
            version_3 = Version3(engine, pair_users, access, Salts(2**63), AcceptedSets(time.monotonic_ns))
            responder = Responder({}, counters, failures.append, version_3=version_3)
            server = UdpServer(responder.answer, counters, failures.append)
            server.open([("127.0.0.1", 0)])
            servers.callback(server.close)
            return server.addresses[0][1], counters

        yield start
