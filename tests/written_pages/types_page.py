"""``docs/types.md``: the forms that types have, written from the table that the code follows.

A test compares the page with what is written here, so that it cannot drift.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.model.schema import Access, Argument, Element, Kind, NamedValue
from gateway.model.values import ValueType
from gateway.snmp.mib.clauses import ARGUMENT_SIZES, NOTHING
from gateway.snmp.syntax import (
    MAX_BYTES_OCTETS,
    MAX_JSON_OCTETS,
    MAX_TEXT_OCTETS,
    SMI_TYPES,
    TWIN_SYNTAXES,
    UNIT_NANOSECONDS,
    Syntax,
    argument_form,
    form_of,
    gauge32_unit,
    needs_twin,
)

_PYTHON = {
    ValueType.BOOL: "`bool`",
    ValueType.F32: "`float`",
    ValueType.F64: "`float`",
    ValueType.STRING: "`str`",
    ValueType.BYTES: "`bytes`",
    ValueType.UUID: "`uuid.UUID`",
    ValueType.TIME: "`int`, nanoseconds since 1970 UTC",
    ValueType.DURATION: "`int`, nanoseconds",
    ValueType.REFERENCE: "`Reference`; `ObjectLink` once resolved",
    ValueType.MAP: "`Mapping[str, ...]`",
    ValueType.LIST: "`tuple`",
}
_MEANING = {
    Syntax.COUNTER64: "begins again after 2^64-1; a negative value has no instance",
    Syntax.GAUGE32: "stays at 0 or 2^32-1 while the value is beyond",
    Syntax.GAUGE64: "0 to 2^64-1 in the encoding of Counter64; beside it a column of type Gauge32",
    Syntax.INTEGER32: "as it is",
    Syntax.UNSIGNED32: "whole units, the rest dropped",
    Syntax.DECIMAL: "the number in decimal digits: SMIv2 has no signed and no writable 64-bit number",
    Syntax.FLOAT64: "8 octets, IEEE 754 binary64, the most significant first; NaN and infinities too; beside "
    "it a column with the number as text",
    Syntax.FLOAT_TEXT: "the shortest decimal number that reads back the same, such as `0.5` or `1e+22`, or "
    "`NaN`, `Infinity`, `-Infinity`",
    Syntax.TRUTH: "true(1), false(2)",
    Syntax.ENUMERATION: "numbers of the registry; unknown(1) for a value that the registry does not have",
    Syntax.DATE_AND_TIME: "UTC, to the tenth of a second",
    Syntax.ROW_POINTER: "the first readable column of the row pointed to; beside it a column with its name",
    Syntax.TEXT: f"UTF-8, cut between characters at {MAX_TEXT_OCTETS} octets; beside it a column with the "
    "whole length, unless the schema promises that nothing is longer",
    Syntax.OCTETS: f"as they are; empty where there are more than {MAX_BYTES_OCTETS}, and then a column with "
    "the length beside it",
    Syntax.JSON: f"JSON in ASCII, keys in alphabetical order, empty where it has more than {MAX_JSON_OCTETS} "
    "octets; beside it a column with its length. Bytes are shown in hexadecimal, NaN and infinities as text",
    Syntax.UUID: "36 characters",
}
_EXAMPLE_VALUES = (NamedValue("a", 0),)


def types_page() -> str:
    """The whole page in MyST Markdown."""
    lines = [
        "# Types",
        "",
        "How a type of the model (`gateway.model.values`) is shown in SNMP. The form is chosen for each",
        "element from its type, its kind (which a mapping defines) and its access, never from a value. The",
        "OID registry contains it. A value that the form cannot express has no instance: absent is",
        "never zero.",
        "",
        "| model type | Python value | kind, or what else decides | SYNTAX | what stands there |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {' | '.join(cells)} |" for cells in _rows()),
        "",
        "Kinds high, low and average have the form of a gauge. Durations and times may be shown as",
        f"Unsigned32 in a unit that the mapping names with `snmp_unit`: {', '.join(UNIT_NANOSECONDS)}.",
        "`AgGauge64` and `AgFloat64` are defined in AMQP-GATEWAY-MIB, in the shape of CounterBasedGauge64",
        "(RFC 2856) and Float64TC (RFC 6340).",
        "",
        "## Gauges of 64 bits",
        "",
        "SNMP has no gauge of 64 bits, so `AgGauge64` has the wire type Counter64. SNMPv1 cannot carry it,",
        "and tools that do not know the module take it for a counter, and show its rate. Beside each such",
        "column there is one of type Gauge32, which stays at 2^32-1 while the number is beyond:",
        "",
        "| unit of the 64-bit gauge | unit of the Gauge32 | end of the name | 2^32-1 is |",
        "| --- | --- | --- | --- |",
        *(f"| {' | '.join(cells)} |" for cells in _gauge_rows()),
        "",
        "A value in a larger unit is rounded up: 0 stands for 0 only. An absent value is absent in both",
        "columns. The OID registry has number, name and unit of the second column, which never change. The",
        "gateway keeps no value of it: it is made of the first when it is read. Use the 64-bit column where",
        "your tool lets you say that it is a gauge.",
        "",
        "## In notifications",
        "",
        "Arguments of events have the same forms, but no counters: SNMPv1 has no Counter64, so numbers of 64",
        "bits are decimal text. So are floats, and durations and times with `snmp_unit` that may be absent:",
        "in whole units, the rest dropped, but what is shorter than one unit has its fraction (`0.4`). With",
        "`snmp_also` there is a second object in a finer unit, the last of the notification.",
        "Only a reference to an object has a second object beside it, with its name. The places of varbinds",
        "do not depend on the values: an absent argument has the value of the last column below, and only a",
        "truth value is left out. An argument that the registry of a site has as `AgFloat64` keeps it; NaN",
        "stands for an absent one.",
        "",
        "| SYNTAX | model types | absent |",
        "| --- | --- | --- |",
        *(f"| {' | '.join(cells)} |" for cells in _argument_rows()),
        "",
    ]
    return "\n".join(lines)


def _rows() -> Iterator[tuple[str, str, str, str, str]]:
    for type_ in ValueType:
        python = _PYTHON.get(type_, "`int`")
        for decides, element, unit in _variants(type_):
            syntax = form_of(element, unit).syntax
            smi = SMI_TYPES[syntax]
            shown = f"`{smi.name} {smi.bounds}`".replace(" `", "`")
            assert (syntax in TWIN_SYNTAXES) == needs_twin(element, form_of(element, unit))
            yield f"`{type_.value}`", python, decides, shown, _MEANING[syntax]


def _gauge_rows() -> Iterator[tuple[str, str, str, str]]:
    shown = {
        "octets": ("`Kibibytes`", "4 TiB"),
        "nanoseconds": ("`Milliseconds`", "49 days"),
        "": ("`Gauge32`", "4,294,967,295"),
    }
    for unit, (suffix, end) in shown.items():
        yield unit or "any other", gauge32_unit(unit) or "the same", suffix, end
        if gauge32_unit(unit, Kind.AVERAGE) != gauge32_unit(unit):
            other = gauge32_unit(unit, Kind.AVERAGE)
            yield f"{unit}, kind high, low or average", other, f"`{other.capitalize()}`", "71 minutes"


def _argument_rows() -> Iterator[tuple[str, str, str]]:
    types: dict[Syntax, list[str]] = {}
    for type_ in ValueType:
        types.setdefault(argument_form(Argument("x", type_)).syntax, []).append(f"`{type_.value}`")
    types[Syntax.ENUMERATION] = ["integers and `string` with named values"]
    types[Syntax.UNSIGNED32] = ["`duration` and `time` with `snmp_unit`, never absent"]
    for syntax, names in types.items():
        smi = SMI_TYPES[syntax]
        shown = f"`{smi.name} {ARGUMENT_SIZES.get(syntax, smi.bounds)}`".replace(" `", "`")
        yield shown.replace("|", "\\|"), ", ".join(names), NOTHING.get(syntax, "Empty")


def _variants(type_: ValueType) -> Iterator[tuple[str, Element, str]]:
    """Yield the variants of one type, with an element and ``snmp_unit`` that show each."""
    number = bool(type_.integer_bits) or type_ is ValueType.DURATION
    yield ("gauge" if number else ""), Element("x", type_), ""
    if number:
        yield "counter", Element("x", type_, kind=Kind.COUNTER), ""
    writable = Element("x", type_, access=Access.READ_WRITE)
    if form_of(writable) != form_of(Element("x", type_)):
        yield "read-write", writable, ""
    if type_.integer_bits or type_ is ValueType.STRING:
        yield "with named values", Element("x", type_, values=_EXAMPLE_VALUES), ""
    if type_ in (ValueType.DURATION, ValueType.TIME):
        yield "with `snmp_unit`", Element("x", type_), "seconds"
