"""What peers may publish, where roles restrict it: by the name that TLS has proved, never by what they send.

A peer is the holder of a certificate. The application as which it logs in, and the types of its objects, are
claims: with rules, a peer may make those that one of its rules permits, and that none of them denies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from gateway.dialects.ami.relay_effects import Collected, RefusedError
from gateway.dialects.session import Peer, PublishRefused
from gateway.model.stable_names import escaped, joined

ANYONE: Final = "(anyone)"
"""The name of peers without a certificate."""


@dataclass(frozen=True, slots=True)
class PublishRule:
    """A rule about objects, by patterns as of a shell.

    Attributes:
        denies: it denies them, instead of permitting them.
        classes: patterns of ``package:class``.
        objects: patterns of stable names.
    """

    denies: bool
    classes: tuple[str, ...]
    objects: tuple[str, ...]

    def covers(self, class_name: str, object_name: str) -> bool:
        """Return whether an object is among those that the rule names."""
        return _fits(class_name, self.classes) and _fits(object_name, self.objects)


@dataclass(frozen=True, slots=True)
class PublishRules:
    """The rules of all peers.

    Attributes:
        peers: the rules by the proved name; `ANYONE` stands for peers without a certificate.
        others: the rules of all other peers.
    """

    peers: Mapping[str, tuple[PublishRule, ...]]
    others: tuple[PublishRule, ...] = ()

    def permits(self, name: str, class_name: str, object_name: str) -> bool:
        """Return whether the peer of this proved name may publish an object."""
        rules = self.peers.get(name or ANYONE, self.others)
        covering = [rule for rule in rules if rule.covers(class_name, object_name)]
        return bool(covering) and not any(rule.denies for rule in covering)


class Publishing:
    """Decides what peers may publish.

    Args:
        rules: the rules; ``None`` permits everything.
        out: collects what was refused.

    Attributes:
        rules: the present rules.
    """

    def __init__(self, rules: PublishRules | None, out: Collected) -> None:
        self.rules = rules
        self._out = out

    def permits(self, peer: Peer, class_name: str, *parts: str) -> bool:
        """Return whether a peer may publish the object of this class whose stable name has these parts."""
        if self.rules is None:
            return True
        return self.rules.permits(peer.name, class_name, _name(parts))

    def require(self, peer: Peer, class_name: str, *parts: str) -> None:
        """Check that a peer may publish an object, as `permits`.

        Raises:
            RefusedError: it may not, which is to be recorded.
        """
        if not self.permits(peer, class_name, *parts):
            text = f"no role lets ami:{peer.name or ANYONE} publish {class_name} {_name(parts)}"
            self._out.refuse(PublishRefused(peer, class_name, text))
            raise RefusedError(text)


def _name(parts: tuple[str, ...]) -> str:
    return joined(map(escaped, parts))


def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
