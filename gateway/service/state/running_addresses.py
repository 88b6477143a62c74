"""What short commands need of a configuration, in a small file of the state folder.

To build the model of a configuration takes longer than all else that ``health`` and ``get`` do, and they are
run by the hundred. So the gateway notes at its start, and at a reload, what they would find. The note counts
only as long as the files that it was made of are the same, byte by byte, and are trusted; else, and without
a note, the configuration itself is read (`gateway.service.state.running_configuration`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from gateway.config.places import NoConfigurationError, feed_socket, find_configuration, state_folder
from gateway.config.secret_places import PlaceKind
from gateway.file_owners import distrust, opened, owner_for_root
from gateway.state_folder import RUNNING_ADDRESSES

if TYPE_CHECKING:  # It has the model.
    from gateway.config.files import LoadedConfiguration

_MAX_OCTETS: Final = 16 << 20  # twice as many as a configuration may have
_STATE: Final = re.compile(rb"^state:\s*\{?\s*folder:[ \t]*[\"']?([^\"'}#\s]+)", re.MULTILINE)


class SnmpAddress(msgspec.Struct, frozen=True):
    """Where and how the SNMP agent is asked.

    Attributes:
        root: the root of all object identifiers.
        listen: the first address and port.
        versions: the versions that are answered.
        allowed_networks: the networks that the community that reads may be used from; ``None`` for any.
        community: the place of the community that reads; ``None`` where it is the state folder's.
    """

    root: str
    listen: tuple[str, int]
    versions: tuple[str, ...]
    allowed_networks: tuple[str, ...] | None
    community: tuple[PlaceKind, str] | None


class JmxAddress(msgspec.Struct, frozen=True):
    """Where and how the JMX agent is asked.

    Attributes:
        listen: address and port.
        has_tls: whether it speaks TLS.
        asks_certificates: whether it requires certificates of clients.
        buckets: the buckets of classes.
    """

    listen: tuple[str, int]
    has_tls: bool
    asks_certificates: bool
    buckets: dict[str, int]


class Addresses(msgspec.Struct, frozen=True):
    """What a configuration says about the ways to the gateway.

    Attributes:
        path: the absolute path of the configuration.
        state: the path of the state folder.
        feed: the configured path of the feed's socket, if any; where it is, the state folder says.
        site: the label of the gateway.
        deadline: the time that an operation may take, in nanoseconds.
        snmp: the SNMP agent; ``None`` where it is off.
        jmx: the JMX agent; ``None`` where it is off.
        has_objects: whether a process has the metrics of objects.
    """

    path: str
    state: str
    feed: str | None
    site: str
    deadline: int
    snmp: SnmpAddress | None
    jmx: JmxAddress | None
    has_objects: bool = False

    @property
    def state_folder(self) -> Path:
        """The state folder."""
        return Path(self.state)

    @property
    def feed_socket(self) -> Path:
        """The path of the feed's socket."""
        configured = None if self.feed is None else Path(self.feed)
        return feed_socket(Path(self.path).parent, configured, self.state_folder)


class Note(msgspec.Struct, frozen=True):
    """The file in the state folder.

    Attributes:
        addresses: what was found.
        digests: the files that were read, and a digest of each.
        trusted: all files whose owners count.
        home: the folder that ``~`` stood for; empty where no file has a ``~``.
    """

    addresses: Addresses
    digests: dict[str, str]
    trusted: tuple[str, ...]
    home: str
    version: Literal[1] = 1


def digests_of(paths: Iterable[Path]) -> tuple[Mapping[str, str], str]:
    """Return a digest of each file, and the folder of the user if one of them has a ``~``, else nothing.

    Raises:
        OSError: one cannot be read.
    """
    contents = {str(path): _content(path) for path in paths}
    home = str(Path("~").expanduser()) if any(b"~" in content for content in contents.values()) else ""
    return {path: _digest(content) for path, content in contents.items()}, home


def known_addresses(given: Path | None, whole: Callable[[], LoadedConfiguration]) -> Addresses:
    """Return what was noted about a configuration; where that does not count, what the whole one says.

    Args:
        given: as of `noted_addresses`.
        whole: reads the whole configuration.
    """
    noted = noted_addresses(given)
    if noted is not None:
        return noted
    from gateway.service.state.running_configuration import addresses_of  # noqa: PLC0415  it takes long

    return addresses_of(whole())


def noted_addresses(given: Path | None) -> Addresses | None:
    """Return what the gateway noted about a configuration; ``None`` where that does not count.

    Args:
        given: the path of the configuration; ``None`` to search for it.
    """
    try:
        path = find_configuration(given).absolute()
        named = _STATE.search(_content(path))
        folder = state_folder(path.parent, None if named is None else Path(os.fsdecode(named[1])))
        file = folder / RUNNING_ADDRESSES
        if any(distrust(place, *owner_for_root(folder)) for place in (folder, file)):
            return None
        note = msgspec.json.decode(_content(file), type=Note)
        found = note.addresses
        is_of_it = (found.path, found.state) == (str(path), str(folder)) and str(path) in note.digests
        is_current = (note.digests, note.home) == digests_of(map(Path, note.digests))
        is_trusted = not any(distrust(Path(each)) for each in (str(path), *note.trusted))
    except (NoConfigurationError, OSError, ValueError, RuntimeError, msgspec.MsgspecError):
        return None
    return found if is_of_it and is_current and is_trusted else None


def states_beside(path: Path) -> list[Path]:
    """Return the folders beside a configuration with a note of a gateway that was started with it."""
    found = []
    for file in sorted(path.parent.glob(f"*/{RUNNING_ADDRESSES}")):
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            if msgspec.json.decode(_content(file), type=Note).addresses.path == str(path.absolute()):
                found.append(file.parent)
    return found


def _content(path: Path) -> bytes:
    """Return what a file has, of too large a one only so much that it is none that was noted."""
    with opened(path) as file:
        return file.read(_MAX_OCTETS)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
