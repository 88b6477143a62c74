"""What somebody wants to be told who watches a part of everything."""

from __future__ import annotations

from gateway.feed.values import ObjectLink
from gateway.terminal.happenings import (
    AlarmTold,
    Changed,
    Created,
    Deleted,
    EventTold,
    GapTold,
    Happening,
    OperationTold,
    SourceTold,
)
from gateway.terminal.picture import Picture
from gateway.terminal.selection import Pattern


def concerns(  # noqa: PLR0911  one for each kind
    pattern: Pattern, happening: Happening, picture: Picture
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
            return _concerns_link(pattern, source, record.subject, record.source, picture)
        case AlarmTold(source, record):
            return _concerns_link(pattern, source, record.subject, record.source, picture)
        case OperationTold(source, record):
            return pattern.has(source, record.class_name, record.stable_name, record.leaf_name)
        case SourceTold(record):
            return pattern.has_source(record.name)
        case GapTold(source, _):
            return pattern.has_source(source)
    return True


def _concerns_link(
    pattern: Pattern, source: str, link: ObjectLink | None, number: int, picture: Picture
) -> bool:
    """Whether an object is meant that may be gone; of what has none, whether everything of the source is."""
    if link is None:
        return pattern.has_source(source) and pattern.names_all()
    known = picture.linked(link, number)
    leaf = link.stable_name if known is None else known.record.leaf_name
    return pattern.has(source, link.class_name, link.stable_name, leaf)
