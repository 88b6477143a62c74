"""Files around schema locks: the shipped locks and modules, and what a site keeps of its own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

from gateway.durable_files import PUBLIC, write_durably
from gateway.mapping.files import class_schemas, event_schemas
from gateway.mapping.rules import Mapping as MappingFile
from gateway.shipped_files import shipped_folder
from gateway.snmp.event_growth import argument_units, extend_events
from gateway.snmp.lock import Lock, lock_text, read_lock
from gateway.snmp.lock_growth import extend, new_lock, snmp_units
from gateway.snmp.mib.module import module_text
from gateway.snmp.names import lower_camel, words
from gateway.snmp.schema_locks import SeenSchemas

MIB_SUFFIX = ".mib"
LOCK_SUFFIX = ".lock.yaml"

RESERVED_ARCS: Mapping[str, int] = {
    "rabbitmq": 1,
    "org.apache.qpid.broker": 2,
    "openamq.org.server": 3,
    "org.apache.qpid.acl": 4,
    "ami-relay": 5,
}
"""Arcs below agPackages that are spoken for, whether their locks exist yet or not."""

_MAX_MODULE_LABEL = 40
_MAX_PREFIX = 16


def load_shipped_locks() -> tuple[Lock, ...]:
    """The locks that travel with the gateway, by package.

    Raises:
        DocumentError: one of them is damaged.
        FileNotFoundError: the installation lacks them.
    """
    folder = shipped_folder("mappings") / "locks"
    return tuple(read_lock(path) for path in sorted(folder.glob(f"*{LOCK_SUFFIX}")))


def generated(mapping: MappingFile, lock: Lock, today: dt.date, *, grow: bool) -> tuple[Lock, str]:
    """What `mib gen` makes of a mapping that defines its schemas: the lock, and the text of its module.

    Args:
        mapping: of the lock's package.
        lock: as it stands; comes back as it is if nothing is new or ``grow`` is false.
        today: the revision, if anything is new.
        grow: whether what the lock lacks may be added to it; it is left out of the text if not.

    Raises:
        MappingError: the mapping leaves a type open, so that it defines nothing.
        LockFullError: it needs more numbers than a lock gives out.
        ValueError: it is of another package, or names a unit that does not suit its element.
    """
    schemas = tuple(class_schemas(mapping).values())
    events = tuple(event_schemas(mapping).values())
    if grow:
        lock = extend(lock, schemas, today, units=snmp_units(mapping))
        lock = extend_events(lock, events, today, units=argument_units(mapping))
    return lock, module_text(lock, schemas, events, mapping.description)


def generate_files(
    mapping: MappingFile, locks: Path, mibs: Path, today: dt.date, *, grow: bool, dry_run: bool = False
) -> list[Path]:
    """`mib gen`: bring the lock file and the MIB file of a package up to date.

    Args:
        mapping: of the package.
        locks: folder of ``<package>.lock.yaml``.
        mibs: folder of ``<module>.mib``.
        today: the revision, if anything is new.
        grow: whether the lock may be extended, or made where there is none.
        dry_run: write nothing.

    Returns:
        The files that were (or would be) changed; none when everything is up to date.

    Raises:
        DocumentError: a lock file is damaged, or not there and ``grow`` is false.
        OSError: a file cannot be written.
        MappingError, LockFullError, ValueError: as `generated`.
    """
    lock_path = locks / f"{mapping.package}{LOCK_SUFFIX}"
    if grow and not lock_path.exists():
        arc = _next_arc(mapping.package, locks)
        lock = new_lock(mapping.package, arc, mapping.module, mapping.prefix, today)
    else:
        lock = read_lock(lock_path)
    lock, text = generated(mapping, lock, today, grow=grow)
    changed = []
    for path, content in ((lock_path, lock_text(lock)), (mibs / f"{lock.module}{MIB_SUFFIX}", text)):
        if not path.exists() or path.read_bytes() != content.encode():
            changed.append(path)
            if not dry_run:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_durably(path, content, PUBLIC)
    return changed


def _next_arc(package: str, locks: Path) -> int:
    taken = {read_lock(path).arc for path in locks.glob(f"*{LOCK_SUFFIX}")} | set(RESERVED_ARCS.values())
    return RESERVED_ARCS.get(package) or max(taken) + 1


def site_modules(state_folder: Path) -> Path:
    """The folder of the module that names what a site alone has numbered; there from its first class on."""
    return state_folder / "mibs"


class SiteSchemas:
    """The provisional lock of a site and its module, in the state folder.

    Only one process may hold a folder at a time; who starts processes sees to that.

    Args:
        folder: made if it is not there.
        label: the site's name for its module; counts when the lock is made and never again.
    """

    def __init__(self, folder: Path, label: str) -> None:
        self._folder = folder
        self._label = label
        self._lock_path = folder / f"provisional{LOCK_SUFFIX}"

    def load(self, today: dt.date) -> Lock:
        """The lock as it was left, or an empty one.

        Raises:
            DocumentError: the file is damaged; it is not replaced, because numbers in use would move.
        """
        if self._lock_path.exists():
            return read_lock(self._lock_path)
        label = "-".join(words(self._label)).upper()[:_MAX_MODULE_LABEL].strip("-")
        prefix = lower_camel(self._label)[:_MAX_PREFIX]
        return new_lock("", 0, f"AMQP-GATEWAY-{label}-MIB", prefix, today)

    def save(self, lock: Lock, schemas: SeenSchemas) -> None:
        """Keep a lock, and write the module that names what is in it, where they are others than before.

        Raises:
            OSError: the folder cannot be written.
        """
        module = site_modules(self._folder) / f"{lock.module}{MIB_SUFFIX}"
        module.parent.mkdir(parents=True, exist_ok=True)
        text = module_text(lock, schemas.classes.values(), schemas.events.values())
        for path, content in ((self._lock_path, lock_text(lock)), (module, text)):
            if not path.exists() or path.read_bytes() != content.encode():
                write_durably(path, content)
