"""Absent statistics and stale objects over a wire that has neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.model_values import (
    ABSENT_STATISTICS,
    STALE_SINCE,
    absence_applied,
    counts_inherited,
    has_absence_marks,
    has_stale_marks,
    model_severity,
    wire_severity,
    with_absence_marked,
    with_marks,
    without_marks,
)
from gateway.model.observations import Severity
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import ValueType

KEY = ClassKey("shop", "tank")


def _statistics(count: int) -> tuple[Element, ...]:
    return tuple(Element(f"s{number}", ValueType.U32) for number in range(count))


def test_bit_n_stands_for_statistic_n() -> None:
    assert with_absence_marked((5, None, 0, None)) == (5, None, 0, None, 0b1010)
    assert absence_applied((5, 0, 0, 0, 0b1010)) == (5, None, 0, None)


@given(statistics=st.lists(st.none() | st.integers(), max_size=63).map(tuple), inherited=st.booleans())
def test_absence_survives_beside_the_mark_of_inherited_counts(
    *, statistics: tuple[int | None, ...], inherited: bool
) -> None:
    marked = with_absence_marked(statistics, inherited=inherited)
    sent = tuple(0 if value is None else value for value in marked)
    assert absence_applied(sent) == statistics
    assert counts_inherited(sent) == inherited


def test_the_statistic_is_added_and_hidden() -> None:
    schema = ClassSchema(KEY, (), _statistics(2))
    served = with_marks(schema)
    assert [one.name for one in served.statistics] == ["s0", "s1", "absentStatistics"]
    assert [one.name for one in served.properties] == ["staleSince"]
    assert has_absence_marks(served)
    assert has_stale_marks(served)
    assert not has_absence_marks(schema)
    assert not has_stale_marks(schema)
    assert without_marks(served) == schema
    assert without_marks(schema) == schema


def test_a_class_without_statistics_marks_stale_objects_only() -> None:
    served = with_marks(ClassSchema(KEY))
    assert has_stale_marks(served)
    assert not has_absence_marks(served)
    assert without_marks(served) == ClassSchema(KEY)


def test_elements_of_these_names_but_of_another_form_are_none_of_the_marks() -> None:
    assert not has_absence_marks(ClassSchema(KEY, (), (Element(ABSENT_STATISTICS, ValueType.STRING),)))
    assert not has_stale_marks(ClassSchema(KEY, (Element(STALE_SINCE, ValueType.U64, optional=True),)))
    assert not has_stale_marks(ClassSchema(KEY, (Element(STALE_SINCE, ValueType.TIME),)))


def test_there_are_63_bits_for_statistics() -> None:
    with_marks(ClassSchema(KEY, (), _statistics(63)))
    with pytest.raises(LocalProtocolError, match="more than 63"):
        with_marks(ClassSchema(KEY, (), _statistics(64)))


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        (0, Severity.CRITICAL),
        (1, Severity.CRITICAL),
        (2, Severity.CRITICAL),
        (3, Severity.MAJOR),
        (4, Severity.WARNING),
        (5, Severity.INFO),
        (6, Severity.INFO),
        (7, Severity.INFO),
        (8, Severity.INFO),
        (255, Severity.INFO),
    ],
)
def test_severities(code: int, severity: Severity) -> None:
    assert model_severity(code) is severity


@pytest.mark.parametrize("severity", [Severity.CRITICAL, Severity.MAJOR, Severity.WARNING, Severity.INFO])
def test_severities_survive(severity: Severity) -> None:
    assert model_severity(wire_severity(severity)) is severity
