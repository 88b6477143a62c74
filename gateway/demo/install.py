"""Finds and installs the Debian packages that the demonstration and the tests need.

``python -m gateway.demo.install [--tests]`` installs what is missing, or names it; with ``--run`` or
``--build`` only what an installed gateway, or building one, requires. ``--broker`` installs the RabbitMQ of a
Debian release; if that is not this machine's own, `gateway.demo.installation` makes a folder with it.

No service that a package contains is started or enabled. Three things start a service while a package is
installed, and each is prevented by itself: the maintainer scripts ask ``policy-rc.d`` (Debian Policy
9.3.3.1); some call ``systemctl`` past it, which a mask in ``/run`` stops; and links in ``/etc`` start it at
the next boot, so new ones are removed. Those of timers stay: they serve no client, but do the
housekeeping of packages, such as the rotation of the machine's logs. Standard library only, so that it also
runs before there is a virtual environment.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gateway.demo.installation import (
    NEWEST,
    PACKAGE,
    RELEASES,
    ZABBIX,
    BrokerNotInstalledError,
    DebianRootError,
    attempt,
    ensure_made,
    ensure_server_made,
    find_installation,
    machine_release,
)

EVERY_SECONDS: Final = 10.0

CHECK_SNMP: Final = Path("/usr/lib/nagios/plugins/check_snmp")
"""The plugin of Nagios that reads by SNMP, where Debian has it."""


@contextmanager
def patiently(report: Callable[[str], None], what: str, every: float = EVERY_SECONDS) -> Iterator[None]:
    """Report every few seconds, while the block lasts, that ``what`` is in progress, and for how long.

    Args:
        report: called with one line each time, in a thread of its own.
        what: the work in progress.
        every: seconds between two reports.
    """
    began, over = time.monotonic(), threading.Event()

    def watch() -> None:
        while not over.wait(every):
            report(f"{what}: {time.monotonic() - began:.0f} s so far")

    watching = threading.Thread(target=watch, name="patience", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


Progress = Callable[[str], None]
"""A function that is called with each line of progress."""

UNITS: Final = (
    "rabbitmq-server.service",
    "epmd.service",
    "epmd.socket",
    "snmpd.service",
    "snmptrapd.service",
    "zabbix-java-gateway.service",
    "nagios4.service",
    "icinga2.service",
    "snmptt.service",
)
"""The units that packages would start: RabbitMQ, Erlang's port mapper with its socket, net-snmp's daemons,
Zabbix' reader of JMX, Nagios, Icinga, SNMPTT."""

_DAEMONS: Final = frozenset({"beam.smp", "epmd", "snmpd", "snmptrapd", "nagios4", "icinga2", "snmptt"})

MARK: Final = "AMQP_GATEWAY_INSTALLATION"
"""The environment variable that every process of an installation inherits."""

_REMARK: Final = "put here by amqp-gateway while it installs packages"
_POLICY: Final = f"#!/bin/sh\n# {_REMARK}; to be removed afterwards\nexit 101\n"
_POLICY_FILE: Final = "usr/sbin/policy-rc.d"
_LINK_PLACES: Final = ("etc/systemd/system/*.wants/*", "etc/systemd/system/*.requires/*", "etc/rc?.d/*")
_SYSTEMCTL_SECONDS: Final = 60


@contextmanager
def service_starts_prevented(progress: Progress, root: Path = Path("/")) -> Iterator[None]:
    """Prevent, within the block, that packages start services; remove new service links at the end.

    A ``policy-rc.d`` that exists already stays, whatever it contains; one that an interrupted run of ours
    left behind is removed at the end.

    Args:
        progress: called with one line for each thing that is put in place or removed.
        root: the file system that packages are installed into; masks are made only in the real one.
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
    """Return every link by which a service is started at boot, with its target; not those of timers."""
    return {
        path: str(path.readlink())
        for place in _LINK_PLACES
        for path in sorted(root.glob(place))
        if path.is_symlink() and path.suffix != ".timer"
    }


def _remove_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    # A folder that the packages made for their link goes with it; one with other links does not.
    if path.parent.suffix in {".wants", ".requires"} and not any(path.parent.iterdir()):
        path.parent.rmdir()


def marked() -> dict[str, str]:
    """Return the environment variable that an installation needs, so that `started` finds its processes."""
    return {MARK: secrets.token_hex(8)}


def started(mark: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return process id and name of each daemon that an installation has left behind.

    Only processes that inherited its environment count, not daemons of the same names that others run, or
    start meanwhile. Where systemd starts services, `active_units` returns them.

    Args:
        mark: the environment variable of that installation, as `marked` made it.
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
    """Return those of `UNITS` that systemd runs; none if there is no systemd."""
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
    """Mask, within the block, each unit that does not exist yet; an existing one is the site's own."""
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


