"""Names that SMIv2 accepts, made from any name that a peer may send, always in the same way.

Descriptors (RFC 2578 section 3.1) and the labels of enumerations (section 7.1.1) consist of ASCII letters
and digits, begin with a lower-case letter and have at most 64 characters. Names that differ in case only
are kept apart too, because managers exist that fold case.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection

MAX_DESCRIPTOR = 64
"""Characters of a descriptor or label at most."""

_KEYWORDS = frozenset({"current", "deprecated", "mandatory", "obsolete", "optional"})
"""Words of SMI that net-snmp does not take as labels of an enumeration: it then shows bare numbers."""

_HASH_LENGTH = 8
_WORD = re.compile(r"[A-Za-z0-9]+")


def words(text: str) -> list[str]:
    """The runs of ASCII letters and digits in ``text``; accents are dropped, other scripts replaced.

    Text of another script leaves no letters: it is then named by its hash, which is stable and unique.
    """
    plain = unicodedata.normalize("NFKD", text)
    found = _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))
    return found or ["x" + _hash(text)]


def upper_camel(text: str) -> str:
    """``message-stats.ack`` becomes ``MessageStatsAck``; capitals inside words stay."""
    return "".join(word[0].upper() + word[1:] for word in words(text))


def lower_camel(text: str) -> str:
    """Like `upper_camel` with a small first letter, and a letter in front where a digit comes first."""
    camel = upper_camel(text)
    return ("n" + camel) if camel[0].isdigit() else camel[0].lower() + camel[1:]


def label(text: str) -> str:
    """What the value ``text`` of an enumeration is called, before `unique`."""
    camel = lower_camel(text)
    return f"{camel}Value" if camel in _KEYWORDS else camel


def shortened(text: str, limit: int = MAX_DESCRIPTOR) -> str:
    """``text`` itself where it fits into ``limit`` characters, else its beginning and a hash of all of it."""
    return text if len(text) <= limit else text[: limit - _HASH_LENGTH] + _hash(text)


def unique(text: str, taken: Collection[str], limit: int = MAX_DESCRIPTOR) -> str:
    """``text`` shortened to ``limit``, with the first number from 2 on that makes it unlike all ``taken``.

    Args:
        text: a descriptor or label wanted.
        taken: the names in use, in lower case.
        limit: characters that the result may have.
    """
    name = shortened(text, limit)
    number = 1
    while name.lower() in taken:
        number += 1
        name = shortened(text, limit - len(str(number))) + str(number)
    return name


def _hash(text: str) -> str:
    encoded = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=_HASH_LENGTH // 2).hexdigest()
