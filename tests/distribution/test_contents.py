"""Wheel and source distribution: their files, the names of these, and the same octets in each build."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageMetadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gateway.jmx.java_build import JAR_NAME, digest_of_jar, source_digest
from tests.distribution.building import ROOT, built, copy_of_checkout, tracked, unpacked, without_compiler
from tests.distribution.environments import information
from tests.hypothesis_profiles import PROVING

pytestmark = pytest.mark.xdist_group("contents of a distribution")

JAR = f"gateway/shipped/java/{JAR_NAME}"
JAVA_SOURCES = "gateway/jmx/java/"
SDIST_ROOTS = {"gateway", "mappings", "mibs", "tests", "docs", "docker"}


@pytest.fixture(scope="module")
def wheel_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(wheel_path: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(wheel_path) as archive:
        yield archive


@pytest.fixture(scope="module")
def sdist_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def metadata(wheel_path: Path) -> PackageMetadata:
    return information(wheel_path).metadata


def in_wheel(name: str) -> str:
    """Return the name in the wheel of a file of the checkout."""
    folder = name.partition("/")[0]
    return f"gateway/shipped/{name}" if folder in {"mappings", "mibs"} else name


def test_the_wheel_has_the_package_with_its_data_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    ours = {name for name in tracked() if name.split("/")[0] in {"gateway", "mappings", "mibs"}}
    expected = {in_wheel(name) for name in ours if not name.startswith(JAVA_SOURCES)} | {JAR}
    names = set(wheel.namelist())
    information = {name for name in names if ".dist-info/" in name}
    assert names - information == expected
    assert {name.split(".dist-info/")[1] for name in information} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


@pytest.mark.parametrize(
    "name",
    [
        "gateway/py.typed",
        "gateway/shipped/mappings/rabbitmq.yaml",
        "gateway/shipped/mappings/oids/rabbitmq.oids.yaml",
        "gateway/shipped/mibs/AMQP-GATEWAY-MIB.mib",
        "gateway/shipped/mibs/AMQP-GATEWAY-RABBITMQ-MIB.mib",
        JAR,
    ],
)
def test_what_a_gateway_cannot_do_without_is_in_the_wheel(wheel: zipfile.ZipFile, name: str) -> None:
    assert wheel.getinfo(name).file_size > 0 or name.endswith("py.typed")


def test_the_wheel_brings_the_console_script(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "amqp-gateway = gateway.cli.main:main" in wheel.read(entry_points).decode()


def test_the_wheel_carries_the_compiled_java_classes(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    jar = tmp_path / JAR_NAME
    jar.write_bytes(wheel.read(JAR))
    assert digest_of_jar(jar) == source_digest()


def test_the_source_distribution_has_all_that_the_makefile_works_on(sdist_path: Path) -> None:
    names = {name for name in tracked() if name.split("/")[0] in SDIST_ROOTS}
    at_the_top = {name for name in tracked() if "/" not in name}
    with tarfile.open(sdist_path) as archive:
        found = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert found == names | at_the_top | {JAR, "PKG-INFO"}


def test_the_same_sources_make_the_same_octets_anywhere(
    wheel_path: Path, sdist_path: Path, tmp_path: Path
) -> None:
    """A wheel is made of the source distribution here, and so without a Java compiler.

    When proving, one is also made of a copy of the checkout.
    """
    (tmp_path / "nothing").mkdir()
    copy = copy_of_checkout(tmp_path / "copy", 0o600)
    elsewhere = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    without_java = without_compiler(tmp_path / "nothing")
    before = os.umask(0o077)
    try:
        sdist = built("sdist", tmp_path / "sdist", copy, {**os.environ, **elsewhere})
        checkout = unpacked(sdist, tmp_path)
        wheels = [built("wheel", tmp_path / "wheel", checkout, {**without_java, **elsewhere})]
        if PROVING:
            wheels.append(built("wheel", tmp_path / "compiled", copy, {**os.environ, **elsewhere}))
    finally:
        os.umask(before)
    again = [sdist, *wheels]
    former = [sdist_path, *[wheel_path] * len(wheels)]
    assert [path.name for path in again] == [path.name for path in former]
    # Digests: where megabytes differ, to show how takes pytest for ever.
    assert [sha256(path) for path in again] == [sha256(path) for path in former]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a whole file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.prove  # the build back-end does this; the time of the jar never differs, as its octets above
def test_the_time_in_the_archives_is_what_the_builder_says(tmp_path: Path) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    with zipfile.ZipFile(built("wheel", tmp_path / "wheel", environment=environment)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}


@pytest.mark.parametrize(("locked", "extra"), [("requirements.txt", ""), ("requirements-spark.txt", "spark")])
def test_what_is_locked_is_what_the_wheel_wants(metadata: PackageMetadata, locked: str, extra: str) -> None:
    pinned = {}
    for line in (ROOT / locked).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            pin = Requirement(line.partition("\\")[0].strip())
            if pin.marker is None or pin.marker.evaluate():
                pinned[canonicalize_name(pin.name)] = next(iter(pin.specifier)).version
    wanted = [Requirement(text) for text in metadata.get_all("Requires-Dist") or ()]
    wanted = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": extra})]
    assert wanted
    for one in wanted:
        assert one.specifier.contains(pinned[canonicalize_name(one.name)]), one


def test_the_extra_for_spark_is_there(metadata: PackageMetadata) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata.get_all("Provides-Extra") == sorted(project["optional-dependencies"]) == ["spark"]
