"""The table of ``docs/operations.md``, written from `families`; a test compares the page with it."""

from __future__ import annotations

from gateway.service.metrics.families import FAMILIES

_HEAD = ("| family | kind | labels | meaning |", "| --- | --- | --- | --- |")


def metrics_table() -> str:
    """One row in Markdown for each family, in their order."""
    rows = (
        f"| `{family.name}` | {family.kind} | {', '.join(f'`{name}`' for name in family.labels)} "
        f"| {family.help.removesuffix('.')} |"
        for family in FAMILIES
    )
    return "\n".join([*_HEAD, *rows]) + "\n"
