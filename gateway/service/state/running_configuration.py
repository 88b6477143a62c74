"""The configuration that a running gateway was started with: a copy in its state folder.

It includes the override files. All processes of a gateway read this copy, also those that are restarted
later: a file that is being edited takes effect by a restart of the gateway only, and then whole. The copy has
no secret: a configuration only names where secrets are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.config.files import LoadedConfiguration, load_configuration, override_copy
from gateway.config.model import Configuration
from gateway.durable_files import write_durably
from gateway.mapping.override_files import load_with_overrides
from gateway.mapping.override_rules import OverrideFile
from gateway.state_folder import RUNNING
from gateway.yaml_documents import DocumentError, read_document


def note_running(loaded: LoadedConfiguration) -> Path:
    """Write the copies of the configuration and override files with which a gateway starts.

    Raises:
        DocumentError: an override file is wrong, or a mapping; so is `MappingError`.
        OSError: it cannot be written; ``UnicodeDecodeError`` where the file was changed to something else.
    """
    if loaded.override_files:
        # Whoever reads a copy later would name the copy in an error.
        load_with_overrides(loaded.mapping_files, loaded.override_files)
    for number, file in enumerate(loaded.override_files):
        held = override_copy(loaded.state_folder, number)
        held.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(held, file.read_text(encoding="utf-8"))
    copy = loaded.state_folder / RUNNING
    write_durably(copy, loaded.path.read_text(encoding="utf-8"))
    return copy


def waiting_changes(loaded: LoadedConfiguration) -> list[str]:
    """Return the keys, dotted, under which a configuration differs from the copy, and changed override files.

    Raises:
        DocumentError: there is no copy, or none that can be read; or an override file is wrong.
    """
    started = read_document(loaded.state_folder / RUNNING, Configuration)
    keys = list(_differences("", started.model_dump(mode="json"), loaded.settings.model_dump(mode="json")))
    if "overrides" in keys:
        return keys
    return keys + [
        str(loaded.settings.overrides[number])
        for number, file in enumerate(loaded.override_files)
        if read_document(file, OverrideFile) != _copied(loaded, number)
    ]


def _copied(loaded: LoadedConfiguration, number: int) -> OverrideFile | None:
    try:
        return read_document(override_copy(loaded.state_folder, number), OverrideFile)
    except DocumentError:
        return None


def described_changes(configuration: Path) -> dict[str, object]:
    """Return the fields by which a log line describes the `waiting_changes` of a file.

    Args:
        configuration: the file.
    """
    try:
        return {"changed": waiting_changes(load_configuration(configuration))}
    except DocumentError as error:
        return {"wrong": str(error)}


def _differences(where: str, one: object, other: object) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(f"{where}.{key}" if where else key, one.get(key), other.get(key))
    elif one != other:
        yield where
