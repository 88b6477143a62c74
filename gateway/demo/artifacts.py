"""What an operator sees of the demonstration, as files: walks, traps, log, JConsole, and the report."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.demo.demonstration import SOURCE, Demonstration
from gateway.demo.pictures import photograph

WALKS: Final = (
    ("snmpget", "AMQP-GATEWAY-MIB::agSourceState.1"),
    ("snmptable", "-Cb", "-Cw", "150", "AMQP-GATEWAY-MIB::agClassTable"),
    ("snmpwalk", "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueName"),
    ("snmpwalk", "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueMessagesPublished"),
)
"""net-snmp's commands, without the agent's address, which stands before the last word."""

SUMMARY: Final = (
    "SELECT class, kind, count(*) AS records FROM log WHERE source = 'rabbitmq' AND class IS NOT NULL"
    " GROUP BY ALL ORDER BY ALL"
)

LOG_COMMANDS: Final = (
    ("log", "tail", "-n", "8", "--kind", "event", "--source", SOURCE),
    ("log", "query", SUMMARY),
)
"""Ours; where the configuration is need not be said where it is found."""

TRAP: Final = "::rmqConnectionClosed\n"


class Artifacts:
    """Saves what is seen.

    Args:
        folder: for the files; made when missing, and files of the same names are replaced.
        running: the demonstration; its workload goes on.
    """

    def __init__(self, folder: Path, running: Demonstration) -> None:
        self.folder = folder
        self._running = running

    async def take(self) -> None:
        """``snmpwalk.txt``, ``traps.txt``, ``log.txt`` and the pictures of JConsole.

        Raises:
            SnmpCommandError, DemonstrationError: a command failed.
            PicturesError: JConsole did not show what it should.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(self._save_walks)
        await photograph(self._running, self.folder)
        await asyncio.to_thread(self._save_trap)
        log = [
            _shown(("amqp-gateway", *words), await self._running.command(*words)) for words in LOG_COMMANDS
        ]
        await asyncio.to_thread((self.folder / "log.txt").write_text, "".join(log), encoding="utf-8")

    def _save_walks(self) -> None:
        snmp = self._running.snmp
        assert snmp is not None
        shown = [
            _shown((command, *options, snmp.address, what), snmp.run(command, *options, what))
            for command, *options, what in WALKS
        ]
        (self.folder / "snmpwalk.txt").write_text("".join(shown), encoding="utf-8")

    def _save_trap(self) -> None:
        traps = self._running.traps
        assert traps is not None
        last = [text for text in traps.texts() if TRAP in text][-1:]
        (self.folder / "traps.txt").write_text("".join(last), encoding="utf-8")


def _shown(words: Sequence[str], printed: str) -> str:
    """A command as it is typed, and what it printed."""
    typed = " ".join(f'"{word}"' if " " in word else word for word in words)
    return f"$ {typed}\n{printed.rstrip()}\n"
