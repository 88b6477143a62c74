"""What mappings mark as private or dangerous, and the wishes of principals with these marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gateway.feed.records import ClassRecord
from gateway.mapping.overrides import NO_OVERRIDES, Overrides
from gateway.mapping.rules import ClassRule, ElementRule
from gateway.mapping.rules import Mapping as PackageMapping
from gateway.model.schema import ClassKey, original_name
from gateway.policy.decisions import CallMethod, ReadElement, SetElement, Subscribe

_PRIVATE_EVENTS: Final = frozenset({"accessRefused", "policyChanged", "mappingsChanged"})
"""Events of the gateway itself that name principals and addresses."""

_PRIVATE_ARGUMENTS: Final = frozenset({("gatewayStopping", "reason")})
"""Arguments of events of the gateway itself that name a user and a process: who sent the signal."""

_GATEWAY: Final = "gateway"


class Marks:
    """The marks of all mappings.

    Args:
        mappings: the mappings by package.
        overrides: the overrides of them, which may call further methods dangerous.
    """

    def __init__(self, mappings: Mapping[str, PackageMapping], overrides: Overrides = NO_OVERRIDES) -> None:
        self._mappings = mappings
        self._overrides = overrides

    def is_private_element(self, key: ClassKey, element: str) -> bool:
        """Return whether an element is private, alone or with its class; so is a second one of its name."""
        rule = self._class(key)
        if rule is None:
            return False
        known = rule.element(element) or rule.element(original_name(element))
        return rule.private or (known is not None and known.private)

    def naming_elements(self, key: ClassKey) -> tuple[str, ...]:
        """Return the elements that the names of a class's objects are made of, as far as its mapping says."""
        rule = self._class(key)
        if rule is None:
            return ()
        return tuple(name for name, element in rule.properties.items() if element.index or name == rule.name)

    def parent_elements(self, record: ClassRecord) -> frozenset[str]:
        """Return the elements that may refer to an object's parent."""
        rule = self._class(record.schema.key)
        names = {record.parent_element, *(rule.fallback_parents if rule else ())}
        return frozenset(names & record.schema.positions.keys())

    def is_private_event(self, key: ClassKey) -> bool:
        """Return whether an event is private."""
        mapping = self._mappings.get(key.package)
        rule = mapping.events.get(key.name) if mapping else None
        if key.package == _GATEWAY:
            return key.name in _PRIVATE_EVENTS
        return rule is not None and rule.private

    def is_private_argument(self, key: ClassKey, argument: str) -> bool:
        """Return whether an argument of an event is private; so is a second one of its name."""
        if key.package == _GATEWAY:
            return (key.name, argument) in _PRIVATE_ARGUMENTS
        mapping = self._mappings.get(key.package)
        rule = mapping.events.get(key.name) if mapping else None
        arguments = rule.arguments if rule else {}
        known = arguments.get(argument) or arguments.get(original_name(argument))
        return known is not None and known.private

    def effect(self, key: ClassKey, element: str) -> str:
        """Return what setting a dangerous element leads to, one sentence; empty for every other element."""
        known = self._property(key, element)
        return known.dangerous if known else ""

    def effect_of_value(self, key: ClassKey, element: str, value: object) -> str:
        """Return what setting a dangerous element to ``value`` leads to; empty for a value that does not."""
        known = self._property(key, element)
        if known is None or (known.dangerous_at and value not in known.dangerous_at):
            return ""
        return known.dangerous

    def _property(self, key: ClassKey, element: str) -> ElementRule | None:
        rule = self._class(key)
        return rule.properties.get(element) if rule else None

    def is_dangerous_method(self, key: ClassKey, method: str) -> bool:
        """Return whether a method may be called by a rule that has its name only.

        A method that no mapping describes is taken for dangerous.
        """
        rule = self._class(key)
        known = self._overrides.method_rule(key, method, rule.methods.get(method) if rule else None)
        return known is None or known.dangerous

    def describes_method(self, key: ClassKey, method: str) -> bool:
        """Return whether a mapping describes a method."""
        rule = self._class(key)
        return rule is not None and method in rule.methods

    def describes_package(self, package: str) -> bool:
        """Return whether there is a mapping of a package."""
        return package in self._mappings

    def describes_event(self, key: ClassKey) -> bool:
        """Return whether a mapping describes an event, or an alarm of this name."""
        mapping = self._mappings.get(key.package)
        if mapping is None:
            return False
        return key.name in mapping.events or any(key.name in rule.alarms for rule in mapping.classes.values())

    def describes_class(self, key: ClassKey) -> bool:
        """Return whether a mapping describes a class."""
        return self._class(key) is not None

    def describes_element(self, key: ClassKey, element: str) -> bool:
        """Return whether a mapping describes an element."""
        rule = self._class(key)
        return rule is not None and rule.element(element) is not None

    def reading(self, key: ClassKey, element: str) -> ReadElement:
        """Return the wish to see the value of an element."""
        return ReadElement(element, self.is_private_element(key, element), self._original(key, element))

    def setting(self, key: ClassKey, element: str) -> SetElement:
        """Return the wish to set an element."""
        return SetElement(element, self.effect(key, element), self._original(key, element))

    def calling(self, key: ClassKey, method: str) -> CallMethod:
        """Return the wish to call a method."""
        return CallMethod(method, self.is_dangerous_method(key, method), self.describes_method(key, method))

    def subscribing(self, key: ClassKey) -> Subscribe:
        """Return the wish to receive an event."""
        return Subscribe(str(key), self.is_private_event(key))

    def _original(self, key: ClassKey, element: str) -> str:
        """Return the name that a peer may have sent of an element; empty where it has no other.

        An element that a mapping describes is called so by its peer.
        """
        original = original_name(element)
        return "" if original == element or self.describes_element(key, element) else original

    def _class(self, key: ClassKey) -> ClassRule | None:
        mapping = self._mappings.get(key.package)
        return mapping.classes.get(key.name) if mapping else None


def name_elements(record: ClassRecord) -> Iterator[str]:
    """Yield the elements that the names of objects of a class are made of.

    Without any the name is the native id, which every one may read who may read anything of the object.
    """
    for element in record.schema.elements:
        if element.index or element.name == record.name_element:
            yield element.name
