"""Failed tests run once more, alone; small suites with unsteady and with broken tests show what follows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.steady import NothingToRunError, changed_since, observe

SETTINGS = """[pytest]
addopts = -p xdist -p pytest_timeout -p tests.second_run --dist loadgroup --max-worker-restart=0
filterwarnings = error
timeout = 60
"""

BEGINNING = """
import gc, os, warnings
from pathlib import Path
import pytest

def first_time(name):
    mark = Path(__file__).with_name(f"{name}.mark")
    if mark.exists():
        return False
    mark.touch()
    return True
"""

UNSTEADY = """
@pytest.mark.xdist_group("a group")
@pytest.mark.parametrize("case", ["with blanks [and brackets]", "two\\nlines", "a::b", "c@d"])
def test_in_a_group(case):
    assert not first_time(str(sorted(case))), "failed at first"

@pytest.fixture
def set_up():
    assert not first_time("set-up"), "not set up at first"

def test_set_up(set_up):
    pass

def test_that_passes():
    pass
"""

ONE_UNSTEADY = """
def test_once():
    assert not first_time("once"), "failed at first"

def test_that_passes():
    pass
"""

# Plugins that these suites do not need take most of the time in which pytest starts.
VARIABLES = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
}

Ran = Callable[..., "Summary"]


@dataclass(frozen=True, slots=True)
class Summary:
    """The exit status of pytest, its output, and its last line without the time."""

    status: int
    output: str

    @property
    def last_line(self) -> str:
        return re.sub(r" in [0-9.:s ()]+$", "", self.output.strip().splitlines()[-1].strip("= "))


@pytest.fixture
def suite(tmp_path: Path) -> Ran:
    """Provide a function that runs a small suite by one worker or more, with the options given."""

    def run(tests: str, *options: str, workers: int = 1) -> Summary:
        (tmp_path / "pytest.ini").write_text(SETTINGS)
        (tmp_path / "test_small.py").write_text(BEGINNING + tests)
        done = subprocess.run(  # noqa: S603  options from below
            [sys.executable, "-m", "pytest", "-n", str(workers), *(options or ["--second-run=lenient"])],
            cwd=tmp_path,
            env={**os.environ, **VARIABLES},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Summary(done.returncode, done.stdout)

    return run


def test_what_passes_alone_is_unsteady_and_named_with_its_first_failure(suite: Ran) -> None:
    ran = suite(UNSTEADY, workers=2)

    assert ran.status == 0, ran.output
    assert ran.last_line == "1 passed, 5 unsteady"
    assert "UNSTEADY test_small.py::test_set_up - AssertionError: not set up at first" in ran.output
    assert (
        "UNSTEADY test_small.py::test_in_a_group[with blanks [and brackets]] - AssertionError" in ran.output
    )
    assert "assert not first_time(str(sorted(case)))" in ran.output
    assert "FAILED" not in ran.output


def test_without_workers_it_is_the_same(suite: Ran) -> None:
    assert suite(ONE_UNSTEADY, workers=0).last_line == "1 passed, 1 unsteady"


def test_who_wants_it_strict_gets_an_error(suite: Ran) -> None:
    ran = suite(ONE_UNSTEADY, "--second-run=strict")

    assert (ran.status, ran.last_line) == (1, "1 passed, 1 unsteady")


def test_a_plain_run_repeats_nothing(suite: Ran) -> None:
    ran = suite(UNSTEADY, "--second-run=off")

    assert (ran.status, ran.last_line) == (1, "4 failed, 1 passed, 1 error")


def test_what_fails_again_is_an_error_and_shown_twice(suite: Ran) -> None:
    ran = suite("def test_broken():\n    assert 1 == 2, 'always'\n" + ONE_UNSTEADY)

    assert (ran.status, ran.last_line) == (1, "1 failed, 1 passed, 1 unsteady")
    assert "failed again, alone: test_small.py::test_broken" in ran.output
    assert "FAILED test_small.py::test_broken - AssertionError: always" in ran.output


RED_AT_ONCE = """
@pytest.fixture
def torn_down():
    yield
    assert not first_time("teardown")

def test_error_at_teardown(torn_down):
    pass

