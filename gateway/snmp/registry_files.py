"""Files of OID registries: the shipped ones with their MIB modules, and a site's own.

What writes MIB modules, and reads mappings, is imported where a module is written: few SNMP agents write one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from gateway.durable_files import PUBLIC, write_durably
from gateway.snmp.oid_registry import (
    OLD_SUFFIX,
    REGISTRY_SUFFIX,
    OidRegistry,
    lower_camel,
    path_of_registry,
    read_registry,
    words,
)
from gateway.snmp.registry_growth import argument_units, extend, extend_events, new_registry, snmp_units
from gateway.snmp.registry_lookup import SeenSchemas
from gateway.yaml_documents import StrictModel

if TYPE_CHECKING:
    from gateway.mapping.rules import Mapping as MappingFile

MIB_SUFFIX = ".mib"
RESERVED_ARCS: Mapping[str, int] = {
    "rabbitmq": 1,
    "org.apache.qpid.broker": 2,
    "openamq.org.server": 3,
    "org.apache.qpid.acl": 4,
    "ami-relay": 5,
}
"""Arcs below agPackages that are reserved, whether their registries exist yet or not."""

_MAX_MODULE_LABEL = 40
_MAX_PREFIX = 16
_PROVISIONAL = "provisional"
_PLAIN_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# YAML 1.1 reads these words as booleans and null, in any case.
_NOT_PLAIN_IN_YAML = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_KEY_ORDER = (
    *("name", "arc", "column", "kind", "syntax", "descriptor"),
    *("unit", "status", "twin", "values", "arguments"),
)


def registry_text(registry: OidRegistry) -> str:
    """Return the file's content: the same octets for the same registry; one line per entry, for reviews."""
    lines = [
        "# Numbers and names that this package has in SNMP. Append-only: written by `amqp-gateway mib gen`,",
        "# reviewed like code. What stands here once is never changed, moved or used for something else.",
        f"version: {registry.version}",
        f"package: {_flow(registry.package)}",
        f"arc: {registry.arc}",
        f"module: {registry.module}",
        f"prefix: {registry.prefix}",
        f"revisions: {_flow([*registry.revisions])}",
        "classes:" if registry.classes else "classes: []",
    ]
    for class_entry in registry.classes:
        lines += [
            f"- name: {_flow(class_entry.name)}",
            f"  arc: {class_entry.arc}",
            f"  descriptor: {class_entry.descriptor}",
            "  elements:" if class_entry.elements else "  elements: []",
        ]
        lines += [f"  - {_flow(_ordered(element))}" for element in class_entry.elements]
    if registry.arguments:
        lines += ["arguments:", *(f"- {_flow(_ordered(argument))}" for argument in registry.arguments)]
    if registry.events:
        lines += ["events:", *(f"- {_flow(_ordered(event_entry))}" for event_entry in registry.events)]
    return "\n".join(lines) + "\n"


def _ordered(entry: StrictModel) -> dict[str, object]:
    """Return the values that are not defaults, in the order in which people read them."""
    given = entry.model_dump(mode="json", exclude_defaults=True)
    return {key: given[key] for key in _KEY_ORDER if key in given}


