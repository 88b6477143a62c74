"""An upgrade under a running gateway: the files are replaced, and it restarts as the same process."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import socket
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from gateway.feed.messages import VERSION
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.installed_code import InstalledCode
from gateway.service.processes.systemd import MODULE, ServiceManager
from tests.components.command_line import RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.full_disk import small_ext4_disk
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.service.processes.test_core import hello, processes_of

ROOT = Path(__file__).parents[3]
FUTURE = "from __future__ import annotations\n"
RECORD = Path("amqp_management_gateway-0.1.0.dist-info/RECORD")


def recorded(name: str, octets: bytes) -> str:
    """Return the line of a file in a RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(octets).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(octets)}"


class Installation:
    """The gateway as a package in a folder of its own; its requirements are those of the tests."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("gateway", "mappings", "mibs"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        (place / RECORD).parent.mkdir()
        named = "Metadata-Version: 2.1\nName: amqp-management-gateway\nVersion: 0.1.0\n"
        (place / RECORD).with_name("METADATA").write_text(named, encoding="utf-8")
        self.record()

    def record(self) -> None:
        """Write what the folder has, as pip does at the end of an installation."""
        files = sorted((self.place / "gateway").rglob("*.py"))
        lines = [f"{RECORD},,"]
        lines += [recorded(str(path.relative_to(self.place)), path.read_bytes()) for path in files]
        draft = self.place / "RECORD.new"
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
        draft.replace(self.place / RECORD)

    def change(self, name: str, before: str, after: str) -> None:
        """Replace a file by one that differs, as a package manager does; the record is not written yet."""
        path = self.place / "gateway" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1
        draft = path.with_suffix(".new")
        draft.write_text(text.replace(before, after), encoding="utf-8")
        draft.replace(path)

    def newer(self) -> None:
        """Install a version whose processes do not understand those of the former one."""
        self.change("feed/messages.py", f"VERSION = {VERSION}\n", f"VERSION = {VERSION + 1}\n")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "site-packages")


def run(site: Site, installation: Installation, **variables: str) -> AbstractContextManager[RunningCommand]:
    words = ("run", "--config", site.configuration)
    place = str(installation.place)
    return running(*words, log=site.folder / "log", PYTHONPATH=place, **variables)


def events(gateway: RunningCommand) -> list[str]:
    return [record["event"] for record in gateway.log]


def test_a_gateway_whose_files_were_replaced_restarts_as_the_same_process(
    site: Site, installation: Installation
) -> None:
    path, systemd = site.folder / "feed.sock", site.folder / "systemd"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(systemd))
        with run(site, installation, NOTIFY_SOCKET=str(systemd)) as gateway:
            gateway.ready()
            supervisor = psutil.Process(gateway.process.pid)
            before = processes_of(supervisor)
            assert hello(path).version == VERSION
            installation.newer()
            os.kill(before["snmp"], signal.SIGKILL)
            installation.record()
            wait_until(lambda: events(gateway).count("gateway-ready") == 2, "it is ready once more")
            assert hello(path).version == VERSION + 1
            assert supervisor.is_running(), "the same process"
            after = processes_of(supervisor)
            assert set(before) <= set(after), "and the compactor, for what the former core has written"
            assert not set(after.values()) & set(before.values())
            assert site.state.boots == 2
            assert gateway.terminate().code is ExitCode.OK
        assert not path.exists()
        said = received(manager)
    assert [line for line in said if line.endswith("=1")] == [
        "READY=1",
        "RELOADING=1",
        "READY=1",
        "STOPPING=1",
    ]
    (stopping, _) = (each for each in gateway.log if each["event"] == "gateway-stopping")
    assert stopping["reason"] == "other code was installed, and it restarts"


def received(manager: socket.socket) -> list[str]:
    manager.setblocking(False)
    lines: list[str] = []
    try:
        while True:
            lines += manager.recv(4096).decode().splitlines()
    except BlockingIOError:
        return lines


def test_files_that_are_incomplete_or_cannot_be_started_leave_the_gateway_as_it_is(
    site: Site, installation: Installation
) -> None:
    path = site.folder / "feed.sock"
    with run(site, installation) as gateway:
        gateway.ready()
        supervisor = psutil.Process(gateway.process.pid)
        before = processes_of(supervisor)
        installation.newer()
        (installation.place / RECORD).unlink()
        wait_until(lambda: "code-replaced" in events(gateway), "it is noticed")
        os.kill(before["snmp"], signal.SIGKILL)
        wait_until(lambda: "process-not-started" in events(gateway), "no process begins with other code")
        assert hello(path).version == VERSION
        installation.change("cli/main.py", "from __future__", "raise SystemExit('broken')\nfrom __future__")
        installation.record()
        wait_until(lambda: "code-not-started" in events(gateway), "it is tried before anything ends")
        assert processes_of(supervisor)["core"] == before["core"]
        assert hello(path).version == VERSION
        (line,) = (each for each in gateway.log if each["event"] == "code-not-started")
        assert "restart the gateway" in line["advice"]
        assert gateway.terminate().code is ExitCode.OK


def test_code_that_says_its_version_and_cannot_run_is_not_started(
    site: Site, installation: Installation
) -> None:
    """As where a newer version refuses the configuration, or a package that it needs is missing."""
    with run(site, installation) as gateway:
        gateway.ready()
        installation.change("cli/supervise.py", "import asyncio\n", "import asyncio, missing_package\n")
        installation.record()
        wait_until(lambda: "code-not-started" in events(gateway), "it is tried before anything ends")
        (line,) = (each for each in gateway.log if each["event"] == "code-not-started")
        assert "missing_package" in line["reason"]
        assert hello(site.folder / "feed.sock").version == VERSION
        assert gateway.terminate().code is ExitCode.OK


def test_a_gateway_whose_disk_takes_nothing_is_left_as_it_is(
    tmp_path: Path, installation: Installation
) -> None:
    """It could end, and not start again: no start can be noted on a disk that was turned read-only."""
    with small_ext4_disk(tmp_path / "state", 48 << 20) as disk:
        site = new_site(tmp_path)
        with run(site, installation) as gateway:
            gateway.ready()
            before = processes_of(psutil.Process(gateway.process.pid))
            disk.turn_read_only()
            installation.newer()
            installation.record()
            wait_until(lambda: "code-not-started" in events(gateway), "it is tried before anything ends")
            (line,) = (each for each in gateway.log if each["event"] == "code-not-started")
            reason = f"{disk.folder}: no start can be noted: Read-only file system: mount it so that it can"
            assert reason in line["reason"]
            assert line["advice"].startswith("mend that, and leave the gateway as it is until then")
            assert processes_of(psutil.Process(gateway.process.pid))["core"] == before["core"]
            assert hello(site.folder / "feed.sock").version == VERSION
            assert gateway.terminate().code is ExitCode.OK
        assert list(disk.folder.glob("*.trial")) == []


_SLOW_START = """import sys, time
if "--state-lock" in sys.argv and "run" in sys.argv:
    time.sleep(5)
