"""The mappings of a gateway: those that travel with it, and its operator's own.

They are apart from the sources, because the SNMP process needs them, and nothing that connects to a broker.
"""

from __future__ import annotations

from gateway.config.files import LoadedConfiguration
from gateway.mapping.files import MappingError, load_mapping, load_shipped_mappings, with_additions
from gateway.mapping.rules import Mapping as MappingFile


def load_mappings(loaded: LoadedConfiguration) -> dict[str, MappingFile]:
    """Return the shipped mappings and those that the configuration names, by package.

    Raises:
        DocumentError: a file cannot be read, or is not a mapping.
        FileNotFoundError: the shipped mappings are missing, so the installation is damaged.
        MappingError: two mappings are of the same package, or a mapping contradicts the shipped one to which
            it adds.
    """
    shipped = load_shipped_mappings()
    own: dict[str, MappingFile] = {}
    for file in loaded.settings.mappings:
        path = loaded.folder / file
        mapping = load_mapping(path)
        package = mapping.package
        known = shipped.get(package)
        if package in own or (known is not None and not known.takes_additions):
            whose = "stands before it" if package in own else "is shipped with the gateway"
            raise MappingError(
                f"{path}: a mapping of the package {package!r} {whose}: there can be one of each"
            )
        try:
            own[package] = mapping if known is None else with_additions(known, mapping)
        except MappingError as error:
            raise MappingError(f"{path}: {error}") from error
    return {**shipped, **own}
