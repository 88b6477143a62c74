"""The configuration that a running gateway was started with: a copy in its state folder.

It includes the override files and the policy files. All processes of a gateway read this copy, also those
that are restarted later: a file that is being edited takes effect by a restart of the gateway only, and then
whole. The exception is the policy: a reload applies it, and a further file has it from then on. The copy has
no secret: a configuration only names where secrets are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.config.files import LoadedConfiguration, load_configuration, override_copy
from gateway.config.model import Configuration
from gateway.config.policy import RunningPolicy
from gateway.durable_files import write_durably
from gateway.mapping.override_files import load_with_overrides
from gateway.mapping.override_rules import OverrideFile
from gateway.state_folder import RUNNING, RUNNING_POLICY
from gateway.yaml_documents import DocumentError, read_document


def note_running(loaded: LoadedConfiguration) -> Path:
    """Write the copies of the configuration and override files with which a gateway starts.

    Raises:
        DocumentError: an override file is wrong, or a mapping; so is `MappingError`.
        OSError: it cannot be written; ``UnicodeDecodeError`` where the file was changed to something else.
    """
    if loaded.override_files:
        # Checked here, because an error that is found in a copy later would name the copy.
        load_with_overrides(loaded.mapping_files, loaded.override_files)
    for number, file in enumerate(loaded.override_files):
        held = override_copy(loaded.state_folder, number)
        held.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(held, file.read_text(encoding="utf-8"))
    copy = loaded.state_folder / RUNNING
    # Removed first: the policy of an earlier run must not be read with this copy.
    (loaded.state_folder / RUNNING_POLICY).unlink(missing_ok=True)
    write_durably(copy, loaded.path.read_text(encoding="utf-8"))
    if loaded.settings.policy.files:
        note_policy(loaded.state_folder, loaded.settings)
    return copy


def note_policy(state_folder: Path, settings: Configuration) -> None:
    """Write the policy that the running gateway takes from ``settings`` now, for processes that start later.

    Raises:
        OSError: it cannot be written.
    """
    policy = RunningPolicy.model_construct(version=1, policy=settings.policy, allow=settings.operations.allow)
    write_durably(state_folder / RUNNING_POLICY, policy.model_dump_json())


def running_configuration(loaded: LoadedConfiguration) -> LoadedConfiguration:
    """Return the configuration of the running gateway of a state folder.

    Raises:
        DocumentError: there is none, or none that can be read.
    """
    return load_configuration(loaded.path, loaded.state_folder / RUNNING)


def changes(loaded: LoadedConfiguration, running: Configuration) -> list[str]:
    """Return the keys, dotted, under which a configuration differs from the running one.

    An override file that has changed is ``overrides (FILE)``.

    Raises:
        DocumentError: an override file is wrong.
    """
    keys = list(changed_keys(running, loaded.settings))
    return keys if "overrides" in keys else [*keys, *_changed_overrides(loaded)]


def _changed_overrides(loaded: LoadedConfiguration) -> list[str]:
    return [
        f"overrides ({loaded.settings.overrides[number]})"
        for number, file in enumerate(loaded.override_files)
        if read_document(file, OverrideFile) != _copied(loaded, number)
    ]


def _copied(loaded: LoadedConfiguration, number: int) -> OverrideFile | None:
    try:
        return read_document(override_copy(loaded.state_folder, number), OverrideFile)
    except DocumentError:
        return None


def changed_keys(running: Configuration, wanted: Configuration) -> Iterator[str]:
    """Yield the keys, dotted, under which two configurations differ."""
    return _differences("", running.model_dump(mode="json"), wanted.model_dump(mode="json"))


def takes_effect_at_once(key: str) -> bool:
    """Return whether a changed key is applied by a reload; all others wait for a restart."""
    return key.partition(".")[0] == "policy" or key.startswith("operations.allow")


def _differences(where: str, one: object, other: object) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(f"{where}.{key}" if where else key, one.get(key), other.get(key))
    elif one != other:
        yield where
