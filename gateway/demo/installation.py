"""The programs of RabbitMQ and the way to run them: this machine's, or those of another Debian release.

Another release is a folder that ``debootstrap(8)`` makes once, in a minute, as root. It lies below
``$XDG_CACHE_HOME`` (else ``~/.cache``) and is used by all checkouts. It is never changed: remove it to get a
newer one. It is made under another name and renamed when it is complete, under a lock. Debian's mirror is the
one that this machine's own packages come from. A server that only tests need (`ZABBIX`) is in a copy of such
a folder, with further packages.

A folder is entered through ``chroot(8)``. Each process that is started there has mounts of its own: the
release, read-only; the node's folder, at a fixed place; ``/proc`` and ``/dev`` of this machine. Other
processes do not see these mounts, and they end with the process.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Progress = Callable[[str], None]

PACKAGE: Final = "rabbitmq-server"
"""The Debian package for which a release is made."""

_HOSTS: Final = "127.0.0.1\tlocalhost\n::1\tlocalhost\n"
_MAKE_SECONDS: Final = 1800
_TAIL_LINES: Final = 8
_MIRROR_FILE: Final = "mirror+file:"


_ADD_PACKAGES: Final = """set -e
root=$1; shift
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
export DEBIAN_FRONTEND=noninteractive
chroot "$root" apt-get -o Acquire::Languages=none -o Acquire::Retries=3 update
chroot "$root" apt-get -o Acquire::Retries=3 -o Dpkg::Options::=--force-unsafe-io \\
  install --yes --no-install-recommends "$@"
