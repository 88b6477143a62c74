"""The build of the Java classes: the same octets each time, with either compiler."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.jmx import java_runtime
from gateway.jmx.java_build import (
    JAVA_RELEASE,
    SOURCES,
    Compiler,
    JavaBuildError,
    build_jar,
    digest_of_jar,
    find_compilers,
    find_py4j_jar,
    source_digest,
)
from gateway.jmx.java_runtime import JavaMissingError
from tests.components.java_classes import JAVAC

JAVA_11_CLASS_FILES = 55  # JVM Specification, table 4.1-A


def compilers(name: str) -> list[Compiler]:
    """The JDK's, or Debian's ecj as it can be called here."""
    found = list(find_compilers())
    return [one for one in found if (Path(one.command[0]).name == "javac") == (name == "javac")]


def names_of(jar: Path) -> set[str]:
    with zipfile.ZipFile(jar) as archive:
        return set(archive.namelist())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "amqp-gateway" / "java"


def test_each_compiler_makes_the_same_octets_each_time_for_java_11(tmp_path: Path) -> None:
    """The next compiler is tried where the first one cannot compile."""
    jars = {}
    broken = Compiler((str(tmp_path / "no-such-javac"),), ())
    for name in ("javac", "ecj"):
        jars[name], again = tmp_path / f"{name}.jar", tmp_path / f"{name}-again.jar"
        build_jar(jars[name], compilers=compilers(name))
        build_jar(again, compilers=[broken, *compilers(name)])
        assert jars[name].read_bytes() == again.read_bytes()
        assert digest_of_jar(jars[name]) == source_digest()
        with zipfile.ZipFile(jars[name]) as archive:
            main = archive.read("amqp/gateway/jmx/Main.class")
        assert int.from_bytes(main[6:8], "big") == JAVA_11_CLASS_FILES
    assert names_of(jars["javac"]) == names_of(jars["ecj"])


def test_javac_has_nothing_to_remark(tmp_path: Path) -> None:
    sources = [str(path) for path in SOURCES.rglob("*.java")]
    options = ["--release", str(JAVA_RELEASE), "-Xlint:all", "-Werror", "-classpath", str(find_py4j_jar())]
    done = subprocess.run(  # noqa: S603  the JDK
        [*JAVAC, *options, "-d", str(tmp_path), *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_other_sources_have_another_digest(tmp_path: Path) -> None:
    shutil.copytree(SOURCES, tmp_path / "java")
    assert source_digest(tmp_path / "java") == source_digest()
    (tmp_path / "java" / "amqp" / "gateway" / "jmx" / "Extra.java").write_text("")
    assert source_digest(tmp_path / "java") != source_digest()


def test_what_is_no_jar_of_ours_has_no_digest(tmp_path: Path) -> None:
    (tmp_path / "text.jar").write_text("no zip")
    assert digest_of_jar(tmp_path / "text.jar") is None
    assert digest_of_jar(tmp_path / "missing.jar") is None
    assert digest_of_jar(find_py4j_jar()) is None


def test_sources_that_do_not_compile_leave_nothing_and_say_where(tmp_path: Path) -> None:
    sources = tmp_path / "java"
    sources.mkdir()
    (sources / "Broken.java").write_text("class Broken { int }")
    with pytest.raises(JavaBuildError, match=r"Broken\.java"):
        build_jar(tmp_path / "jars" / "a.jar", sources, compilers("javac"))
    assert not (tmp_path / "jars").exists()


def test_without_a_compiler_the_message_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(JavaBuildError, match="install ecj or a JDK"):
        build_jar(tmp_path / "a.jar", compilers=[])


def test_a_checkout_compiles_on_first_use_only_and_several_may_at_a_time(cache: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = {future.result() for future in [pool.submit(java_runtime.class_path) for _ in range(2)]}
    ((jar, py4j),) = found
    assert list(cache.iterdir()) == [jar] == [cache / f"{source_digest()}.jar"]
    assert py4j == find_py4j_jar()
    written = jar.stat().st_mtime_ns
    assert java_runtime.class_path() == (jar, py4j)
    assert jar.stat().st_mtime_ns == written


def test_a_damaged_jar_is_made_again_and_old_ones_are_removed(cache: Path) -> None:
    cache.mkdir(parents=True)
    damaged = cache / f"{source_digest()}.jar"
    damaged.write_bytes(b"half")
    for number in range(12):
        (cache / f"{number:040x}.jar").touch()
    jar, _ = java_runtime.class_path()
    assert jar == damaged
    assert digest_of_jar(jar) == source_digest()
    assert len(list(cache.iterdir())) == 8


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(JavaMissingError, match="set XDG_CACHE_HOME to a folder of yours"):
        java_runtime.class_path()


def test_without_a_compiler_a_checkout_says_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissingError, match="install ecj or a JDK"):
        java_runtime.class_path()
    assert not list(cache.glob("*.jar"))
