"""Receivers that are configured, removed and configured again, while all processes are being killed."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from gateway.demo.broker import PrivateBroker
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.stopping import stop
from tests.components.waiting import wait_until
from tests.eventlog.reading import of_kind, read_log
from tests.hypothesis_profiles import PROVING
from tests.ledger.traps import received_by
from tests.service.processes.test_core import processes_of
from tests.service.state.test_backlog import reading
from tests.snmp.notifications.snmptrapd import Snmptrapd, snmptrapd

KINDS = {"first": "inform", "second": "trap", "third": "inform"}
"""The receivers, by name."""
QUEUES = 3
AGAIN_SECONDS = 0.5


def starts() -> Iterator[frozenset[str]]:
    """Yield the receivers of one start of the gateway after the other."""
    yield frozenset({"first", "second"})
    yield frozenset()
    yield frozenset(KINDS)
    chance = random.Random(1140)  # noqa: S311  repeatable on purpose
    for _ in range(30 if PROVING else 0):
        yield frozenset(chance.sample(list(KINDS), chance.randrange(len(KINDS) + 1)))


STARTS = tuple(starts())


class Story:
    """A broker whose queues come and go, and for whom the events of each queue are."""

    def __init__(self, site: Site, client: httpx.Client, daemons: dict[str, Snmptrapd]) -> None:
        self._site = site
        self._client = client
        self._daemons = daemons
        self._numbers = itertools.count()
        self._source = dict[str, object]()
        self.meant: dict[str, set[str]] = defaultdict(set)
        """The queues of a receiver."""
        self.excluded: dict[str, set[str]] = defaultdict(set)
        """The queues of which it must get nothing: it was not configured."""

    def configure(self, receivers: Collection[str], source: dict[str, object] | None = None) -> None:
        """Write which receivers there are."""
        self._source = source or self._source
        notifications = {
            name: {
                "address": f"127.0.0.1:{self._daemons[name].port}",
                "kind": KINDS[name],
                "events": ["rabbitmq:queue*"],
            }
            for name in receivers
        }
        self._site.configure(
            sources={"shop": self._source},
            snmp={"listen": [f"127.0.0.1:{self._site.snmp_port}"], "notifications": notifications},
            log={"min_free": 0, "compact": False},
        )

    def churn(self, *, meant: Collection[str], excluded: Collection[str] = ()) -> None:
        """Make queues and delete them, and wait until the log has that."""
        tried: list[str] = []
        again_at = 0.0

        def is_recorded() -> bool:
            nonlocal again_at
            if not self.logged().keys().isdisjoint(tried):
                return True
            if time.monotonic() > again_at:
                tried.append(self._made(meant, excluded))
                again_at = time.monotonic() + AGAIN_SECONDS
            return False

        wait_until(is_recorded, "the core records what becomes of queues")
        last = [self._made(meant, excluded) for _ in range(QUEUES)][-1]
        wait_until(lambda: len(self.logged().get(last, ())) > 1, "the last one is on the disk")

    def _made(self, meant: Collection[str], excluded: Collection[str]) -> str:
        queue = f"q{next(self._numbers)}"
        for name in meant:
            self.meant[name].add(f"/|{queue}")
        for name in excluded:
            self.excluded[name].add(f"/|{queue}")
        self._client.put(f"queues/%2F/{queue}", json={"durable": True}).raise_for_status()
        self._client.delete(f"queues/%2F/{queue}").raise_for_status()
        return f"/|{queue}"

    def logged(self) -> dict[str, set[str]]:
        """Return the ids of the events on the disk by the queue that came or went."""
        found: dict[str, set[str]] = defaultdict(set)
        with suppress(OSError, ValueError):
            for record in of_kind(read_log(self._site.state.path / "log"), "event"):
                if record["event"] in {"queueCreated", "queueDeleted"}:
                    found[str(record.get("object_name"))].add(str(record["event_id"]))
        return found

    def has_all(self, receivers: Collection[str]) -> bool:
        """Return whether these receivers lack no more than is counted."""
        return not list(self.lacking(receivers))

    def lacking(self, receivers: Collection[str]) -> Iterator[str]:
        """Yield a line for each receiver that lacks more of what is for it than is counted."""
        logged = self.logged()
        for name in receivers:
            received = received_by(self._daemons[name])
            meant = {each for queue in self.meant[name] for each in logged[queue]}
            missing = meant - {receipt.event_id for receipt in received.receipts}
            counted = received.suppressed + sum(each.number for each in received.missed)
            if len(missing) > counted:
                yield f"{name}: {sorted(missing)} are missing, {counted} are counted"

    def foreign(self) -> Iterator[str]:
        """Yield a line for each queue of which a receiver got something, and must not."""
        logged = self.logged()
        for name, daemon in self._daemons.items():
            ids = {receipt.event_id for receipt in received_by(daemon).receipts}
            for queue in sorted(self.excluded[name]):
                if logged[queue] & ids:
                    yield f"{name}: it was not configured when {queue} came and went"


def kill_all(gateway: RunningCommand) -> None:
    """Kill every process, so that none may see that another has ended, and end by itself."""
    supervisor = psutil.Process(gateway.process.pid)
    everything = [supervisor, *supervisor.children(recursive=True)]
    for each in everything:
        each.suspend()
    for each in everything:
        each.kill()
    psutil.wait_procs(everything[1:], timeout=30)


def killed(gateway: RunningCommand, name: str) -> None:
    """Kill a process, once there is one: on a busy machine another may be just being started."""
    with suppress(ProcessLookupError):
        os.kill(running_one(gateway, name), signal.SIGKILL)


def running_one(gateway: RunningCommand, name: str) -> int:
    """Return the number of a process, once there is one."""
    supervisor, found = psutil.Process(gateway.process.pid), dict[str, int]()

    def is_there() -> bool:
        found.update(processes_of(supervisor))
        return name in found

    wait_until(is_there, f"a process {name}")
    return found[name]


def unheard(gateway: RunningCommand, story: Story, meant: Collection[str], excluded: Collection[str]) -> None:
    """Let a core be killed, and the next one record events, while the SNMP agent hears nothing."""
    stop(running_one(gateway, "snmp"))
    story.churn(meant=meant, excluded=excluded)
    killed(gateway, "core")
    story.churn(meant=meant, excluded=excluded)


@pytest.mark.xdist_group("lent broker")
@pytest.mark.timeout(3600 if PROVING else 900)
def test_each_receiver_gets_all_since_it_is_configured_or_its_number_and_nothing_from_before(
    tmp_path: Path, lent_rabbitmq: PrivateBroker
) -> None:
    broker, site = lent_rabbitmq, new_site(tmp_path)
    with ExitStack() as stack:
        client = stack.enter_context(broker.http())
        daemons = {}
        for name in KINDS:
            (tmp_path / name).mkdir()
            daemons[name] = stack.enter_context(snmptrapd(tmp_path / name, site.state.secret("community")))
        story = Story(site, client, daemons)
        story.configure(STARTS[0], reading(site, broker, client))
        for number, (now, following) in enumerate(itertools.pairwise((*STARTS, None))):
            assert now is not None
            others = KINDS.keys() - now
            with running("run", "--config", site.configuration, log=tmp_path / f"log-{number}") as gateway:
                gateway.ready()
                story.churn(meant=now, excluded=others)
                if now:
                    unheard(gateway, story, now, others)
                    killed(gateway, "snmp")
                    wait_until(partial(story.has_all, now), "receivers have all, or its number")
                if following is not None:
                    # Not yet: what is configured waits for the next start, whatever is killed before it.
                    story.configure(following)
                    unheard(gateway, story, now & following, others)
                    kill_all(gateway)
        assert [*story.lacking(KINDS), *story.foreign()] == []
