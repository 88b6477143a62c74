"""Numbers of objects, and OpenAMQ's interpretation of other text."""

from __future__ import annotations

import pytest

from gateway.dialects.cml.messages import as_openamq_takes_it, object_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), (str(2**64 - 1), 2**64 - 1)]
    + [(text, None) for text in (str(2**64), "", "-1", "+1", " 1", "1 ", "x", "٣", "1" * 5000)],
)
def test_a_number_of_an_object(text: str, number: int | None) -> None:
    assert object_number(text) == number


# Which object answered, section 5 of what was measured; 4294967295 is what nobody is.
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("00", 0),
        (" 0", 0),
        ("", 0),
        ("abc", 0),
        ("true", 0),
        ("0;", 0),
        ("1.5", 1),
        ("1e3", 1),
        ("1 2", 1),
        ("+5", 5),
        ("4294967296", 0),
        ("-1", 4294967295),
        ("9" * 30, 4294967295),
        ("-" + "9" * 30, 0),
    ],
)
def test_what_openamq_takes_text_for(text: str, number: int) -> None:
    assert as_openamq_takes_it(text) == number
