"""The schema lock: which numbers, names and syntaxes a package's classes and events have in SNMP, for ever.

A lock is text under version control (``mappings/locks/<package>.lock.yaml``) or, for classes and events met
at run time that no shipped lock knows, a file in the state folder. It only ever grows:
`gateway.snmp.lock_growth` and `gateway.snmp.event_growth` are its writers. Numbers are relative; the root is
added from the configuration. Here are the lock as a whole, and the file's reader and writer.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, model_validator

from gateway.model.schema import ClassKey
from gateway.snmp.ber import Oid
from gateway.snmp.lock_entries import (
    MAX_ARC,
    ArgumentLock,
    ClassLock,
    EventLock,
    refuse_repeated,
)
from gateway.yaml_documents import StrictModel, parse_document, read_document

DEFAULT_ROOT: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999)
"""The experimental arc of net-snmp (netSnmpPlaypen): for trying out, not for a site that publishes."""

PROVISIONAL_PACKAGE_NUMBER = 1_000
"""Stands for the package in agClassIndex where a class is provisional."""

ARGUMENTS_ARC = 1_000
"""Below the module's objects: what only its notifications carry. No class can have this arc."""

_MODULE = r"^[A-Z][A-Za-z0-9-]{0,63}$"
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NOT_PLAIN_IN_YAML = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_KEY_ORDER = (
    *("name", "arc", "column", "kind", "syntax", "descriptor"),
    *("unit", "status", "twin", "values", "arguments"),
)

_MODULE_SUFFIXES = (
    "MIB",
    "Notifications",
    "Objects",
    "Conformance",
    "Groups",
    "Compliances",
    "Compliance",
    "NotificationObjects",
    "NotificationObjectGroup",
    "NotificationObjectObsoleteGroup",
    "NotificationGroup",
    "NotificationObsoleteGroup",
)


class Lock(StrictModel):
    """The lock of one package, or (``arc`` 0, no ``package``) of all that is provisional at a site.

    Attributes:
        arc: below ``root.2`` for a package; 0 for the provisional module at ``root.3``.
        revisions: the days on which the content changed, ascending.
    """

    version: Annotated[int, Field(ge=1, le=1)] = 1
    package: str
    arc: Annotated[int, Field(ge=0, le=MAX_ARC)]
    module: Annotated[str, Field(pattern=_MODULE)]
    prefix: Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9]{0,15}$")]
    revisions: Annotated[tuple[dt.date, ...], Field(min_length=1)]
    classes: tuple[ClassLock, ...] = ()
    arguments: tuple[ArgumentLock, ...] = ()
    events: tuple[EventLock, ...] = ()

    @property
    def provisional(self) -> bool:
        """Whether this lock takes classes of any package, at the site's own arc."""
        return self.arc == 0

    @property
    def last_updated(self) -> dt.date:
        """LAST-UPDATED of the module."""
        return self.revisions[-1]

    @property
    def module_arc(self) -> Oid:
        """Where the module stands below the root."""
        return (3,) if self.provisional else (2, self.arc)

    def entry_name(self, key: ClassKey) -> str:
        """What the class or event is called in this lock."""
        return str(key) if self.provisional else key.name

    def find(self, key: ClassKey) -> ClassLock | None:
        """The class of that package and name, or ``None`` where this lock does not know it."""
        if not self.provisional and key.package != self.package:
            return None
        return self._classes_by_name.get(self.entry_name(key))

    def find_event(self, key: ClassKey) -> EventLock | None:
        """The event of that package and name, or ``None`` where this lock does not know it."""
        if not self.provisional and key.package != self.package:
            return None
        return self._events_by_name.get(self.entry_name(key))

    def arguments_of(self, event_lock: EventLock) -> tuple[ArgumentLock, ...]:
        """The arguments of an event, in the order of its notification."""
        return tuple(self._arguments_by_arc[arc] for arc in event_lock.arguments)

    def entry_oid(self, root: Oid, class_lock: ClassLock) -> Oid:
        """The object identifier of the table's entry: columns and index follow it."""
        return (*root, *self.module_arc, 1, class_lock.arc, 1)

    def notification_oid(self, root: Oid, event_lock: EventLock) -> Oid:
        """The object identifier of the event's notification: the value of snmpTrapOID.0."""
        return (*root, *self.module_arc, 0, event_lock.arc)

    def argument_oid(self, root: Oid, arc: int) -> Oid:
        """The instance that a notification carries of an argument, or of its twin."""
        return (*root, *self.module_arc, 1, ARGUMENTS_ARC, arc, 0)

    def class_index(self, class_lock: ClassLock) -> int:
        """What identifies the class in the tables of the fixed MIB (agClassIndex)."""
        package = PROVISIONAL_PACKAGE_NUMBER if self.provisional else self.arc
        return package * (MAX_ARC + 1) + class_lock.arc

    @property
    def reserved_descriptors(self) -> tuple[str, ...]:
        """Descriptors that the module needs beside those of its classes."""
        return tuple(self.prefix + suffix for suffix in _MODULE_SUFFIXES)

    def descriptors(self) -> Iterator[str]:
        """Every descriptor of the module."""
        yield from self.reserved_descriptors
        for class_lock in self.classes:
            yield from class_lock.reserved_descriptors
            for element in class_lock.elements:
                yield from element.descriptors
        for argument in self.arguments:
            yield from argument.descriptors
        for event_lock in self.events:
            yield event_lock.descriptor

    @cached_property
    def _classes_by_name(self) -> dict[str, ClassLock]:
        return {class_lock.name: class_lock for class_lock in self.classes}

    @cached_property
    def _events_by_name(self) -> dict[str, EventLock]:
        return {event_lock.name: event_lock for event_lock in self.events}

    @cached_property
    def _arguments_by_arc(self) -> dict[int, ArgumentLock]:
        return {argument.arc: argument for argument in self.arguments}

    @model_validator(mode="after")
    def _names_and_numbers_differ(self) -> Lock:
        if self.provisional == bool(self.package):
            raise ValueError("a package has an arc from 1 on; arc 0 is for provisional classes of no package")
        if list(self.revisions) != sorted(set(self.revisions)):
            raise ValueError("revisions must ascend")
        refuse_repeated("the class", (c.name for c in self.classes))
        refuse_repeated("the arc", (c.arc for c in self.classes))
        refuse_repeated("the event", (e.name for e in self.events))
        refuse_repeated("the arc", (e.arc for e in self.events))
        refuse_repeated("the arc", (arc for argument in self.arguments for arc in argument.arcs))
        refuse_repeated(
            "the current argument",
            ((a.name, a.syntax.value, a.unit) for a in self.arguments if a.current),
        )
        for event_lock in self.events:
            for arc in event_lock.arguments:
                if arc not in self._arguments_by_arc:
                    raise ValueError(f"{event_lock.name}: there is no argument {arc}")
        refuse_repeated("the descriptor", (d.lower() for d in self.descriptors()))
        return self


