"""What the running gateway was started with: what of a changed configuration waits for a restart.

A file in the state folder has it. It holds no secret: a configuration only names where secrets are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gateway.config.files import LoadedConfiguration
from gateway.durable_files import write_durably

FILE: Final = "running.json"
_CONTENTS: Final = "contents of mappings"


def note_running(loaded: LoadedConfiguration) -> None:
    """A gateway starts with this configuration.

    Raises:
        OSError: the file cannot be written.
    """
    write_durably(loaded.state_folder / FILE, json.dumps(_described(loaded), sort_keys=True) + "\n")


def waiting_changes(loaded: LoadedConfiguration) -> list[str]:
    """The keys, dotted, under which the configuration is not the one that the gateway was started with.

    Raises:
        OSError: it was never started, or its file cannot be read.
        ValueError: the file is damaged.
    """
    started = json.loads((loaded.state_folder / FILE).read_text(encoding="utf-8"))
    return list(_differences("", started, _described(loaded)))


def _described(loaded: LoadedConfiguration) -> dict[str, Any]:
    described: dict[str, Any] = loaded.settings.model_dump(mode="json")
    files = [loaded.folder / path for path in loaded.settings.mappings]
    return {**described, _CONTENTS: {str(path): _digest(path) for path in files}}


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _differences(where: str, one: object, other: object) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(f"{where}.{key}" if where else key, one.get(key), other.get(key))
    elif one != other:
        yield where
