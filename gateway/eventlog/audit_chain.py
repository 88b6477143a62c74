"""The chain of audited records: each has a number, and a hash over itself and all before it.

The hash of a record is SHA-256 over the 32 octets of the hash before it and the record's canonical form: its
line in a segment without ``audit_hash``, which is the last field. The chain of a log begins with a hash of
its ``log_id``, so that no part of another log fits into it. The canonical form can be made again from the
columns of the lake, so compaction breaks no chain.

Numbers follow the order of ``seq``: what a crash leaves on the disk is a beginning of the chain, never one
with a hole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from gateway.eventlog.block import MAX_RECORD_OCTETS, Block, without_values
from gateway.eventlog.record import LogRecord

_BEGIN: Final = b"amqp-gateway audit chain 1 "
_MARK: Final = b'"audit_hash":"'
_HASH_OCTETS: Final = 128
"""More than the field of the hash adds to a line."""

_DIGITS: Final = 64


class ChainEnd(msgspec.Struct, frozen=True):
    """The end of a chain, or a place in it.

    Attributes:
        number: the number of the last audited record; 0 before the first.
        hash: its hash, hexadecimal.
    """

    number: int
    hash: str


def chain_begin(log_id: str) -> ChainEnd:
    """Return the end of the chain of a log without audited records."""
    return ChainEnd(0, hashlib.sha256(_BEGIN + log_id.encode()).hexdigest())


def next_hash(before: str, canonical: bytes) -> str:
    """Return the hash of a record, hexadecimal.

    Args:
        before: that of the record before, hexadecimal.
        canonical: the canonical form of the record.

    Raises:
        ValueError: ``before`` is no such hash.
    """
    octets = bytes.fromhex(before)
    if len(before) != _DIGITS or len(octets) * 2 != _DIGITS:
        raise ValueError(f"a hash has {_DIGITS} hexadecimal digits")
    return hashlib.sha256(octets + canonical).hexdigest()


def canonical_form(fields: Mapping[str, object]) -> bytes:
    """Return the canonical form of a record that was read.

    Args:
        fields: its fields by name, in the order of the form (`gateway.eventlog.parquet.COLUMNS`), as JSON has
            them. Absent ones may be ``None``; ``audit_hash`` is left out.

    Raises:
        TypeError, ValueError: a value has no form in JSON.
    """
    return msgspec.json.encode(
        {name: value for name, value in fields.items() if value is not None and name != "audit_hash"}
    )


class AuditChain:
    """The growing chain of one log.

    Args:
        log_id: the identity of the log.
        end: the end of the chain on the disk; ``None`` where there are no audited records.

    Attributes:
        end: the end of the chain.
        seq: the seq of the last record that was linked; 0 for none.
    """

    def __init__(self, log_id: str, end: ChainEnd | None = None) -> None:
        self.end = end or chain_begin(log_id)
        self.seq = 0
        self._log_id = log_id.encode()

    def linked(self, record: LogRecord, seq: int) -> LogRecord:
        """Return a record with its number and hash, and let the chain end with it.

        One that is too large for a line loses its values before it is hashed.

        Args:
            record: an audited record.
            seq: its seq.

        Raises:
            TypeError, ValueError: a value has no form in JSON; the chain is as it was.
        """
        number = self.end.number + 1
        numbered = msgspec.structs.replace(record, audit=number, audit_hash=None)
        canonical = self._canonical(numbered, seq)
        if (octets := len(canonical) + _HASH_OCTETS) > MAX_RECORD_OCTETS:
            numbered = msgspec.structs.replace(without_values(record, octets), audit=number)
            canonical = self._canonical(numbered, seq)
        self.end = ChainEnd(number, next_hash(self.end.hash, canonical))
        self.seq = seq
        return msgspec.structs.replace(numbered, audit_hash=self.end.hash)

    def _canonical(self, record: LogRecord, seq: int) -> bytes:
        return b'{"log_id":"%s","seq":%d,' % (self._log_id, seq) + msgspec.json.encode(record)[1:]


class _Link(msgspec.Struct):
    audit: int = 0
    audit_hash: str = ""


_LINK: Final = msgspec.json.Decoder(_Link)


def end_of_chain(lines: Iterable[bytes]) -> ChainEnd | None:
    """Return the place of the last audited record of some lines; ``None`` where there is none.

    Args:
        lines: lines of records, without their ends, the last one first.
    """
    for line in lines:
        if _MARK not in line:  # few have it, and a value may have it, too
            continue
        try:
            link = _LINK.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            continue
        if link.audit > 0 and link.audit_hash:
            return ChainEnd(link.audit, link.audit_hash)
    return None


def end_in_block(block: Block) -> ChainEnd | None:
    """Return the place of the last audited record of a block; ``None`` where there is none."""
    return end_of_chain(reversed(block.split())) if _MARK in block.lines else None
