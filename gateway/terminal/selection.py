"""Finding objects by the text that users write: paths, abbreviations of paths, patterns, native ids.

A path is ``SOURCE/PACKAGE:CLASS/NAME`` with the stable name at its end, which may hold slashes. Any part may
be shortened where that still means one object; for a change the path must be whole, because the meaning of a
shortened name depends on the other objects.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gateway.escapes import escaped
from gateway.feed.values import ObjectLink
from gateway.terminal.view import (
    AlarmChanged,
    Changed,
    Created,
    Deleted,
    EventOccurred,
    FeedChange,
    GapFound,
    KnownObject,
    OperationChanged,
    SourceChanged,
    TerminalView,
)

_MAX_COMPARED: Final = 20_000
"""The maximum number of paths that one which does not exist is compared with, for a hint."""

_CANDIDATES: Final = 10

_EXACT, _SHORTENED = 0, 1
_STABLE, _LEAF, _BEGINNING = 0, 1, 2


class NotOneObjectError(Exception):
    """A text means no object, or several.

    Attributes:
        text: the text as written.
        candidates: paths of the objects that may be meant, a few of them.
        several: the number of objects that it means; 0 where it means none.
        ended: the last object of this name, where it is gone.
    """

    def __init__(
        self, text: str, candidates: Iterable[str] = (), several: int = 0, ended: Deleted | None = None
    ) -> None:
        self.text = text
        self.candidates = tuple(candidates)
        self.several = several
        self.ended = ended
        super().__init__(text)


def find_object(view: TerminalView, text: str, *, whole: bool = False) -> KnownObject:
    """Return the one object that ``text`` means: a path, or a native id.

    Args:
        view: the known objects.
        text: the text as written.
        whole: take no abbreviation but a class without its package.

    Raises:
        NotOneObjectError: there is none, or there are several.
    """
    found = by_native_id(view, text) or find_objects(view, text, whole=whole)
    if len(found) == 1:
        return found[0]
    if found:
        paths = sorted(known.path for known in found)
        raise NotOneObjectError(text, paths[:_CANDIDATES], len(paths))
    raise NotOneObjectError(text, _alike(view, text, whole=whole), 0, _ended(view, text))


def by_native_id(view: TerminalView, text: str) -> list[KnownObject]:
    """Return the objects that have this native id."""
    return [known for known in view.objects.values() if known.record.native_id == text]


def find_objects(view: TerminalView, text: str, *, whole: bool = False) -> list[KnownObject]:
    """Return the objects that a path, or a name alone, fits best; ``whole`` as of `find_object`."""
    if text.count("/") < 2:  # noqa: PLR2004  a path has three parts
        if whole:
            return []
        exact = [
            known
            for known in view.objects.values()
            if text and text in {known.record.stable_name, known.record.leaf_name}
        ]
        stable = [known for known in exact if known.record.stable_name == text]
        # A stable name is unique within a class; the own name of another object may be the same text.
        return stable or exact
    # At most twice: a stable name may contain slashes.
    source, class_name, name = text.split("/", 2)
    worst = _EXACT if whole else _BEGINNING
    best: list[KnownObject] = []
    best_rank: tuple[int, int, int] | None = None
    for known in view.objects.values():
        rank = _rank(known, source, class_name, name)
        if rank is None or max(rank) > worst or (best_rank is not None and rank > best_rank):
            continue
        if rank != best_rank:
            best, best_rank = [], rank
        best.append(known)
    return best


def _rank(known: KnownObject, source: str, class_name: str, name: str) -> tuple[int, int, int] | None:
    """Return the rank of a path's fit to an object, the smallest the best; ``None`` where it does not fit."""
    record, key = known.record, known.in_class.schema.key
    if not known.source.startswith(source):
        return None
    full = str(key)
    if class_name in {full, key.name}:
        class_rank = _EXACT
    elif full.startswith(class_name) or key.name.startswith(class_name):
        class_rank = _SHORTENED
    else:
        return None
    if name == record.stable_name:
        name_rank = _STABLE
    elif name == record.leaf_name:
        name_rank = _LEAF
    elif record.stable_name.startswith(name) or record.leaf_name.startswith(name):
        name_rank = _BEGINNING
    else:
        return None
    # The name counts first: who writes a whole name and a short class means that name.
    return name_rank, class_rank, _EXACT if known.source == source else _SHORTENED


