"""Stretches of seq: arithmetic that is compared with sets of numbers."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gateway.analytics.coverage import Stretch, holes, size, union, without

stretches = st.lists(
    st.builds(
        lambda log, first, length: Stretch(log, first, first + length),
        st.sampled_from("ab"),
        st.integers(1, 30),
        st.integers(0, 8),
    ),
    max_size=8,
)


def numbers(found: Iterable[Stretch]) -> set[tuple[str, int]]:
    return {(stretch.log_id, seq) for stretch in found for seq in range(stretch.first, stretch.last + 1)}


def test_stretches_that_touch_are_one() -> None:
    assert union([Stretch("a", 4, 6), Stretch("a", 1, 3), Stretch("b", 4, 6)]) == [
        Stretch("a", 1, 6),
        Stretch("b", 4, 6),
    ]


def test_what_was_published_is_taken_out_of_the_middle() -> None:
    assert without([Stretch("a", 1, 9)], [Stretch("a", 3, 4), Stretch("b", 1, 9)]) == [
        Stretch("a", 1, 2),
        Stretch("a", 5, 9),
    ]


def test_a_hole_is_between_two_records_of_one_log() -> None:
    found = [Stretch("a", 1, 3), Stretch("a", 7, 8), Stretch("b", 1, 1), Stretch("b", 3, 3)]
    assert holes(found) == [Stretch("a", 4, 6), Stretch("b", 2, 2)]


@given(stretches, stretches)
def test_stretches_are_sets_of_records(some: list[Stretch], others: list[Stretch]) -> None:
    assert numbers(union(some)) == numbers(some)
    assert size(some) == len(numbers(some))
    assert numbers(without(some, others)) == numbers(some) - numbers(others)
    assert not numbers(holes(some)) & numbers(some)


@given(stretches)
def test_a_union_is_as_short_as_it_can_be(some: list[Stretch]) -> None:
    merged = union(some)
    assert union(merged) == merged
    assert size(some) == sum(len(stretch) for stretch in merged)
