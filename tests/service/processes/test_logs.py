"""The logs of processes: JSON for programs, lines on a terminal, and no colours where they are not wanted."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
import structlog
from gateway.service.processes.process_setup import configure_logs
configure_logs("core")
structlog.get_logger().info("core-ready", epoch=1)
"""


FAILING = """
import structlog
from gateway.service.processes.process_setup import configure_logs
configure_logs("core")
def log_in(password):
    raise OSError("the broker refused it")
try:
    log_in("hunter" + "2")
except OSError:
    structlog.get_logger().exception("source-failed")
"""


def on_a_terminal(program: str = PROGRAM, **variables: str) -> str:
    """Return the output of a process to a terminal."""
    ours, theirs = pty.openpty()
    try:
        environment = {**os.environ, "TERM": "xterm-256color", **variables}
        command = [sys.executable, "-c", program]
        subprocess.run(command, stderr=theirs, env=environment, check=True)  # noqa: S603  what stands here
        return os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_programs_read_json() -> None:
    done = subprocess.run(  # noqa: S603  what stands here
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    reported = json.loads(done.stderr)
    assert (reported["event"], reported["process"], reported["level"], reported["epoch"]) == (
        "core-ready",
        "core",
        "info",
        1,
    )


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_people_read_lines(no_color: str, *, coloured: bool) -> None:
    line = on_a_terminal(NO_COLOR=no_color)
    assert "core-ready" in line
    assert ("\x1b[" in line) is coloured


def test_a_traceback_has_no_values_of_variables() -> None:
    done = subprocess.run(  # noqa: S603  what stands here
        [sys.executable, "-c", FAILING], capture_output=True, text=True, check=True
    )
    for text in (done.stderr, on_a_terminal(FAILING)):
        assert "the broker refused it" in text
        assert "in log_in" in text
        assert "hunter2" not in text


def test_a_text_of_a_peer_does_nothing_to_a_terminal() -> None:
    program = PROGRAM.replace("epoch=1", r'name="a\x1b[2J\r\nb\u202e", names=["\x9b"]')
    line = on_a_terminal(program, NO_COLOR="1").removesuffix("\r\n")
    assert line.isprintable()
    assert r"a\x1b[2J\r\nb\u202e" in line
