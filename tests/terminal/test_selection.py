"""The objects that a text selects."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.records import DeleteRecord
from gateway.terminal.selection import NotOneObjectError, Pattern, find_object
from gateway.terminal.view import TerminalView
from tests.components.shop import START
from tests.terminal.reported import TILL, known_shop, till


def shop() -> TerminalView:
    return known_shop(till(1), till(2), till(20), till(3, name="hall2|a/b"))


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("shop1/shop:till/hall1|till1", 1),
        ("shop1/till/hall1|till1", 1),
        ("shop1/till/till1", 1),
        ("shop1/till/till2", 2),  # exactly this one, though till20 begins so
        ("s/t/till20", 20),
        ("//till20", 20),
        ("shop1/till/hall2|a/b", 3),
        ("shop1/till/hall2", 3),
        ("hall1|till1", 1),
        ("till1", 1),
        ("0-1-1-0-20", 20),
    ],
)
def test_one_object_by_any_of_its_names(text: str, row: int) -> None:
    assert find_object(shop(), text).record.row == row


@pytest.mark.parametrize("text", ["shop1/till/hall1|till1", "shop1/shop:till/hall1|till1", "0-1-1-0-20"])
def test_who_changes_something_writes_all_of_a_name(text: str) -> None:
    assert find_object(shop(), text, whole=True).source == "shop1"


@pytest.mark.parametrize(
    "text", ["shop1/till/till1", "shop/till/hall1|till1", "shop1/t/hall1|till1", "till1"]
)
def test_who_changes_something_cannot_shorten(text: str) -> None:
    with pytest.raises(NotOneObjectError) as refused:
        find_object(shop(), text, whole=True)
    assert refused.value.several == 0
    assert "shop1/shop:till/hall1|till1" in refused.value.candidates


def test_several_objects_are_distinguished_by_listing_them() -> None:
    with pytest.raises(NotOneObjectError) as refused:
        find_object(shop(), "shop1/till/till")
    assert refused.value.several == 4  # the leaf names of all of them begin so
    assert refused.value.candidates[0] == "shop1/shop:till/hall1|till1"


def test_what_is_gone_is_said_to_be() -> None:
    end = DeleteRecord(1, TILL.number, 9, "hall1|till9", START, False, 1, "till9", "0-9")
    view = known_shop(end)
    for text in ("shop1/till/hall1|till9", "shop1/shop:till/hall1|till9", "till9", "0-9"):
        with pytest.raises(NotOneObjectError) as refused:
            find_object(view, text)
        assert refused.value.ended is not None
        assert refused.value.ended.record == end


def test_what_is_written_wrongly_is_met_with_what_may_be_meant() -> None:
    with pytest.raises(NotOneObjectError) as refused:
        find_object(shop(), "shop1/shop:till/hall1|tlil20")
    assert "shop1/shop:till/hall1|till20" in refused.value.candidates


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [1, 1, 2, 20, 3]),
        ("shop1", [1, 1, 2, 20, 3]),
        ("other", []),
        ("*/hall", [1]),
        ("*/shop:till", [1, 2, 20, 3]),
        ("*/*/till?", [1, 2, 3]),
        ("//hall2*", [3]),
        ("//*/b", [3]),
        ("shop1/till/hall1|*", [1, 2, 20]),
    ],
)
def test_patterns_are_those_of_a_shell(text: str, rows: list[int]) -> None:
    assert [known.record.row for known in Pattern.of(text).objects(shop())] == rows


@given(st.text(max_size=40))
def test_any_text_means_one_object_or_is_refused(text: str) -> None:
    view = shop()
    list(Pattern.of(text).objects(view))
    with contextlib.suppress(NotOneObjectError):
        assert find_object(view, text) in view.objects.values()
