"""No octet of a file of the lake can change unnoticed, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from duckdb import DuckDBPyConnection
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.eventlog.compaction import Compactor
from gateway.eventlog.parquet import KEY, ChecksumError, ParquetError, check, contents, seal
from tests.eventlog.logs import segment, update, written_again
from tests.hypothesis_profiles import examples

STRANGER = f"{KEY}\x18\x0800000000 amqp_gateway_log_checksum"
"""A queue whose name looks like a checksum: it stands in pages, and in the statistics of the footer."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    records = [replace(update(number), object_name=STRANGER) for number in range(1, 301)]
    with Compactor(folder) as compactor:
        done = compactor.compact(segment(folder, 1, records))
    assert done is not None
    assert done.file is not None
    return done.file


@pytest.fixture(scope="module")
def whole(file: Path) -> bytes:
    return file.read_bytes()


@pytest.fixture
def copy(tmp_path: Path, whole: bytes) -> Path:
    path = tmp_path / "copy.parquet"
    path.write_bytes(whole)
    return path


@pytest.fixture(scope="module")
def database() -> Iterator[DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def checked(database: DuckDBPyConnection, path: Path) -> bool:
    """Return whether the checksum is right, as ``log verify`` does."""
    contents(database, path)
    return check(database, path)


def test_a_file_as_it_was_written_is_right(database: DuckDBPyConnection, copy: Path) -> None:
    assert checked(database, copy)


@pytest.fixture(scope="module")
def flipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flipped") / "file.parquet"


@given(place=st.integers(0, 2**32 - 1), is_near_the_end=st.booleans(), bit=st.integers(0, 7))
@settings(max_examples=examples() // 2)
def test_a_bit_that_flips_anywhere_is_reported(
    place: int, bit: int, whole: bytes, flipped: Path, *, is_near_the_end: bool
) -> None:
    # Half of the times near the end, where the checksum itself stands.
    offset = -1 - place % (300 if is_near_the_end else len(whole))
    octets = bytearray(whole)
    octets[offset] ^= 1 << bit
    flipped.write_bytes(octets)
    # One of its own: DuckDB gives a database up for some damage.
    with duckdb.connect() as database, pytest.raises((ChecksumError, ParquetError)):
        checked(database, flipped)


def test_a_column_whose_name_is_no_text_any_more_is_reported(
    database: DuckDBPyConnection, copy: Path, whole: bytes
) -> None:
    footer = whole[-8 - int.from_bytes(whole[-8:-4], "little") :]
    place = len(whole) - len(footer) + footer.index(b"log_id")
    copy.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
    with pytest.raises(ParquetError):
        contents(database, copy)
    with pytest.raises(ChecksumError):
        check(database, copy)


def test_metadata_that_cannot_be_found_any_more_do_not_pass_for_none(
    database: DuckDBPyConnection, copy: Path, whole: bytes
) -> None:
    place = whole.rindex(b"\x18\x18amqp_gateway_log_version") - 2  # the header of the list of entries
    for bit in range(8):
        for offset in (place - 1, place):
            damaged = bytearray(whole)
            damaged[offset] ^= 1 << bit
            copy.write_bytes(damaged)
            with pytest.raises(ChecksumError):
                check(database, copy)


@pytest.mark.parametrize("key", [KEY, "amqp_gateway_log_checksum"])
def test_damage_to_either_entry_does_not_pass_for_a_file_without(
    database: DuckDBPyConnection, copy: Path, whole: bytes, key: str
) -> None:
    last = whole.rindex(key.encode())
    copy.write_bytes(whole[:last] + b"B" + whole[last + 1 :])
    with pytest.raises(ChecksumError):
        checked(database, copy)


def test_what_was_expected_and_found_is_reported(
    database: DuckDBPyConnection, copy: Path, whole: bytes
) -> None:
    offset = whole.index(b"queue") + 1
    copy.write_bytes(whole[:offset] + b"U" + whole[offset + 1 :])
    with pytest.raises(ChecksumError, match=r"expected octets with CRC [0-9a-f]{8}, found [0-9a-f]{8}"):
        checked(database, copy)


def test_a_file_of_another_program_has_none(database: DuckDBPyConnection, copy: Path) -> None:
    written_again(copy)
    assert not checked(database, copy)


def test_what_was_not_made_for_a_checksum_gets_none(copy: Path) -> None:
    written_again(copy)
    copy.write_bytes(copy.read_bytes().replace(KEY.encode(), KEY.upper().encode()))
    before = copy.read_bytes()
    with pytest.raises(ChecksumError, match="not where it should be"):
        seal(copy)
    assert copy.read_bytes() == before


def test_a_file_that_is_gone_is_no_damage(database: DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check(database, tmp_path / "gone.parquet")
