"""Pieces of SMIv2 text (RFC 2578, RFC 2580): quoted strings, clauses, and the OBJECT-TYPEs of one table.

Everything that a peer may have said passes `quoted` before it stands in a module.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.model.schema import Access, ClassSchema, Element, Kind
from gateway.model.values import ValueType
from gateway.snmp.oid_registry import ClassEntry, ElementEntry, ValueEntry
from gateway.snmp.row_columns import ROW_COLUMNS, RowColumn
from gateway.snmp.syntax import (
    MAX_BYTES_OCTETS,
    MAX_JSON_OCTETS,
    MAX_TEXT_OCTETS,
    NUMERIC_SYNTAXES,
    SMI_TYPES,
    UNIT_NANOSECONDS,
    WRITABLE_SYNTAXES,
    Syntax,
)
from gateway.snmp.tables.rows import column_of

_WIDTH = 78
_MAX_CHARACTERS = 4_000


def plain(text: str) -> str:
    """``text`` in printable ASCII without double quotes, white space folded, and of bounded length."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "replace").decode("ascii")
    printable = "".join(c if c.isprintable() else " " for c in ascii_only.replace('"', "'"))
    folded = " ".join(printable.split())
    return folded if len(folded) <= _MAX_CHARACTERS else folded[: _MAX_CHARACTERS - 3] + "..."


def quoted(text: str, indent: int) -> str:
    """``text`` as a quoted string on lines of its own, each ``indent`` columns in."""
    margin = " " * indent
    lines = textwrap.wrap(plain(text), _WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False)
    return margin + '"' + f"\n{margin} ".join(lines or [""]) + '"'


def definition(head: str, clauses: Sequence[tuple[str, str]], value: str) -> str:
    """A macro invocation: ``head``, its clauses in order (a DESCRIPTION is quoted), and its value."""
    lines = [head]
    for keyword, text in clauses:
        if keyword == "DESCRIPTION":
            lines += ["    DESCRIPTION", quoted(text, 8)]
        else:
            lines.append(f"    {keyword}{text}" if text[:1] == "\n" else f"    {keyword:<11} {text}")
    return "\n".join([*lines, f"    ::= {{ {value} }}"])


def object_type(
    descriptor: str, syntax: str, access: str, status: str, description: str, value: str, units: str = ""
) -> str:
    """An OBJECT-TYPE of one line for each clause but the description."""
    clauses = [("SYNTAX", syntax)]
    if units:
        clauses.append(("UNITS", quoted(units, 0)))
    clauses += [("MAX-ACCESS", access), ("STATUS", status), ("DESCRIPTION", description)]
    return definition(f"{descriptor} OBJECT-TYPE", clauses, value)


def listed(names: Iterable[str], indent: int) -> str:
    """Names in braces, one on each line."""
    margin = " " * indent
    return "{\n" + ",\n".join(f"{margin}    {name}" for name in names) + f"\n{margin}}}"


def imports(names: Mapping[str, Iterable[str]]) -> str:
    """The IMPORTS clause, from the names wanted of each module; modules and names in alphabetical order."""
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
}
NUMBERS_AS_TEXT = {
    Syntax.DECIMAL: "A decimal number.",
    Syntax.FLOAT_TEXT: "A decimal number such as 0.5 or 1e+22, or NaN, Infinity or -Infinity.",
}
"""What is said of numbers that are shown as text."""

_TWINS = {
    Syntax.ROW_POINTER: (Syntax.TEXT, "The full name of the object that {of} points to."),
    Syntax.FLOAT64: (Syntax.FLOAT_TEXT, f"The number of {{of}}. {NUMBERS_AS_TEXT[Syntax.FLOAT_TEXT]}"),
}
_LENGTH = (Syntax.UNSIGNED32, "The length of the whole value that {of} shows as far as it can.")
_KINDS = {
    Kind.HIGH: "The highest value that was reached.",
    Kind.LOW: "The lowest value that was reached.",
    Kind.AVERAGE: "An average, made by the source.",
}


@dataclass(frozen=True, slots=True)
class ColumnText:
    """One column as a module defines it.

    Attributes:
        syntax: the SYNTAX clause.
        type_name: the type alone, as the row's SEQUENCE has it.
        module: where the type is imported from; empty for SMIv2's own.
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
    """All columns, ascending; ``versions`` (the newest last) have what the registry does not keep."""
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
    smi = SMI_TYPES[syntax]
    return ColumnText(
        number=entry.twin.column,
        descriptor=entry.twin.descriptor,
        syntax=f"{smi.name} {smi.bounds}".rstrip(),
        type_name=smi.name,
        module=smi.module,
        units=units_clause(entry, element) if entry.syntax in _TWINS else "octets",
        access="read-only",
        status=entry.status.value,
        description=description.format(of=entry.descriptor),
    )


def syntax_clause(entry: ValueEntry, element: Element | None) -> str:
    """The SYNTAX clause, as narrow as the element's range or size allows."""
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
    divisor = UNIT_NANOSECONDS.get(entry.unit, 1)
    low = lowest if element.minimum is None else max(lowest, int(element.minimum) // divisor)
    high = highest if element.maximum is None else min(highest, int(element.maximum) // divisor)
    return f"({low}..{high})" if low <= high else ""


def _size(entry: ValueEntry, element: Element) -> str:
    limit = _SIZED.get(entry.syntax)
    if limit is None or element.max_length is None or not 0 < element.max_length < limit:
        return ""
    return f"(SIZE (0..{element.max_length}))"


def units_clause(entry: ValueEntry, element: Element | None) -> str:
    """What stands in the UNITS clause; empty for none."""
    if entry.syntax not in NUMERIC_SYNTAXES:
        return ""
    if entry.unit or element is None:
        return entry.unit
    # A mapping's unit wins over the type: what a broker declares as a duration may be a count all the same.
    return element.unit or ("nanoseconds" if element.type is ValueType.DURATION else "")


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
    """``text`` with a full stop where it has no end."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."
