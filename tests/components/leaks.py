"""A search for secrets in everything that a program leaves: files, output, facts about its processes."""

from __future__ import annotations

import base64
import contextlib
import gzip
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

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


def leaks(secrets: Mapping[str, str], texts: Iterable[tuple[str, bytes]]) -> list[str]:
    """Return ``PLACE has SECRET`` for each secret that is in a text; both are given by their names."""
    wanted = [(name, form) for name, secret in secrets.items() for form in forms(secret)]
    return sorted({f"{place} has {name}" for place, text in texts for name, form in wanted if form in text})


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
