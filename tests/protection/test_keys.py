"""Keys: their form, their times, rotation with overlap, and revocation."""

from __future__ import annotations

import contextlib
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.times import DAY, HOUR, SECOND
from gateway.protection.keys import (
    KeyRing,
    KeyRingError,
    Use,
    generated,
    read_ring,
    revoked,
    rotated,
    write_ring,
)
from tests.protection.parties import NOW, current, keys_of


def test_a_ring_is_read_as_it_was_written() -> None:
    ring = rotated(keys_of(), NOW, NOW + HOUR, DAY)
    ring = revoked(ring, ring.keys[0].kid, NOW)
    assert read_ring(write_ring(ring).encode()) == ring
    assert ring.is_private


def test_a_public_ring_has_no_private_part() -> None:
    text = write_ring(keys_of().public())
    assert '"d"' not in text
    assert not read_ring(text.encode()).is_private


def test_no_new_key_has_an_id_that_a_command_takes_for_an_option() -> None:
    ring = generated([Use.SIGN] * 1_000)
    assert not [key.kid for key in ring.keys if key.kid.startswith("-")]


def test_a_published_key_has_the_form_of_rfc_8037() -> None:
    ring = read_ring(
        json.dumps(
            {
                "keys": [
                    {
                        "kty": "OKP",
                        "crv": "Ed25519",
                        "use": "sig",
                        "kid": "kPrK_qmxVWaYVA9w",
                        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
                        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
                    }
                ]
            }
        ).encode()
    )
    (key,) = ring.keys
    assert (key.kid, key.use, key.is_private) == ("kPrK_qmxVWaYVA9w", Use.SIGN, True)


def test_a_new_key_is_used_from_its_time_and_the_former_accepted_until_the_end_of_the_overlap() -> None:
    ring = keys_of(Use.SIGN)
    former = current(ring, Use.SIGN)
    ring = rotated(ring, NOW, NOW + HOUR, DAY)
    new = ring.keys[-1]

    def state(at: int) -> tuple[bool, bool, bool]:
        one, two = ring.find(Use.SIGN, former.kid), ring.find(Use.SIGN, new.kid)
        assert one is not None
        assert two is not None
        return ring.current(Use.SIGN, at) == two, one.is_accepted(at), two.is_accepted(at)

    assert state(NOW + HOUR - SECOND) == (False, True, True)
    assert state(NOW + HOUR) == (True, True, True)
    assert state(NOW + HOUR + DAY - SECOND) == (True, True, True)
    assert state(NOW + HOUR + DAY) == (True, False, True)


def test_keys_that_have_expired_are_dropped_by_the_next_rotation() -> None:
    ring = rotated(keys_of(Use.READ), NOW, NOW, HOUR)
    later = NOW + 2 * HOUR
    assert len(rotated(ring, later, later, HOUR).keys) == 2


def test_a_revoked_key_is_not_accepted_and_not_used_at_any_time() -> None:
    ring = keys_of(Use.SIGN)
    key = current(ring, Use.SIGN)
    ring = revoked(ring, key.kid, NOW)
    found = ring.find(Use.SIGN, key.kid)
    assert found is not None
    assert not found.is_accepted(NOW - DAY)
    assert ring.current(Use.SIGN, NOW) is None


def test_only_a_key_of_the_ring_can_be_revoked() -> None:
    ring = keys_of(Use.SIGN)
    with pytest.raises(KeyRingError, match=f"its keys are: {ring.keys[0].kid}"):
        revoked(ring, "another", NOW)


def test_only_the_owner_rotates() -> None:
    with pytest.raises(KeyRingError, match="only the owner"):
        rotated(keys_of().public(), NOW, NOW, HOUR)


def wrong(**members: str) -> bytes:
    """Return a ring whose key has other members."""
    key = json.loads(write_ring(generated([Use.SIGN], NOW)))["keys"][0]
    return json.dumps({"keys": [{**key, **members}]}).encode()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "no set of keys"),
        (b"[]", "no set of keys"),
        (b'{"keys": [{"kty": "oct", "k": "AAAA"}]}', "no set of keys"),
        (wrong(kid="AAAAAAAAAAAAAAAA"), "should have the id"),
        (wrong(use="enc"), "is not for the use"),
        (wrong(crv="X25519"), "is not for the use"),
        (wrong(x="short"), "no key of Ed25519"),
        (wrong(d="A" * 43), "belongs to another key"),
        (b" " * 70_000, "at most 65536"),
    ],
    ids=itertools.count(),  # keys are new in each process, and workers must agree on names
)
def test_wrong_rings_are_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(KeyRingError, match=complaint):
        read_ring(text)


def test_a_ring_has_no_key_twice() -> None:
    ring = keys_of(Use.SIGN)
    with pytest.raises(KeyRingError, match="twice"):
        read_ring(write_ring(KeyRing(ring.keys * 2)).encode())


@given(
    st.binary(max_size=300) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_any_bytes_are_a_ring_or_one_error(text: bytes) -> None:
    with contextlib.suppress(KeyRingError):
        read_ring(text)
