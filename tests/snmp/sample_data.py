"""Made-up tables with every type, holes, empty columns and rows whose order differs from that of octets."""

from __future__ import annotations

import random
from collections.abc import Callable

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import gauge32_derivation
from tests.snmp.sorted_oracle import SortedOracle

ROOT: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999, 2, 7)
_EMPTY_COLUMN = 129
_TYPES: dict[int, Callable[[random.Random], bytes]] = {
    2: lambda chance: ber.encode_octets(chance.randbytes(chance.randrange(1, 12))),
    3: lambda chance: ber.encode_integer(chance.choice((0, -1, 2**31 - 1, -(2**31), 200))),
    4: lambda chance: ber.encode_gauge32(chance.choice((0, 2**32 - 1, 77))),
    9: lambda chance: ber.encode_counter64(chance.choice((0, 2**64 - 1, 2**63, 70_000))),
    10: lambda chance: ber.encode_counter64(chance.randrange(2**40)),
    100: lambda chance: ber.encode_counter32(chance.randrange(2**32)),
    101: lambda chance: ber.encode_time_ticks(chance.randrange(2**32)),
    127: lambda chance: ber.encode_oid((*ROOT, chance.randrange(2**32))),
    128: lambda chance: ber.encode_ip_address(chance.randbytes(4)),
}
_GAUGES = {8: gauge32_derivation(9, ""), 126: gauge32_derivation(10, "kibibytes")}


def sample(seed: int, rows: int = 40) -> SortedOracle:
    """Return two tables of ``rows`` rows and some scalars, all under `ROOT`."""
    chance = random.Random(seed)  # noqa: S311  repeatable
    oracle = SortedOracle()
    oracle.scalar((*ROOT, 1, 1, 0), ber.encode_integer(5))
    oracle.scalar((*ROOT, 1, 2, 0), ber.encode_counter64(6))
    for number in (2, 300):
        table = oracle.table((*ROOT, number, 1), [*sorted(_TYPES), _EMPTY_COLUMN], _GAUGES)
        for _ in range(rows):
            index = (
                chance.choice((1, 2, 128)),
                chance.choice((chance.randrange(300), chance.randrange(2**31))),
            )
            cells = {column: make(chance) for column, make in _TYPES.items() if chance.random() < 0.8}
            oracle.put(table, index, cells)
    oracle.scalar((*ROOT, 301, 1, 0), ber.encode_octets(b"the last"))
    return oracle
