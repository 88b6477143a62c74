"""What a change of the policy means for principals, in words."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.feed.access import Patterns
from gateway.policy.rules import (
    CONSOLE,
    EVERY,
    EVERY_CLASS,
    FRONT_ENDS,
    OTHERS,
    PUBLISHER,
    RoleSet,
    Rule,
)

_COMPARED = (*(front_end for front_end in FRONT_ENDS if front_end != CONSOLE), PUBLISHER)
"""The front ends whose other principals are compared: consoles that no key names are not restricted."""


def policy_changes(former: RoleSet, present: RoleSet) -> Iterator[str]:
    """Yield one line for each rule that a principal gains or loses.

    Principals that the configuration does not name are described once for each front end.
    """
    if former.restricts_publishing is not present.restricts_publishing:
        what = (
            "only what their roles grant" if present.restricts_publishing else "all that their sources permit"
        )
        yield f"peers of AMI: now publish {what}"
    named = {*former.principals, *former.grants, *present.principals, *present.grants}
    exact = sorted(name for name in named if not name.endswith("*"))
    for principal in (
        *exact,
        *(f"{front_end}:{OTHERS}" for front_end in _COMPARED),
    ):
        front_end, _, name = principal.partition(":")
        # Peers that publish do nothing else.
        before, after = (
            [rule for rule in roles.rules_of(principal) if rule.publish or front_end != PUBLISHER]
            for roles in (former, present)
        )
        who = f"other principals of {front_end}" if name == OTHERS else principal
        restricted = present.restricts_calls(principal)
        if former.restricts_calls(principal) is not restricted:
            yield f"{who}: now calls {'only what its roles grant' if restricted else 'every method'}"
        # Without its place, which moves when a rule is inserted before it.
        words_before = {described(rule) for rule in before}
        words_after = {described(rule) for rule in after}
        for words in sorted(words_before - words_after):
            yield f"{who}: no longer {words}"
        for words in sorted(words_after - words_before):
            yield f"{who}: now {words}"


def described(rule: Rule) -> str:
    """Return a rule in words, without its place."""
    what = [
        f"{verb} {_listed(patterns)}"
        for verb, patterns in (
            ("read", rule.read),
            ("write", rule.write),
            ("invoke", rule.invoke),
            ("subscribe to", rule.subscribe),
        )
        if patterns
    ]
    what += ["have objects read again"] if rule.refresh else []
    what += ["see the operations of others"] if rule.audit else []
    what += ["publish objects"] if rule.publish else []
    verb = "may not" if rule.denies else "may"
    private = ", also what is private" if rule.private else ""
    of = limits_of(rule)
    where = f", of {of}" if of else ""
    return f"{verb} {', '.join(what) or 'nothing'}{where}{private}"


def limits_of(rule: Rule, *, with_classes: bool = True) -> str:
    """Return which sources, classes and objects a rule is about, in words; empty for all of them."""
    return ", ".join(
        f"{name} {_listed(patterns)}"
        for name, patterns, every in (
            ("sources", rule.sources, EVERY),
            ("classes", rule.classes if with_classes else EVERY_CLASS, EVERY_CLASS),
            ("objects", rule.objects, EVERY),
        )
        if patterns != every
    )


def _listed(patterns: Patterns) -> str:
    return " ".join(patterns)
