"""Missing packages are named; services that an installation would start or enable are put back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.demo.install import (
    DEMO_PACKAGES,
    EXIT_NOT_INSTALLED,
    TEST_PACKAGES,
    InstallError,
    Package,
    advice,
    ensure_installed,
    main,
    marked,
    missing,
    service_links,
    service_starts_prevented,
    started,
)
from gateway.service.processes.exit_codes import ExitCode

ABSENT = Package("left-handed-broker", "nothing at all", lambda: False)
POLICY = "usr/sbin/policy-rc.d"
ENABLED = "etc/systemd/system/multi-user.target.wants"


class EndedEarlyError(Exception):
    """An error that ends an installation early."""


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def no_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Provide a search path without apt-get."""
    monkeypatch.setenv("PATH", str(tmp_path))


def link(root: Path, path: str, target: str = "/lib/systemd/system/some.service") -> Path:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    return place


def test_where_nothing_is_missing_nothing_is_done(said: list[str]) -> None:
    ensure_installed(TEST_PACKAGES, said.append)

    assert said == []
    assert main(["--tests"]) == 0


def test_only_what_is_missing_is_named() -> None:
    assert missing((*DEMO_PACKAGES, ABSENT)) == (ABSENT,)


@pytest.mark.usefixtures("no_apt")
def test_where_it_cannot_install_it_names_what_is_missing_and_what_brings_it(said: list[str]) -> None:
    with pytest.raises(InstallError) as error:
        ensure_installed((ABSENT,), said.append)

    assert said == ["missing: left-handed-broker (nothing at all)"]
    assert "there is no apt-get here" in str(error.value)
    assert "apt-get install --yes --no-install-recommends left-handed-broker" in str(error.value)


@pytest.mark.usefixtures("no_apt")
def test_its_exit_status_is_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.demo.install.DEMO_PACKAGES", (ABSENT,))

    assert main([]) == EXIT_NOT_INSTALLED == ExitCode.NOT_INSTALLED.value
    assert "missing: left-handed-broker" in capsys.readouterr().err


def test_the_advice_for_tests_says_so() -> None:
    only_for_tests = [package for package in TEST_PACKAGES if package not in DEMO_PACKAGES]

    assert "gateway.demo.install --tests" in advice(only_for_tests, "it rains")
    assert "--tests" not in advice(DEMO_PACKAGES, "it rains")


def test_it_needs_the_standard_library_alone() -> None:
    code = "import sys, gateway.demo.install; sys.exit(any('site-packages' in place for place in sys.path))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment, check=False)  # noqa: S603  above

    assert done.returncode == 0


def test_while_installing_the_policy_forbids_every_start(tmp_path: Path, said: list[str]) -> None:
    policy = tmp_path / POLICY

    with service_starts_prevented(said.append, tmp_path):
        answer = subprocess.run([policy, "rabbitmq-server", "start"], check=False)  # noqa: S603  just written

        assert answer.returncode == 101
    assert not policy.exists()
    assert said == [f"putting {policy} in place: no service starts", f"removed {policy}"]


def test_a_policy_of_the_site_stays_as_it_is(tmp_path: Path, said: list[str]) -> None:
    policy = tmp_path / POLICY
    policy.parent.mkdir(parents=True)
    policy.write_text("#!/bin/sh\nexit 104\n")

    with service_starts_prevented(said.append, tmp_path):
        assert policy.read_text() == "#!/bin/sh\nexit 104\n"

    assert policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_a_policy_that_an_interrupted_run_left_is_taken_out(tmp_path: Path, said: list[str]) -> None:
    policy = tmp_path / POLICY
    with service_starts_prevented(said.append, tmp_path):
        left = policy.read_text()
    policy.write_text(left)

    with service_starts_prevented(said.append, tmp_path):
        pass

    assert not policy.exists()


def test_new_service_links_are_taken_out_and_old_ones_stay(tmp_path: Path, said: list[str]) -> None:
    old = link(tmp_path, f"{ENABLED}/ssh.service")
    link(tmp_path, "etc/rc2.d/S01ssh", "../init.d/ssh")
    before = service_links(tmp_path)

    with service_starts_prevented(said.append, tmp_path):
        link(tmp_path, f"{ENABLED}/rabbitmq-server.service")
        link(tmp_path, "etc/systemd/system/sockets.target.wants/epmd.socket")
        link(tmp_path, "etc/rc2.d/S01rabbitmq-server", "../init.d/rabbitmq-server")

        timer = link(tmp_path, "etc/systemd/system/timers.target.wants/logrotate.timer")

    assert service_links(tmp_path) == before
    assert old.is_symlink()
    assert timer.is_symlink(), "logs of the machine are rotated"
    assert not (tmp_path / "etc/systemd/system/sockets.target.wants").exists()


def test_an_installation_that_fails_leaves_nothing_either(tmp_path: Path, said: list[str]) -> None:
    def install() -> None:
        with service_starts_prevented(said.append, tmp_path):
            link(tmp_path, f"{ENABLED}/rabbitmq-server.service")
            raise EndedEarlyError

    with pytest.raises(EndedEarlyError):
        install()

    assert service_links(tmp_path) == {}
    assert not (tmp_path / POLICY).exists()


def test_only_what_an_installation_started_itself_is_held_against_it(tmp_path: Path) -> None:
    daemon = tmp_path / "epmd"
    shutil.copy(shutil.which("sleep") or "", daemon)

    def runs(mark: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([daemon, "600"], env={**os.environ, **mark})  # noqa: S603  made above

    mark, another = marked(), marked()
    with runs(mark) as ours, runs(another) as others, runs({}) as unmarked:
        try:
            assert started(mark) == [(ours.pid, "epmd")]
            assert started(another) == [(others.pid, "epmd")]
        finally:
            for process in (ours, others, unmarked):
                process.kill()
    assert started(mark) == []