def _flow(value: object) -> str:
    """Return ``value`` as YAML on one line; only ASCII, so that no editor's encoding can change it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    if isinstance(value, int) or (
        isinstance(value, str) and _PLAIN_WORD.fullmatch(value) and value.lower() not in _NOT_PLAIN_IN_YAML
    ):
        return str(value)  # nearly everything, and a hundred times faster
    # Text with line breaks would be folded over lines in any style but the double-quoted one.
    style = None if not isinstance(value, str) or value.isprintable() else '"'
    line: str = yaml.safe_dump([value], default_flow_style=True, default_style=style, width=2**31)
    return line.strip()[1:-1]


def generated(
    mapping: MappingFile, registry: OidRegistry, today: dt.date, *, grow: bool
) -> tuple[OidRegistry, str]:
    """Return the registry and the module text that `mib gen` makes of a mapping that defines its schemas.

    Args:
        mapping: the mapping of the registry's package.
        registry: the present registry; returned unchanged if nothing is new or ``grow`` is false.
        today: the revision, if anything is new.
        grow: whether missing entries may be added to the registry; if not, the text omits them.

    Raises:
        MappingError: the mapping leaves a type open, so that it defines nothing.
        RegistryFullError: it needs more numbers than a registry assigns.
        ValueError: it is of another package, or names a unit that does not suit its element.
    """
    from gateway.mapping.files import class_schemas, event_schemas  # noqa: PLC0415  see above
    from gateway.snmp.mib.module import module_text  # noqa: PLC0415

    schemas = tuple(class_schemas(mapping).values())
    events = tuple(event_schemas(mapping).values())
    if grow:
        registry = extend(registry, schemas, today, units=snmp_units(mapping))
        registry = extend_events(registry, events, today, units=argument_units(mapping))
    return registry, module_text(registry, schemas, events, mapping.description)


def generate_files(
    mapping: MappingFile, registries: Path, mibs: Path, today: dt.date, *, grow: bool, dry_run: bool = False
) -> list[Path]:
    """Update the registry file and the MIB file of a package, as `mib gen` does.

    Args:
        mapping: the mapping of the package.
        registries: the folder of ``<package>.oids.yaml``.
        mibs: the folder of ``<module>.mib``.
        today: the revision, if anything is new.
        grow: whether the registry may be extended, or made where there is none.
        dry_run: write nothing.

    Returns:
        The files that were (or would be) changed; none when everything is up to date.

    Raises:
        DocumentError: a registry file is damaged, or not there and ``grow`` is false.
        OSError: a file cannot be written.
        MappingError, RegistryFullError, ValueError: as `generated`.
    """
    former = path_of_registry(registries, mapping.package)
    if grow and not former.exists():
        arc = _next_arc(mapping.package, registries)
        registry = new_registry(mapping.package, arc, mapping.module, mapping.prefix, today)
    else:
        registry = read_registry(former)
    registry, text = generated(mapping, registry, today, grow=grow)
    changed = []
    path = registries / f"{mapping.package}{REGISTRY_SUFFIX}"
    # The registry first: after a kill between the two the next run makes the same module of it, whereas a
    # module alone would have numbers that no registry keeps.
    for file, content in ((path, registry_text(registry)), (mibs / f"{registry.module}{MIB_SUFFIX}", text)):
        if not file.exists() or file.read_bytes() != content.encode():
            changed.append(file)
            if not dry_run:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_durably(file, content, PUBLIC)
    # The old file goes last, when the new one is on the disk.
    if former != path and not dry_run:
        former.unlink()
    return changed


def update_capabilities(mibs: Path, registries: Path, *, dry_run: bool = False) -> list[Path]:
    """Update AMQP-GATEWAY-CAPABILITIES-MIB from the modules in a folder, as `mib gen` does.

    Args:
        mibs: the folder of ``<module>.mib``; without AMQP-GATEWAY-MIB nothing is done.
        registries: the folder of the registries, which have the arcs of the modules.
        dry_run: write nothing.

    Returns:
        The file, if it was (or would be) changed.

    Raises:
        DocumentError: a registry file is damaged.
        OSError: a file cannot be read or written.
    """
    from gateway.snmp.mib import capabilities  # noqa: PLC0415  see above

    own = mibs / f"AMQP-GATEWAY-MIB{MIB_SUFFIX}"
    if not own.exists():
        return []
    packages = {}
    for path in sorted(registries.glob(f"*{REGISTRY_SUFFIX}")):
        registry = read_registry(path)
        if (module := mibs / f"{registry.module}{MIB_SUFFIX}").exists():
            packages[registry.arc] = module.read_text("ascii")
    text = capabilities.capabilities_text(own.read_text("ascii"), packages)
    file = mibs / f"{capabilities.MODULE_NAME}{MIB_SUFFIX}"
    if file.exists() and file.read_bytes() == text.encode():
        return []
    if not dry_run:
        write_durably(file, text, PUBLIC)
    return [file]


def _next_arc(package: str, registries: Path) -> int:
    files = (path for suffix in (REGISTRY_SUFFIX, OLD_SUFFIX) for path in registries.glob(f"*{suffix}"))
    taken = {read_registry(path).arc for path in files} | set(RESERVED_ARCS.values())
    return RESERVED_ARCS.get(package) or max(taken) + 1


def site_modules(state_folder: Path) -> Path:
    """Return the folder of the site's own module, which exists from the site's first own class on."""
    return state_folder / "mibs"


class SiteRegistry:
    """The provisional registry of a site and its module, in the state folder.

    Only one process may use a folder at a time; the starter of the processes ensures that.

    Args:
        folder: the folder; made if it does not exist.
        label: the site's name for its module; used only when the registry is made.
    """

    def __init__(self, folder: Path, label: str) -> None:
        self._folder = folder
        self._label = label
        self._path = folder / f"{_PROVISIONAL}{REGISTRY_SUFFIX}"

    @property
    def old_path(self) -> Path | None:
        """The file under its old name, which the next `save` replaces; ``None`` where there is none."""
        path = path_of_registry(self._folder, _PROVISIONAL)
        return None if path == self._path else path

    def load(self, today: dt.date) -> OidRegistry:
        """Return the saved registry, or an empty one.

        Raises:
            DocumentError: the file is damaged; it is not replaced, because numbers in use would move.
        """
        path = path_of_registry(self._folder, _PROVISIONAL)
        if path.exists():
            return read_registry(path)
        label = "-".join(words(self._label)).upper()[:_MAX_MODULE_LABEL].strip("-")
        prefix = lower_camel(self._label)[:_MAX_PREFIX]
        return new_registry("", 0, f"AMQP-GATEWAY-{label}-MIB", prefix, today)

    def save(self, registry: OidRegistry, schemas: SeenSchemas) -> None:
        """Write a registry and its module, where they differ from the files.

        Raises:
            OSError: the folder cannot be written.
        """
        from gateway.snmp.mib.module import module_text  # noqa: PLC0415  see above

        module = site_modules(self._folder) / f"{registry.module}{MIB_SUFFIX}"
        module.parent.mkdir(parents=True, exist_ok=True)
        text = module_text(registry, schemas.classes.values(), schemas.events.values())
        for path, content in ((self._path, registry_text(registry)), (module, text)):
            if not path.exists() or path.read_bytes() != content.encode():
                write_durably(path, content)
        (self._folder / f"{_PROVISIONAL}{OLD_SUFFIX}").unlink(missing_ok=True)
