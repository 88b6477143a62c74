"""The secret arguments of the command table, by the mappings that the running gateway has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import structlog

from gateway.config.files import LoadedConfiguration
from gateway.mapping.errors import MappingError
from gateway.model.secrets import SecretRules
from gateway.service.state.running_configuration import running_configuration
from gateway.snmp.commands.command import SecretArguments
from gateway.yaml_documents import DocumentError

if TYPE_CHECKING:  # an agent whose clients cannot write reads no mapping
    from gateway.mapping.rules import Mapping as MappingFile

log = structlog.get_logger(__name__)

_EVERY_NAME: Final = ""
"""A regular expression that is found in every name."""


def secret_arguments(mappings: Iterable[MappingFile]) -> SecretArguments:
    """Return the arguments whose values no owner is shown."""
    from gateway.mapping.files import secret_patterns  # noqa: PLC0415  see above

    mappings = tuple(mappings)
    return SecretArguments(
        SecretRules(pattern for mapping in mappings for pattern in secret_patterns(mapping)),
        (
            (f"{mapping.package}:{class_name}", method_name, name)
            for mapping in mappings
            for class_name, rule in mapping.classes.items()
            for method_name, method in rule.methods.items()
            for name, argument in method.arguments.items()
            if argument.secret
        ),
    )


class CommandSecrets:
    """The secret arguments, which change with a reload of mappings and overrides.

    Args:
        loaded: the configuration with which the process was started.
        is_known: read them at once; otherwise every argument is a secret until `follow`.

    Raises:
        DocumentError: a mapping or an override file is wrong; so is `MappingError`.
    """

    def __init__(self, loaded: LoadedConfiguration, *, is_known: bool = True) -> None:
        self._loaded = loaded
        self._is_known = is_known
        self.arguments = _of(loaded) if is_known else _ALL

    def follow(self) -> bool:
        """Read the mappings again, if the running gateway has others now; return whether it has.

        If they cannot be read, every argument is a secret.
        """
        if self._loaded.copies is None:  # started by hand, beside a gateway of which nothing is known
            return False
        try:
            running = running_configuration(self._loaded)
            if running.copies == self._loaded.copies and self._is_known:
                return False
            self.arguments, self._loaded = _of(running), running
            self._is_known = True
        except (DocumentError, MappingError) as error:
            log.warning("mappings-not-read", reason=str(error), next="arguments of commands are not shown")
            self.arguments, self._is_known = _ALL, False
        return True


_ALL: Final = SecretArguments(SecretRules([_EVERY_NAME]))


def _of(loaded: LoadedConfiguration) -> SecretArguments:
    from gateway.mapping.override_files import load_with_overrides  # noqa: PLC0415  see above

    return secret_arguments(
        load_with_overrides(loaded.mapping_files, loaded.override_files).mappings.values()
    )
