"""Each front end shows what the policy's text says, whatever that is: generated policies, one after another.

The front ends are processes that run all the time, so each policy is also a reload under which nothing of
the former one may stay. `tests/policy/evaluator.py` reads the same text by its own code.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.feed.records import Record
from tests.components.command_line import Site, new_site
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING
from tests.policy.evaluator import Evaluator
from tests.policy.facts import Expected
from tests.policy.front_ends import HIDDEN, CommandLine, Metrics, command_line, metrics
from tests.policy.generated import policy_text
from tests.policy.jmx_front_end import Jmx, jmx, jmx_settings
from tests.policy.published import Core, core_at
from tests.policy.receivers import Mailbox, Receiver, mailboxes, notification_settings
from tests.policy.snmp_front_end import WRITER, Snmp, snmp
from tests.policy.trap_daemon import USER

MAPPINGS = Path(__file__).parents[2] / "mappings"
SEEDS = range(1, 401) if PROVING else (*range(1, 5), 36, 70, 84, 92, 115, 131)
"""By the last six, operations of others are shown whose element is hidden."""

CASES = 10_000 if PROVING else 5_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A core, and the front ends that show it."""

    core: Core
    command_line: CommandLine
    metrics: Metrics
    snmp: tuple[Snmp, ...]
    jmx: tuple[Jmx, ...]
    receivers: tuple[Receiver, ...]

    def compare(self, text: str, stamp: int, *, with_commands: bool = False) -> int:
        """Publish the world under a policy, and compare every front end; return the number of questions."""
        evaluator = Evaluator(text, MAPPINGS)
        commands, scraper = (
            Expected(evaluator, front_end.principal, stamp) for front_end in (self.command_line, self.metrics)
        )
        notified: list[Jmx | Receiver] = [*self.jmx, *self.receivers]
        users = [(each, Expected(evaluator, each.principal, stamp)) for each in notified]
        self.core.apply(text)
        first_end = self.core.ends + 1
        self.core.begin(stamp, *self._markers())
        asked = self.command_line.compare(commands) + self.metrics.compare(scraper)
        asked += sum(each.compare(evaluator, stamp) for each in self.snmp)
        if with_commands:
            self.command_line.compare_commands(commands, HIDDEN[stamp % len(HIDDEN)])
        for one, wanted in users:
            asked += one.compare(wanted)
        self.core.end(stamp, *self._markers())
        self.command_line.compare_ends(commands)
        for each in self.snmp:
            each.compare_ends(evaluator, stamp, first_end)
        for one, wanted in users:
            one.compare_ends(wanted)
        return asked

    def _markers(self) -> list[Record]:
        return [*(each.marker() for each in self.jmx), self.command_line.marker()]


@contextmanager
def front_ends(folder: Path, classes: Path) -> Iterator[Asked]:
    site = new_site(folder)
    port = free_tcp_port()
    with mailboxes(site) as opened:
        site.configure(
            jmx=jmx_settings(port),
            metrics={"enabled": True, "objects": {"classes": {"*:*": ["*"]}}},
            snmp={
                "listen": [f"127.0.0.1:{site.snmp_port}"],
                "writers": {WRITER: {}},
                "users": {USER: {}},
                "notifications": notification_settings(opened),
            },
        )
        yield from _shown(site, port, opened, classes)


def _shown(site: Site, port: int, opened: Mapping[str, Mailbox], classes: Path) -> Iterator[Asked]:
    folder = site.folder
    with (
        core_at(folder / "feed.sock") as core,
        metrics(site) as shown,
        command_line(site, getpass.getuser()) as commands,
        snmp(site) as agent,
        jmx(site, port, classes) as users,
    ):
        wait_until(lambda: core.front_ends == 4, "all front ends")
        commands.started(core.publish)
        receivers = tuple(Receiver(name, mailbox, site) for name, mailbox in opened.items())
        yield Asked(core, commands, shown, agent, users, receivers)


@pytest.fixture
def asked(tmp_path: Path, java_classes: Path) -> Iterator[Asked]:
    with front_ends(tmp_path, java_classes) as found:
        yield found


@pytest.mark.long
def test_front_ends_show_what_the_text_says(asked: Asked) -> None:
    questions = 0
    principals = [asked.command_line.principal, asked.metrics.principal, "jmx:other"]
    principals += [*(each.principal for each in asked.snmp), *(each.principal for each in asked.jmx)]
    # Behind the others: what these have does not depend on how many receivers there are.
    principals += [each.principal for each in asked.receivers]
    for seed in SEEDS:
        text = policy_text(seed, principals)
        try:
            questions += asked.compare(text, seed, with_commands=seed % 5 == 0)
        except AssertionError as error:
            error.add_note(f"seed {seed}:\n{text}")
            raise
    assert questions >= CASES