EXIT_NOT_INSTALLED: Final = 11
"""The value of `ExitCode.NOT_INSTALLED`, whose module imports more than this one may."""

_APT_SECONDS: Final = 1800
_TAIL_LINES: Final = 8


class InstallError(Exception):
    """Something is missing and cannot be installed here; the text says what, and how to install it."""


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package, its purpose, and a check whether its contents exist, wherever they came from."""

    name: str
    purpose: str
    is_there: Callable[[], bool]


def _command(name: str) -> Callable[[], bool]:
    # Daemons and their like are in sbin, which is not in an ordinary user's path.
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    return lambda: shutil.which(name, path=path) is not None


def _rabbitmq_is_there() -> bool:
    try:
        find_installation()
    except BrokerNotInstalledError:
        return False
    return True


def _java_runs() -> bool:
    return _command("java")() or "JAVA_HOME" in os.environ


def _java_can_be_compiled() -> bool:
    return _command("javac")() or _ecj_is_there()


def _ecj_is_there() -> bool:
    """Return whether the compiler ecj is there.

    From Debian 13 on there is a command ``ecj`` that does not find the compiler.
    """
    jar = Path("/usr/share/java/eclipse-jdt-core-compiler-batch.jar")
    return jar.exists() or (_ECJ == "ecj" and _command("ecj")())


def _c_can_be_compiled() -> bool:
    return _command("cc")() and Path("/usr/include/stdio.h").exists()


def _python_can_be_extended() -> bool:
    return Path(sysconfig.get_path("include"), "Python.h").exists()


def _net_snmp_can_be_linked() -> bool:
    return _command("net-snmp-config")() and Path("/usr/include/net-snmp/agent").is_dir()


def _zabbix_java_gateway_is_there() -> bool:
    return Path("/usr/sbin/zabbix-java-gateway.jar").is_file()


def _jconsole_can_be_shown() -> bool:
    return _command("jconsole")() and any(Path("/usr/lib/jvm").glob("*/lib/libawt_xawt.so"))


def _base_mibs_are_there() -> bool:
    return any(Path("/usr/lib/erlang/lib").glob("snmp-*/mibs/SNMPv2-TC.mib"))


def _check_snmp_is_there() -> bool:
    return CHECK_SNMP.exists()


_PROMETHEUS = Package(
    "prometheus", "Prometheus, which scrapes the gateway, and promtool", _command("promtool")
)
_RABBITMQ = Package(PACKAGE, "the broker that is shown", _rabbitmq_is_there)
_DEBOOTSTRAP = Package(
    "debootstrap", "makes a folder with a Debian release, for its RabbitMQ", _command("debootstrap")
)
_JAVA = Package("default-jre-headless", "the Java machine that JMX needs", _java_runs)
_ECJ: Final = "ecj" if machine_release() in {"", "bookworm"} else "libeclipse-jdt-core-compiler-batch-java"
_JAVA_COMPILER = Package(
    _ECJ, "the compiler of the gateway's Java classes in a source checkout", _java_can_be_compiled
)

RUN_PACKAGES: Final = (_JAVA,)
"""The packages that an installed gateway with JMX needs."""

BUILD_PACKAGES: Final = (_JAVA, _JAVA_COMPILER)
"""The packages that ``make dist`` and ``make install`` need."""

_C_COMPILER: Final = (
    Package("gcc", "the compiler of agents in C, and of the tests' AMQP 1.0 client", _c_can_be_compiled),
    Package("libc6-dev", "the headers of the C library", _c_can_be_compiled),
)

COMPILER_PACKAGES: Final = (
    *_C_COMPILER,
    Package(
        f"libpython3.{sys.version_info.minor}-dev",
        "Python's headers, with which the tests' AMQP 1.0 client is compiled",
        _python_can_be_extended,
    ),
)
"""The packages that ``make venv`` needs."""

DEMO_PACKAGES: Final = (
    _RABBITMQ,
    Package("snmp", "net-snmp's commands: snmpwalk, snmptable", _command("snmpwalk")),
    Package(
        "erlang-snmp", "the texts of the base MIBs, without which no name resolves", _base_mibs_are_there
    ),
    Package("snmptrapd", "net-snmp's receiver of traps and informs", _command("snmptrapd")),
    _JAVA,
    _JAVA_COMPILER,
)
"""The packages that ``make demo`` needs."""

PICTURE_PACKAGES: Final = (
    *DEMO_PACKAGES,
    Package("default-jdk", "JConsole, whose picture is taken", _jconsole_can_be_shown),
    Package("xvfb", "a virtual screen", _command("Xvfb")),
)
"""The packages that ``make demo-check`` and ``make pictures`` need."""

TEST_PACKAGES: Final = (
    *PICTURE_PACKAGES,
    Package("snmpd", "net-snmp's agent, whose answers ours are compared with", _command("snmpd")),
    Package("smitools", "smilint, which checks MIB modules", _command("smilint")),
    Package("systemd", "systemd-analyze, which checks units", _command("systemd-analyze")),
    Package(_ECJ, "the other Java compiler, which must understand the same classes", _ecj_is_there),
    Package("default-jdk-headless", "javac, and Java clients of the tests", _command("javac")),
    _DEBOOTSTRAP,
    Package("openssl", "certificates for tests of TLS", _command("openssl")),
    Package("faketime", "a clock that a test can set", _command("faketime")),
    _PROMETHEUS,
    Package(
        "prometheus-snmp-exporter",
        "reads the gateway by SNMP with the template for it",
        _command("prometheus-snmp-exporter"),
    ),
    Package("monitoring-plugins-standard", "check_snmp, which Nagios and Icinga run", _check_snmp_is_there),
    # nagios4 depends on a mail transport agent, by default exim4, a daemon; this one is no daemon.
    Package("dma", "the mail transport agent that the package of Nagios requires", _command("sendmail")),
    Package("nagios4-core", "Nagios, which runs the commands of its template", _command("nagios4")),
    Package("icinga2-bin", "Icinga 2, which applies the services of its template", _command("icinga2")),
    Package("snmptt", "SNMPTT, which translates traps by its template", _command("snmptt")),
    Package("jq", "the documentation's examples of reading the event log's lines", _command("jq")),
    *_C_COMPILER,
    Package(
        "zabbix-java-gateway", "Zabbix' reader of JMX, which reads the gateway", _zabbix_java_gateway_is_there
    ),
    Package("libsnmp-dev", "net-snmp's agent library, of which one of them is made", _net_snmp_can_be_linked),
)
"""The packages that ``make test`` and ``make bench`` need."""


def missing(packages: Sequence[Package]) -> tuple[Package, ...]:
    """Return those of ``packages`` that this machine lacks."""
    return tuple(package for package in packages if not package.is_there())


def ensure_installed(packages: Sequence[Package], progress: Progress) -> None:
    """Install the missing ones of ``packages``, without starting or enabling a service.

    Raises:
        InstallError: something is missing, and may not or cannot be installed here.
    """
    lacking = missing(packages)
    if not lacking:
        return
    for package in lacking:
        progress(f"missing: {package.name} ({package.purpose})")
    obstacle = _obstacle()
    if obstacle:
        raise InstallError(advice(lacking, obstacle))
    _install(list(dict.fromkeys(package.name for package in lacking)), progress)
    still = missing(packages)
    if still:
        raise InstallError(
            advice(still, "apt-get installed the packages, but what they should bring is not there")
        )


def ensure_broker(release: str, progress: Progress) -> None:
    """Install the RabbitMQ of a Debian release: by apt if that is this machine's own, else in a folder.

    Raises:
        InstallError: it is missing, and cannot be installed here.
    """
    if release == machine_release():
        ensure_installed((_RABBITMQ,), progress)
        return
    try:
        find_installation(release)
    except BrokerNotInstalledError:
        if not _obstacle():
            ensure_installed((_DEBOOTSTRAP,), progress)
        try:
            ensure_made(release, progress)
        except DebianRootError as error:
            raise InstallError(str(error)) from error


def ensure_demonstration(packages: Sequence[Package], release: str, progress: Progress) -> None:
    """Install the missing ones of ``packages``, with the RabbitMQ of a Debian release if one is named.

    Raises:
        InstallError: something is missing, and cannot be installed here.
    """
    if release:
        ensure_broker(release, progress)
    ensure_installed([package for package in packages if not release or package is not _RABBITMQ], progress)


def advice(lacking: Sequence[Package], obstacle: str) -> str:
    """Return the text for people when ``lacking`` cannot be installed because of ``obstacle``."""
    lines = [f"missing: {package.name} ({package.purpose})" for package in lacking]
    for_more = [
        option
        for option, packages, less in (
            ("--compiler", COMPILER_PACKAGES, TEST_PACKAGES),
            ("--tests", TEST_PACKAGES, PICTURE_PACKAGES),
            ("--pictures", PICTURE_PACKAGES, DEMO_PACKAGES),
        )
        if any(package in packages and package not in less for package in lacking)
    ]
    again = shlex.join([sys.executable, "-m", "gateway.demo.install", *for_more])
    names = list(dict.fromkeys(package.name for package in lacking))
    return "\n".join(
        [
            *lines,
            f"not installed, because {obstacle}.",
            f"As root, this brings it on Debian:  {shlex.join(_apt('install', *names))}",
            f"and this does without starting the services that come with it:  {again}",
        ]
    )


def _obstacle() -> str:
    """Return the reason why nothing can be installed here, or an empty text."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get here"
    if os.geteuid() != 0:
        return "that takes root"
    return ""


