"""OID registries: the object identifiers and descriptors of classes, elements, events and arguments.

A registry has the numbers, names and syntaxes of one package, for ever. It is text under version control
(``mappings/oids/<package>.oids.yaml``) or, for classes and events that no shipped registry knows, a file in
the state folder. It only ever grows, by `gateway.snmp.registry_growth`. Numbers are relative: the root is
added from the configuration. `gateway.snmp.registry_files` writes the files.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from gateway.model.schema import ClassKey, Kind
from gateway.shipped_files import shipped_folder
from gateway.snmp.ber import Oid
from gateway.snmp.row_columns import ROW_COLUMNS
from gateway.snmp.syntax import GAUGE32_DIVISORS, TWIN_SYNTAXES, UNIT_NANOSECONDS, Form, Syntax
from gateway.yaml_documents import StrictModel, parse_document, read_document

REGISTRY_SUFFIX = ".oids.yaml"
OLD_SUFFIX = ".lock.yaml"
"""The suffix of files that an older gateway wrote: they are read where there is none of the new name."""

MAX_DESCRIPTOR = 64
"""The maximum number of characters of a descriptor or label."""

_KEYWORDS = frozenset({"current", "deprecated", "mandatory", "obsolete", "optional"})
"""Words of SMI that net-snmp does not take as labels of an enumeration: it then shows bare numbers."""

_HASH_LENGTH = 8
_WORD = re.compile(r"[A-Za-z0-9]+")


def words(text: str) -> list[str]:
    """Return the runs of ASCII letters and digits in ``text``; accents are dropped, other scripts replaced.

    Text of another script leaves no letters: it is then named by its hash, which is stable and unique.
    """
    plain = unicodedata.normalize("NFKD", text)
    found = _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))
    return found or ["x" + _hash(text)]


def upper_camel(text: str) -> str:
    """Return ``MessageStatsAck`` for ``message-stats.ack``; capitals inside words stay."""
    return "".join(word[0].upper() + word[1:] for word in words(text))


def lower_camel(text: str) -> str:
    """Return as `upper_camel`, but with a small first letter, or a letter in front of a first digit."""
    camel = upper_camel(text)
    # A descriptor begins with a small letter (RFC 2578 section 3.1).
    return ("n" + camel) if camel[0].isdigit() else camel[0].lower() + camel[1:]


def label(text: str) -> str:
    """Return the label of the value ``text`` of an enumeration, before `unique`."""
    camel = lower_camel(text)
    return f"{camel}Value" if camel in _KEYWORDS else camel


def shortened(text: str, limit: int = MAX_DESCRIPTOR) -> str:
    """Return ``text`` if it has at most ``limit`` characters, else its beginning and a hash of all of it."""
    # The hash keeps names apart that begin alike.
    return text if len(text) <= limit else text[: limit - _HASH_LENGTH] + _hash(text)


def unique(text: str, taken: Collection[str], limit: int = MAX_DESCRIPTOR) -> str:
    """Return ``text`` shortened to ``limit``, if needed with the first number from 2 on that makes it unique.

    Args:
        text: a descriptor or label wanted.
        taken: the names in use, in lower case.
        limit: characters that the result may have.
    """
    name = shortened(text, limit)
    number = 1
    # Names that differ in case only are legal in SMIv2, but smilint warns of them and people mistake them.
    while name.lower() in taken:
        number += 1
        name = shortened(text, limit - len(str(number))) + str(number)
    return name


def _hash(text: str) -> str:
    # A peer's text may contain half of a surrogate pair, which has no UTF-8 form.
    encoded = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=_HASH_LENGTH // 2).hexdigest()


FIRST_ELEMENT_COLUMN = 100
"""Columns 1 to 99 of each table belong to the gateway (`gateway.snmp.row_columns`)."""

MAX_COLUMN = 65535
MAX_ARC = 999
"""The maximum arc of packages and classes, so that package * 1000 + class is one number (agClassIndex)."""

MAX_EVENT_ARC = 65535
"""The maximum arc of events and arguments, which the specific-trap of SNMPv1 and every tool can hold."""

UNKNOWN_LABEL = "unknown"
UNKNOWN_NUMBER = 1
"""Every enumeration begins with unknown(1), which stands for values that the registry does not know yet."""

_DESCRIPTOR = r"^[a-z][A-Za-z0-9]{0,63}$"
Descriptor = Annotated[str, Field(pattern=_DESCRIPTOR)]
Column = Annotated[int, Field(ge=FIRST_ELEMENT_COLUMN, le=MAX_COLUMN)]
Arc = Annotated[int, Field(ge=1, le=MAX_ARC)]
EventArc = Annotated[int, Field(ge=1, le=MAX_EVENT_ARC)]

_ROW_SUFFIXES = tuple(text.suffix for text in ROW_COLUMNS.values())
_CLASS_SUFFIXES = ("", "Table", "Entry", "Group", "ObsoleteGroup", *_ROW_SUFFIXES)


class Status(enum.Enum):
    """The status of an entry; an obsolete one stays in the MIB and has no value for ever."""

    CURRENT = "current"
    OBSOLETE = "obsolete"


class EnumerationNumber(StrictModel):
    """One value of an enumeration: ``value`` is the model's label, ``label`` its form in SMIv2."""

    value: str
    label: Descriptor
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]


