"""The configuration that the running gateway was started with.

A copy in the state folder has it. All processes of the gateway read that copy, also those that are started
again later: a file that is being edited is taken up by a restart of the gateway only, and then whole. The
copy holds no secret: a configuration only names where secrets are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.config.files import LoadedConfiguration
from gateway.config.model import Configuration
from gateway.durable_files import write_durably
from gateway.yaml_documents import read_document

FILE: Final = "running.yaml"


def note_running(loaded: LoadedConfiguration) -> Path:
    """A gateway starts with this configuration: the copy that its processes read.

    Raises:
        OSError: it cannot be written; ``UnicodeDecodeError`` where the file was changed to something else.
    """
    copy = loaded.state_folder / FILE
    write_durably(copy, loaded.path.read_text(encoding="utf-8"))
    return copy


def waiting_changes(loaded: LoadedConfiguration) -> list[str]:
    """The keys, dotted, under which a configuration is not the one that the gateway was started with.

    Raises:
        DocumentError: there is no copy of that, or none that can be read.
    """
    started = read_document(loaded.state_folder / FILE, Configuration)
    return list(_differences("", started.model_dump(mode="json"), loaded.settings.model_dump(mode="json")))


def _differences(where: str, one: object, other: object) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(f"{where}.{key}" if where else key, one.get(key), other.get(key))
    elif one != other:
        yield where
