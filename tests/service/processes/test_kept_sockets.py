"""Where the feed's socket is, which commands find it, and what becomes of it while the gateway runs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from gateway.config.files import load_configuration
from gateway.local_sockets import file_at
from gateway.service.diagnostics import health
from gateway.service.processes import kept_sockets
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.kept_sockets import check_sockets, note_feed_place
from gateway.service.state.running_configuration import addresses_of
from gateway.starts import RESERVED
from gateway.state_folder import FEED_PLACE, StateFolder
from tests.components import hosts
from tests.components.command_line import COMMAND, Site, amqp_gateway, new_site, running
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.waiting import DEADLINE, wait_until
from tests.service.processes.test_core import processes_of


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder as ``$XDG_RUNTIME_DIR``, which the end of a login removes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        yield Path(made)


def answers(site: Site, runtime: str = "") -> bool:
    """Return whether a command reaches the gateway, which has no sources."""
    ended = amqp_gateway("tree", "--config", site.configuration, XDG_RUNTIME_DIR=runtime)
    assert ended.code in {ExitCode.NOT_FOUND, ExitCode.UNREACHABLE}, ended
    return ended.code is ExitCode.NOT_FOUND


def test_a_gateway_of_a_login_is_found_by_every_shell_and_after_the_logout(site: Site, runtime: Path) -> None:
    site.configure(feed={})
    words = ("run", "--config", site.configuration)
    with running(*words, log=site.folder / "log", XDG_RUNTIME_DIR=str(runtime)) as gateway:
        gateway.ready()
        assert list(runtime.iterdir()) == []
        shutil.rmtree(runtime)
        assert answers(site), "the environment of a service"
        assert answers(site, "/run/user/4711"), "that of another login"
        processes = processes_of(psutil.Process(gateway.process.pid))
        os.kill(processes["snmp"], signal.SIGKILL)
        wait_until(lambda: ended_well(site), "a process that starts again finds the core")
        assert gateway.terminate().code is ExitCode.OK
    assert not (site.folder / "state" / "feed.sock").exists()


def has_boots(site: Site, boots: int) -> bool:
    return site.state.boots == boots


def ended_well(site: Site) -> bool:
    return amqp_gateway("health", "--config", site.configuration).code is ExitCode.OK


def test_a_restart_of_the_core_changes_nothing_at_the_path_and_what_connects_meanwhile_is_closed(
    site: Site,
) -> None:
    path = site.folder / "feed.sock"
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        before = file_at(path)
        supervisor = psutil.Process(gateway.process.pid)
        for boots in (2, 3):
            os.kill(processes_of(supervisor)["core"], signal.SIGKILL)
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(DEADLINE)
                asking.connect(str(path))
                asking.recv(1)  # the next core's, or the end: it does not wait for an answer
            wait_until(partial(has_boots, site, boots), "a new core was started")
        wait_until(lambda: answers(site), "it serves the socket")
        assert file_at(path) == before is not None
        assert gateway.terminate().code is ExitCode.OK


def test_health_asks_the_process_with_the_metrics_of_objects(site: Site) -> None:
    port = free_tcp_port()
    site.configure(
        snmp={"enabled": False}, metrics={"enabled": True, "listen": f"127.0.0.1:{port}", "objects": {}}
    )
    words = ("health", "--config", site.configuration)
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        supervisor = psutil.Process(gateway.process.pid)
        assert amqp_gateway(*words).code is ExitCode.OK
        os.kill(processes_of(supervisor)["objects"], signal.SIGSTOP)
        stands_still = amqp_gateway(*words)
        said = ""

        def is_missing() -> bool:
            """Return whether it is asked after the end of one process, and before the next one is there."""
            nonlocal said
            for name, process_id in processes_of(supervisor).items():
                if name == "objects":
                    os.kill(process_id, signal.SIGKILL)
            said = amqp_gateway(*words).errors
            return bool(said)

        wait_until(is_missing, "it is not there")
        wait_until(lambda: ended_well(site), "it is started again")
        assert gateway.terminate().code is ExitCode.OK
    name = "amqp-gateway: the process 'objects', which has the metrics of objects,"
    assert said == f"{name} is not running: see its log\n"
    assert stands_still.code is ExitCode.UNREACHABLE
    assert stands_still.errors == f"{name} has said nothing for 4 s: it stands still; see its log\n"


def test_a_socket_that_is_removed_is_made_again_and_the_connections_stay(site: Site) -> None:
    """And one that is only touched, or whose mode is changed, is left."""
    port = free_tcp_port()
    site.configure(
        feed={"socket": "run/feed.sock"},
        metrics={"enabled": True, "listen": f"127.0.0.1:{port}", "objects": {}},
    )
    folder = site.folder / "run"
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        wait_until(lambda: [each["event"] for each in gateway.log].count("feed-up") == 2, "all are connected")
        names = ("feed.sock", "feed.objects")
        for touched, removed in (names, names[::-1]):
            os.utime(folder / touched)
            (folder / touched).chmod(0o660)
            (folder / removed).unlink()
            wait_until((folder / removed).is_socket, "the other one is made again")
        shutil.rmtree(folder)
        wait_until((folder / "feed.sock").is_socket, "it is made again")
        wait_until((folder / "feed.objects").is_socket, "and that of the objects")
        wait_until(lambda: answers(site), "the core listens on it")
        url = f"http://127.0.0.1:{port}/metrics/objects"
        wait_until(lambda: served_page(url).status_code == httpx.codes.OK, "the objects are shown")
        (folder / "feed.sock").unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(folder / "feed.sock"))
        wait_until(lambda: answers(site), "an abandoned one in its place is replaced")
        assert site.state.boots == 1, "the core is the same"
        bad = {"process-died", "feed-down", "socket-lost"}
        assert [each for each in gateway.log if each["event"] in bad] == []
        again = Counter(Path(one["path"]).name for one in gateway.log if one["event"] == "socket-made-again")
        assert again == {"feed.sock": 3, "feed.objects": 2}, "and not where it was touched"
        assert gateway.terminate().code is ExitCode.OK
    assert list(folder.iterdir()) == []


def said_of_socket(site: Site, program: Sequence[str | Path] = COMMAND) -> str:
    """Return what check, doctor and run say of the sockets of a configuration: all the same, or nothing."""
    words = ("--config", site.configuration)
    checked, looked, ran = (
        amqp_gateway(each, *words, program=program) for each in ("check", "doctor", "run")
    )
    assert (checked.code, looked.code) == (ran.code, ExitCode.DIFFERENCE), looked.output
    (line,) = ran.reported
    assert checked.reported == [line]
    said = line.removeprefix("amqp-gateway: ")
    (problem,) = (line for line in looked.output.splitlines() if line.startswith("problem"))
    assert problem.partition("feed: ")[2] == said
    return said


async def test_health_is_not_good_where_its_user_may_not_ask(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of root beside a gateway without SNMP and JMX."""
    site.configure(snmp={"enabled": False}, metrics={"enabled": True, "listen": "[::1]:1", "objects": {}})
    loaded = load_configuration(site.configuration)
    monkeypatch.setattr(health, "peer", lambda _: os.getuid() + 1)
    said: list[str] = []
    with ExitStack() as listening:
        for path in (loaded.feed_socket, loaded.objects_socket):
            server = listening.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(str(path))
            server.listen()
        with pytest.raises(CommandError, match="run this as that user") as ended:
            await health.ask(addresses_of(loaded), lambda: loaded, said.append)
    assert (ended.value.code, said) == (ExitCode.UNREACHABLE, [])


