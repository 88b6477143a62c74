"""The names of receivers, as ``check --connect`` and ``doctor`` resolve them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.service.diagnostics.doctor import Level
from gateway.service.diagnostics.doctor.receivers import check_receivers, receiver_findings
from gateway.service.processes.exit_codes import CommandError, ExitCode
from tests.components.command_line import new_site


def configured(folder: Path, **addresses: str) -> LoadedConfiguration:
    site = new_site(folder)
    site.configure(
        snmp={"notifications": {name: {"address": address} for name, address in addresses.items()}}
    )
    return load_configuration(site.configuration)


async def test_a_name_is_reported_with_its_address_and_an_address_is_not(tmp_path: Path) -> None:
    loaded = configured(tmp_path, here="localhost:162", other="192.0.2.1:162")
    (finding,) = await receiver_findings(loaded)
    assert (finding.check, finding.subject, finding.level) == ("receiver", "here", Level.GOOD)
    assert finding.text in {"localhost is 127.0.0.1", "localhost is ::1"}


async def test_a_name_that_cannot_be_resolved_is_a_problem_that_says_what_to_do(tmp_path: Path) -> None:
    loaded = configured(tmp_path, nms="nms.invalid:162", here="localhost:162")
    bad, good = await receiver_findings(loaded)
    assert (bad.subject, bad.level, good.level) == ("nms", Level.PROBLEM, Level.GOOD)
    assert bad.text.startswith("nms.invalid cannot be resolved: ")
    assert "`getent ahosts nms.invalid`" in bad.advice

    lines: list[str] = []
    with pytest.raises(CommandError, match="getent ahosts nms") as raised:
        await check_receivers(loaded, lines.append)
    assert raised.value.code is ExitCode.UNREACHABLE
    assert [line.split(":")[0] for line in lines] == ["receiver nms", "receiver here"]


async def test_so_is_an_interface_that_is_missing(tmp_path: Path) -> None:
    bad, good = await receiver_findings(
        configured(tmp_path, nms="[fe80::1%nowhere]:162", here="[fe80::1%lo]:162")
    )
    assert bad.text == "fe80::1%nowhere cannot be used: this machine has no interface nowhere for it"
    assert "`ip -6 address show dev nowhere`" in bad.advice
    assert (good.level, good.text) == (Level.GOOD, "fe80::1%lo has its interface")
