"""A change of one octet of a recorded body is visible: nothing of a body is omitted silently."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.decoding.plain import Body, Decoded, Decoder
from gateway.dialects.decoding.qmf import Am01Decoder, Am2Decoder
from gateway.dialects.decoding.text import AmiDecoder, CmlDecoder
from gateway.dialects.errors import ProtocolError
from tests.dialects.ami.examples import EXAMPLES
from tests.dialects.cml.recordings import exchanges
from tests.dialects.qmf.am01 import recordings as am01
from tests.dialects.qmf.recordings import PEERS, recorded

BODIES: dict[Callable[[], Decoder], Callable[[], list[Body]]] = {
    Am2Decoder: lambda: [Body(one.body) for peer in PEERS for one in recorded(peer) if not one.broken],
    Am01Decoder: lambda: [
        Body(one.body, routing_key=one.key) for file in am01.FILES for one in am01.recorded(file)
    ],
    CmlDecoder: lambda: [Body(body) for one in exchanges() for body in (one.request, *one.replies)],
    AmiDecoder: lambda: [Body(line + b"\n") for _, line in EXAMPLES],
}


@cache
def learnt(kind: Callable[[], Decoder]) -> tuple[Decoder, list[Body]]:
    """Return a decoder that has read all bodies, and the bodies that it can re-encode to the same octets."""
    decoder = kind()
    bodies = BODIES[kind]()
    for body in bodies:
        decoded(decoder, body)
    return decoder, [body for body in bodies if (reported := decoded(decoder, body)) and reported.reencoded]


def decoded(decoder: Decoder, body: Body) -> Decoded | None:
    try:
        return decoder.decode(body)
    except ProtocolError:
        return None


@pytest.mark.parametrize("kind", list(BODIES))
@given(which=st.integers(0, 1 << 30), where=st.integers(0, 1 << 30), change=st.integers(1, 255))
def test_one_octet_that_is_another(kind: Callable[[], Decoder], which: int, where: int, change: int) -> None:
    decoder, bodies = learnt(kind)
    body = bodies[which % len(bodies)]
    reported = decoded(decoder, body)
    assert reported is not None
    octets = bytearray(body.octets)
    octets[where % len(octets)] ^= change
    otherwise = decoded(decoder, Body(bytes(octets), routing_key=body.routing_key))
    assert otherwise is None or otherwise.messages != reported.messages or not otherwise.reencoded
