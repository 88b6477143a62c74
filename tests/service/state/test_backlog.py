"""Events that were recorded while nothing could send them, as net-snmp's daemon receives them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from gateway.demo.broker import BrokerSettings, Credentials, PrivateBroker
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import gateway_rights
from gateway.state_folder import EVENT_COUNTS
from tests.components.command_line import Site, new_site, running
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.stopping import stop
from tests.components.waiting import wait_until
from tests.eventlog.reading import of_kind, read_log
from tests.service.processes.test_core import processes_of
from tests.service.processes.test_notifications import kill, saved
from tests.service.state.test_late_events import pid_of, reported
from tests.snmp.notifications.snmptrapd import Snmptrapd, snmptrapd

QUEUES = 20
COUNT = "agEventSuppressedCount.0"


def logged(site: Site, name: str) -> set[str]:
    """Return the ids of the events of this name on the disk."""
    records = of_kind(read_log(site.state.path / "log"), "event")
    return {str(record["event_id"]) for record in records if record["event"] == name}


def test_receivers_without_a_policy_get_what_happened_before_a_core_whose_broker_is_down(
    tmp_path: Path, start_rabbitmq: Callable[[BrokerSettings], PrivateBroker]
) -> None:
    broker, site = start_rabbitmq(TEST_SETTINGS), new_site(tmp_path)
    (tmp_path / "trapd").mkdir()
    with broker.http() as client, snmptrapd(tmp_path / "trapd", site.state.secret("community")) as daemon:
        _configure(site, broker, client, daemon, log={"min_free": 0})
        with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
            gateway.ready()

            def sends() -> bool:
                client.put("queues/%2F/first", json={"durable": True}).raise_for_status()
                client.delete("queues/%2F/first").raise_for_status()
                return bool(reported(daemon.printed()))

            wait_until(sends, "the events of the broker are sent")
            snmp_process = pid_of(gateway, "snmp")
            stop(snmp_process)
            for number in range(QUEUES):
                client.put(f"queues/%2F/q{number}", json={"durable": True}).raise_for_status()
                client.delete(f"queues/%2F/q{number}").raise_for_status()
            wait_until(lambda: _has(site, f"/|q{QUEUES - 1}"), "the last one is on the disk")
            broker.kill_node()  # the next core does not read it, and learns no class of it
            supervisor = psutil.Process(gateway.process.pid)
            os.kill(processes_of(supervisor)["core"], signal.SIGKILL)
            kill(gateway, "snmp")
            expected = logged(site, "queueDeleted") | logged(site, "queueCreated")
            assert len(expected) > QUEUES
            wait_until(lambda: expected <= reported(daemon.printed()).keys(), "all of them are sent")
            late = [event_id for event_id, marks in reported(daemon.printed()).items() if any(marks)]
            assert len(late) >= QUEUES
            assert all("may have been lost" not in str(each.values) for each in daemon.printed())


@pytest.mark.xdist_group("lent broker")
def test_what_no_log_has_is_counted_over_kills_and_unknown_after_a_failure_of_the_machine(
    tmp_path: Path, lent_rabbitmq: PrivateBroker
) -> None:
    broker, site = lent_rabbitmq, new_site(tmp_path)
    uuid, counted = site.state.identity, site.state.path / EVENT_COUNTS
    (tmp_path / "trapd").mkdir()

    def made() -> int:
        return int(counted.read_text().split()[0])

    def texts() -> list[str]:
        return [each.values["agEventText.0"] for each in daemon.printed() if COUNT in each.values]

    with broker.http() as client, snmptrapd(tmp_path / "trapd", site.state.secret("community")) as daemon:
        _configure(site, broker, client, daemon, log={"enabled": False})
        with running("run", "--config", site.configuration, log=tmp_path / "log") as gateway:
            gateway.ready()
            wait_until(lambda: saved(site).number > 0, "the first event is known to be handled")
            stop(pid_of(gateway, "snmp"))
            before = made()
            for number in range(QUEUES):
                client.put(f"queues/%2F/q{number}", json={"durable": True}).raise_for_status()
                client.delete(f"queues/%2F/q{number}").raise_for_status()
            wait_until(lambda: made() >= before + 2 * QUEUES, "the core has made all of them")
            last = saved(site).number + 1
            os.kill(processes_of(psutil.Process(gateway.process.pid))["core"], signal.SIGKILL)
            missed = made()
            kill(gateway, "snmp")
            wait_until(lambda: bool(texts()), "the receiver is sent how many it missed")
            ids = f"{uuid}.1.{last} to {uuid}.1.{missed}"
            assert f"{missed - last + 1} events from {ids} cannot be sent" in texts()[0]
            assert missed - last + 1 >= 2 * QUEUES
            wait_until(lambda: saved(site).epoch > 1, "the next core's events are known to be handled")
            supervisor = psutil.Process(gateway.process.pid)
            everything = [supervisor, *supervisor.children(recursive=True)]
            for each in everything:  # none may see that another has ended, and end by itself
                each.suspend()
            for each in everything:
                each.kill()
            psutil.wait_procs(everything[1:], timeout=30)
        first, cores = counted.read_text().splitlines()
        other = json.dumps(json.loads(cores) | {"machine": "before it failed"})
        counted.write_text(f"{first}\n{other}\n")
        with running("run", "--config", site.configuration, log=tmp_path / "log-2") as gateway:
            gateway.ready()
            wait_until(lambda: "an unknown number of events" in texts()[-1], "that is said")


def reading(site: Site, broker: PrivateBroker, client: httpx.Client) -> dict[str, object]:
    """Return the configuration of a source that reads this broker, as a user of its own."""
    user = Credentials.generate("gateway")
    provision(client, (ProvisionedUser(user.name, user.password, gateway_rights()),))
    return {
        "kind": "rabbitmq",
        "management": broker.management_url,
        "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
        "user": user.name,
        "password": site.secret(user.password),
        "interval": "1s",
    }


def _configure(
    site: Site, broker: PrivateBroker, client: httpx.Client, daemon: Snmptrapd, log: dict[str, object]
) -> None:
    """Configure a gateway that reads this broker, and sends the daemon what becomes of queues."""
    receiver = {"address": f"127.0.0.1:{daemon.port}", "events": ["rabbitmq:queue*"]}
    snmp = {"listen": [f"127.0.0.1:{site.snmp_port}"], "notifications": {"nms": receiver}}
    site.configure(sources={"shop": reading(site, broker, client)}, snmp=snmp, policy={}, log=log)


def _has(site: Site, queue: str) -> bool:
    records = of_kind(read_log(site.state.path / "log"), "event")
    return any(record["event"] == "queueDeleted" and record.get("object_name") == queue for record in records)
