"""The layout of a report's tables: order, headings, meaning of an empty one, and output on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gateway.analytics.reports.answers import Column, Form, Report, Row, Table, cut, number, readable
from gateway.analytics.reports.events import FLAPPING_TIMES, STORM_A_MINUTE
from gateway.analytics.reports.findings import findings
from gateway.table_widths import fitting

_NAME: Final = 36
_SAID: Final = 45


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a table.

    Attributes:
        title: its title for people.
        columns: the columns that people are shown; JSON has all.
        nothing: the meaning of a table without rows.
        by_source: the rows of a source are shown together.
    """

    title: str
    columns: tuple[Column, ...]
    nothing: str
    by_source: bool = False


LAYOUTS: Final = {
    "overview": Layout(
        "Sources side by side",
        (
            Column("source", "Source", absent="(gateway)"),
            Column("dialect", "Dialect"),
            Column("state", "State"),
            Column("agents", "Agents", Form.COUNT),
            Column("classes", "Classes", Form.COUNT),
            Column("created", "Made", Form.COUNT),
            Column("ended", "Ended", Form.COUNT),
            Column("living", "There", Form.COUNT),
            Column("severe", "Severe", Form.COUNT),
            Column("warning", "Warning", Form.COUNT),
            Column("events", "Events", Form.COUNT),
            Column("operations", "Changes", Form.COUNT),
            Column("applied", "Applied", Form.COUNT),
            Column("unknown", "Unknown", Form.COUNT),
            Column("records", "Records", Form.COUNT),
            Column("lag_median", "Lag", Form.SECONDS),
        ),
        "no source was reported",
    ),
    "brokers": Layout(
        "Each broker once",
        (
            Column("broker", "Broker", absent="all together"),
            Column("sources", "Sources"),
            Column("why", "One because", optional=True),
            Column("published", "Messages in", Form.COUNT),
            Column("delivered", "Messages out", Form.COUNT),
            Column("queues", "Queues", Form.COUNT),
            Column("growing", "Growing", Form.COUNT),
            Column("opened", "Connections opened", Form.COUNT),
            Column("ended", "Ended", Form.COUNT),
            Column("open", "Open", Form.COUNT),
        ),
        "no source was reported",
    ),
    "queues": Layout(
        "Busiest queues",
        (
            Column("queue", "Queue"),
            Column("source", "Source"),
            Column("published_per_second", "In/s", Form.RATE),
            Column("published_peak", "Peak", Form.RATE),
            Column("delivered_per_second", "Out/s", Form.RATE),
            Column("delivered_peak", "Peak", Form.RATE),
            Column("acknowledged_per_second", "Acked/s", Form.RATE, optional=True),
            Column("published", "In", Form.COUNT),
            Column("delivered", "Out", Form.COUNT),
            Column("redelivered", "Again", Form.COUNT, optional=True),
            Column("dropped", "Dropped", Form.COUNT, optional=True),
            Column("octets_in", "Bytes in", Form.COUNT, optional=True),
            Column("messages", "Messages", Form.COUNT),
            Column("consumers", "Consumers", Form.COUNT),
            Column("resets", "Resets", Form.COUNT),
        ),
        "no queue was seen",
    ),
    "growing": Layout(
        "Growing queues",
        (
            Column("queue", "Queue"),
            Column("source", "Source"),
            Column("first", "Messages at first", Form.COUNT),
            Column("last", "Now", Form.COUNT),
            Column("per_hour", "Per hour", Form.COUNT),
            Column("in_24_hours", "In 24 hours", Form.COUNT),
            Column("fit", "Fit", Form.SHARE),
        ),
        "no queue grows steadily",
    ),
    "connections": Layout(
        "Lifetimes of connections",
        (
            Column("source", "Source"),
            Column("user", "User", absent="all together"),
            Column("opened", "Opened", Form.COUNT),
            Column("ended", "Ended", Form.COUNT),
            Column("open", "Open", Form.COUNT),
            Column("short", "Below 1 s", Form.COUNT),
            Column("median", "Median", Form.SECONDS),
            Column("p90", "90 %", Form.SECONDS),
            Column("p99", "99 %", Form.SECONDS),
            Column("longest", "Longest", Form.SECONDS),
        ),
        "no connection was seen",
    ),
    "classes": Layout(
        "Classes",
        (
            Column("source", "Source"),
            Column("package", "Package"),
            Column("class", "Class"),
            Column("objects", "Objects", Form.COUNT),
            Column("created", "Made", Form.COUNT),
            Column("ended", "Ended", Form.COUNT),
            Column("inferred", "Missing", Form.COUNT),
            Column("living", "There", Form.COUNT),
            Column("median", "Half lived", Form.SECONDS),
        ),
        "no object was seen",
        by_source=True,
    ),
    "counters": Layout(
        "Counters of other classes",
        (
            Column("source", "Source"),
            Column("class", "Class"),
            Column("element", "Counter"),
            Column("unit", "Unit", optional=True),
            Column("per_second", "Per second", Form.RATE),
            Column("peak", "Peak of one", Form.RATE),
            Column("gained", "Gained", Form.COUNT),
            Column("objects", "Objects", Form.COUNT),
            Column("busiest", "Most", most=_NAME),
            Column("resets", "Resets", Form.COUNT),
        ),
        "no counter of another class changed",
        by_source=True,
    ),
    "rising": Layout(
        "Numbers that grow",
        (
            Column("source", "Source"),
            Column("class", "Class"),
            Column("object", "Object", most=_NAME),
            Column("element", "Element"),
            Column("unit", "Unit", optional=True),
            Column("first", "At first", Form.RATE),
            Column("last", "Now", Form.RATE),
            Column("per_hour", "Per hour", Form.RATE),
            Column("in_24_hours", "In 24 hours", Form.RATE),
            Column("fit", "Fit", Form.SHARE),
        ),
        "no number of another class grows steadily",
        by_source=True,
    ),
    "operations": Layout(
        "Changes and calls",
        (
            Column("source", "Source", absent="(gateway)"),
            Column("operation", "What"),
            Column("class", "Class"),
            Column("what", "Method, elements", most=_NAME),
            Column("outcome", "Outcome", absent="under way"),
            Column("times", "Times", Form.COUNT),
            Column("objects", "Objects", Form.COUNT),
            Column("median", "Half took", Form.SECONDS),
            Column("who", "Who", most=_NAME),
            Column("last", "Last", Form.TIME),
        ),
        "nothing was set or called through the gateway",
        by_source=True,
    ),
    "events": Layout(
        "Events by severity",
        (
            Column("severity", "Severity"),
            Column("source", "Source"),
            Column("event", "Event"),
            Column("events", "Events", Form.COUNT),
            Column("first", "First", Form.TIME),
            Column("last", "Last", Form.TIME),
            Column("text", "Said last", most=_SAID),
        ),
        "there was no event",
    ),
    "storms": Layout(
        "Storms of events",
        (
            Column("event", "Event"),
            Column("source", "Source"),
            Column("begin", "Begin", Form.TIME),
            Column("end", "End", Form.TIME),
            Column("events", "Events", Form.COUNT),
            Column("peak", "In one minute", Form.COUNT),
        ),
        f"no event came {STORM_A_MINUTE} times a minute",
    ),
    "flapping": Layout(
        "What comes and goes",
        (
            Column("what", "What"),
            Column("name", "Name"),
            Column("source", "Source"),
            Column("times", "Times", Form.COUNT),
            Column("first", "First", Form.TIME),
            Column("last", "Last", Form.TIME),
        ),
        f"nothing began {FLAPPING_TIMES} times or more",
    ),
    "sources": Layout(
        "Sources and agents",
        (
            Column("source", "Source"),
            Column("agent", "Agent"),
            Column("state", "State"),
            Column("since", "Since", Form.TIME),
            Column("times", "Fell silent", Form.COUNT),
            Column("silent_seconds", "Silent for", Form.SECONDS),
        ),
        "no source was reported",
    ),
    "gaps": Layout(
        "Gaps",
        (
            Column("source", "Source"),
            Column("gaps", "Gaps", Form.COUNT),
            Column("seconds", "Not received for", Form.SECONDS),
            Column("lost", "Records lost", Form.COUNT),
            Column("text", "Why, at last"),
        ),
        "nothing says that anything was missed",
    ),
    "quality": Layout(
        "Quality of the data",
        (
            Column("what", "What"),
            Column("count", "Count", Form.RATE),
            Column("unit", ""),
            Column("meaning", "Meaning"),
        ),
        "",
    ),
}
"""The layouts by name, in order."""


