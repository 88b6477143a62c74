"""Decisions on single questions: whether a principal may do something, and by which rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from gateway.escapes import escaped
from gateway.feed.access import NameGrant, Patterns, fits
from gateway.policy.rules import RoleSet, Rule, is_named


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that a question is about, as rules name it; as a text, on one line.

    Attributes:
        source: name of the source.
        class_name: ``package:class``.
        object_name: stable name.
    """

    source: str
    class_name: str
    object_name: str

    def __str__(self) -> str:
        if not self.object_name and self.class_name.endswith(":"):
            return f"an event of {self.source}"
        return f"{self.class_name} {escaped(self.object_name)} of {self.source}"


class ReadElement(msgspec.Struct, frozen=True):
    """The wish to see the value of an element.

    Attributes:
        element: its name.
        private: the mapping calls it private.
        original: the name that the peer may have sent of an element that is called ``depth_2``: a rule that
            denies this one denies it, too. Empty where it has no other.
    """

    element: str
    private: bool = False
    original: str = ""


class SetElement(msgspec.Struct, frozen=True):
    """The wish to set one element.

    Attributes:
        element: its name.
        effect: what a dangerous setting leads to, one sentence; empty where the mapping does not call it so.
        original: as that of `ReadElement`.
    """

    element: str
    effect: str = ""
    original: str = ""


@dataclass(frozen=True, slots=True)
class CallMethod:
    """The wish to call a method.

    Attributes:
        method: its name.
        dangerous: it cannot be undone, or no mapping says that it can: only a rule that names it allows it.
        described: a mapping describes the method.
    """

    method: str
    dangerous: bool
    described: bool = True


class ReadObject(msgspec.Struct, frozen=True):
    """The wish to have an object read again from its source."""


class Subscribe(msgspec.Struct, frozen=True):
    """The wish to receive an event or alarm, ``package:name``.

    Without an object, the class of the subject is the event's package and a colon, and its object's name is
    empty.
    """

    event: str
    private: bool = False


class ReadOperations(msgspec.Struct, frozen=True):
    """The wish to see the operations of other principals on an object."""


class PublishObject(msgspec.Struct, frozen=True):
    """The wish to report an object, as a peer of its source."""


NamedWish: TypeAlias = ReadElement | SetElement | CallMethod | Subscribe
"""A wish with a name that rules have patterns of."""

Wish: TypeAlias = NamedWish | ReadObject | ReadOperations | PublishObject


class Decision(msgspec.Struct, frozen=True):
    """A decision, and the rule that decides.

    Attributes:
        allowed: the answer.
        rule: the rule; ``None`` where no rule grants it, or none is needed.
        by_pattern: a rule would grant it by a pattern, if it were not dangerous, or not private.
    """

    allowed: bool
    rule: Rule | None = None
    by_pattern: bool = False


class Policy:
    """Decides what principals may do.

    Args:
        roles: the roles, checked.
    """

    def __init__(self, roles: RoleSet | None = None) -> None:
        self.roles = roles or RoleSet()

    def decide(self, principal: str, subject: Subject, wish: Wish) -> Decision:
        """Return whether ``principal`` (``front end:name``) may do this, and why.

        Where roles do not restrict publishing, no rule decides it.
        """
        if isinstance(wish, PublishObject) and not self.roles.restricts_publishing:
            return Decision(allowed=True)
        return decided(self.roles.rules_of(principal), subject, wish)

    def denial(self, principal: str, subject: Subject, wish: Wish, shown: str = "") -> str:
        """Return why a wish is denied, and what would grant it, on one line.

        ``shown`` stands for the object, whose name the principal may not know.
        """
        where = shown or str(subject)
        decision = self.decide(principal, subject, wish)
        what, key = _words(wish)
        if decision.rule is not None and decision.rule.denies:
            return f"{decision.rule.place} denies {principal} to {what}: {where}"
        if decision.by_pattern:
            return f"the rules let {principal} {_by_pattern(wish)}: {where}; one of them needs {key}"
        return f"no rule lets {principal} {what}: {where}; it takes one with {key}"


def decided(rules: Iterable[Rule], subject: Subject, wish: Wish) -> Decision:
    """Return the decision of these rules."""
    return decided_by_covering(covering(rules, subject), wish)


def covering(rules: Iterable[Rule], subject: Subject) -> list[Rule]:
    """Return the rules that are about an object, for several wishes."""
    return [rule for rule in rules if rule.covers(subject.source, subject.class_name, subject.object_name)]