def test_a_second_gateway_with_the_same_socket_is_refused_and_the_first_serves_on(site: Site) -> None:
    folder = site.folder / "second"
    folder.mkdir()
    second = new_site(folder)
    second.configure(feed={"socket": "../feed.sock"})
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        said = said_of_socket(second)
        for command in ("check", "doctor"):
            ours = amqp_gateway(command, "--config", site.configuration)
            assert "feed.socket" not in ours.output + ours.errors
        site.configure(feed={"socket": "notes"})
        (site.folder / "notes").write_text("of the user")
        checked = amqp_gateway("check", "--config", site.configuration)
        assert checked.code is ExitCode.CONFIGURATION, "where it would be after a restart"
        site.configure()
        assert answers(site)
        assert gateway.terminate().code is ExitCode.OK
    assert said == (
        f"{second.configuration}:8: feed.socket: {folder}/../feed.sock: another process listens there: "
        "name another path under feed.socket"
    )
    assert amqp_gateway("check", "--config", second.configuration).code is ExitCode.OK


def test_the_sockets_of_the_objects_of_two_gateways_are_two(site: Site) -> None:
    metrics = {"enabled": True, "listen": f"127.0.0.1:{free_tcp_port()}", "objects": {}}
    site.configure(feed={"socket": "feed.other"}, metrics=metrics)
    with socket.socket(socket.AF_UNIX) as objects:
        objects.bind(str(site.folder / "feed.objects"))
        objects.listen()
        assert f"{site.folder}/feed.objects: another process listens there" in said_of_socket(site)


def test_a_gateway_that_was_killed_leaves_a_socket_that_the_next_start_replaces(site: Site) -> None:
    path = site.folder / "feed.sock"
    for is_killed in (True, False):
        with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
            gateway.ready()
            assert answers(site)
            if is_killed:
                gateway.process.kill()
    assert site.state.boots == RESERVED + 1
    assert not path.exists()


def test_a_long_path_of_the_state_folder_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    site = new_site(folder)
    port = free_tcp_port()
    site.configure(feed={}, metrics={"enabled": True, "listen": f"127.0.0.1:{port}", "objects": {}})
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        assert answers(site)
        assert ended_well(site)
        served_page(f"http://127.0.0.1:{port}/metrics/objects").raise_for_status()
        assert gateway.terminate().code is ExitCode.OK


