"""The wheel and the source distribution: what travels in them, under which names."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.jmx.java_build import JAR_NAME, digest_of_jar, source_digest

ROOT = Path(__file__).parent.parent


def built(
    target: str, folder: Path, checkout: Path = ROOT, environment: dict[str, str] | None = None
) -> Path:
    """What our own build back-end makes of ``checkout``."""
    subprocess.run(  # noqa: S603  our own build back-end
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)],
        cwd=checkout,
        check=True,
        capture_output=True,
        env=environment,
    )
    (path,) = folder.glob("amqp_management_gateway-*")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(built("wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


def files_of(folder: str) -> set[str]:
    return {
        path.relative_to(ROOT / folder).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("folder", ["mappings", "mibs"])
def test_mappings_and_mibs_travel_in_the_wheel(wheel: zipfile.ZipFile, folder: str) -> None:
    prefix = f"gateway/shipped/{folder}/"
    shipped = {name.removeprefix(prefix) for name in wheel.namelist() if name.startswith(prefix)}
    assert shipped == files_of(folder)
    assert shipped


def test_every_module_of_the_package_travels_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    modules = {f"gateway/{name}" for name in files_of("gateway") if name.endswith(".py")}
    assert modules <= set(wheel.namelist())


def test_the_wheel_brings_the_console_script_and_no_tests(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "amqp-gateway = gateway.cli.main:main" in wheel.read(entry_points).decode()
    assert not [name for name in wheel.namelist() if name.startswith(("tests/", "docs/"))]


def test_the_wheel_carries_the_compiled_java_classes_and_not_their_sources(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    jar = tmp_path / JAR_NAME
    jar.write_bytes(wheel.read(f"gateway/shipped/java/{JAR_NAME}"))
    assert digest_of_jar(jar) == source_digest()
    assert not [name for name in wheel.namelist() if name.startswith("gateway/jmx/java/")]


def test_a_source_distribution_makes_the_same_wheel_without_a_java_compiler(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    archive = built("sdist", tmp_path / "sdist")
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", tmp_path], check=True)  # noqa: S603, S607
    (checkout,) = tmp_path.glob("amqp_management_gateway-*")
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    jar = f"gateway/shipped/java/{JAR_NAME}"
    with zipfile.ZipFile(built("wheel", tmp_path / "wheel", checkout, environment)) as again:
        assert sorted(again.namelist()) == sorted(wheel.namelist())
        assert again.read(jar) == wheel.read(jar)
