"""``amqp-gateway state`` beside a gateway that runs, and after one that is lost."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.inventory.instances import InstanceIndex
from gateway.service.processes.exit_codes import ExitCode
from gateway.state_folder import StateError, StateFolder
from tests.components.command_line import Ended, Site, amqp_gateway, environment, running
from tests.components.waiting import DEADLINE, wait_until


def command(*arguments: str | Path) -> Ended:
    """Run a command in this process: its effect is the same, and no interpreter has to be started for it."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return Ended(ExitCode(result.exit_code), result.stdout, result.stderr)


def refused(ended: Ended) -> str:
    """Return the one line with the reason; check that nothing was written on standard output."""
    assert (ended.code, ended.output) == (ExitCode.STATE, "")
    (line,) = ended.reported
    return line.removeprefix("amqp-gateway: ")


def said(ended: Ended) -> list[str]:
    """Return the lines that a command that succeeded wrote on standard output.

    On a busy machine it reports its progress on standard error.
    """
    errors = [line for line in ended.errors.splitlines() if not line.startswith("  ..  ")]
    assert (ended.code, errors) == (ExitCode.OK, [])
    return ended.output.splitlines()


@pytest.fixture
def used(site: Site) -> Site:
    """A site whose gateway was started once and met two sources."""
    with closing(InstanceIndex(site.state.instances)) as index:
        index.start(site.state.identity, 1)
        for name in ("orders", "field"):
            source = index.source_number(name)
            index.durable_row(source, "rabbitmq:queue", f"/|{name}")
            index.transient_row(source, "rabbitmq:connection")
        index.durable_row(1, "rabbitmq:queue", "/|gone")
        index.retire(1, "rabbitmq:queue", "/|gone", now=1)
    site.state.next_boot()
    return site


# -- show


def write_log(used: Site) -> None:
    """An event log of five octets."""
    segments = used.state.path / "log" / "segments"
    segments.mkdir(parents=True)
    (segments / "1.jsonl").write_bytes(b"12345")


def test_show_says_what_is_there_and_no_secret(used: Site) -> None:
    write_log(used)
    ended = command("state", "show", "--config", used.configuration)
    reported = said(ended)
    assert reported[:5] == [
        f"folder        {used.folder}/state",
        "version       3, instance index 2",
        f"identity      {used.state.identity}",
        "starts        1",
        "secrets       community",
    ]
    assert [line for line in reported if line.startswith("source")] == ["source 1: orders", "source 2: field"]
    assert "  rabbitmq:queue" + " " * 35 + "1 durable,         1 gone, numbers reserved to 4,096" in reported
    assert f"event log     5 bytes in 1 files: {used.folder}/state/log" in reported
    assert used.state.secret("community") not in ended.output


def test_show_for_programs(used: Site) -> None:
    write_log(used)
    shown = json.loads("\n".join(said(command("state", "show", "--json", "--folder", used.state.path))))
    assert shown["folder"] == str(used.state.path)
    assert (shown["version"], shown["index_version"], shown["boots"]) == (3, 2, 1)
    assert (shown["identity"], shown["in_use"]) == (used.state.identity, False)
    assert shown["sources"] == {"orders": 1, "field": 2}
    assert shown["classes"][1] == {
        "source": 1,
        "class_name": "rabbitmq:queue",
        "durable": 1,
        "retired": 1,
        "high_water": 4096,
    }
    assert shown["secrets"] == ["community"]
    assert shown["octets"]["identity"] == 37
    assert not [name for name in shown["octets"] if name.startswith("log/")]
    log = str(used.state.path / "log")
    assert (shown["log"], shown["log_files"], shown["log_octets"]) == (log, 1, 5)


def test_show_reports_a_log_elsewhere(used: Site, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "LOG").write_bytes(b"1234567")
    with used.configuration.open("a", encoding="utf-8") as file:
        file.write(f"log: {{folder: {tmp_path / 'elsewhere'}}}\n")
    reported = said(command("state", "show", "--config", used.configuration))
    assert f"event log     7 bytes in 1 files: {tmp_path}/elsewhere" in reported


def test_show_of_a_folder_that_is_none(tmp_path: Path) -> None:
    assert refused(command("state", "show", "--folder", tmp_path)).startswith(
        f"{tmp_path}: no gateway state here."
    )


