"""Stable names: their exact text, which can never change, and that no two objects can share one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.stable_names import duplicate_name, incarnation_name, leaf_name, stable_name
from gateway.model.values import Reference, Value, ValueType

BINDING = ClassSchema(
    ClassKey("shop", "binding"),
    properties=(
        Element("vhost", ValueType.REFERENCE, index=True),
        Element("source", ValueType.STRING, index=True),
        Element("note", ValueType.STRING),
        Element("key", ValueType.STRING, index=True, optional=True),
    ),
)
SINGLETON = ClassSchema(ClassKey("shop", "broker"), properties=(Element("name", ValueType.STRING),))


def name_of(*properties: Value | None, target: str | None = "/") -> str:
    return stable_name(BINDING, properties, "0-1-1-0-7", lambda _: target).text


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ((Reference("v"), "logs", "any note", "a.b"), "/|logs|a.b"),
        ((Reference("v"), "a|b", None, r"c\d"), r"/|a\|b|c\\d"),
        ((Reference("v"), "", None, ""), "/||"),
        ((Reference("v"), "x", None, None), r"/|x|\-"),
        ((Reference("v"), "x#1", None, "k"), r"/|x\#1|k"),
    ],
)
def test_published_names_keep_their_form(properties: tuple[Value | None, ...], expected: str) -> None:
    assert name_of(*properties) == expected


def test_a_reference_holds_the_name_of_its_target_escaped() -> None:
    assert name_of(Reference("v"), "logs", None, "k", target="a|b") == r"a\|b|logs|k"


def test_a_name_with_an_unknown_target_is_provisional() -> None:
    name = stable_name(BINDING, (Reference("v9"), "logs", None, "k"), "x", lambda _: None)
    assert name.text == r"\?v9|logs|k"
    assert name.unresolved == ("v9",)


def test_without_index_the_name_and_without_that_the_native_id_names() -> None:
    assert stable_name(SINGLETON, ("main",), "0-1", lambda _: None).text == "main"
    assert stable_name(SINGLETON, (None,), "0-1", lambda _: None).text == "#0-1"
    assert stable_name(SINGLETON, ("",), "0-1", lambda _: None).text == "#0-1"


def test_incarnations_and_duplicates_are_distinguished() -> None:
    assert incarnation_name("/|q", 17, "id") == "/|q#17"
    assert incarnation_name("/|q", 0, "id") == duplicate_name("/|q", "id") == "/|q#id"


def test_the_leaf_name_is_the_last_index_that_is_no_reference() -> None:
    assert leaf_name(BINDING, (Reference("v"), "logs", None, "k"), "", "?") == "k"
    assert leaf_name(BINDING, (Reference("v"), "logs", None, "k"), "source", "?") == "logs"
    assert leaf_name(BINDING, (Reference("v"), "logs", None, None), "", "fallback") == "fallback"


parts = st.one_of(st.none(), st.text(st.sampled_from("ab|\\#-?/\x00é"), max_size=4))


@given(st.tuples(parts, parts, parts), st.tuples(parts, parts, parts))
def test_different_objects_never_share_a_name(
    one: tuple[str | None, ...], other: tuple[str | None, ...]
) -> None:
    def text(of: tuple[str | None, ...]) -> str:
        vhost = None if of[0] is None else Reference("v")
        return stable_name(BINDING, (vhost, of[1], None, of[2]), "only-id", lambda _: of[0]).text

    empty = {"", None}
    if one != other and not (set(one) <= empty and set(other) <= empty):
        assert text(one) != text(other)
