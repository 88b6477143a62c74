"""The view of an operator on the demonstration, as files: walks, sessions, traps, log, JConsole, report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.demo.demonstration import SOURCE, Demonstration
from tests.demo_check.pictures import photograph
from tests.demo_check.transcript import Transcript

WALKS: Final = (
    ("snmpget", "AMQP-GATEWAY-MIB::agSourceState.1"),
    ("snmptable", "-Cb", "-Cw", "150", "AMQP-GATEWAY-MIB::agClassTable"),
    ("snmpwalk", "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueName"),
    ("snmpwalk", "AMQP-GATEWAY-RABBITMQ-MIB::rmqQueueMessagesPublished"),
)
"""The commands of net-snmp, without the agent's address, which stands before the last word."""

SUMMARY: Final = (
    "SELECT class, kind, count(*) AS records FROM log WHERE source = 'rabbitmq' AND class IS NOT NULL"
    " GROUP BY ALL ORDER BY ALL"
)

LOG_COMMANDS: Final = (
    ("log", "tail", "-n", "8", "--kind", "event", "--source", SOURCE),
    ("log", "query", SUMMARY),
)
"""The commands of ours; the place of the configuration is not given where it is found."""

TRAP: Final = "::rmqConnectionClosed\n"


class Artifacts:
    """The writer of these files.

    Args:
        folder: for the files; made when missing, and files of the same names are replaced.
        running: the demonstration; its workload goes on.
        pictures: take those of JConsole, too.
    """

    def __init__(self, folder: Path, running: Demonstration, *, pictures: bool = True) -> None:
        self.folder = folder
        self._running = running
        self._pictures = pictures

    async def take(self, sessions: Mapping[str, Transcript]) -> None:
        """Write ``snmpwalk.txt``, ``traps.txt``, ``log.txt`` and the pictures of JConsole.

        Args:
            sessions: what was typed before, by names of files; saved too.

        Raises:
            SnmpCommandError, DemonstrationError: a command failed.
            PicturesError: JConsole did not show what it should.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(self._save_walks)
        for name, session in sessions.items():
            await asyncio.to_thread(self._save, name, session)
        if self._pictures:
            await photograph(self._running, self.folder)
        await asyncio.to_thread(self._save_trap)
        log = Transcript()
        for words in LOG_COMMANDS:
            log.add(("amqp-gateway", *words), await self._running.command(*words))
        await asyncio.to_thread(self._save, "log.txt", log)

    def _save_walks(self) -> None:
        snmp = self._running.snmp
        assert snmp is not None
        shown = Transcript()
        for command, *options, what in WALKS:
            shown.add((command, *options, snmp.address, what), snmp.run(command, *options, what))
        self._save("snmpwalk.txt", shown)

    def _save(self, name: str, session: Transcript) -> None:
        (self.folder / name).write_text(session.text, encoding="utf-8")

    def _save_trap(self) -> None:
        traps = self._running.traps
        assert traps is not None
        last = [text for text in traps.texts() if TRAP in text][-1:]
        (self.folder / "traps.txt").write_text("".join(last), encoding="utf-8")
