"""The whole benchmark with small counts: every row is present; no speed is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.snmp.ber import NO_SUCH_INSTANCE, encode_octets
from gateway.snmp.message import GET
from tests.bench.__main__ import main
from tests.bench.results import read_sections
from tests.bench.snmp import table
from tests.bench.snmp.agents import our_agent
from tests.bench.snmp.table import COLUMNS, index
from tests.snmp.datagrams import read_answer, request
from tests.snmp.net_snmp import exchange

ROWS = ["get", "next", "bulk25", "bulk12x4", "walk100k"]
PEERS = ["net-snmp", "pysnmp", "udp-echo"]


@pytest.mark.prove
def test_every_row_is_measured_beside_every_peer(tmp_path: Path) -> None:
    file, docs = tmp_path / "rows.json", tmp_path / "docs"
    assert main(["snmp", "--quick", "--json", str(file), "--docs", str(docs)]) == 0
    rows = json.loads(file.read_text())
    assert [(row["name"], row["peer_name"]) for row in rows] == [
        *((row, peer) for row in ROWS for peer in PEERS),
        *((row, "net-snmp") for row in ("v3-get", "v3-bulk25")),
        *((row, "unrestricted") for row in ("get-restricted", "walk-restricted")),
        *((row, "net-snmp") for row in ("trap", "inform")),
        ("get-changing", "udp-echo"),
    ]
    assert all(len(row["runs"]) == 2 and row["ours"] > 0 and row["peer"] > 0 for row in rows)
    figures = {figure.name for figure in read_sections(docs / "results" / "benchmarks.json")["snmp"].figures}
    assert "memory of ours, 500 rows" in figures
    assert {"traps a second, ours", "informs a second, ours"} <= figures
    assert "get-changing of ours: median, 99th percentile, longest, processor time" in figures
    assert "whole gateway, 500 objects, restart" in figures
    assert "whole gateway, 25 objects, restart, MB, shared pages once (PSS)" in figures
    assert "## SNMP: " in (docs / "benchmarks.md").read_text()


def test_a_process_that_is_fed_the_rows_answers_and_hides_some_from_the_restricted(tmp_path: Path) -> None:
    with our_agent(tmp_path / "ours", 30) as (agent, entry):
        reads = [
            request(GET, [(*entry, COLUMNS[0], *index(row))], community=b"restricted") for row in (16, 17)
        ]
        shown, hidden = (read_answer(exchange(agent.port, each)).varbinds[0][1] for each in reads)
        assert (shown, hidden) == (encode_octets(b"queue-000016"), NO_SUCH_INSTANCE)


def test_rows_are_unpacked_as_they_are_reported(tmp_path: Path) -> None:
    table.pack(3, tmp_path / "rows")
    unpacked = table.unpack(tmp_path / "rows")
    assert list(unpacked) == [1, 2, 3]
    name, flag, *numbers = table.cells(2)
    assert unpacked[2] == (str(name).encode(), 1 if flag else 2, *numbers)
