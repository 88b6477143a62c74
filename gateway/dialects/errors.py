"""The two errors of every dialect: the peer's bytes were wrong, or our own call was."""

from __future__ import annotations


class ProtocolError(Exception):
    """A peer sent what its protocol does not allow.

    Args:
        expected: what should have stood there, in words.
        found: what did, shortened for people.
        offset: octets (or characters, in a text dialect) from the start of the body.
    """

    def __init__(self, expected: str, found: str = "", offset: int = 0) -> None:
        self.expected = expected
        self.found = found
        self.offset = offset
        found_text = f", found {found}" if found else ""
        super().__init__(f"at offset {offset}: expected {expected}{found_text}")


class LocalProtocolError(Exception):
    """We asked a codec or session for something that its protocol cannot say."""
