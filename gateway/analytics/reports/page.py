"""The report as one page: a picture of the period."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from textwrap import wrap
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from gateway.analytics.reports.answers import (
    Column,
    Form,
    Report,
    Row,
    Table,
    cut,
    duration,
    number,
    readable,
    rounded,
    short,
)
from gateway.analytics.reports.events import SEVERE, SEVERITIES
from gateway.analytics.reports.findings import findings
from gateway.analytics.reports.quality import CURRENT
from gateway.durable_files import replaced_durably
from gateway.escapes import escaped

BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
RED: Final = "#D55E00"
SKY: Final = "#56B4E9"
PINK: Final = "#CC79A7"
GREY: Final = "#8A8F98"
INK: Final = "#20242B"
PAPER: Final = "#FFFFFF"
FAINT: Final = "#E6E8EC"


# A # that is escaped is part of a name.
_INCARNATION = re.compile(r"(?<!\\)#.*", re.DOTALL)
"""The end of a stable name that distinguishes the incarnations of a transient object."""


def labels(names: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of objects, by ``object_id``, given their stable names likewise.

    A label is the name without the part that distinguishes incarnations; with the source, where others have
    the same name; and the whole name where that is not enough.
    """
    short = {key: _INCARNATION.sub("", name) or name for key, name in names.items()}
    of_source = {
        key: f"{name} ({_source(key)})" if name in _repeated(short.values()) else name
        for key, name in short.items()
    }
    again = _repeated(of_source.values())
    return {key: escaped(names[key] if name in again else name) for key, name in of_source.items()}


def _source(object_id: str) -> str:
    return object_id.rsplit("/", 2)[0]


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


MOST_LINES: Final = 8
"""The maximum number of sources that have a line; of the others only the number is shown."""

_LINE: Final = 0.25
"""The height of a line, in inches."""
_AROUND: Final = 0.55
"""The height of heading and margins, in inches."""
_LEFT: Final = 0.03
_RIGHT: Final = 0.975
_TEXTS: Final = {"source": (0.0, 24), "dialect": (0.17, 10), "state": (0.235, 14)}
"""The begin of each text, as a part of the width, and its maximum length in characters."""
_NUMBERS: Final = 0.32
"""The begin of the first number, as a part of the width."""
_WIDE: Final = 1.7
"""The width of a duration, relative to that of a number."""
_WRONG: Final = ("severe", "unknown")
"""Numbers that are a reason to look closer."""


def height(overview: Table) -> float:
    """Return the height of the lines, in inches; 0 where there is no source."""
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
    # Where not all have room, silent sources come first.
    rows = sorted(overview.rows, key=lambda row: not _is_silent(row))[:MOST_LINES]
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
            colour = RED if column.name == "state" and _is_silent(row) else INK
            shown, side = cut(text, _TEXTS[column.name][1]), "left"
        else:
            is_nothing = column.form is Form.COUNT and number(row, column.name) == 0
            is_wrong = column.name in _WRONG and not is_nothing
            colour = RED if is_wrong else GREY if is_nothing else INK
            shown = short(number(row, column.name)) if column.form is Form.COUNT else text
            side = "right"
        figure.text(place, high, shown, fontsize=10, color=colour, ha=side)


def _is_silent(row: Row) -> bool:
    return row["state"] not in (None, *CURRENT)


def _placed(columns: tuple[Column, ...]) -> list[tuple[float, Column]]:
    """Return the columns with their places: the begin of a text, the end of a number."""
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


SIZE: Final = (16.0, 10.5)
"""The size of the page in inches, without the lines for sources."""

RESOLUTION: Final = 120
"""The resolution in dots an inch."""

_LINES: Final = (BLUE, ORANGE, GREEN, PINK, SKY, RED)
_UNRECEIVED: Final = "not heard"
_FLOWS: Final = {"published": BLUE, "delivered": GREEN, "acknowledged": ORANGE}
_WAYS: Final = {"published": "in", "delivered": "out", "acknowledged": "acknowledged"}
_SEVERITY: Final = {
    "critical": "#8C1D18",
    "major": RED,
    "minor": ORANGE,
    "warning": "#E3BD20",
    "info": SKY,
    "cleared": GREEN,
}
_DURATIONS: Final = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 21_600, 86_400, 864_000, 8_640_000)
_ABOVE: Final = 24
"""The distance between a panel and its title, in points: room for the legend."""
_BARS: Final = 8
_FINDINGS: Final = 10
_NAME: Final = 35
_LEGEND: Final = 31
"""The maximum length of a queue's name in a legend, in characters: three of them have room in a line."""
_LEGEND_COLUMNS: Final = 3
_ABOVE_TWO_LINES: Final = 37
_FINDING: Final = 66
_SUBTITLE: Final = 180
_SOURCES: Final = 1.9
"""The distance from the top to the lines for sources, in inches."""
_PANELS: Final = 2.36
"""The distance from the top to the panels, in inches, if there were no source."""
_LOWEST: Final = 0.58
"""The height below the panels, in inches."""


