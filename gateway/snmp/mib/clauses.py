"""Parts of a MIB module in SMIv2 (RFC 2578, RFC 2580): quoted text, the objects of one table, notifications.

Everything that a peer may have sent passes `quoted` before it is part of a module.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gateway.model.schema import Access, ClassSchema, Element, EventSchema, Kind
from gateway.model.values import ValueType
from gateway.snmp.fixed_mib import COMMON_OBJECTS
from gateway.snmp.oid_registry import (
    ARGUMENTS_ARC,
    ArgumentEntry,
    ClassEntry,
    ElementEntry,
    EventEntry,
    OidRegistry,
    Status,
    ValueEntry,
    upper_camel,
)
from gateway.snmp.row_columns import ROW_COLUMNS, RowColumn
from gateway.snmp.syntax import (
    MAX_BYTES_OCTETS,
    MAX_FLOAT_CHARACTERS,
    MAX_JSON_OCTETS,
    MAX_TEXT_OCTETS,
    NUMERIC_SYNTAXES,
    SMI_TYPES,
    UNIT_NANOSECONDS,
    WRITABLE_SYNTAXES,
    Syntax,
    argument_fits,
    argument_form,
    element_of,
    unit_of,
)
from gateway.snmp.tables.rows import column_of

_WIDTH = 78
_MAX_CHARACTERS = 4_000


def plain(text: str) -> str:
    """Return ``text`` in printable ASCII without double quotes, white space folded, and of bounded length."""
    # RFC 2578 section 3.1.1 allows no other characters in a module; without their accents letters are still
    # read.
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "replace").decode("ascii")
    printable = "".join(c if c.isprintable() else " " for c in ascii_only.replace('"', "'"))
    folded = " ".join(printable.split())
    return folded if len(folded) <= _MAX_CHARACTERS else folded[: _MAX_CHARACTERS - 3] + "..."


def quoted(text: str, indent: int) -> str:
    """Return ``text`` as a quoted string on lines of its own, each indented by ``indent`` columns."""
    margin = " " * indent
    lines = textwrap.wrap(plain(text), _WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False)
    return margin + '"' + f"\n{margin} ".join(lines or [""]) + '"'


def definition(head: str, clauses: Sequence[tuple[str, str]], value: str) -> str:
    """Return a macro invocation: ``head``, its clauses in order (a DESCRIPTION is quoted), and its value."""
    lines = [head]
    for keyword, text in clauses:
        if keyword == "DESCRIPTION":
            lines += ["    DESCRIPTION", quoted(text, 8)]
        else:
            # The MODULE clause of a compliance goes over several lines, which begin below the keyword.
            lines.append(f"    {keyword}{text}" if text[:1] == "\n" else f"    {keyword:<11} {text}")
    return "\n".join([*lines, f"    ::= {{ {value} }}"])


def object_type(
    descriptor: str, syntax: str, access: str, status: str, description: str, value: str, units: str = ""
) -> str:
    """Return an OBJECT-TYPE of one line for each clause but the description."""
    clauses = [("SYNTAX", syntax)]
    if units:
        clauses.append(("UNITS", quoted(units, 0)))
    clauses += [("MAX-ACCESS", access), ("STATUS", status), ("DESCRIPTION", description)]
    return definition(f"{descriptor} OBJECT-TYPE", clauses, value)


def listed(names: Iterable[str], indent: int) -> str:
    """Return names in braces, one on each line."""
    margin = " " * indent
    return "{\n" + ",\n".join(f"{margin}    {name}" for name in names) + f"\n{margin}}}"


def imports(names: Mapping[str, Iterable[str]]) -> str:
    """Return the IMPORTS clause of the names from each module; modules and names in alphabetical order."""
    blocks = []
    for module in sorted(names):
        lines = textwrap.wrap(
            ", ".join(sorted(set(names[module]))), _WIDTH - 4, initial_indent="    ", subsequent_indent="    "
        )
        blocks.append("\n".join(lines) + f"\n        FROM {module}")
    return "IMPORTS\n" + "\n".join(blocks) + ";"


_RANGED = {
    Syntax.GAUGE32: (0, 2**32 - 1),
    Syntax.UNSIGNED32: (0, 2**32 - 1),
    Syntax.INTEGER32: (-(2**31), 2**31 - 1),
}
_SIZED = {Syntax.TEXT: MAX_TEXT_OCTETS, Syntax.OCTETS: MAX_BYTES_OCTETS}
_OWN_SYNTAX_MODULES = {
    "AgRowState": "AMQP-GATEWAY-MIB",
    "DateAndTime": "SNMPv2-TC",
    "INTEGER": "",
    "Integer32": "SNMPv2-SMI",
    "RowPointer": "SNMPv2-TC",
    "SnmpAdminString": "SNMP-FRAMEWORK-MIB",
    "TruthValue": "SNMPv2-TC",
}
_CUT = {
    Syntax.TEXT: f"Text of more than {MAX_TEXT_OCTETS} octets is cut; {{twin}} has the whole length.",
    Syntax.OCTETS: f"A value of more than {MAX_BYTES_OCTETS} octets is shown empty; {{twin}} has its length.",
    Syntax.JSON: (
        "JSON text in ASCII, the keys of maps in alphabetical order. "
        f"One of more than {MAX_JSON_OCTETS} octets is shown empty; {{twin}} has its length."
    ),
    Syntax.ROW_POINTER: "{twin} has the name of the object pointed to.",
    Syntax.FLOAT64: "{twin} has it as text.",
    Syntax.GAUGE64: (
        "The wire type is Counter64, but it is a gauge: {twin} is for SNMPv1, and for tools that take "
        "Counter64 for a counter."
    ),
}
NUMBERS_AS_TEXT = {
    Syntax.DECIMAL: "A decimal number.",
    Syntax.FLOAT_TEXT: "A decimal number such as 0.5 or 1e+22, or NaN, Infinity or -Infinity.",
}
"""The description of numbers that are shown as text, by syntax."""

_TWINS = {
    Syntax.ROW_POINTER: (Syntax.TEXT, "The full name of the object that {of} points to."),
    Syntax.FLOAT64: (Syntax.FLOAT_TEXT, f"The number of {{of}}. {NUMBERS_AS_TEXT[Syntax.FLOAT_TEXT]}"),
    Syntax.GAUGE64: (Syntax.GAUGE32, "The number of {of}, which stays at 2^32-1 while it is beyond."),
}
_TWIN_IN_UNIT = "The value of {of} in {unit}, rounded up, which stays at 2^32-1 while it is beyond."
_LENGTH = (Syntax.UNSIGNED32, "The length of the whole value that {of} shows as far as it can.")
_KINDS = {
    Kind.HIGH: "The highest value that was reached.",
    Kind.LOW: "The lowest value that was reached.",
    Kind.AVERAGE: "An average, made by the source.",
}


class ColumnText(msgspec.Struct, frozen=True):
    """One column as a module defines it.

    Attributes:
        syntax: the SYNTAX clause.
        type_name: the type alone, as the row's SEQUENCE has it.
        module: the module from which the type is imported; empty for SMIv2's own.
    """

    number: int
    descriptor: str
    syntax: str
    type_name: str
    module: str
    units: str
    access: str
    status: str
    description: str


def columns_of(class_entry: ClassEntry, versions: Sequence[ClassSchema]) -> list[ColumnText]:
    """Return all columns, ascending; ``versions`` (the newest last) have what the registry does not keep."""
    columns = [_own_column(class_entry, column) for column in ROW_COLUMNS]
    for entry in class_entry.elements:
        element = _element_of(class_entry, entry, versions)
        columns.append(_element_column(class_entry, entry, element))
        if entry.twin is not None:
            columns.append(_twin_column(entry, element))
    return sorted(columns, key=lambda column: column.number)


def _element_of(
    class_entry: ClassEntry, entry: ElementEntry, versions: Sequence[ClassSchema]
) -> Element | None:
    for schema in reversed(versions):
        for element in schema.elements:
            if element.name == entry.name and column_of(class_entry, element) is entry:
                return element
    return None


def _own_column(class_entry: ClassEntry, column: RowColumn) -> ColumnText:
    text = ROW_COLUMNS[column]
    type_name = text.syntax.partition(" ")[0]
    return ColumnText(
        number=column,
        descriptor=class_entry.descriptor + text.suffix,
        syntax=text.syntax,
        type_name=type_name,
        module=_OWN_SYNTAX_MODULES[type_name],
        units="",
        access="not-accessible" if column is RowColumn.INDEX else "read-only",
        status="current",
        description=text.description,
    )


def _element_column(class_entry: ClassEntry, entry: ElementEntry, element: Element | None) -> ColumnText:
    smi = SMI_TYPES[entry.syntax]
    return ColumnText(
        number=entry.column,
        descriptor=entry.descriptor,
        syntax=syntax_clause(entry, element),
        type_name=smi.name,
        module=smi.module,
        units=units_clause(entry, element),
        access="read-write" if element is not None and _is_writable(entry, element) else "read-only",
        status=entry.status.value,
        description=_description(class_entry, entry, element),
    )


def _is_writable(entry: ElementEntry, element: Element) -> bool:
    return entry.current and element.access is Access.READ_WRITE and entry.syntax in WRITABLE_SYNTAXES


def _twin_column(entry: ElementEntry, element: Element | None) -> ColumnText:
    assert entry.twin is not None
    syntax, description = _TWINS.get(entry.syntax, _LENGTH)
    if entry.twin.unit:
        description = _TWIN_IN_UNIT
    smi = SMI_TYPES[syntax]
    return ColumnText(
        number=entry.twin.column,
        descriptor=entry.twin.descriptor,
        syntax=f"{smi.name} {smi.bounds}".rstrip(),
        type_name=smi.name,
        module=smi.module,
        units=entry.twin.unit or (units_clause(entry, element) if entry.syntax in _TWINS else "octets"),
        access="read-only",
        status=entry.status.value,
        description=description.format(of=entry.descriptor, unit=entry.twin.unit),
    )


def syntax_clause(entry: ValueEntry, element: Element | None) -> str:
    """Return the SYNTAX clause, as narrow as the element's range or size allows."""
    if entry.syntax is Syntax.ENUMERATION:
        labels = ",\n".join(f"                    {value.label}({value.number})" for value in entry.values)
        return f"INTEGER {{\n{labels}\n                }}"
    smi = SMI_TYPES[entry.syntax]
    bounds = (element and (_range(entry, element) or _size(entry, element))) or smi.bounds
    return f"{smi.name} {bounds}".rstrip()


