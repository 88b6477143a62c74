"""Requests of SNMP that prove no identity are reported with their address; few of them are answered."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.feed.guesses import MAX_ANSWERED
from gateway.snmp import ber, message
from gateway.snmp.requests import WRONG_COMMUNITY, Access, Responder
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from tests.components.command_line import Site, new_site, running
from tests.components.operated_gateway import OperatedGateway
from tests.components.waiting import wait_until
from tests.eventlog.reading import of_kind, read_log
from tests.feed.guessed import Reported
from tests.snmp.datagrams import COMMUNITY, request
from tests.snmp.v3.secured_agent import GET, SENDER, SecuredAgent

NAME = (1, 3, 6, 1, 2, 1, 1, 1, 0)


class Manager(OperatedGateway):
    """A manager of a gateway."""

    def __init__(self, site: Site) -> None:
        self.site = site


@pytest.fixture
def reported() -> Reported:
    return Reported()


def test_a_read_with_an_unknown_community_is_a_guess_and_a_right_one_is_none(reported: Reported) -> None:
    failures: list[Exception] = []
    responder = Responder(
        {COMMUNITY: Access(Store())}, SnmpCounters(), failures.append, guesses=reported.guesses
    )
    sender = ("192.0.2.7", 50_000)
    assert responder.answer(request(message.GET, [NAME]), sender) is not None
    assert reported.reports == []
    assert responder.answer(request(message.GET, [NAME], community=b"guess"), sender) is None
    (report,) = reported.reports
    assert report.reason == WRONG_COMMUNITY
    assert "guess" not in str(report), "a guess may be a right one with a wrong letter"


def test_wrong_digests_and_unknown_users_of_version_3_are_guesses(reported: Reported) -> None:
    agent = SecuredAgent(guesses=reported.guesses)
    assert agent.ask(GET).status == 0
    assert agent.ask(replace(GET, time=10**6)).counter == ("not_in_time_windows", 1)
    assert reported.reports == [], "a manager whose clock is wrong, or that looks for the engine, is none"
    for _ in range(MAX_ANSWERED):
        assert agent.ask(replace(GET, mac=bytes(24))).counter[0] == "wrong_digests"
    assert agent.is_silent_at(replace(GET, mac=bytes(24))), "guesses are answered slowly"
    assert agent.ask(GET).status == 0, "a right message is answered as before"
    assert reported.taken() == [("snmp:operator", SENDER[0], 1)]
    assert agent.ask(replace(GET, name=b"a passphrase")).counter == ("unknown_user_names", 1)
    (report,) = reported.reports
    assert "passphrase" not in str(report)
    assert reported.taken() == [("snmp:(unknown)", SENDER[0], 1)]
    assert agent.counters.report("wrong_digests")[1] == ber.encode_counter32(MAX_ANSWERED + 2)


def test_guesses_are_in_the_log_with_their_address(tmp_path: Path) -> None:
    manager = Manager(new_site(tmp_path))
    site = manager.site
    site.configure(log={"min_free": 0, "commit_interval": "1ms"})
    words = ["snmpget", "-v2c", "-c", "a guess", "-r", "0", "-t", "0.3"]
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        # What is guessed before the core is connected is recorded a minute later, as a number.
        manager.shows("agFeedConnected", "true")

        def recorded() -> list[dict[str, Any]]:
            command = [*words, f"127.0.0.1:{site.snmp_port}", "1.3.6.1.2.1.1.1.0"]
            subprocess.run(command, capture_output=True, timeout=60, check=False)  # noqa: S603  net-snmp's
            try:
                events = of_kind(read_log(site.state.path / "log"), "event")
            except (OSError, ValueError, IndexError):
                return []  # the log is just being written
            return [each["values"] for each in events if each["event"] == "accessRefused"]

        wait_until(recorded, "the first guess is an event, and in the log")
        (operation, *_) = of_kind(read_log(site.state.path / "log"), "operation")
    assert (operation["operation"], operation["outcome"]) == ("read", "refused")
    assert (operation["principal"], operation["origin"]) == ("snmp:(unknown)", "127.0.0.1")
    # Where the core could not be reached at the first one, all of a minute are one record.
    assert operation["text"].endswith(WRONG_COMMUNITY)
    assert operation["audit"] > 1, "it is audited"
