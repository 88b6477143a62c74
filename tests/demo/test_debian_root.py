"""A folder with a Debian release is made once, whole or not at all; where it cannot be, one line says why."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.demo.broker import BrokerNotInstalledError, BrokerSettings, PrivateBroker
from gateway.demo.install import EXIT_NOT_INSTALLED, main
from gateway.demo.installation import (
    DebianRootError,
    Server,
    ensure_made,
    ensure_server_made,
    find_installation,
    machine_release,
    root_of,
)

ABSENT = "jessie"
"""A release that no test uses."""

LIKE_DEBOOTSTRAP = """#!/bin/sh
for target; do case $target in */%(release)s.new-*) break ;; esac; done
[ "$(id -u)" = 0 ] || exit 1
echo made >>"$(dirname "$target")/log"
mkdir -p "$target/var/cache/apt/archives"
for folder in etc usr/sbin proc dev; do mkdir -p "$target/$folder"; done
touch "$target/var/cache/apt/archives/any.deb"
exit %(status)d
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, in which no release is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "amqp-gateway" / "debian"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.demo.installation.PAUSES", (0.0, 0.0))


@pytest.fixture
def said() -> list[str]:
    return []


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> None:
    """Put in debootstrap's place a command that ends with ``status`` within a moment, instead of a minute."""
    command = folder / "debootstrap"
    command.write_text(LIKE_DEBOOTSTRAP % {"release": ABSENT, "status": status})
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_it_is_made_once_and_whole(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    stand_in(tmp_path, monkeypatch)
    (cache / f"{ABSENT}.new-interrupted").mkdir(parents=True)

    with ThreadPoolExecutor() as makers:
        for made in [makers.submit(ensure_made, ABSENT, said.append) for _ in range(4)]:
            made.result()

    assert (cache / "log").read_text() == "made\n"
    assert said == [f"making {root_of(ABSENT)} with debootstrap: RabbitMQ of Debian {ABSENT}"]
    assert "localhost" in (root_of(ABSENT) / "etc" / "hosts").read_text()
    assert sorted(path.name for path in cache.iterdir()) == [ABSENT, f"{ABSENT}.lock", "log"]
    assert list((root_of(ABSENT) / "var/cache/apt/archives").iterdir()) == []


def test_of_one_that_fails_nothing_is_left(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    stand_in(tmp_path, monkeypatch, status=3)

    with pytest.raises(DebianRootError, match=r"debootstrap .* failed with status 3"):
        ensure_made(ABSENT, said.append)

    assert sorted(path.name for path in cache.iterdir()) == [f"{ABSENT}.lock", "log"]
    assert (cache / "log").read_text() == 3 * "made\n"
    assert [line.splitlines()[-1] for line in said[1:]] == 2 * ["trying once more in 0 s"]


def test_what_fails_once_is_tried_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    stand_in(tmp_path, monkeypatch)
    command = tmp_path / "debootstrap"
    failing = command.read_text().replace("exit 0", '[ "$(wc -l <"$(dirname "$target")/log")" = 2 ]')
    command.write_text(failing)

    ensure_made(ABSENT, said.append)

    assert (cache / "log").read_text() == 2 * "made\n"
    assert root_of(ABSENT).is_dir()


def test_a_server_is_in_a_copy_of_its_release_and_of_one_that_fails_nothing_is_left(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    stand_in(tmp_path, monkeypatch)
    server = Server("jessie-mail", "a mail server", ABSENT, ("mail-server",), {})

    # The release of the stand-in has no apt that could install anything.
    with pytest.raises(DebianRootError, match="mail-server failed with status"):
        ensure_server_made(server, said.append)

    assert said[:2] == [
        f"making {root_of(ABSENT)} with debootstrap: RabbitMQ of Debian {ABSENT}",
        f"making {root_of('jessie-mail')}: a mail server of Debian {ABSENT}",
    ]
    left = sorted(path.name for path in cache.iterdir())
    assert left == [ABSENT, "jessie-mail.lock", f"{ABSENT}.lock", "log"]
    assert not (root_of(ABSENT) / "etc/resolv.conf").exists()


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("user", "obstacle"),
    [(1000, "making and running it through chroot takes root"), (0, "there is no debootstrap here")],
)
def test_where_it_cannot_be_made_one_line_says_what_brings_it(
    user: int,
    obstacle: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("gateway.demo.installation._search_path", lambda: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main(["--broker", ABSENT]) == EXIT_NOT_INSTALLED

    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert obstacle in said
    assert f"python3 -m gateway.demo.install --broker {ABSENT}" in said


@pytest.mark.usefixtures("cache")
def test_tests_that_need_no_other_release_are_run_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    assert main(["--tests"]) == 0

    broker, zabbix = capsys.readouterr().err.splitlines()
    assert broker.startswith("missing: RabbitMQ of Debian ")
    assert zabbix.startswith("missing: the Zabbix server of Debian trixie, because ")
    assert zabbix.endswith("python3 -m gateway.demo.install --tests")


@pytest.mark.usefixtures("cache")
def test_a_broker_whose_release_is_missing_says_what_brings_it() -> None:
    with (
        pytest.raises(BrokerNotInstalledError) as error,
        PrivateBroker(settings=BrokerSettings(debian=ABSENT)),
    ):
        pass

    assert str(error.value) == (
        f"RabbitMQ of Debian {ABSENT} is not at {root_of(ABSENT)}; "
        f"as root: python3 -m gateway.demo.install --broker {ABSENT}"
    )


@pytest.mark.usefixtures("cache")
def test_the_release_of_this_machine_needs_no_folder() -> None:
    assert find_installation(machine_release()) == find_installation()
