"""Lines as applications send them; the yardstick splits them at known places and converts the numbers."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Final

from gateway.dialects.ami.codec import read_line
from gateway.dialects.ami.instructions import Comment, ObjectUpdate, Status
from gateway.dialects.ami.lines import Lines
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run

_DECODE: Final = Case("ami-decode", "lines/s", Reading.RATE)
_PIECE: Final = 65_536
"""The octets that a socket returns at once."""


class AmiPart:
    """The input of a relay: nine updates of objects with eight columns, then a status of four metrics."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._count = run.count(50_000, 200)
        self._octets = b"".join(_line(number) for number in range(self._count))

    def measure(self) -> None:
        """Measure both sides, which must find the same numbers."""
        assert _ours(self._octets) == _by_splitting(self._octets)
        for side, do in ((OURS, _read), ("yardstick", _split)):
            self._run.record(_DECODE, side, self._rate(do))

    def _rate(self, do: Callable[[bytes], object]) -> float:
        """Return the number of lines per second of processor time."""
        start = process_time()
        do(self._octets)
        return self._count / (process_time() - start)


def _line(number: int) -> bytes:
    now = 1_700_000_000_000 + number
    if number % 10 == 9:
        return f'S#{number}@{now}|mem={number}|load={number / 7:.3f}|env="prod"|state="OKAY"\n'.encode()
    return (
        f'O#{number}@{now}|T="Tank"|I="t{number % 1000}"|level={number}|volume={number / 3:.2f}'
        f"|capacity={number * 1000}L|temperature={number / 11:.6f}D|site=\"north basin\"|valve='open'\n"
    ).encode()


def _read(octets: bytes) -> int:
    """Read all as a session does, piece by piece; return the number of instructions."""
    lines, count = Lines(), 0
    for place in range(0, len(octets), _PIECE):
        for line in lines.feed(octets[place : place + _PIECE]):
            assert isinstance(line, bytes)
            read_line(line)
            count += 1
    return count


def _split(octets: bytes) -> int:
    """Split lines into fields, and convert the numeric fields; return the number of lines."""
    count = 0
    for line in octets.decode("ascii").split("\n"):
        fields = line.split("|")
        if len(fields) == 9:
            int(fields[3][6:])
            float(fields[4][7:])
            int(fields[5][9:-1])
            float(fields[6][12:-1])
        elif len(fields) > 1:
            int(fields[1][4:])
            float(fields[2][5:])
        count += 1
    return count


def _ours(octets: bytes) -> float:
    """Return the sum of all numbers that are found."""
    total = 0.0
    for line in octets.splitlines():
        found = read_line(line).instruction
        assert not isinstance(found, Comment)
        assert isinstance(found, ObjectUpdate | Status)
        total += sum(float(value) for value in found.values.values() if isinstance(value, int | float))
    return total


def _by_splitting(octets: bytes) -> float:
    total = 0.0
    for line in octets.decode("ascii").splitlines():
        numbers = [field.partition("=")[2].rstrip("LD") for field in line.split("|")[1:]]
        total += sum(float(number) for number in numbers if number[0].isdigit())
    return total
