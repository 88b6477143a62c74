"""The commands for Nagios are run, with check_snmp of Debian, as Nagios runs them."""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import partial

import pytest

from gateway.demo.install import CHECK_SNMP
from tests.components.waiting import wait_until
from tests.snmp.templates.conftest import PASSPHRASES, USER, PolledGateway

pytestmark = pytest.mark.xdist_group("polled")
OK, WARNING, CRITICAL, UNKNOWN = range(4)


def commands(polled: PolledGateway, *reader: str) -> dict[str, str]:
    """Return the command lines, by name."""
    text = polled.template("nagios", *reader)
    found = re.findall(r"command_name +(\S+)\n +command_line +(.+)\n", text)
    assert text.count("define command") == len(found)
    return dict(found)


def run(polled: PolledGateway, line: str, argument: str = "") -> tuple[int, str]:
    """Return exit code and output of a command, with the macros of Nagios filled in."""
    macros = {
        "$USER1$": str(CHECK_SNMP.parent),
        "$HOSTADDRESS$": "127.0.0.1",
        "$_HOSTSNMP_PORT$": str(polled.site.snmp_port),
        "$_HOSTSNMP_COMMUNITY$": polled.community,
        "$_HOSTSNMP_AUTHENTICATION$": PASSPHRASES["AUTHENTICATION-PASSPHRASE"],
        "$_HOSTSNMP_PRIVACY$": PASSPHRASES["PRIVACY-PASSPHRASE"],
        "$ARG1$": argument,
    }
    for macro, value in macros.items():
        line = line.replace(macro, value)
    assert "$" not in line
    done = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    return done.returncode, done.stdout


def test_every_command_finds_a_gateway_that_is_well_well(polled: PolledGateway) -> None:
    lines = commands(polled)
    assert len(lines) == 8
    for name, line in lines.items():
        wait_until(partial(is_ok, polled, line), f"{name} is OK")


def test_a_user_of_version_3_finds_the_same(polled: PolledGateway) -> None:
    line = commands(polled, "--user", USER)["check_amqp_agFeedConnected"]
    assert f'-L authPriv -U "{USER}" -a SHA-256 ' in line
    assert run(polled, line)[0] == OK
    assert run(polled, line.replace("$_HOSTSNMP_AUTHENTICATION$", "another phrase"))[0] != OK


def is_ok(polled: PolledGateway, line: str) -> bool:
    return run(polled, line, "1")[0] == OK


def test_a_check_gives_up_long_before_nagios_ends_it(polled: PolledGateway) -> None:
    for line in commands(polled).values():
        seconds, retries = map(int, re.findall(r" -t (\d+) -e (\d+) ", line)[0])
        # This is the formula that the plugin documents; Nagios and Icinga end a check after 60 s.
        assert seconds * retries + 5 <= 20


def test_thresholds_make_warnings_and_critical_states(polled: PolledGateway) -> None:
    line = commands(polled)["check_amqp_agSourceState"]
    assert run(polled, line.replace("-w 4:4 -c 4:5", "-w 5:5 -c 4:5"), "1")[0] == WARNING
    assert run(polled, line.replace("-c 4:5", "-c 5:5"), "1")[0] == CRITICAL
    assert run(polled, line, "99")[0] not in (OK, WARNING)
