"""Short names of objects for a picture: no longer than it takes to tell them apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from gateway.analytics.reports.readable import printable

_INCARNATION = re.compile(r"(?<!\\)#.*", re.DOTALL)
"""What tells the incarnations of a transient object apart, at the end of its stable name."""


def labels(names: Mapping[str, str]) -> dict[str, str]:
    """What to call objects, by ``object_id``, given their stable names likewise.

    A name without what tells incarnations apart; with the source, where others have the same name; and the
    whole name where that is not enough.
    """
    short = {key: _INCARNATION.sub("", name) or name for key, name in names.items()}
    of_source = {
        key: f"{name} ({_source(key)})" if name in _repeated(short.values()) else name
        for key, name in short.items()
    }
    again = _repeated(of_source.values())
    return {key: printable(names[key] if name in again else name) for key, name in of_source.items()}


def _source(object_id: str) -> str:
    return object_id.rsplit("/", 2)[0]


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}
