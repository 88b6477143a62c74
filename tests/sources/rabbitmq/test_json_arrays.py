"""A long JSON array is decoded in steps, to the same as at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.json_arrays import ArrayDecoder
from tests.sources.rabbitmq.documents import any_json


def decoded(body: bytes) -> list[Json]:
    decoder = ArrayDecoder(body)
    for _ in decoder.steps():
        pass
    return decoder.elements


def test_many_elements_take_many_steps() -> None:
    queues = [{"name": f"q{number}"} for number in range(1_000)]
    decoder = ArrayDecoder(json.dumps(queues).encode())
    assert sum(1 for _ in decoder.steps()) == 19
    assert decoder.elements == queues


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[",
        b"[1,]",
        b"[1 2]",
        b"[1]]",
        b"[NaN]",
        b'["\xff"]',
        b"[1],",
    ],
)
def test_what_is_no_array_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decoded(body)


def test_what_is_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(RecursionError):
        decoded(b"[" * 100_000)


def has_standard_numbers(document: list[Json]) -> bool:
    """Whether JSON has a form for all of its numbers: it has none for NaN and infinities."""
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        return False
    return True


@given(st.lists(any_json(), max_size=5).filter(has_standard_numbers), st.sampled_from([None, 1]))
def test_an_array_is_the_same_as_at_once(document: list[Json], indent: int | None) -> None:
    assert decoded(json.dumps(document, indent=indent).encode()) == document


@given(st.text(alphabet='[]{},:"0 1tru\\e\n', max_size=20))
def test_any_text_is_an_array_or_one_error(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if isinstance(expected, list):
        assert decoded(text.encode()) == expected
    else:
        with pytest.raises(ValueError, match=r".+"):
            decoded(text.encode())
