"""Lines that commands print for people: names and values in them are escaped, each by itself.

What else does not print, in the texts of records, is escaped where lines are printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gateway.escapes import escaped
from gateway.feed.operations import OperationRecord, OperationState
from gateway.feed.values import FeedValue
from gateway.model.schema import Argument, Element
from gateway.model.values import ValueType
from gateway.terminal.documents import descriptions, link_path, text_form, time_text
from gateway.terminal.selection import Pattern
from gateway.terminal.view import (
    KINDS,
    AlarmChanged,
    Changed,
    CoreChanged,
    Created,
    Deleted,
    EventLogChanged,
    EventOccurred,
    FeedChange,
    GapFound,
    KnownObject,
    ObjectKey,
    OperationChanged,
    SourceChanged,
    TerminalView,
    ValueChange,
    path_of,
)

ABSENT = "(absent)"
"""The text of an absent value; no value of ours looks so but a text that says it."""

_INDENT = "  "


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines, each column as wide as its widest cell but for the last."""
    rows = list(rows)
    # The last column is not filled up, so that lines do not end in spaces, or wrap for them.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return [
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1])).rstrip()
        for row in rows
    ]


def value_rows(known: KnownObject, elements: Iterable[Element]) -> list[tuple[str, str]]:
    """Return name and value of elements, with unit."""
    return [
        (element.name, value_with_unit(element, known.value(element.name), known.source))
        for element in elements
    ]


def object_lines(known: KnownObject, view: TerminalView) -> list[str]:
    """Return the lines of an object with all its values."""
    record = known.record
    stale = view.stale_since(known)
    about = [
        ("class", known.class_name),
        ("lifetime", record.lifetime.value),
        ("created", time_text(record.created) or "not known"),
        ("sampled", time_text(record.statistics_sampled or record.properties_sampled) or "never"),
    ]
    if record.parent is not None:
        about.append(("parent", escaped(link_path(record.parent, known.source))))
    if stale:
        about.append(("stale since", time_text(stale) or ""))
    schema = known.in_class.schema
    lines = [escaped(known.path), *(f"{_INDENT}{line}" for line in aligned(about))]
    for title, elements in (("properties", schema.properties), ("statistics", schema.statistics)):
        rows = value_rows(known, (element for element in known.read(elements) if element.readable))
        if rows:
            lines += [title, *(f"{_INDENT}{line}" for line in aligned(rows))]
    return lines


def tree_lines(view: TerminalView, pattern: Pattern) -> Iterator[str]:
    """Yield objects below their sources and parents; one whose parent is not selected is below its source."""
    meant = {known.key: known for known in pattern.objects(view)}
    # A source is known by its number, an object by its key.
    children: dict[ObjectKey | int, list[KnownObject]] = {}
    for known in meant.values():
        link = known.record.parent
        parent = None if link is None else ObjectKey(known.record.source, link.class_name, link.row)
        # A parent that the pattern leaves out, or that has not been received, is not there to stand below.
        has_parent = parent is not None and parent in meant and parent != known.key
        place = parent if parent is not None and has_parent else known.record.source
        children.setdefault(place, []).append(known)
    for number in sorted(view.sources):
        source = view.sources[number]
        if not pattern.has_source(source.name) or (number not in children and not pattern.names_all()):
            continue
        yield f"{source.name}  {source.state.value}"
        yield from _below(children, number, 1)


def _below(
    children: Mapping[ObjectKey | int, list[KnownObject]], place: ObjectKey | int, depth: int
) -> Iterator[str]:
    """Yield the lines below a source or an object; a circle of parents is nowhere below a source."""
    # A stack instead of recursion: a peer decides how deep its objects are nested.
    stack = [(known, depth) for known in reversed(children.get(place, ()))]
    while stack:
        known, deep = stack.pop()
        yield f"{_INDENT * deep}{known.class_name}  {escaped(known.record.stable_name)}"
        stack += [(child, deep + 1) for child in reversed(children.get(known.key, ()))]


