"""Conversion of values between lines and the model."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.values import (
    AmiValue,
    Double,
    Enum,
    Json,
    Long,
    Utc,
    from_model,
    to_model,
    value_type,
)
from gateway.dialects.errors import LocalProtocolError
from gateway.model.values import Value, ValueType

PAIRS: list[tuple[AmiValue, Value, ValueType]] = [
    (True, True, ValueType.BOOL),
    (5, 5, ValueType.S32),
    (Long(5), 5, ValueType.S64),
    (1.5, 1.5, ValueType.F32),
    (Double(1.5), 1.5, ValueType.F64),
    ("a", "a", ValueType.STRING),
    (b"\1", b"\1", ValueType.BYTES),
    (Utc(1_700_000_000_123), 1_700_000_000_123_000_000, ValueType.TIME),
]


@pytest.mark.parametrize(("value", "model", "kind"), PAIRS)
def test_both_ways(value: AmiValue, model: Value, kind: ValueType) -> None:
    found = to_model(value)
    assert (found, type(found), value_type(value)) == (model, type(model), kind)
    back = from_model(model, kind)
    assert (back, type(back)) == (value, type(value))


def test_what_the_model_does_not_distinguish() -> None:
    for value in (Enum("a"), Json('"a"')):
        assert type(to_model(value)) is str
        assert value_type(value) is ValueType.STRING
    assert to_model(None) is None
    assert value_type(None) is None
    assert from_model(None, ValueType.S32) is None


def test_numbers_of_other_widths() -> None:
    assert from_model(5, ValueType.U16) == 5
    assert from_model(5, ValueType.U64) == Long(5)
    assert from_model(5, ValueType.F64) == Double(5)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1_500_000_001, ValueType.TIME), (5, ValueType.DURATION), ({}, ValueType.MAP), ((), ValueType.LIST)],
)
def test_what_ami_has_no_value_for(value: Value, kind: ValueType) -> None:
    with pytest.raises(LocalProtocolError):
        from_model(value, kind)
