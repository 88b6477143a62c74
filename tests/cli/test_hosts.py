"""Every command on machines that lack something: it may fail, and says in a line why and what to do."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.unexpected import unexpected
from gateway.file_systems import Ability
from gateway.inventory.instance_file import open_index
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.supervisor import FAILED_STARTS
from tests.components import every_command, hosts
from tests.components.command_line import UNEXPECTED, Site, amqp_gateway, environment, running
from tests.components.ports import free_tcp_port
from tests.components.waiting import DEADLINE, wait_until
from tests.eventlog.logs import segment, update

EACH = (sys.executable, "-P", "-m", every_command.__name__)
ROOT = Path(__file__).parent.parent.parent
NO_TEXTS = "Python drops its texts"
HOSTS: Mapping[str, Callable[[Path], list[str]]] = {
    "no folder takes temporary files": lambda folder: hosts.host(
        *hosts.without_temporary_files(folder, folder.parent / "state"), program=EACH
    ),
    "the current folder was removed": lambda folder: hosts.host(
        *hosts.from_deleted_folder(folder / "removed"), program=EACH
    ),
    "the current folder is of others": lambda folder: hosts.from_folder_of_others(
        folder / "of-others", program=EACH
    ),
    "the kernel has no IPv6": lambda _: hosts.without_ipv6(EACH),
    "the user has no name": lambda _: hosts.without_user(EACH),
    "variables of others, and noexec": lambda folder: hosts.host(
        f"mkdir {folder}/temporary",
        hosts.not_executable(folder / "temporary"),
        f"export TMPDIR={folder}/temporary SSLKEYLOGFILE=/proc/none/keys SPARK_HOME=/none",
        "export JAVA_TOOL_OPTIONS=-javaagent:/none/agent.jar",
        program=EACH,
    ),
    NO_TEXTS: lambda _: hosts.host("export PYTHONOPTIMIZE=2", program=EACH),
}
WITHOUT_SPARK = {
    "no folder takes temporary files": "no folder takes temporary files",
    "the current folder was removed": "the current folder was removed: go to another one",
    "the user has no name": f"the user {hosts.NO_USER} has no entry in /etc/passwd",
    "variables of others, and noexec": ("the variable SPARK_HOME names /none"),
}
"""What Spark says where it does not start, which is quick; elsewhere only its help is shown."""
WITH_JAVA = {
    "no folder takes temporary files",
    "variables of others, and noexec",
}
"""Where the gateway runs with a Java virtual machine, which these concern."""


def ended(site: Site, host: str) -> dict[str, dict[str, Any]]:
    """Return how each command ended on this host, by its words."""
    folder = site.folder / "current"
    folder.mkdir()
    try:
        done = subprocess.run(  # noqa: S603  our own command
            [*HOSTS[host](folder), *(["analytics"] if host in WITHOUT_SPARK else [])],
            cwd=folder,
            env=environment(AMQP_GATEWAY_CONFIG=str(site.configuration), PYTHONPATH=str(ROOT)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
            check=False,
        )
    finally:
        shutil.rmtree(folder)  # with the backup that one of them made, which has secrets
    assert (done.returncode, done.stderr) == (0, "")
    return {" ".join(one["words"]): one for one in map(json.loads, done.stdout.splitlines())}


@pytest.mark.long
@pytest.mark.parametrize(
    "host",
    # There each command starts Python once more, which compiles what it imports.
    [pytest.param(one, marks=[pytest.mark.prove] if one == NO_TEXTS else []) for one in HOSTS],
)
def test_no_command_meets_what_it_does_not_expect(site: Site, host: str) -> None:
    metrics, away = free_tcp_port(), free_tcp_port()
    login = {"user": "x", "password": site.secret("x")}
    source = {"kind": "rabbitmq", "management": f"http://127.0.0.1:{away}", **login}
    amqp = {"url": f"amqp://127.0.0.1:{away}", **login}
    site.configure(
        sources={"orders": source},
        agents={"shop": {**source, "publish": {"amqp": amqp, "allowed_users": ["console"]}}},
        snmp={"listen": [f"[::1]:{site.snmp_port}"]},
        metrics={"enabled": True, "listen": f"[::1]:{metrics}", "objects": {}},
        feed={"socket": "state/feed.sock"},
        log={"folder": "state/log"},
        jmx={"enabled": host in WITH_JAVA, "listen": f"127.0.0.1:{free_tcp_port()}"},
    )
    segment(site.folder / "state" / "log", 1, [update(number) for number in range(20)])
    commands = ended(site, host)
    assert len(commands) > 50
    for words, command in commands.items():
        assert "Traceback" not in command["printed"], words
        assert UNEXPECTED not in command["printed"], words
        assert command["code"] in set(ExitCode), words
    assert {words for words, one in commands.items() if "--help" in words and one["code"]} == set()
    doctor, query = commands["doctor"], commands["log query"]
    if host == "no folder takes temporary files":
        assert query["printed"].startswith("amqp-gateway: no folder takes temporary files, neither $TMPDIR")
        assert query["printed"].endswith("or set TMPDIR to a folder that this user can write\n")
    else:
        assert query["code"] == ExitCode.OK
    if host == "the kernel has no IPv6":
        no_family = f"ports ::1:{metrics}: metrics: Address family not supported by protocol"
        assert no_family in doctor["printed"]
    else:
        assert commands["run"]["code"] == ExitCode.OK, commands["run"]["printed"]
        assert "gateway-ready" in commands["run"]["printed"]
        assert "process-died" not in commands["run"]["printed"]
    problems = [line for line in doctor["printed"].splitlines() if line.startswith("problem")]
    expected = {"agent", "ports", "source"}  # their broker is away
    if host == "the kernel has no IPv6":
        expected.add("configuration:")  # snmp.listen
    assert {line.split()[1] for line in problems} <= expected, problems
    for words in ("agent shop", "doctor", "run"):
        assert "/proc/none/keys" not in commands[words]["printed"], "nothing of this uses TLS"
    assert commands["agent shop"]["code"] == ExitCode.OK, commands["agent shop"]["printed"]
    if host in WITHOUT_SPARK:
        assert WITHOUT_SPARK[host] in commands["analytics report"]["printed"]


def test_a_configuration_of_the_machine_is_found_from_a_folder_of_others(site: Site, tmp_path: Path) -> None:
    """As by ``sudo -u svc amqp-gateway check`` of root in its home."""
    etc = tmp_path / "etc"
    shutil.copytree("/etc", etc, symlinks=True)
    shutil.copytree(site.folder, etc / "amqp-gateway", ignore=shutil.ignore_patterns("etc"))
    program = hosts.host(f"mount --bind {etc} /etc", program=hosts.from_folder_of_others(tmp_path / "home"))
    checked = amqp_gateway("check", program=program)
    assert (checked.code, checked.output) == (ExitCode.OK, "/etc/amqp-gateway/gateway.yaml: good\n")


COSTS = {
    "folders": Ability.SYNCED_FOLDERS.value,
    "modes": Ability.MODES.value,
    "links": Ability.LINKS.value,
    "links across": Ability.LINKS.value,
}


@pytest.mark.parametrize("lacks", [["links"], ["links across"], ["folders"], ["folders", "modes", "links"]])
def test_a_state_is_made_on_a_file_system_that_lacks_something_and_its_cost_is_said(
    site_without_state: Site, lacks: list[str]
) -> None:
    site = site_without_state
    program = hosts.on_file_system_without(*lacks, folder=site.folder)
    made = amqp_gateway("init", "--config", site.configuration, program=program)
    assert made.code is ExitCode.OK, made.errors
    limits, *_ = made.output.splitlines()
    assert re.fullmatch(rf"{site.folder}/state: its file system \(\w+, mounted at /.*\) has .*", limits)
    assert limits.endswith(" has " + "; and ".join(COSTS[each] for each in lacks))
    assert {path.name for path in site.state.path.iterdir()} == {"VERSION", "boots", "identity", "secrets"}
    community = site.state.secret("community")
    assert len(community) == 36
    again = amqp_gateway("snmp", "engine", "--config", site.configuration, program=program)
    assert again.code is ExitCode.OK, "which reads the secrets, and makes one"
    assert site.state.secret("community") == community
    doctor = amqp_gateway("doctor", "--config", site.configuration, program=program)
    assert ("a power failure can lose what was acknowledged" in doctor.output) is ("folders" in lacks)


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ("locks", f" has {Ability.LOCKS.value}: name a folder on another one (state.folder)"),
        ("records", f" has {Ability.INDEX.value}: name a folder on another one (state.folder)"),
        ("memory", f" has {Ability.INDEX.value}: name a folder on another one (state.folder)"),
        (
            "sockets",
            f" has {Ability.SOCKETS.value}: name a path on another one under feed.socket, or another",
        ),
    ],
)
def test_a_file_system_without_what_is_needed_is_named_and_nothing_is_left(
    site_without_state: Site, lacks: str, said: str
) -> None:
    site = site_without_state
    site.configure(feed={"socket": "state/feed.sock"})
    program = hosts.on_file_system_without(lacks, folder=site.folder)
    made = amqp_gateway("init", "--config", site.configuration, program=program)
    assert made.code is ExitCode.STATE
    (line,) = made.reported
    assert line.startswith(f"amqp-gateway: {site.folder}/state: its file system (")
    assert said in line
    assert not (site.folder / "state").exists()


@pytest.mark.parametrize("lacks", ["records", "memory"])
def test_an_index_that_came_to_a_file_system_that_cannot_have_it_says_so(site: Site, lacks: str) -> None:
    index = site.state.instances
    open_index(index, must_exist=False).close()
    opening = (
        "import sys; from pathlib import Path; from gateway.inventory.instance_file import *\n"
        "try:\n    open_index(Path(sys.argv[1]), must_exist=True)\n"
        "except InstanceIndexError as error:\n    print(error)"
    )
    program = hosts.on_file_system_without(
        lacks, folder=site.folder, program=(sys.executable, "-c", opening, index)
    )
    done = subprocess.run(  # noqa: S603  text from above
        program, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(f"{index}: its file system ("), done
    assert f" has {Ability.INDEX.value}: put the state folder on a local disk" in done.stdout


def test_a_backup_is_made_where_files_have_no_modes(site: Site) -> None:
    open_index(site.state.instances, must_exist=False).close()
    program, backup = hosts.on_file_system_without("modes", folder=site.folder), site.folder / "backup"
    words = ("state", "backup", backup, "--without-secrets", "--config", site.configuration)
    made = amqp_gateway(*words, program=program)
    assert (made.code, made.errors) == (ExitCode.OK, "")
    assert backup.stat().st_mode & 0o777 == 0o600


def test_a_secret_without_hard_links_is_the_same_for_all_that_ask_at_once(site: Site) -> None:
    asking = "import sys; from pathlib import Path; from gateway.state_folder import StateFolder\n"
    asking += "print([StateFolder(Path(sys.argv[1])).secret(f'secret-{each}') for each in range(40)])"
    program = hosts.on_file_system_without(
        "links", folder=site.folder, program=(sys.executable, "-c", asking)
    )
    askers = [
        subprocess.Popen(  # noqa: S603  text from above
            [*program, str(site.state.path)],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    answers = {asker.communicate(timeout=DEADLINE)[0] for asker in askers}
    assert len(answers) == 1
    assert [asker.returncode for asker in askers] == [0, 0, 0]


@pytest.mark.parametrize("words", [(), ("log", "query")])
def test_help_has_its_texts_where_python_drops_them(words: tuple[str, ...]) -> None:
    usual = amqp_gateway(*words, "--help")
    assert amqp_gateway(*words, "--help", PYTHONOPTIMIZE="2") == usual
    optimized = (sys.executable, "-OO", "-m", "gateway.cli.main")
    assert amqp_gateway(*words, "--help", program=optimized) == usual


def replaceable_interpreter(folder: Path) -> Path:
    """Return an interpreter with what is installed here, which can be taken away as by an upgrade."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    return python


