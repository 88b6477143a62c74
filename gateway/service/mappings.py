"""The mappings of a gateway: those that travel with it, and its operator's own."""

from __future__ import annotations

from gateway.config.files import LoadedConfiguration
from gateway.mapping.files import MappingError, load_mapping, load_shipped_mappings
from gateway.mapping.rules import Mapping


def load_mappings(loaded: LoadedConfiguration) -> dict[str, Mapping]:
    """All of them, by package.

    Raises:
        DocumentError: one of them cannot be read, or is none.
        FileNotFoundError: the shipped ones are missing, so the installation is damaged.
        MappingError: two of them are of the same package.
    """
    mappings = load_shipped_mappings()
    shipped = frozenset(mappings)
    for file in loaded.settings.mappings:
        path = loaded.folder / file
        mapping = load_mapping(path)
        if mapping.package in mappings:
            whose = "is shipped with the gateway" if mapping.package in shipped else "stands before it"
            raise MappingError(
                f"{path}: a mapping of the package {mapping.package!r} {whose}: there can be one of each"
            )
        mappings[mapping.package] = mapping
    return mappings
