"""Texts from strangers as they are displayed, and read back."""

from __future__ import annotations

import subprocess
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.escapes import (
    escaped,
    printable,
    printable_json,
    shell_line,
    spreadsheet_text,
    unescaped,
    without_part,
)

texts = st.text(st.characters() | st.sampled_from("\\\\\\\\ntrxuU0123456789abcdef\n\x1b\u202e"), max_size=20)


@pytest.mark.parametrize(
    ("text", "displayed"),
    [
        ("orders é €", "orders é €"),
        ("a\x1b[31m\n\u202eb\u00e9", r"a\x1b[31m\n\u202ebé"),
        ("\u2028\x85\x7f\ud800\U000e0001", r"\u2028\x85\x7f\ud800\U000e0001"),
        (r"DOM\user \\host ^a\.b$", r"DOM\user \\host ^a\.b$"),
        (r"C:\new", r"C:\x5cnew"),
        ("C:\\new\n", r"C:\x5cnew\n"),
        (r"C:\\new", r"C:\\new"),
    ],
)
def test_a_text_is_displayed_and_read_back(text: str, displayed: str) -> None:
    assert escaped(text) == displayed
    assert unescaped(displayed) == text


@given(texts)
def test_every_text_prints_and_is_read_back(text: str) -> None:
    assert escaped(text).isprintable()
    assert unescaped(escaped(text)) == text


@given(texts)
def test_what_does_not_print_in_a_line_is_escaped_and_means_the_same(text: str) -> None:
    line = printable(text)
    assert line.isprintable()
    assert printable(line) == line
    assert unescaped(line) == unescaped(text)


@given(texts, st.integers(0, 20))
def test_a_part_of_an_escape_is_left_out(text: str, length: int) -> None:
    displayed = escaped(text)
    cut = without_part(displayed[:length])
    assert displayed.startswith(cut)
    assert displayed == text or text.startswith(unescaped(cut))


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        (" +1+1", "' +1+1"),
        ("-x", "'-x"),
        ("-5", "-5"),
        ("+1.5e3", "+1.5e3"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_a_cell_of_csv_is_no_formula(text: str, cell: str) -> None:
    assert spreadsheet_text(text) == cell


def test_json_means_the_same() -> None:
    assert printable_json('{\n"a": "\u202e\\n\x9b"}') == r'{ "a": "\u202e\n\u009b"}'
    assert printable_json('"é😀"', "latin-1") == r'"\u00e9\ud83d\ude00"'
    assert printable_json('"é"', "latin-1") == '"é"'


def test_a_run_of_backslashes_takes_linear_time() -> None:
    """Each of them was compared with the whole rest of the run: a minute and more."""
    text = "\\" * 100_000
    began = process_time()
    assert printable(f"{text}a\n") == f"{text}a\\n"
    assert unescaped(escaped(f"{text}a\n")) == f"{text}a\n"
    assert process_time() - began < 10


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
@example("C:\\new 'x'\x1b\n\u202e\x85\U000e0001")
def test_bash_reads_a_command_as_it_was_meant(word: str) -> None:
    line = shell_line(["printf", "%s", word])
    assert line.isprintable()
    done = subprocess.run(  # noqa: S603  what is tested
        ["/bin/bash", "-c", line], check=True, capture_output=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode() == word
