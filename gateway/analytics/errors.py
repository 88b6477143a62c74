"""What keeps analytics from going on, told to people."""

from __future__ import annotations


class AnalyticsError(Exception):
    """Analytics cannot go on; the text is one line that says why and what to do."""


class NoLogError(AnalyticsError):
    """There is no event log where one should be."""


class MissingError(AnalyticsError):
    """Something that the extra ``[spark]`` needs is not installed."""
