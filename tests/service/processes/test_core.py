"""The core as a process of its own: it serves the feed, alone on its state, and goes with its parent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
from pathlib import Path

import psutil
import pytest

from gateway.feed.messages import VERSION, FrameReader
from gateway.feed.records import Hello
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Site, amqp_gateway, new_site, running
from tests.components.waiting import DEADLINE, wait_until


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


def test_it_serves_the_feed_to_its_own_user(site: Site) -> None:
    path = site.folder / "feed.sock"
    with running(*core_of(site), log=site.folder / "log") as core:
        core.ready()
        first = hello(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        assert core.terminate().code is ExitCode.OK

    assert (first.version, first.epoch, first.gateway) == (VERSION, 1, site.state.identity)
    assert mode == 0o600
    assert not path.exists()


def test_each_start_is_an_epoch_of_its_own(site: Site) -> None:
    epochs = []
    for _ in range(2):
        with running(*core_of(site), log=site.folder / "log") as core:
            core.ready()
            epochs.append(hello(site.folder / "feed.sock").epoch)
            core.process.kill()
    assert epochs == [1, 2]


def test_a_second_core_on_the_same_state_is_refused(site: Site) -> None:
    with running(*core_of(site), log=site.folder / "log") as core:
        core.ready()
        second = amqp_gateway(*core_of(site))
        still = hello(site.folder / "feed.sock")

    assert second.code is ExitCode.STATE
    assert second.reported == [
        (
            f"amqp-gateway: {site.folder}/state: another gateway runs on this state: stop it, or "
            "give this one a state folder of its own"
        )
    ]
    assert still.epoch == 1


def test_it_ends_when_its_parent_has_gone(site: Site) -> None:
    with running(*core_of(site), log=site.folder / "log") as core:
        core.ready()
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
