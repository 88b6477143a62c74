"""Texts of strangers in notifications, with net-snmp's trap daemon and its handlers as the judge."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Literal

import pytest

from gateway.feed.values import FeedValue
from gateway.model.observations import Severity
from gateway.model.schema import Kind
from gateway.snmp.cells import value_encoder
from gateway.snmp.notifications.encoding import EncodedNotification, NotificationEncoder, trap_v2c
from gateway.snmp.notifications.notification import Notification
from gateway.snmp.syntax import Form, Syntax
from tests.components.waiting import wait_until
from tests.snmp.datagrams import varbind
from tests.snmp.notifications.snmptrapd import snmptrapd
from tests.snmp.notifications.story import ROOT, event

CONTROLS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
SEPARATORS_AND_MARKS = "\u2028\u2029\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
FORGED = (
    "x\nSNMPv2-MIB::snmpTrapOID.0 AMQP-GATEWAY-RABBITMQ-MIB::rmqMemoryAlarmSet"
    "\nAMQP-GATEWAY-MIB::agEventSeverity.0 critical"
    "\r.1.3.6.1.6.3.1.1.4.1.0 .1.3.6.1.4.1.8072.9999.9999.2.1.0.9"
)
OCTETS = re.compile(r'(?:[0-9A-F]{2} )+"?')
STRANGE = [FORGED, *(f"a{character}b" for character in CONTROLS + SEPARATORS_AND_MARKS), "\ud800\udfff"]


def with_texts(number: int, text: str) -> Notification:
    """Return a notification that has ``text`` in every place that a peer may fill."""
    values: dict[Syntax, FeedValue] = {
        Syntax.TEXT: text,
        Syntax.OCTETS: text.encode("utf-8", "replace"),
        Syntax.JSON: {text: text},
    }
    return event(
        number,
        severity=Severity.INFO,
        source=text,
        class_name=text,
        object_name=text,
        text=text,
        condition=text,
        arguments=tuple(
            varbind(
                (*ROOT, 2, 1, 1, 1000 + place, 1, 0), value_encoder(Form(syntax, Kind.GAUGE))(value) or b""
            )
            for place, (syntax, value) in enumerate(values.items())
        ),
    )


@pytest.mark.parametrize("modules", ["ALL", ""])
def test_a_text_is_no_varbind_of_its_own(tmp_path: Path, modules: Literal["ALL", ""]) -> None:
    handler, handled = tmp_path / "handler", tmp_path / "handled"
    handler.write_text(f"#!/bin/sh\ncat >> {handled}\necho END >> {handled}\n")
    handler.chmod(0o755)
    further = (f"traphandle default {handler}",)
    encoder = NotificationEncoder(ROOT, ROOT)
    # Eight characters in one: a handler is a process.
    batches = ["harmless", STRANGE[0], *("".join(STRANGE[i : i + 8]) for i in range(1, len(STRANGE), 8))]
    with (
        snmptrapd(tmp_path, "public", further=further, modules=modules) as daemon,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        for number, text in enumerate(batches, 1):
            notification = with_texts(number, text)
            varbinds = EncodedNotification(encoder, notification, 0).version_2c()
            client.sendto(trap_v2c(b"public", number, varbinds), ("127.0.0.1", daemon.port))
        wait_until(
            lambda: handled.exists() and handled.read_bytes().count(b"END\n") == len(batches),
            "all are handled",
        )
    blocks = handled.read_bytes().decode().split("END\n")[:-1]
    # All that programs take for ends of lines; the daemon itself wraps octets in hexadecimal digits.
    lines = [[line for line in block.splitlines()[2:] if not OCTETS.fullmatch(line)] for block in blocks]
    names = [[line.split(" ")[0] for line in each] for each in lines]
    assert len(names[0]) == 2 + 10 + 3
    # The last arguments are left out where there is no room.
    assert all(len(each) >= 2 + 10 and each == names[0][: len(each)] for each in names)
    assert all(line.isprintable() for each in lines for line in each)
