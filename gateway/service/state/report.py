"""The report on a state folder, for people and for programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.inventory.instance_file import ClassRows, IndexSummary, summary
from gateway.state_folder import StateError, StateFolder, held

_GATEWAY_SERIES = 0


@dataclass(frozen=True, slots=True)
class StateReport:
    """The content of a state folder.

    Attributes:
        folder: the path of the folder.
        version: the version of its layout.
        identity: the gateway's uuid.
        boots: the number of its starts.
        in_use: whether a gateway, or a command that changes it, has it now.
        index_version: the version of the instance index; 0 where there is none yet.
        sources: the number of every source that ever was, by name.
        classes: row numbers of each source and class.
        secrets: the names of generated secrets, never the secrets.
        octets: size of each file, by its path in the folder; without the event log.
        log: the folder of the event log.
        log_files: the number of its files.
        log_octets: their size.
    """

    folder: str
    version: int
    identity: str
    boots: int
    in_use: bool
    index_version: int
    sources: Mapping[str, int]
    classes: tuple[ClassRows, ...]
    secrets: tuple[str, ...]
    octets: Mapping[str, int]
    log: str
    log_files: int
    log_octets: int

    def as_json(self) -> dict[str, object]:
        """Return the report for JSON, by the names of its fields."""
        found: dict[str, object] = msgspec.to_builtins(self)
        return found

    def lines(self) -> list[str]:
        """Return the report as lines for people."""
        total = sum(self.octets.values())
        lines = [
            f"folder        {self.folder}{', in use' if self.in_use else ''}",
            f"version       {self.version}, instance index {self.index_version or 'not made yet'}",
            f"identity      {self.identity}",
            f"starts        {self.boots}",
            f"secrets       {', '.join(self.secrets) or 'none'}",
            f"size          {total:,} bytes in {len(self.octets)} files",
        ]
        lines += [f"  {octets:>14,}  {name}" for name, octets in sorted(self.octets.items())]
        lines.append(f"event log     {self.log_octets:,} bytes in {self.log_files} files: {self.log}")
        names = {number: name for name, number in self.sources.items()}
        for number in (_GATEWAY_SERIES, *names):
            rows = [entry for entry in self.classes if entry.source == number]
            if rows or number:
                lines.append(f"source {number}: {names[number]}" if number else "the gateway itself")
            lines += [
                f"  {entry.class_name:<40} {entry.durable:>9,} durable, {entry.retired:>9,} gone, "
                f"numbers reserved to {entry.high_water:,}"
                for entry in rows
            ]
        return lines


def report(state: StateFolder, log: Path) -> StateReport:
    """Return the report on a state folder, also while a gateway runs.

    Args:
        state: the folder.
        log: the folder of the event log; it need not be there, and is often inside the other.

    Raises:
        StateError: the folder is damaged.
        InstanceIndexError: the index is damaged.
    """
    boots = state.boots
    index = IndexSummary(0, {}, ())
    if boots or state.instances.exists():
        index = summary(state.instances)
    inside = f"{log.relative_to(state.path).as_posix()}/" if log.is_relative_to(state.path) else ""
    octets, of_log = _octets(state.path), _octets(log)
    return StateReport(
        folder=str(state.path),
        version=state.read_version(),
        identity=state.identity,
        boots=boots,
        in_use=in_use(state.path),
        index_version=index.version,
        sources=index.sources,
        classes=index.classes,
        secrets=tuple(sorted(path.name for path in (state.path / "secrets").glob("[!.]*"))),
        octets={name: size for name, size in octets.items() if not inside or not name.startswith(inside)},
        log=str(log),
        log_files=len(of_log),
        log_octets=sum(of_log.values()),
    )


def in_use(folder: Path) -> bool:
    """Return whether a gateway, or a command that changes it, has a state folder now."""
    if not os.path.exists(folder / "LOCK"):  # noqa: PTH110  which does not raise
        return False
    try:
        with held(folder, patience_seconds=0):
            return False
    except StateError:
        return True


def _octets(folder: Path) -> dict[str, int]:
    octets = {}
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                octets[path.relative_to(folder).as_posix()] = path.stat().st_size
        except FileNotFoundError:
            continue  # a draft that has become a file meanwhile
    return octets