"""


def test_signals_that_ask_for_nothing_do_not_end_a_gateway_that_restarts(
    site: Site, installation: Installation
) -> None:
    with run(site, installation) as gateway:
        gateway.ready()
        supervisor = psutil.Process(gateway.process.pid)
        installation.change("cli/main.py", FUTURE, f"{FUTURE}{_SLOW_START}")
        installation.record()
        wait_until(lambda: "run" in supervisor.cmdline(), "the other code begins in its place")
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            os.kill(supervisor.pid, number)
        wait_until(lambda: events(gateway).count("gateway-ready") == 2, "it is ready once more")
        assert gateway.terminate().code is ExitCode.OK


def test_an_agent_whose_files_were_replaced_restarts_as_the_same_process_if_its_configuration_is_the_same(
    site: Site, installation: Installation
) -> None:
    broker = {"url": f"amqp://127.0.0.1:{free_tcp_port()}", "user": "x", "password": site.secret("x")}
    shop = {
        "kind": "rabbitmq",
        "management": f"http://127.0.0.1:{free_tcp_port()}",
        "user": "x",
        "password": site.secret("x"),
        "publish": {"amqp": broker, "allowed_users": ["console"]},
    }
    site.configure(agents={"shop": shop})
    words, place = ("agent", "shop", "--config", site.configuration), str(installation.place)
    with running(*words, log=site.folder / "log", program=MODULE, PYTHONPATH=place) as agent:
        wait_until(lambda: "broker-not-reached" in events(agent), "it runs without its broker")
        site.configure(agents={"shop": {**shop, "interval": "7s"}})
        installation.newer()
        installation.record()
        wait_until(lambda: "code-not-started" in events(agent), "it would have another configuration")
        (line,) = (each for each in agent.log if each["event"] == "code-not-started")
        assert line["reason"] == f"{site.configuration}: was changed since the agent's start"
        assert line["advice"] == "restart the agent"
        site.configure(agents={"shop": shop})
        wait_until(lambda: "agent-restarts" in events(agent), "its configuration is the same again")

        def has_begun_once_more() -> bool:
            for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):  # which ask for nothing
                os.kill(agent.process.pid, number)
            return events(agent).count("broker-not-reached") == 2

        wait_until(has_begun_once_more, "it has begun once more, whatever signals come meanwhile")
        assert agent.process.poll() is None, "as the same process"
        assert agent.terminate().code is ExitCode.OK
    assert amqp_gateway(*words, "--trial").code is ExitCode.OK
    (site.state.path / "agents" / "shop" / "VERSION").write_text("999999\n")
    assert amqp_gateway(*words, "--trial").code is ExitCode.STATE, "its state is of a later version"


def test_variables_of_systemd_are_for_the_supervisor_and_for_what_it_becomes() -> None:
    environment = {"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_USEC": "60000000", "PATH": "/bin"}
    manager = ServiceManager.of_environment(environment)
    assert environment == {"PATH": "/bin"}
    manager.hand_on(environment)
    assert environment["NOTIFY_SOCKET"] == "/run/systemd/notify"
    assert environment["WATCHDOG_USEC"] == "60000000"


# -- what is compared


def test_code_is_other_when_any_package_was_replaced_and_the_same_when_it_is_back(
    installation: Installation,
) -> None:
    code = InstalledCode(installation.place)
    assert (code.is_other(), code.trouble()) == (False, "")
    other = installation.place / "msgspec-1.0.dist-info" / "RECORD"
    other.parent.mkdir()
    other.write_text("", encoding="utf-8")
    assert code.is_other()
    shutil.rmtree(other.parent)
    assert not code.is_other()
    installation.record()  # the same files once more
    assert not code.is_other()
    installation.newer()
    assert code.trouble() == f"{installation.place}/gateway/feed/messages.py is not as recorded"
    installation.record()
    assert (code.is_other(), code.trouble()) == (True, "")
    (installation.place / RECORD).unlink()
    assert (code.is_other(), code.trouble() != "") == (True, True)


def test_of_other_packages_only_those_that_were_replaced_must_be_as_recorded(
    installation: Installation,
) -> None:
    """Two packages may have one file, and a package may be changed by hand, before the gateway begins."""
    changed = package(installation.place, "changed-1.0", b"as recorded")
    (installation.place / "changed.py").write_bytes(b"by hand")
    code = InstalledCode(installation.place)
    installation.newer()
    installation.record()
    package(installation.place, "other-1.0", b"as recorded")
    assert (code.is_other(), code.trouble()) == (True, "")
    (installation.place / "other.py").unlink()
    assert "other.py" in code.trouble()
    changed.write_text(changed.read_text(encoding="utf-8") * 2, encoding="utf-8")
    (installation.place / "other.py").write_bytes(b"as recorded")
    assert code.trouble() == f"{installation.place}/changed.py is not as recorded"


def package(place: Path, name: str, octets: bytes) -> Path:
    """Install a package with one module; return its record."""
    module = f"{name.partition('-')[0]}.py"
    (place / module).write_bytes(octets)
    record = place / f"{name}.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text(recorded(module, octets) + "\n", encoding="utf-8")
    return record


def test_a_folder_of_packages_that_cannot_be_looked_at_is_other_code(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = InstalledCode(installation.place)

    def refused(_self: Path, _pattern: str) -> list[Path]:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "glob", refused)
        assert (code.is_other(), code.trouble() != "") == (True, True)
    assert not code.is_other()


def test_a_checkout_is_never_other_code(tmp_path: Path) -> None:
    code = InstalledCode(tmp_path)
    (tmp_path / RECORD).parent.mkdir()
    (tmp_path / RECORD).write_text("", encoding="utf-8")
    assert not code.is_other()
