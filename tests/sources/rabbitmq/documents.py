"""JSON documents of every kind, for tests of their readers."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import strategies as st

from gateway.mapping.paths import Json

DATA = Path(__file__).parents[2] / "data" / "rabbitmq"


def sample(name: str) -> Json:
    """Return an answer of RabbitMQ 3.10.8 as it was recorded."""
    document: Json = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return document


def any_json() -> st.SearchStrategy[Json]:
    """Return a strategy for all values that a JSON parser may return, as lone surrogates and huge numbers."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    surrogates = st.text(st.characters(categories=["Cs", "Lu"]), max_size=4)
    return st.recursive(
        scalars | surrogates,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    )
