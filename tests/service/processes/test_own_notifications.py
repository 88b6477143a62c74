"""Ends of processes and of the gateway, and refusals, as receivers of traps and JMX clients see them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest
import yaml
from py4j.protocol import Py4JJavaError

from tests.components.command_line import RunningCommand, running
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.eventlog.reading import of_kind, read_log
from tests.jmx_java.client_machine import client_machine
from tests.service.processes.test_notifications import kill
from tests.service.state.test_late_events import GATEWAY, pid_of, site_with
from tests.snmp.notifications.snmptrapd import Snmptrapd, snmptrapd


def received(daemon: Snmptrapd, notification: str) -> list[tuple[str, str]]:
    """Return process and reason of each notification, in order."""
    found = []
    for each in daemon.printed():
        if each.values["snmpTrapOID.0"].endswith(notification):
            process, reason = (each.values.get(f"agEvent{name}.0", "") for name in ("Process", "Reason"))
            found.append((process.removeprefix("STRING: "), reason.removeprefix("STRING: ")))
    return found


def was_refused(daemon: Snmptrapd, principal: str) -> bool:
    """Return whether a notification says that the principal was refused here."""
    return any(
        each.values["snmpTrapOID.0"].endswith("agAccessRefused")
        and each.values["agEventPrincipal.0"] == f"STRING: {principal}"
        and each.values["agEventOrigin.0"] == "STRING: 127.0.0.1"
        for each in daemon.printed()
    )


def logged(log: Path) -> list[str]:
    """Return the names of the events in the event log, in order."""
    return [str(record["event"]) for record in of_kind(read_log(log), "event")]


def virtual_machine(gateway: RunningCommand) -> int:
    (machine,) = psutil.Process(pid_of(gateway, "jmx")).children()
    return machine.pid


def test_ends_and_refusals_are_notifications_and_in_the_log(tmp_path: Path, java_classes: Path) -> None:
    port, folder = free_tcp_port(), tmp_path / "trapd"
    folder.mkdir()
    with snmptrapd(folder, "public") as daemon:
        site = site_with(tmp_path, daemon.port)
        document = yaml.safe_load(site.configuration.read_text())
        document["jmx"] = {"enabled": True, "listen": f"127.0.0.1:{port}"}
        site.configuration.write_text(yaml.safe_dump(document))
        with (
            client_machine(java_classes) as machine,
            running("run", "--config", site.configuration, log=tmp_path / "log") as gateway,
        ):
            gateway.ready()
            client = machine.connect(port, "monitor", site.state.secret("jmx-monitor"))
            client.listenFor(GATEWAY, "amqp.gateway.gateway.processEnded")
            with pytest.raises(Py4JJavaError, match="SecurityException"):
                machine.connect(port, "monitor", "a guess")
            wait_until(lambda: was_refused(daemon, "jmx:monitor"), "the wrong password is a notification")

            kill(gateway, "snmp")
            killed = ("snmp", "it was ended by SIGKILL")
            wait_until(
                lambda: received(daemon, "agProcessEnded") == [killed], "the agent that is back says so"
            )
            notified = str(client.received(1))
            assert "process=java.lang.String snmp" in notified
            assert "severity=java.lang.String warning" in notified

            os.kill(virtual_machine(gateway), signal.SIGKILL)
            wait_until(lambda: len(received(daemon, "agProcessEnded")) == 2, "the end of the virtual machine")
            assert received(daemon, "agProcessEnded")[1][0] == "jvm"

            # The end of the log that a killed core had not written yet is lost, and a gap says so.
            log = site.state.path / "log"
            wait_until(lambda: logged(log).count("processEnded") == 2, "both are in the log")
            kill(gateway, "core")
            wait_until(lambda: len(received(daemon, "agProcessEnded")) == 3, "the next core says so")
            assert received(daemon, "agProcessEnded")[2] == ("core", "it was ended by SIGKILL")

            os.kill(gateway.process.pid, signal.SIGTERM)
            assert gateway.process.wait(60) == 0
        wait_until(lambda: bool(received(daemon, "agGatewayStopping")), "that it stops was sent before")
        ((_, reason),) = received(daemon, "agGatewayStopping")
    assert reason.startswith(f"it got SIGTERM from process {os.getpid()} (")
    events = logged(log)
    assert events.count("processEnded") == 3
    assert [event for event in events if event != "auditHead"][-1] == "gatewayStopping"
    assert events[-1] == "auditHead", "all before it is signed"
