"""The SNMP form of each type of the model: the one table of forms.

The form is chosen per element from its type, kind and access, never per value, and the registry keeps it for
ever. `gateway.snmp.cells` encodes values in their forms.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from gateway.model.schema import Access, Argument, Element, Kind
from gateway.model.values import ValueType


class Syntax(enum.Enum):
    """The forms that a column can have. The words are in OID registries: they are never renamed."""

    COUNTER64 = "counter64"
    GAUGE32 = "gauge32"
    GAUGE64 = "gauge64"
    INTEGER32 = "integer32"
    UNSIGNED32 = "unsigned32"
    DECIMAL = "decimal"
    FLOAT64 = "float64"
    FLOAT_TEXT = "floatText"
    TRUTH = "truthValue"
    ENUMERATION = "enumeration"
    DATE_AND_TIME = "dateAndTime"
    ROW_POINTER = "rowPointer"
    TEXT = "text"
    OCTETS = "octets"
    JSON = "json"
    UUID = "uuid"


class SmiType(msgspec.Struct, frozen=True):
    """The contents of a SYNTAX clause: a type, the module that defines it, and its fixed size or range."""

    name: str
    module: str
    bounds: str = ""


MAX_TEXT_OCTETS = 255
"""The maximum of SnmpAdminString (RFC 3411 section 5); longer text is cut, with its length beside it."""

MAX_JSON_OCTETS = 1024
"""The maximum of a map or list as JSON; a longer one is shown empty: half a document misleads."""

MAX_BYTES_OCTETS = 1024
"""The maximum of bytes; longer ones are shown empty: half a key or certificate misleads."""

MAX_FLOAT_CHARACTERS = 24
"""The maximum length of the shortest text that reads back as a binary64, as ``-2.2250738585072014e-308``."""

SMI_TYPES: Mapping[Syntax, SmiType] = {
    Syntax.COUNTER64: SmiType("Counter64", "SNMPv2-SMI"),
    Syntax.GAUGE32: SmiType("Gauge32", "SNMPv2-SMI"),
    Syntax.GAUGE64: SmiType("AgGauge64", "AMQP-GATEWAY-MIB"),
    Syntax.INTEGER32: SmiType("Integer32", "SNMPv2-SMI"),
    Syntax.UNSIGNED32: SmiType("Unsigned32", "SNMPv2-SMI"),
    Syntax.DECIMAL: SmiType("DisplayString", "SNMPv2-TC", "(SIZE (1..20))"),
    Syntax.FLOAT64: SmiType("AgFloat64", "AMQP-GATEWAY-MIB"),
    Syntax.FLOAT_TEXT: SmiType("DisplayString", "SNMPv2-TC", f"(SIZE (1..{MAX_FLOAT_CHARACTERS}))"),
    Syntax.TRUTH: SmiType("TruthValue", "SNMPv2-TC"),
    Syntax.ENUMERATION: SmiType("INTEGER", ""),
    Syntax.DATE_AND_TIME: SmiType("DateAndTime", "SNMPv2-TC"),
    Syntax.ROW_POINTER: SmiType("RowPointer", "SNMPv2-TC"),
    Syntax.TEXT: SmiType("SnmpAdminString", "SNMP-FRAMEWORK-MIB", f"(SIZE (0..{MAX_TEXT_OCTETS}))"),
    Syntax.OCTETS: SmiType("OCTET STRING", "", f"(SIZE (0..{MAX_BYTES_OCTETS}))"),
    Syntax.JSON: SmiType("OCTET STRING", "", f"(SIZE (0..{MAX_JSON_OCTETS}))"),
    Syntax.UUID: SmiType("DisplayString", "SNMPv2-TC", "(SIZE (36))"),
}

NUMERIC_SYNTAXES = frozenset(
    {
        Syntax.COUNTER64,
        Syntax.GAUGE32,
        Syntax.GAUGE64,
        Syntax.INTEGER32,
        Syntax.UNSIGNED32,
        Syntax.DECIMAL,
        Syntax.FLOAT64,
        Syntax.FLOAT_TEXT,
    }
)
"""The numeric syntaxes, which alone have a kind."""

TWIN_SYNTAXES = frozenset(
    {Syntax.TEXT, Syntax.OCTETS, Syntax.JSON, Syntax.ROW_POINTER, Syntax.FLOAT64, Syntax.GAUGE64}
)
"""The syntaxes that can have a second column: the octets of the whole value, the name of the object pointed
to, the number as text, which people and most tools can read, or as a gauge of 32 bits, which SNMPv1 has and
no tool takes for a counter."""

WRITABLE_SYNTAXES = frozenset(Syntax) - {Syntax.COUNTER64, Syntax.GAUGE64}
"""The syntaxes that can be written: SMIv2 has no writable 64-bit number (RFC 2578 section 7.1.10)."""

UNIT_NANOSECONDS: Mapping[str, int] = {
    "nanoseconds": 1,
    "microseconds": 1_000,
    "milliseconds": 1_000_000,
    "seconds": 1_000_000_000,
    "minutes": 60_000_000_000,
    "hours": 3_600_000_000_000,
    "days": 86_400_000_000_000,
}
"""Units that a mapping may name for durations and times that are shown as Unsigned32."""

GAUGE32_DIVISORS: Mapping[str, int] = {
    "": 1,
    "kibibytes": 1_024,
    "microseconds": 1_000,
    "milliseconds": 1_000_000,
}
"""The units that a gauge of 32 bits has beside one of 64 bits, and how many of the other's each is. The empty
one stands for the unit of the other."""

_OCTETS = frozenset({"octet", "octets", "byte", "bytes", "B"})

_WIDER = {
    Syntax.GAUGE32: Syntax.GAUGE64,
    Syntax.INTEGER32: Syntax.DECIMAL,
    # Not wider, but what a registry has for good where it is older than the text.
    Syntax.FLOAT_TEXT: Syntax.FLOAT64,
}

FLOATS = frozenset({ValueType.F32, ValueType.F64})

_ONE_FORM: Mapping[ValueType, Syntax] = {
    ValueType.BOOL: Syntax.TRUTH,
    ValueType.F32: Syntax.FLOAT64,
    ValueType.F64: Syntax.FLOAT64,
    ValueType.STRING: Syntax.TEXT,
    ValueType.BYTES: Syntax.OCTETS,
    ValueType.UUID: Syntax.UUID,
    ValueType.TIME: Syntax.DATE_AND_TIME,
    ValueType.REFERENCE: Syntax.ROW_POINTER,
    ValueType.MAP: Syntax.JSON,
    ValueType.LIST: Syntax.JSON,
}

_NARROW_BITS = 32
_DURATION_BITS = 64  # nanoseconds


class Form(msgspec.Struct, frozen=True):
    """The form of an element, which distinguishes columns of one name.

    ``unit`` is set only where a duration or time is counted in a unit that the mapping names.
    """

    syntax: Syntax
    kind: Kind = Kind.GAUGE
    unit: str = ""

    def fits(self, other: Form) -> bool:
        """Return whether every value of this form can stand in a column of the form ``other``."""
        return (
            other.syntax in (self.syntax, _WIDER.get(self.syntax))
            and self.kind is other.kind
            and self.unit == other.unit
        )


def form_of(element: Element, snmp_unit: str = "") -> Form:
    """Return the form of ``element``, where ``snmp_unit`` is that of its mapping rule.

    Raises:
        ValueError: ``snmp_unit`` is no unit of time, or the element is neither a duration nor a time.
    """
    timed = element.type in (ValueType.DURATION, ValueType.TIME)
    if snmp_unit and not timed:
        raise ValueError("snmp_unit is for durations and times only")
    if snmp_unit and snmp_unit not in UNIT_NANOSECONDS:
        raise ValueError(f"snmp_unit {snmp_unit!r} is not one of {', '.join(UNIT_NANOSECONDS)}")
    syntax = _syntax_of(element, snmp_unit)
    # SNMP's numbers that are no counters are of one kind, whether they are measured or not.
    is_gauge = syntax not in NUMERIC_SYNTAXES or element.kind is Kind.NONE
    kind = Kind.GAUGE if is_gauge else element.kind
    return Form(syntax, kind, snmp_unit)


def _syntax_of(element: Element, snmp_unit: str) -> Syntax:
    if element.values and (element.type.integer_bits or element.type is ValueType.STRING):
        return Syntax.ENUMERATION
    if element.type.integer_bits or element.type is ValueType.DURATION or snmp_unit:
        return _number_syntax(element, snmp_unit)
    # As with 64-bit numbers: what may be set is text, since few tools can write eight octets of IEEE 754.
    if element.type in FLOATS and element.access is Access.READ_WRITE:
        return Syntax.FLOAT_TEXT
    return _ONE_FORM[element.type]


def _number_syntax(element: Element, snmp_unit: str) -> Syntax:
    wide = not snmp_unit and (element.type.integer_bits or _DURATION_BITS) > _NARROW_BITS
    # SMIv2 has no writable 64-bit number (RFC 2578 section 7.1.10), so one that may be set is decimal text.
    if wide and element.access is Access.READ_WRITE:
        return Syntax.DECIMAL
    if element.kind is Kind.COUNTER:
        return Syntax.COUNTER64
    if snmp_unit:
        return Syntax.UNSIGNED32
    if element.type.signed:
        return Syntax.DECIMAL if wide else Syntax.INTEGER32
    return Syntax.GAUGE64 if wide else Syntax.GAUGE32


def needs_twin(element: Element, form: Form) -> bool:
    """Return whether a second column is needed: the first may be cut, left out, or not what tools read."""
    if form.syntax is Syntax.TEXT:
        return element.max_length is None or element.max_length > MAX_TEXT_OCTETS
    if form.syntax is Syntax.OCTETS:
        return element.max_length is None or element.max_length > MAX_BYTES_OCTETS
    return form.syntax in TWIN_SYNTAXES


def gauge32_unit(unit: str, kind: Kind = Kind.GAUGE) -> str:
    """Return the unit (of `GAUGE32_DIVISORS`) that the 32-bit twin of a 64-bit gauge in ``unit`` counts.

    Octets would end at 4 GiB, and nanoseconds at 4.3 s: kibibytes end at 4 TiB, and milliseconds after 49
    days. The highest, lowest and mean value of many are those of short acts, such as a write to a disk, in
    milliseconds often 0: they are in microseconds, which end after 71 minutes.
    """
    if unit in _OCTETS:
        return "kibibytes"
    if unit != "nanoseconds":
        return ""
    return "milliseconds" if kind is Kind.GAUGE else "microseconds"


def unit_of(element: Element) -> str:
    """Return the unit of a number as the model has it; empty where none is known."""
    # A mapping's unit wins over the type: what a broker declares as a duration may be a count all the same.
    return element.unit or ("nanoseconds" if element.type is ValueType.DURATION else "")


_IN_NOTIFICATIONS: Mapping[Syntax, Syntax] = {
    Syntax.COUNTER64: Syntax.DECIMAL,
    Syntax.GAUGE64: Syntax.DECIMAL,
    Syntax.FLOAT64: Syntax.FLOAT_TEXT,
}
_FIT_IN_NOTIFICATIONS: Mapping[Syntax, Syntax] = {
    Syntax.GAUGE32: Syntax.DECIMAL,
    Syntax.INTEGER32: Syntax.DECIMAL,
    Syntax.UNSIGNED32: Syntax.DECIMAL,
    Syntax.FLOAT_TEXT: Syntax.FLOAT64,  # of a registry that is older than the text
}


def argument_form(argument: Argument, snmp_unit: str = "") -> Form:
    """Return the form of an event's argument, where ``snmp_unit`` is that of its mapping rule.

    It is that of an element, but numbers of 64 bits are decimal text: SNMPv1 has no Counter64, and RFC 3584
    section 3.2 has no trap for a notification with one. So are times and durations in a unit that may be
    absent: 0 would be either, and less than a unit is sent with its fraction. Floats are text, and only text:
    a notification is read as it is, without a second column.

    Raises:
        ValueError: as `form_of`.
    """
    form = form_of(element_of(argument), snmp_unit)
    syntax = _IN_NOTIFICATIONS.get(form.syntax, form.syntax)
    if argument.optional and form.unit:
        syntax = Syntax.DECIMAL
    return Form(syntax, Kind.GAUGE, form.unit)


def argument_fits(wanted: Form, other: Form) -> bool:
    """Return whether every value of the form ``wanted`` can stand in an argument of the form ``other``."""
    return wanted.unit == other.unit and (
        wanted.syntax is other.syntax or other.syntax is _FIT_IN_NOTIFICATIONS.get(wanted.syntax)
    )


def element_of(argument: Argument) -> Element:
    """Return the read-only property that would have the argument's values."""
    return Element(
        name=argument.name,
        type=argument.type,
        optional=argument.optional,
        unit=argument.unit,
        max_length=argument.max_length,
        references=argument.references,
        label=argument.label,
        description=argument.description,
        values=argument.values,
    )
