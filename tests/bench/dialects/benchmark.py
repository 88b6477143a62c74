"""All dialects' parts, one after the other in each round: see the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tests.bench.dialects.ami import AmiPart
from tests.bench.dialects.cml import CmlPart
from tests.bench.dialects.cml_poll import CmlPollPart
from tests.bench.dialects.protected import ProtectedPart
from tests.bench.dialects.qmf import QmfPart
from tests.bench.run import Run


class Part(Protocol):
    """The rows of one dialect."""

    def measure(self) -> None:
        """Measure each side of each row once."""


PARTS: Final[Sequence[Callable[[Run], Part]]] = (QmfPart, CmlPart, CmlPollPart, AmiPart, ProtectedPart)


class DialectsBenchmark:
    """The benchmark of the dialects; see the package."""

    name = "dialects"
    title = "Dialects"

    def measure(self, run: Run) -> None:
        """Measure, as `tests.bench.run.Benchmark` requires."""
        parts = [part(run) for part in PARTS]
        for _ in run.rounds():
            for part in parts:
                part.measure()
