"""Compiles the roles to the tables of the feed, by which front ends decide reads (`gateway.feed.access`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

from gateway.feed.access import (
    ClassAccessRecord,
    Clearance,
    EventAccessRecord,
    NameGrant,
    Patterns,
    PolicyRecord,
    ReadGrant,
    bitmap_of,
    fits,
)
from gateway.feed.records import ClassRecord, EventClassRecord
from gateway.policy.marks import Marks, name_elements
from gateway.policy.rules import EVERY, PolicyError, RoleSet, Rule, is_named

FRONT_ENDS: Final = ("snmp", "notify", "jmx", "cli", "metrics", "qmf")
"""The front ends that have principals; ``notify`` stands for the receivers of SNMP notifications."""

MAX_CLEARANCES: Final = 256
"""The maximum number of different sets of rules that principals have."""

_DIGEST_OCTETS: Final = 16

_ANY: Final = "?"
"""Stands for a principal that the configuration does not name."""


class PolicyTables:
    """The tables of one policy.

    Args:
        roles: the roles, checked.
        marks: what mappings call private.

    Attributes:
        record: the clearances.

    Raises:
        PolicyError: principals have too many different sets of rules.
    """

    def __init__(self, roles: RoleSet, marks: Marks) -> None:
        self._marks = marks
        self._rules: dict[tuple[Rule, ...], int] = {}
        clearances: list[Clearance] = []
        numbers: dict[str, int] = {}
        for principal in _principals(roles):
            rules = roles.rules_of(principal)
            number = self._rules.setdefault(rules, len(self._rules))
            if number == len(clearances):
                clearances.append(_clearance(roles.roles_of(principal), rules))
            numbers[principal] = number
        if len(clearances) > MAX_CLEARANCES:
            raise PolicyError(
                f"principals have {len(clearances)} different sets of roles, more than {MAX_CLEARANCES}: "
                "let more of them share the same roles"
            )
        others = {front_end: numbers.pop(f"{front_end}:{_ANY}") for front_end in FRONT_ENDS}
        self.record = PolicyRecord(numbers, others, tuple(clearances))

    def class_access(self, record: ClassRecord) -> ClassAccessRecord:
        """Return what each clearance reads of a version of a class."""
        schema, key = record.schema, record.schema.key
        names = [element.name for element in schema.elements]
        private = frozenset(name for name in names if self._marks.is_private_element(key, name))
        return ClassAccessRecord(
            record.number,
            str(key),
            bitmap_of(schema.positions[name] for name in name_elements(record)),
            tuple(tuple(_reads(rules, str(key), names, private)) for rules in self._rules),
            tuple(tuple(self._writes(rules, record)) for rules in self._rules),
            tuple(tuple(self._invokes(rules, record)) for rules in self._rules),
        )

    def _writes(self, rules: tuple[Rule, ...], record: ClassRecord) -> Iterator[ReadGrant]:
        key, elements = record.schema.key, record.schema.elements
        for rule in rules:
            if rule.write and fits(str(key), rule.classes):
                allowed = (
                    position
                    for position, element in enumerate(elements)
                    if fits(element.name, rule.write)
                    and _counts(
                        rule,
                        element.name,
                        rule.write,
                        dangerous=self._marks.is_dangerous_element(key, element.name),
                    )
                )
                yield from _granted(rule, allowed)

    def _invokes(self, rules: tuple[Rule, ...], record: ClassRecord) -> Iterator[ReadGrant]:
        key, methods = record.schema.key, record.schema.methods
        for rule in rules:
            if fits(str(key), rule.classes):
                allowed = [
                    position
                    for position, method in enumerate(methods)
                    if fits(method.name, rule.invoke)
                    and _counts(
                        rule,
                        method.name,
                        rule.invoke,
                        dangerous=self._marks.is_dangerous_method(key, method.name),
                    )
                ]
                yield from _granted(rule, [*allowed, *([len(methods)] if rule.refresh else ())])

    def event_access(self, record: EventClassRecord) -> EventAccessRecord:
        """Return what each clearance receives of a version of an event."""
        key = record.schema.key
        is_private = self._marks.is_private_event(key)
        private = [
            position
            for position, argument in enumerate(record.schema.arguments)
            if self._marks.is_private_argument(key, argument.name)
        ]
        receiving = [[rule for rule in rules if fits(str(key), rule.subscribe)] for rules in self._rules]
        return EventAccessRecord(
            record.number,
            key.package,
            bitmap_of(private),
            tuple(_named(rule for rule in rules if _grants(rule, private=is_private)) for rules in receiving),
            tuple(_named(rule for rule in rules if _grants(rule, private=True)) for rules in receiving),
        )


def _principals(roles: RoleSet) -> Iterator[str]:
    """Yield every principal that may have rules of its own, and one more of each front end."""
    named = {*roles.principals, *roles.grants}
    yield from sorted(name for name in named if not name.endswith("*"))
    for front_end in FRONT_ENDS:
        yield f"{front_end}:{_ANY}"


def _clearance(roles: tuple[str, ...], rules: tuple[Rule, ...]) -> Clearance:
    return Clearance(
        roles,
        _is_unrestricted(rules),
        tuple(_source_grants(rules)),
        tuple(
            NameGrant(rule.sources, rule.classes, rule.objects, rule.subscribe, rule.denies)
            for rule in rules
            if rule.subscribe
        ),
        _named(rule for rule in rules if rule.audit),
        any(rule.write or rule.invoke or rule.refresh for rule in rules if not rule.denies),
        hashlib.blake2b(repr(rules).encode(), digest_size=_DIGEST_OCTETS).digest(),
    )


def _is_unrestricted(rules: Iterable[Rule]) -> bool:
    """Return whether rules grant all reading, as far as that shows without looking at any object."""
    granting = [rule for rule in rules if _is_of_all(rule)]
    reading = any(rule.private and "*" in rule.read and rule.audit for rule in granting)
    receiving = any(rule.private and {"*", "*:*"} & set(rule.subscribe) for rule in granting)
    return reading and receiving and not any(_denies_reading(rule) for rule in rules)


def _is_of_all(rule: Rule) -> bool:
    patterns = (rule.sources, rule.objects, rule.classes)
    every = ({"*"}, {"*"}, {"*", "*:*"})
    return not rule.denies and all(allowed & set(own) for allowed, own in zip(every, patterns, strict=True))


def _denies_reading(rule: Rule) -> bool:
    return rule.denies and bool(rule.read or rule.subscribe or rule.audit)


def _source_grants(rules: Iterable[Rule]) -> Iterator[NameGrant]:
    for rule in rules:
        of_all = "*" in rule.objects and bool({"*", "*:*"} & set(rule.classes)) and "*" in rule.read
        if (rule.denies and of_all) or (not rule.denies and rule.read):
            yield NameGrant(rule.sources, denies=rule.denies)


def _reads(
    rules: tuple[Rule, ...], class_name: str, names: list[str], private: frozenset[str]
) -> Iterator[ReadGrant]:
    for rule in rules:
        if not rule.read or not fits(class_name, rule.classes):
            continue
        positions = [
            position
            for position, name in enumerate(names)
            if fits(name, rule.read) and (rule.denies or rule.private or name not in private)
        ]
        if positions:
            yield ReadGrant(rule.sources, rule.objects, bitmap_of(positions), rule.denies)


def _counts(rule: Rule, name: str, patterns: Patterns, *, dangerous: bool) -> bool:
    """Return whether a rule counts for what its patterns match: what is dangerous it has to name."""
    return rule.denies or not dangerous or is_named(name, patterns)


def _granted(rule: Rule, positions: Iterable[int]) -> Iterator[ReadGrant]:
    bitmap = bitmap_of(positions)
    if bitmap:
        yield ReadGrant(rule.sources, rule.objects, bitmap, rule.denies)


def _grants(rule: Rule, *, private: bool) -> bool:
    """Return whether a rule about an event counts for what is private, or is not."""
    return rule.denies or rule.private or not private


def _named(rules: Iterable[Rule]) -> tuple[NameGrant, ...]:
    return tuple(NameGrant(rule.sources, rule.classes, rule.objects, EVERY, rule.denies) for rule in rules)
