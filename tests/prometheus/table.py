"""The table of `docs/prometheus.md`: the metrics that are shown by default.

``python -m tests.prometheus.table`` prints it.
"""

from __future__ import annotations

import sys

from gateway.mapping.files import class_schemas
from gateway.prometheus.families import DEFAULT_CLASSES, families_of
from tests.components.shipped_mappings import shipped_mappings


def table() -> str:
    """Markdown, one line for each family."""
    lines = ["| metric | type | element |", "| --- | --- | --- |"]
    for mapping in shipped_mappings().values():
        for schema in class_schemas(mapping).values():
            for position, family in families_of(schema, DEFAULT_CLASSES).items():
                suffix = "_total" if family.kind == "counter" else ""
                states = ", with the label `state`" if family.states else ""
                element = schema.elements[position].name
                lines.append(
                    f"| `{family.name}{suffix}` | {family.kind}{states} | `{schema.key}` `{element}` |"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
