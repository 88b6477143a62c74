"""A responder over a small store."""

from __future__ import annotations

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.requests import Access, Limits, Responder
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from tests.snmp.datagrams import COMMUNITY, Answer, read_answer

ENTRY: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999, 2, 1, 1, 4, 1)
DESCRIPTION: Oid = (1, 3, 6, 1, 2, 1, 1, 1, 0)
TEXT = ber.encode_octets(b"a gateway")
LAST: Oid = (1, 3, 7, 0)
GONE: Oid = (1, 3, 8)
LIMITS = Limits()


class SmallAgent:
    """A responder over a small store: a name and a depth each for rows 1 and 2, published counts of row 2."""

    def __init__(self, limits: Limits = LIMITS, *, writer: str = "") -> None:
        self.store = Store()
        self.store.scalar(DESCRIPTION, TEXT)
        self.store.scalar(LAST, ber.encode_integer(-1))
        self.table = self.store.table(ENTRY, [2, 100, 101])
        self.table.put((1, 1), {2: ber.encode_octets(b"in"), 101: ber.encode_gauge32(10)})
        self.table.put(
            (1, 2),
            {2: ber.encode_octets(b"out"), 100: ber.encode_counter64(2**64 - 1), 101: ber.encode_gauge32(0)},
        )
        self.counters = SnmpCounters()
        self.failures: list[Exception] = []
        access = {COMMUNITY: Access(self.store, writer)}
        self.responder = Responder(access, self.counters, self.failures.append, limits)

    def ask(self, datagram: bytes) -> Answer:
        answer = self.responder.answer(datagram)
        assert not self.failures
        return read_answer(answer)

    def is_silent_at(self, datagram: bytes) -> bool:
        return self.responder.answer(datagram) is None and not self.failures