PLAIN_WIDTH: Final = 100_000
"""The width in characters where there is no terminal: nothing is left out."""

SEVERITY_STYLES: Final = {
    "critical": "bold red",
    "major": "red",
    "minor": "yellow",
    "warning": "yellow",
    "cleared": "green",
}


def show(report: Report, file: IO[str], most_rows: int = 20) -> None:
    """Write the report to ``file``; tables have ``most_rows`` rows at most."""
    # Names are a stranger's: nothing in them is markup.
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH)
    with console.capture() as captured:
        _show(console, report, most_rows)
    # By lines: the console would end the command itself where its reader has ended.
    file.writelines(captured.get().splitlines(keepends=True))


def _show(console: Console, report: Report, most_rows: int) -> None:
    period, contents = report.period, report.contents
    console.print(Text(f"Event log {readable(report.log)}", "bold"))
    # soft_wrap, here and below: in a pipe a sentence stays one line.
    console.print(f"{readable(period.begin)} to {readable(period.end)} UTC", soft_wrap=True)
    console.print(
        ", ".join(
            f"{readable(contents[name], Form.COUNT)} {label}"
            for name, label in (
                ("records", "records"),
                ("objects", "objects"),
                ("event", "events"),
                ("create", "beginnings"),
                ("delete", "ends"),
                ("gap", "gaps"),
            )
        ),
        soft_wrap=True,
    )
    if number(contents, "records") == 0:
        console.print("\nThe log holds nothing of this period.", soft_wrap=True)
        return
    for finding in findings(report):
        console.print(Text("! ", "bold red") + finding)
    for table in report.tables:
        console.print()
        _show_table(console, table, most_rows)


