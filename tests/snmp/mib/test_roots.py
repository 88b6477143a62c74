"""The modules below another root: every tool takes them, and net-snmp names what an agent serves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.shipped_files import shipped_folder
from gateway.snmp import ber
from gateway.snmp.ber import Oid, parse_oid
from gateway.snmp.mib.lint import base_folders, lint
from gateway.snmp.mib.roots import (
    RootError,
    has_root,
    root_of,
    rooted_modules,
    with_root,
    write_rooted_modules,
)
from gateway.snmp.oid_registry import DEFAULT_ROOT
from tests.components.net_snmp import printed
from tests.components.shop import source
from tests.snmp.conftest import Serve
from tests.snmp.datagrams import COMMUNITY
from tests.snmp.mib.shop import Gateway

SHIPPED = shipped_folder("mibs")
TEXT = (SHIPPED / "AMQP-GATEWAY-MIB.mib").read_text("ascii")
ROOT = parse_oid("1.3.6.1.4.1.99999.7.1")


def test_the_shipped_text_has_the_default_root_and_stays_as_it_is_there() -> None:
    assert root_of(TEXT) == DEFAULT_ROOT
    assert with_root(TEXT, DEFAULT_ROOT) == TEXT


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=40))
def test_a_text_has_the_root_that_it_is_given(arcs: list[int]) -> None:
    root = (1, *arcs)
    assert root_of(with_root(TEXT, root)) == root


def test_only_the_lines_with_the_root_differ() -> None:
    before, after = set(TEXT.splitlines()), set(with_root(TEXT, ROOT).splitlines())
    definitions = {line for line in after - before if not line.startswith("--")}
    assert all(" OBJECT IDENTIFIER ::= " in line for line in definitions)
    assert len(after - before) <= len(definitions) + 2


@pytest.mark.parametrize(
    "root",
    [
        "1.3.6.1.4.1.99999.7.1",
        "1.2.840.99999",
        *(
            pytest.param(root, marks=pytest.mark.prove)
            for root in ("1.3.6.1.4.1.99999", "1.3.6.1.4.1", "1.3.6.1.3.77")
        ),
    ],
)
def test_all_tools_take_the_modules_without_a_word(tmp_path: Path, root: str) -> None:
    written = write_rooted_modules(SHIPPED, tmp_path, parse_oid(root))
    assert sorted(path.name for path in written) == sorted(path.name for path in SHIPPED.iterdir())
    for module in ("AMQP-GATEWAY-MIB", "AMQP-GATEWAY-QPID-ACL-MIB"):
        assert lint(tmp_path / f"{module}.mib", base_folders()) == []


@pytest.mark.parametrize("root", [(2, 25, 7), (0, 4), (1, 3, 6, 1, 4, 1, 2**31)])
def test_a_root_that_tools_do_not_read_is_refused_with_one_that_they_do(root: Oid) -> None:
    with pytest.raises(RootError, match=r"take an arc below 1\.3\.6\.1\.4\.1,"):
        with_root(TEXT, root)


def test_only_what_differs_is_written_again(tmp_path: Path) -> None:
    assert not has_root(tmp_path, ROOT)
    write_rooted_modules(SHIPPED, tmp_path, ROOT)
    assert has_root(tmp_path, ROOT)
    assert not has_root(tmp_path, DEFAULT_ROOT)
    assert write_rooted_modules(SHIPPED, tmp_path, ROOT) == []
    own = tmp_path / "AMQP-GATEWAY-MIB.mib"
    assert write_rooted_modules(SHIPPED, tmp_path, DEFAULT_ROOT, dry_run=True) == [own]
    assert has_root(tmp_path, ROOT)


def test_a_text_of_another_form_has_no_root(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not define agRoot"):
        root_of("agRoot OBJECT IDENTIFIER ::= { elsewhere 1 }\n")
    (tmp_path / "AMQP-GATEWAY-MIB.mib").write_text("agRoot OBJECT IDENTIFIER ::= { nowhere 7 }\n")
    assert not has_root(tmp_path, ROOT)


def test_the_texts_of_all_modules_are_given() -> None:
    assert set(rooted_modules(SHIPPED, ROOT)) == {path.name for path in SHIPPED.iterdir()}


async def test_net_snmp_names_everything_that_an_agent_with_this_root_serves(
    serve: Serve, tmp_path: Path
) -> None:
    write_rooted_modules(SHIPPED, tmp_path / "mibs", ROOT)
    gateway = Gateway(root=ROOT)
    gateway.hello()
    gateway.snapshot(source())
    queues = gateway.store.table((*ROOT, 2, 1, 1, 3, 1), [2])
    queues.put((1, 2), {2: ber.encode_octets(b"orders")})
    walk = ["-v2c", "-c", COMMUNITY.decode(), "-t", "20", f"127.0.0.1:{serve(gateway.store)}"]
    modules = ["-m", "ALL", "-M", ":".join(map(str, (*base_folders(), tmp_path / "mibs")))]
    below = "." + ".".join(map(str, ROOT))

    walked = await asyncio.to_thread(printed, tmp_path, "snmpwalk", *modules, *walk, below)

    lines = walked.stdout.splitlines()
    assert "AMQP-GATEWAY-MIB::agVersion.0 = STRING: 1.2.3" in lines
    assert "AMQP-GATEWAY-MIB::agSourceState.1 = INTEGER: synchronised(4)" in lines
    assert "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueRowName.1.2 = STRING: orders" in lines
    named = [line for line in lines if line.startswith("AMQP-GATEWAY-")]
    assert len(named) >= 40, walked
    assert not [line for line in lines if line.startswith(("SNMPv2-SMI::", "iso."))], walked
