"""Captures one source for a while, beside the running gateway or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.links.capture_file import CaptureFile
from gateway.model.observations import SourceState
from gateway.service.sources.captures import Captures, CaptureTarget
from gateway.service.sources.mappings import load_mappings
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from gateway.service.sources.temporary_inventory import EPOCH, TemporaryInventory, temporary_inventory
from gateway.tasks import until_one_ends

LOOK_SECONDS: Final = 0.5
"""Between two looks at how the capture goes."""


@dataclass(frozen=True, slots=True)
class CaptureStands:
    """How a capture goes.

    Attributes:
        state: of the source, with its detail.
        detail: likewise.
        messages: received from the source; none are counted where it is heard over byte streams.
        heard: octets of it.
        objects: known of it.
        records: written.
        octets: written.
        trouble: why nothing more is written; empty while it is.
    """

    state: SourceState = SourceState.CONNECTING
    detail: str = ""
    messages: int = 0
    heard: int = 0
    objects: int = 0
    records: int = 0
    octets: int = 0
    trouble: str = ""


async def capture_source(
    loaded: LoadedConfiguration,
    name: str,
    target: CaptureTarget,
    clock: Clock,
    tell: Callable[[CaptureStands], None],
) -> None:
    """Capture the source ``name`` until this is cancelled, or the capture ended by itself.

    It is a console of its own: with a queue, connections and an inventory that nobody else has, and that are
    gone afterwards. A queue that is kept for the gateway's return is not touched. Nobody can ask it for
    operations.

    Args:
        loaded: the configuration; its state folder is not used.
        name: of the source.
        target: where to.
        clock: the gateway's.
        tell: told again and again how it goes, also at the end.

    Raises:
        DocumentError: a mapping is wrong; so is `MappingError`.
        SecretError: a secret of the source cannot be read.
        CommandError: its certificates cannot be read.
    """
    settings = loaded.settings.sources[name]
    captures = Captures(clock, {name: target})
    mappings = load_mappings(loaded)
    with temporary_inventory(mappings, clock.now()) as passing:
        around = SourceContext(
            passing.inventory,
            mappings,
            passing.secrets,
            clock,
            loaded.folder,
            EPOCH,
            captures=captures,
        )
        run = source_of(name, settings, around)
        passing.begin()
        last = CaptureStands()

        def stands(how: CaptureStands) -> None:
            nonlocal last
            last = how
            tell(how)

        try:
            # The look is cancelled first: how the source stood before it was ended is what counts.
            await until_one_ends(_look(name, captures, passing, stands), run(), passing.tick(clock))
        finally:
            end = _stands(name, captures, passing)
            tell(replace(end, state=last.state, detail=last.detail))
            for file in captures.files.values():
                file.close()


async def _look(
    name: str, captures: Captures, passing: TemporaryInventory, tell: Callable[[CaptureStands], None]
) -> None:
    """Ends when nothing more is captured."""
    try:
        while not (stands := _stands(name, captures, passing)).trouble:
            tell(stands)
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        tell(_stands(name, captures, passing))


def _stands(name: str, captures: Captures, passing: TemporaryInventory) -> CaptureStands:
    file: CaptureFile | None = captures.files.get(name)
    (source,) = passing.inventory.sources
    told = passing.view.sources[source.identity.number]
    return CaptureStands(
        told.state,
        told.detail,
        source.counters["messages"],
        source.counters["octets"],
        len(passing.view.objects),
        file.records if file is not None else 0,
        file.octets if file is not None else 0,
        file.trouble if file is not None else captures.trouble.get(name, ""),
    )
