"""What a test leaves behind in its process is an error of that test."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process_state import left_as_it_was, nothing_left_held

FILES = resource.getrlimit(resource.RLIMIT_NOFILE)


@pytest.fixture
def mended() -> Iterator[None]:
    """Put back what the examples leave behind."""
    folder, limits, handler = (
        Path.cwd(),
        resource.getrlimit(resource.RLIMIT_NOFILE),
        signal.getsignal(signal.SIGINT),
    )
    umask = os.umask(0o022)
    yield
    os.umask(umask)
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    signal.signal(signal.SIGINT, handler)
    os.environ.pop("LEFT", None)
    sys.path[:] = [one for one in sys.path if one != "left"]


LEFT: dict[str, Callable[[], object]] = {
    "current folder": lambda: os.chdir("/"),
    "umask": lambda: os.umask(0o077),
    "limit RLIMIT_NOFILE": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES[0] - 1, FILES[1])),
    "handler of SIGINT": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    "variable LEFT": lambda: os.environ.update(LEFT="x"),
    "sys.path": lambda: sys.path.append("left"),
}


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_behind_is_named(what: str) -> None:
    with pytest.raises(AssertionError, match=f"the test left behind:\n{what}: .* became "), left_as_it_was():
        LEFT[what]()


def test_what_is_put_back_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with left_as_it_was(), monkeypatch.context() as changed:
        changed.chdir(tmp_path)
        changed.setenv("LEFT", "x")


def test_an_exception_is_not_compared() -> None:
    with left_as_it_was("variable LEFT"), pytest.MonkeyPatch.context() as changed:
        changed.setenv("LEFT", "x")


def test_a_thread_a_process_and_a_descriptor_that_stay_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.process_state._END_SECONDS", 0.1)
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name="a thread that waits")

    def begin(stack: contextlib.ExitStack) -> None:
        thread.start()
        stack.callback(thread.join)
        stack.callback(ended.set)
        stack.callback(os.close, os.open("/etc/passwd", os.O_RDONLY))
        process = stack.enter_context(subprocess.Popen(["/bin/sleep", "1000"]))
        stack.callback(process.kill)

    with contextlib.ExitStack() as stack, pytest.raises(AssertionError) as found, nothing_left_held():
        begin(stack)
    first, *lines = str(found.value).splitlines()
    assert first == "the test goes on to hold:"
    assert sorted(line.partition(": ")[2].strip() for line in lines) == [
        "/bin/sleep 1000",
        "/etc/passwd",
        "a thread that waits",
    ]


def test_what_soon_ends_or_is_only_to_be_collected_is_none(tmp_path: Path) -> None:
    with nothing_left_held():
        threading.Timer(0.1, lambda: None).start()
        circle: list[object] = [sqlite3.connect(tmp_path / "file")]
        circle.append(circle)
        del circle


def test_what_is_shared_is_not_compared() -> None:
    with contextlib.ExitStack() as stack, nothing_left_held(lambda: True):
        stack.callback(os.close, os.open("/etc/passwd", os.O_RDONLY))
