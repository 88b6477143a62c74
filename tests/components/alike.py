"""Whether two kinds of answers can be told apart: by their texts, or by the times that they took."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

SURELY_DIFFERENT: Final = 5.0
"""Standard deviations of `rank_sum` beyond which two samples are not of one distribution."""

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?")
_OPERATION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.\d+\.o\d+")


def without_names(text: str, *names: str) -> str:
    """Return a text in which these names, ids of operations, times and other numbers are replaced."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "NAME")
    text = _OPERATION.sub("ID", _TIME.sub("TIME", text))
    return re.sub(r"\d+", "N", text)


def rank_sum_of_kinds(pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return `rank_sum` of samples of several kinds, each compared with those of its kind (van Elteren).

    The fewer values there are, the less it can be: at most ``sqrt(1.5 n)`` for ``n`` values of one kind.
    """
    sums = [_rank_sum(one, other) for one, other in pairs]
    return sum(difference for difference, _ in sums) / math.sqrt(sum(variance for _, variance in sums))


def rank_sum(one: Sequence[float], other: Sequence[float]) -> float:
    """Return by how many standard deviations the ranks of two samples differ (Mann and Whitney).

    Of two samples of the same distribution, this is beyond `SURELY_DIFFERENT` once in 1.7 million times.
    """
    return rank_sum_of_kinds([(one, other)])


def _rank_sum(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return by how much the sum of the ranks differs from what is expected, and its variance."""
    ranked = sorted([(value, True) for value in one] + [(value, False) for value in other])
    ranks = sum(rank for rank, (_, is_one) in enumerate(ranked, 1) if is_one)
    m, n = len(one), len(other)
    return ranks - m * (m + n + 1) / 2, m * n * (m + n + 1) / 12


def in_turn(names: Sequence[str], one: str, other: str) -> list[str]:
    """Return each name, and what it is with ``other`` in the place of ``one``; either is first by turns.

    What comes second finds warm caches.
    """
    pairs = [(name, name.replace(one, other)) for name in names]
    return [name for number, pair in enumerate(pairs) for name in (pair if number % 2 else reversed(pair))]
