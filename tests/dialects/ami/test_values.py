"""Reading and writing of values."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given

from gateway.dialects.ami.dates import DateRules
from gateway.dialects.ami.deviations import Deviation, Leniency, Reading
from gateway.dialects.ami.values import (
    MAX_DIGITS,
    AmiValue,
    Double,
    Enum,
    Json,
    Long,
    Utc,
    read_value,
    write_value,
)
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from tests.dialects.ami.strategies import VALUES

RULES = DateRules()


def _read(text: str, reading: Reading = Reading.STRICT) -> AmiValue:
    value, end = read_value(text, 0, Leniency(reading), RULES)
    assert end == len(text)
    return value


READ: list[tuple[str, AmiValue]] = [
    ("0", 0),
    ("+5", 5),
    ("-0", 0),
    ("007", 7),
    ("2147483647", 2**31 - 1),
    ("-2147483648", -(2**31)),
    ("9223372036854775807L", Long(2**63 - 1)),
    ("-9223372036854775808L", Long(-(2**63))),
    (".5", 0.5),
    ("-.5F", -0.5),
    ("+1.25F", 1.25),
    ("5.D", Double(5)),
    ("5.5d", Double(5.5)),
    ("5d", Double(5)),
    ("9223372036854775807T", Utc(2**63 - 1)),
    ("-5T", Utc(-5)),
    ('""', ""),
    ("''", Enum("")),
    ("'a\"b'", Enum('a"b')),
    ('"a\'b"', "a'b"),
    (r'"\\\"\'\n\r\t\f\b\u0041"', "\\\"'\n\r\t\f\bA"),
    (r'"\ud83d\ude00"', "😀"),
    (r"'\u00E9'", Enum("é")),
    ('" 5 "', " 5 "),
    (r'"[1.50, {\"a b\": \"c \\\" d\"} ]"J', Json(r'[1.50,{"a b":"c \" d"}]')),
    ('" 1e999 "J', Json("1e999")),
    ('""U', b""),
    ('"-_8"U', b"\xfb\xff"),
    ('"+/8="U', b"\xfb\xff"),
    ('"AQ=="U', b"\1"),
    ('"AQ"U', b"\1"),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_values_are_read(text: str, value: AmiValue) -> None:
    found = _read(text)
    assert found == value
    assert type(found) is type(value)


REFUSED = [
    *(
        "",
        "L",
        "+",
        "-",
        ".",
        "5.",
        "5.F",
        "+-5",
        "1_000",
        "0x10",
        "5l",
        "5f",
        "5t",
        " 5",
        "5 ",
        "NaN",
        "INF",
    ),
    *("2147483648", "-2147483649", "9223372036854775808L", "-9223372036854775809L", "9223372036854775808T"),
    *("3.5e38", "1e400D", "9" * MAX_DIGITS + ".5", "5" * (MAX_DIGITS + 1), "9" * (MAX_DIGITS - 1) + "D"),
    *("True", "NULL", "nul", "truetrue", "'a'J", "'a'U", '"a', "'a", '"a\\"', '"a"j'),
    *(
        r'"\x41"',
        r'"\u12"',
        r'"\u 123"',
        r'"\0"',
        '"{"J',
        '"NaN"J',
        '""J',
        '"AQI"_U',
        '"A"U',
        '"A Q="U',
        '"A==="U',
    ),
    *('"a"T', '"a"T(', '"a"T(yyyy', '"a"T(yyyy)'),
    '"' + "[" * 100_000 + '"J',
]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_is_no_value(text: str) -> None:
    for reading in Reading:
        try:
            _, end = read_value(text, 0, Leniency(reading), RULES)
        except ProtocolError:
            continue
        assert end < len(text)  # what follows is refused behind the value


@pytest.mark.parametrize("text", ["1e5", "1.5E+3", "-.5e-3F", "1e3D", "2.e2d"])
def test_exponents_are_a_relays(text: str) -> None:
    leniency = Leniency(Reading.LENIENT)
    value, _ = read_value(text, 0, leniency, RULES)
    assert value == (Double if text[-1] in "Dd" else float)(float(text.rstrip("FDd")))
    assert leniency.deviations == {Deviation.EXPONENT}


def test_values_of_different_types_differ() -> None:
    alike: list[list[AmiValue]] = [
        [5, Long(5), Utc(5)],
        [5.0, Double(5)],
        ["5", Enum("5"), Json("5"), b"5"],
    ]
    for values in alike:
        for value, other in itertools.permutations(values, 2):
            assert value != other
    assert Long(5) == Long(5)
    assert len({Long(5), Long(5), Utc(5)}) == 2


WRITTEN: list[tuple[AmiValue, str]] = [
    (1e16, "10000000000000000.0"),
    (1.5e-7, "0.00000015"),
    (Double(1e300), "1" + "0" * 300 + ".0D"),
    (Double(5), "5.0D"),
    (Utc(2**47 - 1), f"{2**47 - 1}T"),
    (Utc(2**47), '"6429-10-17 02:45:55.328 +0000"T(yyyy-MM-dd HH:mm:ss.SSS Z)'),
    (Utc(-1), '"1969-12-31 23:59:59.999 +0000"T(yyyy-MM-dd HH:mm:ss.SSS Z)'),
    ("é😀\x00\x7f|#@", r'"\u00e9\ud83d\ude00\u0000\u007f|#@"'),
    (b"\xfb\xff", '"+/8="U'),
    (Json('{ "a" : 1 }'), r'"{\"a\":1}"J'),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_values_are_written_as_the_documents_have_them(value: AmiValue, text: str) -> None:
    assert write_value(value) == text


@pytest.mark.parametrize(
    "value",
    [
        2**31,
        Long(2**63),
        math.inf,
        math.nan,
        3.5e38,
        Double(math.inf),
        Double(math.nan),
        Utc(1 << 62),
        Utc(-30_000_000_000_000),
        "\ud800",
        Json("{"),
    ],
)
def test_what_cannot_travel_is_refused(value: AmiValue) -> None:
    with pytest.raises(LocalProtocolError):
        write_value(value)


def test_other_types_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="AMI has no tuple"):
        write_value((1, 2))  # type: ignore[arg-type]


@given(VALUES)
def test_what_is_written_is_read_again(value: AmiValue) -> None:
    found = _read(write_value(value))
    assert found == value
    assert type(found) is type(value)
