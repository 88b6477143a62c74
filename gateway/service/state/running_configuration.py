"""The configuration that a running gateway uses: copies in its state folder.

All processes of a gateway read these copies, also those that are restarted later: a file that is being edited
takes effect by a restart of the gateway, or by a reload, only, and then whole. A reload changes the policy,
the mappings and the overrides; all else is as at the start. A policy includes that of its policy files. The
copies have no secret: a configuration only names where secrets are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.config.model import Configuration
from gateway.config.running import FileCopies, RunningFiles
from gateway.durable_files import write_durably
from gateway.mapping.override_files import load_with_overrides
from gateway.mapping.override_rules import OverrideFile
from gateway.mapping.rules import Mapping as MappingFile
from gateway.state_folder import RUNNING, RUNNING_FILES
from gateway.yaml_documents import DocumentFile, StrictModel, copied_document, read_document

_TAKEN_BY_RELOAD = frozenset({"policy", "mappings", "overrides"})


def note_running(loaded: LoadedConfiguration) -> Path:
    """Write the copies of the configuration, mappings and override files with which a gateway starts.

    Raises:
        DocumentError: a file is wrong; so is `MappingError`.
        OSError: they cannot be written.
    """
    wanted = loaded.with_copies()
    if wanted.mapping_files or wanted.override_files:
        load_with_overrides(wanted.mapping_files, wanted.override_files)
    copy = loaded.state_folder / RUNNING
    # Removed first: the policy of an earlier run must not be read with this copy.
    (loaded.state_folder / RUNNING_FILES).unlink(missing_ok=True)
    write_durably(copy, copied_document(loaded.path).text)
    note_reload(loaded.state_folder, wanted)
    return copy


def note_reload(state_folder: Path, wanted: LoadedConfiguration) -> None:
    """Write what the running gateway takes of a configuration now, for processes that start later.

    One write replaces everything: a process that starts meanwhile reads all former files, or all new ones.

    Args:
        state_folder: the gateway's state folder.
        wanted: the configuration, with copies (`LoadedConfiguration.with_copies`).

    Raises:
        OSError: it cannot be written; the former is there then.
    """
    copies, settings = wanted.copies or FileCopies(), wanted.settings
    files = RunningFiles.model_construct(
        version=1,
        mappings=copies.mappings,
        overrides=copies.overrides,
        policy=settings.policy,
        allow=settings.operations.allow,
    )
    write_durably(state_folder / RUNNING_FILES, files.model_dump_json())


def running_configuration(loaded: LoadedConfiguration) -> LoadedConfiguration:
    """Return the configuration of the running gateway of a state folder.

    Raises:
        DocumentError: there is none, or none that can be read.
    """
    return load_configuration(loaded.path, loaded.state_folder / RUNNING)


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences of a configuration from the running one.

    Attributes:
        policy: whether the policy differs, in words or in what it means.
        mappings: what differs in mappings and override files, each in words.
        waiting: other keys that differ, dotted, which take effect by a restart only.
    """

    policy: bool
    mappings: tuple[str, ...]
    waiting: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.policy or bool(self.mappings or self.waiting)


def changes(wanted: LoadedConfiguration, running: LoadedConfiguration) -> Changes:
    """Return in what a configuration differs from the running one.

    Raises:
        DocumentError: a mapping or an override file is wrong.
    """
    keys = list(changed_keys(running.settings, wanted.settings))
    return Changes(
        any(_is_policy(key) for key in keys),
        (
            *_changed_files("mappings", running.mapping_files, wanted.mapping_files, MappingFile),
            *_changed_files("overrides", running.override_files, wanted.override_files, OverrideFile),
        ),
        tuple(key for key in keys if not _is_policy(key) and key not in _TAKEN_BY_RELOAD),
    )


def changed_keys(running: Configuration, wanted: Configuration) -> Iterator[str]:
    """Yield the keys, dotted, under which two configurations differ."""
    return _differences("", running.model_dump(mode="json"), wanted.model_dump(mode="json"))


def _is_policy(key: str) -> bool:
    return key.partition(".")[0] == "policy" or key.startswith("operations.allow")


def _differences(where: str, one: object, other: object) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(f"{where}.{key}" if where else key, one.get(key), other.get(key))
    elif one != other:
        yield where


def _changed_files(
    key: str, running: Sequence[DocumentFile], wanted: Sequence[DocumentFile], model: type[StrictModel]
) -> Iterator[str]:
    before, after = ({str(file): file for file in files} for files in (running, wanted))
    yield from (f"{key}: {name} was removed" for name in before if name not in after)
    yield from (f"{key}: {name} was added" for name in after if name not in before)
    if before.keys() == after.keys() and list(map(str, running)) != list(map(str, wanted)):
        yield f"{key}: the files are in another order"
    for name, file in after.items():
        if name in before:
            for change in _changed_parts(_contents(before[name], model), _contents(file, model)):
                yield f"{name}: {change}"


def _contents(file: DocumentFile, model: type[StrictModel]) -> Mapping[str, object]:
    return read_document(file, model).model_dump(mode="json", exclude_unset=True)


def _changed_parts(
    one: Mapping[str, object], other: Mapping[str, object], where: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield what differs, by the keys that lead to it. The order counts: later patterns do."""
    found = False
    for key in [*one, *(key for key in other if key not in one)]:
        place = (*where, key)
        former, present = one.get(key), other.get(key)
        if isinstance(former, dict) and isinstance(present, dict):
            for change in _changed_parts(former, present, place):
                found = True
                yield change
        elif former != present or (key in one) is not (key in other):
            found = True
            how = "was added" if key not in one else "was removed" if key not in other else "was changed"
            yield f"{'.'.join(place)} {how}"
    if not found and list(one) != list(other):
        yield f"{'.'.join(where)} is in another order" if where else "it is in another order"
