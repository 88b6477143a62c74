"""A search for secrets in everything that a program leaves: files, output, facts about its processes."""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
import re
import sys
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil


def forms(secret: str) -> frozenset[bytes]:
    """Return the forms of a secret to search for, each of which identifies it.

    They are plain, reversed, URL-encoded, hexadecimal, in UTF-16, and the middle of base64 and base64url at
    each of the three positions in which a longer text may contain it.
    """
    octets = secret.encode()
    hexadecimal = octets.hex().encode()
    found = {
        octets,
        octets[::-1],
        urllib.parse.quote(secret, safe="").encode(),
        urllib.parse.quote_plus(secret, safe="").encode(),
        hexadecimal,
        hexadecimal.upper(),
        b":".join(re.findall(b"..", hexadecimal)),
        b" ".join(re.findall(b"..", hexadecimal)),
        secret.encode("utf-16-le"),
        secret.encode("utf-16-be"),
    }
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + octets)
        # The first characters depend on what stands before, the last ones on what follows.
        middle = encoded[(0, 2, 3)[shift] : len(encoded) - 4]
        found |= {middle, middle.replace(b"+", b"-").replace(b"/", b"_")}
    return frozenset(found)


def as_it_is(secret: str) -> frozenset[bytes]:
    """Return the plain form of a secret only."""
    return frozenset({secret.encode()})


def leaks(
    secrets: Mapping[str, str],
    texts: Iterable[tuple[str, bytes]],
    in_forms: Callable[[str], Iterable[bytes]] = forms,
) -> list[str]:
    """Return ``PLACE has SECRET`` for each secret that is in a text; both are given by their names."""
    wanted = [(name, form) for name, secret in secrets.items() for form in in_forms(secret)]
    may_have = _filter([form for _, form in wanted])
    return sorted(
        {
            f"{place} has {name}"
            for place, text in texts
            if may_have(text)
            for name, form in wanted
            if form in text
        }
    )


_BLOCK: Final = 8
"""The bytes that a search for many forms compares at once."""


def _filter(forms: Collection[bytes]) -> Callable[[bytes], bool]:
    """Return a function that quickly finds that a text has none of these forms, as nearly all have.

    A form of 15 bytes and more has one of the text's blocks of 8 bytes whole, wherever it begins. One pass
    over these blocks takes a small part of the time of a search for each form, above all where the text has
    many zeros, as databases have, and the reserve of a state folder, which has nothing else.
    """
    if any(len(form) < 2 * _BLOCK - 1 for form in forms):
        return lambda _: True
    parts = {
        int.from_bytes(form[begin : begin + _BLOCK], sys.byteorder)
        for form in forms
        for begin in range(len(form) - _BLOCK + 1)
    }

    def may_have(text: bytes) -> bool:
        blocks = memoryview(text)[: len(text) // _BLOCK * _BLOCK].cast("Q")
        return bool(text.strip(b"\0")) and not parts.isdisjoint(blocks)

    return may_have


def files_below(folder: Path, but: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the contents of each file, without those ``but`` or below them; gzip is unpacked."""
    left_out = tuple(but)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(path == one or one in path.parents for one in left_out):
            octets = path.read_bytes()
            yield str(path), gzip.decompress(octets) if path.suffix == ".gz" else octets
            yield f"{path} (its name)", str(path).encode()


def process_facts(root: int) -> Iterator[tuple[str, bytes]]:
    """Yield the command line, title and environment of a process and of all that it started."""
    top = psutil.Process(root)
    for process in (top, *top.children(recursive=True)):
        for fact in ("cmdline", "comm", "environ"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                text = Path(f"/proc/{process.pid}/{fact}").read_bytes()
                yield f"{fact} of {process.name()} ({process.pid})", text


SECRET_FOLDER = "secrets"
"""The folder of a gateway's state in which its secrets are."""

SECRET_FILES = ("secret-*", "snmp.conf", "*trapd.conf", "snmp.yml", "zabbix.log", "*.tar")
"""Other files that have secrets by intention.

They are those of `Site.secret`, the configurations of net-snmp and snmp_exporter, the log of Zabbix's Java
gateway, which has what it is sent, and backups.
"""

LEAKED = (
    "a secret of a gateway is outside of its place; if a test writes one there by intention, add the name of "
    "its file to SECRET_FILES in tests/components/leaks.py"
)
"""The message of a test that finds some."""

_RANDOM = re.compile(r"[A-Za-z0-9_+/=-]{16,}")
"""A line of a secret file that is random, so that it turns up nowhere else by chance: a password, a key."""

_MAX_OCTETS = 256
"""The maximum size of a password in a file."""

_OF_OTHERS = frozenset({"keeper.plan.json", "pyproject.toml"})
"""Files of folders that are not searched: a RabbitMQ decides itself what it keeps; sources are no output."""


def leaked_below(folder: Path, in_forms: Callable[[str], Iterable[bytes]] = forms) -> list[str]:
    """Return ``PLACE has SECRET`` for each random secret of a gateway that is in a file outside of its place.

    The secrets are those in the folders of states of gateways, and what `Site.secret` wrote. Each is searched
    for in each file, ``in_forms``.
    """
    kept, others = _kept_and_others(folder)
    secrets = {
        f"a line of {path}": line
        for path in kept
        for line in path.read_text("utf-8", "replace").splitlines()
        if _RANDOM.fullmatch(line)
    }
    return leaks(secrets, ((str(path), path.read_bytes()) for path in others), in_forms) if secrets else []


def _kept_and_others(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files with passwords and keys of gateways, and those that must have none of them."""
    kept, others = list[Path](), list[Path]()
    for parent, folders, names in os.walk(folder):
        if _OF_OTHERS.intersection(names):
            folders.clear()
            continue
        here = Path(parent)
        files = [path for path in map(here.joinpath, names) if path.is_file() and not path.is_symlink()]
        in_place = here.name == SECRET_FOLDER
        kept += [path for path in files if in_place or path.match(SECRET_FILES[0])]
        if not in_place:
            others += [path for path in files if not (any(map(path.match, SECRET_FILES)) or _is_secret(path))]
    return kept, others


def _is_secret(path: Path) -> bool:
    """Return whether a file has a secret and nothing else, as a test makes one for a command."""
    with path.open("rb") as file:
        return _RANDOM.fullmatch(file.read(_MAX_OCTETS).decode("utf-8", "replace").strip()) is not None
