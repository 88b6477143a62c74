"""Objects whose names a principal does not read: front ends that know objects by names do not show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gateway.mapping.rules import ClassRule
from gateway.mapping.rules import Mapping as PackageMapping
from gateway.model.schema import ClassKey
from gateway.policy.decisions import Decision, Policy, ReadElement, Subject, counts, decided_by_covering
from gateway.policy.marks import Marks
from gateway.policy.rules import BUILT_IN, RoleSet, Rule

BY_NAME: Final[Mapping[str, str]] = {
    "jmx": "JMX",
    "cli": "the command line",
    "metrics": "/metrics/objects",
}
"""Front ends that know objects by their names, in words."""


def denied_name(
    principal: str, subject: Subject, policy: Policy, marks: Marks
) -> tuple[ReadElement, Decision] | None:
    """Return the wish to read an element of an object's name that is denied to a principal, and the decision.

    ``None`` where it reads the name, its front end needs none, or no mapping describes the class.
    """
    if principal.partition(":")[0] not in BY_NAME:
        return None
    package, _, class_name = subject.class_name.partition(":")
    key = ClassKey(package, class_name)
    for element in marks.naming_elements(key):
        wish = marks.reading(key, element)
        decision = policy.decide(principal, subject, wish)
        if not decision.allowed:
            return wish, decision
    return None


def nameless_classes(
    roles: RoleSet, principals: Iterable[str], mappings: Mapping[str, PackageMapping], marks: Marks
) -> Iterator[str]:
    """Yield a line for each class of which a principal reads elements, but no object's name.

    Names that are private are left out: who writes no ``private: true`` does not want them.
    """
    built_in = {rule for role in BUILT_IN.values() for rule in role.rules}
    for principal in principals:
        front_end = BY_NAME.get(principal.partition(":")[0])
        rules = roles.rules_of(principal)
        if front_end is None or not set(rules) - built_in:
            continue
        for package, mapping in mappings.items():
            for name, of_class in mapping.classes.items():
                key = ClassKey(package, name)
                covering = [one for one in rules if one.covers_class(str(key))]
                missing = _missing(key, of_class, covering, marks)
                if missing:
                    yield (
                        f"policy: {principal} reads elements of {key}, but not {missing}, a part of the names"
                        f" of its objects: {front_end} shows none of them; add {missing} to 'read'"
                    )


def _missing(key: ClassKey, of_class: ClassRule, rules: list[Rule], marks: Marks) -> str:
    """Return the first naming element that none of these rules grants, while they grant others."""
    names = [name for name in marks.naming_elements(key) if not marks.is_private_element(key, name)]
    elements = [*of_class.properties, *of_class.statistics]
    reads = any(
        counts(rule, marks.reading(key, one)) for rule in rules if not rule.denies for one in elements
    )
    if not reads:
        return ""
    # A rule that denies some objects leaves the names of others.
    of_all = [rule for rule in rules if not rule.denies or "*" in rule.objects]
    return next(
        (name for name in names if not decided_by_covering(of_all, marks.reading(key, name)).allowed), ""
    )
