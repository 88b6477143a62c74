"""The tables of a report: in which order, under which headings, and what an empty one means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.analytics.reports import happenings
from gateway.analytics.reports.answers import Column, Form


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is shown.

    Attributes:
        title: for people.
        columns: what people are shown; JSON has all.
        nothing: what no rows mean.
    """

    title: str
    columns: tuple[Column, ...]
    nothing: str


LAYOUTS: Final = {
    "queues": Layout(
        "Busiest queues",
        (
            Column("queue", "Queue"),
            Column("published_per_second", "Published/s", Form.RATE),
            Column("published_peak", "Peak", Form.RATE),
            Column("delivered_per_second", "Delivered/s", Form.RATE),
            Column("delivered_peak", "Peak", Form.RATE),
            Column("acknowledged_per_second", "Acked/s", Form.RATE),
            Column("published", "Published", Form.COUNT),
            Column("delivered", "Delivered", Form.COUNT),
            Column("redelivered", "Redelivered", Form.COUNT),
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
    "events": Layout(
        "Events by severity",
        (
            Column("severity", "Severity"),
            Column("source", "Source"),
            Column("event", "Event"),
            Column("events", "Events", Form.COUNT),
            Column("first", "First", Form.TIME),
            Column("last", "Last", Form.TIME),
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
        f"no event came {happenings.STORM_A_MINUTE} times a minute",
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
        f"nothing began {happenings.FLAPPING_TIMES} times or more",
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
        "no source was told of",
    ),
    "gaps": Layout(
        "Gaps",
        (
            Column("source", "Source"),
            Column("gaps", "Gaps", Form.COUNT),
            Column("seconds", "Not heard for", Form.SECONDS),
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
"""By name, in order."""
