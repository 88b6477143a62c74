"""Requests without an answer in agHealth: what had to make room, and what could not be read."""

from __future__ import annotations

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import HEALTH, Health
from gateway.snmp.store import Store
from gateway.snmp.tables.health import serve_losses

ROOT: Oid = (1, 3, 6, 1, 4, 1, 99999)
DROPPED, LOST = ((*ROOT, *HEALTH, scalar, 0) for scalar in (Health.REQUESTS_DROPPED, Health.REQUESTS_LOST))


def test_they_are_counters_read_when_they_are_asked_for() -> None:
    numbers = [1, 2]
    store = Store()
    serve_losses(store, ROOT, lambda: numbers[0], lambda: numbers[1])
    numbers[:] = 7, 2**33
    assert (store.get(DROPPED), store.get(LOST)) == (ber.encode_counter64(7), ber.encode_counter64(2**33))


def test_what_the_system_does_not_say_has_no_instance() -> None:
    store = Store()
    serve_losses(store, ROOT, lambda: 0, lambda: None)
    assert store.get(LOST) == ber.NO_SUCH_INSTANCE
    assert store.next(DROPPED) is None
