"""Finding and reading ``gateway.yaml``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.config.model import Configuration
from gateway.config.places import feed_socket, find_configuration, state_folder
from gateway.config.policy import OperationRule, PolicySettings
from gateway.config.policy_files import with_policy_files
from gateway.config.running import CopiedFile, FileCopies, check_size, read_running_files
from gateway.config.secret_places import SecretError
from gateway.config.snmp import SnmpSettings
from gateway.config.sources import ClientTlsSettings, ListenerTls
from gateway.config.types import SecretSource
from gateway.file_owners import distrust, owner_for_root
from gateway.local_sockets import OBJECTS_SUFFIX
from gateway.state_folder import RUNNING_FILES
from gateway.yaml_documents import (
    Complaint,
    DocumentError,
    DocumentFile,
    copied_document,
    parts_of,
    read_document,
)

CAPTURES = "captures"
"""The folder in the state folder that holds captures."""


@dataclass(frozen=True, slots=True)
class LoadedConfiguration:
    """A configuration and the file it came from, which relative paths in it are relative to.

    Attributes:
        copies: copies of the files with mappings and overrides, which are read in their place; ``None`` for
            none.
    """

    settings: Configuration
    path: Path
    copies: FileCopies | None = None

    @property
    def folder(self) -> Path:
        """The folder of the configuration file."""
        return self.path.parent

    @property
    def trusted_files(self) -> list[Path]:
        """The files that decide what the gateway does: this one, and those with mappings and policy."""
        named = self.settings
        others = (*named.mappings, *named.overrides, *named.policy.files)
        return [self.path, *(self.folder / name for name in others)]

    @property
    def secret_files(self) -> Mapping[str, Path]:
        """The files of secrets, by the key that names each."""
        found = parts_of(self.settings, SecretSource)
        return {key: self.folder / part.file for key, part in found if part.file is not None}

    @property
    def private_keys(self) -> Mapping[str, Path]:
        """The files of private keys of TLS, by the key that names each."""
        return dict(self._files_of_tls("client_key", "key"))

    @property
    def authorities(self) -> Mapping[str, Path]:
        """The files of trusted authorities of TLS, by the key that names each."""
        return dict(self._files_of_tls("ca_file", "client_ca"))

    def _files_of_tls(self, of_client: str, of_listener: str) -> Iterator[tuple[str, Path]]:
        for place, part in parts_of(self.settings, (ClientTlsSettings, ListenerTls)):
            name = of_listener if isinstance(part, ListenerTls) else of_client
            if (file := getattr(part, name)) is not None:
                yield f"{place}.{name}", self.folder / file

    def distrusted_file(self) -> tuple[str, str] | None:
        """Return the key of the first file that is not trusted, or whose folder is not, and why.

        Looked at are private keys of TLS, files of authorities, and a folder of the log beside the state.
        """
        if (found := self.distrusted_file_of_tls("")) is not None:
            return found
        settings = self.settings.log
        return self.distrusted_log() if settings.enabled and settings.folder is not None else None

    def distrusted_log(self) -> tuple[str, str] | None:
        """Return the key of the log's folder and why it is not trusted, if it is not.

        Where root asks, it may belong to the owner of the state, as whom the gateway writes it; where there
        is no state yet, to anyone.
        """
        log = self.log_folder
        reason = distrust(log, *(owner_for_root(self.state_folder) or owner_for_root(log)))
        return ("log.folder", f"{log} {reason}") if reason else None

    def distrusted_file_of_tls(self, place: str) -> tuple[str, str] | None:
        """Return the key of the first private key, or file of authorities, that is not trusted, and why.

        Args:
            place: what the key begins with, such as ``sources.orders.``: whose connection is meant.
        """
        for key, path in (*self.private_keys.items(), *self.authorities.items()):
            for each in (path, path.parent) if key.startswith(place) else ():
                if reason := distrust(each, *owner_for_root(each)):
                    return key, f"{each} {reason}"
        return None

    def secret_remarks(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the text of what is probably not meant so in a file of a secret.

        Files that cannot be read, which are reported elsewhere, are left out.
        """
        for key, part in parts_of(self.settings, SecretSource):
            with contextlib.suppress(SecretError):
                if text := part.remark(self.folder):
                    yield key, text

    @property
    def state_folder(self) -> Path:
        """The state folder (`gateway.config.places.state_folder`)."""
        return state_folder(self.folder, self.settings.state.folder)

    @property
    def log_folder(self) -> Path:
        """The folder of the event log: as configured, else ``log`` in the state folder."""
        folder = self.settings.log.folder
        return self.state_folder / "log" if folder is None else self.folder / folder

    @property
    def heads_file(self) -> Path | None:
        """The operator's file for signed heads of the audit; ``None`` for none."""
        file = self.settings.audit.heads.file
        return None if file is None else self.folder / file

    @property
    def capture_folder(self) -> Path:
        """The folder of the captures of sources: ``captures`` in the state folder."""
        return self.state_folder / CAPTURES

    @property
    def mapping_files(self) -> list[DocumentFile]:
        """The files of the operator's own mappings, or their copies, in their order."""
        if self.copies is not None:
            return [copy.document(self.folder) for copy in self.copies.mappings]
        return [self.folder / file for file in self.settings.mappings]

    def credentials(self, *, agents: bool) -> tuple[str, ...]:
        """Return the names of the credentials of systemd that agents need, or the gateway itself."""
        found = parts_of(self.settings, SecretSource)
        names = {
            part.credential for key, part in found if part.credential and key.startswith("agents.") is agents
        }
        return tuple(sorted(names))

    @property
    def override_files(self) -> list[DocumentFile]:
        """The override files, or their copies, in their order."""
        if self.copies is not None:
            return [copy.document(self.folder) for copy in self.copies.overrides]
        return [self.folder / file for file in self.settings.overrides]

    def with_copies(self) -> LoadedConfiguration:
        """Read the files with mappings and overrides, and return the configuration with copies of them.

        Raises:
            DocumentError: one of them cannot be read, or they are too large together.
        """
        mappings, overrides = (
            tuple(CopiedFile(file=file, text=copied_document(self.folder / file).text) for file in files)
            for files in (self.settings.mappings, self.settings.overrides)
        )
        check_size(self.path, (*mappings, *overrides))
        return replace(self, copies=FileCopies(mappings, overrides))

    def reloaded(self, wanted: LoadedConfiguration) -> LoadedConfiguration:
        """Return the configuration with what a reload takes of another."""
        settings = wanted.settings
        changed = _changed(
            self.settings,
            settings.policy,
            settings.operations.allow,
            settings.mappings,
            settings.overrides,
            settings.snmp,
        )
        return replace(self, settings=changed, copies=wanted.copies)

    @property
    def feed_socket(self) -> Path:
        """The path of the feed's socket (`gateway.config.places.feed_socket`)."""
        return feed_socket(self.folder, self.settings.feed.socket, self.state_folder)

    @property
    def configured_socket(self) -> Path | None:
        """The path of the feed's socket as configured, which holds from the next start on, if it is."""
        configured = self.settings.feed.socket
        return None if configured is None else self.folder / configured

    @property
    def objects_socket(self) -> Path:
        """The path of the socket for the metrics of objects, beside `feed_socket`."""
        return self.feed_socket.with_suffix(OBJECTS_SUFFIX)


