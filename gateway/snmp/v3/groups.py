"""The standard groups of version 3: snmpEngine (RFC 3411), usmStats (RFC 3414), and unknown contexts.

snmpMPDStats (RFC 3412) is served in any case, by `gateway.snmp.standard_groups`.
"""

from __future__ import annotations

from typing import Final

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from gateway.snmp.v3.engine import Engine

_ENGINE: Final[Oid] = (1, 3, 6, 1, 6, 3, 10, 2, 1)


def serve_version_3(store: Store, counters: SnmpCounters, engine: Engine, message_size: int) -> None:
    """Add the groups to a store.

    Args:
        store: the store that serves them.
        counters: the counters of the agent.
        engine: its engine.
        message_size: snmpEngineMaxMessageSize, octets of a message that it receives or sends.
    """
    store.scalar((*_ENGINE, 1, 0), ber.encode_octets(engine.engine_id))
    store.scalar((*_ENGINE, 2, 0), lambda: ber.encode_integer(engine.now()[0]))
    store.scalar((*_ENGINE, 3, 0), lambda: ber.encode_integer(engine.now()[1]))
    store.scalar((*_ENGINE, 4, 0), ber.encode_integer(message_size))
    counters.serve_version_3(store)
