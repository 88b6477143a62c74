"""Events that were committed when all their senders were killed, as net-snmp's daemon receives them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from py4j.protocol import Py4JJavaError

from gateway.eventlog.last_state import LastEvents, last_events
from gateway.service.processes.jmx import EventCursorFile
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.ports import free_tcp_port, free_udp_port
from tests.components.stopping import stop
from tests.components.waiting import wait_until
from tests.eventlog.reading import of_kind, read_log
from tests.jmx_java.client_machine import client_machine
from tests.service.processes.test_core import processes_of
from tests.service.processes.test_notifications import kill, saved
from tests.snmp.notifications.snmptrapd import Printed, Snmptrapd, snmptrapd

LATE = "agEventLate.0"
GATEWAY = "amqp.gateway:type=Gateway"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Snmptrapd]:
    folder = tmp_path / "trapd"
    folder.mkdir()
    with snmptrapd(folder, "public") as daemon:
        yield daemon


def site_with(folder: Path, port: int, **settings: Any) -> Site:  # noqa: ANN401  as YAML has them
    site = new_site(folder)
    unreachable = {
        "kind": "rabbitmq",
        "management": "http://127.0.0.1:1",
        "user": "nobody",
        "password": site.secret("none"),
    }
    community = {"community": site.secret("public")}
    nms = {"address": f"127.0.0.1:{port}", **community, **settings}
    snmp = {"listen": [f"127.0.0.1:{site.snmp_port}"], "notifications": {"nms": nms}}
    site.configure(snmp=snmp, sources={"orders": unreachable}, log={"min_free": 0, "commit_interval": "1ms"})
    return site


def reported(printed: list[Printed]) -> dict[str, list[bool]]:
    """Return by event id whether notifications were marked as late, except those that SNMP makes itself."""
    found: dict[str, list[bool]] = {}
    for each in printed:
        event_id = each.values["agEventId.0"].removeprefix("STRING: ")
        if ".s" not in event_id:
            found.setdefault(event_id, []).append(LATE in each.values)
    return found


def logged_ids(site: Site, source: str | None = None) -> list[str]:
    """Return the event ids of all events on the disk, or of those of a source."""
    with contextlib.suppress(OSError, ValueError):
        events = of_kind(read_log(site.state.path / "log"), "event")
        return [str(each["event_id"]) for each in events if source in {None, each.get("source")}]
    return []


def handled(site: Site) -> tuple[int, int]:
    """Return the epoch and number of the last event that no process will send again."""
    found = saved(site)
    return (found.epoch, found.number) if not any(each.informs for each in found.targets) else (0, 0)


def pid_of(gateway: RunningCommand, name: str) -> int:
    return processes_of(psutil.Process(gateway.process.pid))[name]


@pytest.mark.parametrize("kind", ["trap", pytest.param("inform", marks=pytest.mark.prove)])
def test_events_of_a_core_that_were_not_sent_are_sent_late_and_once(
    tmp_path: Path, daemon: Snmptrapd, kind: str
) -> None:
    site = site_with(tmp_path, daemon.port, kind=kind)
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        uuid = site.state.identity
        wait_until(lambda: f"{uuid}.1.1" in reported(daemon.printed()), "the first core's events arrive")
        wait_until(lambda: handled(site) >= (1, 1), "it is known to be handled, and answered")

        epoch = unheard_core(
            gateway, site, lambda epoch: f"{uuid}.{epoch}.1" in logged_ids(site), "its event is on the disk"
        )
        kill(gateway, "snmp")
        wait_until(lambda: f"{uuid}.{epoch}.1" in reported(daemon.printed()), "the next process sends it")
        assert reported(daemon.printed())[f"{uuid}.{epoch}.1"] == [True]
        wait_until(lambda: handled(site) > (epoch, 1), "it is known to be handled, and answered")

        starts = len(of_the_agent(daemon))
        kill(gateway, "snmp")
        wait_until(lambda: len(of_the_agent(daemon)) > starts, "the agent is back")
        after = reported(daemon.printed())
    assert after[f"{uuid}.{epoch}.1"] == [True]
    for event_id, marks in after.items():  # what is sent again can be told by its id, and says so
        assert marks[1:] == [True] * (len(marks) - 1), event_id
    assert {event_id for event_id in logged_ids(site) if event_id.split(".")[1] == str(epoch)} <= after.keys()


def test_events_that_compaction_took_before_they_were_sent_are_sent_from_the_lake(
    tmp_path: Path, daemon: Snmptrapd
) -> None:
    site = site_with(tmp_path, daemon.port)
    document = yaml.safe_load(site.configuration.read_text())
    document["log"]["segment_duration"] = "1s"
    site.configuration.write_text(yaml.safe_dump(document))
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        wait_until(lambda: handled(site) >= (1, 1), "the first core's events are handled")
        made: dict[int, int] = {}

        def has_only_made(epoch: int) -> bool:
            found = recalled(site)
            made.update(found.made)
            return epoch in made and not found.events

        epoch = unheard_core(gateway, site, has_only_made, "the lake has its events, a core that starts not")
        kill(gateway, "snmp")
        expected = {f"{site.state.identity}.{epoch}.{number}" for number in range(1, made[epoch] + 1)}
        wait_until(lambda: expected <= reported(daemon.printed()).keys(), "all of them are sent")
        assert counted_as_lost(daemon) == 0


def unheard_core(gateway: RunningCommand, site: Site, is_done: Callable[[int], bool], what: str) -> int:
    """Let a core live and die while the SNMP process stands still; return the core's epoch.

    It lives until ``is_done``, which is given its epoch. A busy machine may need longer for that than the
    supervisor leaves a process that stands still: then it is done again.
    """
    while True:
        stopped = pid_of(gateway, "snmp")
        stop(stopped)
        epoch = one_more_core(gateway, site, is_done, what)
        if pid_of(gateway, "snmp") == stopped:
            return epoch


def one_more_core(gateway: RunningCommand, site: Site, is_done: Callable[[int], bool], what: str) -> int:
    """Kill the core and, when it has lived for long enough, the next one; return the epoch of the latter."""
    former = newest_core(site)
    kill(gateway, "core")
    wait_until(lambda: newest_core(site) > former, "the next core has made events")
    epoch = newest_core(site)
    wait_until(lambda: is_done(epoch), what)
    kill(gateway, "core")
    return epoch


def newest_core(site: Site) -> int:
    """Return the epoch of the last core that is known to have made events."""
    return max(recalled(site).made, default=0)


def recalled(site: Site) -> LastEvents:
    """Return the last events that a core would know if it began now."""
    return last_events(site.state.path / "log", 1000, site.state.identity)


def counted_as_lost(daemon: Snmptrapd) -> int:
    texts = [each.values.get("agEventSuppressedNames.0", "") for each in daemon.printed()]
    return sum(int(text.rpartition(" ")[2]) for text in texts if text.startswith("STRING: *:* "))


def of_the_agent(daemon: Snmptrapd) -> list[Printed]:
    """Return the notifications of the SNMP agent about its own starts."""
    return [each for each in daemon.printed() if ".s" in each.values["agEventId.0"]]


def test_informs_survive_the_death_of_everything(tmp_path: Path) -> None:
    port = free_udp_port()
    site = site_with(tmp_path, port, kind="inform")
    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        wait_until(
            lambda: bool(saved(site).targets) and len(saved(site).targets[0].informs) >= 2, "they wait"
        )
        waiting = len(saved(site).targets[0].informs)
        stop(pid_of(gateway, "snmp"))  # it cannot tell anybody, nor write anything
        processes = psutil.Process(gateway.process.pid).children(recursive=True)
        for each in [gateway.process.pid, *(process.pid for process in processes)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        psutil.wait_procs(processes, timeout=30)
    assert len(saved(site).targets[0].informs) == waiting
    folder = tmp_path / "trapd"
    folder.mkdir()
    with (
        snmptrapd(folder, "public", port) as daemon,
        running("run", "--config", site.configuration, log=tmp_path / "log-2") as gateway,
    ):
        gateway.ready()
        uuid = site.state.identity
        wait_until(lambda: f"{uuid}.1.1" in reported(daemon.printed()), "what waited arrives")
        wait_until(lambda: saved(site).targets[0].informs == (), "and nothing waits any more")
        assert set(logged_ids(site)) <= reported(daemon.printed()).keys()
        assert reported(daemon.printed())[f"{uuid}.1.1"][0]


def test_events_of_a_source_that_is_not_configured_any_more_are_sent_all_the_same(
    tmp_path: Path, daemon: Snmptrapd
) -> None:
    site = site_with(tmp_path, 162, address="255.255.255.255:162")  # the system refuses to send there

    def is_owed() -> bool:
        return any(target.owed for target in saved(site).targets) and bool(logged_ids(site, "orders"))

    with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
        gateway.ready()
        wait_until(is_owed, "an event of the source is on the disk, and was not sent")
        gateway.terminate()
    owed = set(logged_ids(site, "orders"))
    document = yaml.safe_load(site.configuration.read_text())
    document["sources"] = {"returns": document["sources"]["orders"]}
    document["snmp"]["notifications"]["nms"]["address"] = f"127.0.0.1:{daemon.port}"
    site.configuration.write_text(yaml.safe_dump(document))
    with running("run", "--config", site.configuration, log=tmp_path / "log-2") as gateway:
        gateway.ready()
        wait_until(lambda: owed <= reported(daemon.printed()).keys(), "it is sent")
    late = [each for each in daemon.printed() if each.values["agEventId.0"].removeprefix("STRING: ") in owed]
    assert {each.values["agEventSource.0"] for each in late} == {"STRING: orders"}


def test_listeners_of_jmx_receive_them_late_or_how_many_they_missed(
    tmp_path: Path, java_classes: Path
) -> None:
    site, port, received = site_with(tmp_path, free_udp_port()), free_tcp_port(), []
    document = yaml.safe_load(site.configuration.read_text())
    document["jmx"] = {"enabled": True, "listen": f"127.0.0.1:{port}"}
    site.configuration.write_text(yaml.safe_dump(document))
    with (
        client_machine(java_classes) as machine,
        running("run", "--config", site.configuration, log=tmp_path / "log") as gateway,
    ):
        gateway.ready()
        uuid, password = site.state.identity, site.state.secret("jmx-monitor")
        client = machine.connect(port, "monitor", password)
        client.listenFor(GATEWAY, "amqp.gateway.gateway.logWritten")
        stopped = pid_of(gateway, "jmx")
        stop(stopped)
        kill(gateway, "core")
        wait_until(lambda: f"{uuid}.2.1" in logged_ids(site), "the second core's event is on the disk")
        kill(gateway, "core")
        os.kill(stopped, signal.SIGCONT)

        def is_received(part: str) -> bool:
            received.append(client.received(100))
            return any(part in text for text in received)

        wait_until(lambda: is_received(f"{uuid}.2."), "an event of the second core is heard")
        late = [text for text in received if f"{uuid}.2." in text]
        assert all("late=java.lang.Boolean true" in text for text in late), late

        wait_until(lambda: reported_events(site) >= (2, 1), "it is known to be told")
        kill(gateway, "core")
        kill(gateway, "jmx")
        wait_until(lambda: reported_events(site) >= (4, 1), "the next process knows the next core's events")
        wait_until(lambda: can_connect(machine, port, password), "it can be asked")
        again = machine.connect(port, "monitor", password)

        def lost() -> int:
            return int(again.attribute(GATEWAY, "EventsLost").rpartition(" ")[2])

        wait_until(lambda: lost() >= 1, "listeners can see how many they missed")
        missed = again.invoke(GATEWAY, "eventsSince", [f"{uuid}.2.0", 1000])
        assert f'"eventId": "{uuid}.3.1"' in missed, "and can ask for them"
        assert f'"eventId": "{uuid}.1.1"' not in missed


def reported_events(site: Site) -> tuple[int, int]:
    return EventCursorFile(site.state.path).read().place


def can_connect(machine: Any, port: int, password: str) -> bool:  # noqa: ANN401  a class of Java's
    try:
        machine.connect(port, "monitor", password).close()
    except Py4JJavaError:
        return False
    return True
