"""The checksum that a Parquet file of the lake carries, so that what happens to it later is seen.

DuckDB neither writes nor looks at CRCs of pages: most bits that flip in a page only alter values. So the file
has the CRC-32 (as in zlib, as of blocks) of all its octets in its own metadata, in eight hexadecimal digits,
which count as zeros themselves. It goes wherever the file goes, and comes with it in one step.

A second entry says that there is one, so that damage to the first cannot pass for a file without.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import IO, Final

import duckdb

KEY: Final = "amqp_gateway_log_crc32"
"""Of the entry in the file's metadata that is the checksum."""

_ALGORITHM_KEY: Final = "amqp_gateway_log_checksum"
_DIGITS: Final = 8
_BLANK: Final = "0" * _DIGITS

METADATA: Final = {_ALGORITHM_KEY: "crc32", KEY: _BLANK}
"""What a file is to be written with before it is sealed."""

_MARK: Final = KEY.encode() + bytes((0x18, _DIGITS))
"""The key as it stands in the footer (Thrift's compact protocol), and that a text of eight octets follows."""

_ALGORITHM_ENTRY: Final = _ALGORITHM_KEY.encode() + bytes((0x18, 5)) + b"crc32"
"""The entry that says that there is a checksum, as it stands there."""

_TAIL_OCTETS: Final = 64 << 10
"""The metadata are the last thing in a footer but for who wrote it and the orders of columns."""

_PIECE: Final = 1 << 20


class ChecksumError(Exception):
    """A file is not octet for octet what was written; the text says what was expected."""


def seal(path: Path) -> None:
    """Give a file that was written with `METADATA` its checksum. It is not brought to the disk.

    Raises:
        ChecksumError: it was not written so.
        OSError: it cannot be read or written.
    """
    with path.open("r+b") as file:
        place = _place(file)
        digits = f"{_crc(file, place):08x}".encode()
        file.seek(place)
        file.write(digits)


def check(database: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Hold a file against its checksum.

    Returns:
        Whether it has one: those of earlier versions, and of other programs, have none.

    Raises:
        ChecksumError: it is damaged, or was written again by a program that took the checksum along.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        try:
            found = database.execute("SELECT key, value FROM parquet_kv_metadata($1)", [str(path)]).fetchall()
        except duckdb.InterruptException:
            raise
        except (duckdb.Error, UnicodeDecodeError) as error:
            path.stat()  # gone meanwhile, which DuckDB's errors do not tell
            raise ChecksumError(f"its metadata cannot be read: {error}") from error
        metadata: dict[bytes, bytes] = dict(found)
        if metadata.keys().isdisjoint(key.encode() for key in METADATA):
            # DuckDB finds no metadata at all behind some damage, and does not complain.
            if _tail(file)[1].rfind(_ALGORITHM_ENTRY) >= 0:
                raise ChecksumError("its metadata cannot be read any more")
            return False
        expected = metadata.get(KEY.encode(), b"none").decode(errors="replace")
        actual = f"{_crc(file, _place(file)):08x}"
    if expected != actual:
        raise ChecksumError(f"expected octets with CRC {expected}, found {actual}")
    return True


def _place(file: IO[bytes]) -> int:
    """Where the digits stand, in octets.

    Names of strangers stand in the statistics of a footer, before its metadata: the last mark is ours.
    """
    begin, octets = _tail(file)
    found = octets.rfind(_MARK)
    if found < 0:
        raise ChecksumError("its checksum is not where it should be")
    return begin + found + len(_MARK)


def _tail(file: IO[bytes]) -> tuple[int, bytes]:
    """Where the last octets begin, in which the metadata stand, and these octets."""
    size = file.seek(0, 2)
    begin = max(size - _TAIL_OCTETS, 0)
    file.seek(begin)
    return begin, file.read()


def _crc(file: IO[bytes], place: int) -> int:
    """Of the whole file, with zeros for the digits at ``place``."""
    file.seek(0)
    crc = 0
    left = place
    while left and (octets := file.read(min(left, _PIECE))):
        crc = zlib.crc32(octets, crc)
        left -= len(octets)
    crc = zlib.crc32(_BLANK.encode(), crc)
    file.seek(place + _DIGITS)
    while octets := file.read(_PIECE):
        crc = zlib.crc32(octets, crc)
    return crc
