"""Hypothesis strategies for values and instructions."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from gateway.dialects.ami.instructions import Instruction
from gateway.dialects.ami.parameters import is_reserved
from gateway.dialects.ami.values import FLOAT_LIMIT, AmiValue, Double, Enum, Json, Long, Utc
from tests.dialects.ami.examples import EXAMPLES

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)

VALUES: st.SearchStrategy[AmiValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.floats(-FLOAT_LIMIT, FLOAT_LIMIT, exclude_min=True, exclude_max=True),
    st.floats(allow_nan=False, allow_infinity=False).map(Double),
    _TEXTS,
    _TEXTS.map(Enum),
    st.integers(-12_212_553_600_000, 253_402_200_000_000).map(Utc),
    _JSON.map(lambda document: Json(json.dumps(document, separators=(",", ":"), ensure_ascii=False))),
    st.binary(max_size=20),
)

KEYS = st.from_regex(r"[A-Za-z0-9_]{1,8}", fullmatch=True).filter(lambda key: not is_reserved(key))

INSTRUCTIONS: st.SearchStrategy[Instruction] = st.sampled_from([instruction for instruction, _ in EXAMPLES])
