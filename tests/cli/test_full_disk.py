"""The state folder on a small disk that is full, or was turned read-only: the gateway goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from gateway.config.files import load_configuration
from gateway.demo.broker import PrivateBroker
from gateway.durable_files import FOR_STARTS
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.kept_sockets import note_feed_place
from gateway.state_folder import StateFolder
from tests.cli.conftest import ShownGateway, running_gateway
from tests.components.command_line import COMMAND, RunningCommand, amqp_gateway, new_site, running
from tests.components.full_disk import small_disk, small_ext4_disk
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING


def shows(shown: ShownGateway, queue: str) -> bool:
    return shown.call("get", shown.path(queue)).code is ExitCode.OK


def row(shown: ShownGateway, queue: str) -> int:
    (document,) = shown.documents("get", shown.path(queue))
    return int(document["row"])


def health(shown: ShownGateway, says: Callable[[str], bool], what: str) -> None:
    """Wait until the gateway is healthy, and its health says something."""

    def said() -> bool:
        ended = shown.call("health")
        return ended.code is ExitCode.OK and says(ended.output)

    wait_until(said, what)


def core_of(shown: ShownGateway) -> psutil.Process:
    return process_of(shown, "core")


def process_of(shown: ShownGateway, name: str) -> psutil.Process:
    children = psutil.Process(shown.command.process.pid).children(recursive=True)
    return next(child for child in children if f" process {name} " in " ".join(child.cmdline()))


def test_a_full_disk_ends_nothing_and_a_core_starts_on_it(rabbitmq: PrivateBroker, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "state", 24 << 20) as disk,
        running_gateway(rabbitmq, tmp_path, has_jmx=False, log={"min_free": 1}) as shown,
    ):
        wait_until((disk.folder / "reserve").exists, "the reserve is made")
        first = row(shown, "first")
        disk.fill()
        core = core_of(shown)
        shown.declare("second")
        wait_until(lambda: shows(shown, "second"), "a new queue is shown")
        second = row(shown, "second")
        health(shown, lambda said: "event log: disk-full" in said, "the log pauses")
        assert core.is_running()

        os.kill(core.pid, signal.SIGKILL)
        health(shown, lambda said: "state folder: its disk is full" in said, "another core runs")
        wait_until(lambda: shows(shown, "second"), "the queues are shown again")
        assert (row(shown, "first"), row(shown, "second")) == (first, second)

        disk.empty()
        health(shown, lambda said: "event log: writing" in said and "state folder" not in said, "all is well")
        assert (disk.folder / "reserve").stat().st_size == 8 << 20


def starts(state: Path) -> tuple[int, int]:
    """Return how often the core and the SNMP engine were started."""
    return StateFolder(state).boots, json.loads((state / "snmp-engine.json").read_text())["boots"]


def are_more(state: Path, before: tuple[int, int]) -> bool:
    return all(now > then for now, then in zip(starts(state), before, strict=True))


def test_where_the_reserve_is_used_killed_processes_start_again_and_count_it(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with (
        small_disk(tmp_path / "state", 24 << 20) as disk,
        running_gateway(rabbitmq, tmp_path, has_jmx=False, log={"min_free": 1}) as shown,
    ):
        reserve = disk.folder / "reserve"
        wait_until(reserve.exists, "the reserve is made")
        first = row(shown, "first")
        os.truncate(reserve, FOR_STARTS)
        for _ in range(3 if PROVING else 2):
            disk.fill()
            before = starts(disk.folder)
            for process in [process_of(shown, "core"), process_of(shown, "snmp")]:
                process.kill()
            wait_until(partial(are_more, disk.folder, before), "both starts are counted")
            health(shown, lambda said: "new objects wait, not shown" in said, "both run again")
            wait_until(partial(shows, shown, "first"), "its objects are read again")
            assert row(shown, "first") == first
        assert 0 < reserve.stat().st_size < FOR_STARTS

        disk.empty()
        health(shown, lambda said: "event log: writing" in said and "state folder" not in said, "all is well")


@pytest.mark.xdist_group("quiet broker")
def test_on_a_disk_that_was_turned_read_only_new_objects_wait_unshown(
    quiet_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    """On a broker without others: objects of other tests would be in the commit that fails."""
    with (
        small_ext4_disk(tmp_path / "state", 48 << 20) as disk,
        running_gateway(quiet_rabbitmq, tmp_path, has_jmx=False, log={"min_free": 1}) as shown,
    ):
        core = core_of(shown)
        first = row(shown, "first")
        disk.turn_read_only()
        health(shown, lambda said: "state folder: cannot be written" in said, "it is reported")
        shown.declare("last-commit")
        wait_until(lambda: shows(shown, "last-commit"), "the queue of the commit that failed is shown")
        shown.declare("waits")

        def unshown() -> bool:
            (source,) = (each for each in shown.documents("source", "ls") if each["source"] == "orders")
            return bool(source["counters"]["objects_unshown"])

        wait_until(unshown, "it is counted")
        assert not shows(shown, "waits")
        assert row(shown, "first") == first
        assert core.is_running()
        assert [each["event"] for each in shown.command.log].count("state-not-written") == 1

        before = starts(disk.folder)
        for _ in range(3 if PROVING else 2):
            for process in [process_of(shown, "core"), process_of(shown, "snmp")]:
                process.kill()
            health(shown, lambda said: "new objects wait, not shown" in said, "both run again")
            wait_until(partial(shows, shown, "first"), "its objects are read again")
            assert row(shown, "first") == first
            wait_until(unshown, "new objects wait")
            assert not shows(shown, "waits")
        assert starts(disk.folder) == before, "no start could be noted"
        numbers: dict[str, list[int]] = {name: [] for name in ("core", "snmp")}
        for line in shown.command.log:
            if line["event"] == "start-not-noted":
                numbers[line["process"]].append(line["start"])
        for noted, (name, given) in zip(before, numbers.items(), strict=True):
            assert len(given) >= (3 if PROVING else 2), name
            assert sorted({noted, *given}) == [noted, *given], "no number is used twice, and they ascend"


WITH_LOCK = 'lock=$1; shift; exec "$@" --state-lock 9 9< "$lock"'
"""A shell's command: a program with the lock of a state folder, as a supervisor hands it on."""


