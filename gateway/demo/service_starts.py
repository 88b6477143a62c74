"""Installing Debian packages without the services they bring: none starts, none is enabled for the next boot.

Three things start a service while a package is installed, and each is held off on its own: the maintainer
scripts ask ``policy-rc.d`` (Debian Policy 9.3.3.1); some call ``systemctl`` past it, which a mask in
``/run`` stops; and links in ``/etc`` start it at the next boot, so what is new there is taken out again.
Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

Progress = Callable[[str], None]

UNITS: Final = (
    "rabbitmq-server.service",
    "epmd.service",
    "epmd.socket",
    "snmpd.service",
    "snmptrapd.service",
)
"""What the packages would start: RabbitMQ, Erlang's port mapper (with its socket), net-snmp's daemons."""

_DAEMONS: Final = ("beam.smp", "epmd", "snmpd", "snmptrapd")
_MARK: Final = "put here by amqp-gateway while it installs packages"
_POLICY: Final = f"#!/bin/sh\n# {_MARK}; to be removed afterwards\nexit 101\n"
_POLICY_FILE: Final = "usr/sbin/policy-rc.d"
_LINK_PLACES: Final = ("etc/systemd/system/*.wants/*", "etc/systemd/system/*.requires/*", "etc/rc?.d/*")
_SYSTEMCTL_SECONDS: Final = 60


@contextmanager
def service_starts_prevented(progress: Progress, root: Path = Path("/")) -> Iterator[None]:
    """While inside, installing a package starts no service; afterwards all service links are as before.

    A ``policy-rc.d`` that is there already stays, whatever it says; one that an interrupted run of ours
    left behind is taken out at the end.

    Args:
        progress: told in one line each what is put in place and taken out.
        root: the file system that is installed into; masks are made only in the real one.
    """
    before = service_links(root)
    try:
        with _policy(progress, root), _masks(progress, root):
            yield
    finally:
        for path in sorted(set(service_links(root)) - set(before)):
            progress(f"removing the new service link {path}")
            _remove_link(path)
        if _systemd_runs(root):
            _systemctl(progress, "daemon-reload")


def service_links(root: Path = Path("/")) -> Mapping[Path, str]:
    """Every link by which a service is started at boot, and where it leads."""
    return {
        path: str(path.readlink())
        for place in _LINK_PLACES
        for path in sorted(root.glob(place))
        if path.is_symlink()
    }


def _remove_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    # A folder that the packages made for their link goes with it; one with other links does not.
    if path.parent.suffix in {".wants", ".requires"} and not any(path.parent.iterdir()):
        path.parent.rmdir()


def running_daemons() -> frozenset[tuple[int, str]]:
    """Process id and name of each running daemon of the kinds that the packages could start.

    Those that run in another root directory are not: no installation here has started them.
    """
    found = set()
    root = Path("/").stat()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                name = (entry / "comm").read_text().strip()
                here = name in _DAEMONS and os.path.samestat((entry / "root").stat(), root)
            except OSError:
                continue
            if here:
                found.add((int(entry.name), name))
    return frozenset(found)


@contextmanager
def _policy(progress: Progress, root: Path) -> Iterator[None]:
    path = root / _POLICY_FILE
    if path.exists() and _MARK not in path.read_text(errors="replace"):
        progress(f"{path} exists and stays as it is")
        yield
        return
    progress(f"putting {path} in place: no service starts")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_POLICY)
    path.chmod(0o755)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        progress(f"removed {path}")


@contextmanager
def _masks(progress: Progress, root: Path) -> Iterator[None]:
    """Mask each unit that is not there yet; one that is, is the site's own."""
    masked = [unit for unit in UNITS if not _unit_exists(unit)]
    if not _systemd_runs(root) or not masked:
        yield
        return
    _systemctl(progress, "mask", "--runtime", *masked)
    try:
        yield
    finally:
        _systemctl(progress, "unmask", "--runtime", *masked)


def _systemd_runs(root: Path) -> bool:
    return (
        root == Path("/") and Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None
    )


def _unit_exists(unit: str) -> bool:
    places = ("/etc/systemd/system", "/run/systemd/system", "/lib/systemd/system")
    return any(Path(place, unit).exists() for place in places)


def _systemctl(progress: Progress, *arguments: str) -> None:
    command = ["systemctl", *arguments]
    progress(" ".join(command))
    # What it cannot do is seen afterwards, by what runs and what is linked.
    subprocess.run(  # noqa: S603  no shell; unit names from above
        command, check=False, capture_output=True, timeout=_SYSTEMCTL_SECONDS, stdin=subprocess.DEVNULL
    )
