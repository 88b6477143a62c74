"""Finding and reading ``gateway.yaml``."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from gateway.config.model import Configuration
from gateway.config.policy import OperationRule, PolicySettings, RunningPolicy
from gateway.config.policy_files import with_policy_files
from gateway.config.types import SecretSource
from gateway.state_folder import RUNNING_POLICY
from gateway.yaml_documents import parts_of, read_document

ENVIRONMENT_VARIABLE = "AMQP_GATEWAY_CONFIG"
CAPTURES = "captures"
"""The folder in the state folder that holds captures."""
RUNNING_OVERRIDES = "running-overrides"
"""The folder, beside the copy of a configuration, that holds copies of the override files."""
PLACES = (Path("gateway.yaml"), Path("/etc/amqp-gateway/gateway.yaml"))


class NoConfigurationError(Exception):
    """There is no configuration in any of the places where one is looked for."""


@dataclass(frozen=True, slots=True)
class LoadedConfiguration:
    """A configuration and the file it came from, which relative paths in it are relative to.

    Attributes:
        copies: the folder with copies of the override files, which are read in their place; ``None`` for
            none.
    """

    settings: Configuration
    path: Path
    copies: Path | None = None

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
    def mapping_files(self) -> list[Path]:
        """The paths of the operator's own mappings."""
        return [self.folder / file for file in self.settings.mappings]

    def credentials(self, *, agents: bool) -> tuple[str, ...]:
        """Return the names of the credentials of systemd that agents need, or the gateway itself."""
        found = parts_of(self.settings, SecretSource)
        names = {
            part.credential for key, part in found if part.credential and key.startswith("agents.") is agents
        }
        return tuple(sorted(names))

    @property
    def override_files(self) -> list[Path]:
        """The paths of the override files, or of their copies, in their order."""
        files = self.settings.overrides
        if self.copies is not None:
            return [override_copy(self.copies, number) for number in range(len(files))]
        return [self.folder / file for file in files]

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


def override_copy(folder: Path, number: int) -> Path:
    """Return the copy of an override file, by its number from 0 on, in a folder."""
    return folder / RUNNING_OVERRIDES / f"{number}.yaml"


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
        copy: a copy of the file in the state folder, which is read in its place, with the policy that a
            running gateway has taken since; beside it are copies of the override files.

    Raises:
        NoConfigurationError: there is none.
        DocumentError: it is not valid.
    """
    path = find_configuration(given)
    settings = read_document(copy or path, Configuration)
    if copy is not None and (changed := copy.with_name(RUNNING_POLICY)).exists():
        running = read_document(changed, RunningPolicy)
        settings = with_policy(settings, running.policy, running.allow)
    else:
        settings = with_policy_files(settings, path)
    copies = None if copy is None else copy.absolute().parent
    return LoadedConfiguration(settings, path.absolute(), copies)


def with_policy(
    settings: Configuration, policy: PolicySettings, allow: tuple[OperationRule, ...]
) -> Configuration:
    """Return settings with other roles, and other rules of ``operations.allow``."""
    operations = settings.operations.model_copy(update={"allow": allow})
    return settings.model_copy(update={"policy": policy, "operations": operations})


def _xdg_folder(variable: str) -> Path | None:
    """Return the folder that ``variable`` names; a relative one is ignored (XDG Base Directory)."""
    folder = Path(os.environ.get(variable, ""))
    return folder if folder.is_absolute() else None


def _short_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
