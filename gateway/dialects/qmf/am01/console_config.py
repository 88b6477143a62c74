"""How a console session of agents before AM2 behaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from gateway.dialects.qmf.am01.revisions import ALL, Revision
from gateway.dialects.qmf.console_config import SECOND, ConsoleConfig

DEFAULT_PACKAGE: Final = "qpid"
"""The package of the broker's classes, as agents from February 2008 on tell it."""
NO_BROKER: Final = UUID(int=0)
"""For agents that do not tell an incarnation of theirs."""


@dataclass(frozen=True, slots=True)
class Am01ConsoleConfig(ConsoleConfig):
    """As `ConsoleConfig`, of which no catching up is used, and `heartbeats.interval` is the publish interval.

    Attributes:
        revisions: what the agent may speak; `ALL` finds out which.
        package: of classes that are told without one, until January 2008.
        get_and_set: the agent has get and set as we lay them out (`get_and_set`).
        events: the agent sends events as we lay them out (`records`).
        republish_interval: nanoseconds after which the agent tells everything again by itself; ``None`` where
            it does so only for who binds a queue.
        quiet: nanoseconds without another word that end what no message ends: a listing of February 2008, and
            a publication of everything.
    """

    revisions: frozenset[Revision] = ALL
    package: str = DEFAULT_PACKAGE
    get_and_set: bool = False
    events: bool = False
    republish_interval: int | None = None
    quiet: int = 2 * SECOND