def load_configuration(given: Path | None, copy: Path | None = None) -> LoadedConfiguration:
    """Find and read the configuration.

    Args:
        given: the path of the file; ``None`` to search for it.
        copy: a copy of the file in the state folder, which is read in its place; beside it is the file with
            the mappings, overrides and policy that the running gateway has now.

    Raises:
        NoConfigurationError: there is none.
        DocumentError: it is not valid, or it, or a file of mappings, overrides or policy, is not trusted
            (`gateway.file_owners`).
    """
    path = find_configuration(given)
    if copy is None:
        _check_owner(path, path)
        return _with_named_files(path, read_document(path, Configuration))
    _check_owner(copy, copy, *owner_for_root(copy.parent))
    settings = read_document(copy, Configuration)
    running = read_running_files(copy.with_name(RUNNING_FILES))
    if running is None:
        return _with_named_files(path, settings)
    mappings, overrides = (
        tuple(each.file for each in copies) for copies in (running.mappings, running.overrides)
    )
    settings = _changed(settings, running.policy, running.allow, mappings, overrides, running.snmp)
    return LoadedConfiguration(settings, path.absolute(), running.copies)


def _with_named_files(path: Path, settings: Configuration) -> LoadedConfiguration:
    """Return a configuration with what the policy files that it names say.

    Raises:
        DocumentError: one of them is wrong; or one, or a file of mappings or overrides, is not trusted.
    """
    for file in LoadedConfiguration(settings, path.absolute()).trusted_files[1:]:
        _check_owner(path, file)
    return LoadedConfiguration(with_policy_files(settings, path), path.absolute())


def _check_owner(configuration: Path, file: Path, *further: int) -> None:
    reason = distrust(file, *further)
    if reason:
        named = "" if file == configuration else f"{file} "
        raise DocumentError(configuration, [Complaint(1, "", f"{named}{reason}")])


def _changed(
    settings: Configuration,
    policy: PolicySettings,
    allow: tuple[OperationRule, ...],
    mappings: tuple[Path, ...],
    overrides: tuple[Path, ...],
    snmp: SnmpSettings | None,
) -> Configuration:
    """Return settings with another policy, other files of mappings and overrides, and clients of SNMP."""
    operations = settings.operations.model_copy(update={"allow": allow})
    changes = {"policy": policy, "operations": operations, "mappings": mappings, "overrides": overrides}
    if snmp is not None:
        changes["snmp"] = settings.snmp.with_clients_of(snmp)
    return settings.model_copy(update=changes)
