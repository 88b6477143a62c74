"""The configuration that a running gateway uses: copies in its state folder.

All processes of a gateway read these copies, also those that are restarted later: a file that is being edited
takes effect by a restart of the gateway, or by a reload, only, and then whole. A reload changes the policy,
the clients of SNMP, the mappings and the overrides; all else is as at the start. A policy includes that of
its policy files. The copies have no secret: a configuration only names where secrets are.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.config.model import Configuration, JmxSettings, StateSettings
from gateway.config.places import PLACES, NoConfigurationError, find_configuration
from gateway.config.running import FileCopies, RunningFiles
from gateway.config.snmp import CLIENTS, SnmpSettings
from gateway.durable_files import write_durably
from gateway.file_owners import distrust
from gateway.service.state.report import in_use
from gateway.service.state.running_addresses import (
    Addresses,
    JmxAddress,
    Note,
    SnmpAddress,
    digests_of,
    states_beside,
)
from gateway.state_folder import RUNNING, RUNNING_ADDRESSES, RUNNING_FILES, StateError, StateFolder
from gateway.yaml_documents import (
    DocumentError,
    DocumentFile,
    StrictModel,
    copied_document,
    parse_document,
    read_document,
)

_TAKEN_BY_RELOAD = frozenset({"policy", "mappings", "overrides"})


def note_running(loaded: LoadedConfiguration) -> Path:
    """Write the copies of the configuration, mappings and override files with which a gateway starts.

    Raises:
        DocumentError: a file is wrong; so is `MappingError`.
        OSError: they cannot be written.
    """
    wanted = loaded.with_copies()
    if wanted.mapping_files or wanted.override_files:
        from gateway.mapping.override_files import load_with_overrides  # noqa: PLC0415  few have own files

        load_with_overrides(wanted.mapping_files, wanted.override_files)
    copy = loaded.state_folder / RUNNING
    # Removed first: the policy of an earlier run must not be read with this copy.
    (loaded.state_folder / RUNNING_FILES).unlink(missing_ok=True)
    write_durably(copy, copied_document(loaded.path).text)
    note_reload(loaded.state_folder, wanted)
    note_addresses(loaded.state_folder, loaded)
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
        version=2,
        mappings=copies.mappings,
        overrides=copies.overrides,
        policy=settings.policy,
        allow=settings.operations.allow,
    )
    document = {**files.model_dump(mode="json"), "snmp": settings.snmp.clients()}
    write_durably(state_folder / RUNNING_FILES, json.dumps(document))


def note_addresses(state_folder: Path, running: LoadedConfiguration) -> None:
    """Note what short commands need, if the file of the configuration says the same as the running gateway.

    Without the note they read the configuration, so that a disk that is full is no error.

    Args:
        state_folder: the gateway's state folder.
        running: the configuration with which the gateway runs now.
    """
    note = state_folder / RUNNING_ADDRESSES
    with contextlib.suppress(DocumentError, OSError, ValueError, RuntimeError):
        note.unlink(missing_ok=True)
        found, files = addresses_of(running), [running.path, *_policy_files(running)]
        before = digests_of(files)
        again = load_configuration(running.path)  # what has these digests, and not what was read before
        if addresses_of(again) != found or (files, before) != (
            [again.path, *_policy_files(again)],
            digests_of(files),
        ):
            return
        digests, home = before
        trusted = tuple(map(str, again.trusted_files))
        write_durably(note, msgspec.json.encode(Note(found, {**digests}, trusted, home)).decode())


def _policy_files(loaded: LoadedConfiguration) -> list[Path]:
    return [loaded.folder / name for name in loaded.settings.policy.files]


def addresses_of(loaded: LoadedConfiguration) -> Addresses:
    """Return what a configuration says about the ways to its gateway."""
    settings = loaded.settings
    snmp, jmx = settings.snmp, settings.jmx
    networks = snmp.allowed_networks
    return Addresses(
        path=str(loaded.path),
        state=str(loaded.state_folder),
        feed=None if settings.feed.socket is None else str(settings.feed.socket),
        site=settings.site,
        deadline=settings.operations.deadline,
        snmp=SnmpAddress(
            snmp.root,
            snmp.listen[0],
            snmp.versions,
            None if networks is None else tuple(map(str, networks)),
            None if snmp.community is None else snmp.community.found_at(loaded.folder),
        )
        if snmp.enabled
        else None,
        jmx=jmx_address(jmx) if jmx.enabled else None,
        has_objects=settings.metrics.enabled and settings.metrics.objects is not None,
    )


def jmx_address(settings: JmxSettings) -> JmxAddress:
    """Return where and how the JMX agent is asked, enabled or not."""
    tls = settings.tls
    has_tls, asks_certificates = tls is not None, tls is not None and tls.client_ca is not None
    return JmxAddress(settings.listen, has_tls, asks_certificates, settings.buckets)


def running_configuration(loaded: LoadedConfiguration) -> LoadedConfiguration:
    """Return the configuration of the running gateway of a state folder.

    Raises:
        DocumentError: there is none, or none that can be read.
    """
    return load_configuration(loaded.path, loaded.state_folder / RUNNING)


class _StateSection(StrictModel):
    """The part of a configuration that names the state folder."""

    state: StateSettings = StateSettings.model_construct()


def configuration_of_running(given: Path | None) -> LoadedConfiguration:
    """Return the configuration of the running gateway, also while its file is edited; else that of the file.

    Of a file that is wrong, empty or missing for a moment, the section ``state`` decides whose copy is read;
    without one, a state folder beside the file whose gateway was started with it, else the default one.

    Raises:
        NoConfigurationError: there is none, and no gateway runs in the default state folder.
        DocumentError: it is not valid, and no gateway runs with it; or it is not trusted.
    """
    try:
        place = find_configuration(given)
    except NoConfigurationError:
        place = PLACES[-1]
    try:
        found = load_configuration(given)
    except (NoConfigurationError, DocumentError):
        if not distrust(place):
            for folder in _state_folders(place):
                if (running := _copy_of(place, folder)) is not None:
                    return running
        raise
    return _copy_of(found.path, found.state_folder) or found


def _copy_of(path: Path, state_folder: Path) -> LoadedConfiguration | None:
    """Return the configuration of the gateway that runs in a state folder; ``None`` where none does."""
    try:
        state = StateFolder(state_folder)
        return load_configuration(path, state.path / RUNNING) if in_use(state.path) else None
    except (StateError, DocumentError):
        return None


def _state_folders(path: Path) -> Iterator[Path]:
    """Yield the state folders that a file may mean: the one that it names, whatever else is in it."""
    settings = _StateSection()
    with contextlib.suppress(DocumentError):
        section = _STATE.search(copied_document(path).text)
        if section is not None:
            settings = parse_document(section[0], _StateSection, path)
    if settings.state.folder is None and not distrust(path.parent):
        yield from states_beside(path)
    whole = Configuration.model_construct(state=settings.state)
    yield LoadedConfiguration(whole, path.absolute()).state_folder


_STATE = re.compile(r"^state:.*(?:\n(?:[ \t#}].*)?)*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences of a configuration from the running one.

    Attributes:
        policy: whether the policy differs, in words or in what it means.
        mappings: what differs in mappings and override files, each in words.
        waiting: other keys that differ, dotted, which take effect by a restart only.
        clients: what differs of users, communities and receivers of SNMP, each in words.
    """

    policy: bool
    mappings: tuple[str, ...]
    waiting: tuple[str, ...]
    clients: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.policy or bool(self.clients or self.mappings or self.waiting)


