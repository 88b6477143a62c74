"""The package of `make deb` runs from its place in an installed system and names no folder of its build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distribution.building import ROOT, built
from tests.distribution.environments import clean_environment

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
