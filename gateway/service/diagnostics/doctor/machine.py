"""Findings about the machine that the gateway runs on: state folder, disk, Java, ports, MIBs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gateway import file_systems
from gateway.config.files import LoadedConfiguration
from gateway.config.protection import ProtectedSettings
from gateway.eventlog.disk import EventLogError
from gateway.eventlog.ownership import LogOwner, check_owner
from gateway.file_owners import is_writable_by_group
from gateway.inventory.instance_file import InstanceIndexError
from gateway.jmx.java_runtime import JavaMissingError, find_java, java_environment
from gateway.links.tls import KEY_LOG
from gateway.protection.key_files import KeyFolder
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.processes.exit_codes import CommandError
from gateway.service.processes.kept_sockets import check_sockets
from gateway.service.state.report import StateReport, report
from gateway.snmp.ber import dotted, parse_oid
from gateway.snmp.fixed_mib import MODULE
from gateway.snmp.oid_registry import DEFAULT_ROOT
from gateway.state_folder import LOG_PLACE, StateError, StateFolder
from gateway.yaml_documents import parts_of

OLDEST_JAVA: Final = 11
_PROGRAM_SECONDS: Final = 20.0
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ANY: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  what listens on all addresses
_LOOPBACK: Final = ("127.", "::1")
_LEAST_INODES: Final = 1000


def state_findings(loaded: LoadedConfiguration) -> tuple[list[Finding], StateReport | None]:
    """Return findings about the state folder, and the report on its content if it can be read."""
    try:
        state = report(StateFolder(loaded.state_folder), loaded.log_folder.absolute())
    except (StateError, InstanceIndexError) as error:
        return [Finding("state", Level.PROBLEM, str(error))], None
    except OSError as error:
        text = f"{error.filename or loaded.state_folder}: {error.strerror}"
        advice = "run doctor as the user of the gateway"
        return [Finding("state", Level.PROBLEM, text, advice)], None
    findings = [
        Finding("state", Level.GOOD, f"{state.folder}: gateway {state.identity}, started {state.boots} times")
    ]
    if not os.access(state.folder, os.W_OK):
        text = f"{state.folder}: cannot be written: the gateway counts its starts and numbers rows there"
        advice = "run doctor as the user of the gateway; else look whose it is, and how its disk is mounted"
        findings.append(Finding("state", Level.PROBLEM, text, advice))
    mode = stat.S_IMODE(loaded.state_folder.stat().st_mode)
    if mode & 0o077:
        findings.append(
            Finding(
                "state",
                Level.WARNING,
                f"{state.folder}: others can look into it (mode {mode:04o})",
                f"chmod 700 {state.folder}",
            )
        )
    findings += _limits(loaded.state_folder)
    if loaded.settings.log.enabled:
        # Of a gateway that runs, this is what its next start will find.
        try:
            start = StateFolder(loaded.state_folder).highest_start + 1
            check_owner(loaded.log_folder, LogOwner(state.identity, start, loaded.state_folder / LOG_PLACE))
        except (StateError, EventLogError) as error:
            findings.append(Finding("state", Level.PROBLEM, str(error)))
    return findings, state


def _limits(folder: Path) -> Iterator[Finding]:
    """Yield a finding about what the file system of a folder cannot do, without writing there."""
    missing = file_systems.lacking(folder, writes=False)
    if missing:
        level = Level.PROBLEM if file_systems.NEEDED & {*missing} else Level.WARNING
        advice = "name a folder on another file system (state.folder)"
        yield Finding("state", level, f"{folder}: {file_systems.in_words(folder, missing)}", advice)


def file_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield findings about files that others than their owner can change, and secrets that they can read."""
    secrets = {path: key for key, path in (*loaded.secret_files.items(), *loaded.private_keys.items())}
    if key_log := os.environ.get(KEY_LOG):
        secrets[Path(key_log)] = KEY_LOG
    for path in dict.fromkeys(
        (*loaded.trusted_files, *loaded.authorities.values(), *secrets, *_folders(loaded))
    ):
        subject = secrets.get(path, "")
        if is_writable_by_group(path):
            text = f"{path}: can be written by its group"
            yield Finding("files", Level.WARNING, text, shlex.join(["chmod", "g-w", str(path)]), subject)
    for path, key in secrets.items():
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue  # who needs it reports that
        if mode & stat.S_IROTH:
            text = f"{path}: a secret that every user of the machine can read (mode {mode:04o})"
            yield Finding("files", Level.WARNING, text, shlex.join(["chmod", "600", str(path)]), key)
    if (distrusted := loaded.distrusted_file()) is not None:
        key, text = distrusted
        yield Finding("files", Level.PROBLEM, text, subject=key)
    for key, text in loaded.secret_remarks():
        yield Finding("files", Level.WARNING, text, subject=key)