def test_a_core_that_began_on_a_read_only_disk_ends_for_another_when_it_can_be_written(
    tmp_path: Path,
) -> None:
    """It could not open its event log, and its index only to read.

    The next core does not know what one made that was killed on such a disk; of this one it does.
    """
    with small_disk(tmp_path / "state", 24 << 20) as disk:
        site = new_site(tmp_path)
        site.configure()
        note_feed_place(load_configuration(site.configuration))
        words = ("process", "core", "--config", site.configuration)
        program = ("sh", "-c", WITH_LOCK, "sh", disk.folder / "LOCK", *COMMAND)
        with running(*words, log=tmp_path / "first") as first:
            first.ready()
            first.process.kill()
        disk.remount("ro")
        with running(*words, "--start", "2", log=tmp_path / "second", program=program) as second:
            second.ready()
            second.process.kill()
        assert not in_doubt(second)
        with running(*words, "--start", "3", log=tmp_path / "third", program=program) as third:
            third.ready()
            assert in_doubt(third)
            assert "start-not-noted" in [line["event"] for line in third.log]
            assert site.state.boots == 1
            disk.remount("rw")
            ended = third.ended()
        assert (ended.code, ended.reported) == (ExitCode.AGAIN, [])
        with running(*words, "--start", "4", log=tmp_path / "fourth", program=program) as fourth:
            fourth.ready()
            assert site.state.boots == 4
            assert not {"start-not-noted", "event-log-failed"} & {line["event"] for line in fourth.log}
            assert not in_doubt(fourth)
            assert fourth.terminate().code is ExitCode.OK


def test_a_new_source_waits_for_the_disk_and_ends_no_core(tmp_path: Path) -> None:
    with small_disk(tmp_path / "state", 24 << 20) as disk:
        site = new_site(tmp_path)
        known, new = ({"kind": "ami", "listen": f"127.0.0.1:{free_tcp_port()}"} for _ in range(2))
        site.configure(sources={"known": known}, log={"enabled": False})
        note_feed_place(load_configuration(site.configuration))
        words = ("process", "core", "--config", site.configuration)
        program = ("sh", "-c", WITH_LOCK, "sh", disk.folder / "LOCK", *COMMAND)
        with running(*words, log=tmp_path / "first") as first:
            first.ready()
            wait_until((disk.folder / "reserve").exists, "the reserve is made")
            first.process.kill()
        os.truncate(disk.folder / "reserve", 0)
        disk.fill()
        site.configure(sources={"known": known, "new": new}, log={"enabled": False})
        with running(*words, "--start", "2", log=tmp_path / "second", program=program) as second:
            second.ready()
            assert [line["name"] for line in second.log if line["event"] == "source-waits"] == ["new"]
            disk.empty()
            ended = second.ended()
        assert (ended.code, ended.reported) == (ExitCode.AGAIN, [])
        with running(*words, "--start", "3", log=tmp_path / "third", program=program) as third:
            third.ready()
            shown = amqp_gateway("source", "ls", "--json", "--config", site.configuration)
            assert [json.loads(line)["source"] for line in shown.output.splitlines()] == ["known", "new"]
            assert third.terminate().code is ExitCode.OK


def in_doubt(core: RunningCommand) -> bool:
    """Return whether a core does not know how many events the one before has made."""
    return "events-in-doubt" in [line["event"] for line in core.log]


def test_a_start_on_a_read_only_disk_says_what_to_do(tmp_path: Path) -> None:
    with small_disk(tmp_path / "state", 24 << 20) as disk:
        site = new_site(tmp_path)
        disk.remount("ro")
        ended = amqp_gateway("run", "--config", site.configuration)
    place = f"(tmpfs, mounted at {disk.folder})"
    mends = f"Read-only file system: mount it so that it can be written {place}"
    assert (ended.code, ended.reported) == (
        ExitCode.STATE,
        [f"amqp-gateway: {disk.folder}/LOCK: cannot be opened: {mends}"],
    )
