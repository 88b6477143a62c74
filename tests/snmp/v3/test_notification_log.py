"""The notification log, read over version 3."""

from __future__ import annotations

from pathlib import Path

from tests.snmp.mib.test_notification_log import LOG, served
from tests.snmp.net_snmp import dotted, run
from tests.snmp.notifications.story import QUEUE_DELETED
from tests.snmp.v3.conftest import ServeVersion3
from tests.snmp.v3.test_net_snmp import options


async def test_a_get_of_version_3_reads_an_entry(serve_version_3: ServeVersion3, tmp_path: Path) -> None:
    store, _ = served(2)
    port, _ = serve_version_3(store)
    asked = dotted((*LOG, 9, 0, 2))
    got = await run("snmpget", tmp_path, port, [asked], version="3", options=options("sha256", "aes128"))
    assert got == [f"{asked} = OID: {dotted(QUEUE_DELETED)}"]