def _show_table(console: Console, table: Table, most_rows: int) -> None:
    rows = table.rows[:most_rows]
    rest = f" (the first {len(rows)} of {table.of:,})" if table.of > len(rows) else ""
    console.print(Text(table.title, "bold") + rest)
    if not rows:
        console.print(f"  {table.nothing}", soft_wrap=True)
        return
    if table.by_source:
        # The sort is stable: within a source the order of importance stays.
        rows = tuple(sorted(rows, key=lambda row: str(row["source"] or "")))
    columns = [
        column
        for column in table.columns
        if not column.optional or any(row[column.name] is not None for row in rows)
    ]
    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    headings = [column.heading for column in columns]
    cells = [[_cell(column, row) for column in columns] for row in rows]
    # Texts may be cut. A number that is cut would be read as another one.
    kinds = [["" if column.form is Form.TEXT else 0 for column in columns]]
    places = fitting(headings, cells, kinds, console.width)
    for place, width in places.items():
        is_left = columns[place].form in {Form.TEXT, Form.TIME}
        shown.add_column(
            Text(headings[place]),
            width=width,
            justify="left" if is_left else "right",
            overflow="ellipsis",
            no_wrap=True,
        )
    for row, line in zip(rows, cells, strict=True):
        shown.add_row(*(Text(line[place]) for place in places), style=_style(row))
    console.print(shown)
    left_out = [heading for place, heading in enumerate(headings) if place not in places]
    if left_out:
        console.print(f"  too narrow for {', '.join(left_out)}: --json shows all", soft_wrap=True)


def _cell(column: Column, row: Row) -> str:
    value = row[column.name]
    if value is None:
        return column.absent
    text = readable(value, column.form)
    return cut(text, column.most) if column.most else text


def _style(row: Row) -> str:
    if row.get("silent"):
        return "red"
    return SEVERITY_STYLES.get(str(row.get("severity")), "")
