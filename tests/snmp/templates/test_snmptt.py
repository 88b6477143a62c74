"""The template for SNMPTT: a real snmptrapd runs a real SNMPTT, which logs severity and text of a trap."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from gateway.model.observations import EventState, Severity
from gateway.shipped_files import shipped_folder
from gateway.snmp.fixed_mib import NOTIFICATIONS, OwnNotification
from gateway.snmp.notifications.encoding import EncodedNotification, NotificationEncoder, trap_v2c
from gateway.snmp.notifications.notification import Notification
from gateway.snmp.templates.notifications import OWN_SEVERITIES, RAISED, MonitoredNotification
from gateway.snmp.templates.snmptt import WORDS, snmptt
from tests.components.command_line import amqp_gateway
from tests.components.waiting import wait_until
from tests.snmp.notifications.snmptrapd import snmptrapd
from tests.snmp.notifications.story import ROOT, event

ALARM = (*ROOT, *NOTIFICATIONS, OwnNotification.ALARM_RAISED)
MEMORY_ALARM_SET, MEMORY_ALARM_CLEARED = (*ROOT, 2, 1, 0, 8), (*ROOT, 2, 1, 0, 9)
SETTINGS = """
[General]
mode = standalone
multiple_event = 1
[Logging]
log_enable = 1
log_file = {folder}/log
syslog_enable = 0
syslog_system_enable = 0
[Exec]
exec_enable = 0
[TrapFiles]
snmptt_conf_files = <<END
{folder}/snmptt.conf
END
"""

Logged = Callable[[Notification], tuple[str, str]]
"""Sends a trap, and returns the severity and the text that SNMPTT logs for it."""


@contextmanager
def translated(folder: Path, template: str, modules: Literal["ALL", ""]) -> Iterator[Logged]:
    """Run snmptrapd with SNMPTT as its handler, with this template."""
    (folder / "snmptt.conf").write_text(template, encoding="ascii")
    (folder / "snmptt.ini").write_text(SETTINGS.format(folder=folder), encoding="ascii")
    log = folder / "log"
    further = (
        "[snmp] printNumericOids yes",
        f"traphandle default /usr/sbin/snmptt --ini={folder}/snmptt.ini",
    )
    encoder = NotificationEncoder(ROOT, (*ROOT, 4, 1, 1))

    def lines() -> list[str]:
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    with (
        snmptrapd(folder, "public", further=further, modules=modules) as daemon,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):

        def logged(notification: Notification) -> tuple[str, str]:
            count = len(lines())
            varbinds = EncodedNotification(encoder, notification, 0).version_2c()
            sender.sendto(trap_v2c(b"public", 1, varbinds), ("127.0.0.1", daemon.port))
            wait_until(lambda: len(lines()) > count, "SNMPTT has logged the trap")
            (line,) = lines()[count:]
            found = re.fullmatch(r'.* \.[0-9.]+ (\w+) "AMQP-GATEWAY-[A-Z-]+" \S+ - (.*)', line)
            assert found is not None, line
            return found[1], found[2]

        yield logged


@pytest.mark.parametrize("modules", ["ALL", ""])
def test_severity_and_text_are_those_of_the_notification(tmp_path: Path, modules: Literal["ALL", ""]) -> None:
    template = amqp_gateway("template", "snmptt", folder=tmp_path).output
    with translated(tmp_path, template, modules) as logged:
        full = event(oid=MEMORY_ALARM_SET, text="node a: memory", object_name="a", condition="memoryAlarm(a)")
        about = f"source orders, object a, condition memoryAlarm(a), event {full.event_id}"
        assert logged(full) == ("Critical", f"node a: memory [{about}]")
        for severity in (Severity.MAJOR, Severity.INFO):
            raised = event(oid=ALARM, severity=severity, state=EventState.RAISED, text="down")
            assert logged(raised)[0] == WORDS[severity]
        assert logged(event(oid=MEMORY_ALARM_CLEARED, severity=Severity.CLEARED))[0] == "Normal"


def test_each_notification_of_the_shipped_modules_is_in_the_template(tmp_path: Path) -> None:
    template = amqp_gateway("template", "snmptt", folder=tmp_path).output
    events = re.findall(r'^EVENT (\w+) \.([0-9.]+) "([A-Z-]+)" (\w+)$', template, re.MULTILINE)
    names = [name for name, *_ in events]
    assert len(set(names)) == len(names)
    found = {
        (module, name.removesuffix(word) if name.endswith(tuple(WORDS.values())) else name)
        for name, _, module, word in events
    }
    texts = [path.read_text(encoding="ascii") for path in shipped_folder("mibs").glob("*.mib")]
    assert found == {
        (text.partition(" ")[0], name)
        for text in texts
        for name in re.findall(r"^(\w+) NOTIFICATION-TYPE$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("number", OwnNotification)
def test_severities_of_the_gateways_own_notifications_are_those_that_the_documentation_has(
    number: OwnNotification,
) -> None:
    first, *further = number.name.lower().split("_")
    name = first + "".join(map(str.capitalize, further))
    page = (shipped_folder("mibs").parent / "docs" / "events.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{name}` \| ([^|]*) \|", page, re.MULTILINE)
    if row is None:  # the SNMP agent makes it itself
        assert number in {OwnNotification.EVENTS_SUPPRESSED, OwnNotification.TEST}
    elif "the rule's" in row[1]:
        assert OWN_SEVERITIES[number] == RAISED
    else:
        words = re.findall("|".join(severity.name.lower() for severity in Severity), row[1])
        assert {severity.name.lower() for severity in OWN_SEVERITIES[number]} == set(words)


def test_no_line_of_a_description_is_one_for_snmptt() -> None:
    text = " ".join(["EXEC touch /tmp/here", "EDESC EVENT FORMAT MATCH NODES REGEX PREEXEC"] * 20)
    notification = MonitoredNotification("dogBarked", (1, 3), "AMQP-GATEWAY-ZOO-MIB", text, (), RAISED[:1])
    beginnings = [line.split(" ")[0] for line in snmptt([notification]).splitlines() if line]
    assert [word for word in beginnings if word not in {"#", ""}] == ["EVENT", "FORMAT", "SDESC", "EDESC"]
