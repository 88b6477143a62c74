"""``amqp-gateway jmx password``: hashes of passwords."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.jmx.password_hashes import matches
from gateway.service.processes.exit_codes import ExitCode

PASSWORD = "correct horse"


def test_a_hash_is_printed() -> None:
    ended = CliRunner().invoke(main, ["jmx", "password"], input=f"{PASSWORD}\n")
    (line,) = ended.output.splitlines()
    assert matches(line, PASSWORD)
    assert PASSWORD not in line


def test_a_hash_is_written_into_a_file_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "monitor"
    ended = CliRunner().invoke(main, ["jmx", "password", "--output", str(file)], input=f"{PASSWORD}\n")
    assert ended.output == f"{file}: has the hash; name it as jmx.users.NAME.password: {{ file: {file} }}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert matches(file.read_text().strip(), PASSWORD)


@pytest.mark.parametrize("text", ["", "short", "x" * 1025])
def test_passwords_that_are_too_short_or_too_long(text: str) -> None:
    ended = CliRunner().invoke(main, ["jmx", "password"], input=text)
    assert ended.exit_code == ExitCode.USAGE
    assert "the password needs 8 to 1024 characters" in ended.output


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "monitor"
    ended = CliRunner().invoke(main, ["jmx", "password", "--output", str(file)], input=f"{PASSWORD}\n")
    assert ended.exit_code == ExitCode.FAILED
    assert f"{file}: cannot be written: No such file or directory" in ended.output


def test_a_terminal_is_asked_twice_without_echo() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gateway.cli.main", "jmx", "password"]
    with subprocess.Popen(  # noqa: S603  this command
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        shown = b""
        for prompt in (b"Password: ", b"Repeat for confirmation: "):
            while not shown.endswith(prompt):
                shown += os.read(ours, 1024)
            os.write(ours, PASSWORD.encode() + b"\n")
        assert process.stdout is not None
        line = process.stdout.read().decode().strip()
    os.close(ours)
    assert matches(line, PASSWORD)
    assert PASSWORD.encode() not in shown
