"""The command ``amqp-gateway`` as a process of its own, and configurations for it.

The module is a pytest plugin, too: a test fails before its setup where a command has ended that it may share,
and a traceback in a log of the gateway is red at once (`ProductLogs`).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.lifeline import READY
from gateway.state_folder import StateFolder
from tests.components.forked_commands import can_be_forked, run
from tests.components.ports import free_udp_port
from tests.components.waiting import DEADLINE
from tests.process_state import SharedPartEndedError
from tests.second_run import LOGGED, RedAtOnceError

COMMAND = (sys.executable, "-m", "gateway.cli.main")
_OURS = ("AMQP_GATEWAY_", "XDG_")
_TRACEBACK = "Traceback (most recent call last)"
UNEXPECTED = "amqp-gateway: unexpected error: "
"""The beginning of the line by which a command reports what it did not expect (`gateway.cli.unexpected`)."""
_COMMAND_SECONDS = 400.0
"""The seconds that a command may take; a Spark report on a busy machine takes longer than others wait."""
_LOG_LINES: Final = 20
"""The number of the last lines of its log that are shown of a command that has ended."""


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of this process, without variables that name this machine's own gateway."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {**ours, **changes}


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code and the output of a command."""

    code: ExitCode
    output: str
    errors: str

    @property
    def reported(self) -> list[str]:
        """Lines on standard error that are for people: all lines that are no log records."""
        return [line for line in self.errors.splitlines() if not is_log_record(line)]

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log records on standard error."""
        return [json.loads(line) for line in self.errors.splitlines() if is_log_record(line)]


def is_log_record(line: str) -> bool:
    """Return whether ``line`` is a record of the gateway's log, as written without a terminal."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def amqp_gateway(
    *arguments: str | Path,
    folder: Path | None = None,
    program: Sequence[str | Path] = COMMAND,
    seconds: float = _COMMAND_SECONDS,
    **variables: str,
) -> Ended:
    """Run a command to its end, within ``seconds``; ``program`` is its executable and first arguments."""
    words, inherited = list(map(str, arguments)), environment(**variables)
    if program == COMMAND and can_be_forked(variables):
        done = run(words, folder, inherited, seconds)
    else:
        done = subprocess.run(  # noqa: S603  our own command
            [*map(str, program), *words],
            cwd=folder,
            env=inherited,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    if found := tracebacks(done.stderr):
        raise RedAtOnceError(found)
    return Ended(ExitCode(done.returncode), done.stdout, done.stderr)


class RunningCommand:
    """A running command, with its log in a file."""

    def __init__(self, process: subprocess.Popen[bytes], line: socket.socket, log: Path) -> None:
        self.process = process
        self._line = line
        self._log = log

    def ready(self) -> None:
        """Wait until the command reports that it is ready.

        Raises:
            AssertionError: it ended before, or took too long.
        """
        self._line.settimeout(DEADLINE)
        assert self._line.recv(1) == READY, self.ended()

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log records so far."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if is_log_record(line)]

    def ended(self) -> Ended:
        """Wait for the end of the command; return its result."""
        code = self.process.wait(DEADLINE)
        return Ended(ExitCode(code), "", self._log.read_text(encoding="utf-8"))

    def terminate(self) -> Ended:
        """Send SIGTERM, as an operator or a service manager would; return the command's result."""
        self.process.terminate()
        return self.ended()

    def check_alive(self) -> None:
        """Return if the command runs.

        Raises:
            SharedPartEndedError: it has ended; the text has its folder, exit status and last words.
        """
        if (status := self.process.poll()) is not None:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
            raise SharedPartEndedError(
                f"a gateway that several tests share ended before this test: exit status {status}, folder "
                f"{self._log.parent}; the end of {self._log.name}:\n" + "\n".join(lines)
            )


_RUNNING: Final[list[RunningCommand]] = []
"""The commands within `running`."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Check the commands that outlive each test: those that one test alone started have been left by now."""
    for command in _RUNNING:
        command.check_alive()


@contextmanager
def running(
    *arguments: str | Path,
    log: Path,
    program: Sequence[str | Path] = COMMAND,
    **variables: str,
) -> Iterator[RunningCommand]:
    """Run a command with a lifeline: it ends with the test, whatever happens to the test.

    Args:
        arguments: of the command.
        log: its log.
        program: the command's executable and first arguments.
        variables: changes of the environment.

    Raises:
        RedAtOnceError: its log has a traceback.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs, log.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603  our own command
                [*map(str, program), *map(str, arguments), "--lifeline", str(theirs.fileno())],
                env=environment(**variables),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        command = RunningCommand(process, ours, log)
        _RUNNING.append(command)
        try:
            yield command
        finally:
            _RUNNING.remove(command)
            ours.close()
            try:
                process.wait(DEADLINE)
            finally:
                process.kill()
                process.wait()
    LOGS.check()


def tracebacks(text: str) -> str:
    """Return what a log has of tracebacks, or an empty text: the gateway has met what it did not expect."""
    lines = [line for line in text.splitlines() if _TRACEBACK in line or line.startswith(UNEXPECTED)]
    return f"{len(lines)} tracebacks in the log, the first one:\n{lines[0]}" if lines else ""


_SHOWN_LINES: Final = 80
_SHOWN_CHARACTERS: Final = 400


class ProductLogs:
    """The logs of the product's processes that this process started, whichever way, as far as they are files.

    Each traceback is found once. What a process writes to a pipe or a terminal is the business of its test.
    """

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def begin(self) -> None:
        """Observe what is started from now on, to the end of this process."""
        start = subprocess.Popen.__init__

        def noting(process: subprocess.Popen[Any], args: Any, *rest: Any, **how: Any) -> None:  # noqa: ANN401
            start(process, args, *rest, **how)
            if not isinstance(args, str | bytes | os.PathLike) and any(map(_is_ours, args)):
                errors = how.get("stderr")
                self._note(how.get("stdout") if errors == subprocess.STDOUT else errors)

        subprocess.Popen.__init__ = noting  # type: ignore[method-assign, assignment]

    def _note(self, output: Any) -> None:  # noqa: ANN401  whatever `subprocess.Popen` takes
        number = output if isinstance(output, int) or output is None else output.fileno()
        if number is not None and number >= 0:
            self.add(Path(f"/proc/self/fd/{number}").readlink())

    def add(self, path: Path) -> None:
        """Look at a file from now on, and at what it has."""
        if path.is_file():
            begin = self._read.get(path, 0)
            self._read[path] = begin if begin <= path.stat().st_size else 0  # it was begun again

    def tracebacks(self) -> str:
        """Return what was written of tracebacks since the last call, or an empty text."""
        return _tracebacks(self._news())

    def _news(self) -> Iterator[tuple[Path, str]]:
        """Yield what was written since the last call, by file."""
        for path, begin in list(self._read.items()):
            try:
                if path.stat().st_size == begin:
                    continue
                with path.open("rb") as file:
                    file.seek(begin)
                    new = file.read()
            except FileNotFoundError:
                del self._read[path]  # with the folder of its test
                continue
            self._read[path] = begin + len(new)
            yield path, new.decode("utf-8", "replace")

    def check(self) -> None:
        """Return if nothing was written of tracebacks since the last look.

        Raises:
            RedAtOnceError: there was.
        """
        if found := self.tracebacks():
            raise RedAtOnceError(found)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show what the gateways of a test that fails have logged; a traceback in it is red at once."""
        report = yield
        if report.failed and report.when != "teardown":
            news = list(self._news())
            report.sections += [(f"{LOGGED} in {path}", _end(text)) for path, text in news]
            if found := _tracebacks(news):
                report.__dict__["is_red_at_once"] = True
                report.sections.append(("Red at once", found))
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Look also before the teardown, which removes logs."""
        found = self.tracebacks()
        result = yield
        if found := "\n".join(filter(None, (found, self.tracebacks()))):
            raise RedAtOnceError(found)
        return result


def _tracebacks(news: Iterable[tuple[Path, str]]) -> str:
    return "\n".join(f"{path}: {found}" for path, text in news if (found := tracebacks(text)))


def _end(text: str) -> str:
    return "\n".join(line[:_SHOWN_CHARACTERS] for line in text.splitlines()[-_SHOWN_LINES:])


def _is_ours(word: object) -> bool:
    return str(word) == COMMAND[-1] or str(word).rpartition("/")[2] == "amqp-gateway"


LOGS: Final = ProductLogs()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to observe the logs."""
    LOGS.begin()
    config.pluginmanager.register(LOGS)


@dataclass(frozen=True, slots=True)
class Site:
    """A folder with a configuration, its secrets and its state."""

    folder: Path
    snmp_port: int

    @property
    def configuration(self) -> Path:
        """The configuration file."""
        return self.folder / "gateway.yaml"

    @property
    def state(self) -> StateFolder:
        """The state folder of the gateway, which must exist."""
        return StateFolder(self.folder / "state")

    def configure(self, **sections: Mapping[str, Any] | Sequence[str]) -> None:
        """Write the configuration: these sections, and defaults that use only this site's folder and port.

        By default every principal reads everything: most tests are not about roles.
        """
        settings = {
            "version": 1,
            "snmp": {"listen": [f"127.0.0.1:{self.snmp_port}"]},
            "state": {"folder": "state"},
            "feed": {"socket": "feed.sock"},
            "policy": {"principals": {"*": ["everything"]}},
            **sections,
        }
        self.configuration.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")

    def secret(self, value: str) -> dict[str, str]:
        """Write ``value`` to a file of mode 0600; return its reference for a configuration."""
        path = self.folder / f"secret-{len(list(self.folder.glob('secret-*')))}"
        path.touch(mode=0o600)
        path.write_text(value, encoding="utf-8")
        return {"file": path.name}


def new_site(folder: Path, *, state: bool = True) -> Site:
    """Create an empty but valid configuration in ``folder``, and by default a new state."""
    site = Site(folder, free_udp_port())
    site.configure()
    if state:
        StateFolder.create(folder / "state").secret("community")
    return site
