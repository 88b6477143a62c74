"""The package of `make deb` runs from its place in an installed system and names no folder of its build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.feed.messages import VERSION
from gateway.service.processes.exit_codes import ExitCode
from tests.components import hosts
from tests.components.command_line import new_site, running
from tests.components.waiting import wait_until
from tests.distribution.building import ROOT, built
from tests.distribution.environments import clean_environment
from tests.service.processes.test_core import hello
from tests.service.processes.test_upgrade import recorded

pytestmark = pytest.mark.prove  # it installs all requirements anew

PLACE = "/opt/amqp-gateway"

AS_INSTALLED = (
    f"mount -t tmpfs none /opt && mkdir {PLACE} && mount --bind $0{PLACE} {PLACE} && cd / && exec $0/run"
)
"""A script that runs in a mount namespace of its own, so that /opt of this machine stays as it is."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = built("wheel", tmp_path_factory.mktemp("wheel"))
    folder = tmp_path_factory.mktemp("deb")
    environment = {**clean_environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command: list[str | Path] = [
        "bash",
        ROOT / "docker" / "debian" / "build.sh",
        wheel,
        ROOT / "requirements.txt",
        folder,
    ]
    subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603  ours
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("system")
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)  # noqa: S603, S607
    return folder


def test_control_names_the_python_that_it_was_built_for(package: Path) -> None:
    fields = ["Package", "Version", "Depends"]
    shown = subprocess.run(  # noqa: S603
        ["dpkg-deb", "--show", f"--showformat={'|'.join(f'${{{name}}}' for name in fields)}", package],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    name, version, depends = shown.split("|")
    assert (name, version) == ("amqp-gateway", "0.1.0")
    assert depends.startswith("python3 (>= 3.")


def test_nothing_in_it_names_the_folder_it_was_built_in(package: Path, unpacked: Path) -> None:
    assert (unpacked / "usr/bin/amqp-gateway").readlink() == Path(f"{PLACE}/bin/amqp-gateway")
    found = subprocess.run(  # noqa: S603
        ["grep", "--recursive", "--files-with-matches", str(package.parent), unpacked],  # noqa: S607
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.stdout == ""
    for name in (
        "bash-completion/completions/amqp-gateway",
        "man/man1/amqp-gateway.1.gz",
        "doc/amqp-gateway/copyright",
    ):
        assert (unpacked / "usr/share" / name).stat().st_size > 0


def test_it_runs_from_its_place(unpacked: Path) -> None:
    run = unpacked / "run"
    run.write_text(f"#!/bin/sh\n{PLACE}/bin/amqp-gateway --version && {PLACE}/bin/amqp-gateway mib path\n")
    run.chmod(0o755)
    done = subprocess.run(  # noqa: S603
        ["unshare", "--map-root-user", "--mount", "sh", "-c", AS_INSTALLED, unpacked],  # noqa: S607
        env=clean_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("amqp-gateway 0.1.0")
    assert f":{PLACE}/lib/" in done.stdout


NEWER = "0.2.0"


@pytest.fixture(scope="module")
def newer(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of a newer version, whose processes do not understand those of the other one."""
    folder = tmp_path_factory.mktemp("newer")
    content = folder / "content"
    subprocess.run(["dpkg-deb", "--raw-extract", package, content], check=True)  # noqa: S603, S607
    (packages,) = content.glob(f"{PLACE[1:]}/lib/python3*/site-packages")
    (former,) = packages.glob("amqp_management_gateway-*.dist-info")
    information = former.rename(packages / f"amqp_management_gateway-{NEWER}.dist-info")
    messages, metadata = packages / "gateway/feed/messages.py", information / "METADATA"
    replace_in(messages, f"\nVERSION = {VERSION}\n", f"\nVERSION = {VERSION + 1}\n")
    replace_in(metadata, "\nVersion: 0.1.0\n", f"\nVersion: {NEWER}\n")
    replace_in(content / "DEBIAN/control", "\nVersion: 0.1.0\n", f"\nVersion: {NEWER}\n")
    record = (information / "RECORD").read_text(encoding="utf-8").replace(former.name, information.name)
    lines = {line.partition(",")[0]: line for line in record.splitlines()}
    for path in (messages, metadata):
        name = str(path.relative_to(packages))
        lines[name] = recorded(name, path.read_bytes())
    (information / "RECORD").write_text("\n".join(lines.values()) + "\n", encoding="utf-8")
    made = folder / "newer.deb"
    command: list[str | Path] = ["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", content, made]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return made


def replace_in(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")


def install(package: Path, system: Path) -> None:
    """Install a package by dpkg into a system of its own, of which nothing else is there."""
    (system / "var/lib/dpkg").mkdir(parents=True, exist_ok=True)
    (system / "var/lib/dpkg/status").touch()
    options = ["--force-depends", "--force-script-chrootless"]
    command: list[str | Path] = ["dpkg", f"--root={system}", *options, "--install", package]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603


@pytest.mark.skipif(os.geteuid() != 0, reason="dpkg and mounts need root")
def test_a_running_gateway_becomes_that_of_a_newer_package(
    package: Path, newer: Path, tmp_path: Path
) -> None:
    system, site = tmp_path / "system", new_site(tmp_path)
    install(package, system)
    steps = ("mount -t tmpfs none /opt", f"mkdir {PLACE}", f"mount --bind {system}{PLACE} {PLACE}")
    program = hosts.host(*steps, program=[f"{PLACE}/bin/amqp-gateway"])
    words = ("run", "--config", site.configuration)
    with running(*words, log=site.folder / "log", program=program, PYTHONPATH="") as gateway:
        gateway.ready()
        socket = site.folder / "feed.sock"
        assert hello(socket).version == VERSION
        install(newer, system)
        wait_until(
            lambda: [each["event"] for each in gateway.log].count("gateway-ready") == 2,
            "it has restarted by itself",
        )
        assert hello(socket).version == VERSION + 1
        gateway.check_alive()
        assert gateway.terminate().code is ExitCode.OK


def test_an_upgrade_restarts_services_that_run_and_nothing_where_systemd_does_not(tmp_path: Path) -> None:
    """The script of the package, as dpkg calls it: what to do, then the version that was there before."""
    called = tmp_path / "called"
    command = tmp_path / "systemctl"
    command.write_text(f'#!/bin/sh\necho "$@" >>{called}\nexit 1\n', encoding="ascii")
    command.chmod(0o755)
    environment = {**clean_environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    prepared = f"mount -t tmpfs none /run && {{}} sh -e {ROOT / 'docker/debian/postinst'} "

    def configure(systemd: str, *words: str) -> str:
        script = prepared.format(systemd) + " ".join(words)
        subprocess.run(  # noqa: S603
            ["unshare", "--map-root-user", "--mount", "sh", "-e", "-c", script],  # noqa: S607
            env=environment,
            check=True,
        )
        return called.read_text(encoding="ascii") if called.exists() else ""

    assert configure("", "configure", "0.1.0") == "", "no systemd"
    assert configure("mkdir -p /run/systemd/system &&", "configure", "''") == "", "the first installation"
    assert configure("mkdir -p /run/systemd/system &&", "abort-upgrade", "0.1.0") == ""
    restarted = "try-restart amqp-gateway.service amqp-gateway-agent@*.service\n"
    assert configure("mkdir -p /run/systemd/system &&", "configure", "0.1.0") == restarted