def test_a_core_is_started_when_an_upgrade_brings_the_interpreter_back(site: Site) -> None:
    """While it cannot be started the log and `health` say so."""
    python = replaceable_interpreter(site.folder / "installed")
    words, program = ("run", "--config", site.configuration), (python, "-P", "-m", "gateway.cli.main")
    with running(*words, log=site.folder / "log", program=program) as gateway:

        def logged(event: str, name: str = "core") -> list[dict[str, Any]]:
            named = (record for record in gateway.log if record["event"] == event)
            return [record for record in named if record.get("name", name) == name]

        gateway.ready()
        wait_until(lambda: logged("gateway-ready"), "the supervisor has said so, too")
        replaced = python.rename(python.with_name("replaced"))
        os.kill(logged("gateway-ready")[0]["processes"]["core"], signal.SIGKILL)
        wait_until(lambda: len(logged("process-not-started")) >= FAILED_STARTS, "it is tried again")
        unhealthy = amqp_gateway("health", "--config", site.configuration)
        replaced.rename(python)
        wait_until(lambda: is_healthy(site), "it is started")
        pauses = [record["restart_in_seconds"] for record in logged("process-not-started")]
        ended = gateway.terminate()
    assert unhealthy.code is ExitCode.UNREACHABLE
    assert (ended.code, ended.reported) == (ExitCode.OK, [])
    assert pauses == sorted(set(pauses)), "with growing pauses"
    assert ended.log[-1]["event"] == "gateway-ended"