chroot "$root" apt-get clean
rm -rf "$root"/var/lib/apt/lists/*
"""


PAUSES: Final = (10.0, 30.0)
"""Seconds before the second and the third attempt of a step that needs the network."""


def attempt(step: Callable[[], None], error: type[Exception], progress: Progress) -> None:
    """Take a step that needs the network, once more after each of `PAUSES` where it fails with ``error``."""
    for pause in PAUSES:
        try:
            return step()
        except error as failed:
            progress(f"{failed}\ntrying once more in {pause:g} s")
            time.sleep(pause)
    return step()


class DebianRootError(Exception):
    """A release cannot be made here; the text says in one line why, and how it can be made."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a Debian release that only tests need, in a folder beside that of the release.

    Attributes:
        folder: the name of the folder; the folder itself is `root_of` this name.
        title: what it is, for people.
        release: the code name of the Debian release.
        packages: what the copy of the release's folder has besides.
        links: symbolic links in the folder, by their paths: configuration that is elsewhere.
    """

    folder: str
    title: str
    release: str
    packages: tuple[str, ...]
    links: Mapping[str, str]


def machine_release() -> str:
    """Return the code name of the Debian release of this machine, such as ``bookworm``; empty if unknown."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def root_of(release: str) -> Path:
    """Return the folder of ``release`` (``trixie``, ``sid``), whether it exists or not."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache", "amqp-gateway", "debian", release)


def own_mounts() -> list[str]:
    """Return the beginning of a command with mounts of its own.

    The mounts end with the last process of the command, however that ends.
    """
    # The root of a process in a chroot is no mount point, and cannot be made private.
    mounted = Path("/proc/self/mountinfo").read_text().splitlines()
    private = any(line.split()[4] == "/" for line in mounted)
    return ["unshare", "--mount", "--propagation", "private" if private else "unchanged"]


def ensure_made(release: str, progress: Progress) -> None:
    """Make the folder of ``release`` with RabbitMQ in it, unless it exists.

    Raises:
        DebianRootError: it cannot be made on this machine.
    """
    root = root_of(release)
    if root.is_dir():
        return
    obstacle = _obstacle()
    if obstacle:
        raise DebianRootError(
            f"missing: RabbitMQ of Debian {release}, because {obstacle}; as root, on Debian:  "
            f"apt-get install debootstrap && python3 -m gateway.demo.install --broker {release}"
        )

    def make(new: Path) -> None:
        options = ["--variant=minbase", f"--include={PACKAGE}"]
        _run([*own_mounts(), "debootstrap", *options, release, str(new), debian_mirror()])
        (new / "etc" / "hosts").write_text(_HOSTS)
        for archive in (new / "var" / "cache" / "apt" / "archives").glob("*.deb"):
            archive.unlink()

    _make_once(root, make, progress, f"making {root} with debootstrap: RabbitMQ of Debian {release}")


def ensure_server_made(server: Server, progress: Progress) -> None:
    """Make the folder of a server, and that of its release, unless they exist.

    Raises:
        DebianRootError: it cannot be made on this machine.
    """
    root = root_of(server.folder)
    if root.is_dir():
        return
    obstacle = _obstacle()
    if obstacle:
        raise DebianRootError(
            f"missing: {server.title} of Debian {server.release}, because {obstacle}; as root, on Debian:  "
            "apt-get install debootstrap && python3 -m gateway.demo.install --tests"
        )
    ensure_made(server.release, progress)

    def make(new: Path) -> None:
        _run(["cp", "--archive", "--reflink=auto", f"{root_of(server.release)}/.", str(new)])
        _pass_on_settings_of_apt(new)
        _run([*own_mounts(), "sh", "-c", _ADD_PACKAGES, "sh", str(new), *server.packages])
        for link, target in server.links.items():
            (new / link).symlink_to(target)

    _make_once(root, make, progress, f"making {root}: {server.title} of Debian {server.release}")


def _obstacle() -> str:
    if os.geteuid() != 0:
        return "making and running it through chroot takes root"
    if shutil.which("debootstrap", path=_search_path()) is None:
        return "there is no debootstrap here"
    return ""


def _make_once(root: Path, make: Callable[[Path], None], progress: Progress, what: str) -> None:
    def begin() -> None:
        new = Path(tempfile.mkdtemp(prefix=f"{root.name}.new-", dir=root.parent))
        try:
            make(new)
            new.chmod(0o755)
            new.rename(root)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    root.parent.mkdir(parents=True, exist_ok=True)
    with root.with_name(f"{root.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root.is_dir():
            return
        progress(what)
        for interrupted in root.parent.glob(f"{root.name}.new-*"):
            shutil.rmtree(interrupted, ignore_errors=True)
        attempt(begin, DebianRootError, progress)


def _pass_on_settings_of_apt(root: Path) -> None:
    """Let apt inside ``root`` reach the mirror as this machine's does, and no package start a service."""
    shutil.copytree("/etc/apt/apt.conf.d", root / "etc/apt/apt.conf.d", dirs_exist_ok=True)
    for name in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        if Path("/", name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path("/", name), root / name)
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)


def debian_mirror() -> str:
    """Return the mirror from which this machine's apt gets Debian itself.

    Raises:
        DebianRootError: apt is not there, or names none.
    """
    shown = "$(LABEL)|$(REPO_URI)"
    try:
        printed = _run(["apt-get", "indextargets", "--format", shown, "Created-By: Packages"])
    except FileNotFoundError as error:
        raise DebianRootError("there is no apt-get here, whose sources name Debian's mirror") from error
    for label, _, address in (line.partition("|") for line in printed.splitlines()):
        if label in {"Debian", ""} and "security" not in address:
            if address.startswith(_MIRROR_FILE):
                return Path(address.removeprefix(_MIRROR_FILE).rstrip("/")).read_text().split()[0]
            return address
    raise DebianRootError("this machine's apt sources name no mirror of Debian: see sources.list(5)")


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603  no shell; words from above
            command,
            env={**os.environ, "LC_ALL": "C.UTF-8", "PATH": _search_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_MAKE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DebianRootError(f"{shlex.join(command)}: did not end within {_MAKE_SECONDS} s") from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-_TAIL_LINES:])
        raise DebianRootError(f"{shlex.join(command)} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def _search_path() -> str:
    # debootstrap is in sbin, which is not in everybody's path.
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


NODE_PLACE: Final = Path("/mnt")
"""The place of the node's folder inside another release: every Debian has it, and leaves it empty."""

ZABBIX: Final = Server(
    folder="trixie-zabbix",
    title="the Zabbix server",
    release="trixie",
    # A server of web pages would be installed, too, if not this form of PHP.
    packages=(
        "zabbix-server-mysql",
        "zabbix-frontend-php",
        "php-mysql",
        "php8.4-cgi",
        "php-cli",
        "mariadb-server-core",
        "mariadb-client-core",
    ),
    links={"etc/zabbix/zabbix.conf.php": f"{NODE_PLACE}/zabbix.conf.php"},
)
"""The Zabbix of Debian 13. That of Debian 12, 6.0, cannot walk a table for several items."""

NEWEST: Final = "newest"
RELEASES: Final[Mapping[str, str]] = {"3.10": "bookworm", "4.0": "trixie", NEWEST: "sid"}
"""The Debian release that has each series of RabbitMQ, oldest first."""

_PLACES: Final = (
    "usr/lib/rabbitmq/bin",  # Debian: the scripts below the wrapper that insists on its user
    "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin",
    "opt/rabbitmq/sbin",
)
_ENTER: Final = f"""set -e
root=$1 folder=$2; shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$folder" "$root{NODE_PLACE}"
exec chroot "$root" env --chdir={NODE_PLACE} "$@"
"""


def entering(root: Path, folder: Path) -> list[str]:
    """Return the beginning of a command that runs inside ``root``, with ``folder`` at `NODE_PLACE`."""
    return [*own_mounts(), "sh", "-c", _ENTER, "sh", str(root), str(folder)]


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
        """Return the command that calls ``program`` for the node in ``folder``: RabbitMQ's, or ``epmd``."""
        name = program if program == "epmd" else str(self.programs / program)
        if self.root is None:
            return [name]
        return [*entering(self.root, folder), name]

    def seen(self, folder: Path) -> Path:
        """Return the path by which the node and its tools know the node's ``folder``."""
        return folder if self.root is None else NODE_PLACE


def debian_release(series: str) -> str:
    """Return the Debian release of one of `RELEASES`, of which ``4`` or ``4.0`` is enough, or an empty text.

    The text is empty for anything else, and for the release of this machine, which is the installed one.
    """
    named = (debian for name, debian in RELEASES.items() if f"{name}.".startswith(f"{series}."))
    debian = next(named, "")
    return "" if debian == machine_release() else debian


def find_installation(release: str = "") -> Installation:
    """Return the RabbitMQ of a Debian release, or the one that is installed on this machine.

    Args:
        release: code name, such as ``trixie``; empty for the installed one. For the release of this machine,
            the installed RabbitMQ is returned, if there is one.

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
        yield from sorted((found.parent for found in root.glob(f"{place}/{PACKAGE}")), reverse=True)