@pytest.fixture
def never_torn_down():
    yield
    assert False

def test_unsteady_and_error_at_teardown(never_torn_down):
    assert not first_time("call")

def test_resource_that_is_left_open():
    if first_time("resource"):
        open(__file__)
        gc.collect()

class Falls:
    def __del__(self):
        raise ValueError("in __del__")

def test_exception_that_cannot_be_caught():
    if first_time("unraisable"):
        Falls()

def test_exception_of_a_thread():
    import threading
    if first_time("thread"):
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()

def test_worker_that_dies():
    if first_time("worker"):
        os._exit(3)
"""


def test_what_a_repetition_proves_nothing_about_is_red_at_once(suite: Ran) -> None:
    ran = suite(RED_AT_ONCE)

    assert ran.status == 1, ran.output
    assert "UNSTEADY" not in ran.output
    named = set(re.findall(r"^(?:FAILED|ERROR) test_small\.py::(\w+)", ran.output, re.MULTILINE))
    assert named == set(re.findall(r"def (test_\w+)", RED_AT_ONCE))


LEFT_OPEN = """
import socket

def test_that_leaves_it_open():
    global left, listening
    listening = socket.create_server(("127.0.0.1", 0))
    left = socket.create_connection(listening.getsockname())

def test_that_closes_one_to_the_same_place():
    socket.create_connection(listening.getsockname()).close()

def test_in_which_it_is_collected():
    global left
    del left
    gc.collect()
    listening.close()
"""


def test_of_a_socket_that_is_not_closed_the_test_is_named_that_opened_it(suite: Ran) -> None:
    ran = suite(LEFT_OPEN)

    assert ran.status == 1
    assert "FAILED test_small.py::test_in_which_it_is_collected" in ran.output
    assert re.search(
        r"'127.0.0.1', \d+\) was opened last in test_small.py::test_that_leaves_it_open ", ran.output
    )


SHARING = """
from tests.process_state import SharedFixtures

pytest_plugins = ["tests.components.command_line"]

def pytest_configure(config):
    config.pluginmanager.register(SharedFixtures())
"""

SHARED_GATEWAY = """
from tests.components.command_line import new_site, running

@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    site = new_site(tmp_path_factory.mktemp("shared"))
    with running("run", "--config", site.configuration, log=site.folder / "log") as command:
        command.ready()
        yield command

def test_that_kills_it(gateway):
    gateway.process.kill()
    gateway.process.wait()

def test_after_its_end(gateway):
    assert gateway.process.poll() is None

def test_of_a_new_one(gateway):
    assert gateway.process.poll() is None
"""


def test_where_a_shared_gateway_has_ended_one_test_says_so_and_the_next_one_has_a_new_one(
    suite: Ran, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(SHARING)

    ran = suite(SHARED_GATEWAY, workers=0)

    assert (ran.status, ran.last_line) == (0, "2 passed, 1 unsteady"), ran.output
    assert "UNSTEADY test_small.py::test_after_its_end - " in ran.output
    assert re.search(
        r"a gateway that several tests share ended before this test: exit status -9, folder /.*/shared0;"
        r' the end of log:\nE +\{.*"event": ',
        ran.output,
    )


TRACEBACKS = """
import subprocess, sys
from tests.components.command_line import running

def product(name):
    text = "Traceback (most recent call last):" if first_time(name) else "nothing"
    return (sys.executable, "-c", f"import os; os.write(2, b'{text}\\\\n')", "gateway.cli.main")

def test_whose_body_fails(tmp_path):
    with running(log=tmp_path / "log", program=product("body")) as command:
        command.process.wait()
        assert not first_time("failure of the body"), "failed at first"

