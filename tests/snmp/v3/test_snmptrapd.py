"""net-snmp's trap daemon receives traps of this engine, and informs, for which its own is authoritative."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from gateway.snmp import ber, message
from gateway.snmp.v3.algorithms import AUTHENTICATION_PROTOCOLS, PRIVACY_PROTOCOLS
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.remote import (
    Answered,
    Discovered,
    Received,
    RemoteEngine,
    Synchronised,
    encode_notification,
)
from gateway.snmp.v3.security import SecurityModel
from gateway.snmp.v3.users import SecurityLevel, credentials
from tests.components.waiting import DEADLINE
from tests.snmp.notifications.snmptrapd import snmptrapd
from tests.snmp.v3.conftest import AUTH_PASSPHRASE, PRIV_PASSPHRASE
from tests.snmp.v3.secured_agent import AUTH, ENGINE_ID, PRIV
from tests.snmp.v3.test_net_snmp import AUTHENTICATION, PRIVACY

COLD_START = (1, 3, 6, 1, 6, 3, 1, 1, 5, 1)
WORDS = {PRIV: "priv", AUTH: "auth"}

pairs = pytest.mark.parametrize(
    ("protocol", "privacy", "level"),
    [("sha256", "aes128", PRIV), ("sha512", "aes256", PRIV), ("md5", "des", PRIV), ("sha1", "aes128", AUTH)],
)


def notification(pdu_type: int) -> bytes:
    varbinds = [
        ber.encode_varbind(ber.encode_name((1, 3, 6, 1, 2, 1, 1, 3, 0)), ber.encode_time_ticks(5)),
        ber.encode_varbind(ber.encode_name((1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0)), ber.encode_oid(COLD_START)),
    ]
    return message.encode_pdu(pdu_type, 7, 0, 0, varbinds)


def configuration(protocol: str, privacy: str, level: SecurityLevel, engine_id: str = "") -> str:
    keys = f"{AUTHENTICATION[protocol]} {AUTH_PASSPHRASE} {PRIVACY[privacy]} {PRIV_PASSPHRASE}"
    return f"createUser {engine_id} sender {keys}\nauthUser log sender {WORDS[level]}\n"


@pairs
def test_an_inform(tmp_path: Path, protocol: str, privacy: str, level: SecurityLevel) -> None:
    secret = credentials(
        "sender",
        AUTHENTICATION_PROTOCOLS[protocol],
        AUTH_PASSPHRASE,
        PRIVACY_PROTOCOLS[privacy],
        PRIV_PASSPHRASE,
    )
    remote = RemoteEngine(secret, level, Salts(99), 65_507)
    received: list[Received] = []
    lines = configuration(protocol, privacy, level)
    with (
        snmptrapd(tmp_path, "public", further=lines.splitlines()) as daemon,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sender.settimeout(DEADLINE)
        sender.connect(("127.0.0.1", daemon.port))
        for message_id in (1, 2, 3):
            sender.send(remote.request(message_id, notification(message.INFORM), time.monotonic_ns()))
            received.append(remote.receive(sender.recv(65_507), {message_id}, time.monotonic_ns()))
        [printed] = daemon.until(1)
    assert received[:2] == [Discovered(1), Synchronised(2)]
    assert isinstance(received[2], Answered)
    assert (received[2].response.request_id, received[2].response.first) == (7, 0)
    assert printed.values["snmpTrapOID.0"] == "OID: SNMPv2-MIB::coldStart"


@pairs
def test_a_trap(tmp_path: Path, protocol: str, privacy: str, level: SecurityLevel) -> None:
    user = credentials(
        "sender",
        AUTHENTICATION_PROTOCOLS[protocol],
        AUTH_PASSPHRASE,
        PRIVACY_PROTOCOLS[privacy],
        PRIV_PASSPHRASE,
    ).at(ENGINE_ID)
    model = SecurityModel(Engine(ENGINE_ID, 3, time.monotonic_ns), [user], Salts(98))
    trap = encode_notification(model, model.users[b"sender"], level, 1, 65_507, notification(message.TRAP_V2))
    lines = configuration(protocol, privacy, level, f"-e 0x{ENGINE_ID.hex()}")
    with (
        snmptrapd(tmp_path, "public", further=lines.splitlines()) as daemon,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sender.sendto(trap, ("127.0.0.1", daemon.port))
        [printed] = daemon.until(1)
    assert printed.values["snmpTrapOID.0"] == "OID: SNMPv2-MIB::coldStart"
