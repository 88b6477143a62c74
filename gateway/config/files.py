"""Finding and reading ``gateway.yaml``."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.config.model import Configuration
from gateway.config.policy import OperationRule, PolicySettings
from gateway.config.policy_files import with_policy_files
from gateway.config.running import CopiedFile, FileCopies, check_size, read_running_files
from gateway.config.types import SecretSource
from gateway.state_folder import RUNNING_FILES
from gateway.yaml_documents import DocumentFile, copied_document, parts_of, read_document

ENVIRONMENT_VARIABLE = "AMQP_GATEWAY_CONFIG"
CAPTURES = "captures"
"""The folder in the state folder that holds captures."""
PLACES = (Path("gateway.yaml"), Path("/etc/amqp-gateway/gateway.yaml"))


class NoConfigurationError(Exception):
    """There is no configuration in any of the places where one is looked for."""


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
    def state_folder(self) -> Path:
        """The state folder.

        It is as configured; else ``$XDG_STATE_HOME/amqp-gateway``, else ``/var/lib/amqp-gateway``.
        """
        folder = self.settings.state.folder
        if folder is not None:
            return self.folder / folder
        home = _xdg_folder("XDG_STATE_HOME")
        return home / "amqp-gateway" if home else Path("/var/lib/amqp-gateway")

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
        """Return the configuration with what a reload takes of another: policy, mappings and overrides."""
        settings = wanted.settings
        changed = _changed(
            self.settings, settings.policy, settings.operations.allow, settings.mappings, settings.overrides
        )
        return replace(self, settings=changed, copies=wanted.copies)

    @property
    def feed_socket(self) -> Path:
        """The path of the feed's socket.

        It is as configured; else in ``$XDG_RUNTIME_DIR/amqp-gateway``, else in the state folder. In the first
        folder its name depends on the path of the state folder, so that two gateways of one user have
        different sockets.
        """
        if self.settings.feed.socket is not None:
            return self.folder / self.settings.feed.socket
        runtime = _xdg_folder("XDG_RUNTIME_DIR")
        if runtime is None:
            return self.state_folder / "feed.sock"
        state = str(self.state_folder.resolve())
        return runtime / "amqp-gateway" / f"feed-{_short_digest(state)}.sock"

    @property
    def objects_socket(self) -> Path:
        """The path of the socket for the metrics of objects, beside `feed_socket`."""
        return self.feed_socket.with_suffix(".objects")


def find_configuration(given: Path | None) -> Path:
    """Return the path of the configuration file.

    The first of these counts: ``given``, ``$AMQP_GATEWAY_CONFIG``, ``./gateway.yaml``,
    ``/etc/amqp-gateway/gateway.yaml``.

    Raises:
        NoConfigurationError: nothing was given and none of the places has one.
    """
    if given is not None:
        return given
    named = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if named:
        return Path(named)
    for place in PLACES:
        if place.is_file():
            return place
    looked = ", ".join(str(place) for place in PLACES)
    raise NoConfigurationError(
        f"no configuration: name one with --config or ${ENVIRONMENT_VARIABLE}, or write one of {looked} "
        "(an example is in docs/configuration.md)"
    )


def load_configuration(given: Path | None, copy: Path | None = None) -> LoadedConfiguration:
    """Find and read the configuration.

    Args:
        given: the path of the file; ``None`` to search for it.
        copy: a copy of the file in the state folder, which is read in its place; beside it is the file with
            the mappings, overrides and policy that the running gateway has now.

    Raises:
        NoConfigurationError: there is none.
        DocumentError: it is not valid.
    """
    path = find_configuration(given)
    settings = read_document(copy or path, Configuration)
    running = None if copy is None else read_running_files(copy.with_name(RUNNING_FILES))
    if running is None:
        return LoadedConfiguration(with_policy_files(settings, path), path.absolute())
    mappings, overrides = (
        tuple(each.file for each in copies) for copies in (running.mappings, running.overrides)
    )
    settings = _changed(settings, running.policy, running.allow, mappings, overrides)
    return LoadedConfiguration(settings, path.absolute(), running.copies)


def _changed(
    settings: Configuration,
    policy: PolicySettings,
    allow: tuple[OperationRule, ...],
    mappings: tuple[Path, ...],
    overrides: tuple[Path, ...],
) -> Configuration:
    """Return settings with another policy, and other files of mappings and overrides."""
    operations = settings.operations.model_copy(update={"allow": allow})
    changes = {"policy": policy, "operations": operations, "mappings": mappings, "overrides": overrides}
    return settings.model_copy(update=changes)


def _xdg_folder(variable: str) -> Path | None:
    """Return the folder that ``variable`` names; a relative one is ignored (XDG Base Directory)."""
    folder = Path(os.environ.get(variable, ""))
    return folder if folder.is_absolute() else None


def _short_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
