"""The engine's identifier, boots and time."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp.v3.engine import MAX_COUNT, Engine, check_engine_id, new_engine_id, next_boots

SECOND = 10**9
ENGINE_ID = new_engine_id(8072, bytes(range(12)))


def at(year: int, month: int = 1, day: int = 1, minute: int = 0) -> int:
    moment = dt.datetime(year, month, day, 0, minute, tzinfo=dt.UTC)
    return int(moment.timestamp()) * SECOND


def started(boots: int = 7) -> tuple[Engine, list[int]]:
    now = [5 * SECOND]
    return Engine(ENGINE_ID, boots, lambda: now[0]), now


def test_time_counts_seconds_since_the_start() -> None:
    engine, now = started()
    assert engine.now() == (7, 0)
    now[0] += 61 * SECOND - 1
    assert engine.now() == (7, 60)


def test_boots_grow_when_the_time_begins_again() -> None:
    engine, now = started()
    now[0] += MAX_COUNT * SECOND
    assert engine.now() == (7, MAX_COUNT)
    now[0] += SECOND
    assert engine.now() == (8, 0)
    now[0] += 3 * SECOND
    assert (engine.is_timely(8, 3), engine.is_timely(7, 3)) == (True, False)


def test_the_time_window_is_150_seconds_to_both_sides() -> None:
    engine, now = started()
    now[0] += 1000 * SECOND
    assert [engine.is_timely(7, time) for time in (849, 850, 1150, 1151)] == [False, True, True, False]
    assert not engine.is_timely(6, 1000)
    assert not engine.is_timely(8, 1000)


def test_boots_at_their_maximum_stay_there_and_nothing_is_timely() -> None:
    engine, now = started(MAX_COUNT)
    assert not engine.is_timely(MAX_COUNT, 0)
    now[0] += (MAX_COUNT + 10) * SECOND
    assert engine.now() == (MAX_COUNT, 9)
    assert not engine.is_timely(MAX_COUNT, 9)


@pytest.mark.parametrize("boots", [-1, 0, MAX_COUNT + 1])
def test_boots_that_no_engine_has(boots: int) -> None:
    with pytest.raises(ValueError, match="the boots of an engine are 1 to 2147483647"):
        Engine(ENGINE_ID, boots, lambda: 0)


def test_boots_grow_with_each_start_and_at_least_with_time() -> None:
    assert next_boots(0, at(2020)) == 1
    assert next_boots(0, at(2020, minute=30)) == 30
    assert next_boots(30, at(2020, minute=30)) == 31
    assert next_boots(5_000_000, at(2020, minute=30)) == 5_000_001
    assert next_boots(0, at(1970)) == 1
    assert next_boots(MAX_COUNT, at(2020)) == MAX_COUNT
    assert next_boots(0, at(9000)) == MAX_COUNT
    later = next_boots(12, at(2026, 11, 26))
    assert later == 60 * 24 * (dt.date(2026, 11, 26) - dt.date(2020, 1, 1)).days
    assert later < 2**22


@given(st.integers(1, 2**31 - 1), st.binary(min_size=12, max_size=12))
def test_a_new_engine_id_has_the_enterprise_and_the_random_octets(enterprise: int, random: bytes) -> None:
    engine_id = new_engine_id(enterprise, random)
    assert int.from_bytes(engine_id[:4], "big") == 2**31 + enterprise
    assert engine_id[4:] == b"\x05" + random
    check_engine_id(engine_id)


def test_numbers_that_no_enterprise_has() -> None:
    for enterprise, random in ((0, bytes(12)), (2**31, bytes(12)), (8072, bytes(11))):
        with pytest.raises(ValueError, match="not an enterprise and 12 octets"):
            new_engine_id(enterprise, random)


@pytest.mark.parametrize("engine_id", [b"", b"1234", b"x" * 33, bytes(12), b"\xff" * 12])
def test_octets_that_are_no_engine_id(engine_id: bytes) -> None:
    with pytest.raises(ValueError, match="an engine id"):
        check_engine_id(engine_id)


@pytest.mark.parametrize("engine_id", [b"12345", b"x" * 32, bytes(11) + b"\x02", bytes(6) + b"\xff" * 6])
def test_octets_that_are_an_engine_id(engine_id: bytes) -> None:
    check_engine_id(engine_id)
