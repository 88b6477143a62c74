"""Random requests about an oracle's data: valid ones of a manager, and near misses."""

from __future__ import annotations

import random

from gateway.snmp.message import GET, GET_BULK, GET_NEXT, VERSION_1, VERSION_2C
from tests.snmp.datagrams import request
from tests.snmp.sorted_oracle import SortedOracle


def random_request(oracle: SortedOracle, chance: random.Random, *, least_count: int = -5) -> bytes:
    """Return a GET, GETNEXT or GETBULK of 1 to 6 names, v1 or v2c, ``least_count`` repetitions or more."""
    version, pdu_type = chance.choice(
        (
            (VERSION_1, GET),
            (VERSION_1, GET_NEXT),
            (VERSION_2C, GET),
            (VERSION_2C, GET_NEXT),
            (VERSION_2C, GET_BULK),
            (VERSION_2C, GET_BULK),
        )
    )
    oids = [oracle.somewhere(chance) for _ in range(chance.choice((1, 1, 2, 6)))]
    first, second = 0, 0
    if pdu_type == GET_BULK:
        first, second = chance.choice((0, 0, 1, 3, -1)), chance.choice((0, 1, 3, 12, -5))
        first, second = max(first, -1 if least_count < 0 else 0), max(second, least_count)
    request_id = chance.randrange(-(2**31), 2**31)
    return request(pdu_type, oids, version=version, request_id=request_id, first=first, second=second)
