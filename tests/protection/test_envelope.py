"""Envelopes: what is in them, and what is refused."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwe, jws
from joserfc.jwk import OctKey, OKPKey

from gateway.protection.envelope import (
    MAX_BODY,
    MAX_ENVELOPE,
    BodyRefusedError,
    OpenedBody,
    Refusal,
    open_envelope,
    seal,
)
from gateway.protection.keys import Key, Use
from tests.protection.parties import claims, current, keys_of

AGENT: Final = keys_of()
CONSOLE: Final = keys_of()
SIGNER, READER = current(AGENT, Use.SIGN), current(CONSOLE, Use.READ)
TRUSTED = AGENT.public()

BODY: Final = b"AM2c the name of a queue"
ENVELOPE: Final = seal(claims(BODY, READER), BODY, SIGNER, READER)


def read_key(kid: str) -> Key | None:
    return CONSOLE.find(Use.READ, kid)


def sender_key(kid: str) -> Key | None:
    return TRUSTED.find(Use.SIGN, kid)


def opened(envelope: bytes) -> OpenedBody:
    """Return the opened envelope, as the console opens it."""
    return open_envelope(envelope, read_key, sender_key)


def refusal(envelope: bytes) -> Refusal:
    """Return the reason why the console refuses an envelope."""
    with pytest.raises(BodyRefusedError) as caught:
        opened(envelope)
    return caught.value.refusal


def test_the_receiver_gets_what_was_signed() -> None:
    assert opened(ENVELOPE) == OpenedBody(SIGNER.kid, claims(BODY, READER), BODY)


def test_an_envelope_is_text_without_a_word_of_the_body() -> None:
    assert ENVELOPE.isascii()
    for encode in (bytes, base64.b64encode, base64.urlsafe_b64encode):
        assert encode(b"queue")[:6] not in ENVELOPE


def test_an_envelope_adds_a_third_and_less_than_a_kilobyte() -> None:
    for size in (0, 100, 10_000):
        body = bytes(size)
        envelope = seal(claims(body, READER), body, SIGNER, READER)
        assert len(envelope) < size * 4 / 3 + 1000


def test_another_implementation_decrypts_and_verifies_it() -> None:
    signed, _, body = (jwe.decrypt_compact(ENVELOPE, READER.jwk).plaintext or b"").partition(b"\n")
    found = jws.deserialize_compact(signed, SIGNER.jwk, algorithms=["Ed25519"])
    assert json.loads(found.payload)[:3] == [1, "e", "k"]
    assert body == BODY


@given(st.binary(max_size=2000))
def test_any_body_comes_back(body: bytes) -> None:
    assert opened(seal(claims(body, READER), body, SIGNER, READER)).body == body


@given(st.integers(0, len(ENVELOPE) - 1), st.sampled_from(list(b"Ab09-_.=\x00")))
def test_no_byte_can_be_changed(at: int, byte: int) -> None:
    tampered = ENVELOPE[:at] + bytes([byte]) + ENVELOPE[at + 1 :]
    if tampered == ENVELOPE:
        return
    assert refusal(tampered) in {Refusal.MALFORMED, Refusal.TAMPERED, Refusal.UNREADABLE}


@given(st.integers(0, len(ENVELOPE) - 1))
def test_no_byte_can_be_cut_off(length: int) -> None:
    assert refusal(ENVELOPE[:length]) in {Refusal.MALFORMED, Refusal.TAMPERED}


@given(st.binary(max_size=1000) | st.from_regex(rb"[A-Za-z0-9_.-]{0,400}", fullmatch=True))
def test_any_bytes_are_refused_with_one_error(envelope: bytes) -> None:
    assert refusal(envelope) in {Refusal.MALFORMED, Refusal.TAMPERED, Refusal.UNREADABLE}


def test_an_envelope_for_another_reader_is_unreadable() -> None:
    other = current(keys_of(), Use.READ)
    assert refusal(seal(claims(BODY, other), BODY, SIGNER, other)) is Refusal.UNREADABLE


def test_a_signature_of_another_key_is_not_trusted() -> None:
    other = current(keys_of(), Use.SIGN)
    assert refusal(seal(claims(BODY, READER), BODY, other, READER)) is Refusal.UNKNOWN_SENDER


def test_a_receiver_cannot_pass_a_body_on_as_meant_for_another_one() -> None:
    third = keys_of()
    meant_for_third = claims(BODY, current(third, Use.READ))
    assert refusal(seal(meant_for_third, BODY, SIGNER, READER)) is Refusal.REROUTED


def test_another_body_under_the_same_signature_is_refused() -> None:
    assert refusal(seal(claims(BODY, READER), BODY + b"!", SIGNER, READER)) is Refusal.TAMPERED


# What a peer that holds the public keys can make.

_ANY: Final = ["none", "HS256", "EdDSA", "Ed25519"]


def signed(header: dict[str, Any], payload: bytes, key: OKPKey | OctKey) -> bytes:
    """Return a JWS of any algorithm."""
    return jws.serialize_compact(header, payload, key, algorithms=_ANY).encode()


def wrapped(plaintext: bytes, **header: str) -> bytes:
    """Return a JWE for the console, with other members of its header."""
    members = {"alg": "ECDH-ES", "enc": "A256GCM", "kid": READER.kid, **header}
    return jwe.encrypt_compact(members, plaintext, READER.jwk, registry=jwe.JWERegistry()).encode()


def with_signature(header: dict[str, Any], key: OKPKey | OctKey) -> bytes:
    payload = msgspec.json.encode(claims(BODY, READER))
    return wrapped(signed({"typ": "amqp+jws", "kid": SIGNER.kid, **header}, payload, key) + b"\n" + BODY)


def test_the_form_of_these_forgeries_is_right_but_for_the_forged() -> None:
    assert opened(with_signature({"alg": "Ed25519"}, SIGNER.jwk)).body == BODY


_PUBLIC: Final = base64.urlsafe_b64decode(str(SIGNER.jwk.as_dict(private=False)["x"]) + "=")


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ({"alg": "HS256"}, OctKey.import_key(_PUBLIC)),
        ({"alg": "Ed25519", "typ": "JWT"}, SIGNER.jwk),
        ({"alg": "Ed25519", "kid": "x" * 700}, SIGNER.jwk),
        ({"alg": "Ed25519", "jwk": OKPKey.generate_key("Ed25519").as_dict(private=False)}, SIGNER.jwk),
        ({"alg": "Ed25519", "b64": False, "crit": ["b64"]}, SIGNER.jwk),
    ],
    ids=["HMAC with the public key", "another type", "a long id", "a key of its own", "another payload form"],
)
def test_a_signature_in_another_form_is_refused(header: dict[str, Any], key: OKPKey | OctKey) -> None:
    assert refusal(with_signature(header, key)) is Refusal.MALFORMED


def test_a_signature_without_algorithm_is_refused() -> None:
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"amqp+jws","kid":"%b"}' % SIGNER.kid.encode())
    payload = base64.urlsafe_b64encode(msgspec.json.encode(claims(BODY, READER)))
    unsigned = b"%b.%b." % (header.rstrip(b"="), payload.rstrip(b"="))
    assert refusal(wrapped(unsigned + b"\n" + BODY)) is Refusal.MALFORMED


def test_a_key_that_reads_does_not_sign_and_one_that_signs_does_not_read() -> None:
    by_reader = with_signature({"alg": "Ed25519", "kid": current(AGENT, Use.READ).kid}, SIGNER.jwk)
    assert refusal(by_reader) is Refusal.UNKNOWN_SENDER
    assert refusal(wrapped(BODY, kid=current(CONSOLE, Use.SIGN).kid)) is Refusal.UNREADABLE


@pytest.mark.parametrize(
    "header",
    [
        {"zip": "DEF"},
        {"enc": "A128GCM"},
        {"alg": "ECDH-ES+A256KW"},
        {"cty": "JWS"},
        {"kid": "x" * 600},
    ],
    ids=str,
)
def test_an_envelope_in_another_form_is_refused_before_it_is_opened(header: dict[str, Any]) -> None:
    assert refusal(wrapped(b"A" * 10_000, **header)) is Refusal.MALFORMED


def test_a_point_of_low_order_is_refused() -> None:
    nothing = base64.urlsafe_b64encode(bytes(32)).rstrip(b"=").decode()
    header = {
        "alg": "ECDH-ES",
        "enc": "A256GCM",
        "kid": READER.kid,
        "epk": {"kty": "OKP", "crv": "X25519", "x": nothing},
    }
    encoded = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=")
    assert refusal(b"%b..%b.AAAA.%b" % (encoded, b"A" * 16, b"A" * 22)) is Refusal.TAMPERED


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b"[1]",
        b"[2" + b',""' * 13 + b"]",
        b"[" * 5000,
        msgspec.json.encode(claims(BODY, READER)).replace(b'"user"', b'"\xff"'),
        msgspec.json.encode(claims(BODY, READER)).replace(b'"user"', rb'"\ud800"').replace(b'"k"', b"7"),
    ],
    ids=itertools.count(),  # keys are new in each process, and workers must agree on names
)
def test_signed_claims_of_another_form_are_refused(payload: bytes) -> None:
    header = {"alg": "Ed25519", "typ": "amqp+jws", "kid": SIGNER.kid}
    assert refusal(wrapped(signed(header, payload, SIGNER.jwk) + b"\n" + BODY)) in {
        Refusal.MALFORMED,
        Refusal.TAMPERED,
    }


@pytest.mark.parametrize("plaintext", [b"", b"\n", b"a.b.c", b"...\n", b"a" * 100_000 + b"\n"])
def test_an_envelope_without_a_signature_is_refused(plaintext: bytes) -> None:
    registry: Callable[[], jwe.JWERegistry] = jwe.JWERegistry
    large = registry()
    large.max_ciphertext_length = 1 << 20
    header = {"alg": "ECDH-ES", "enc": "A256GCM", "kid": READER.kid}
    envelope = jwe.encrypt_compact(header, plaintext, READER.jwk, registry=large).encode()
    assert refusal(envelope) is Refusal.MALFORMED


def test_the_longest_body_is_carried_and_a_longer_one_is_not() -> None:
    body = bytes(MAX_BODY)
    envelope = seal(claims(body, READER), body, SIGNER, READER)
    assert len(envelope) < MAX_ENVELOPE
    assert opened(envelope).body == body
    with pytest.raises(ValueError, match="too long"):
        seal(claims(body, READER), body + b"1", SIGNER, READER)
    assert refusal(b"A" * (MAX_ENVELOPE + 1)) is Refusal.MALFORMED
