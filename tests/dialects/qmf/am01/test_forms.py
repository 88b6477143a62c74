"""Get and set requests, whose bodies are defined by this project."""

from __future__ import annotations

import pytest

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.am01.forms import AM01, read_changes, read_object, write_changes, write_object
from gateway.dialects.qmf.definitions import ClassDefinition
from tests.dialects.qmf.am01.examples import (
    PROPERTIES,
    PROPERTY_OCTETS,
    STATISTIC_OCTETS,
    STATISTICS,
    tank,
)

TANK = ClassDefinition.of(tank(), AM01)
CHANGES = b"\x04size\0\x09" + b"\x04name\x02t2"


def test_the_answer_to_a_get_has_the_values_of_both_kinds_of_content() -> None:
    octets = PROPERTY_OCTETS + STATISTIC_OCTETS
    assert write_object(TANK, PROPERTIES, STATISTICS) == octets
    assert read_object(TANK, octets) == (PROPERTIES, STATISTICS)


@pytest.mark.parametrize("octets", [b"", PROPERTY_OCTETS, PROPERTY_OCTETS + STATISTIC_OCTETS + b"x"])
def test_another_answer_is_none(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_object(TANK, octets)


def test_a_set_has_the_names_and_values_that_change() -> None:
    assert write_changes(TANK, {"size": 9, "name": "t2"}) == CHANGES
    assert read_changes(TANK, CHANGES) == {"size": 9, "name": "t2"}
    assert read_changes(TANK, b"") == {}


@pytest.mark.parametrize(
    "octets", [b"\x05level" + bytes(8), CHANGES + CHANGES, CHANGES[:-1], b"\x04size", b"\x04si"]
)
def test_another_set_is_none(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_changes(TANK, octets)


def test_what_cannot_be_set_is_refused_here() -> None:
    with pytest.raises(LocalProtocolError, match="no property level"):
        write_changes(TANK, {"level": 1.0})
    with pytest.raises(LocalProtocolError, match="does not fit"):
        write_changes(TANK, {"size": 1 << 16})
