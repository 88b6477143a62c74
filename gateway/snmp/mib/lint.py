"""Checks of MIB files by the tools that users have: smilint where it is installed, pysmi with pysnmp."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from pysmi.codegen import PySnmpCodeGen
from pysmi.compiler import MibCompiler
from pysmi.error import PySmiError
from pysmi.parser.smi import parserFactory
from pysmi.reader import FileReader
from pysmi.searcher import StubSearcher
from pysmi.writer import PyFileWriter
from pysnmp.error import PySnmpError
from pysnmp.smi.builder import DirMibSource, MibBuilder

from gateway.temporary_folders import temporary_folder

SMILINT_LEVEL = 6
"""Level 6 reports all but names of more than 32 characters: RFC 2578 section 3.1 allows up to 64."""

_SMILINT_SECONDS = 120
_SMILINT_LINE = re.compile(r"^(?P<file>.*?):(?P<line>\d+): (?P<text>.*)$")
_GOOD_STATES = frozenset({"compiled", "untouched"})


class LintComplaint(msgspec.Struct, frozen=True):
    """A complaint of a tool about a file; ``line`` is 0 where it names none."""

    tool: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return ``file:line: text (tool)``."""
        return f"{self.file}:{self.line}: {self.text} ({self.tool})"


_USUAL_FOLDERS: Final = ("/usr/share/snmp/mibs", "/usr/share/snmp/mibs/ietf", "/var/lib/mibs/ietf")

_BASE: Final = ("SNMPv2-SMI", "SNMPv2-TC", "SNMPv2-CONF", "SNMP-FRAMEWORK-MIB")


def base_folders() -> list[Path]:
    """Return folders of SNMPv2-SMI, -TC, -CONF and SNMP-FRAMEWORK-MIB: Debian's erlang-snmp has all."""
    erlang = sorted(Path("/usr/lib/erlang/lib").glob("snmp-*/mibs"))
    return [folder for folder in (*erlang, Path("/usr/share/snmp/mibs")) if folder.is_dir()]


def missing_base_modules() -> list[str]:
    """Return imported modules whose texts are in none of `base_folders`: Debian's `snmp` has none of them."""
    names = {file.stem for folder in base_folders() for file in folder.iterdir()}
    return [name for name in _BASE if name not in names]


def has_usual_modules() -> bool:
    """Return whether the modules that net-snmp's commands load by default exist: else each is an error."""
    usual = (Path(folder) for folder in _USUAL_FOLDERS)
    return any(
        folder.joinpath(f"IF-MIB{suffix}").exists() for folder in usual for suffix in ("", ".txt", ".mib")
    )


def have_smilint() -> bool:
    """Return whether smilint (Debian: smitools) is installed."""
    return shutil.which("smilint") is not None


def lint(path: Path, folders: Sequence[Path]) -> list[LintComplaint]:
    """Return all complaints about one file; its imports are looked for beside it and in ``folders``."""
    smilint = smilint_complaints(path, folders) if have_smilint() else []
    return smilint + pysmi_complaints(path, folders)


def smilint_complaints(path: Path, folders: Sequence[Path]) -> list[LintComplaint]:
    """Return the lines that smilint prints: its exit code means nothing, so every line counts.

    Raises:
        FileNotFoundError: it is not installed.
        subprocess.TimeoutExpired: it does not end in time.
    """
    smilint = shutil.which("smilint")
    if smilint is None:
        raise FileNotFoundError("smilint is not installed (Debian package smitools)")
    search = ":".join(str(folder) for folder in (path.parent, *folders))
    run = subprocess.run(  # noqa: S603  the file's name is one argument, and no shell reads it
        [smilint, "-s", "-l", str(SMILINT_LEVEL), str(path.resolve())],
        env={**os.environ, "SMIPATH": search},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_SMILINT_SECONDS,
        check=False,
    )
    printed = run.stdout.decode("utf-8", "replace").splitlines()
    return [_smilint_complaint(path, line) for line in printed if line.strip()]


def _smilint_complaint(path: Path, line: str) -> LintComplaint:
    found = _SMILINT_LINE.match(line)
    if found is None:
        return LintComplaint("smilint", str(path), 0, line)
    return LintComplaint("smilint", found["file"], int(found["line"]), found["text"])


def _name_user() -> None:
    """Give the user a name where the system has none: pysmi writes it into what it compiles."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = str(os.getuid())


def pysmi_complaints(path: Path, folders: Sequence[Path]) -> list[LintComplaint]:
    """Return errors of pysmi compiling the file or an imported one, or of pysnmp loading the result."""
    _name_user()
    with temporary_folder() as folder:
        compiled = str(folder)
        compiler = MibCompiler(_parser(), PySnmpCodeGen(), PyFileWriter(compiled))
        sources = (folder for folder in (path.parent, *folders) if folder.is_dir())
        compiler.add_sources(*(FileReader(str(folder), recursive=False) for folder in sources))
        compiler.add_searchers(StubSearcher(*PySnmpCodeGen.baseMibs))
        try:
            results = compiler.compile(path.stem, rebuild=True)
        except PySmiError as error:
            return [LintComplaint("pysmi", str(path), 0, str(error))]
        complaints = [
            LintComplaint("pysmi", str(path), 0, f"{name}: {state} {getattr(state, 'error', '')}".rstrip())
            for name, state in sorted(results.items())
            if str(state) not in _GOOD_STATES
        ]
        return complaints or _pysnmp_complaints(path, compiled)


@cache
def _parser() -> Any:  # noqa: ANN401  pysmi has no types
    """Return the parser of all files, which has no state: to make one takes as long as to read a module."""
    return parserFactory()()


def _pysnmp_complaints(path: Path, compiled: str) -> list[LintComplaint]:
    """Return errors of pysnmp loading a compiled module: only managers that use it see some faults."""
    builder = MibBuilder()
    builder.add_mib_sources(DirMibSource(compiled))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pysmi's code calls pysnmp by its older names
        try:
            builder.load_modules(path.stem)
        except PySnmpError as error:
            return [LintComplaint("pysnmp", str(path), 0, str(error))]
    return []