def _folders(loaded: LoadedConfiguration) -> Iterator[Path]:
    """Yield the folders in which others could replace what is trusted, and key rings."""
    for files in (loaded.secret_files, loaded.private_keys, loaded.authorities):
        yield from (path.parent for path in files.values())
    if loaded.settings.log.enabled and loaded.settings.log.folder is not None:
        yield loaded.log_folder
    for _, part in parts_of(loaded.settings, ProtectedSettings):
        place = KeyFolder(loaded.folder / part.keys)
        yield from (place.path, *map(place.public_path, (part.encrypt_for, *part.trusted)))


def disk_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield findings about the free space for the event log and the state folder."""
    log = loaded.settings.log
    folder = loaded.log_folder if log.enabled else loaded.state_folder
    try:
        if not folder.is_dir():
            folder = loaded.state_folder
        free = shutil.disk_usage(folder).free >> 20
        inodes = os.statvfs(folder)
    except OSError as error:
        yield Finding("disk", Level.NOT_CHECKED, f"{folder}: {error.strerror}")
        return
    text = f"{folder}: {free:,} MiB are free"
    if log.enabled and free < log.min_free:
        advice = f"the event log writes nothing below {log.min_free:,} MiB (log.min_free): make room"
        yield Finding("disk", Level.PROBLEM, text, advice)
    elif log.enabled and free < log.min_free + log.max_size - _size(folder):
        advice = f"the event log may grow to {log.max_size:,} MiB: make room, or lower log.max_size"
        yield Finding("disk", Level.WARNING, text, advice)
    else:
        yield Finding("disk", Level.GOOD, text)
    if inodes.f_files and inodes.f_favail < _LEAST_INODES:
        advice = "delete files that are not needed"
        yield Finding("disk", Level.WARNING, f"{folder}: {inodes.f_favail} more files fit", advice)


def _size(folder: Path) -> int:
    """Return the size of all files of the log in MiB."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue  # it has gone meanwhile
    return total >> 20


