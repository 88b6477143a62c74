"""Meanings of object identifiers and descriptors of SNMP, as registries have them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path

from gateway.model.schema import ClassKey
from gateway.service.diagnostics.snmp_meaning import SnmpMeaning
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.snmp.ber import Oid, dotted
from gateway.snmp.oid_registry import (
    ARGUMENTS_ARC,
    ClassEntry,
    EventEntry,
    OidRegistry,
    load_shipped_registries,
)
from gateway.snmp.registry_files import SiteRegistry
from gateway.snmp.row_columns import ROW_COLUMNS, RowColumn
from gateway.state_folder import StateError
from gateway.terminal.view import ObjectKey
from gateway.yaml_documents import DocumentError


def read_registries(state: Path, site: str) -> tuple[OidRegistry, ...]:
    """Return the shipped registries and the site's.

    Args:
        state: the state folder.
        site: the label of the gateway.

    Raises:
        CommandError: one cannot be read.
    """
    today = dt.datetime.now(tz=dt.UTC).date()
    try:
        return (*load_shipped_registries(), SiteRegistry(state, site).load(today))
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except (DocumentError, OSError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def meaning_of(registry: OidRegistry, oid: Oid, relative: Oid) -> SnmpMeaning:
    """Return the meaning below a module: ``0.E`` an event, ``1.C`` a class, ``1.1000.A`` an argument."""
    text = dotted(oid)
    match relative:
        case (0, arc, *_):
            for event_entry in registry.events:
                if event_entry.arc == arc:
                    return SnmpMeaning(
                        text,
                        _named(registry, event_entry.descriptor),
                        _key(registry, event_entry),
                        is_event=True,
                    )
        case (1, area, arc, *rest) if area == ARGUMENTS_ARC:
            for argument in registry.arguments:
                if arc in argument.arcs:
                    descriptor = argument.descriptors[argument.arcs.index(arc)]
                    return SnmpMeaning(text, _named(registry, descriptor, rest), element=argument.name)
        case (1, arc, *rest):
            for class_entry in registry.classes:
                if class_entry.arc == arc:
                    return _class_meaning(registry, class_entry, text, tuple(rest))
    return SnmpMeaning(text, registry.module)


def _class_meaning(registry: OidRegistry, class_entry: ClassEntry, text: str, rest: Oid) -> SnmpMeaning:
    """Return the meaning below a table: ``1.COLUMN.SOURCE.ROW``."""
    key = _key(registry, class_entry)
    match rest:
        case (1, column, *index):
            name, descriptor, description = _column(class_entry, column)
            row = ObjectKey(index[0], str(key), index[1]) if len(index) == 2 else None  # noqa: PLR2004
            return SnmpMeaning(text, _named(registry, descriptor, index), key, name, description, row)
        case _:
            suffix = "Entry" if rest else "Table"
            return SnmpMeaning(text, _named(registry, class_entry.descriptor + suffix), key)


def _column(class_entry: ClassEntry, column: int) -> tuple[str, str, str]:
    """Return name, descriptor and description of a column; the description of the gateway's own only."""
    if column in set(RowColumn):
        text = ROW_COLUMNS[RowColumn(column)]
        name = text.suffix[0].lower() + text.suffix[1:]
        return name, class_entry.descriptor + text.suffix, text.description.format(label=class_entry.name)
    for element in class_entry.elements:
        if column in element.columns:
            return element.name, element.descriptors[element.columns.index(column)], ""
    return "", f"{class_entry.descriptor}Entry.{column}", ""


def descriptors(registry: OidRegistry, root: Oid) -> Iterator[tuple[str, Oid]]:
    """Yield every descriptor that names something, with its object identifier without an index."""
    for class_entry in registry.classes:
        entry = registry.entry_oid(root, class_entry)
        yield class_entry.descriptor + "Table", entry[:-1]
        yield class_entry.descriptor + "Entry", entry
        for number, text in ROW_COLUMNS.items():
            yield class_entry.descriptor + text.suffix, (*entry, number)
        for element in class_entry.elements:
            for column, descriptor in zip(element.columns, element.descriptors, strict=True):
                yield descriptor, (*entry, column)
    for event_entry in registry.events:
        yield event_entry.descriptor, registry.notification_oid(root, event_entry)
    for argument in registry.arguments:
        for arc, descriptor in zip(argument.arcs, argument.descriptors, strict=True):
            yield descriptor, registry.argument_oid(root, arc)[:-1]


def _named(registry: OidRegistry, descriptor: str, index: Iterable[int] = ()) -> str:
    return f"{registry.module}::{'.'.join((descriptor, *map(str, index)))}"


def _key(registry: OidRegistry, entry: ClassEntry | EventEntry) -> ClassKey:
    package, _, name = entry.name.rpartition(":")
    return ClassKey(package or registry.package, name)