def read_lock(path: Path) -> Lock:
    """The lock in the file ``path``.

    Raises:
        gateway.yaml_documents.DocumentError: unreadable, not of this shape, or with numbers used twice;
            the text names file and line.
    """
    return read_document(path, Lock)


def parse_lock(text: str, path: Path) -> Lock:
    """Like `read_lock`, of text at hand; ``path`` only names it in complaints."""
    return parse_document(text, Lock, path)


def lock_text(lock: Lock) -> str:
    """The file's content: the same octets for the same lock; one line per entry, for short reviews."""
    lines = [
        "# Numbers and names that this package has in SNMP. Append-only: written by `amqp-gateway mib gen`,",
        "# reviewed like code. What stands here once is never changed, moved or used for something else.",
        f"version: {lock.version}",
        f"package: {_flow(lock.package)}",
        f"arc: {lock.arc}",
        f"module: {lock.module}",
        f"prefix: {lock.prefix}",
        f"revisions: {_flow([*lock.revisions])}",
        "classes:" if lock.classes else "classes: []",
    ]
    for class_lock in lock.classes:
        lines += [
            f"- name: {_flow(class_lock.name)}",
            f"  arc: {class_lock.arc}",
            f"  descriptor: {class_lock.descriptor}",
            "  elements:" if class_lock.elements else "  elements: []",
        ]
        lines += [f"  - {_flow(_ordered(element))}" for element in class_lock.elements]
    if lock.arguments:
        lines += ["arguments:", *(f"- {_flow(_ordered(argument))}" for argument in lock.arguments)]
    if lock.events:
        lines += ["events:", *(f"- {_flow(_ordered(event_lock))}" for event_lock in lock.events)]
    return "\n".join(lines) + "\n"


def _ordered(entry: StrictModel) -> dict[str, object]:
    """What is not a default, in the order in which people read it."""
    told = entry.model_dump(mode="json", exclude_defaults=True)
    return {key: told[key] for key in _KEY_ORDER if key in told}


def _flow(value: object) -> str:
    """``value`` as YAML on one line; only ASCII, so that no editor's idea of an encoding can change it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    if isinstance(value, int) or (
        isinstance(value, str) and _WORD.fullmatch(value) and value.lower() not in _NOT_PLAIN_IN_YAML
    ):
        return str(value)  # nearly everything, and a hundred times faster
    # Text with line breaks would be folded over lines in any style but the double-quoted one.
    style = None if not isinstance(value, str) or value.isprintable() else '"'
    line: str = yaml.safe_dump([value], default_flow_style=True, default_style=style, width=2**31)
    return line.strip()[1:-1]