def test_of_a_process_of_its_own_that_fails(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        subprocess.run(product("own"), stdout=subprocess.DEVNULL, stderr=log)
    assert not first_time("own failure")

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(product("shared"), stdout=log, stderr=subprocess.STDOUT)
    process.wait()
    yield
    (folder / "log").unlink()

def test_of_a_shared_one_that_passes(shared):
    pass
"""


def test_a_traceback_in_a_log_of_the_gateway_is_red_at_once(suite: Ran, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.components.command_line"]')

    ran = suite(TRACEBACKS)

    assert (ran.status, ran.last_line) == (1, "2 failed, 1 passed, 1 error"), ran.output
    assert "UNSTEADY" not in ran.output
    assert "FAILED test_small.py::test_whose_body_fails - AssertionError: failed at first" in ran.output
    assert ran.output.count("log: 1 tracebacks in the log, the first one:\n") >= 2, ran.output


LOGGING = """
import os, subprocess, sys

def test_of_a_gateway(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        script = "import os; os.write(2, b'the core has ended\\\\n')"
        subprocess.run((sys.executable, "-c", script, "gateway.cli.main"), stderr=log)
    assert not first_time("failure"), "failed at first"
"""


def test_what_the_gateway_of_an_unsteady_test_has_logged_is_shown(suite: Ran, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.components.command_line"]')

    ran = suite(LOGGING)

    assert (ran.status, ran.last_line) == (0, "1 unsteady"), ran.output
    assert re.search(r"-+ Logged meanwhile in /.*/log -+\nthe core has ended\n", ran.output), ran.output


def test_an_error_of_collection_is_red_at_once(suite: Ran) -> None:
    ran = suite("if first_time('collection'):\n    raise ValueError\n" + ONE_UNSTEADY)

    assert ran.status != 0, ran.output


def test_where_many_fail_none_is_repeated(suite: Ran) -> None:
    ran = suite(
        "@pytest.mark.parametrize('n', range(11))\ndef test_red(n):\n    assert not first_time(str(n))\n"
    )

    assert (ran.status, ran.last_line) == (1, "11 failed")
    assert "11 failures, more than 10: none ran again" in ran.output


SHARED_FIXTURE = """
@pytest.fixture(scope="module")
def shared():
    assert not first_time("shared"), "not set up at first"

@pytest.mark.parametrize("n", range(11))
def test_of_it(shared, n):
    pass
"""


def test_many_tests_of_one_fixture_that_failed_are_one_failure_and_run_again_together(suite: Ran) -> None:
    ran = suite(SHARED_FIXTURE)

    assert (ran.status, ran.last_line) == (0, "11 unsteady"), ran.output
    assert ran.output.count("once more, alone") == 1


def test_the_last_failed_tests_of_a_group_are_known(suite: Ran) -> None:
    suite(UNSTEADY, "--second-run=off", "-k", "two")

    again = suite(UNSTEADY, "--second-run=off", "--last-failed")
    assert (again.status, again.last_line) == (0, "1 passed"), again.output


def test_how_often_tests_fail_is_counted_in_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_small.py").write_text(
        BEGINNING
        + """
def test_niceness():
    assert os.nice(0) == 0

def test_once():
    assert not first_time("once")

def test_steady():
    pass
"""
    )
    monkeypatch.chdir(tmp_path)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    lines: list[str] = []

    failed, rounds = observe(["test_small.py"], 1, 10, lines.append)

    assert rounds == 2
    assert failed == {"test_small::test_once": 1, "test_small::test_niceness": 1}
    assert [line.partition(", in")[0] for line in lines] == [
        "round 1 of 2: 3 ran, 1 failed",
        "round 2 of 2, niceness 10: 3 ran, 1 failed",
    ]


def test_rounds_that_time_does_not_suffice_for_are_named() -> None:
    lines: list[str] = []

    assert observe(["tests"], 20, 0, lines.append) == ({}, 0)
    assert lines == ["0 min have passed: 21 of 21 rounds were left out"]


def test_files_that_differ_from_a_commit_are_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "tests" / "snmp").mkdir(parents=True)
    for name in ("tests/test_old.py", "tests/snmp/test_changed.py", "tests/test_gone.py"):
        (tmp_path / name).touch()
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)  # noqa: S603  words from above
    (tmp_path / "tests/test_gone.py").unlink()
    for name in ("tests/snmp/test_changed.py", "tests/snmp/test_new.py", "tests/snmp/components.py"):
        (tmp_path / name).write_text("pass\n")

    assert changed_since("HEAD") == ["tests/snmp/test_changed.py", "tests/snmp/test_new.py"]
    with pytest.raises(NothingToRunError, match="bad revision 'absent'"):
        changed_since("absent")
