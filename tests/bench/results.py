"""Results of benchmarks in files: rows for programs that compare, and sections that outlast other runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from gateway.durable_files import PUBLIC, write_durably
from tests.bench.rows import Row
from tests.bench.run import Figure

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Section:
    """The results of one run of a benchmark.

    Attributes:
        measured: date and time in UTC, ``2026-11-20 14:50``.
        commit: of the checkout, with a note about uncommitted changes.
        system: kind of machine.
        rounds: the number of rounds.
        seconds: the duration.
        noise: see `tests.bench.run.Run.noise`.
        figures: the results without a peer.
        rows: the results with a peer.
    """

    measured: str
    commit: str
    system: str
    rounds: int
    seconds: float
    noise: Mapping[str, float]
    figures: tuple[Figure, ...]
    rows: tuple[Row, ...]


def merge_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a list of rows; an existing file keeps its rows of other names or peers.

    Raises:
        ValueError: the file exists, and is no list of rows.
    """
    try:
        former = json.loads(path.read_bytes())
        merged = {(row["name"], row["peer_name"]): row for row in former}
    except FileNotFoundError:
        merged = {}
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is no list of rows: {error}") from error
    merged.update({(row.name, row.peer_name): row.as_json() for row in rows})
    write_durably(path, json.dumps(list(merged.values()), indent=1) + "\n", PUBLIC)


def read_sections(path: Path) -> dict[str, Section]:
    """Return the sections of a file, by benchmark; none if there is no file.

    Raises:
        ValueError: it is no file of sections.
    """
    try:
        octets = path.read_bytes()
    except FileNotFoundError:
        return {}
    file = msgspec.json.decode(octets, type=_SectionsFile)
    if file.version != _VERSION:
        raise ValueError(f"{path} is of version {file.version}, not {_VERSION}")
    return file.sections


def write_sections(path: Path, sections: Mapping[str, Section]) -> None:
    """Replace the file by these sections."""
    written = {
        name: {**asdict(section), "rows": [row.as_json() for row in section.rows]}
        for name, section in sections.items()
    }
    write_durably(path, json.dumps({"version": _VERSION, "sections": written}, indent=1) + "\n", PUBLIC)


@dataclass(frozen=True, slots=True)
class _SectionsFile:
    version: int
    sections: dict[str, Section]