class ValueEntry(StrictModel):
    """The common part of a column of a class and an argument of events.

    Attributes:
        name: the name of the element or argument.
        unit: the unit of a duration or time, where not nanoseconds or DateAndTime.
        values: the numbers of an enumeration, ``unknown`` first; empty for every other syntax.
    """

    name: str
    syntax: Syntax
    descriptor: Descriptor
    unit: str = ""
    status: Status = Status.CURRENT
    values: tuple[EnumerationNumber, ...] = ()

    @property
    def current(self) -> bool:
        """Whether it is current, so that it has values."""
        return self.status is Status.CURRENT

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each of the model's labels."""
        return {entry.value: entry.number for entry in self.values}

    @model_validator(mode="after")
    def _parts_fit(self) -> ValueEntry:
        if bool(self.values) != (self.syntax is Syntax.ENUMERATION):
            raise ValueError("'values' belong to the syntax enumeration, and to no other")
        if self.values and (self.values[0].label, self.values[0].number) != (UNKNOWN_LABEL, UNKNOWN_NUMBER):
            raise ValueError(f"the first value must be {UNKNOWN_LABEL}({UNKNOWN_NUMBER})")
        refuse_repeated("the number", (entry.number for entry in self.values))
        refuse_repeated("the label", (entry.label.lower() for entry in self.values))
        refuse_repeated("the value", (entry.value for entry in self.values))
        if self.unit and self.unit not in UNIT_NANOSECONDS:
            raise ValueError(f"the unit must be one of {', '.join(UNIT_NANOSECONDS)}")
        return self


class Twin(StrictModel):
    """A second column: the whole length of a value, the name of an object, or a number in another form.

    Attributes:
        unit: the unit of a gauge of 32 bits, where another one than that of the element.
    """

    column: Column
    descriptor: Descriptor
    unit: str = ""

    @model_validator(mode="after")
    def _unit_is_known(self) -> Twin:
        if self.unit not in GAUGE32_DIVISORS:
            raise ValueError(f"the unit must be one of {', '.join(filter(None, GAUGE32_DIVISORS))}")
        return self


