"""What a test leaves behind in its process is an error of that test."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process_state import left_as_it_was

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
    "limit RLIMIT_NOFILE": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, FILES[1])),
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