def summary_rows(view: TerminalView, pattern: Pattern) -> Iterator[tuple[str, str, str]]:
    """Yield source, class and the number of its selected objects."""
    counts: dict[tuple[str, str], int] = {}
    for known in pattern.objects(view):
        place = (known.source, known.class_name)
        counts[place] = counts.get(place, 0) + 1
    for (source, class_name), number in counts.items():
        yield source, class_name, str(number)


def change_line(change: FeedChange, view: TerminalView, now: int) -> str:
    """Make one line of ``watch``."""
    # The time of day, to the millisecond.
    clock = (time_text(now) or "")[11:23]
    return f"{clock}  {KINDS[type(change)]:<9}  {_details(change, view)}"


def _details(change: FeedChange, view: TerminalView) -> str:  # noqa: C901, PLR0911  one case for each kind
    match change:
        case Created(known):
            return escaped(known.path)
        case Changed(known, changes):
            return (
                f"{escaped(known.path)}  {' '.join(f'{value_change(one, known.source)};' for one in changes)}"
            )
        case Deleted(record=record):
            is_reported = record is not None and not record.inferred
            path = escaped(change.path)
            return path if is_reported else f"{path}  (found missing)"
        case EventOccurred(source, in_class, record):
            severity = record.severity.name.lower()
            return f"{source}  {severity} {in_class.schema.key}  {record.text}  {record.event_id}"
        case AlarmChanged(source, record):
            state = "cleared" if record.cleared else "raised"
            return (
                f"{source}  {record.severity.name.lower()} {escaped(record.condition)} {state}: {record.text}"
            )
        case SourceChanged(record):
            return f"{record.name}  {_state(record.state.value, record.detail)}"
        case GapFound(source, record):
            start, end = time_text(record.start), time_text(record.end)
            return f"{source}  {start} to {end} was not received: {record.reason}"
        case OperationChanged(_, record):
            return f"{operation_line(record, view)}  {record.operation_id}"
        case EventLogChanged(record):
            return _state(record.state.value, record.detail)
        case CoreChanged(reason):
            return f"cannot be reached: {reason}" if reason else "is back"


def _state(state: str, detail: str) -> str:
    return f"{state}: {detail}" if detail else state


def operation_line(record: OperationRecord, view: TerminalView) -> str:
    """Return an operation as one line: principal, request, object and outcome."""
    source = view.source_name(record.source)
    described = descriptions(view, record.class_name, record.method)
    absent = (f"{name}={ABSENT}" for name in record.absent)
    values = " ".join((assignments(record.values, described, source), *absent)).strip()
    what = f"{record.kind.value} {record.method}".rstrip()
    outcome = "" if record.outcome is None else f": {record.outcome.value}"
    text = f" ({record.text})" if record.text and record.state is not OperationState.BEGUN else ""
    path = path_of(source, record.class_name, record.stable_name) if record.class_name else "nothing known"
    path = escaped(path)
    return f"{record.state.value} {what} {path} by {record.principal} {values}".rstrip() + outcome + text


def assignments(
    values: Mapping[str, FeedValue], described: Mapping[str, Element | Argument], source: str
) -> str:
    """Return ``name=value name=value``, as on a command line."""
    unknown = Element("", ValueType.STRING)
    return " ".join(
        f"{name}={text_form(described.get(name, unknown), value, source)}" for name, value in values.items()
    )


def value_with_unit(described: Element | Argument, value: FeedValue | None, source: str) -> str:
    """Return a value as people read it, with its unit if it has one."""
    if value is None:
        return ABSENT
    text = text_form(described, value, source)
    has_unit = isinstance(value, str) or described.type is ValueType.DURATION  # in its own text
    return f"{text} {described.unit}" if described.unit and not has_unit else text


def value_change(change: ValueChange, source: str) -> str:
    """Return ``name: former -> value``, with units."""
    former, value = (
        value_with_unit(change.element, value, source) for value in (change.former, change.value)
    )
    return f"{change.element.name}: {former} -> {value}"
