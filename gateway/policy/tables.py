"""Compiles the roles to the tables of the feed, by which front ends decide reads (`gateway.feed.access`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gateway.feed.access import (
    ClassAccessRecord,
    Clearance,
    EventAccessRecord,
    NameGrant,
    PolicyRecord,
    ReadGrant,
    bitmap_of,
    fits,
)
from gateway.feed.records import ClassRecord, EventClassRecord
from gateway.model.schema import ClassKey
from gateway.policy.decisions import ReadObject, Subscribe, Wish, counts, source_grants
from gateway.policy.marks import Marks, name_elements
from gateway.policy.rules import EVERY, FRONT_ENDS, OTHERS, RoleSet, Rule

_DIGEST_OCTETS: Final = 16


class PolicyTables:
    """The tables of one policy.

    Args:
        roles: the roles, checked.
        marks: what mappings call private.

    Attributes:
        record: the clearances.
    """

    def __init__(self, roles: RoleSet, marks: Marks) -> None:
        self._marks = marks
        self._rules: dict[tuple[Rule, ...], int] = {}
        clearances: list[Clearance] = []
        numbers: dict[str, int] = {}
        for principal, rules in roles.rules_by_principal().items():
            number = self._rules.setdefault(rules, len(self._rules))
            if number == len(clearances):
                clearances.append(_clearance(roles.roles_of(principal), rules))
            numbers[principal] = number
        others = {front_end: numbers.pop(f"{front_end}:{OTHERS}") for front_end in FRONT_ENDS}
        self.record = PolicyRecord(numbers, others, tuple(clearances))

    def class_access(self, record: ClassRecord) -> ClassAccessRecord:
        """Return what each clearance reads of a version of a class."""
        schema, key, marks = record.schema, record.schema.key, self._marks
        methods = [marks.calling(key, method.name) for method in schema.methods]
        return ClassAccessRecord(
            record.number,
            str(key),
            bitmap_of(schema.positions[name] for name in name_elements(record)),
            self._grants(key, [marks.reading(key, element.name) for element in schema.elements]),
            self._grants(key, [marks.setting(key, element.name) for element in schema.elements]),
            self._grants(key, [*methods, ReadObject()]),
            tuple(element.name for element in schema.elements),
            bitmap_of(schema.positions[name] for name in marks.parent_elements(record)),
        )

    def event_access(self, record: EventClassRecord) -> EventAccessRecord:
        """Return what each clearance receives of a version of an event."""
        key = record.schema.key
        private = [
            position
            for position, argument in enumerate(record.schema.arguments)
            if self._marks.is_private_argument(key, argument.name)
        ]
        receives, reveals = (
            tuple(_named(rule for rule in rules if counts(rule, wish)) for rules in self._rules)
            for wish in (self._marks.subscribing(key), Subscribe(str(key), private=True))
        )
        return EventAccessRecord(record.number, key.package, bitmap_of(private), receives, reveals, key.name)

    def _grants(self, key: ClassKey, wishes: Sequence[Wish]) -> tuple[tuple[ReadGrant, ...], ...]:
        """Return for each clearance the rules that count for wishes about objects of a class."""
        return tuple(tuple(_grants(rules, str(key), wishes)) for rules in self._rules)


def _clearance(roles: tuple[str, ...], rules: tuple[Rule, ...]) -> Clearance:
    return Clearance(
        roles,
        _is_unrestricted(rules),
        tuple(source_grants(rules)),
        tuple(
            NameGrant(rule.sources, rule.classes, rule.objects, rule.subscribe, rule.denies)
            for rule in rules
            if rule.subscribe
        ),
        _named(rule for rule in rules if rule.audit),
        any(rule.write or rule.invoke or rule.refresh for rule in rules if not rule.denies),
        hashlib.blake2b(repr(rules).encode(), digest_size=_DIGEST_OCTETS).digest(),
        _reads_all(rules),
    )


def _is_unrestricted(rules: Sequence[Rule]) -> bool:
    """Return whether rules grant all reading, as far as that shows without looking at any object."""
    private = [rule for rule in rules if rule.private or rule.denies]
    return _reads_all(private) and any(
        rule.audit and "*" in rule.read for rule in private if _is_of_all(rule)
    )


def _reads_all(rules: Sequence[Rule]) -> bool:
    """Return whether rules grant all reading but of what is private, as far as that shows likewise."""
    granting = [rule for rule in rules if _is_of_all(rule)]
    reading = any("*" in rule.read for rule in granting)
    receiving = any({"*", "*:*"} & set(rule.subscribe) for rule in granting)
    return reading and receiving and not any(_denies_reading(rule) for rule in rules)


def _is_of_all(rule: Rule) -> bool:
    patterns = (rule.sources, rule.objects, rule.classes)
    every = ({"*"}, {"*"}, {"*", "*:*"})
    return not rule.denies and all(allowed & set(own) for allowed, own in zip(every, patterns, strict=True))


def _denies_reading(rule: Rule) -> bool:
    return rule.denies and bool(rule.read or rule.subscribe or rule.audit)


def _grants(rules: Iterable[Rule], class_name: str, wishes: Sequence[Wish]) -> Iterator[ReadGrant]:
    for rule in rules:
        if fits(class_name, rule.classes):
            bitmap = bitmap_of(position for position, wish in enumerate(wishes) if counts(rule, wish))
            if bitmap:
                yield ReadGrant(rule.sources, rule.objects, bitmap, rule.denies)


def _named(rules: Iterable[Rule]) -> tuple[NameGrant, ...]:
    return tuple(NameGrant(rule.sources, rule.classes, rule.objects, EVERY, rule.denies) for rule in rules)
