"""Ratios, medians and spreads of readings."""

from __future__ import annotations

import json

import pytest

from tests.bench.rows import OURS, Case, Reading, Readings, row, spread

GET = Case("get", "us of CPU per request", Reading.COST)
APPEND = Case("append", "records/s", Reading.RATE)


def test_a_cost_that_is_half_the_peers_is_twice_the_speed() -> None:
    made = row(GET, "net-snmp", [10.0], [20.0])
    assert (made.ratio, made.ours, made.peer) == (2.0, 10.0, 20.0)


def test_a_rate_that_is_half_the_peers_is_half_the_speed() -> None:
    assert row(APPEND, "sqlite-wal", [100.0], [200.0]).ratio == 0.5


def test_the_row_is_that_of_the_median_round() -> None:
    made = row(GET, "net-snmp", [10.0, 11.0, 12.0], [30.0, 11.0, 24.0])
    assert made.runs == (3.0, 1.0, 2.0)
    assert (made.ratio, made.ours, made.peer) == (2.0, 12.0, 24.0)


def test_of_two_medians_the_lower_one_counts() -> None:
    assert row(APPEND, "duckdb", [4.0, 1.0, 3.0, 2.0], [1.0, 1.0, 1.0, 1.0]).ratio == 2.0


@pytest.mark.parametrize(
    ("peer", "ours", "peers", "complaint"),
    [
        ("net-snmp", [], [], "0 readings"),
        ("net-snmp", [1.0, 2.0], [1.0], "2 readings of ours, 1 of net-snmp"),
        ("net-snmp", [1.0], [0.0], "not above 0"),
        ("snmpd", [1.0], [1.0], "no such peer: 'snmpd'"),
    ],
)
def test_readings_that_make_no_row_are_refused(
    peer: str, ours: list[float], peers: list[float], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        row(GET, peer, ours, peers)


def test_there_is_one_row_for_each_case_and_peer() -> None:
    readings = Readings()
    for _ in range(2):
        readings.add(GET, OURS, 10.0)
        readings.add(GET, "net-snmp", 15.0)
        readings.add(GET, "udp-echo", 5.0)
        readings.add(APPEND, OURS, 1.0)
        readings.add(APPEND, "duckdb", 1.0)
    assert [(made.name, made.peer_name, made.ratio) for made in readings.rows()] == [
        ("get", "net-snmp", 1.5),
        ("get", "udp-echo", 0.5),
        ("append", "duckdb", 1.0),
    ]


def test_a_row_as_json_has_what_is_promised() -> None:
    made = row(GET, "net-snmp", [10.0, 10.0, 10.0], [20.0, 30.0, 40.0]).as_json()
    assert json.loads(json.dumps(made)) == {
        "name": "get",
        "ours": 10.0,
        "peer": 30.0,
        "peer_name": "net-snmp",
        "unit": "us of CPU per request",
        "ratio": 3.0,
        "better": "higher",
        "runs": [2.0, 3.0, 4.0],
    }


def test_spread_is_a_part_of_the_median() -> None:
    assert spread([10.0, 12.0, 9.0]) == 0.3
    assert spread([5.0]) == 0.0
