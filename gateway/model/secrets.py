"""What must never leave a session: elements that hold secrets, and passwords inside URIs.

Sessions apply these rules before anything else sees a value, so that no store, log or north can leak it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gateway.model.values import Value

DEFAULT_PATTERNS = (
    r"(?i)pass(word|wd|phrase)",
    r"(?i)secret",
    r"(?i)private[_-]?key",
    r"(?i)hashing[_-]?algorithm",
    r"(?i)(api|auth|access)[_-]?(token|key)",
    r"(?i)credential",
)
"""Names of elements, arguments and map keys that hold secrets wherever they turn up."""

MASK = "***"
_USER_INFO = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,31}://)[^\s/?#@]{0,4096}(?:@[^\s/?#@]{0,4096})*@"
)


class SecretRules:
    """Decides which names are secret, and masks what is secret inside values.

    Args:
        patterns: regular expressions searched in element names and map keys, beside the defaults.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._pattern = re.compile("|".join(f"(?:{p})" for p in self._in_scope(patterns)))

    @staticmethod
    def _in_scope(patterns: Iterable[str]) -> list[str]:
        # An inline flag may only stand at the start of a whole expression: make it local to its own part.
        return [
            re.sub(r"^\(\?([aiLmsux]+)\)(.*)$", r"(?\1:\2)", p, flags=re.DOTALL)
            for p in (*DEFAULT_PATTERNS, *patterns)
        ]

    def hides(self, name: str) -> bool:
        """Whether an element, argument or map key of this name is dropped whole."""
        return self._pattern.search(name) is not None

    def masked(self, value: Value) -> Value:
        """``value`` with user info in URIs replaced by ``***`` and secret keys of maps left out."""
        if isinstance(value, str):
            return mask_uris(value)
        if isinstance(value, Mapping):
            return {key: self.masked(inner) for key, inner in value.items() if not self.hides(key)}
        if isinstance(value, tuple):
            return tuple(self.masked(inner) for inner in value)
        return value


def mask_uris(text: str) -> str:
    """``text`` with the user info of every URI in it replaced: ``amqp://u:p@h`` becomes ``amqp://***@h``."""
    if "://" not in text:
        return text
    return _USER_INFO.sub(rf"\g<scheme>{MASK}@", text)
