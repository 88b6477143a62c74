"""The known state of a user who may not read everything: what is hidden is in no list and no error."""

from __future__ import annotations

import pytest

from gateway.policy.rules import Rule
from gateway.terminal.documents import brief_document, object_document, source_document
from gateway.terminal.lines import object_lines, summary_rows, tree_lines
from gateway.terminal.selection import NotOneObjectError, Pattern, find_object
from gateway.terminal.view import Changed, CoreChanged, ObjectKey
from tests.components.shop import update
from tests.terminal.reported import publish, published, shop_of_anna, snapshot, till

ALL = Rule("allow rule 1,", read=("*",), subscribe=("*:*",))
WHOLE = Rule("allow rule 1,", read=("*",), subscribe=("*:*",), audit=True, private=True)
NO_SECOND = Rule("deny rule 1,", denies=True, objects=("hall1|till2",), read=("*",))
NO_LIMIT = Rule("deny rule 1,", denies=True, read=("limit",))
NO_HALLS = Rule("deny rule 1,", denies=True, classes=("*:hall",), read=("*",))
FIRST = ObjectKey(1, "shop:till", 1)
TILLS = (till(1), till(2))


def test_a_hidden_object_is_in_no_list_and_no_count() -> None:
    view = shop_of_anna(ALL, NO_SECOND, records=TILLS)
    assert "till2" not in "".join(tree_lines(view, Pattern.of("")))
    assert list(summary_rows(view, Pattern.of("*/till"))) == [("shop1", "shop:till", "1")]
    [source] = view.sources.values()
    assert source_document(source, view)["objects"] == 2


@pytest.mark.parametrize(
    "text", ["shop1/shop:till/hall1|till2", "till2", "hall1|till2", "0-1-1-0-2", "shop1/till/hall1|till"]
)
def test_a_hidden_object_is_not_found_and_not_suggested(text: str) -> None:
    view = shop_of_anna(ALL, NO_SECOND, records=(till(2),))
    with pytest.raises(NotOneObjectError) as error:
        find_object(view, text)
    assert (error.value.several, error.value.ended) == (0, None)
    assert not [path for path in error.value.candidates if "till2" in path]


def test_an_abbreviation_means_what_is_read() -> None:
    view = shop_of_anna(ALL, NO_SECOND, records=TILLS)
    assert find_object(view, "shop1/till/hall1|till").key == FIRST


def test_a_hidden_element_is_neither_shown_nor_absent() -> None:
    view = shop_of_anna(ALL, NO_LIMIT, records=(till(1),))
    known = view.objects[FIRST]
    assert [element.name for element in known.elements] == ["hall", "mood", "sales", "opened"]
    document = object_document(known, view, known.elements)
    assert "limit" not in {*document["values"], *document["absent"]}
    assert "limit" not in "".join(object_lines(known, view))


def test_a_change_of_a_hidden_element_is_no_change() -> None:
    view = shop_of_anna(ALL, NO_LIMIT, records=(till(1),))
    assert publish(view, update(1, {1: 11})) == []
    (changed,) = publish(view, update(1, {1: 12, 3: 8}))
    assert isinstance(changed, Changed)
    assert [change.element.name for change in changed.changes] == ["sales"]


def test_an_object_whose_reference_is_hidden_has_no_parent() -> None:
    view = shop_of_anna(ALL, NO_HALLS, records=(till(1),))
    assert list(tree_lines(view, Pattern.of(""))) == ["shop1  synchronised", "  shop:till  hall1|till1"]
    assert brief_document(view.objects[FIRST], view)["parent"] is None


def test_another_policy_begins_again_and_reports_nothing_of_the_former() -> None:
    view = shop_of_anna(ALL, records=TILLS)
    assert len(view.objects) == 3
    assert snapshot(view, *published((ALL, NO_SECOND), *TILLS)) == []
    assert [known.path for known in view.objects.values() if "till" in known.path] == [
        "shop1/shop:till/hall1|till1"
    ]


def test_nothing_is_shown_before_the_snapshot_of_another_policy_is_complete() -> None:
    view = shop_of_anna(ALL, records=TILLS)
    record, *_ = published((ALL, NO_SECOND))
    publish(view, record)
    assert (view.is_whole, view.objects) == (False, {})


def test_a_core_that_comes_back_with_another_policy_is_reported_as_back() -> None:
    view = shop_of_anna(ALL, records=TILLS)
    assert view.disconnected("it ended") == [CoreChanged("it ended")]
    assert snapshot(view, *published((WHOLE,), *TILLS), epoch=2) == [CoreChanged()]
