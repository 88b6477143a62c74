"""The mappings of a gateway: those that travel with it, and its operator's own."""

from __future__ import annotations

from gateway.config.files import LoadedConfiguration
from gateway.mapping.files import MappingError, load_mapping, load_shipped_mappings, with_additions
from gateway.mapping.rules import Mapping


def load_mappings(loaded: LoadedConfiguration) -> dict[str, Mapping]:
    """All of them, by package.

    Raises:
        DocumentError: one of them cannot be read, or is none.
        FileNotFoundError: the shipped ones are missing, so the installation is damaged.
        MappingError: two of them are of the same package; or the shipped one takes additions, and the
            operator's own contradicts it.
    """
    shipped = load_shipped_mappings()
    own: dict[str, Mapping] = {}
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