def _apt(action: str, *packages: str) -> list[str]:
    if action == "update":
        return ["apt-get", "update"]
    return ["apt-get", action, "--yes", "--no-install-recommends", *packages]


def _install(names: Sequence[str], progress: Progress) -> None:
    active, mark = active_units(), marked()
    with service_starts_prevented(progress):
        for command in (_apt("update"), _apt("install", *names)):
            progress(" ".join(command))
            with patiently(progress, command[1]):
                attempt(partial(_run, command, mark), InstallError, progress)
    unwanted = [
        *(f"{name} (process {process}): kill {process}" for process, name in started(mark)),
        *(f"{unit}: systemctl stop {unit}" for unit in sorted(active_units() - active)),
    ]
    if unwanted:
        stop = "; ".join(unwanted)
        raise InstallError(
            f"installing has started services, although that was held off; stop them first: {stop}"
        )
    progress(f"installed {', '.join(names)}; no service was started or enabled")


def _run(command: list[str], mark: Mapping[str, str]) -> None:
    environment = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "NEEDRESTART_SUSPEND": "1",  # needrestart would restart services of others
        "LC_ALL": "C.UTF-8",
        **mark,
    }
    lock = ["-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3"]
    try:
        done = subprocess.run(  # noqa: S603  no shell; names from above
            [command[0], *lock, *command[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_APT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"{shlex.join(command)}: did not end within {_APT_SECONDS} s") from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-_TAIL_LINES:])
        raise InstallError(f"{shlex.join(command)} failed with status {done.returncode}:\n{tail}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the missing packages, or name them; the exit status is 0 or `EXIT_NOT_INSTALLED`."""
    parser = argparse.ArgumentParser(
        prog="python -m gateway.demo.install",
        description="Install the Debian packages that the demonstration needs, without starting a service.",
    )
    parser.add_argument("--tests", action="store_true", help="also those that only the tests need")
    parser.add_argument("--pictures", action="store_true", help="also those that only the pictures need")
    parser.add_argument("--run", action="store_true", help="only those that an installed gateway needs")
    parser.add_argument("--compiler", action="store_true", help="only those that make venv needs")
    parser.add_argument("--build", action="store_true", help="only those that building it needs")
    parser.add_argument(
        "--broker",
        action="append",
        default=[],
        metavar="RELEASE",
        help="only the RabbitMQ of this Debian release: trixie, sid",
    )
    options = parser.parse_args(arguments)
    wanted = {
        RUN_PACKAGES: options.run,
        BUILD_PACKAGES: options.build,
        COMPILER_PACKAGES: options.compiler,
        TEST_PACKAGES: options.tests,
        PICTURE_PACKAGES: options.pictures,
    }
    packages = [package for group, is_wanted in wanted.items() if is_wanted for package in group]
    try:
        if packages or not options.broker:
            ensure_installed(packages or DEMO_PACKAGES, _say)
        for release in options.broker:
            ensure_broker(release, _say)
    except InstallError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_NOT_INSTALLED
    if options.tests:
        _ensure_test_servers()
    return 0


def _ensure_test_servers() -> None:
    """Install each RabbitMQ that tests run on, and Zabbix; report those that cannot be: their tests fail."""
    proving = os.environ.get("PROVE") == "1"
    for series, release in RELEASES.items():
        if proving or series != NEWEST:
            try:
                ensure_broker(release, _say)
            except InstallError as error:
                sys.stderr.write(f"{error}\n")
    try:
        ensure_server_made(ZABBIX, _say)
    except DebianRootError as error:
        sys.stderr.write(f"{error}\n")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
