"""Run as a program: pysnmp as a receiver of traps and informs, one JSON line for each on standard output.

Arguments: port, community. Notifications of version 1 are translated into version 2c by pysnmp.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.entity import config, engine
from pysnmp.entity.rfc3413 import ntfrcv


def main(port: int, community: str) -> None:
    """Receive until killed."""
    receiver = engine.SnmpEngine()
    transport = udp.UdpTransport().open_server_mode(("127.0.0.1", port))
    config.add_transport(receiver, udp.DOMAIN_NAME, transport)
    config.add_v1_system(receiver, "area", community)

    def received(_engine: Any, _reference: Any, _id: Any, _name: Any, varbinds: Any, _context: Any) -> None:  # noqa: ANN401
        reported = [[str(name), type(value).__name__, value.prettyPrint()] for name, value in varbinds]
        print(json.dumps(reported), flush=True)  # noqa: T201  the test reads it

    ntfrcv.NotificationReceiver(receiver, received)
    receiver.transport_dispatcher.job_started(1)
    receiver.open_dispatcher()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
