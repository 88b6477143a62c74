"""Commands of the documentation, typed beside a demonstration, answer as it is written but for numbers.

A block of the language ``console`` has commands behind ``$ ``, each with what it answers; ``...`` stands for
any lines, and at the end of a line for its rest. Blocks of other languages are not typed.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from gateway.demo.installation import find_installation
from tests.components.command_line import environment
from tests.components.forked_commands import run
from tests.components.waiting import DEADLINE, wait_until
from tests.demo.printed import typed
from tests.distribution.building import ROOT

PAGES = (
    "README.md",
    "docs/audit.md",
    "docs/capture.md",
    "docs/cli.md",
    "docs/configuration.md",
    "docs/event-log.md",
    "docs/mibs.md",
    "docs/operations.md",
    "docs/prometheus.md",
    "docs/set-and-invoke.md",
    "docs/snmp-commands.md",
    "docs/snmp-notifications.md",
)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:1161"
"""The address of the SNMP agent in the documentation."""
METRICS = "127.0.0.1:9464"
"""The address of the metrics in the documentation."""

REST = "..."

shared = pytest.mark.xdist_group("demonstration that prints")


@dataclass(frozen=True, slots=True)
class Typed:
    """A command of a page, and the lines of its answer."""

    page: str
    line: int
    command: str
    answer: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def commands(page: str) -> Iterator[Typed]:
    """Yield the commands of a page, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1)) + 1
        for part in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
            command, _, answer = re.sub(r"\\\n *", " ", part).partition("\n")
            yield Typed(page, line, command, tuple(one for one in answer.splitlines() if one.strip()))


@dataclass(frozen=True, slots=True)
class Beside:
    """The demonstration beside which commands are typed.

    Attributes:
        printed: its output.
        folder: for files that the commands leave.
    """

    printed: str
    folder: Path

    def found(self, pattern: str) -> str:
        (found,) = set(re.findall(pattern, self.printed, re.MULTILINE))
        return str(found)

    @property
    def address(self) -> str:
        return self.found(r"SNMP +UDP ([0-9.:]+),")

    def answer(self, command: str) -> list[str]:
        """Return the lines of a command's output, of both streams."""
        words = shlex.split(self._of_this_run(command))
        name, *arguments = words
        variables = self._variables(name)
        if name == "amqp-gateway":
            done = run(arguments, self.folder, environment(**variables), DEADLINE, as_one=True)
        else:
            if name == "rabbitmqctl":  # of the same installation as the node, and as its user
                words = find_installation().command(self.folder, name) + arguments
            done = typed(words, self.folder, stderr=subprocess.STDOUT, **variables)
        configured = Path(self._variables("")["AMQP_GATEWAY_CONFIG"]).parent
        said = done.stdout.replace(f"{configured}/", "")
        return [line for line in said.splitlines() if line.strip()]

    def _variables(self, name: str) -> Mapping[str, str]:
        if name == "rabbitmqctl":
            return self._of_broker()
        return {
            # The operator's: the table of commands shows a writer's rows to that writer only.
            "SNMPCONFPATH": self.found(r"SNMPCONFPATH=(\S+) snmpset"),
            "SNMP_PERSISTENT_DIR": str(self.folder),
            "AMQP_GATEWAY_CONFIG": self.found(r"export AMQP_GATEWAY_CONFIG=(\S+)"),
            "COLUMNS": "200",
        }

    def _of_broker(self) -> Mapping[str, str]:
        """The environment of the demonstration's node, by which RabbitMQ's own commands find it."""
        folder = str(Path(self.found(r"export AMQP_GATEWAY_CONFIG=(\S+)")).parent)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess):  # one of another test, which has ended
                if process.name() == "beam.smp" and folder in " ".join(process.cmdline()):
                    return process.environ()
        raise AssertionError("the demonstration's broker runs")

    def _of_this_run(self, command: str) -> str:
        """Replace row numbers, which depend on the order of discovery, by those of this run."""
        metrics = self.found(r"Prometheus +http://([0-9.:]+)/")
        command = command.replace(ADDRESS, self.address).replace(METRICS, metrics)
        for columns, names, object_name in (
            (r"rmqVhost\w+", "rmqVhostName", "shop"),
            (r"rmqQueue\w+", "rmqQueueName", "orders.audit"),
        ):
            if re.search(rf"{columns}\.1\.\d+", command):
                row = self._row(names, object_name)
                command = re.sub(rf"({columns})\.1\.\d+", rf"\1.1.{row}", command)
        return command

    def _row(self, names: str, object_name: str) -> str:
        walk = self.answer(f"snmpwalk -Oqs {ADDRESS} AMQP-GATEWAY-RABBITMQ-MIB::{names}")
        (row,) = (line.split()[0].rpartition(".")[2] for line in walk if line.split()[1] == object_name)
        return row


