"""The lines of the page that tell of all sources side by side."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from matplotlib.figure import Figure

from gateway.analytics.reports.answers import Column, Form, Row, Table, number
from gateway.analytics.reports.colours import GREY, INK, RED
from gateway.analytics.reports.readable import cut, readable, short
from gateway.analytics.reports.sources import BELIEVED

MOST_LINES: Final = 8
"""Sources that have a line; of the others it is said how many there are."""

_LINE: Final = 0.25
"""Inches."""
_AROUND: Final = 0.55
"""Inches of heading and air."""
_LEFT: Final = 0.03
_RIGHT: Final = 0.975
_TEXTS: Final = {"source": (0.0, 24), "dialect": (0.17, 10), "state": (0.235, 14)}
"""Where a text begins, as a part of the width, and how many characters it may have."""
_NUMBERS: Final = 0.32
"""Where the first number begins."""
_WIDE: Final = 1.7
"""How much wider a duration is than a number."""
_WRONG: Final = ("severe", "unknown")
"""Numbers that are a reason to look closer."""


def height(overview: Table) -> float:
    """Inches that the lines take; nothing where no source was heard."""
    lines = min(len(overview.rows), MOST_LINES) + (len(overview.rows) > MOST_LINES)
    return lines * _LINE + _AROUND if lines else 0.0


def draw_sources(figure: Figure, overview: Table, top: float) -> None:
    """Write the lines, from ``top`` (a part of the height) downwards."""
    line = _LINE / figure.get_figheight()
    if not overview.rows:
        return
    for place, column in _placed(overview.columns):
        side = "left" if column.name in _TEXTS else "right"
        figure.text(place, top, column.heading, fontsize=9, color=GREY, ha=side)
    # Where not all have room, those that are not believed come first.
    rows = sorted(overview.rows, key=lambda row: not _is_doubtful(row))[:MOST_LINES]
    for position, row in enumerate(rows, 1):
        _draw_row(figure, overview, row, top - position * line)
    rest = len(overview.rows) - MOST_LINES
    if rest > 0:
        figure.text(_LEFT, top - (MOST_LINES + 1) * line, f"and {rest} more", fontsize=9, color=GREY)


def _draw_row(figure: Figure, overview: Table, row: Row, high: float) -> None:
    for place, column in _placed(overview.columns):
        value = row[column.name]
        text = column.absent if value is None else readable(value, column.form)
        if column.name in _TEXTS:
            colour = RED if column.name == "state" and _is_doubtful(row) else INK
            shown, side = cut(text, _TEXTS[column.name][1]), "left"
        else:
            is_nothing = column.form is Form.COUNT and number(row, column.name) == 0
            is_wrong = column.name in _WRONG and not is_nothing
            colour = RED if is_wrong else GREY if is_nothing else INK
            shown = short(number(row, column.name)) if column.form is Form.COUNT else text
            side = "right"
        figure.text(place, high, shown, fontsize=10, color=colour, ha=side)


def _is_doubtful(row: Row) -> bool:
    return row["state"] not in (None, *BELIEVED)


def _placed(columns: tuple[Column, ...]) -> list[tuple[float, Column]]:
    """Columns with their place: where a text begins, where a number ends."""
    numbers = [column for column in columns if column.name not in _TEXTS]
    shares = [_WIDE if column.form is Form.SECONDS else 1.0 for column in numbers]
    width = (_RIGHT - _LEFT) * (1 - _NUMBERS) / max(sum(shares), 1.0)
    first = _LEFT + (_RIGHT - _LEFT) * _NUMBERS
    texts = [
        (_LEFT + _TEXTS[column.name][0] * (_RIGHT - _LEFT), column)
        for column in columns
        if column.name in _TEXTS
    ]
    return [
        *texts,
        *((first + width * end, column) for end, column in zip(accumulate(shares), numbers, strict=True)),
    ]