def java_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield a finding about the Java runtime, which JMX needs."""
    settings = loaded.settings.jmx
    if not settings.enabled:
        yield Finding("java", Level.NOTE, "JMX is off: no Java is needed")
        return
    try:
        java = find_java(None if settings.java is None else loaded.folder / settings.java)
    except JavaMissingError as error:
        yield Finding("java", Level.PROBLEM, str(error))
        return
    # As the gateway starts it: options of the environment, which may be wrong, do not count.
    output = _said(str(java), "-version", environment=java_environment())
    match = _JAVA_VERSION.search(output)
    if match is None:
        said = output.strip().splitlines()[:1]
        text = f"{java} does not report its version{f': {said[0]}' if said else ''}"
        yield Finding("java", Level.PROBLEM, text, "install another one")
    elif int(match[1]) < OLDEST_JAVA:
        advice = f"install version {OLDEST_JAVA} or newer, or name its folder under jmx.java"
        yield Finding("java", Level.PROBLEM, f"{java} is version {match[1]}", advice)
    else:
        yield Finding("java", Level.GOOD, f"{java}, version {match[1]}")


_LISTENERS: Final = {"snmp": "SNMP", "jmx": "JMX", "metrics": "metrics"}


def port_findings(loaded: LoadedConfiguration, *, is_running: bool) -> Iterator[Finding]:
    """Yield findings about addresses of listeners: free or taken, and whether the network reaches them."""
    for place, protocol, (host, port) in loaded.settings.listeners:
        if place[0] == "agents":
            continue  # they are processes of their own
        what = _LISTENERS.get(str(place[0])) or f"AMI source {place[1]}"
        kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
        yield _port(what, host, port, kind, is_running=is_running)
        if not host.startswith(_LOOPBACK):
            advice = "let a firewall decide who reaches it, or listen on 127.0.0.1"
            whom = "any address" if host in _ANY else host
            text = f"{what} listens on {whom}, which other machines may reach"
            yield Finding("ports", Level.NOTE, text, advice, f"{host}:{port}")


def _port(what: str, host: str, port: int, kind: socket.SocketKind, *, is_running: bool) -> Finding:
    subject = f"{host}:{port}"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        probe = socket.socket(family, kind)
    except OSError as error:  # as where the kernel has no IPv6
        advice = "choose an address of a kind that this machine's kernel has"
        return Finding("ports", Level.PROBLEM, f"{what}: {error.strerror}", advice, subject)
    with probe:
        if kind is socket.SOCK_STREAM:  # a connection that ended lately is no reason
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            advice = "choose a port from 1024 on, or run it as a service (amqp-gateway systemd)"
            return Finding("ports", Level.PROBLEM, f"{what}: not permitted", advice, subject)
        except OSError as error:
            if is_running:
                return Finding("ports", Level.GOOD, f"{what}: taken, as the gateway runs", "", subject)
            advice = "end what has it, or choose another address"
            return Finding("ports", Level.PROBLEM, f"{what}: {error.strerror}", advice, subject)
    if is_running:
        advice = "was the configuration changed since the start? then start the gateway again"
        return Finding("ports", Level.WARNING, f"{what}: free, though the gateway runs", advice, subject)
    return Finding("ports", Level.GOOD, f"{what}: free", "", subject)


def feed_findings(loaded: LoadedConfiguration, *, is_running: bool) -> Iterator[Finding]:
    """Yield a finding if the sockets between the gateway's processes cannot be made."""
    try:
        check_sockets(loaded, is_running=is_running)
    except CommandError as error:
        yield Finding("feed", Level.PROBLEM, str(error))


def mib_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield findings about the root of our MIB modules, and whether net-snmp's commands know their names."""
    settings = loaded.settings.snmp
    if not settings.enabled:
        yield Finding("mibs", Level.NOTE, "SNMP is off")
        return
    default = dotted(DEFAULT_ROOT)
    if settings.root == default:
        yield Finding(
            "oid-root",
            Level.WARNING,
            f"object identifiers are below {default}, net-snmp's arc for trying things out",
            "before others rely on them, set snmp.root to an arc of your organisation",
        )
    else:
        text = f"object identifiers are below {settings.root}; the shipped MIB files say {default}"
        advice = "for names: `amqp-gateway mib install --user`, and `mib gen --root --mibs FOLDER` for others"
        yield Finding("oid-root", Level.NOTE, text, advice)
    if shutil.which("snmptranslate") is None:
        advice = "on Debian: apt-get install snmp, to try things out here"
        yield Finding("mibs", Level.NOTE, "net-snmp's commands are not installed on this machine", advice)
        return
    wanted = f".{dotted((*parse_oid(settings.root), *MODULE))}"
    output = _said("snmptranslate", "-m", "+AMQP-GATEWAY-MIB", "-On", "AMQP-GATEWAY-MIB::agMIB")
    if wanted in output.split():
        yield Finding("mibs", Level.GOOD, "net-snmp's commands know the names of our MIB modules")
    else:
        rooted = "" if settings.root == default else "amqp-gateway mib gen --root; "
        advice = f'{rooted}export MIBDIRS="$(amqp-gateway mib path)" MIBS=ALL'
        yield Finding("mibs", Level.NOTE, "net-snmp's commands show numbers, not names", advice)


def _said(*command: str, environment: Mapping[str, str] | None = None) -> str:
    """Return everything that a program writes, to either output; an empty text if it cannot be run."""
    try:
        done = subprocess.run(  # noqa: S603  a program that was found, and words of ours
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd="/",  # Java does not start in a folder that was removed
            timeout=_PROGRAM_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
