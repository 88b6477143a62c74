"""What decoders are given, and what they give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.dialects.decoding.plain import Plain


@dataclass(frozen=True, slots=True)
class Body:
    """A body, and what travelled beside it, as far as that is known.

    Attributes:
        octets: of the body.
        exchange: that it was published to.
        routing_key: that it was published under.
        reply_to: where its answer is wanted.
        stream: where it is what one direction of a connection brought, some name of this, else empty.
    """

    octets: bytes
    exchange: str = ""
    routing_key: str = ""
    reply_to: str = ""
    stream: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a body says.

    Attributes:
        messages: in order (`plain.message`).
        reencoded: whether our writer gives the same octets; ``None`` where it cannot write what was read.
    """

    messages: list[dict[str, Plain]]
    reencoded: bool | None


class Decoder(Protocol):
    """Decodes bodies of one dialect, one after the other; learns from each what those after it need."""

    def decode(self, body: Body) -> Decoded:
        """What ``body`` says.

        Raises:
            ProtocolError: it is no body of the dialect.
        """
        ...