# -- the place


def place_of(site: Site) -> Path:
    """Return where the feed's socket is after a start that decided it."""
    note_feed_place(load_configuration(site.configuration))
    return load_configuration(site.configuration).feed_socket


def test_the_place_is_that_of_the_last_start_also_when_the_configuration_was_edited_since(site: Site) -> None:
    site.configure(feed={})
    assert load_configuration(site.configuration).feed_socket == site.folder / "state/feed.sock"
    assert place_of(site) == site.folder / "state/feed.sock"
    site.configure(feed={"socket": "other.sock"})
    assert load_configuration(site.configuration).feed_socket == site.folder / "state/feed.sock"
    assert place_of(site) == site.folder / "other.sock"


def test_the_place_in_the_state_folder_moves_with_it(site: Site) -> None:
    site.configure(feed={})
    assert place_of(site) == site.folder / "state/feed.sock"
    site.state.path.rename(site.folder / "moved")
    site.configure(feed={}, state={"folder": "moved"})
    assert load_configuration(site.configuration).feed_socket == site.folder / "moved/feed.sock"


def test_a_state_folder_that_cannot_hold_a_socket_leads_to_a_folder_of_the_user(
    site: Site, runtime: Path
) -> None:
    site.configure(feed={})
    program = hosts.on_file_system_without("sockets of state", folder=site.folder)
    words = ("run", "--config", site.configuration)
    variables = {"RUNTIME_DIRECTORY": str(runtime)}
    with running(*words, log=site.folder / "log", program=program, **variables) as gateway:
        gateway.ready()
        (path,) = runtime.iterdir()
        assert path == load_configuration(site.configuration).feed_socket
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert answers(site)
        assert gateway.terminate().code is ExitCode.OK
    with running(*words, log=site.folder / "log", program=program, TMPDIR=str(runtime)) as gateway:
        gateway.ready()
        (folder,) = runtime.iterdir()
        assert folder.name == f"amqp-gateway-{os.getuid()}"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert answers(site)
        assert gateway.terminate().code is ExitCode.OK
    folder.chmod(0o755)
    said = said_of_socket(site, ("env", f"TMPDIR={runtime}", *program))
    assert said.startswith(f"{site.configuration}:")
    assert f"{folder}: is no folder that only its user can enter: name another path under feed.so" in said


def test_a_check_by_a_user_who_cannot_know_the_gateways_user_is_good(site: Site) -> None:
    (site.folder / "notes").write_text("of the user")
    site.configure(feed={"socket": "notes"})
    loaded = load_configuration(site.configuration)
    with pytest.raises(CommandError, match="something is there that is no socket"):
        check_sockets(loaded, is_running=False)
    site.state.path.rename(site.folder / "elsewhere")
    check_sockets(loaded, is_running=False)


def test_a_folder_that_the_service_manager_makes_is_not_missed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by its other name: /var/run is a link to /run."""
    (site.folder / "run").mkdir(mode=0o500)
    (site.folder / "var-run").symlink_to("run")
    monkeypatch.setattr(kept_sockets, "_MADE_BY_SERVICES", site.folder / "run")
    monkeypatch.setattr(os, "access", lambda path, *_, **__: "run" not in Path(path).name)
    for folder in ("run", "var-run"):
        site.configure(feed={"socket": f"{folder}/amqp-gateway/feed.sock"})
        check_sockets(load_configuration(site.configuration), is_running=False)
    site.configure(feed={"socket": "run/feed.sock"})
    with pytest.raises(CommandError, match="this user cannot write in"):
        check_sockets(load_configuration(site.configuration), is_running=False)


def test_the_place_may_have_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    site = new_site(folder)
    for _ in range(2):  # the second one finds the note of the first
        assert place_of(site) == folder / "feed.sock"
    site.configure(feed={})
    assert load_configuration(site.configuration).feed_socket == folder / "feed.sock"


def test_a_note_that_cannot_be_read_is_none(site: Site) -> None:
    site.configure(feed={})
    (site.state.path / FEED_PLACE).write_bytes(b"\0\0\0\xff")
    assert load_configuration(site.configuration).feed_socket == site.folder / "state/feed.sock"
    StateFolder(site.state.path)


def test_what_is_in_the_way_of_the_configured_socket_is_said_by_check_doctor_and_run(site: Site) -> None:
    (site.folder / "notes").write_text("of the user")
    site.configure(feed={"socket": "notes"})
    said = f"feed.socket: {site.folder}/notes: something is there that is no socket: name another path under"
    assert said in said_of_socket(site)
    site.configure(feed={"socket": "notes/feed.sock"})
    assert f"{site.folder}/notes is no folder" in said_of_socket(site)
    assert (site.folder / "notes").read_text() == "of the user"
