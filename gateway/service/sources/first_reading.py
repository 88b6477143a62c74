"""Reads one source whole, once, without a gateway: what it would show."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.model.observations import SourceState
from gateway.service.sources.mappings import load_mappings
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from gateway.service.sources.temporary_inventory import EPOCH, temporary_inventory
from gateway.tasks import until_one_ends
from gateway.terminal.view import FeedChange, SourceChanged, TerminalView

_SETTLED: Final = frozenset({SourceState.SYNCHRONISED, SourceState.DEGRADED, SourceState.DOWN})


async def first_reading(
    loaded: LoadedConfiguration, name: str, clock: Clock, patience: float
) -> TerminalView:
    """What the source ``name`` tells until it is synchronised, or down, or ``patience`` seconds have passed.

    Nothing is kept, and nobody can ask it for operations.

    Args:
        loaded: the configuration; its state folder is not used.
        name: of the source.
        clock: the gateway's.
        patience: seconds.

    Raises:
        DocumentError: a mapping is wrong; so is `MappingError`.
        SecretError: a secret of the source cannot be read.
        CommandError: its certificates cannot be read.
    """
    mappings = load_mappings(loaded)
    with temporary_inventory(mappings, clock.now()) as passing:
        around = SourceContext(passing.inventory, mappings, passing.secrets, clock, loaded.folder, EPOCH)
        run = source_of(name, loaded.settings.sources[name], around)
        settled = asyncio.Event()

        def happened(happening: FeedChange) -> None:
            if isinstance(happening, SourceChanged) and happening.record.state in _SETTLED:
                settled.set()

        passing.begin(happened)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await until_one_ends(settled.wait(), run(), passing.tick(clock))
        return passing.view
