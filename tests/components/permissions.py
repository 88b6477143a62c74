"""A short way to write policies in tests: permissions of principals who read everything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.policy.decisions import Policy
from gateway.policy.rules import EVERYTHING, RoleSet, Rule


@dataclass(frozen=True, slots=True)
class Permission:
    """A rule of ``operations.allow``: what principals may set and invoke."""

    who: frozenset[str]
    sources: tuple[str, ...] = ("*",)
    classes: tuple[str, ...] = ("*:*",)
    objects: tuple[str, ...] = ("*",)
    set: tuple[str, ...] = ()
    invoke: tuple[str, ...] = ()
    read: bool = False

    @property
    def rule(self) -> Rule:
        """The rule of the policy that this is."""
        return Rule(
            "rule 1 of operations.allow",
            sources=self.sources,
            classes=self.classes,
            objects=self.objects,
            write=self.set,
            invoke=self.invoke,
            refresh=self.read,
        )


def policy_of(permissions: Iterable[Permission] = ()) -> Policy:
    """Return a policy by which every principal reads everything, and some may do what these permit."""
    grants: dict[str, tuple[Rule, ...]] = {}
    for permission in permissions:
        for who in permission.who:
            grants[who] = (*grants.get(who, ()), permission.rule)
    return Policy(RoleSet(principals={"*": (EVERYTHING,)}, grants=grants))
