"""Readings of two sides, taken in turns, and the rows that result from them."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

OURS: Final = "ours"
"""Our side; every other side is a name in `PEERS`."""

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
    "plain",
    "unrestricted",
    "interpreter",
)
"""The peers with which we are compared."""

JsonRow: TypeAlias = "dict[str, str | float | list[float]]"


class Reading(enum.Enum):
    """The meaning of a reading: the (processor) time of one operation, or the number of them in a time."""

    COST = "cost"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Case:
    """An operation of both sides: the row's name, the unit of its readings, and their meaning."""

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
        """Return the row as in files: its attributes, and that a higher ratio is better."""
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
    """Return the row of readings taken in turns: each of ours belongs to the peer's of the same round.

    An even number of rounds has two medians; the lower one is taken.

    Raises:
        ValueError: there are no readings, more of one side than of the other, one that is not above 0, or a
            peer that is not in `PEERS`.
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
    """The readings by case and side, in the order of rounds."""

    def __init__(self) -> None:
        self._values: dict[Case, dict[str, list[float]]] = {}

    def add(self, case: Case, side: str, value: float) -> None:
        """Add one reading of `OURS` or a peer; once for each side in every round."""
        self._values.setdefault(case, {}).setdefault(side, []).append(value)

    def rows(self) -> list[Row]:
        """Return a row for each case and peer, in the order of their first readings. Raises as `row`."""
        return [
            row(case, peer, sides.get(OURS, []), values)
            for case, sides in self._values.items()
            for peer, values in sides.items()
            if peer != OURS
        ]

    def spreads(self) -> Mapping[str, float]:
        """Return the `spread` of the readings of each side, by ``<case> <side>``."""
        return {
            f"{case.name} {side}": spread(values)
            for case, sides in self._values.items()
            for side, values in sides.items()
        }


def spread(values: Sequence[float]) -> float:
    """Return the distance of the largest and the smallest value, as a part of their median."""
    return (max(values) - min(values)) / statistics.median(values)