def undocumented(names: set[str]) -> set[str]:
    """Return those of the files in a state folder that the documentation does not name."""
    page = (Path(__file__).parent.parent.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = [
        line.split(" | ")[0] for line in page.partition("## State")[2].splitlines() if line.startswith("| `")
    ]
    documented = {name.rstrip("/") for row in rows for name in row.strip("| ").replace("`", "").split(", ")}
    return {name.replace("instances.sqlite3-", "-") for name in names} - documented


# -- backup and restore


def test_a_backup_of_a_running_gateway_is_restored_elsewhere(used: Site, tmp_path: Path) -> None:
    """Nothing changes the state itself while the gateway runs."""
    file, folder = tmp_path / "backup.tar", tmp_path / "elsewhere"
    with running("process", "core", "--config", used.configuration, log=used.folder / "log") as core:
        core.ready()
        reported = said(amqp_gateway("state", "backup", file, "--config", used.configuration))
        assert "in use" in said(command("state", "show", "--config", used.configuration))[0]
        refusals = [
            refused(command("state", *words, "--config", used.configuration))
            for words in (("rename-source", "orders", "x"), ("restore", file, "--replace"))
        ]
        refusals.append(refused(command("init", "--config", used.configuration)))
    in_use = (
        f"{used.state.path}: another gateway runs on this state: stop it, or give this one a state folder of "
        "its own"
    )
    assert refusals == [
        in_use,
        in_use,
        f"{used.state.path}: is not empty; a new identity is made in a new or empty folder only",
    ]
    with tarfile.open(file) as tar:
        names = {*tar.getnames()} - {"manifest.json", "manifest.sha256"}
    assert {"boots", "identity", "instances.sqlite3"} <= names
    size = f"{len(names)} files, {file.stat().st_size:,} bytes"
    assert reported == [
        f"{file}: gateway {used.state.identity}, started 2 times; {size}",
        "It contains secrets: protect it like the state folder.",
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    lines = said(command("state", "restore", file, "--folder", folder))

    assert lines[0].startswith(f"{folder}: gateway {used.state.identity}, as it was at 20")
    assert lines[1].startswith("Skipped, because they may have been used since: 100,0")
    used.configure(state={"folder": str(folder)})
    with running("process", "core", "--config", used.configuration, log=used.folder / "log") as core:
        core.ready()
        assert core.terminate().code is ExitCode.OK
    assert StateFolder(folder).boots > 100_000


def test_a_lost_folder_is_replaced_and_kept(used: Site, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    said(command("state", "backup", file, "--config", used.configuration))
    used.state.instances.write_bytes(b"")

    reported = refused(amqp_gateway("process", "core", "--config", used.configuration))
    assert reported.startswith(f"{used.state.instances}: the index of row numbers is empty: restore a backup")
    reported = refused(command("state", "restore", file, "--config", used.configuration))
    assert reported.startswith(f"{used.state.path}: is not empty: with --replace")
    lines = said(command("state", "restore", file, "--config", used.configuration, "--replace"))

    assert lines[2].startswith(f"The former folder is {used.state.path}.replaced-20")
    with running("process", "core", "--config", used.configuration, log=used.folder / "log") as core:
        core.ready()


def test_a_backup_without_secrets_says_what_follows(used: Site, tmp_path: Path) -> None:
    file, folder = tmp_path / "backup.tar", tmp_path / "elsewhere"
    said(command("state", "backup", file, "--config", used.configuration, "--without-secrets"))
    lines = said(command("state", "restore", file, "--folder", folder))
    assert lines[-1] == (
        "The backup has no secrets: the gateway makes new ones when it starts, which its managers need."
    )


def test_what_is_no_place_for_a_backup_stays_as_it_is(used: Site, tmp_path: Path) -> None:
    ended = command("state", "backup", "-", "--folder", used.state.path)
    assert (ended.code, "write ./- for that" in ended.errors) == (ExitCode.USAGE, True)
    os.mkfifo(tmp_path / "pipe")
    said = refused(command("state", "backup", tmp_path / "pipe", "--replace", "--folder", used.state.path))
    assert "is no regular file, and is not replaced" in said
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_what_is_no_backup(used: Site, tmp_path: Path) -> None:
    reported = refused(command("state", "restore", used.configuration, "--folder", tmp_path / "new"))
    assert reported == f"{used.configuration}: is not a gateway's backup, or is damaged"
    assert not (tmp_path / "new").exists()


# -- sources


def test_a_renamed_source_keeps_its_rows(used: Site) -> None:
    words = ("state", "rename-source", "--config", used.configuration)
    assert said(command(*words, "orders", "shop")) == ["source 1: shop", "source 2: field"]
    assert refused(command(*words, "orders", "x")) == (
        "there was never a source 'orders'; there are: shop, field"
    )
    assert refused(command(*words, "shop", "field")) == (
        "source 'field' has number 2: --swap exchanges the two numbers"
    )
    assert said(command(*words, "shop", "field", "--swap")) == ["source 1: field", "source 2: shop"]


# -- the lock


def locked(state: StateFolder) -> bool:
    try:
        with state.locked(patience_seconds=0):
            return False
    except StateError:
        return True


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_the_state_is_the_gateways_until_the_last_of_its_processes_has_ended(site: Site) -> None:
    """Every file in it is documented."""
    with running("run", "--config", site.configuration, log=site.folder / "log") as gateway:
        gateway.ready()
        there = {path.name for path in site.state.path.iterdir() if not path.name.startswith(".")}
        assert {"boots", "identity", "instances.sqlite3", "LOCK"} <= there
        assert undocumented(there) == set()
        supervisor = psutil.Process(gateway.process.pid)
        (core,) = (child for child in supervisor.children() if "core" in child.cmdline())
        core.kill()
        wait_until(
            lambda: site.state.boots == 2 or not locked(site.state),
            "a new core is started, or another gateway",
        )
        assert locked(site.state), "nobody can come between a core and the next"

        slow, *others = sorted(supervisor.children(), key=lambda child: "core" in child.cmdline())
        slow.suspend()
        gateway.process.kill()
        gateway.process.wait()
        wait_until(lambda: all(map(has_ended, others)), "the others ended with their supervisor")
        assert locked(site.state), "a process that has not ended yet may still write"
        slow.kill()
        wait_until(lambda: not locked(site.state), "all of its processes ended")


def test_a_disk_that_is_full_from_the_start_is_one_line(used: Site) -> None:
    program = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
        "runpy.run_module('gateway.cli.main', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(  # noqa: S603  our own command
        [sys.executable, "-c", program, "process", "core", "--config", str(used.configuration)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    reported = refused(Ended(ExitCode(done.returncode), done.stdout, done.stderr))
    assert reported.startswith(f"{used.state.instances}: cannot be used: ")
    assert reported.endswith(": see to space on the disk and to the rights of file and folder")
    assert used.state.boots == 1
