"""A private broker serves on loopback alone, comes back with its data, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path

import psutil
import pytest

from gateway.demo.broker import BrokerError, BrokerSettings, PrivateBroker
from gateway.demo.installation import root_of
from gateway.demo.keeper import MOST_RESTARTS
from gateway.demo.node_setup import free_ports
from tests.components.rabbitmq import TEST_SETTINGS, VirtualHost, WatchedBroker
from tests.components.waiting import wait_until
from tests.process_state import SharedPartEndedError

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

OWNER = """
import sys, time
from pathlib import Path
from gateway.demo.broker import BrokerSettings, PrivateBroker
broker = PrivateBroker(Path(sys.argv[1]), BrokerSettings(grace=0, debian=sys.argv[2]), remove=True)
broker.start()
print("started", flush=True)
time.sleep(600)
"""


def processes_of(broker: PrivateBroker) -> set[int]:
    """Every process that works in the broker's folder or on its ports: node, ports programs, keeper."""
    found = set()
    for process in psutil.process_iter():
        try:
            reported = [*process.cmdline(), *process.environ().values()]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if any(str(broker.folder) in text for text in reported):
            found.add(process.pid)
    return found


def runs(process: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_of_node(broker: PrivateBroker) -> set[int]:
    """The keeper of the node, and all processes that it or the node started, also as daemons.

    `processes_of` finds commands that other tests run at the same broker, too, and these listen for a moment.
    """
    node = broker.node_process()
    assert node is not None
    keeper = psutil.Process(node).parent()
    assert keeper is not None
    return {keeper.pid, *(process.pid for process in keeper.children(recursive=True))}


def listeners_of(processes: set[int]) -> set[tuple[str, int]]:
    """Addresses and ports on which any of ``processes`` listens."""
    return {
        (connection.laddr.ip, connection.laddr.port)
        for connection in psutil.net_connections("inet")
        if connection.laddr and connection.pid in processes and connection.status == psutil.CONN_LISTEN
    }


def test_it_listens_on_loopback_alone(rabbitmq: PrivateBroker) -> None:
    ports = rabbitmq.ports

    listeners = listeners_of(processes_of_node(rabbitmq))

    assert {address for address, _port in listeners} <= {"127.0.0.1", "::1"}
    assert {port for _address, port in listeners} == {
        ports.amqp,
        ports.management,
        ports.distribution,
        ports.port_mapper,
    }


def test_its_plugins_listen_on_loopback_alone_and_it_changes_nothing_that_others_see(
    rabbitmq_settings: BrokerSettings, start_rabbitmq: Callable[[BrokerSettings], PrivateBroker]
) -> None:
    release = root_of(rabbitmq_settings.debian or "none")
    before = set(release.rglob("*"))

    plugins = ("rabbitmq_mqtt", "rabbitmq_stream", "rabbitmq_prometheus")
    broker = start_rabbitmq(replace(TEST_SETTINGS, plugins=plugins))
    listeners = listeners_of(processes_of(broker))
    assert {address for address, _port in listeners} <= {"127.0.0.1", "::1"}
    assert {port for _address, port in listeners} == set(astuple(broker.ports))

    broker.rabbitmqctl("export_definitions", str(broker.seen_by_node(broker.folder / "all")))

    assert (broker.folder / "all").is_file()
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(broker.folder) not in mounts
    assert str(release) not in mounts
    assert set(release.rglob("*")) == before


def test_its_administrator_is_the_only_user(rabbitmq: PrivateBroker) -> None:
    with rabbitmq.http() as client:
        users = {user["name"] for user in client.get("users").json()}

    assert "guest" not in users
    assert rabbitmq.administrator.name in users
    assert rabbitmq.administrator.password not in repr(rabbitmq.administrator)


def test_its_files_that_hold_secrets_are_private(rabbitmq: PrivateBroker) -> None:
    readable = [
        file
        for file in rabbitmq.folder.iterdir()
        if file.is_file()
        and file.stat().st_mode & 0o077
        and rabbitmq.administrator.password in file.read_text()
    ]

    assert readable == []
    assert rabbitmq.folder.stat().st_mode & 0o077 == 0


def test_its_command_line_tool_reaches_it(rabbitmq: PrivateBroker) -> None:
    assert rabbitmq.node_name in rabbitmq.rabbitmqctl("cluster_status")


def test_a_refused_command_says_why(rabbitmq: PrivateBroker) -> None:
    with pytest.raises(BrokerError, match="nobody-of-this-name"):
        rabbitmq.rabbitmqctl("set_user_tags", "nobody-of-this-name", "monitoring")


def test_a_killed_node_comes_back_with_its_durable_queues_and_nothing_runs_on_when_its_keeper_is_killed(
    own_rabbitmq: PrivateBroker,
) -> None:
    ports, process = own_rabbitmq.ports, own_rabbitmq.node_process()
    with own_rabbitmq.http() as client:
        for queue, durable in (("kept", True), ("lost", False)):
            client.put(f"queues/%2F/{queue}", json={"durable": durable}).raise_for_status()
        # What was declared within the last seconds is in the node's own buffers only.
        own_rabbitmq.rabbitmqctl("eval", "mnesia:sync_log().")

        own_rabbitmq.kill_node()
        assert own_rabbitmq.node_process() is None
        own_rabbitmq.start()

        assert own_rabbitmq.ports == ports
        assert own_rabbitmq.node_process() not in {None, process}
        assert [queue["name"] for queue in client.get("queues/%2F").json()] == ["kept"]

    processes = processes_of(own_rabbitmq)
    node = own_rabbitmq.node_process()
    assert node is not None
    keeper = psutil.Process(node).parent()
    assert keeper is not None
    keeper.kill()
    wait_until(lambda: not any(map(runs, processes)), "all processes ended")
    own_rabbitmq.close()
    assert not own_rabbitmq.folder.exists()


def test_a_guarded_node_that_ends_by_itself_is_started_again_but_not_for_ever(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
) -> None:
    broker = start_rabbitmq(replace(TEST_SETTINGS, guarded=True))
    watched = WatchedBroker(broker)
    ended: set[int | None] = {None}

    for _ in range(MOST_RESTARTS + 1):
        wait_until(lambda: broker.node_process() not in ended, "there is a node, and another one")
        node = broker.node_process()
        assert node is not None
        ended.add(node)
        os.kill(node, signal.SIGKILL)

    wait_until(broker.is_given_up, "it is not started once more")
    assert broker.node_process() is None
    with pytest.raises(SharedPartEndedError, match="ended again and again; the end of its log:\n"):
        watched.look()
    broker.start()
    assert not broker.is_given_up()
    broker.kill_node()
    assert broker.node_process() is None, "that is no end by itself"


def test_a_port_taken_since_it_was_chosen_is_replaced_and_nothing_is_left_after_close(
    rabbitmq_settings: BrokerSettings,
) -> None:
    broker = PrivateBroker(settings=replace(rabbitmq_settings, grace=30))
    taken = broker.ports.amqp
    with socket.create_server(("127.0.0.1", taken)), broker:
        assert broker.ports.amqp != taken
        with socket.create_connection(("127.0.0.1", broker.ports.amqp)):
            pass
        processes = processes_of(broker)
        assert len(processes) > 2

        broker.close()

        assert not any(map(runs, processes))
        assert processes_of(broker) == set()
        assert not broker.folder.exists()


def test_nothing_is_left_when_its_owner_is_killed(tmp_path: Path, rabbitmq_settings: BrokerSettings) -> None:
    folder = tmp_path / "broker"
    command = [sys.executable, "-c", OWNER, str(folder), rabbitmq_settings.debian]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:  # noqa: S603  text from above
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "started\n"
            broker = PrivateBroker.attach(folder)
            assert broker is not None
            processes = processes_of(broker) - {owner.pid}
            broker.close()
        finally:
            owner.send_signal(signal.SIGKILL)

    wait_until(lambda: not folder.exists(), "the keeper removed the folder")
    wait_until(lambda: not any(map(runs, processes)), "all processes ended")


def test_it_lives_until_its_last_user_has_closed_it_and_a_process_of_that_user_has_ended(
    rabbitmq_settings: BrokerSettings,
) -> None:
    with PrivateBroker(settings=rabbitmq_settings) as first:
        second = PrivateBroker.attach(first.folder)
        assert second is not None
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, pass_fds=[second.lease]) as process:
            first.close()
            with second.http() as client:
                assert client.get("whoami").json()["name"] == second.administrator.name, "a user is left"

            second.close()
            with second.http() as client:
                assert client.get("whoami").json()["name"] == second.administrator.name, "a process is left"
            with pytest.raises(BrokerError, match="was not started, or was closed"):
                _ = second.lease

            process.kill()

        wait_until(lambda: not first.folder.exists(), "the keeper removed the folder")
        assert PrivateBroker.attach(first.folder) is None


