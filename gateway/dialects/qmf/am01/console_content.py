"""What a console makes of the content records of agents before AM2."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.am01.schemas import write_schema
from gateway.dialects.qmf.console_content import ContentTranslator
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition, schema_hash
from gateway.dialects.qmf.schema_records import write_event
from gateway.model.schema import ClassKey
from gateway.model.secrets import SecretRules


class Am01Translator(ContentTranslator):
    """As `ContentTranslator`, for classes that may have neither package nor hash.

    Args:
        rules: see `ContentTranslator`.
        package: of classes that are told without one.
    """

    def __init__(self, rules: SecretRules, package: str) -> None:
        super().__init__(rules)
        self._package = package

    def named(self, key: ClassKey) -> ClassKey:
        """Return a key with the package that it has for the model."""
        return key if key.package else replace(key, package=self._package)

    def model_key(self, definition: ClassDefinition | EventDefinition) -> ClassKey:
        """Return what the model calls a class or event; where no hash is told, one over its schema."""
        key = self.named(definition.key)
        if key.hash.strip(b"\0"):
            return key
        if isinstance(definition, ClassDefinition):
            octets = write_schema(definition)
        else:
            octets = write_event(definition)
        return replace(key, hash=schema_hash(key, octets))
