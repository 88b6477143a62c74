"""Nagios and Icinga 2 check a gateway, with their templates and the definitions of the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.demo.broker import PrivateBroker
from tests.components.nagios import Icinga, MonitoringSystem, Nagios
from tests.components.waiting import wait_until
from tests.snmp.templates.conftest import PASSPHRASES, USER, PolledGateway, set_password

pytestmark = pytest.mark.xdist_group("polled")

PAGE = Path(__file__).parents[3] / "docs" / "templates.md"
SERVICES = 8
"""The number of checks that the templates have, with that of one source."""

AUTHENTICATION, PRIVACY = PASSPHRASES.values()

System = Callable[..., MonitoringSystem]
"""`nagios` or `icinga`: a function that returns a monitoring system."""


def documented(heading: str, values: Mapping[str, str]) -> str:
    """Return the definitions below a heading of the page, with values in the place of its examples."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    text: str
    (text,) = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    for example, value in {"192.0.2.7": "127.0.0.1", **values}.items():
        assert example in text
        text = text.replace(example, value)
    return text


def nagios(folder: Path, polled: PolledGateway, phrases: Mapping[str, str] | None = None) -> Nagios:
    """Return a Nagios with the documented host and services, and a service for each other command.

    Args:
        folder: an empty folder.
        polled: the gateway that it checks.
        phrases: the passphrases of the host, as the user of version 3; ``None`` for the community.
    """
    reader = {"COMMUNITY": polled.community} if phrases is None else phrases
    values = {
        "1161": str(polled.site.snmp_port),
        "_SNMP_COMMUNITY  COMMUNITY": "\n".join(f"_SNMP_{name}  {value}" for name, value in reader.items()),
    }
    text = documented("Nagios", values)
    (service,) = re.findall(r"^define service \{[^}]*critical alarms[^}]*\}\n", text, re.MULTILINE)
    commands = polled.template("nagios", *(() if phrases is None else ("--user", USER)))
    for name in re.findall(r"command_name +(\S+)", commands):
        if name not in text:
            text += service.replace("critical alarms", name).replace("check_amqp_agAlarmsCritical", name)
    commands = commands.replace(
        "$_HOSTSNMP_PRIVACY$", "$_HOSTSNMP_PRIVACY$" if "PRIVACY" in reader else "$USER5$"
    )
    return Nagios(folder, {"amqp-gateway.cfg": commands, "site.cfg": text}, {"$USER5$": PRIVACY})


def icinga(folder: Path, polled: PolledGateway, phrases: Mapping[str, str] | None = None) -> Icinga:
    """Return an Icinga with the documented host; arguments as those of `nagios`."""
    reader = {"community": polled.community} if phrases is None else phrases
    values = {
        "1161": str(polled.site.snmp_port),
        'community = "COMMUNITY"': "\n".join(f'{name} = "{value}"' for name, value in reader.items()),
    }
    rules = polled.template("icinga", *(() if phrases is None else ("--user", USER)))
    return Icinga(folder, {"amqp-gateway.conf": rules, "site.conf": documented("Icinga", values)})


def await_states(system: MonitoringSystem, **states: str) -> None:
    """Wait until the eight services are OK, but those that contain these words, which have other states."""
    wait_until(lambda: has_states(system, states), f"{system.name} finds all OK but {states}")


def has_states(system: MonitoringSystem, others: Mapping[str, str]) -> bool:
    """Return whether the eight services have these states, by a word of the name, or else are OK."""
    found = system.states
    expected = {name: next((state for word, state in others.items() if word in name), "OK") for name in found}
    return len(found) == SERVICES and found == expected


@pytest.mark.parametrize("system", [nagios, icinga])
def test_a_documented_host_has_services_that_are_ok_with_performance_data(
    system: System, tmp_path: Path, polled: PolledGateway
) -> None:
    watching = system(tmp_path, polled)
    assert not re.search(r"warning[/:]|Warnings: +[1-9]", watching.verify(), re.IGNORECASE)
    with watching.runs():
        await_states(watching)
        source = next(result for name, result in watching.results.items() if "source orders" in name)
        assert source.output.strip() == "SNMP OK - agSourceState 4"
        assert source.performance == "agSourceState=4;4:4;4:5"


@pytest.mark.parametrize(
    ("system", "phrases"),
    [
        (nagios, {"AUTHENTICATION": AUTHENTICATION}),
        (icinga, {"authentication_passphrase": AUTHENTICATION, "privacy_passphrase": PRIVACY}),
    ],
)
def test_a_user_of_version_3_finds_the_same(
    system: System, phrases: Mapping[str, str], tmp_path: Path, polled: PolledGateway
) -> None:
    watching = system(tmp_path, polled, phrases)
    watching.verify()
    with watching.runs():
        await_states(watching)


def test_nagios_removes_characters_from_passphrases_that_are_custom_variables(
    tmp_path: Path, polled: PolledGateway
) -> None:
    assert "&" in PRIVACY
    watching = nagios(tmp_path, polled, {"AUTHENTICATION": AUTHENTICATION, "PRIVACY": PRIVACY})
    with watching.runs():
        wait_until(lambda: len(watching.states) == SERVICES, "all services have been checked")
        assert "OK" not in watching.states.values()


def test_a_source_that_is_down_is_critical_until_it_is_back(
    tmp_path: Path, polled: PolledGateway, rabbitmq: PrivateBroker
) -> None:
    with ExitStack() as stack:
        http = stack.enter_context(rabbitmq.http())
        systems = []
        for system in (nagios, icinga):
            folder = tmp_path / system.__name__
            folder.mkdir()
            systems.append(system(folder, polled))
            stack.enter_context(systems[-1].runs())
        for watching in systems:
            await_states(watching)
        stack.callback(set_password, http, polled.reader)
        set_password(http, replace(polled.reader, password="another"))
        for watching in systems:
            await_states(watching, source="CRITICAL", agAlarmsMajor="WARNING", agRowsStale="WARNING")
        set_password(http, polled.reader)
        for watching in systems:
            await_states(watching)
