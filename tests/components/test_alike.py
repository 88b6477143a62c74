"""The comparison of times: it finds what differs, as long as there are values enough."""

from __future__ import annotations

import random

import pytest

from tests.components.alike import SURELY_DIFFERENT, rank_sum, rank_sum_of_kinds

SLOW = [(tuple(range(10, 10 + count)), tuple(range(count))) for count in (6,) * 6]
"""Six kinds of six values each, of which the first ones are all larger."""


def test_few_values_of_one_kind_never_differ_surely() -> None:
    assert rank_sum(*SLOW[0]) < SURELY_DIFFERENT


def test_few_values_of_each_of_several_kinds_do() -> None:
    assert rank_sum_of_kinds(SLOW) > SURELY_DIFFERENT
    assert rank_sum_of_kinds([(other, one) for one, other in SLOW]) < -SURELY_DIFFERENT


@pytest.mark.parametrize("count", [6, 500])
def test_values_of_one_distribution_do_not(count: int) -> None:
    values = random.Random(7)  # noqa: S311  no secret
    kinds = [tuple([values.gauss(kind, 1) for _ in range(count)] for _ in range(2)) for kind in range(6)]
    assert abs(rank_sum_of_kinds((one, other) for one, other in kinds)) < SURELY_DIFFERENT


def test_a_small_difference_is_found_in_many_values() -> None:
    values = random.Random(7)  # noqa: S311  no secret
    one, other = ([values.gauss(mean, 1) for _ in range(500)] for mean in (0, 0.5))
    assert abs(rank_sum(one, other)) > SURELY_DIFFERENT