class ElementEntry(ValueEntry):
    """One column of a class: an element in one form. A changed element gets another column."""

    column: Column
    kind: Kind = Kind.GAUGE
    twin: Twin | None = None

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns that the element occupies."""
        return (self.column,) if self.twin is None else (self.column, self.twin.column)

    @property
    def descriptors(self) -> tuple[str, ...]:
        """The descriptors of `columns`, in the same order."""
        return (self.descriptor,) if self.twin is None else (self.descriptor, self.twin.descriptor)

    @property
    def gauge32(self) -> Twin | None:
        """The second column of a 64-bit gauge, which is made of the first when it is read; else ``None``."""
        return self.twin if self.syntax is Syntax.GAUGE64 else None

    @property
    def form(self) -> Form:
        """The form, which distinguishes this column from others of the same element."""
        return Form(self.syntax, self.kind, self.unit)

    @model_validator(mode="after")
    def _may_have_a_twin(self) -> ElementEntry:
        if self.twin is not None and self.syntax not in TWIN_SYNTAXES:
            raise ValueError(f"an element of syntax {self.syntax.value} has no second column")
        if self.twin is not None and self.twin.unit and self.syntax is not Syntax.GAUGE64:
            raise ValueError(f"the second column of the syntax {self.syntax.value} has no unit of its own")
        return self


class ArgumentTwin(StrictModel):
    """The object that follows a pointer in a notification: the name of the object pointed to."""

    arc: EventArc
    descriptor: Descriptor


class ArgumentEntry(ValueEntry):
    """An argument of events, as an object that only notifications carry: all events of the package share it.

    Attributes:
        arc: its arc below the module's arc of such objects.
        twin: the second object of a reference; ``None`` for any other syntax.
    """

    arc: EventArc
    twin: ArgumentTwin | None = None

    @property
    def arcs(self) -> tuple[int, ...]:
        """All arcs that the argument occupies, in the order in which a notification carries them."""
        return (self.arc,) if self.twin is None else (self.arc, self.twin.arc)

    @property
    def descriptors(self) -> tuple[str, ...]:
        """The descriptors of `arcs`, in the same order."""
        return (self.descriptor,) if self.twin is None else (self.descriptor, self.twin.descriptor)

    @property
    def form(self) -> Form:
        """The form, which distinguishes this argument from others of the same name."""
        return Form(self.syntax, Kind.GAUGE, self.unit)

    @model_validator(mode="after")
    def _references_have_a_name(self) -> ArgumentEntry:
        if (self.twin is not None) != (self.syntax is Syntax.ROW_POINTER):
            raise ValueError("an argument has a second object if it is a reference, and only then")
        return self


class EventEntry(StrictModel):
    """One event: its notification is arc ``arc`` below the module's notifications.

    Attributes:
        name: the event; ``package:event`` in a registry that holds events of any package.
        arguments: arcs of its arguments in the order of the notification. It grows at its end only, so that
            receivers may rely on places.
    """

    name: str
    arc: EventArc
    descriptor: Descriptor
    status: Status = Status.CURRENT
    arguments: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _arguments_differ(self) -> EventEntry:
        refuse_repeated("the argument", self.arguments)
        return self


class ClassEntry(StrictModel):
    """One class: its table is arc ``arc`` of the module's objects.

    Attributes:
        name: the class; ``package:class`` in a registry that holds classes of any package.
        descriptor: the prefix of the descriptors of its table, entry, groups and columns.
    """

    name: str
    arc: Arc
    descriptor: Descriptor
    elements: tuple[ElementEntry, ...] = ()

    @property
    def index_descriptor(self) -> str:
        """The descriptor of the column that is the second index of the table."""
        return f"{self.descriptor}{_ROW_SUFFIXES[0]}"

    @property
    def reserved_descriptors(self) -> tuple[str, ...]:
        """Descriptors that the class needs beside those of its elements."""
        return tuple(self.descriptor + suffix for suffix in _CLASS_SUFFIXES)

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns of elements, obsolete ones too, ascending."""
        return tuple(sorted(column for element in self.elements for column in element.columns))

    @model_validator(mode="after")
    def _columns_differ(self) -> ClassEntry:
        refuse_repeated("the column", (c for e in self.elements for c in e.columns))
        refuse_repeated(
            "the current element",
            ((e.name, e.kind.value, e.syntax.value, e.unit) for e in self.elements if e.current),
        )
        return self


def refuse_repeated(what: str, items: Iterable[object]) -> None:
    """Raise ``ValueError`` if one of ``items`` occurs twice."""
    all_items = list(items)
    if len(set(all_items)) == len(all_items):  # nearly always; to count takes longer
        return
    repeated = next(item for item, times in Counter(all_items).items() if times > 1)
    raise ValueError(f"{what} {repeated} is used twice; numbers and names are never used again")


DEFAULT_ROOT: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999)
"""The experimental arc of net-snmp (netSnmpPlaypen): for trying out, not for a site that publishes."""

# One more than the highest arc of a package.
PROVISIONAL_PACKAGE_NUMBER = 1_000
"""The number that stands for the package in agClassIndex where a class is provisional."""

ARGUMENTS_ARC = 1_000
"""The arc, below the module's objects, of those that only notifications carry. No class can have this arc."""

_MODULE = r"^[A-Z][A-Za-z0-9-]{0,63}$"

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