def is_healthy(site: Site) -> bool:
    return amqp_gateway("health", "--config", site.configuration).code is ExitCode.OK


BROKEN = """
import click
from gateway.cli.main import main

@main.command()
def broken():
    raise LookupError("this\\nthing")

main()
"""


def test_what_no_command_expects_is_one_line_and_the_rest_is_in_a_file(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603  our own command
        [sys.executable, "-c", BROKEN, "broken"],
        env=environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    (file,) = tmp_path.iterdir()
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == (
        f"{UNEXPECTED}LookupError: this thing: this is a fault of the gateway: report it; "
        f"its details are in {file}\n"
    )
    assert re.search(r"Traceback .*LookupError: this\nthing\n", file.read_text(), re.DOTALL)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_process_of_the_gateway_keeps_one_file_in_the_state_folder(tmp_path: Path) -> None:
    """It may end so again and again."""
    arguments = ["process", "snmp", "--config", "/x/gateway.yaml", "--copy", str(tmp_path / "running.yaml")]
    for _ in range(2):
        line = unexpected(OSError(24, os.strerror(24), "/proc/stat"), arguments)
    (file,) = tmp_path.iterdir()
    assert file.name == ".error-snmp.txt"
    assert line == (
        "unexpected error: /proc/stat: Too many open files: raise the limit of open files (ulimit -n); "
        f"its details are in {file}"
    )


def test_a_file_that_others_could_read_is_refused_where_the_mount_decides(tmp_path: Path) -> None:
    """As by exFAT with its usual options."""
    open_to_all = tmp_path / "secret"
    open_to_all.touch(0o644)
    setting = (
        "import sys; from pathlib import Path; from gateway.durable_files import set_mode\n"
        "path = Path(sys.argv[1])\n"
        "with path.open() as file:\n"
        "    set_mode(file.fileno(), 0o644, path)\n"
        "    set_mode(file.fileno(), 0o600, path)\n"
    )
    program = hosts.on_file_system_without("modes", folder=tmp_path, program=(sys.executable, "-c", setting))
    done = subprocess.run(  # noqa: S603  text from above
        [*program, str(open_to_all)], env=environment(), capture_output=True, text=True, check=False
    )
    assert "takes no modes, and others could use the file: mount it with umask=077" in done.stderr
    assert "line 5" in done.stderr, "the first mode is what it has"
