"""Folders of processes that were killed are removed by the next process."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.components.hosts import host, without_temporary_files

PROGRAM = "from gateway.temporary_folders import TemporaryFolder; folder = TemporaryFolder('purpose'); "


def run(then: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a process that makes a folder."""
    return subprocess.run(  # noqa: S603  what stands here
        [sys.executable, "-c", PROGRAM + then],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_folder_goes_with_its_run(tmp_path: Path) -> None:
    ended = run("print(folder.path); print(oct(folder.path.stat().st_mode)); folder.remove()", tmp_path)
    path, mode = ended.stdout.split()
    assert (Path(path).parent, mode) == (tmp_path, "0o40700")
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_that_was_killed_left_behind_goes_with_the_next(tmp_path: Path) -> None:
    killed = run("(folder.path / 'more').mkdir(); import os; os.kill(os.getpid(), 9)", tmp_path)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert run("print(folder.path); folder.remove()", tmp_path).stdout.strip() != str(left)
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_has_that_lives_or_that_has_another_purpose_stays(tmp_path: Path) -> None:
    lives, other = tmp_path / "purpose-1", tmp_path / "other-1"
    for folder in (lives, other):
        folder.mkdir()
    with (lives / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("folder.remove()", tmp_path)
        assert sorted(tmp_path.iterdir()) == [other, lives]
    run("folder.remove()", tmp_path)
    assert list(tmp_path.iterdir()) == [other]


def test_without_a_folder_of_the_system_another_one_takes_it(tmp_path: Path) -> None:
    """As the state folder takes that of Java: else JMX would end the whole gateway at its start."""
    current, instead = tmp_path / "current", tmp_path / "instead"
    current.mkdir()
    instead.mkdir()
    program = (
        "import sys; from pathlib import Path; from gateway.temporary_folders import TemporaryFolder\n"
        "folder = TemporaryFolder('purpose', Path(sys.argv[1])); print(folder.path); folder.remove()\n"
        "from gateway.demo.demonstration import Demonstration\n"
        "for make in (lambda: TemporaryFolder('purpose'), lambda: Demonstration(print)):\n"
        "    try:\n        make()\n    except OSError as error:\n        print(repr(error))"
    )
    ended = subprocess.run(  # noqa: S603  what stands here
        host(
            *without_temporary_files(current, instead), program=(sys.executable, "-c", program, str(instead))
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.startswith(f"{instead}/.purpose-"), ended.stderr
    assert ended.stdout.count("NoTemporaryFolderError('no folder takes temporary files") == 2, ended.stdout
    assert list(instead.iterdir()) == []
