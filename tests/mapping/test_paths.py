"""Paths to values in JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.paths import compile_path
from tests.sources.rabbitmq.documents import any_json

QUEUE = {"name": "orders", "message_stats": {"publish": 5}, "single_active_consumer_ctag": "c1"}
NODE = {"applications": [{"name": "ra", "version": "2.2"}, {"name": "rabbit", "version": "3.10.8"}, 7]}


@pytest.mark.parametrize(
    ("path", "document", "found"),
    [
        ("name", QUEUE, "orders"),
        ("message_stats.publish", QUEUE, 5),
        ("message_stats.ack", QUEUE, None),
        ("name.length", QUEUE, None),
        ("message_stats.publish.rate", QUEUE, None),
        ("single_active_consumer_tag | single_active_consumer_ctag", QUEUE, "c1"),
        ("applications[name=rabbit].version", NODE, "3.10.8"),
        ("applications[name=rabbit]", NODE, {"name": "rabbit", "version": "3.10.8"}),
        ("applications[name=gone].version", NODE, None),
        ("applications.version", NODE, None),
        ("name[a=b]", QUEUE, None),
        ("name", ["orders"], None),
        ("name", None, None),
    ],
)
def test_a_path_leads_to_a_value_or_to_none(path: str, document: object, found: object) -> None:
    assert compile_path(path).find(document) == found  # type: ignore[arg-type]


def test_the_columns_to_ask_for_look_through_lists() -> None:
    assert compile_path("a.b").columns == ("a.b",)
    assert compile_path("apps[name=rabbit].version").columns == ("apps.name", "apps.version")
    assert compile_path("tag | ctag").columns == ("tag", "ctag")


@pytest.mark.parametrize(
    "text", ["", ".", "a.", "a..b", "a b", "a[b]", "a[b=c", "a|b", "a | ", " a", "a[b=c]d"]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        compile_path(text)


@given(any_json())
def test_any_document_can_be_searched(document: object) -> None:
    for path in ("name", "message_stats.publish", "applications[name=rabbit].version | name"):
        compile_path(path).find(document)  # type: ignore[arg-type]


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        compile_path(text)
    except ValueError as error:
        assert "is not a path" in str(error)  # noqa: PT017  either outcome is right
