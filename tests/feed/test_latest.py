"""The past items that are kept of each source."""

from __future__ import annotations

import sys
from uuid import UUID

from gateway.feed.latest import Latest, memory_of
from gateway.feed.values import ObjectLink


def test_each_source_keeps_its_own_last_ones() -> None:
    latest: Latest[str] = Latest(2, 1000)
    assert [latest.put(1, key, 1) for key in "abc"] == [[], [], ["a"]]
    assert latest.put(2, "z", 1) == []
    assert latest.put(1, "d", 1) == ["b"]
    assert latest.forget(1) == ["c", "d"]
    assert latest.forget(1) == []
    assert latest.put(2, "y", 1) == []


def test_as_many_leave_as_the_octets_ask_for_but_never_the_last() -> None:
    latest: Latest[str] = Latest(100, 10)
    for key in "abc":
        assert latest.put(1, key, 3) == []
    assert latest.put(1, "d", 5) == ["a", "b"]
    assert latest.put(1, "e", 99) == ["c", "d"]
    assert latest.put(1, "f", 1) == ["e"]


def test_what_comes_again_keeps_its_place_and_takes_its_new_octets() -> None:
    latest: Latest[str] = Latest(100, 10)
    latest.put(1, "a", 3)
    latest.put(1, "b", 3)
    assert latest.put(1, "a", 4) == []
    assert latest.put(1, "c", 4) == ["a"]


def test_what_is_removed_takes_nothing() -> None:
    latest: Latest[str] = Latest(2, 10)
    latest.put(1, "a", 9)
    latest.remove(1, "a")
    assert latest.put(1, "b", 9) == []
    latest.remove(3, "nothing")


def test_memory_counts_all_that_is_inside() -> None:
    text = "x" * 1000
    assert memory_of(text) == sys.getsizeof(text)
    for value in ((text, 1), {"key": text}, [[text]], ObjectLink("shop:till", 1, text)):
        assert memory_of(value) > 1000
    assert memory_of(UUID(int=0)) > memory_of(0)


def test_memory_of_what_is_nested_deeply_is_counted() -> None:
    nested: tuple[object, ...] = ()
    for _ in range(100_000):
        nested = (nested,)
    assert memory_of(nested) > 100_000
