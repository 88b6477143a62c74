"""The widths of a table's columns on a terminal, so that each row is one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

_LEAST: Final = 10
"""The smallest width of a column whose texts are cut; other values are shown whole."""

_EDGES, _GAP = 2, 3
"""Characters of a line at both of its ends together, and between two columns."""


def fitting(
    names: Sequence[str],
    texts: Sequence[Sequence[str]],
    rows: Sequence[Sequence[object]],
    width: int,
    left_out_first: Sequence[str] = (),
) -> dict[int, int]:
    """Return the widths of the columns that fit into a line, by their places.

    The widest columns of texts are cut first, down to `_LEAST`; then columns are left out, those at the end
    first unless others are named.
    """
    whole = [max(map(cell_len, column)) for column in zip(names, *texts, strict=True)]
    widths = dict(enumerate(whole))
    least = {
        place: max(_LEAST, cell_len(name))
        for place, name in enumerate(names)
        if any(isinstance(row[place], str) for row in rows)
    }
    order = [names.index(name) for name in left_out_first if name in names]
    order += [place for place in reversed(widths) if place not in order]
    for place in order:
        room = width - _EDGES - _GAP * (len(widths) - 1)
        if len(widths) == 1 or sum(min(w, least.get(p, w)) for p, w in widths.items()) <= room:
            break
        del widths[place]
    room = width - _EDGES - _GAP * (len(widths) - 1)
    most = max(widths.values())
    while sum(widths.values()) > room and most > 1:
        most -= 1
        widths = {
            place: whole[place] if place not in least else min(whole[place], max(most, least[place]))
            for place in widths
        }
        if all(widths[place] <= least[place] for place in widths if place in least):
            break
    return widths
