"""Values that fit their element or argument, and those that do not."""

from __future__ import annotations

from uuid import UUID

import pytest

from gateway.model.operations import Outcome
from gateway.model.schema import Argument, NamedValue
from gateway.model.validation import validate
from gateway.model.values import Reference, Value, ValueType

EXAMPLES: dict[ValueType, list[Value]] = {
    ValueType.BOOL: [True, False],
    ValueType.U8: [0, 255],
    ValueType.U16: [0, 65_535],
    ValueType.U32: [0, 2**32 - 1],
    ValueType.U64: [0, 2**64 - 1],
    ValueType.S8: [-128, 127],
    ValueType.S16: [-(2**15), 2**15 - 1],
    ValueType.S32: [-(2**31), 2**31 - 1],
    ValueType.S64: [-(2**63), 2**63 - 1],
    ValueType.F32: [0, 1.5, 3.4028234663852886e38, float("inf"), float("nan")],
    ValueType.F64: [0, -1.5, 1.7976931348623157e308],
    ValueType.STRING: ["", "ä" * 100],
    ValueType.BYTES: [b"", b"\xff"],
    ValueType.UUID: [UUID(int=5)],
    ValueType.TIME: [0, 2**64 - 1],
    ValueType.DURATION: [0, 2**64 - 1],
    ValueType.REFERENCE: [Reference("0-1-1-0-2")],
    ValueType.MAP: [{}, {"a": 1}],
    ValueType.LIST: [(), (1, "a")],
}


@pytest.mark.parametrize("value_type", ValueType)
def test_each_type_takes_its_own_values_from_least_to_most(value_type: ValueType) -> None:
    for value in EXAMPLES[value_type]:
        assert validate(Argument("x", value_type), value) is None


@pytest.mark.parametrize("value_type", ValueType)
def test_no_type_takes_a_value_of_another_kind(value_type: ValueType) -> None:
    numbers = {one for one in ValueType if isinstance(EXAMPLES[one][0], int)} - {ValueType.BOOL}
    alike = numbers if value_type in numbers else {value_type}
    for other in set(ValueType) - alike:
        found = validate(Argument("x", value_type), EXAMPLES[other][0])
        assert found is not None
        assert found.outcome is Outcome.WRONG_TYPE


@pytest.mark.parametrize(
    ("argument", "value", "outcome", "text"),
    [
        (Argument("x", ValueType.U8), 256, Outcome.WRONG_VALUE, "256 does not fit u8"),
        (Argument("x", ValueType.U64), -1, Outcome.WRONG_VALUE, "-1 does not fit u64"),
        (Argument("x", ValueType.S16), 2**15, Outcome.WRONG_VALUE, "32768 does not fit s16"),
        (Argument("x", ValueType.DURATION), 2**64, Outcome.WRONG_VALUE, f"{2**64} does not fit duration"),
        (Argument("x", ValueType.F32), 1e39, Outcome.WRONG_VALUE, "1e+39 does not fit f32"),
        (
            Argument("x", ValueType.F64),
            10**400,
            Outcome.WRONG_VALUE,
            "a number of many digits does not fit f64",
        ),
        (Argument("x", ValueType.U8, minimum=3), 2, Outcome.WRONG_VALUE, "2 is less than 3"),
        (Argument("x", ValueType.U8, maximum=3), 4, Outcome.WRONG_VALUE, "4 is more than 3"),
        (Argument("x", ValueType.F64, maximum=3), float("nan"), Outcome.WRONG_VALUE, "nan is more than 3"),
        (Argument("x", ValueType.STRING, max_length=3), "äx", None, ""),
        (
            Argument("x", ValueType.STRING, max_length=3),
            "ää",
            Outcome.WRONG_LENGTH,
            "4 bytes, 3 are taken",
        ),
        (Argument("x", ValueType.BYTES, max_length=1), b"ab", Outcome.WRONG_LENGTH, "2 bytes, 1 are taken"),
        (
            Argument("x", ValueType.STRING),
            "\ud800",
            Outcome.WRONG_VALUE,
            "text of 1 characters cannot be encoded as UTF-8",
        ),
        (
            Argument("x", ValueType.U8, values=(NamedValue("on", 1), NamedValue("off", 0))),
            2,
            Outcome.WRONG_VALUE,
            "2 is none of on (1), off (0)",
        ),
        (Argument("x", ValueType.U8, values=(NamedValue("on", 1),)), 1, None, ""),
        (Argument("x", ValueType.BOOL), 1, Outcome.WRONG_TYPE, "true or false is wanted, not 1"),
        (Argument("x", ValueType.U8), True, Outcome.WRONG_TYPE, "an integer is wanted, not True"),
        (Argument("x", ValueType.U8), 1.0, Outcome.WRONG_TYPE, "an integer is wanted, not 1.0"),
        (Argument("x", ValueType.MAP), (1,), Outcome.WRONG_TYPE, "a map is wanted, not a list"),
    ],
)
def test_what_is_wrong_is_said(argument: Argument, value: Value, outcome: Outcome | None, text: str) -> None:
    found = validate(argument, value)
    if outcome is None:
        assert found is None
    else:
        assert found is not None
        assert (found.outcome, found.text) == (outcome, text)


def test_a_secret_is_not_repeated() -> None:
    for value_type in (ValueType.U8, ValueType.MAP):
        found = validate(Argument("password", value_type), "hunter2")
        assert found is not None
        assert "hunter2" not in found.text
