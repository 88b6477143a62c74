"""Pieces of SMIv2 text (RFC 2578, RFC 2580): quoted strings, clauses, and what is written again and again.

Everything that a peer may have said passes `quoted` before it stands in a module.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

_WIDTH = 78
_MAX_CHARACTERS = 4_000


def plain(text: str) -> str:
    """``text`` in printable ASCII without double quotes, white space folded, and of bounded length."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "replace").decode("ascii")
    printable = "".join(c if c.isprintable() else " " for c in ascii_only.replace('"', "'"))
    folded = " ".join(printable.split())
    return folded if len(folded) <= _MAX_CHARACTERS else folded[: _MAX_CHARACTERS - 3] + "..."


def quoted(text: str, indent: int) -> str:
    """``text`` as a quoted string on lines of its own, each ``indent`` columns in."""
    margin = " " * indent
    lines = textwrap.wrap(plain(text), _WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False)
    return margin + '"' + f"\n{margin} ".join(lines or [""]) + '"'


def definition(head: str, clauses: Sequence[tuple[str, str]], value: str) -> str:
    """A macro invocation: ``head``, its clauses in order (a DESCRIPTION is quoted), and its value."""
    lines = [head]
    for keyword, text in clauses:
        if keyword == "DESCRIPTION":
            lines += ["    DESCRIPTION", quoted(text, 8)]
        else:
            lines.append(f"    {keyword}{text}" if text[:1] == "\n" else f"    {keyword:<11} {text}")
    return "\n".join([*lines, f"    ::= {{ {value} }}"])


def object_type(
    descriptor: str, syntax: str, access: str, status: str, description: str, value: str, units: str = ""
) -> str:
    """An OBJECT-TYPE of one line for each clause but the description."""
    clauses = [("SYNTAX", syntax)]
    if units:
        clauses.append(("UNITS", quoted(units, 0)))
    clauses += [("MAX-ACCESS", access), ("STATUS", status), ("DESCRIPTION", description)]
    return definition(f"{descriptor} OBJECT-TYPE", clauses, value)


def listed(names: Iterable[str], indent: int) -> str:
    """Names in braces, one on each line."""
    margin = " " * indent
    return "{\n" + ",\n".join(f"{margin}    {name}" for name in names) + f"\n{margin}}}"


def imports(names: Mapping[str, Iterable[str]]) -> str:
    """The IMPORTS clause, from the names wanted of each module; modules and names in alphabetical order."""
    blocks = []
    for module in sorted(names):
        lines = textwrap.wrap(
            ", ".join(sorted(set(names[module]))), _WIDTH - 4, initial_indent="    ", subsequent_indent="    "
        )
        blocks.append("\n".join(lines) + f"\n        FROM {module}")
    return "IMPORTS\n" + "\n".join(blocks) + ";"