def _range(entry: ValueEntry, element: Element) -> str:
    if entry.syntax not in _RANGED or (element.minimum is None and element.maximum is None):
        return ""
    lowest, highest = _RANGED[entry.syntax]
    # The schema's bounds are in nanoseconds, as its values are.
    divisor = UNIT_NANOSECONDS.get(entry.unit, 1)
    low = lowest if element.minimum is None else max(lowest, int(element.minimum) // divisor)
    high = highest if element.maximum is None else min(highest, int(element.maximum) // divisor)
    # The bounds are a peer's, and may be upside down, which SMIv2 does not allow.
    return f"({low}..{high})" if low <= high else ""


def _size(entry: ValueEntry, element: Element) -> str:
    limit = _SIZED.get(entry.syntax)
    if limit is None or element.max_length is None or not 0 < element.max_length < limit:
        return ""
    return f"(SIZE (0..{element.max_length}))"


def units_clause(entry: ValueEntry, element: Element | None) -> str:
    """Return the text of the UNITS clause; empty for none."""
    if entry.syntax not in NUMERIC_SYNTAXES:
        return ""
    if entry.unit or element is None:
        return entry.unit
    return unit_of(element)


def _description(class_entry: ClassEntry, entry: ElementEntry, element: Element | None) -> str:
    if not entry.current:
        return f"Obsolete, and never instantiated: '{entry.name}' has another column now, or none."
    said = (element.description or element.label) if element else ""
    sentences = [sentence(said or f"'{entry.name}' of the source; it gives no description.")]
    if element is not None and element.access is Access.READ_CREATE:
        sentences.append("It is set when the object is created and does not change.")
    if element is not None and _is_writable(entry, element):
        sentences.append("Users whom the configuration of the gateway allows to can set it.")
    if entry.kind is Kind.COUNTER:
        discontinuity = class_entry.descriptor + ROW_COLUMNS[RowColumn.DISCONTINUITY].suffix
        sentences.append(f"{discontinuity} has the last time at which it may have restarted.")
    elif entry.kind in _KINDS:
        sentences.append(_KINDS[entry.kind])
    if entry.twin is not None:
        sentences.append(_CUT[entry.syntax].format(twin=entry.twin.descriptor))
    if entry.syntax in NUMBERS_AS_TEXT:
        sentences.append(NUMBERS_AS_TEXT[entry.syntax])
    return " ".join(sentences)


def sentence(text: str) -> str:
    """Return ``text`` with a full stop where it has no end."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."


COMMON_DESCRIPTORS = tuple(f"agEvent{upper_camel(member.name.lower())}" for member in COMMON_OBJECTS)
"""The first objects in the OBJECTS clause of every notification, defined in AMQP-GATEWAY-MIB."""

_GROUP_ARC = 2_001  # those of classes end before
ARGUMENT_SIZES = {
    Syntax.DECIMAL: "(SIZE (0..20))",
    Syntax.FLOAT_TEXT: f"(SIZE (0..{MAX_FLOAT_CHARACTERS}))",
    Syntax.UUID: "(SIZE (0 | 36))",
}
"""Sizes that differ from those of columns: an empty string stands for an absent value."""

_CUT_ARGUMENTS = {
    Syntax.TEXT: f"Text of more than {MAX_TEXT_OCTETS} octets is cut.",
    Syntax.OCTETS: f"A value of more than {MAX_BYTES_OCTETS} octets is sent empty.",
    Syntax.JSON: (
        "JSON text in ASCII, the keys of maps in alphabetical order. "
        f"One of more than {MAX_JSON_OCTETS} octets is sent empty."
    ),
    **NUMBERS_AS_TEXT,
}
NOTHING = {
    Syntax.ENUMERATION: "unknown",
    Syntax.ROW_POINTER: "0.0",
    Syntax.DATE_AND_TIME: "Eight octets of zero",
    Syntax.FLOAT64: "NaN",
    Syntax.TRUTH: "Left out",
    Syntax.GAUGE32: "0",
    Syntax.INTEGER32: "0",
    Syntax.UNSIGNED32: "0",
}
"""The description of an absent argument, by syntax; an empty string stands for it in any other syntax."""

_DIVIDED = UNIT_NANOSECONDS.keys() - {"nanoseconds"}
_LONGEST = {Syntax.TEXT: MAX_TEXT_OCTETS, Syntax.OCTETS: MAX_BYTES_OCTETS}


class NotificationTexts:
    """The parts of one module that define its events.

    Args:
        registry: numbers, names and syntaxes.
        schemas: descriptions and units, with the mapping applied; of several versions of an event the last.
    """

    def __init__(self, registry: OidRegistry, schemas: Iterable[EventSchema]) -> None:
        self._registry = registry
        self._schemas = {registry.entry_name(schema.key): schema for schema in schemas}
        self._elements_by_arc = {
            argument.arc: tuple(self._elements(argument)) for argument in registry.arguments
        }

    def imports(self) -> Mapping[str, set[str]]:
        """Return the names that the parts need, by module."""
        if not self._registry.events:
            return {}
        names: dict[str, set[str]] = {
            "AMQP-GATEWAY-MIB": set(COMMON_DESCRIPTORS),
            "SNMPv2-SMI": {"NOTIFICATION-TYPE"},
            "SNMPv2-CONF": {"NOTIFICATION-GROUP", "MODULE-COMPLIANCE"},
        }
        if self._registry.arguments:
            names["SNMPv2-SMI"].add("OBJECT-TYPE")
            names["SNMPv2-CONF"].add("OBJECT-GROUP")
        types = [SMI_TYPES[argument.syntax] for argument in self._registry.arguments]
        if any(argument.twin for argument in self._registry.arguments):
            types.append(SMI_TYPES[Syntax.TEXT])
        for smi in types:
            if smi.module:
                names.setdefault(smi.module, set()).add(smi.name)
        return names

    def definitions(self) -> list[str]:
        """Return the objects, then the notifications; nothing where there are no events."""
        if not self._registry.events:
            return []
        prefix = self._registry.prefix
        parts = []
        if self._registry.arguments:
            parts.append(
                "-- Only notifications carry these.\n"
                f"{prefix}NotificationObjects OBJECT IDENTIFIER ::= {{ {prefix}Objects {ARGUMENTS_ARC} }}"
            )
        for argument in self._registry.arguments:
            parts += self._objects(argument)
        return parts + [self._notification(event_entry) for event_entry in self._registry.events]

    def groups(self) -> list[str]:
        """Return the conformance groups: objects and notifications, each current and obsolete."""
        objects = [(name, a.status) for a in self._registry.arguments for name in a.descriptors]
        notifications = [
            (event_entry.descriptor, event_entry.status) for event_entry in self._registry.events
        ]
        prefix = self._registry.prefix
        found = []
        for offset, (macro, clause, infix, entries) in enumerate(
            (
                ("OBJECT-GROUP", "OBJECTS", "NotificationObject", objects),
                ("NOTIFICATION-GROUP", "NOTIFICATIONS", "Notification", notifications),
            )
        ):
            for status, said in ((Status.CURRENT, ""), (Status.OBSOLETE, "Obsolete")):
                members = [name for name, of in entries if of is status]
                if members:
                    arc = _GROUP_ARC + 2 * offset + bool(said)
                    clauses = [
                        (clause, listed(members, 4)),
                        ("STATUS", status.value),
                        ("DESCRIPTION", _GROUP_TEXTS[macro, status]),
                    ]
                    found.append(
                        definition(f"{prefix}{infix}{said}Group {macro}", clauses, f"{prefix}Groups {arc}")
                    )
        return found

    def required_groups(self) -> list[tuple[str, str]]:
        """Return the current groups, each with the condition in which it is mandatory."""
        prefix, when = self._registry.prefix, "Mandatory where a source reports events."
        wanted = []
        if any(argument.current for argument in self._registry.arguments):
            wanted.append((f"{prefix}NotificationObjectGroup", when))
        if any(event_entry.status is Status.CURRENT for event_entry in self._registry.events):
            wanted.append((f"{prefix}NotificationGroup", when))
        return wanted

    def _elements(self, argument: ArgumentEntry) -> Iterable[tuple[str, Element]]:
        """Yield the element of the argument in each event that has it, by the event's name."""
        for event_entry in self._registry.events:
            schema = self._schemas.get(event_entry.name)
            if schema is None or argument.arc not in event_entry.arguments:
                continue
            for declared in schema.arguments:
                timed = declared.type in (ValueType.DURATION, ValueType.TIME)
                form = argument_form(declared, argument.unit if timed else "")
                if declared.name == argument.name and argument_fits(form, argument.form):
                    yield event_entry.name, element_of(declared)

    def _objects(self, argument: ArgumentEntry) -> list[str]:
        elements = self._elements_by_arc[argument.arc]
        base = f"{self._registry.prefix}NotificationObjects"
        bounds = ARGUMENT_SIZES.get(argument.syntax)
        syntax = f"{SMI_TYPES[argument.syntax].name} {bounds}" if bounds else syntax_clause(argument, None)
        units = next(
            (unit for _, element in elements if (unit := units_clause(argument, element))), argument.unit
        )
        parts = [
            object_type(
                argument.descriptor,
                syntax,
                "accessible-for-notify",
                argument.status.value,
                _argument_description(argument, elements),
                f"{base} {argument.arc}",
                units,
            )
        ]
        if argument.twin is not None:
            named = SMI_TYPES[Syntax.TEXT]
            parts.append(
                object_type(
                    argument.twin.descriptor,
                    f"{named.name} {named.bounds}",
                    "accessible-for-notify",
                    argument.status.value,
                    f"The full name of the object that {argument.descriptor} points to; empty where there is "
                    "none.",
                    f"{base} {argument.twin.arc}",
                )
            )
        return parts

    def _notification(self, event_entry: EventEntry) -> str:
        schema = self._schemas.get(event_entry.name)
        said = (schema.description or schema.label) if schema else ""
        own = [name for argument in self._registry.arguments_of(event_entry) for name in argument.descriptors]
        label = plain(event_entry.name)
        return definition(
            f"{event_entry.descriptor} NOTIFICATION-TYPE",
            [
                ("OBJECTS", listed([*COMMON_DESCRIPTORS, *own], 4)),
                ("STATUS", event_entry.status.value),
                ("DESCRIPTION", sentence(said or f"The event '{label}'; its source gives no description.")),
            ],
            f"{self._registry.prefix}Notifications {event_entry.arc}",
        )


_GROUP_TEXTS = {
    ("OBJECT-GROUP", Status.CURRENT): "What notifications carry beside what all have in common.",
    ("OBJECT-GROUP", Status.OBSOLETE): "What notifications once carried.",
    ("NOTIFICATION-GROUP", Status.CURRENT): "The events of the package.",
    ("NOTIFICATION-GROUP", Status.OBSOLETE): "Events that the package once had.",
}


def _argument_description(argument: ArgumentEntry, elements: Sequence[tuple[str, Element]]) -> str:
    nothing = NOTHING.get(argument.syntax, "Empty")
    if not argument.current:
        return f"Obsolete: '{argument.name}' has another object now, or none. {nothing} for ever."
    sentences = [_what_it_is(argument, elements)]
    if argument.syntax is Syntax.DECIMAL and argument.unit in _DIVIDED:
        sentences.append(f"Whole {argument.unit}, and less than one with its fraction.")
    longest = _LONGEST.get(argument.syntax)
    promised = [element.max_length for _, element in elements]
    if argument.syntax in _CUT_ARGUMENTS and not (
        longest and promised and all(length is not None and length <= longest for length in promised)
    ):
        sentences.append(_CUT_ARGUMENTS[argument.syntax])
    if argument.twin is not None:
        sentences.append(f"{argument.twin.descriptor} has its name.")
    if not elements or any(element.optional for _, element in elements):
        sentences.append(f"{nothing} where it is not known.")
    return " ".join(sentences)


def _what_it_is(argument: ArgumentEntry, elements: Sequence[tuple[str, Element]]) -> str:
    """Return the description of an argument that events share: once where they agree, else by event."""
    events: dict[str, list[str]] = {}
    for event, element in elements:
        if text := element.description or element.label:
            events.setdefault(sentence(text), []).append(event)
    if not events:
        return f"'{argument.name}' of the event; its source gives no description."
    if len(events) == 1:
        return next(iter(events))
    return " ".join(f"In {', '.join(names)}: {text}" for text, names in events.items())