def draw(report: Report, file: Path) -> None:
    """Write the page as PNG, mode 0600.

    Raises:
        OSError: the file cannot be written.
    """
    # Names are a stranger's, and dollars in them no formulas, which may be wrong ones.
    with rc_context({"text.parse_math": False}), replaced_durably(file) as drawn:
        _draw(report).savefig(drawn, format="png", facecolor=PAPER)


def _draw(report: Report) -> Figure:
    width, inches = size(report)
    figure = Figure(figsize=(width, inches), dpi=RESOLUTION, facecolor=PAPER)
    # Not pyplot, which keeps each figure in a global list and chooses a display's backend.
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        3,
        2,
        left=0.055,
        right=0.975,
        top=_up(_PANELS + height(report.table("overview")), inches),
        bottom=_LOWEST / inches,
        hspace=0.55,
        wspace=0.34,
        width_ratios=(1.75, 1),
    )
    _head(figure, report, inches)
    draw_sources(figure, report.table("overview"), _up(_SOURCES, inches))
    panels = [_panel(figure.add_subplot(grid[row, column])) for row in range(3) for column in range(2)]
    _throughput(panels[0], report)
    _busiest(panels[1], report)
    _depths(panels[2], report)
    _lifetimes(panels[3], report)
    _events(panels[4], report)
    _findings(panels[5], report)
    return figure


def size(report: Report) -> tuple[float, float]:
    """Return the width and height of the page, in inches: there is a line for each source."""
    width, inches = SIZE
    return width, inches + height(report.table("overview"))


def _up(from_the_top: float, inches: float) -> float:
    """Return a distance from the top, in inches, as a part of the height from the bottom."""
    return 1 - from_the_top / inches


def _head(figure: Figure, report: Report, inches: float) -> None:
    period = report.period
    figure.text(0.03, _up(0.47, inches), "AMQP management report", fontsize=21, weight="bold", color=INK)
    when = f"{readable(period.begin)} to {readable(period.end)} UTC"
    for row in report.table("brokers").rows:
        if row["why"] is not None:
            when += f"; {readable(row['sources'])} are one broker, counted once"
    figure.text(0.03, _up(0.79, inches), cut(when, _SUBTITLE), fontsize=11.5, color=GREY)
    tiles = _key_figures(report)
    for place, (label, value, is_bad) in enumerate(tiles):
        left = 0.03 + place * 0.95 / len(tiles)
        figure.text(left, _up(1.34, inches), value, fontsize=18, weight="bold", color=RED if is_bad else INK)
        figure.text(left, _up(1.6, inches), label, fontsize=10, color=GREY)


def _key_figures(report: Report) -> list[tuple[str, str, bool]]:
    """Return label, value, and whether it is a reason to look closer, of each key figure."""
    names = ("published", "delivered", "queues", "growing")
    together: Row = next(
        (row for row in report.table("brokers").rows if row["broker"] is None), dict.fromkeys(names)
    )
    published, delivered, seen, growing = (number(together, name) for name in names)
    bad = sum(number(row, "events") for row in report.series.events if row["severity"] in SEVERE)
    quality = report.table("quality").rows
    unreceived = next((number(row, "count") for row in quality if row["what"] == "not heard"), 0.0)
    return [
        ("messages in", short(published), False),
        ("messages out", short(delivered), False),
        ("queues seen", f"{seen:,.0f}", False),
        ("queues growing", f"{growing:,.0f}", growing > 0),
        ("severe events", short(bad), bad > 0),
        ("not heard", duration(unreceived), unreceived > 0),
        ("records", short(number(report.contents, "records")), False),
    ]


def _panel(axes: Axes) -> Axes:
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=GREY, labelsize=9, length=0)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def _titled(axes: Axes, title: str, unit: str = "", above: float = _ABOVE) -> None:
    axes.set_title(title, loc="left", fontsize=12, weight="bold", color=INK, pad=above)
    if unit:
        axes.set_title(unit, loc="right", fontsize=9, color=GREY, pad=above)


