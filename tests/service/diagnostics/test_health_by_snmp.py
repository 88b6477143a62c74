"""``health`` where the community that reads does not see everything, or not from here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.config.files import load_configuration
from gateway.service.diagnostics.health import ask_health
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.snmp_rights import access_of
from gateway.service.state.running_configuration import addresses_of
from gateway.snmp import ber
from gateway.snmp.ber import parse_oid
from gateway.snmp.fixed_mib import HEALTH, LOG, Health, LogScalar
from gateway.snmp.requests import Responder
from gateway.snmp.server import UdpServer
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from tests.components.command_line import new_site


async def reported(
    folder: Path,
    snapshots: int = 1,
    **snmp: Any,  # noqa: ANN401  as YAML has them
) -> list[str]:
    """Return what ``health`` reports of an agent with these settings, which has received so many snapshots.

    Raises:
        CommandError: as of `ask_health`.
    """
    site = new_site(folder)
    site.configure(snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], **snmp})
    loaded = load_configuration(site.configuration)
    settings, store, failures = loaded.settings.snmp, Store(), list[Exception]()
    for oid in [*((*HEALTH, scalar) for scalar in Health), *((*LOG, scalar) for scalar in LogScalar)]:
        number = snapshots if oid == (*HEALTH, Health.FEED_SNAPSHOTS) else 1
        value = ber.encode_octets(b"") if oid == (*LOG, LogScalar.DETAIL) else ber.encode_integer(number)
        store.scalar((*parse_oid(settings.root), *oid, 0), value)
    communities = {site.state.secret("community").encode(): access_of(settings, store)}
    counters = SnmpCounters()
    server = UdpServer(Responder(communities, counters, failures.append).answer, counters, failures.append)
    server.open(settings.listen)
    lines: list[str] = []
    try:
        addresses = addresses_of(loaded)
        assert addresses.snmp is not None
        await ask_health(addresses, addresses.snmp, lambda: loaded, lines.append)
    finally:
        server.close()
        assert failures == []
    return lines


async def test_a_view_of_everything(tmp_path: Path) -> None:
    assert (await reported(tmp_path))[0] == "1 of 1 sources synchronised, 1 rows, 1 of them stale"


async def test_an_agent_that_knows_no_source_yet_has_not_all_of_them_synchronised(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="has just started") as ended:
        await reported(tmp_path, snapshots=0)
    assert ended.value.code is ExitCode.UNREACHABLE


async def test_a_view_without_health_is_said_to_lack_it(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"\(snmp.view\) lacks agHealth: include root.1.1.1$") as ended:
        await reported(tmp_path, view="few", views={"few": {"exclude": ["root.1.1.1"]}})
    assert ended.value.code is ExitCode.CONFIGURATION


async def test_a_view_without_the_event_log_is_no_failure(tmp_path: Path) -> None:
    lines = await reported(tmp_path, view="few", views={"few": {"include": ["root.1.1.1"]}})
    assert lines[1] == "event log: not in the view of the community that reads (snmp.view)"


async def test_networks_without_this_machine_are_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"127\.0\.0\.1, which snmp\.allowed_networks lacks$") as ended:
        await reported(tmp_path, allowed_networks=["192.0.2.0/24"])
    assert ended.value.code is ExitCode.UNREACHABLE
