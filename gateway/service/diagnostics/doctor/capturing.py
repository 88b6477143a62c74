"""What is captured while the gateway runs: forgotten, it writes down secrets for ever."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.files import LoadedConfiguration
from gateway.service.diagnostics.doctor.findings import Finding, Level


def capture_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Every source that is captured, and captures that are left of one that is not any more."""
    folder, wished = loaded.capture_folder, loaded.settings.captures
    for name in wished:
        text = f"what it hears and says is written into {folder / name}.jsonl, passwords too if there are any"
        yield Finding("captures", Level.NOTE, text, "take it out of 'captures' when the report is made", name)
    found = sorted(folder.glob("*.jsonl*")) if folder.is_dir() else []
    left = [file for file in found if file.name.rpartition(".jsonl")[0] not in wished]
    if left:
        text = f"{len(left)} files of captures that have ended are left in {folder}"
        yield Finding("captures", Level.NOTE, text, "delete them when they are needed no longer")
