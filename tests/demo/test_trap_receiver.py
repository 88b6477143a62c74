"""The demonstration's receiver of notifications: the real snmptrapd."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.demo import snmp_commands
from gateway.demo.snmp_commands import TrapReceiver, free_udp_port


async def test_who_waits_for_the_receiver_does_not_take_its_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks without a pause: one that bound the port for a moment let snmptrapd end with an error."""
    monkeypatch.setattr(snmp_commands, "_LOOK_AGAIN_SECONDS", 0)

    for number in range(60):
        receiver = await TrapReceiver.start(tmp_path / str(number), free_udp_port(), "public")
        await receiver.stop()
