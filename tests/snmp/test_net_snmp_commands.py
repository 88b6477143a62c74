"""net-snmp's own commands with the agent: their output is that of a sorted dictionary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.snmp import ber
from gateway.snmp.oid_registry import DEFAULT_ROOT
from gateway.snmp.subtree_view import Subtrees, SubtreeView
from tests.snmp.conftest import Serve
from tests.snmp.datagrams import COMMUNITY
from tests.snmp.net_snmp import dotted, printed, proxying_snmpd, run
from tests.snmp.sample_data import ROOT, sample
from tests.snmp.sorted_oracle import SortedOracle

PAGE = (Path(__file__).parents[2] / "docs" / "mibs.md").read_text(encoding="utf-8")
PAST_THE_END = " = No more variables left in this MIB View (It is past the end of the MIB tree)"


@pytest.fixture(scope="module")
def data() -> SortedOracle:
    return sample(seed=1)


def lines(data: SortedOracle, *, counter64: bool = True) -> list[str]:
    return [
        printed(oid, value)
        for oid, value in sorted(data.instances.items())
        if counter64 or value[0] != ber.COUNTER64
    ]


async def test_snmpwalk_v2c(serve: Serve, data: SortedOracle, tmp_path: Path) -> None:
    walked = await run("snmpwalk", tmp_path, serve(data.store), [dotted(ROOT)])
    assert walked == [*lines(data), dotted(max(data.instances)) + PAST_THE_END]


async def test_snmpwalk_v1_leaves_out_counter64(serve: Serve, data: SortedOracle, tmp_path: Path) -> None:
    walked = await run("snmpwalk", tmp_path, serve(data.store), [dotted(ROOT)], version="1")
    assert walked == [*lines(data, counter64=False), "End of MIB"]


async def test_snmpd_forwards_every_row_by_the_lines_of_the_page(
    serve: Serve, data: SortedOracle, tmp_path: Path
) -> None:
    (lines_of_page,) = re.findall(r"^## Behind snmpd$.*?```text\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    for written, here in (
        ("COMMUNITY", COMMUNITY.decode()),
        ("127.0.0.1:1161", f"127.0.0.1:{serve(data.store)}"),
        (dotted(DEFAULT_ROOT), dotted(ROOT)),
    ):
        assert written in lines_of_page
        lines_of_page = lines_of_page.replace(written, here)
    with proxying_snmpd(tmp_path, lines_of_page) as port:
        walked = await run("snmpbulkwalk", tmp_path, port, [dotted(ROOT)])
        assert walked[: len(data.instances)] == lines(data)
        (known, *_) = data.instances
        assert await run("snmpget", tmp_path, port, [dotted(known)]) == [
            printed(known, data.instances[known])
        ]


@pytest.mark.parametrize("repetitions", [1, 7, 50, 100_000])
async def test_snmpbulkwalk(serve: Serve, data: SortedOracle, tmp_path: Path, repetitions: int) -> None:
    port = serve(data.store)
    walked = await run("snmpbulkwalk", tmp_path, port, [dotted(ROOT)], options=[f"-Cr{repetitions}"])
    assert walked == [*lines(data), dotted(max(data.instances)) + PAST_THE_END]


@pytest.mark.parametrize(("command", "options"), [("snmpwalk", []), ("snmpbulkwalk", ["-Cr50"])])
async def test_a_walk_of_a_view_is_one_of_what_it_has(
    serve: Serve, data: SortedOracle, tmp_path: Path, command: str, options: list[str]
) -> None:
    instances = sorted(data.instances)
    column, row = instances[len(instances) // 3][:-2], instances[len(instances) // 2]
    port = serve(SubtreeView(data.store, Subtrees(exclude=[column, row])))
    walked = await run(command, tmp_path, port, [dotted(ROOT)], options=options)
    shown = [oid for oid in instances if oid[: len(column)] != column and oid != row]
    assert 0 < len(shown) < len(instances) - 1
    assert walked == [
        *(printed(oid, data.instances[oid]) for oid in shown),
        dotted(shown[-1]) + PAST_THE_END,
    ]


async def test_snmpbulkget_interleaves(serve: Serve, data: SortedOracle, tmp_path: Path) -> None:
    asked = [ROOT, (*ROOT, 2, 1, 2), (*ROOT, 300, 1, 100)]
    one, two, three = (data.after(oid, 3) for oid in asked)
    expected = [one[0], *(pair for pairs in zip(two, three, strict=True) for pair in pairs)]
    options = ["-Cn1", "-Cr3"]
    got = await run("snmpbulkget", tmp_path, serve(data.store), [*map(dotted, asked)], options=options)
    assert got == [printed(oid, value) for oid, value in expected]


@pytest.mark.parametrize("version", ["1", "2c"])
async def test_snmpget_and_snmpgetnext(
    serve: Serve, data: SortedOracle, tmp_path: Path, version: str
) -> None:
    port = serve(data.store)
    shown = sorted(
        oid for oid, value in data.instances.items() if version == "2c" or value[0] != ber.COUNTER64
    )
    asked, following = shown[:-1:17], shown[1::17]
    names = [dotted(oid) for oid in asked]
    got = await run("snmpget", tmp_path, port, names, version=version)
    assert got == [printed(oid, data.instances[oid]) for oid in asked]
    got = await run("snmpgetnext", tmp_path, port, names, version=version)
    assert got == [printed(oid, data.instances[oid]) for oid in following]


async def test_snmpget_of_what_is_not_there(serve: Serve, data: SortedOracle, tmp_path: Path) -> None:
    port = serve(data.store)
    names = [dotted((*ROOT, 2, 1, 2, 9)), dotted((*ROOT, 2, 1, 7, 9))]
    assert await run("snmpget", tmp_path, port, names) == [
        f"{names[0]} = No Such Instance currently exists at this OID",
        f"{names[1]} = No Such Object available on this agent at this OID",
    ]
    assert await run("snmpget", tmp_path, port, names[:1], version="1") == [
        "Error in packet",
        "Reason: (noSuchName) There is no such variable name in this MIB.",
        f"Failed object: {names[0]}",
    ]


@pytest.mark.parametrize(
    ("version", "reason"),
    [("2c", "noAccess"), ("1", "(noSuchName) There is no such variable name in this MIB.")],
)
async def test_snmpset_is_refused(
    serve: Serve, data: SortedOracle, tmp_path: Path, version: str, reason: str
) -> None:
    name = dotted((*ROOT, 1, 1, 0))
    got = await run("snmpset", tmp_path, serve(data.store), [name, "i", "7"], version=version)
    assert got == ["Error in packet.", f"Reason: {reason}", f"Failed object: {name}"]
