"""A second reading of the policy's text, to compare front ends with: short, and without the gateway's code.

It takes the YAML of a configuration and of the mappings, and answers single questions by the rules that
docs/roles.md states. It shares nothing with `gateway.policy` and `gateway.feed.access`, patterns included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

ALL: Final = {"sources": ["*"], "classes": ["*:*"], "objects": ["*"]}
BUILT_IN: Final[Mapping[str, dict[str, Any]]] = {
    "monitoring": {"allow": [{"read": ["*"], "subscribe": ["*:*"]}]},
    "everything": {"allow": [{"read": ["*"], "subscribe": ["*:*"], "audit": True, "private": True}]},
}
SEES_EVERYTHING_BY_DEFAULT: Final = {"cli", "qmf"}


def fits(text: str, pattern: str) -> bool:
    """Return whether a text is of a pattern's form: with ``*``, ``?``, ``[a-c]`` and ``[!a-c]``."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == "*":
        return any(fits(text[start:], rest) for start in range(len(text) + 1))
    if not text:
        return False
    if first == "[":
        end = pattern.find("]", 3 if pattern[1:2] == "!" else 2)
        if end > 0:
            inside = pattern[1:end]
            negated = inside.startswith("!")
            return _is_one_of(text[0], inside[negated:]) is not negated and fits(text[1:], pattern[end + 1 :])
    return first in {"?", text[0]} and fits(text[1:], rest)


def _is_one_of(character: str, inside: str) -> bool:
    while inside:
        if inside[1:2] == "-" and len(inside) > 2:
            if inside[0] <= character <= inside[2]:
                return True
            inside = inside[3:]
        elif inside[0] == character:
            return True
        else:
            inside = inside[1:]
    return False


@cache
def _mappings_in(folder: Path) -> dict[str, dict[str, Any]]:
    files = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.yaml"))]
    return {mapping["package"]: mapping for mapping in files if "package" in mapping}


