"""Reads or captures one source without a running gateway, into an inventory that is stored nowhere."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.feed.messages import VERSION
from gateway.feed.records import Batch, FeedMessage, Hello, SnapshotBegan, SnapshotEnded
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.mapping.files import secret_patterns
from gateway.mapping.override_files import load_with_overrides
from gateway.mapping.overrides import NO_OVERRIDES, Overrides
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import SourceState
from gateway.model.secrets import SecretRules
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from gateway.tasks import until_one_ends
from gateway.temporary_folders import temporary_folder
from gateway.terminal.view import FeedChange, SourceChanged, TerminalView

if TYPE_CHECKING:  # it knows the sessions of all kinds of sources, and a first reading is of one
    from gateway.links.capture_file import CaptureFile
    from gateway.service.sources.captures import Captures, CaptureTarget

EPOCH = 1
TICK_SECONDS: Final = 1.0


class TemporaryInventory:
    """An inventory, and a view of all that it publishes.

    Args:
        index: the index of row numbers.
        mappings: by package.
        now: nanoseconds since 1970.
        overrides: the changes of the mappings.

    Attributes:
        inventory: applies observations.
        view: its published state, up to date.
        secrets: the rules by which sessions drop and mask secrets.
    """

    def __init__(
        self,
        index: InstanceIndex,
        mappings: Mapping[str, MappingFile],
        now: int,
        overrides: Overrides = NO_OVERRIDES,
    ) -> None:
        gateway = str(uuid.uuid4())
        patterns = [pattern for mapping in mappings.values() for pattern in secret_patterns(mapping)]
        classes = ClassRegistry(mappings, overrides)
        self.inventory = Inventory(gateway, EPOCH, classes, index, self._publish)
        self.view = TerminalView(lambda: now)
        self.secrets = SecretRules(patterns)
        self._hello = Hello(VERSION, EPOCH, gateway, now)
        self._watch: Callable[[FeedChange], None] | None = None

    def begin(self, watch: Callable[[FeedChange], None] | None = None) -> None:
        """Publish the sources, all of which have been added; call ``watch`` with each change from now on."""
        records, sequence = self.inventory.snapshot()
        batch = Batch(EPOCH, sequence, tuple(records))
        beginning: list[FeedMessage] = [
            self._hello,
            SnapshotBegan(EPOCH, sequence),
            batch,
            SnapshotEnded(EPOCH, sequence),
        ]
        for message in beginning:
            self.view.received(message)
        self._watch = watch

    async def tick(self, clock: Clock) -> NoReturn:
        """Tick the inventory at intervals; ends by cancellation only."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.inventory.tick(clock.now())

    def _publish(self, batch: Batch) -> None:
        for change in self.view.received(batch):
            if self._watch is not None:
                self._watch(change)


@contextmanager
def temporary_inventory(
    mappings: Mapping[str, MappingFile], now: int, overrides: Overrides = NO_OVERRIDES
) -> Iterator[TemporaryInventory]:
    """Open a `TemporaryInventory`, for as long as the block lasts."""
    with (
        temporary_folder() as folder,
        closing(InstanceIndex(folder / "instances.sqlite3")) as index,
    ):
        yield TemporaryInventory(index, mappings, now, overrides)


_SETTLED: Final = frozenset({SourceState.SYNCHRONISED, SourceState.DEGRADED, SourceState.DOWN})


async def first_reading(
    loaded: LoadedConfiguration, name: str, clock: Clock, patience: float, *, overridden: bool = True
) -> TerminalView:
    """Read the source ``name`` until it is synchronised, degraded or down, at most ``patience`` seconds.

    Nothing is kept, and no operation is taken.

    Args:
        loaded: the configuration; its state folder is not used.
        name: the name of the source.
        clock: the gateway's.
        patience: seconds.
        overridden: whether the overrides apply.

    Raises:
        DocumentError: a mapping is wrong; so is `MappingError`.
        SecretError: a secret of the source cannot be read.
        CommandError: its certificates cannot be read.
    """
    known = load_with_overrides(loaded.mapping_files, loaded.override_files if overridden else ())
    with temporary_inventory(known.mappings, clock.now(), known.overrides) as passing:
        around = SourceContext(
            passing.inventory, known.mappings, passing.secrets, clock, loaded.folder, EPOCH
        )
        run = source_of(name, loaded.settings.sources[name], around)
        settled = asyncio.Event()

        def happened(change: FeedChange) -> None:
            if isinstance(change, SourceChanged) and change.record.state in _SETTLED:
                settled.set()

        passing.begin(happened)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await until_one_ends(settled.wait(), run(), passing.tick(clock))
        return passing.view


LOOK_SECONDS: Final = 0.5
"""Seconds between two reports of the state of the capture."""


@dataclass(frozen=True, slots=True)
class CaptureStands:
    """The state of a capture.

    Attributes:
        state: the state of the source.
        detail: the detail of that state.
        messages: messages received from the source; none are counted for byte streams.
        received: bytes received from the source.
        objects: known objects of the source.
        records: written records.
        octets: written bytes.
        trouble: the reason why nothing more is written; empty while it is.
    """

    state: SourceState = SourceState.CONNECTING
    detail: str = ""
    messages: int = 0
    received: int = 0
    objects: int = 0
    records: int = 0
    octets: int = 0
    trouble: str = ""


async def capture_source(
    loaded: LoadedConfiguration,
    name: str,
    target: CaptureTarget,
    clock: Clock,
    report: Callable[[CaptureStands], None],
) -> None:
    """Capture the source ``name`` until this is cancelled, or the capture ended by itself.

    It is a console of its own: with a queue, connections and an inventory of its own, which are gone
    afterwards. A durable queue is not touched. No operation is taken.

    Args:
        loaded: the configuration; its state folder is not used.
        name: the name of the source.
        target: the file to capture into.
        clock: the gateway's.
        report: called again and again with the state of the capture, also at the end.

    Raises:
        DocumentError: a mapping is wrong; so is `MappingError`.
        SecretError: a secret of the source cannot be read.
        CommandError: its certificates cannot be read.
    """
    settings = loaded.settings.sources[name]
    from gateway.service.sources.captures import Captures  # noqa: PLC0415  see above

    captures = Captures(clock, {name: target})
    known = load_with_overrides(loaded.mapping_files, loaded.override_files)
    with temporary_inventory(known.mappings, clock.now(), known.overrides) as passing:
        around = SourceContext(
            passing.inventory,
            known.mappings,
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
            report(how)

        try:
            # The look is cancelled first: how the source stood before it was ended is what counts.
            await until_one_ends(_look(name, captures, passing, stands), run(), passing.tick(clock))
        finally:
            end = _stands(name, captures, passing)
            report(replace(end, state=last.state, detail=last.detail))
            for file in captures.files.values():
                file.close()


async def _look(
    name: str, captures: Captures, passing: TemporaryInventory, report: Callable[[CaptureStands], None]
) -> None:
    """Report the state of the capture until nothing more is captured."""
    try:
        while not (stands := _stands(name, captures, passing)).trouble:
            report(stands)
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        report(_stands(name, captures, passing))


def _stands(name: str, captures: Captures, passing: TemporaryInventory) -> CaptureStands:
    file: CaptureFile | None = captures.files.get(name)
    (source,) = passing.inventory.sources
    source_view = passing.view.sources[source.identity.number]
    return CaptureStands(
        source_view.state,
        source_view.detail,
        source.counters["messages"],
        source.counters["octets"],
        len(passing.view.objects),
        file.records if file is not None else 0,
        file.octets if file is not None else 0,
        file.trouble if file is not None else captures.trouble.get(name, ""),
    )
