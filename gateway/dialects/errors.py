"""The two errors of every dialect: invalid bytes of a peer, and invalid calls of the gateway itself."""

from __future__ import annotations


class ProtocolError(Exception):
    """A peer sent bytes that its protocol does not allow.

    Args:
        expected: a description of what the protocol requires there.
        found: what was found, shortened for people.
        offset: octets (or characters, in a text dialect) from the start of the body.
    """

    def __init__(self, expected: str, found: str = "", offset: int = 0) -> None:
        self.expected = expected
        self.found = found
        self.offset = offset
        found_text = f", found {found}" if found else ""
        super().__init__(f"at offset {offset}: expected {expected}{found_text}")


class LocalProtocolError(Exception):
    """The gateway called a codec or session with something that the protocol cannot express."""