def _throughput(axes: Axes, report: Report) -> None:
    _titled(axes, "Messages through all queues", "per second")
    _over_time(axes, report)
    rows = report.series.throughput
    if not rows:
        _nothing(axes, "no counter of a queue changed")
        return
    steps = _whole_steps(report)
    for name, colour in _FLOWS.items():
        by_step: dict[float, float] = defaultdict(float)
        for row in rows:
            by_step[number(row, "step")] += number(row, name)
        if name == "acknowledged" and not any(by_step.values()):
            continue  # some brokers have none, and a line at 0 would say something else
        axes.plot(
            _times(report, steps),
            [by_step[step] for step in steps],
            color=colour,
            linewidth=1.8,
            label=_WAYS[name],
        )
    axes.set_ylim(bottom=0)
    _legend(axes)


def _busiest(axes: Axes, report: Report) -> None:
    _titled(axes, "Busiest queues", "in and out a second")
    rows = [row for row in report.once("queues") if number(row, "through")][:_BARS]
    if not rows:
        _nothing(axes, report.table("queues").nothing)
        return
    places = range(len(rows))
    bars = (("published_per_second", BLUE, 0.19), ("delivered_per_second", GREEN, -0.19))
    for name, colour, shift in bars:
        values = [number(row, name) for row in rows]
        axes.barh([-place + shift for place in places], values, height=0.34, color=colour)
        for place, value in enumerate(values):
            if rows[place][name] is None:
                continue
            axes.text(
                value,
                -place + shift,
                f" {rounded(value)}",
                va="center",
                fontsize=8,
                color=GREY,
                clip_on=False,
            )
    names = labels({str(row["object_id"]): str(row["queue"]) for row in rows})
    axes.set_yticks([-place for place in places], [cut(names[str(row["object_id"])], _NAME) for row in rows])
    axes.set_xticks([])
    axes.set_ylim(-max(len(rows), 4) + 0.4, 0.6)
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)


def _depths(axes: Axes, report: Report) -> None:
    queues = list(dict.fromkeys(row["object_id"] for row in report.series.depths))
    above = _ABOVE if len(queues) <= _LEGEND_COLUMNS else _ABOVE_TWO_LINES
    _titled(axes, "Messages in queues that grow, and in the fullest", "messages", above)
    _over_time(axes, report, label="")  # its legend has queues only
    if not queues:
        _nothing(axes, "no queue held messages")
        return
    names = labels({str(row["object_id"]): str(row["queue"]) for row in report.series.depths})
    for queue, colour in zip(queues, _LINES, strict=False):
        rows = [row for row in report.series.depths if row["object_id"] == queue]
        times = _times(report, [number(row, "step") for row in rows])
        name = cut(names[str(queue)], _LEGEND)
        axes.plot(times, [number(row, "messages") for row in rows], color=colour, linewidth=1.8, label=name)
    axes.set_ylim(bottom=0)
    _legend(axes, _LEGEND_COLUMNS)


def _lifetimes(axes: Axes, report: Report) -> None:
    _titled(axes, "How long connections last", "median, 90 %, 99 %; number")
    rows = [row for row in report.once("connections") if row["user"] is not None and number(row, "known")]
    rows = rows[:_BARS]
    if not rows:
        _nothing(axes, "no connection ended")
        return
    for place, row in enumerate(rows):
        # A logarithmic axis has no 0.
        median, most, nearly_all = (max(number(row, name), 1e-3) for name in ("median", "p90", "p99"))
        axes.plot([median, nearly_all], [-place, -place], color=SKY, linewidth=5, solid_capstyle="round")
        axes.plot([most], [-place], marker="|", color=BLUE, markersize=11, markeredgewidth=2)
        axes.plot([median], [-place], marker="o", color=BLUE, markersize=7)
    axes.set_yticks([-place for place in range(len(rows))], _users(rows))
    axes.set_ylim(-max(len(rows), 4) + 0.4, 0.6)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 2, high * 2)
    axes.minorticks_off()
    axes.xaxis.set_major_locator(FixedLocator(_DURATIONS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: duration(seconds)))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=FAINT, linewidth=0.8)


def _users(rows: Sequence[Row]) -> list[str]:
    """Return each user with the number of ended connections; with the source, where there are several."""
    several = len({row["source"] for row in rows}) > 1
    names = [
        f"{readable(row['user']) or '?'} ({readable(row['source'])})"
        if several
        else readable(row["user"]) or "?"
        for row in rows
    ]
    return [
        f"{cut(name, _NAME)}  {readable(row['ended'], Form.COUNT)}"
        for name, row in zip(names, rows, strict=True)
    ]