def test_who_only_attached_cannot_stop_it(rabbitmq: PrivateBroker) -> None:
    attached = PrivateBroker.attach(rabbitmq.folder)
    assert attached is not None
    try:
        with pytest.raises(BrokerError, match="not started by this process"):
            attached.kill_node()
    finally:
        attached.close()


def test_a_node_that_cannot_start_reports_what_its_log_says(
    tmp_path: Path, rabbitmq_settings: BrokerSettings
) -> None:
    folder = tmp_path / "broker"
    broker = PrivateBroker(folder, replace(rabbitmq_settings, statistics_interval=-1), remove=True)

    with pytest.raises(BrokerError, match=r"(?s)ended while starting.*failed to set up vhost"):
        broker.start()

    broker.close()
    assert not folder.exists()


def test_a_node_that_takes_too_long_is_not_waited_for(rabbitmq_settings: BrokerSettings) -> None:
    broker = PrivateBroker(settings=replace(rabbitmq_settings, start_deadline=0.1))

    with pytest.raises(BrokerError, match=r"did not serve within 0\.1 s"):
        broker.start()

    broker.close()
    assert not broker.folder.exists()


def test_a_test_has_a_virtual_host_of_its_own(virtual_host: VirtualHost, rabbitmq: PrivateBroker) -> None:
    with rabbitmq.http() as client:
        assert virtual_host.name in {vhost["name"] for vhost in client.get("vhosts").json()}


def test_free_ports_are_different_and_can_be_bound() -> None:
    assert len(set(free_ports(20))) == 20
