"""Installing Debian packages without the services they bring: none starts, none is enabled for the next boot.

Three things start a service while a package is installed, and each is held off on its own: the maintainer
scripts ask ``policy-rc.d`` (Debian Policy 9.3.3.1); some call ``systemctl`` past it, which a mask in
``/run`` stops; and links in ``/etc`` start it at the next boot, so what is new there is taken out again.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import secrets
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

_DAEMONS: Final = frozenset({"beam.smp", "epmd", "snmpd", "snmptrapd"})

MARK: Final = "AMQP_GATEWAY_INSTALLATION"
"""Environment variable that everything inherits which an installation starts."""

_REMARK: Final = "put here by amqp-gateway while it installs packages"
_POLICY: Final = f"#!/bin/sh\n# {_REMARK}; to be removed afterwards\nexit 101\n"
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


def marked() -> dict[str, str]:
    """What the environment of an installation needs, so that `started` knows what came of it."""
    return {MARK: secrets.token_hex(8)}


def started(mark: Mapping[str, str]) -> list[tuple[int, str]]:
    """Process id and name of each daemon that an installation has left behind.

    Only what inherited its environment counts: daemons of the same names that others run, or start
    meanwhile, are none of its business. Where systemd starts services, `active_units` tells.

    Args:
        mark: of that installation, as `marked` made it.
    """
    wanted = {f"{name}={value}".encode() for name, value in mark.items()}
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                name = (entry / "comm").read_text().strip()
                if name in _DAEMONS and wanted.issubset((entry / "environ").read_bytes().split(b"\0")):
                    found.append((int(entry.name), name))
    return sorted(found)


def active_units() -> frozenset[str]:
    """Those of `UNITS` that systemd runs; none where there is no systemd."""
    if not _systemd_runs(Path("/")):
        return frozenset()
    return frozenset(unit for unit in UNITS if _systemctl(lambda _: None, "is-active", "--quiet", unit) == 0)


@contextmanager
def _policy(progress: Progress, root: Path) -> Iterator[None]:
    path = root / _POLICY_FILE
    if path.exists() and _REMARK not in path.read_text(errors="replace"):
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


def _systemctl(progress: Progress, *arguments: str) -> int:
    command = ["systemctl", *arguments]
    progress(" ".join(command))
    # What it cannot do is seen afterwards, by what runs and what is linked.
    done = subprocess.run(  # noqa: S603  no shell; unit names from above
        command, check=False, capture_output=True, timeout=_SYSTEMCTL_SECONDS, stdin=subprocess.DEVNULL
    )
    return done.returncode
