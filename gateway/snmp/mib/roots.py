"""The MIB modules below an organisation's own arc: the shipped texts with another root.

Only AMQP-GATEWAY-MIB has the root in numbers. All other modules hang below its ``agRoot`` by name, so that
their texts serve every root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gateway.durable_files import PUBLIC, write_durably
from gateway.file_owners import as_owner, existing
from gateway.snmp.ber import Oid, dotted

ROOT_MODULE: Final = "AMQP-GATEWAY-MIB"
"""The module that says where ``agRoot`` is."""

_ENTERPRISES: Final[Oid] = (1, 3, 6, 1, 4, 1)
_ISO: Final = 1
# net-snmp reads numbers of a module as signed integers of 32 bits.
_HIGHEST_ARC: Final = 2**31 - 1
_IS_ARC = r" +OBJECT IDENTIFIER ::= \{ \w+ \d+ \}\n"
_DEFINED = re.compile(rf"^(?:ag\w+{_IS_ARC})*?agRoot{_IS_ARC}", re.MULTILINE)
_STEP = re.compile(r"^(ag\w+) +OBJECT IDENTIFIER ::= \{ (\w+) (\d+) \}$", re.MULTILINE)
_NOTE = re.compile(r"The root below is .*?below that one\.\n", re.DOTALL)
_IMPORT: Final = "    enterprises, zeroDotZero\n"


class RootError(ValueError):
    """The modules cannot have this root; the text says why, and which roots are possible."""


def root_of(text: str) -> Oid:
    """Return the root that a text of AMQP-GATEWAY-MIB has.

    Raises:
        ValueError: it has none in the form that the shipped text and `with_root` have.
    """
    block = _DEFINED.search(text)
    known: dict[str, Oid] = {"enterprises": _ENTERPRISES, "iso": (_ISO,)}
    for name, parent, arc in _STEP.findall(block.group() if block else ""):
        if parent not in known:
            break
        known[name] = (*known[parent], int(arc))
    if "agRoot" not in known:
        raise ValueError("it does not define agRoot as the shipped AMQP-GATEWAY-MIB does")
    return known["agRoot"]


def with_root(text: str, root: Oid) -> str:
    """Return the text of AMQP-GATEWAY-MIB with another root.

    Args:
        text: the shipped text.
        root: the root, below ``iso``.

    Raises:
        RootError: no module can have this root so that all tools read it.
        ValueError: ``text`` is not in the form of the shipped one.
    """
    if root_of(text) == root:
        return text
    if root[0] != _ISO or max(root) > _HIGHEST_ARC:
        raise RootError(
            f"{dotted(root)}: MIB compilers read roots that begin with 1 and have no number above "
            f"{_HIGHEST_ARC}: take an arc below {dotted(_ENTERPRISES)}, where organisations have theirs"
        )
    rooted = _DEFINED.sub("\n".join(_steps(root)) + "\n", text, count=1)
    rooted = _NOTE.sub(
        f"This text was written\n-- by `amqp-gateway mib gen` for the root {dotted(root)}.\n", rooted, count=1
    )
    if root[: len(_ENTERPRISES)] != _ENTERPRISES or root == _ENTERPRISES:
        # smilint reports a symbol that is imported and not used.
        rooted = rooted.replace(_IMPORT, "    zeroDotZero\n", 1)
    return rooted


def _steps(root: Oid) -> Iterator[str]:
    """Yield a definition for each arc, because smilint reports arcs without a name."""
    below_enterprises = len(root) > len(_ENTERPRISES) and root[: len(_ENTERPRISES)] == _ENTERPRISES
    parent, first = ("enterprises", len(_ENTERPRISES)) if below_enterprises else ("iso", 1)
    for position in range(first, len(root)):
        is_last = position == len(root) - 1
        name = "agRoot" if is_last else f"agArc{position + 1}"
        if below_enterprises and position == first and not is_last:
            name = "agEnterprise"
        yield f"{name} OBJECT IDENTIFIER ::= {{ {parent} {root[position]} }}"
        parent = name


def rooted_modules(shipped: Path, root: Oid) -> Mapping[str, str]:
    """Return the texts of all shipped modules below a root, by name of file.

    Args:
        shipped: the folder of the shipped modules.
        root: the root.

    Raises:
        RootError: see `with_root`.
        OSError: a file cannot be read.
    """
    texts = {path.name: path.read_text("ascii") for path in sorted(shipped.glob("*.mib"))}
    file = f"{ROOT_MODULE}.mib"
    return texts | {file: with_root(texts[file], root)}


def write_rooted_modules(shipped: Path, folder: Path, root: Oid, *, dry_run: bool = False) -> list[Path]:
    """Write all shipped modules below a root into a folder, whose owner root is meanwhile.

    Args:
        shipped: the folder of the shipped modules.
        folder: where they are written; made if it does not exist.
        root: the root.
        dry_run: write nothing.

    Returns:
        The files that were (or would be) changed.

    Raises:
        RootError: see `with_root`.
        OSError: a file cannot be read or written.
    """
    changed = []
    texts = rooted_modules(shipped, root)
    with as_owner(existing(folder)):
        for name, text in texts.items():
            path = folder / name
            if not path.exists() or path.read_bytes() != text.encode():
                changed.append(path)
                if not dry_run:
                    folder.mkdir(parents=True, exist_ok=True)
                    write_durably(path, text, PUBLIC)
    return changed


def has_root(folder: Path, root: Oid) -> bool:
    """Return whether a folder has the gateway's own module with this root."""
    try:
        return root_of((folder / f"{ROOT_MODULE}.mib").read_text("ascii", "replace")) == root
    except (OSError, ValueError):
        return False