def decided_by_covering(rules: Iterable[Rule], wish: Wish) -> Decision:
    """Return the decision of rules that are about the object."""
    matching = [rule for rule in rules if _matches(rule, wish)]
    counting = [rule for rule in matching if counts(rule, wish)]
    for rule in counting:
        if rule.denies:
            return Decision(allowed=False, rule=rule)
    if counting:
        return Decision(allowed=True, rule=counting[0])
    return Decision(allowed=False, by_pattern=bool(matching))


def source_grants(rules: Iterable[Rule]) -> Iterator[NameGrant]:
    """Yield the grants and denials of sources: one exists for who may read something of it."""
    for rule in rules:
        of_all = "*" in rule.objects and bool({"*", "*:*"} & set(rule.classes)) and "*" in rule.read
        if (rule.denies and of_all) or (not rule.denies and rule.read):
            yield NameGrant(rule.sources, denies=rule.denies)


def sees_source(rules: Iterable[Rule], source: str) -> bool:
    """Return whether a source exists by these rules, as `gateway.feed.access.AccessTables.sees_source`."""
    about = [grant for grant in source_grants(rules) if fits(source, grant.sources)]
    return bool(about) and not any(grant.denies for grant in about)


def counts(rule: Rule, wish: Wish) -> bool:
    """Return whether a rule, of an object that it is about, grants or denies a wish.

    A rule that denies is not asked whether it names what is dangerous or private.
    """
    return _matches(rule, wish) and (rule.denies or _is_explicit(rule, wish))


def name_and_patterns(rule: Rule, wish: NamedWish) -> tuple[str, Patterns]:
    """Return the name in a wish, and the patterns of a rule that it is compared with."""
    match wish:
        case ReadElement(element):
            return element, rule.read
        case SetElement(element):
            return element, rule.write
        case CallMethod(method):
            return method, rule.invoke
        case Subscribe(event):
            return event, rule.subscribe


def _matches(rule: Rule, wish: Wish) -> bool:
    match wish:
        case ReadObject() | ReadOperations() | PublishObject():
            return _is_switched_on(rule, wish)
        case _:
            name, patterns = name_and_patterns(rule, wish)
            return fits(name, patterns) or (rule.denies and _fits_original(wish, patterns))


def _fits_original(wish: NamedWish, patterns: Patterns) -> bool:
    """Return whether patterns name the element as its peer may have sent it.

    The author of the rule knew the peer's name, of which a peer can send a second one at any time.
    """
    return (
        isinstance(wish, ReadElement | SetElement) and wish.original != "" and fits(wish.original, patterns)
    )


def _is_switched_on(rule: Rule, wish: ReadObject | ReadOperations | PublishObject) -> bool:
    """Return whether a rule names a wish that has no further name."""
    match wish:
        case ReadObject():
            return rule.refresh
        case ReadOperations():
            return rule.audit
        case PublishObject():
            return rule.publish


def _is_explicit(rule: Rule, wish: Wish) -> bool:
    """Return whether a rule grants what it matches: a pattern was not written with this in mind."""
    match wish:
        case ReadElement(_, private) | Subscribe(_, private):
            return rule.private or not private
        case SetElement(element, effect):
            return not effect or is_named(element, rule.write)
        case CallMethod(method, dangerous):
            return not dangerous or is_named(method, rule.invoke)
        case _:
            return True


def _words(wish: Wish) -> tuple[str, str]:
    """Return what is wished, and the keys of a rule that would grant it."""
    match wish:
        case ReadElement(element, private):
            return f"read {element}", _private(private) or f"read: [{element}]"
        case SetElement(element):
            return f"set {element}", f"write: [{element}] (under operations.allow: set)"
        case CallMethod(method):
            return f"call {method}", f"invoke: [{method}]"
        case Subscribe(event, private):
            return f"receive {event}", _private(private) or f'subscribe: ["{event}"]'
        case ReadObject() | ReadOperations() | PublishObject():
            return _WORDS[type(wish)]


_WORDS: Final = {
    ReadObject: ("have it read again", "refresh: true (under operations.allow: read)"),
    ReadOperations: ("see the operations of others", "audit: true"),
    PublishObject: ("publish it", "publish: true"),
}


def _private(private: bool) -> str:  # noqa: FBT001  the only argument, named by the function
    return "private: true" if private else ""


def _by_pattern(wish: Wish) -> str:
    match wish:
        case CallMethod(method, _, described):
            known = "cannot be undone"
            danger = known if described else f"is in no mapping, so perhaps it {known}"
            return f"call methods by pattern, and {method} {danger}"
        case SetElement(element, effect):
            return f"set elements by pattern, and {element} is dangerous ({effect})"
        case _:
            return f"{_words(wish)[0]} by pattern, and it is private"
