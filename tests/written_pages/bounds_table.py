"""The table of bounds in ``docs/configuration.md``, written from the models; a test compares them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import AfterValidator

from gateway.yaml_documents import Duration, StrictModel, in_bounds

_HEAD = ("| section | key | from | to |", "| --- | --- | --- | --- |")
_ANY_DURATION = ("1ms", "366d")


def bounds_table(sections: Mapping[str, type[StrictModel]]) -> str:
    """One row in Markdown for each number and duration with bounds.

    Args:
        sections: the models, by the headings of the page.
    """
    rows = (
        f"| {heading.strip('# ')} | `{key}` | {least} | {most} |"
        for heading, section in sections.items()
        for key, least, most in _bounds(section)
    )
    return "\n".join([*_HEAD, *rows]) + "\n"


def _bounds(section: type[StrictModel]) -> Iterator[tuple[str, str, str]]:
    for key, field in section.model_fields.items():
        found = _of(field.metadata, field.annotation)
        if found is not None:
            yield key, *found


def _of(metadata: list[Any], annotation: Any) -> tuple[str, str] | None:  # noqa: ANN401  whatever a field has
    """Return the bounds of a value by its annotations, or by those within a type; ``None`` without any."""
    least = most = ""
    for each in metadata:
        check = each.func if isinstance(each, AfterValidator) else None
        if isinstance(check, functools.partial) and check.func is in_bounds:
            shortest, longest = check.args
            return shortest, longest
        low, high, above = (getattr(each, name, None) for name in ("ge", "le", "gt"))
        least = least or ("" if low is None else f"{low:,}")
        least = least or ("" if above is None else f"more than {above:,}")
        most = most or ("" if high is None else f"{high:,}")
    if least or most:
        return least, most
    if metadata[: len(_DURATION)] == _DURATION:
        return _ANY_DURATION
    inner = [part for part in get_args(annotation) if part is not type(None)]
    for part in inner:
        if getattr(part, "__metadata__", None):
            found = _of(list(part.__metadata__), part.__origin__)
            if found is not None:
                return found
    return None


_DURATION: list[Any] = list(get_args(Duration)[1:])
