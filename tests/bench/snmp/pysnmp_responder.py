"""``python -m tests.bench.snmp.pysnmp_responder PORT ENTRY DATA``: pysnmp over the packed rows."""

from __future__ import annotations

import asyncio
import sys
from bisect import bisect_right
from pathlib import Path
from typing import Any

from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.entity import config, engine
from pysnmp.entity.rfc3413 import cmdrsp, context
from pysnmp.proto import rfc1902, rfc1905
from pysnmp.smi import instrum

from gateway.snmp.ber import Oid
from tests.bench.snmp.table import COLUMNS, NUMBERS, SOURCE, unpack
from tests.snmp.datagrams import COMMUNITY

_TYPES = (
    rfc1902.OctetString,
    rfc1902.Integer32,
    *(rfc1902.Counter64 for _ in NUMBERS[:6]),
    *(rfc1902.Gauge32 for _ in NUMBERS[6:]),
)


class _Rows(instrum.AbstractMibInstrumController):  # type: ignore[misc]  # pysnmp has no types
    """The rows of one table: reads are look-ups, or a bisection of the rows' numbers."""

    def __init__(self, entry: Oid, rows: dict[int, tuple[bytes | int, ...]]) -> None:
        self._entry = entry
        self._rows = rows
        self._numbers = sorted(rows)

    def read_variables(self, *varbinds: Any, **_: Any) -> list[Any]:  # noqa: ANN401  pysnmp has no types
        return [(name, self._value(tuple(name))) for name, _ in varbinds]

    def read_next_variables(self, *varbinds: Any, **_: Any) -> list[Any]:  # noqa: ANN401
        return [self._next(name) for name, _ in varbinds]

    def _value(self, name: Oid) -> Any:  # noqa: ANN401
        rest = name[len(self._entry) :]
        if name[: len(self._entry)] != self._entry or len(rest) != 3 or rest[0] not in COLUMNS:
            return rfc1905.noSuchObject
        row = self._rows.get(rest[2]) if rest[1] == SOURCE else None
        return rfc1905.noSuchInstance if row is None else self._cell(rest[0], row)

    def _next(self, name: Any) -> Any:  # noqa: ANN401
        entry, numbers = self._entry, self._numbers
        asked = tuple(name)
        rest = asked[len(entry) :] if asked[: len(entry)] == entry else () if asked < entry else (2**32,)
        column, source, row = (*rest, 0, 0, 0)[:3] if rest else (COLUMNS.start, 0, 0)
        place = bisect_right(numbers, row) if source == SOURCE else 0 if source < SOURCE else len(numbers)
        if place == len(numbers):
            column, place = column + 1, 0
        if column not in COLUMNS:
            return name, rfc1905.endOfMibView
        number = numbers[place]
        found = (*entry, column, SOURCE, number)
        return rfc1902.ObjectName(found), self._cell(column, self._rows[number])

    @staticmethod
    def _cell(column: int, row: tuple[bytes | int, ...]) -> Any:  # noqa: ANN401
        position = column - COLUMNS.start
        return _TYPES[position](row[position])


def main(port: int, entry: Oid, data: Path) -> None:
    """Serve for ever."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    agent = engine.SnmpEngine()
    config.add_transport(
        agent, udp.DOMAIN_NAME, udp.UdpTransport(loop=loop).open_server_mode(("127.0.0.1", port))
    )
    config.add_v1_system(agent, "area", COMMUNITY.decode())
    config.add_vacm_user(agent, 2, "area", "noAuthNoPriv", readSubTree=(1,))
    contexts = context.SnmpContext(agent)
    contexts.unregister_context_name(b"")
    contexts.register_context_name(b"", _Rows(entry, unpack(data)))
    for responder in (cmdrsp.GetCommandResponder, cmdrsp.NextCommandResponder, cmdrsp.BulkCommandResponder):
        responder(agent, contexts)
    loop.run_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), tuple(map(int, sys.argv[2].strip(".").split("."))), Path(sys.argv[3]))
