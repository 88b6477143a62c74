"""The communities of SNMP: configured ones, and those that the state folder has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.config.secret_places import PlaceKind, SecretError, read_secret
from gateway.snmp.message import MAX_COMMUNITY_OCTETS
from gateway.state_folder import COMMUNITY, StateFolder

if TYPE_CHECKING:  # `health`, which is run by the hundred, needs one function of this module only.
    from gateway.config.files import LoadedConfiguration


@dataclass(frozen=True, slots=True)
class Communities:
    """All communities of a configuration.

    Attributes:
        reading: the one that reads.
        writers: the community of each writer, by its name.
        receivers: the community of each receiver of notifications, by its name.
    """

    reading: str = field(repr=False)
    writers: Mapping[str, str] = field(repr=False)
    receivers: Mapping[str, str] = field(repr=False)


def read_communities(loaded: LoadedConfiguration, state: StateFolder) -> Communities:
    """Return all communities; those that are not configured are made if missing.

    Raises:
        SecretError: one cannot be read, has another use already, or is too long.
        StateError: one of the state folder cannot be read or made.
    """
    reading = read_community(loaded, state)
    writers = read_writers(loaded, state, reading)
    return Communities(reading, writers, read_receivers(loaded, reading))


def read_community(loaded: LoadedConfiguration, state: StateFolder) -> str:
    """Return the community that reads: the configured one, or the state folder's, created if missing.

    Raises:
        SecretError: the configured community cannot be read.
        StateError: that of the state folder cannot be read or made.
    """
    configured = loaded.settings.snmp.community
    return community_at(None if configured is None else configured.found_at(loaded.folder), state)


def community_at(place: tuple[PlaceKind, str] | None, state: StateFolder) -> str:
    """Return the community at a configured place, or else the state folder's, created if missing.

    Raises:
        SecretError: as of `read_community`.
        StateError: likewise.
    """
    return state.secret(COMMUNITY) if place is None else read_secret(*place)


def read_writers(loaded: LoadedConfiguration, state: StateFolder, community: str) -> dict[str, str]:
    """Return the community of each writer: the configured one, or the state folder's, created if missing.

    Args:
        loaded: the configuration.
        state: the state folder.
        community: the one that reads.

    Raises:
        SecretError: a configured community cannot be read, or two are equal, so that the writer is ambiguous.
        StateError: one of the state folder cannot be read or made.
    """
    communities: dict[str, str] = {}
    names = {community: "the community that reads"}
    for name, writer in loaded.settings.snmp.writers.items():
        if writer.community is not None:
            secret = writer.community.read(loaded.folder).get_secret_value()
        else:
            secret = state.secret(f"{COMMUNITY}-{name}")
        if secret in names:
            raise SecretError(
                f"snmp.writers.{name}: has the same community as {names[secret]}: give each its own"
            )
        names[secret] = f"snmp.writers.{name}"
        communities[name] = secret
    return communities


def read_receivers(loaded: LoadedConfiguration, community: str) -> dict[str, str]:
    """Return the community of each receiver of notifications; ``community`` is that of the others.

    Raises:
        SecretError: one cannot be read, or is too long.
    """
    found = {}
    for name, receiver in loaded.settings.snmp.notifications.items():
        own = receiver.community
        found[name] = community if own is None else own.read(loaded.folder).get_secret_value()
        octets = len(found[name].encode())
        if octets > MAX_COMMUNITY_OCTETS:
            raise SecretError(
                f"the community of the receiver {name} has {octets} bytes; notifications can carry "
                f"{MAX_COMMUNITY_OCTETS}"
            )
    return found