def changes(wanted: LoadedConfiguration, running: LoadedConfiguration) -> Changes:
    """Return in what a configuration differs from the running one.

    Raises:
        DocumentError: a mapping or an override file is wrong.
    """
    # `run` and all front ends import this module, and read no mapping.
    from gateway.mapping.override_rules import OverrideFile  # noqa: PLC0415
    from gateway.mapping.rules import Mapping as MappingFile  # noqa: PLC0415

    keys = list(changed_keys(running.settings, wanted.settings))
    return Changes(
        any(_is_policy(key) for key in keys),
        (
            *_changed_files("mappings", running.mapping_files, wanted.mapping_files, MappingFile),
            *_changed_files("overrides", running.override_files, wanted.override_files, OverrideFile),
        ),
        tuple(
            key
            for key in keys
            if not _is_policy(key) and not _is_of_clients(key) and key not in _TAKEN_BY_RELOAD
        ),
        tuple(
            f"{key} was {how}" for key, how in _changed_clients(running.settings.snmp, wanted.settings.snmp)
        ),
    )


def changed_keys(running: Configuration, wanted: Configuration) -> Iterator[str]:
    """Yield the keys, dotted, under which two configurations differ."""
    return _differences("", running.model_dump(mode="json"), wanted.model_dump(mode="json"))


def _is_policy(key: str) -> bool:
    return key.partition(".")[0] == "policy" or key.startswith("operations.allow")


def _is_of_clients(key: str) -> bool:
    section, _, rest = key.partition(".")
    return section == "snmp" and rest.partition(".")[0] in CLIENTS


def _changed_clients(running: SnmpSettings, wanted: SnmpSettings) -> Iterator[tuple[str, str]]:
    """Yield the keys that differ, of a client the first only, and how."""
    before, after = (settings.model_dump(mode="json") for settings in (running, wanted))
    for key in CLIENTS:
        if not isinstance(before[key], dict):
            if before[key] != after[key]:
                yield f"snmp.{key}", "changed"
            continue
        for name in sorted(before[key].keys() | after[key].keys()):
            former, present = before[key].get(name), after[key].get(name)
            if former != present:
                how = "added" if former is None else "removed" if present is None else "changed"
                yield f"snmp.{key}.{name}", how


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
