"""Policies made at random, from a seed, as texts of a configuration."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import yaml

_SOURCES: Final = ("*", "shop", "s*", "depot", "gateway", "?hop", "[!s]*", "Shop")
_CLASSES: Final = (
    "*:*",
    "rabbitmq:*",
    "rabbitmq:queue",
    "rabbitmq:vhost",
    "*:connection",
    "*:user",
    "com.example:*",
    "*:[qv]*",
    "[!r]*:*",
)
_OBJECTS: Final = (
    "*",
    "/|*",
    "*orders*",
    "*|orders",
    "sales*",
    "[sS]ales*",
    "*|[!o]*",
    "/",
    "*|[*]",
    "*|?",
    "10.*",
    "guest",
    "*\n*",
    "*|gr??e",
)
_READ: Final = ("*", "name", "messages", "m*", "vhost", "*Host", "exclusive*", "id", "[!m]*", "channels")
_SUBSCRIBE: Final = ("*:*", "rabbitmq:*", "rabbitmq:queue*", "*:full", "com.example:*", "*:user*", "*:[mc]*")


def policy_text(seed: int, principals: Sequence[str]) -> str:
    """Return the text of a configuration with some roles, which some of these principals have."""
    chosen = random.Random(seed)  # noqa: S311  no secret
    names = [f"role{number}" for number in range(chosen.randint(1, 4))]
    roles = {name: _role(chosen, names[:position]) for position, name in enumerate(names)}
    given: dict[str, list[str]] = {}
    for principal in principals:
        front_end = principal.partition(":")[0]
        key = chosen.choice([principal, principal, principal, f"{front_end}:*", "*", None])
        if key is not None:
            available = [*names, "monitoring", *(["everything"] if chosen.random() < 0.2 else [])]
            given[key] = chosen.sample(available, k=chosen.choice((1, 1, 1, 1, 2, 2, 2, 0)))
    return yaml.safe_dump({"version": 1, "policy": {"roles": roles, "principals": given}}, sort_keys=False)


def _role(chosen: random.Random, before: Sequence[str]) -> dict[str, Any]:
    role: dict[str, Any] = {}
    if before and chosen.random() < 0.4:
        role["includes"] = [chosen.choice([*before, "monitoring"])]
    role["allow"] = [_rule(chosen, denies=False) for _ in range(chosen.randint(1, 3))]
    if chosen.random() < 0.6:
        role["deny"] = [_rule(chosen, denies=True) for _ in range(chosen.randint(1, 2))]
    return role


def _rule(chosen: random.Random, *, denies: bool) -> dict[str, Any]:
    rule: dict[str, Any] = {}
    narrow = 0.7 if denies else 0.35
    for key, patterns in (("sources", _SOURCES), ("classes", _CLASSES), ("objects", _OBJECTS)):
        if chosen.random() < narrow or (denies and key == "objects" and len(rule) == 0):
            rule[key] = chosen.sample(patterns, k=chosen.randint(1, 3))
    wide = 0.2 if denies else 0.7
    rule["read"] = ["*"] if chosen.random() < wide else chosen.sample(_READ, k=chosen.randint(1, 3))
    if chosen.random() < 0.7:
        rule["subscribe"] = chosen.sample(_SUBSCRIBE, k=chosen.randint(1, 2))
    if chosen.random() < 0.4:
        rule["audit"] = True
    if not denies and chosen.random() < 0.4:
        rule["private"] = True
    return rule
