"""The core as a process of its own: it serves the feed, alone on its state, and goes with its parent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog

from gateway.config.model import Configuration
from gateway.feed.messages import VERSION, FrameReader, encode
from gateway.feed.operations import LoginReport
from gateway.feed.records import Hello
from gateway.model.operations import Principal
from gateway.service.processes.core import log_plain_text
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Site, amqp_gateway, new_site, running
from tests.components.waiting import DEADLINE, wait_until
from tests.eventlog.reading import of_kind, read_log


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path)


def hello(path: Path) -> Hello:
    """Return the first message that a north receives."""
    with socket.socket(socket.AF_UNIX) as northbound:
        northbound.settimeout(DEADLINE)
        northbound.connect(str(path))
        frames = FrameReader()
        while octets := northbound.recv(65536):
            for message in frames.feed(octets):
                assert isinstance(message, Hello)
                return message
    raise AssertionError("the core closed the feed")


def core_of(site: Site) -> tuple[str | Path, ...]:
    return ("process", "core", "--config", site.configuration)


def test_it_serves_the_feed_to_its_own_user_and_a_second_core_on_the_same_state_is_refused(
    site: Site,
) -> None:
    path = site.folder / "feed.sock"
    with running(*core_of(site), log=site.folder / "log") as core:
        core.ready()
        first = hello(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        second = amqp_gateway(*core_of(site))
        still = hello(path)
        assert core.terminate().code is ExitCode.OK

    assert second.code is ExitCode.STATE
    assert second.reported == [
        (
            f"amqp-gateway: {site.folder}/state: another gateway runs on this state: stop it, or "
            "give this one a state folder of its own"
        )
    ]
    assert still.epoch == 1
    assert (first.version, first.epoch, first.gateway) == (VERSION, 1, site.state.identity)
    assert mode == 0o600
    assert not path.exists()


def test_logins_that_a_front_end_reports_are_in_the_event_log(site: Site) -> None:
    report = LoginReport(Principal("jmx", "monitor", "192.0.2.1"))
    with running(*core_of(site), log=site.folder / "messages") as core:
        core.ready()
        with socket.socket(socket.AF_UNIX) as northbound:
            northbound.connect(str(site.folder / "feed.sock"))
            northbound.sendall(encode(report))
            wait_until(lambda: logins(site), "the login is in the log")
        assert core.terminate().code is ExitCode.OK
    (record,) = logins(site)
    assert (record["principal"], record["origin"]) == ("jmx:monitor", "192.0.2.1")


def logins(site: Site) -> list[dict[str, Any]]:
    with contextlib.suppress(IndexError):  # nothing is committed yet
        return of_kind(read_log(site.folder / "state" / "log"), "login")
    return []


def test_each_start_is_an_epoch_of_its_own_and_a_core_ends_when_its_parent_has_gone(site: Site) -> None:
    epochs = []
    for is_killed in (True, False):
        with running(*core_of(site), log=site.folder / "log") as core:
            core.ready()
            epochs.append(hello(site.folder / "feed.sock").epoch)
            if is_killed:
                core.process.kill()
    assert epochs == [1, 2]
    assert core.ended().code is ExitCode.OK


# -- the whole gateway


def processes_of(gateway: psutil.Process) -> dict[str, int]:
    """Return the processes that a supervisor keeps, by name."""
    found = {}
    for child in gateway.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            words = child.cmdline()  # of one that has just died, none
            if "process" in words:
                found[words[words.index("process") + 1]] = child.pid
    return found


def test_a_core_that_is_killed_is_back_and_a_supervisor_that_is_killed_leaves_nothing(site: Site) -> None:
    path = site.folder / "feed.sock"
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        supervisor = psutil.Process(gateway.process.pid)
        before = processes_of(supervisor)
        assert set(before) == {"core", "snmp"}  # nothing waits for the compactor

        os.kill(before["core"], signal.SIGKILL)
        wait_until(lambda: site.state.boots == 2, "a new core was started")
        wait_until(path.exists, "its feed is there")
        wait_until(lambda: processes_of(supervisor).get("core"), "it is the supervisor's")
        after = processes_of(supervisor)
        assert after["snmp"] == before["snmp"]

        gateway.process.kill()
        wait_until(lambda: not any(map(psutil.pid_exists, after.values())), "all processes ended")


def test_what_is_sent_in_plain_text_is_logged_at_the_start() -> None:
    settings = Configuration.model_validate(
        {"version": 1, "metrics": {"enabled": True, "listen": "[::]:9464"}}
    )
    with structlog.testing.capture_logs() as logged:
        log_plain_text(settings, lambda key: key.startswith("metrics."))
        log_plain_text(settings, lambda _: False)
    (line,) = logged
    assert (line["event"], line["log_level"], line["key"]) == (
        "sent-in-plain-text",
        "warning",
        "metrics.listen",
    )