def _alike(view: TerminalView, text: str, *, whole: bool) -> list[str]:
    """Return paths that may have been meant."""
    if whole:
        # The user wrote less than all of it, which is refused here: what it would have meant is shown.
        shortened = find_objects(view, text)
        if shortened:
            return sorted(known.path for known in shortened)[:_CANDIDATES]
    # difflib compares with each: with so many paths it takes longer than a user waits for a hint.
    if len(view.objects) > _MAX_COMPARED:
        return []
    paths = {known.path: known.path for known in view.objects.values()}
    paths |= {known.record.leaf_name: known.path for known in view.objects.values()}
    # Both whole paths and own names are compared: either may have been mistyped.
    close = difflib.get_close_matches(text, paths, n=3, cutoff=0.75)
    return sorted({paths[name] for name in close})


def _ended(view: TerminalView, text: str) -> Deleted | None:
    """Return the last object of this name that is gone."""
    found = None
    for deleted in view.ends.values():
        record = deleted.record
        leaf = record.leaf_name if record is not None else ""
        native = record.native_id if record is not None else ""
        short = deleted.path.replace(
            f"/{deleted.class_name}/", f"/{deleted.class_name.split(':', 1)[-1]}/", 1
        )
        if text and text in {deleted.path, short, deleted.stable_name, leaf, native}:
            found = deleted
    return found


@dataclass(frozen=True, slots=True)
class Pattern:
    """A selection of objects by ``SOURCE/CLASS/NAME`` with ``*``, ``?`` and ``[...]`` as of a shell.

    A part that is left out at the end, or empty, selects all. ``*`` stands for slashes too. ``CLASS`` is a
    class with or without its package, ``NAME`` a stable name or the object's own.
    """

    source: re.Pattern[str]
    class_name: re.Pattern[str]
    name: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Return the pattern that was written; an empty one selects everything."""
        source, class_name, name, *_ = (*text.split("/", 2), "", "", "")
        return cls(*(re.compile(fnmatch.translate(part or "*")) for part in (source, class_name, name)))

    def has(self, source: str, class_name: str, stable_name: str, leaf_name: str) -> bool:
        """Return whether an object of these names is selected; its class is ``package:class``."""
        return (
            self.has_source(source)
            and self.has_class(class_name)
            and any(self.name.match(name) for name in _names(stable_name, leaf_name))
        )

    def has_source(self, source: str) -> bool:
        """Return whether objects of a source of this name may be selected."""
        return self.source.match(source) is not None

    def has_class(self, class_name: str) -> bool:
        """Return whether objects of the class ``package:class`` may be selected."""
        return any(self.class_name.match(name) for name in (class_name, class_name.split(":", 1)[-1]))

    def names_all(self) -> bool:
        """Return whether only the source is narrowed, so that changes that concern no object are selected."""
        everything = fnmatch.translate("*")
        return self.class_name.pattern == self.name.pattern == everything

    def objects(self, view: TerminalView) -> Iterator[KnownObject]:
        """Yield the selected objects, by source, class and stable name."""
        found = [known for known in view.objects.values() if self.fits(known)]
        return iter(sorted(found, key=lambda known: (known.record.source, known.class_name, _order(known))))

    def fits(self, known: KnownObject) -> bool:
        """Return whether this object is selected."""
        return self.has(known.source, known.class_name, known.record.stable_name, known.record.leaf_name)


def _names(*names: str) -> Iterator[str]:
    """Yield names as they are, and as they are displayed, from where they may have been copied."""
    for name in names:
        yield name
        yield escaped(name)


def _order(known: KnownObject) -> tuple[str, int]:
    return known.record.stable_name, known.record.row


def concerns(  # noqa: PLR0911  one for each kind
    pattern: Pattern, change: FeedChange, view: TerminalView
) -> bool:
    """Return whether a change concerns what a pattern selects.

    A change of a source concerns every pattern that selects anything of it; one of the gateway concerns all.
    """
    match change:
        case Created(known) | Changed(known, _):
            return pattern.fits(known)
        case Deleted(source, class_name, stable_name, record):
            leaf = record.leaf_name if record is not None else stable_name
            return pattern.has(source, class_name, stable_name, leaf)
        case EventOccurred(source, _, record):
            return _concerns_link(pattern, source, record.subject, record.source, view)
        case AlarmChanged(source, record):
            return _concerns_link(pattern, source, record.subject, record.source, view)
        case OperationChanged(source, record):
            return pattern.has(source, record.class_name, record.stable_name, record.leaf_name)
        case SourceChanged(record):
            return pattern.has_source(record.name)
        case GapFound(source, _):
            return pattern.has_source(source)
    return True


def _concerns_link(
    pattern: Pattern, source: str, link: ObjectLink | None, number: int, view: TerminalView
) -> bool:
    """Return whether the object, which may be gone, is selected; without one, everything of the source."""
    if link is None:
        return pattern.has_source(source) and pattern.names_all()
    known = view.linked(link, number)
    leaf = link.stable_name if known is None else known.record.leaf_name
    return pattern.has(source, link.class_name, link.stable_name, leaf)
