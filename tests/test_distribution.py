"""The wheel: what travels in it, under which names."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(  # noqa: S603  our own build back-end
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("amqp_management_gateway-*-py3-none-any.whl")
    with zipfile.ZipFile(path) as archive:
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