class Evaluator:
    """Answers what principals may do.

    Args:
        text: the configuration.
        mappings: the folder of the mappings, which mark what is private.
    """

    def __init__(self, text: str, mappings: Path) -> None:
        document = yaml.safe_load(text)
        policy = document.get("policy", {})
        self._roles = {**policy.get("roles", {}), **BUILT_IN}
        self._principals = policy.get("principals", {})
        self._permissions = document.get("operations", {}).get("allow", [])
        self._mappings = _mappings_in(mappings)

    # ---- questions ----------------------------------------------------------------------------------------

    def reads(self, who: str, source: str, class_name: str, name: str, element: str) -> bool:
        """Whether the value of an element of an object is shown."""
        asked = (source, class_name, name)
        return self._granted(who, "read", element, asked, private=self.is_private(class_name, element))

    def reads_of_all(self, who: str, source: str, class_name: str, element: str) -> bool:
        """Whether the value of an element of every object of a source is shown, whatever its name is."""
        private = self.is_private(class_name, element)
        rules = [
            rule
            for rule in self._rules(who)
            if self._covers({**rule, "objects": ["*"]}, source, class_name, "")
            and self._names(rule, "read", element)
        ]
        return not any(rule["denies"] for rule in rules) and any(
            "*" in rule["objects"] and (rule.get("private") or not private) for rule in rules
        )

    def sees_everything(self, who: str) -> bool:
        """Whether rules of all objects grant all that can be seen, and none denies anything that is."""
        whole = [rule for rule in self._of_all(who) if rule.get("private")]
        return any(rule.get("audit") and "*" in rule.get("read", []) for rule in whole) and any(
            {"*", "*:*"} & {*rule.get("subscribe", [])} for rule in whole
        )

    def counts(self, who: str) -> bool:
        """Whether rules of all objects grant all that is not private, and none denies anything that is."""
        whole = self._of_all(who)
        return any("*" in rule.get("read", []) for rule in whole) and any(
            {"*", "*:*"} & {*rule.get("subscribe", [])} for rule in whole
        )

    def _of_all(self, who: str) -> list[dict[str, Any]]:
        """The rules that grant something of all objects; none where something is denied."""
        rules = list(self._rules(who))
        if any(rule["denies"] and (rule.keys() & {"read", "subscribe", "audit"}) for rule in rules):
            return []
        return [
            rule
            for rule in rules
            if not rule["denies"]
            and "*" in rule["sources"]
            and "*" in rule["objects"]
            and {"*", "*:*"} & {*rule["classes"]}
        ]

    def shows_name(self, who: str, source: str, class_name: str, name: str, named: list[str]) -> bool:
        """Whether an object is shown with its name, which is made of the elements ``named``."""
        return all(self.reads(who, source, class_name, name, element) for element in named)

    def receives(self, who: str, source: str, event: str, subject: tuple[str, str] | None) -> bool:
        """Whether an event comes, whose object (class, name) is shown."""
        package, _, name = event.partition(":")
        rule = self._mapping("events", package, name)
        return self._subscribed(who, source, event, subject, private=rule.get("private", False))

    def reveals(self, who: str, source: str, event: str, subject: tuple[str, str] | None) -> bool:
        """Whether an event comes with its private arguments."""
        return self._subscribed(who, source, event, subject, private=True)

    def raises(self, who: str, source: str, alarm: str, subject: tuple[str, str]) -> bool:
        """Whether an alarm of an object that is shown is shown."""
        event = f"{subject[0].partition(':')[0]}:{alarm}"
        return self._granted(who, "subscribe", event, (source, *subject), private=False)

    def audits(self, who: str, source: str, class_name: str, name: str) -> bool:
        """Whether operations of others on an object are shown."""
        asked = (source, class_name, name)
        rules = [rule for rule in self._rules(who) if rule.get("audit") and self._covers(rule, *asked)]
        return any(not rule["denies"] for rule in rules) and not any(rule["denies"] for rule in rules)

    def sees(self, who: str, source: str) -> bool:
        """Whether a source is shown: something of it is read, and not all of it denied."""
        rules = [rule for rule in self._rules(who) if any(fits(source, one) for one in rule["sources"])]
        hidden = any(
            "*" in rule.get("read", []) and "*" in rule["objects"] and {"*", "*:*"} & {*rule["classes"]}
            for rule in rules
            if rule["denies"]
        )
        return not hidden and any(rule.get("read") and not rule["denies"] for rule in rules)

    def is_private(self, class_name: str, element: str) -> bool:
        """Whether an element is private by its mapping."""
        package, _, name = class_name.partition(":")
        rule = self._mapping("classes", package, name)
        groups = (rule.get("properties") or {}, rule.get("statistics") or {})
        return bool(rule.get("private")) or any((group.get(element) or {}).get("private") for group in groups)

    def private_arguments(self, event: str) -> set[str]:
        """Return the arguments of an event that are private by its mapping."""
        package, _, name = event.partition(":")
        arguments = self._mapping("events", package, name).get("arguments") or {}
        return {argument for argument, rule in arguments.items() if rule.get("private")}

    def writes(self, who: str, source: str, class_name: str, name: str, element: str) -> bool:
        """Whether an element may be set; one that is not dangerous."""
        return self._granted(who, "write", element, (source, class_name, name), private=False)

    def invokes(self, who: str, source: str, class_name: str, name: str, method: str) -> bool:
        """Whether a method may be called that cannot be undone, or that no mapping describes."""
        rules = [rule for rule in self._rules(who) if self._covers(rule, source, class_name, name)]
        denied = any(rule["denies"] and self._names(rule, "invoke", method) for rule in rules)
        wild = any(character in method for character in "*?[")
        named = any(not rule["denies"] and method in rule.get("invoke", []) for rule in rules)
        return named and not wild and not denied

    # ---- rules --------------------------------------------------------------------------------------------

    def roles_of(self, who: str) -> list[str]:
        """Return the names of a principal's roles."""
        front_end = who.partition(":")[0]
        for key in (who, f"{front_end}:*", "*"):
            if key in self._principals:
                return list(self._principals[key])
        return ["everything" if front_end in SEES_EVERYTHING_BY_DEFAULT else "monitoring"]

    def _rules(self, who: str) -> Iterator[dict[str, Any]]:
        waiting, done = self.roles_of(who), set[str]()
        while waiting:
            name = waiting.pop()
            if name not in done:
                done.add(name)
                role = self._roles[name]
                waiting += role.get("includes", [])
                yield from ({**ALL, **rule, "denies": True} for rule in role.get("deny", []))
                yield from ({**ALL, **rule, "denies": False} for rule in role.get("allow", []))
        for permission in self._permissions:
            if who in permission["who"]:
                named = {"write": permission.get("set", []), "invoke": permission.get("invoke", [])}
                places = {key: permission[key] for key in ALL if key in permission}
                yield {**ALL, **places, **named, "denies": False}

    def _granted(
        self, who: str, action: str, name: str, asked: tuple[str, str, str], *, private: bool
    ) -> bool:
        rules = [
            rule
            for rule in self._rules(who)
            if self._covers(rule, *asked) and self._names(rule, action, name)
        ]
        if any(rule["denies"] for rule in rules):
            return False
        return any(rule.get("private") or not private for rule in rules)

    def _subscribed(
        self, who: str, source: str, event: str, subject: tuple[str, str] | None, *, private: bool
    ) -> bool:
        about = subject or (f"{event.partition(':')[0]}:", "")
        return self._granted(who, "subscribe", event, (source, *about), private=private)

    @staticmethod
    def _covers(rule: Mapping[str, Any], source: str, class_name: str, name: str) -> bool:
        asked = {"sources": source, "classes": class_name, "objects": name}
        return all(any(fits(text, pattern) for pattern in rule[key]) for key, text in asked.items())

    @staticmethod
    def _names(rule: Mapping[str, Any], action: str, name: str) -> bool:
        return any(fits(name, pattern) for pattern in rule.get(action, []))

    def _mapping(self, part: str, package: str, name: str) -> dict[str, Any]:
        found = (self._mappings.get(package, {}).get(part) or {}).get(name)
        return found or {}