def _events(axes: Axes, report: Report) -> None:
    step = report.series.step_seconds
    _titled(axes, "Events by severity", f"in {duration(step)}")
    _over_time(axes, report)
    rows = report.series.events
    if not rows:
        _nothing(axes, "there was no event")
        return
    steps = _steps(report)
    floor = [0.0] * len(steps)
    # The worst stands on the ground, where it is seen however little of it there is.
    for severity in SEVERITIES:
        by_step = {row["step"]: number(row, "events") for row in rows if row["severity"] == severity}
        if not by_step:
            continue
        heights = [by_step.get(int(at), 0.0) for at in steps]
        axes.bar(
            _times(report, steps), heights, width=step / 86_400, bottom=floor, align="edge",
            color=_SEVERITY[severity], label=severity,
        )  # fmt: skip
        floor = [below + height for below, height in zip(floor, heights, strict=True)]
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    _legend(axes)


def _findings(axes: Axes, report: Report) -> None:
    _titled(axes, "What to look at")
    axes.set_axis_off()
    said = findings(report)
    if not said:
        _nothing(axes, "nothing is conspicuous")
        return
    for place, (bullet, line) in enumerate(_lines(said)):
        high = 0.95 - place * 0.1
        axes.text(0.0, high, bullet, transform=axes.transAxes, color=RED, fontsize=12, va="center")
        axes.text(0.03, high, line, transform=axes.transAxes, color=INK, fontsize=9, va="center")


def _lines(sentences: Sequence[str]) -> list[tuple[str, str]]:
    """Return the first sentences as lines, each with its bullet: the second line of a long one has none."""
    found: list[tuple[str, str]] = []
    for number_of, sentence in enumerate(sentences):
        parts = wrap(sentence, _FINDING, max_lines=2, placeholder="\N{HORIZONTAL ELLIPSIS}")
        left = len(sentences) - number_of
        if len(found) + len(parts) > _FINDINGS - (left > 1):
            # A line is kept free for this as long as another sentence follows.
            return [*found, ("\N{BULLET}", f"and {left:,} more")]
        found += zip(("\N{BULLET}", ""), parts, strict=False)
    return found


def _over_time(axes: Axes, report: Report, label: str = _UNRECEIVED) -> None:
    """Draw the time of the log as horizontal axis, with gaps in grey.

    Args:
        axes: the axes of the drawing.
        report: has the gaps.
        label: the name of the grey in the legend.
    """
    drawn = report.series.drawn
    axes.set_xlim(_date(drawn.begin), _date(drawn.end))
    locator = AutoDateLocator(minticks=4, maxticks=9, tz=dt.UTC)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=dt.UTC, show_offset=False))  # type: ignore[no-untyped-call]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    for row in report.series.gaps:
        begin, end = row["from_ts"], row["to_ts"]
        if isinstance(begin, dt.datetime) and isinstance(end, dt.datetime):
            axes.axvspan(_date(begin), _date(end), color=GREY, alpha=0.22, linewidth=0, label=label)
            label = ""  # one for all of them


def _legend(axes: Axes, columns: int = 6) -> None:
    axes.legend(
        loc="lower left", ncols=columns, fontsize=9, frameon=False, borderaxespad=0.0, handlelength=1.4,
        bbox_to_anchor=(0.0, 1.01), labelcolor=GREY, columnspacing=1.4,
    )  # fmt: skip


def _nothing(axes: Axes, why: str) -> None:
    axes.grid(visible=False)
    axes.set_yticks([])
    axes.text(
        0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY, fontsize=11,
        style="italic",
    )  # fmt: skip


def _steps(report: Report) -> list[int]:
    """Return the begins of all steps, of those in which nothing happened, too."""
    step = report.series.step_seconds
    return list(range(0, max(int(report.series.drawn.seconds), 1), step))


def _whole_steps(report: Report) -> list[int]:
    """Return the steps that were over when the log was last written: a part of one would look like a fall."""
    known = report.series.drawn.seconds
    return [step for step in _steps(report) if step + report.series.step_seconds <= known]


def _times(report: Report, steps: Sequence[float]) -> list[float]:
    return [_date(report.series.drawn.begin + dt.timedelta(seconds=step)) for step in steps]


def _date(time: dt.datetime) -> float:
    """Return a time as days since 1970, as matplotlib counts."""
    return time.timestamp() / 86_400