@pytest.fixture(scope="module")
def beside(printed_text: str, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    made = Beside(printed_text, tmp_path_factory.mktemp("typed"))
    ls = "amqp-gateway source ls"
    wait_until(lambda: any("synchronised" in line for line in made.answer(ls)), "the source is synchronised")
    return made


def alike(line: str) -> str:
    """Return a line without the parts that differ between runs: numbers, ids, times, users, column widths."""
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", line)
    line = re.sub(r"\b[0-9a-f]{16}\b", "ID", line)
    line = re.sub(r"\bcli:\w+", "cli:USER", line)
    line = re.sub(r"-?\d[\d,]*", "0", line)
    line = re.sub(r"\b0 ([a-z]+)s\b", r"0 \1", line)  # one message, or several
    # How often is read what, on a machine so busy.
    line = re.sub(r" 0 alarm  .*", " 0 alarm", line)
    line = re.sub(r"\bsynchronised .* within the budget\b", "synchronised", line)
    return re.sub(r"[ ─]+", " ", line).strip()


def missing(expected: tuple[str, ...], answer: list[str]) -> str:
    """Return the first expected line that is missing in its order; an empty text where none is."""
    lines = "".join(f"{alike(line)}\n" for line in answer)
    pattern = ""
    for wanted in expected:
        if wanted == REST:
            pattern += r"(?:.*\n)*"
        elif wanted.endswith(REST):
            pattern += re.escape(alike(wanted.removesuffix(REST))) + r".*\n"
        else:
            pattern += re.escape(f"{alike(wanted)}\n")
        if not re.match(pattern, lines):
            return wanted
    return "" if re.fullmatch(pattern, lines) else "(the answer has lines that are not written)"


@shared
@pytest.mark.parametrize("page", PAGES)
def test_commands_answer_as_it_is_written(page: str, beside: Beside) -> None:
    found = list(commands(page))
    assert found
    # As in a new demonstration: other pages have set limits.
    beside.answer("amqp-gateway set rabbitmq/vhost/shop maxConnections=-1 maxQueues=-1")
    for one in found:
        answer = answer_to(one, beside)
        wrong = missing(one.answer, answer)
        assert not wrong, f"{one}: $ {one.command}\nhas not: {wrong}\n" + "\n".join(answer)


def answer_to(one: Typed, beside: Beside) -> list[str]:
    """Return the last answer; repeat a command that changes nothing until its answer is right, for a while.

    What is shown may still be coming: a workload that begins, an operation under way.
    """
    answer = beside.answer(one.command)

    def as_written() -> bool:
        nonlocal answer
        answer = beside.answer(one.command)
        return not missing(one.answer, answer)

    if missing(one.answer, answer) and not changes(one.command):
        with contextlib.suppress(AssertionError):  # who asked says what is missing
            wait_until(as_written, "the answer is as it is written", 30)
    return answer


def changes(command: str) -> bool:
    """Return whether the command is to be typed once only."""
    once = ("set", "invoke", "source capture", "state backup", "trap test")
    return command.startswith(("snmpset", *(f"amqp-gateway {words}" for words in once)))


@pytest.mark.parametrize(
    ("expected", "answer", "wrong"),
    [
        (("a 1", "b"), ["a  22", "b"], ""),
        (("a", REST), ["a", "b", "c"], ""),
        ((REST, "c"), ["a", "b", "c"], ""),
        (("a", REST, "c"), ["a", "c"], ""),
        (("a 1, b...", "c"), ["a 7, b and more", "c"], ""),
        (("a...",), ["b"], "a..."),
        (("a", "b"), ["a"], "b"),
        ((REST, "a", "b"), ["a", "c", "a", "b"], ""),
        (("a",), ["a", "b"], "(the answer has lines that are not written)"),
        (("1,203 messages purged",), ["1 message purged"], ""),
        (("5 objects  0 alarms",), ["5 objects  0 alarms  queues: read every 2 min"], ""),
        (("synchronised, 5 objects",), ["synchronised users: read, within the budget, 7 objects"], ""),
        (
            ("id 5f4d6212-1b5c-4e36-a4eb-61fa9579d606.1.5",),
            ["id 98dbc2cd-9a65-46ea-848d-e8a2b0f0236e.1.77"],
            "",
        ),
    ],
)
def test_answers_are_compared_but_for_numbers(
    expected: tuple[str, ...], answer: list[str], wrong: str
) -> None:
    assert missing(expected, answer) == wrong
