"""Findings about the file of signed audit heads: whether it can be written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gateway.config.files import LoadedConfiguration
from gateway.service.diagnostics.doctor import Finding, Level

_ADVICE = "name a file under audit.heads.file that the gateway's user can write, or make this one so"


def audit_heads_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Yield a finding about the file of heads, if one is configured; nothing is written."""
    path = loaded.heads_file
    if path is None or not loaded.settings.log.enabled:
        return
    try:
        trouble = _trouble(path)
    except OSError as error:
        trouble = error.strerror or str(error)
    if trouble:
        yield Finding("audit-heads", Level.PROBLEM, f"{path}: {trouble}", _ADVICE)
    else:
        yield Finding("audit-heads", Level.GOOD, f"{path}: can be written")


def _trouble(path: Path) -> str:
    """Return why the file cannot be written; empty where nothing is known against it.

    Raises:
        OSError: its folder cannot be searched, or does not answer.
    """
    folder = path.parent
    if not folder.is_dir():
        return "its folder is missing, and the gateway makes none"
    try:
        found = path.stat()
    except FileNotFoundError:
        if not os.access(folder, os.W_OK | os.X_OK):
            return "is missing, and this user may not make it: its folder cannot be written"
    else:
        if stat.S_ISDIR(found.st_mode):
            return "is a folder"
        if not os.access(path, os.W_OK):
            return "this user may not write it, or its disk is mounted read-only"
    if os.statvfs(folder).f_bavail == 0:
        return "its disk is full"
    return ""
