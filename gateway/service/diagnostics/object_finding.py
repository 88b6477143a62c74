"""One object by any of its names: path, OID, descriptor, ObjectName, native id; or why there is none."""

from __future__ import annotations

from gateway.feed.records import Interest
from gateway.model.texts import harmless, unescaped
from gateway.service.diagnostics.published_names import PublishedNames
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.documents import time_text
from gateway.terminal.selection import NotOneObjectError, find_object
from gateway.terminal.view import KnownObject, TerminalView


def interest_in(names: PublishedNames, text: str) -> Interest | None:
    """The objects that `object_of` has to see to find the one that ``text`` means; ``None`` for all."""
    if names.is_object_name(text):
        return None  # which object has it is seen from the object only
    texts = {text, unescaped(text)}
    texts |= {one.split("/", 2)[2] for one in texts if one.count("/") > 1}
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return None  # no text that could travel
    oid = names.oid_of(text)
    meaning = None if oid is None else names.meaning(oid)
    row = None if meaning is None else meaning.row
    return Interest(tuple(sorted(texts)), () if row is None else ((row.source, row.row),))


def object_of(view: TerminalView, names: PublishedNames, text: str, *, whole: bool = False) -> KnownObject:
    """The one object that ``text`` means.

    Args:
        view: what there is.
        names: of the norths.
        text: as it was written.
        whole: take no abbreviation: for who changes something.

    Raises:
        CommandError: it means none, or several; the text names candidates.
    """
    found = by_north(view, names, text)
    if found is not None:
        return found
    try:
        return find_object(view, text, whole=whole)
    except NotOneObjectError as error:
        # What was copied from a line has escapes in place of what does not print. Who changes something has
        # to mean exactly this: another object may be called as the escapes read.
        if not whole and not error.several and unescaped(text) != text:
            return object_of(view, names, unescaped(text))
        raise CommandError(ExitCode.NOT_FOUND, _complaint(error, whole=whole)) from error


def by_north(view: TerminalView, names: PublishedNames, text: str) -> KnownObject | None:
    """The object that a north calls so, if it is there."""
    if names.is_object_name(text):
        return names.by_object_name(text, view.objects.values())
    oid = names.oid_of(text)
    meaning = None if oid is None else names.meaning(oid)
    return None if meaning is None or meaning.row is None else view.objects.get(meaning.row)


def _complaint(error: NotOneObjectError, *, whole: bool) -> str:
    shown = "".join(f"\n  {harmless(path)}" for path in error.candidates)
    if error.several:
        left = error.several - len(error.candidates)
        more = f"\n  and {left:,} more" if left else ""
        return f"{error.text!r} means {error.several:,} objects: write more of the name{shown}{more}"
    if error.ended is not None:
        record = error.ended.record
        when = time_text(record.deleted or record.heard) if record is not None else None
        return (
            f"{error.text!r} is gone: {harmless(error.ended.path)} was deleted{f' at {when}' if when else ''}"
        )
    if whole and unescaped(error.text) != error.text:
        return (
            f"{error.text!r} is no object; where a name has characters that do not print, write its OID or "
            "ObjectName, which `amqp-gateway explain` tells"
        )
    if whole and error.candidates:
        return f"{error.text!r} is no object; write the whole name of what is to be changed{shown}"
    meant = f"; perhaps you mean{shown}" if shown else ": `amqp-gateway tree` shows what there is"
    return f"{error.text!r} is no object{meant}"
