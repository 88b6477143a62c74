"""Where RabbitMQ's programs are, and how they are run: this machine's, or those of another Debian release.

Another release is a folder (`gateway.demo.debian_root`), entered through ``chroot(8)``. Each process that is
started there has mounts of its own: the release, read-only; the node's folder, at a fixed place; ``/proc``
and ``/dev`` of this machine. Nothing is mounted for anybody else, and nothing has to be unmounted.

Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.demo.debian_root import machine_release, own_mounts, root_of

NEWEST: Final = "newest"
RELEASES: Final[Mapping[str, str]] = {"3.10": "bookworm", "4.0": "trixie", NEWEST: "sid"}
"""Series of RabbitMQ, oldest first, and the Debian release that has it."""

_SERVER: Final = "rabbitmq-server"
_PLACES: Final = (
    "usr/lib/rabbitmq/bin",  # Debian: the scripts below the wrapper that insists on its user
    "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin",
    "opt/rabbitmq/sbin",
)
_NODE_PLACE: Final = Path("/mnt")
"""Where the node's folder is inside another release: every Debian has this folder, and leaves it empty."""

_ENTER: Final = f"""set -e
root=$1 folder=$2; shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$folder" "$root{_NODE_PLACE}"
exec chroot "$root" env --chdir={_NODE_PLACE} "$@"
"""


class BrokerError(Exception):
    """The private broker cannot do what was asked; the text says what happened and quotes its log."""


class BrokerNotInstalledError(BrokerError):
    """There is no RabbitMQ on this machine, or not that of the wanted Debian release."""

    def __init__(self, release: str = "") -> None:
        if not release:
            super().__init__("RabbitMQ is not installed; on Debian: apt-get install rabbitmq-server")
            return
        takes = "" if os.geteuid() == 0 else ", and running it through chroot takes root"
        super().__init__(
            f"RabbitMQ of Debian {release} is not at {root_of(release)}{takes}; "
            f"as root: python3 -m gateway.demo.install --broker {release}"
        )


@dataclass(frozen=True, slots=True)
class Installation:
    """One installed RabbitMQ.

    Attributes:
        programs: the folder of its programs, as they themselves see it.
        root: the folder with the Debian release they are in; None for this machine's own.
    """

    programs: Path
    root: Path | None = None

    def command(self, folder: Path, program: str) -> list[str]:
        """How ``program`` is called for the node in ``folder``: RabbitMQ's, or ``epmd``."""
        name = program if program == "epmd" else str(self.programs / program)
        if self.root is None:
            return [name]
        return [*own_mounts(), "sh", "-c", _ENTER, "sh", str(self.root), str(folder), name]

    def seen(self, folder: Path) -> Path:
        """Path by which the node and its tools know the node's ``folder``."""
        return folder if self.root is None else _NODE_PLACE


def debian_release(series: str) -> str:
    """The Debian release of one of `RELEASES`, of which ``4`` or ``4.0`` is enough; empty for anything else.

    Empty also for that of this machine: it is the installed one.
    """
    named = (debian for name, debian in RELEASES.items() if f"{name}.".startswith(f"{series}."))
    debian = next(named, "")
    return "" if debian == machine_release() else debian


def find_installation(release: str = "") -> Installation:
    """The RabbitMQ of a Debian release, or the one that is installed on this machine.

    Args:
        release: code name, such as ``trixie``; empty for whatever is installed. The release of this
            machine itself is taken from there, when RabbitMQ is installed.

    Raises:
        BrokerNotInstalledError: it is not there, or may not be run by this user.
    """
    if release in {"", machine_release()}:
        for place in _places(Path("/")):
            return Installation(place)
    root = root_of(release)
    if release and os.geteuid() == 0:
        for place in _places(root):
            return Installation(Path("/", place.relative_to(root)), root)
    raise BrokerNotInstalledError(release)


def _places(root: Path) -> Iterable[Path]:
    for place in _PLACES:
        yield from sorted((found.parent for found in root.glob(f"{place}/{_SERVER}")), reverse=True)
