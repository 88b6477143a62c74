"""Names in the gateway's own MIB module, which is written by hand and not in any lock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.snmp.ber import Oid

MODULE_NAME: Final = "AMQP-GATEWAY-MIB"

_ROOT: Final = "agRoot"
_ASSIGNMENT: Final = re.compile(
    r"^(?P<name>[a-z][A-Za-z0-9-]*)\s+[A-Z][A-Z -]*\b(?P<body>[^:]*(?::(?!:=)[^:]*)*)"
    r"::=\s*\{\s*(?P<parent>[a-z][A-Za-z0-9-]*)\s+(?P<arc>\d+)\s*\}",
    re.MULTILINE,
)
_DESCRIPTION: Final = re.compile(r'\bDESCRIPTION\s+"([^"]*)"')


@dataclass(frozen=True, slots=True)
class FixedName:
    """A descriptor of the module and what its DESCRIPTION says, on one line."""

    descriptor: str
    description: str


@dataclass(frozen=True, slots=True)
class FixedNames:
    """The descriptors of the module, by object identifiers below the gateway's root, and the other way."""

    by_oid: Mapping[Oid, FixedName] = field(default_factory=dict)
    by_descriptor: Mapping[str, Oid] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> FixedNames:
        """As the module's file in ``folder`` has them.

        Raises:
            OSError: it cannot be read.
        """
        text = (folder / f"{MODULE_NAME}.mib").read_text(encoding="ascii")
        oids: dict[str, Oid] = {_ROOT: ()}
        names: dict[Oid, FixedName] = {}
        for match in _ASSIGNMENT.finditer(text):
            parent = oids.get(match["parent"])
            if parent is None:
                continue  # above the root
            oid = oids[match["name"]] = (*parent, int(match["arc"]))
            described = _DESCRIPTION.search(match["body"])
            names[oid] = FixedName(match["name"], " ".join(described[1].split()) if described else "")
        return cls(names, oids)

    def find(self, relative: Oid) -> tuple[FixedName, Oid] | None:
        """What stands at an object identifier, or above it, and the rest of the identifier."""
        for length in range(len(relative), 0, -1):
            name = self.by_oid.get(relative[:length])
            if name is not None:
                return name, relative[length:]
        return None
