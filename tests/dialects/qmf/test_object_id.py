"""Object ids: 16 octets, five fields, one text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.fields import NULL, ObjectId

u64 = st.integers(0, 2**64 - 1)


def test_the_fields_of_the_wire_form() -> None:
    object_id = ObjectId.from_octets(
        bytes.fromhex("1 002 00003 0000004".replace(" ", "") + "0000000000000005")
    )
    fields = (
        object_id.flags,
        object_id.sequence,
        object_id.broker_bank,
        object_id.agent_bank,
        object_id.number,
    )
    assert fields == (1, 2, 3, 4, 5)
    assert str(object_id) == "1-2-3-4-5"


def test_the_text_form() -> None:
    assert ObjectId.parse("0-1-1-0-15") == ObjectId.of(sequence=1, broker_bank=1, agent_bank=0, number=15)


@given(u64, u64)
def test_each_id_survives_octets_and_text(prefix: int, number: int) -> None:
    object_id = ObjectId(prefix, number)
    assert ObjectId.from_octets(object_id.to_octets()) == object_id
    assert ObjectId.parse(str(object_id)) == object_id


@pytest.mark.parametrize(
    "text", ["", "1-2-3-4", "0-0-0-0-0x1", "16-0-0-0-0", "0-4096-1-0-1", "0-0-0-0-٣", "a" * 9000]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="object id"):
        ObjectId.parse(text)


def test_other_lengths_are_refused() -> None:
    with pytest.raises(ProtocolError, match="16 octets"):
        ObjectId.from_octets(b"short")


def test_fields_must_fit() -> None:
    with pytest.raises(LocalProtocolError, match="sequence 4096"):
        ObjectId.of(sequence=4096, number=1)


def test_only_all_zero_is_null() -> None:
    assert not NULL
    assert ObjectId(0, 1)
    assert ObjectId(1, 0)
