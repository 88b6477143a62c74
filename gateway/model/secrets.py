"""Secrets: the names of elements that hold them, and passwords inside URIs.

Sessions apply these rules before any other code receives a value, so that no store, log or front end has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from gateway.model.values import Value

DEFAULT_PATTERNS = (
    r"(?i)pass(word|wd|phrase)",
    r"(?i)secret",
    r"(?i)private[_-]?key",
    r"(?i)hashing[_-]?algorithm",
    r"(?i)(api|auth|access)[_-]?(token|key)",
    r"(?i)credential",
)
"""Patterns of names of elements, arguments and map keys that hold secrets."""

MASK = "***"
_USER_INFO = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,31}://)[^\s/?#@]{0,4096}(?:@[^\s/?#@]{0,4096})*@"
)
_PARAMETER = re.compile(r"[?&;]([^\s?&;#=]{1,64})=")
_PARAMETER_VALUE = re.compile(r"[^\s&]+")
"""A value in a URI's query. RabbitMQ takes a TLS key's password there:
``amqps://host?keyfile=...&password=...``."""


class SecretRules:
    """Decides which names are secret, and masks secrets inside values.

    Args:
        patterns: regular expressions that are searched in names, in addition to the defaults.
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
        """Return whether an element, argument or map key of this name is dropped whole."""
        return self._pattern.search(name) is not None

    def masked(self, value: Value) -> Value:
        """Return ``value`` with secrets in URIs replaced by ``***``, and without secret keys of maps."""
        if isinstance(value, str):
            return self.masked_uris(value)
        if isinstance(value, Mapping):
            return {key: self.masked(inner) for key, inner in value.items() if not self.hides(key)}
        if isinstance(value, tuple):
            return tuple(self.masked(inner) for inner in value)
        return value

    def masked_uris(self, text: str) -> str:
        """Return ``text`` with the secrets of every URI in it replaced.

        ``amqp://u:p@h`` becomes ``amqp://***@h``, and ``amqps://h?password=p`` ``amqps://h?password=***``.
        """
        if "://" not in text:
            return text
        text = _USER_INFO.sub(rf"\g<scheme>{MASK}@", text)
        parts: list[str] = []
        position = 0
        for secret in self._secret_parameters(text):
            parts += [text[position : secret.start()], MASK]
            position = secret.end()
        return "".join([*parts, text[position:]])

    def shows_mask(self, text: str) -> bool:
        """Return whether ``text`` has a mask where `masked_uris` writes one."""
        return f"://{MASK}@" in text or any(found[0] == MASK for found in self._secret_parameters(text))

    def _secret_parameters(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the secret values of query parameters in ``text``."""
        position = 0
        while (named := _PARAMETER.search(text, position)) is not None:
            position = named.end()
            value = _PARAMETER_VALUE.match(text, position) if self.hides(named[1]) else None
            if value is not None:
                yield value
                position = value.end()


_DEFAULT_RULES = SecretRules()


def mask_uris(text: str) -> str:
    """Mask the secrets of URIs in ``text``, as `SecretRules.masked_uris` does, with the default patterns."""
    return _DEFAULT_RULES.masked_uris(text)
