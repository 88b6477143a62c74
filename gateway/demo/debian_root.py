"""Folders with a Debian release in each, for brokers that this machine's own release does not have.

``debootstrap(8)`` makes such a folder once, in a minute, as root. It lies below ``$XDG_CACHE_HOME`` (else
``~/.cache``) and is used by all checkouts; it is never changed again, and a newer one is made after it was
removed. It is made under another name and renamed when it is complete, under a lock. Debian's mirror is the
one of this machine's apt.

Standard library only, so that it also runs before there is a virtual environment.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

Progress = Callable[[str], None]

PACKAGE: Final = "rabbitmq-server"
"""What a release is made for."""

_HOSTS: Final = "127.0.0.1\tlocalhost\n::1\tlocalhost\n"
_MAKE_SECONDS: Final = 1800
_TAIL_LINES: Final = 8
_MIRROR_FILE: Final = "mirror+file:"


class DebianRootError(Exception):
    """A release cannot be made here; the text says in one line why, and what would bring it."""


def machine_release() -> str:
    """Code name of the Debian release that this machine runs, such as ``bookworm``; empty if unknown."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def root_of(release: str) -> Path:
    """The folder of ``release``, whether it is there or not: ``trixie``, ``sid``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache", "amqp-gateway", "debian", release)


def own_mounts() -> list[str]:
    """How a command begins whose mounts are its own, and end with its last process, however that ends."""
    # The root of a process in a chroot is no mount point, and cannot be made private.
    mounted = Path("/proc/self/mountinfo").read_text().splitlines()
    private = any(line.split()[4] == "/" for line in mounted)
    return ["unshare", "--mount", "--propagation", "private" if private else "unchanged"]


def ensure_made(release: str, progress: Progress) -> None:
    """Make the folder of ``release`` with RabbitMQ in it, unless it is there.

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
    root.parent.mkdir(parents=True, exist_ok=True)
    with root.with_name(f"{release}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.is_dir():
            progress(f"making {root} with debootstrap: RabbitMQ of Debian {release}")
            _make(release, root)


def _obstacle() -> str:
    if os.geteuid() != 0:
        return "making and running it through chroot takes root"
    if shutil.which("debootstrap", path=_search_path()) is None:
        return "there is no debootstrap here"
    return ""


def _make(release: str, root: Path) -> None:
    for interrupted in root.parent.glob(f"{release}.new-*"):
        shutil.rmtree(interrupted, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f"{release}.new-", dir=root.parent))
    try:
        new.chmod(0o755)
        options = ["--variant=minbase", f"--include={PACKAGE}"]
        _run([*own_mounts(), "debootstrap", *options, release, str(new), debian_mirror()])
        (new / "etc" / "hosts").write_text(_HOSTS)
        for archive in (new / "var" / "cache" / "apt" / "archives").glob("*.deb"):
            archive.unlink()
        new.rename(root)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def debian_mirror() -> str:
    """The mirror from which this machine's apt gets Debian itself.

    Raises:
        DebianRootError: apt is not there, or names none.
    """
    shown = "$(LABEL)|$(REPO_URI)"
    try:
        told = _run(["apt-get", "indextargets", "--format", shown, "Created-By: Packages"])
    except FileNotFoundError as error:
        raise DebianRootError("there is no apt-get here, whose sources name Debian's mirror") from error
    for label, _, address in (line.partition("|") for line in told.splitlines()):
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
