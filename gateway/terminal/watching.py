"""What somebody wants to be told who watches a part of everything."""

from __future__ import annotations

from gateway.feed.values import ObjectLink
from gateway.terminal.changes import (
    AlarmTold,
    Changed,
    Created,
    Deleted,
    EventTold,
    FeedChange,
    GapTold,
    OperationTold,
    SourceTold,
)
from gateway.terminal.selection import Pattern
from gateway.terminal.view import TerminalView


def concerns(  # noqa: PLR0911  one for each kind
    pattern: Pattern, happening: FeedChange, view: TerminalView
) -> bool:
    """Whether something that happened is of what a pattern means.

    What happens to a source concerns whoever watches anything of it; what happens to the gateway, everybody.
    """
    match happening:
        case Created(known) | Changed(known, _):
            return pattern.fits(known)
        case Deleted(source, class_name, stable_name, record):
            leaf = record.leaf_name if record is not None else stable_name
            return pattern.has(source, class_name, stable_name, leaf)
        case EventTold(source, _, record):
            return _concerns_link(pattern, source, record.subject, record.source, view)
        case AlarmTold(source, record):
            return _concerns_link(pattern, source, record.subject, record.source, view)
        case OperationTold(source, record):
            return pattern.has(source, record.class_name, record.stable_name, record.leaf_name)
        case SourceTold(record):
            return pattern.has_source(record.name)
        case GapTold(source, _):
            return pattern.has_source(source)
    return True


def _concerns_link(
    pattern: Pattern, source: str, link: ObjectLink | None, number: int, view: TerminalView
) -> bool:
    """Whether an object is meant that may be gone; of what has none, whether everything of the source is."""
    if link is None:
        return pattern.has_source(source) and pattern.names_all()
    known = view.linked(link, number)
    leaf = link.stable_name if known is None else known.record.leaf_name
    return pattern.has(source, link.class_name, link.stable_name, leaf)
