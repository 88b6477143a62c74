"""The SNMP syntax of each type of the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model.schema import Access, Element, Kind, NamedValue
from gateway.model.values import ValueType
from gateway.snmp.syntax import SMI_TYPES, Form, Syntax, form_of, gauge32_unit, needs_twin, unit_of
from tests.written_pages.types_page import types_page


@pytest.mark.parametrize(
    ("type_", "kind", "syntax"),
    [
        (ValueType.BOOL, Kind.GAUGE, Syntax.TRUTH),
        (ValueType.U8, Kind.GAUGE, Syntax.GAUGE32),
        (ValueType.U16, Kind.HIGH, Syntax.GAUGE32),
        (ValueType.U32, Kind.LOW, Syntax.GAUGE32),
        (ValueType.U32, Kind.COUNTER, Syntax.COUNTER64),
        (ValueType.U64, Kind.COUNTER, Syntax.COUNTER64),
        (ValueType.U64, Kind.GAUGE, Syntax.GAUGE64),
        (ValueType.U64, Kind.AVERAGE, Syntax.GAUGE64),
        (ValueType.S8, Kind.GAUGE, Syntax.INTEGER32),
        (ValueType.S16, Kind.GAUGE, Syntax.INTEGER32),
        (ValueType.S32, Kind.GAUGE, Syntax.INTEGER32),
        (ValueType.S64, Kind.GAUGE, Syntax.DECIMAL),
        (ValueType.S64, Kind.COUNTER, Syntax.COUNTER64),
        (ValueType.F32, Kind.AVERAGE, Syntax.FLOAT64),
        (ValueType.F64, Kind.COUNTER, Syntax.FLOAT64),
        (ValueType.STRING, Kind.GAUGE, Syntax.TEXT),
        (ValueType.BYTES, Kind.GAUGE, Syntax.OCTETS),
        (ValueType.UUID, Kind.GAUGE, Syntax.UUID),
        (ValueType.TIME, Kind.GAUGE, Syntax.DATE_AND_TIME),
        (ValueType.DURATION, Kind.GAUGE, Syntax.GAUGE64),
        (ValueType.DURATION, Kind.COUNTER, Syntax.COUNTER64),
        (ValueType.REFERENCE, Kind.GAUGE, Syntax.ROW_POINTER),
        (ValueType.MAP, Kind.GAUGE, Syntax.JSON),
        (ValueType.LIST, Kind.GAUGE, Syntax.JSON),
    ],
)
def test_each_type_and_kind_has_one_syntax(type_: ValueType, kind: Kind, syntax: Syntax) -> None:
    assert form_of(Element("x", type_, kind=kind)).syntax is syntax


@pytest.mark.parametrize("type_", ValueType)
def test_every_type_has_a_form_whatever_its_kind_and_access(type_: ValueType) -> None:
    for kind in Kind:
        for access in Access:
            assert form_of(Element("x", type_, access=access, kind=kind)).syntax in SMI_TYPES


@pytest.mark.parametrize("type_", [ValueType.U64, ValueType.S64, ValueType.DURATION])
def test_a_writable_64_bit_number_is_decimal_text(type_: ValueType) -> None:
    assert form_of(Element("x", type_, access=Access.READ_WRITE)).syntax is Syntax.DECIMAL
    assert form_of(Element("x", type_, access=Access.READ_CREATE)).syntax is not Syntax.TEXT


@pytest.mark.parametrize("type_", [ValueType.F32, ValueType.F64])
def test_a_writable_float_is_text(type_: ValueType) -> None:
    assert form_of(Element("x", type_, access=Access.READ_WRITE)).syntax is Syntax.FLOAT_TEXT
    assert form_of(Element("x", type_, access=Access.READ_CREATE)).syntax is Syntax.FLOAT64


@pytest.mark.parametrize("type_", [ValueType.U8, ValueType.S32, ValueType.STRING])
def test_numbers_and_strings_with_named_values_are_enumerations(type_: ValueType) -> None:
    assert form_of(Element("x", type_, values=(NamedValue("a", 1),))).syntax is Syntax.ENUMERATION


def test_durations_and_times_may_be_counted_in_a_unit() -> None:
    assert form_of(Element("x", ValueType.DURATION), "seconds") == Form(
        Syntax.UNSIGNED32, Kind.GAUGE, "seconds"
    )
    assert form_of(Element("x", ValueType.TIME), "seconds").syntax is Syntax.UNSIGNED32
    assert form_of(Element("x", ValueType.DURATION, kind=Kind.COUNTER), "milliseconds") == Form(
        Syntax.COUNTER64, Kind.COUNTER, "milliseconds"
    )


@pytest.mark.parametrize(("type_", "unit"), [(ValueType.U64, "seconds"), (ValueType.DURATION, "fortnights")])
def test_a_unit_that_makes_no_sense_is_refused(type_: ValueType, unit: str) -> None:
    with pytest.raises(ValueError, match="snmp_unit"):
        form_of(Element("x", type_), unit)


def test_the_kind_counts_for_numbers_only() -> None:
    assert form_of(Element("x", ValueType.U32, kind=Kind.HIGH)).kind is Kind.HIGH
    assert form_of(Element("x", ValueType.STRING, kind=Kind.HIGH)).kind is Kind.GAUGE


def test_what_fits_where() -> None:
    narrow, wide = Form(Syntax.GAUGE32), Form(Syntax.GAUGE64)
    assert narrow.fits(narrow)
    assert narrow.fits(wide)
    assert not wide.fits(narrow)
    assert not narrow.fits(Form(Syntax.GAUGE64, Kind.HIGH))
    assert not Form(Syntax.UNSIGNED32, unit="seconds").fits(Form(Syntax.UNSIGNED32, unit="days"))


@pytest.mark.parametrize(
    ("element", "twin"),
    [
        (Element("x", ValueType.STRING), True),
        (Element("x", ValueType.STRING, max_length=255), False),
        (Element("x", ValueType.STRING, max_length=256), True),
        (Element("x", ValueType.BYTES), True),
        (Element("x", ValueType.BYTES, max_length=1024), False),
        (Element("x", ValueType.MAP), True),
        (Element("x", ValueType.REFERENCE), True),
        (Element("x", ValueType.F64), True),
        (Element("x", ValueType.F64, access=Access.READ_WRITE), False),
        (Element("x", ValueType.U64), True),
        (Element("x", ValueType.U32), False),
        (Element("x", ValueType.U64, kind=Kind.COUNTER), False),
    ],
)
def test_what_may_be_cut_or_points_elsewhere_has_a_second_column(element: Element, *, twin: bool) -> None:
    assert needs_twin(element, form_of(element)) is twin


@pytest.mark.parametrize(
    ("element", "unit"),
    [
        (Element("x", ValueType.U64), ""),
        (Element("x", ValueType.U64, unit="messages"), ""),
        (Element("x", ValueType.U64, unit="octets"), "kibibytes"),
        (Element("x", ValueType.DURATION), "milliseconds"),
        (Element("x", ValueType.DURATION, kind=Kind.AVERAGE), "microseconds"),
        (Element("x", ValueType.DURATION, unit="samples"), ""),
    ],
)
def test_the_gauge_of_32_bits_has_a_unit_in_which_usual_values_fit(element: Element, unit: str) -> None:
    assert gauge32_unit(unit_of(element), element.kind) == unit


def test_the_page_of_types_is_what_the_code_does() -> None:
    page = Path(__file__).parents[3] / "docs" / "types.md"
    assert page.read_text(encoding="utf-8") == types_page(), "write docs/types.md again from types_page()"
