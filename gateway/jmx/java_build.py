"""The compilation of the Java classes into a jar, byte for byte the same each time with the same compiler.

It is used when a wheel or a source distribution is built (`build_hook`) and on first use in a source checkout
(`java_runtime`). It imports the standard library only: a build has nothing else but py4j.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

SOURCES = Path(__file__).parent / "java"
"""The folder of the Java sources."""

JAR_NAME = "amqp-gateway-jmx.jar"
MANIFEST = "META-INF/MANIFEST.MF"
JAVA_RELEASE = 11
"""The oldest Java that the classes run on."""

# The earliest that a zip file can say: the time of compiling would make each jar another one.
_EARLIEST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o100644 << 16
_ECJ_JARS = tuple(
    Path("/usr/share/java", name) for name in ("ecj.jar", "eclipse-jdt-core-compiler-batch.jar")
)
"""Jars of ecj, for where the command ``ecj`` is missing, or as in Debian 13 does not find its own classes."""
_COMPILE_SECONDS = 300
_DIGEST_LINE = "Source-Digest: "


class JavaBuildError(Exception):
    """The classes cannot be compiled; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A Java compiler: its command, and its options for classes of Java 11."""

    command: tuple[str, ...]
    options: tuple[str, ...]


_JAVAC_OPTIONS = ("--release", str(JAVA_RELEASE), "-proc:none", "-Xlint:none", "-encoding", "UTF-8")
# Debian's ecj has no `--release` without a whole JDK: it compiles against the runtime that it runs on.
_ECJ_OPTIONS = (
    *("-source", str(JAVA_RELEASE), "-target", str(JAVA_RELEASE)),
    *("-proc:none", "-nowarn", "-encoding", "UTF-8"),
)
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options that halve the time that a compiler needs for as few files as ours."""


def find_compilers() -> Iterator[Compiler]:
    """Yield the compilers of this machine, best first: a JDK's javac, then Debian's ecj."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=str(Path(home, "bin"))) if home else None
    javac = javac or shutil.which("javac")
    if javac:
        yield Compiler((javac, *(f"-J{option}" for option in _QUICK_START)), _JAVAC_OPTIONS)
    ecj = shutil.which("ecj")
    if ecj:
        yield Compiler((ecj,), _ECJ_OPTIONS)
    java = shutil.which("java")
    for jar in _ECJ_JARS if java else ():
        if jar.exists():
            yield Compiler((str(java), *_QUICK_START, "-jar", str(jar)), _ECJ_OPTIONS)


def find_py4j_jar() -> Path:
    """Return the jar of py4j's own package, wherever pip has installed it.

    Raises:
        JavaBuildError: it is not there.
    """
    module = import_module("py4j").__file__
    assert module is not None
    package = Path(module).parent
    name = f"py4j{import_module('py4j.version').__version__}.jar"
    bases = (package.parent, package.parents[3], Path(sys.prefix))  # --target; --user and --prefix; venv
    candidates = [base / "share" / "py4j" / name for base in bases]
    try:
        files = metadata.distribution("py4j").files or ()
    except metadata.PackageNotFoundError:
        files = ()
    candidates += [Path(str(file.locate())) for file in files if file.name == name]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    raise JavaBuildError(f"py4j is installed without its {name}: install py4j again")


def source_digest(sources: Path = SOURCES) -> str:
    """Return 40 hexadecimal digits that are different for each state of the sources and way of compiling."""
    digest = hashlib.blake2b(repr((JAVA_RELEASE, find_py4j_jar().name)).encode(), digest_size=20)
    for path in _files(sources, "*.java"):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def build_jar(target: Path, sources: Path = SOURCES, compilers: Iterable[Compiler] | None = None) -> None:
    """Compile ``sources`` into the jar ``target``, which appears whole or not at all.

    Raises:
        JavaBuildError: there is no compiler, or none of them can do it.
    """
    found = list(find_compilers() if compilers is None else compilers)
    if not found:
        raise JavaBuildError(
            "no Java compiler was found for the JMX agent's classes: install ecj or a JDK (on Debian 12: "
            "apt-get install ecj; on newer ones libeclipse-jdt-core-compiler-batch-java; on any "
            "default-jdk-headless)"
        )
    failures = []
    with tempfile.TemporaryDirectory(prefix="amqp-gateway-java-") as folder:
        for number, compiler in enumerate(found):
            classes = Path(folder, str(number))
            failure = _compile(compiler, sources, classes)
            if not failure:
                _write_jar(target, classes, source_digest(sources))
                return
            failures.append(failure)
    raise JavaBuildError("\n".join(failures))


def digest_of_jar(jar: Path) -> str | None:
    """Return the `source_digest` of the sources that ``jar`` was built from; `None` if it has none."""
    try:
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(MANIFEST).decode().splitlines()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None
    return next((line.removeprefix(_DIGEST_LINE) for line in lines if line.startswith(_DIGEST_LINE)), None)


def _compile(compiler: Compiler, sources: Path, classes: Path) -> str:
    """Compile; return the error, or an empty text."""
    command = [
        *compiler.command,
        *compiler.options,
        *("-classpath", str(find_py4j_jar())),
        *("-d", str(classes)),
        *(str(path) for path in _files(sources, "*.java")),
    ]
    try:
        done = subprocess.run(  # noqa: S603  no shell; a compiler and our own files
            command,
            env={**os.environ, "JAVA_ARGS": " ".join(_QUICK_START)},  # of Debian's script for ecj
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_COMPILE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{compiler.command[0]}: {error}"
    return "" if done.returncode == 0 else f"{compiler.command[0]} failed:\n{done.stdout.strip()}"


def _write_jar(target: Path, classes: Path, digest: str) -> None:
    manifest = f"Manifest-Version: 1.0\r\n{_DIGEST_LINE}{digest}\r\n\r\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=".", suffix=".jar", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            _add(archive, MANIFEST, manifest.encode())
            for path in _files(classes, "*.class"):
                _add(archive, path.relative_to(classes).as_posix(), path.read_bytes())
        Path(partial).chmod(0o644)
        # Several processes may compile at the same time: each replaces the jar with a whole one of the same
        # content.
        Path(partial).replace(target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # Stored, because compressed octets depend on the version of zlib.
    entry = zipfile.ZipInfo(name, _EARLIEST_ZIP_TIME)
    # Unix, whatever the machine is: Python would write the system that it runs on.
    entry.create_system = 3
    entry.external_attr = _FILE_MODE
    archive.writestr(entry, content)


def _files(folder: Path, pattern: str) -> list[Path]:
    # In one order on every machine, for the same digest and the same jar.
    return sorted(folder.rglob(pattern), key=lambda path: path.relative_to(folder).as_posix())