class OidRegistry(StrictModel):
    """The registry of one package, or (``arc`` 0, no ``package``) of all provisional entries of a site.

    Attributes:
        arc: the arc below ``root.2`` for a package; 0 for the provisional module at ``root.3``.
        revisions: the days on which the content changed, ascending.
    """

    version: Annotated[int, Field(ge=1, le=1)] = 1
    package: str
    arc: Annotated[int, Field(ge=0, le=MAX_ARC)]
    module: Annotated[str, Field(pattern=_MODULE)]
    prefix: Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9]{0,15}$")]
    revisions: Annotated[tuple[dt.date, ...], Field(min_length=1)]
    classes: tuple[ClassEntry, ...] = ()
    arguments: tuple[ArgumentEntry, ...] = ()
    events: tuple[EventEntry, ...] = ()

    @property
    def provisional(self) -> bool:
        """Whether this registry takes classes of any package, at the site's own arc."""
        return self.arc == 0

    @property
    def last_updated(self) -> dt.date:
        """LAST-UPDATED of the module."""
        return self.revisions[-1]

    @property
    def module_arc(self) -> Oid:
        """The arcs of the module below the root."""
        return (3,) if self.provisional else (2, self.arc)

    def entry_name(self, key: ClassKey) -> str:
        """Return the name of the class or event in this registry."""
        return str(key) if self.provisional else key.name

    def class_key(self, entry: ClassEntry | EventEntry) -> ClassKey:
        """Return the package and name of a class or event of this registry."""
        package, _, name = entry.name.rpartition(":")
        return ClassKey(package, name) if self.provisional else ClassKey(self.package, entry.name)

    def find(self, key: ClassKey) -> ClassEntry | None:
        """Return the class of that package and name, or ``None`` where this registry does not know it."""
        if not self.provisional and key.package != self.package:
            return None
        return self._classes_by_name.get(self.entry_name(key))

    def find_event(self, key: ClassKey) -> EventEntry | None:
        """Return the event of that package and name, or ``None`` where this registry does not know it."""
        if not self.provisional and key.package != self.package:
            return None
        return self._events_by_name.get(self.entry_name(key))

    def arguments_of(self, event_entry: EventEntry) -> tuple[ArgumentEntry, ...]:
        """Return the arguments of an event, in the order of its notification."""
        return tuple(self._arguments_by_arc[arc] for arc in event_entry.arguments)

    def entry_oid(self, root: Oid, class_entry: ClassEntry) -> Oid:
        """Return the object identifier of the table's entry: columns and index follow it."""
        return (*root, *self.module_arc, 1, class_entry.arc, 1)

    def notification_oid(self, root: Oid, event_entry: EventEntry) -> Oid:
        """Return the object identifier of the event's notification: the value of snmpTrapOID.0."""
        return (*root, *self.module_arc, 0, event_entry.arc)

    def argument_oid(self, root: Oid, arc: int) -> Oid:
        """Return the instance that a notification carries of an argument, or of its twin."""
        return (*root, *self.module_arc, 1, ARGUMENTS_ARC, arc, 0)

    def class_index(self, class_entry: ClassEntry) -> int:
        """Return the number of the class in the tables of the fixed MIB (agClassIndex)."""
        package = PROVISIONAL_PACKAGE_NUMBER if self.provisional else self.arc
        return package * (MAX_ARC + 1) + class_entry.arc

    @property
    def reserved_descriptors(self) -> tuple[str, ...]:
        """Descriptors that the module needs beside those of its classes."""
        return tuple(self.prefix + suffix for suffix in _MODULE_SUFFIXES)

    def descriptors(self) -> Iterator[str]:
        """Yield every descriptor of the module."""
        yield from self.reserved_descriptors
        for class_entry in self.classes:
            yield from class_entry.reserved_descriptors
            for element in class_entry.elements:
                yield from element.descriptors
        for argument in self.arguments:
            yield from argument.descriptors
        for event_entry in self.events:
            yield event_entry.descriptor

    @cached_property
    def _classes_by_name(self) -> dict[str, ClassEntry]:
        return {class_entry.name: class_entry for class_entry in self.classes}

    @cached_property
    def _events_by_name(self) -> dict[str, EventEntry]:
        return {event_entry.name: event_entry for event_entry in self.events}

    @cached_property
    def _arguments_by_arc(self) -> dict[int, ArgumentEntry]:
        return {argument.arc: argument for argument in self.arguments}

    @model_validator(mode="after")
    def _names_and_numbers_differ(self) -> OidRegistry:
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
        for event_entry in self.events:
            for arc in event_entry.arguments:
                if arc not in self._arguments_by_arc:
                    raise ValueError(f"{event_entry.name}: there is no argument {arc}")
        # Without regard to case, as `unique` gives them out.
        refuse_repeated("the descriptor", (d.lower() for d in self.descriptors()))
        return self


def path_of_registry(folder: Path, name: str) -> Path:
    """Return the file of the registry ``name`` in a folder, under its old name where only that is there."""
    path = folder / f"{name}{REGISTRY_SUFFIX}"
    old = folder / f"{name}{OLD_SUFFIX}"
    return old if old.exists() and not path.exists() else path


def read_registry(path: Path) -> OidRegistry:
    """Return the registry in the file ``path``.

    Raises:
        gateway.yaml_documents.DocumentError: unreadable, not of this shape, or with numbers used twice;
            the text names file and line.
    """
    return read_document(path, OidRegistry)


def parse_registry(text: str, path: Path) -> OidRegistry:
    """Return the registry in ``text``, as `read_registry`; ``path`` only names it in errors."""
    return parse_document(text, OidRegistry, path)


def load_shipped_registries() -> tuple[OidRegistry, ...]:
    """Return the registries that are shipped with the gateway, by package.

    Raises:
        DocumentError: one of them is damaged.
        FileNotFoundError: the installation lacks them.
    """
    folder = shipped_folder("mappings") / "oids"
    return tuple(read_registry(path) for path in sorted(folder.glob(f"*{REGISTRY_SUFFIX}")))
