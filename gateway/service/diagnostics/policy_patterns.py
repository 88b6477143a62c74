"""Patterns of the policy that grant nothing.

They match nothing, as misspelt sources, classes, elements, methods and events do; or they match only what a
pattern does not grant: what is dangerous has to be named in full, what is private needs ``private``.

Everything that there can be is known of sources, of what the gateway's own source reads, and of the gateway
itself. Elsewhere an agent may report more than its mapping has, and a file of rules may be that of several
gateways with other sources: there a pattern that matches nothing is a remark. Names of objects are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.config.files import LoadedConfiguration
from gateway.config.policy import OperationRule, RoleRule, Roles
from gateway.config.policy_files import PolicyFile
from gateway.config.sources import RabbitMqSource
from gateway.feed.access import GATEWAY_NAME, fits
from gateway.inventory.certificates import ALARM as CERTIFICATE_ALARM
from gateway.inventory.inventory import CONDITION as LOG_ALARM
from gateway.inventory.own_conditions import OWN_CONDITIONS
from gateway.inventory.own_events import CLASS_NOT_READABLE_ALARM, OWN_EVENTS, SOURCE_DOWN_ALARM
from gateway.mapping.override_files import KnownClass, Place, known_of_mappings, nearest
from gateway.mapping.override_rules import OverrideFile, is_exact
from gateway.mapping.overrides import NO_OVERRIDES, Overrides
from gateway.mapping.rules import Mapping as PackageMapping
from gateway.model.schema import ClassKey
from gateway.policy.decisions import CallMethod, NamedWish, SetElement, counts, name_and_patterns
from gateway.policy.marks import Marks
from gateway.policy.rules import Rule
from gateway.yaml_documents import DocumentFile, complaint_at, read_document

_OWN: Final = "gateway"
_OWN_ALARMS: Final = (
    *OWN_CONDITIONS,
    CERTIFICATE_ALARM,
    LOG_ALARM,
    CLASS_NOT_READABLE_ALARM,
    SOURCE_DOWN_ALARM,
)

_SETTABLE: Final = "settable element"
_SHOWN: Final = 5
"""The number of names that a remark shows."""

_Rule: TypeAlias = RoleRule | OperationRule
_Problem: TypeAlias = tuple[Place, str, bool]
"""The keys that lead to a pattern, what is wrong, and whether it is certain."""


def check_patterns(
    loaded: LoadedConfiguration,
    mappings: Mapping[str, PackageMapping],
    overrides: Overrides = NO_OVERRIDES,
) -> list[str]:
    """Return remarks on patterns of rules that grant nothing that is known, each with file and line.

    Args:
        loaded: the configuration.
        mappings: the mappings by package.
        overrides: the overrides of them, which may call further methods dangerous.

    Raises:
        DocumentError: a pattern can match or grant nothing; the text has file, line and what to write.
    """
    known = _known(loaded, mappings, overrides)
    settings = loaded.settings
    own = [(("operations", "allow", n), rule) for n, rule in enumerate(settings.operations.allow)]
    of_files = {loaded.folder / name for name in settings.policy.files}
    documents = {file: read_document(file, PolicyFile).roles for file in of_files}
    theirs = {name for roles in documents.values() for name in roles}
    roles = {name: role for name, role in settings.policy.roles.items() if name not in theirs}
    found = [(loaded.path, [*own, *_rules(roles, ("policy", "roles"))])]
    found += [(file, list(_rules(roles, ("roles",)))) for file, roles in documents.items()]
    lines: list[str] = []
    for file, rules in found:
        is_shared = file != loaded.path
        problems = [
            problem for place, rule in rules for problem in known.problems(place, rule, is_shared=is_shared)
        ]
        lines += _lines(file, problems)
    return lines


def _lines(file: DocumentFile, problems: Sequence[_Problem]) -> list[str]:
    if wrong := [(place, text) for place, text, is_certain in problems if is_certain]:
        raise complaint_at(file, wrong)
    remarks = [(place, text) for place, text, _ in problems]
    return str(complaint_at(file, remarks)).splitlines() if remarks else []


def _rules(roles: Roles, above: Place) -> Iterator[tuple[Place, _Rule]]:
    for name, role in roles.items():
        for key, rules in (("deny", role.deny), ("allow", role.allow)):
            for number, rule in enumerate(rules):
                yield (*above, name, key, number), rule


def _known(
    loaded: LoadedConfiguration, mappings: Mapping[str, PackageMapping], overrides: Overrides
) -> _KnownNames:
    known = known_of_mappings(mappings)
    whole = known.whole | {_OWN}
    sources = loaded.settings.sources.values()
    events = [event.name for event in known.events]
    for package, mapping in mappings.items():
        of_events = [
            name for event in mapping.events.values() for name in (event.raises, event.clears) if name
        ]
        of_classes = [name for one in mapping.classes.values() for name in one.alarms]
        events += [f"{package}:{name}" for name in (*of_events, *of_classes)]
    for file in loaded.override_files:
        for pattern, override in read_document(file, OverrideFile).classes.items():
            events += [f"{pattern.partition(':')[0]}:{name}" for name in override.alarms]
    events += [str(event.key) for event in OWN_EVENTS] + [f"{_OWN}:{name}" for name in _OWN_ALARMS]
    # What is about no object has the package alone.
    nothing = [KnownClass(f"{package}:", {}) for package in whole]
    only_own = bool(sources) and all(isinstance(source, RabbitMqSource) for source in sources)
    names = (GATEWAY_NAME, *loaded.settings.sources)
    marks = Marks(mappings, overrides)
    packages = whole | mappings.keys()
    return _KnownNames(
        (*known.classes, *nothing), tuple(events), packages, whole, names, marks, only_own=only_own
    )


def _key_of(name: str) -> ClassKey:
    package, _, inner = name.partition(":")
    return ClassKey(package, inner)


def _what_it_takes(meant: Sequence[NamedWish]) -> str:
    """Return why a rule does not grant what its pattern matches, and what would."""
    names = ", ".join(sorted({name_and_patterns(Rule(""), wish)[0] for wish in meant})[:_SHOWN])
    if all(isinstance(wish, CallMethod | SetElement) for wish in meant):
        return f"what it matches is dangerous, and has to be named in full ({names})"
    return f"what it matches is private, and takes a rule with 'private: true' ({names})"


@dataclass(frozen=True, slots=True)
class _KnownNames:
    """What patterns can match.

    Attributes:
        classes: the classes.
        events: events and alarms, ``package:name``.
        packages: the packages of which something is known.
        whole: those of which everything is known.
        sources: the sources.
        marks: what is private or dangerous.
        only_own: no source reports others.
    """

    classes: Sequence[KnownClass]
    events: Sequence[str]
    packages: frozenset[str]
    whole: frozenset[str]
    sources: Sequence[str]
    marks: Marks
    only_own: bool

    def problems(self, place: Place, rule: _Rule, *, is_shared: bool) -> Iterator[_Problem]:
        """Yield what the patterns of a rule do not match; ``is_shared``: other gateways may have it, too."""
        of_sources = (*place, "sources"), rule.sources, self.sources, "source"
        yield from self._unmatched(*of_sources, lambda _: not is_shared)
        matched = [one for one in self.classes if fits(one.name, rule.classes)]
        names = [one.name for one in self.classes]
        yield from self._unmatched((*place, "classes"), rule.classes, names, "class", self._is_whole)
        is_certain = all(map(self._is_whole, rule.classes))
        if place[-2] == "allow":  # a rule that denies matches what is dangerous or private, too
            yield from self._not_granted(place, rule, matched, is_certain=is_certain)
        elements = [name for one in matched for name in one.elements]
        settable = [name for one in matched for name in one.elements if name in one.settable]
        methods = [name for one in matched for name in one.methods]
        of_names = [("invoke", rule.invoke, methods, "method")]
        if isinstance(rule, OperationRule):
            of_names.append(("set", rule.set, settable, _SETTABLE))
        else:
            of_names += [("read", rule.read, elements, "element"), ("write", rule.write, settable, _SETTABLE)]
            yield from self._unmatched(
                (*place, "subscribe"), rule.subscribe, self.events, "event or alarm", self._is_whole
            )
        for key, patterns, there, what in of_names:
            if matched:
                of = f"{what} of {' '.join(rule.classes)}"
                yield from self._unmatched((*place, key), patterns, there, of, lambda _: is_certain)

    def _not_granted(
        self, place: Place, rule: _Rule, matched: Sequence[KnownClass], *, is_certain: bool
    ) -> Iterator[_Problem]:
        """Yield the patterns of a rule all matches of which take more than a pattern."""
        marks, keys = self.marks, [(_key_of(one.name), one) for one in matched]
        settings: list[NamedWish] = [marks.setting(key, name) for key, one in keys for name in one.settable]
        calls: list[NamedWish] = [marks.calling(key, name) for key, one in keys for name in one.methods]
        found = [("invoke", rule.invoke, calls)]
        if isinstance(rule, OperationRule):
            found.append(("set", rule.set, settings))
        else:
            readings: list[NamedWish] = [
                marks.reading(key, name) for key, one in keys for name in one.elements
            ]
            events: list[NamedWish] = [marks.subscribing(_key_of(name)) for name in self.events]
            found += [("read", rule.read, readings), ("write", rule.write, settings)]
            found.append(("subscribe", rule.subscribe, events))
        is_private = isinstance(rule, RoleRule) and rule.private
        for key, patterns, wishes in found:
            for position, pattern in enumerate(patterns):
                one = (pattern,)  # for wishes of one kind, so that the others do not matter
                alone = Rule("", read=one, write=one, invoke=one, subscribe=one, private=is_private)
                meant = [wish for wish in wishes if fits(*name_and_patterns(alone, wish))]
                if meant and not any(counts(alone, wish) for wish in meant):
                    text = f"{pattern!r} grants nothing: {_what_it_takes(meant)}"
                    # A pattern of everything is for what comes, too.
                    yield (*place, key, position), text, is_certain and bool(pattern.strip("*:"))

    def _unmatched(
        self,
        place: Place,
        patterns: Sequence[str],
        names: Collection[str],
        what: str,
        is_certain: Callable[[str], bool],
    ) -> Iterator[_Problem]:
        for position, pattern in enumerate(patterns):
            # A pattern of everything is for what comes, too.
            if pattern.strip("*:") and not any(fits(name, (pattern,)) for name in names):
                hint = nearest(pattern, names)
                yield (*place, position), f"{pattern!r} matches no {what}{hint}", is_certain(pattern)

    def _is_whole(self, pattern: str) -> bool:
        """Return whether everything that a pattern of ``package:name`` could match is known."""
        package = pattern.partition(":")[0]
        # Rules for another gateway may stand in the same file.
        is_elsewhere = is_exact(package) and package in self.packages - self.whole
        return (is_exact(package) and package in self.whole) or (self.only_own and not is_elsewhere)
