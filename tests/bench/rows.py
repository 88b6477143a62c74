"""Readings of two sides, taken in turns, and the rows that they make."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

OURS: Final = "ours"
"""The side that is ours; any other is a name out of `PEERS`."""

PEERS: Final = (
    "net-snmp",
    "pysnmp",
    "udp-echo",
    "native-mxbean",
    "raw-fdatasync",
    "sqlite-wal",
    "duckdb",
    "yardstick",
    "paged-listing",
    "prometheus",
    "management-page",
    "unwatched",
)
"""What we are measured beside."""

JsonRow: TypeAlias = "dict[str, str | float | list[float]]"


class Reading(enum.Enum):
    """What a number says: the time or processor time that one thing takes, or how many are done in a time."""

    COST = "cost"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Case:
    """What both sides do: the row's name, what its readings are in, and whether less of that is faster."""

    name: str
    unit: str
    reading: Reading


@dataclass(frozen=True, slots=True)
class Row:
    """One case beside one peer.

    Attributes:
        ours: our reading in the round whose ratio is the median, in ``unit``.
        peer: the peer's reading in that round.
        ratio: our speed by the peer's speed in that round: above 1 we are faster.
        runs: the ratio of each round, in their order.
    """

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    ratio: float
    runs: tuple[float, ...]

    def as_json(self) -> JsonRow:
        """The row as it stands in files: its attributes, and that a higher ratio is better."""
        return {
            "name": self.name,
            "ours": self.ours,
            "peer": self.peer,
            "peer_name": self.peer_name,
            "unit": self.unit,
            "ratio": self.ratio,
            "better": "higher",
            "runs": list(self.runs),
        }


def row(case: Case, peer_name: str, ours: Sequence[float], peers: Sequence[float]) -> Row:
    """The row of readings taken in turns: each of ours belongs to the peer's of the same round.

    An even number of rounds has two medians; the lower one is taken.

    Raises:
        ValueError: there are none, more of one side than of the other, one that is not above 0, or a peer
            that is not in `PEERS`.
    """
    if peer_name not in PEERS:
        raise ValueError(f"{case.name}: no such peer: {peer_name!r}")
    if not ours or len(ours) != len(peers):
        raise ValueError(f"{case.name}: {len(ours)} readings of ours, {len(peers)} of {peer_name}")
    if min(*ours, *peers) <= 0:
        raise ValueError(f"{case.name}: a reading is not above 0: {ours}, {peers}")
    runs = [
        theirs / our if case.reading is Reading.COST else our / theirs
        for our, theirs in zip(ours, peers, strict=True)
    ]
    median = runs.index(statistics.median_low(runs))
    return Row(case.name, ours[median], peers[median], peer_name, case.unit, runs[median], tuple(runs))


class Readings:
    """What was read, by case and side, in the order of rounds."""

    def __init__(self) -> None:
        self._values: dict[Case, dict[str, list[float]]] = {}

    def add(self, case: Case, side: str, value: float) -> None:
        """One reading of `OURS` or a peer; once for each side in every round."""
        self._values.setdefault(case, {}).setdefault(side, []).append(value)

    def rows(self) -> list[Row]:
        """A row for each case and peer, in the order of their first readings. Raises as `row`."""
        return [
            row(case, peer, sides.get(OURS, []), values)
            for case, sides in self._values.items()
            for peer, values in sides.items()
            if peer != OURS
        ]

    def spreads(self) -> Mapping[str, float]:
        """How far the readings of each side are apart (`spread`), by ``<case> <side>``."""
        return {
            f"{case.name} {side}": spread(values)
            for case, sides in self._values.items()
            for side, values in sides.items()
        }


def spread(values: Sequence[float]) -> float:
    """The distance of the largest and the smallest value, as a part of their median."""
    return (max(values) - min(values)) / statistics.median(values)
