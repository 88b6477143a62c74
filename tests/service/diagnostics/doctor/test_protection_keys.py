"""Keys of protected sources that are missing, or end soon, are findings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.model.times import DAY, HOUR
from gateway.protection.key_files import KeyFolder
from gateway.protection.keys import Use, generated, revoked, rotated
from gateway.service.diagnostics.doctor import Level
from gateway.service.diagnostics.doctor.protection_keys import key_findings
from tests.components.command_line import new_site


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedConfiguration:
    """Return a configuration with a protected source and a plain one, and all keys."""
    site = new_site(tmp_path)
    amqp = {"url": "amqp://broker.example.org", "user": "gateway", "password": site.secret("sesame")}
    plain = {"kind": "qmf", "amqp": amqp, "trusted_users": ["agent"]}
    protected = {"sign_as": "office", "encrypt_for": "agent", "trusted": ["agent"]}
    site.configure(sources={"plain": plain, "shop": {**plain, "protected": protected}})
    for name in ("office", "agent"):
        folder(tmp_path).write(name, generated((Use.SIGN, Use.READ)))
    return load_configuration(site.configuration)


def folder(path: Path) -> KeyFolder:
    return KeyFolder(path / "keys")


def found(loaded: LoadedConfiguration) -> list[tuple[str, Level, str]]:
    return [(each.subject, each.level, each.text) for each in key_findings(loaded, time.time_ns())]


def test_good_keys_are_one_finding_for_each_source(loaded: LoadedConfiguration) -> None:
    assert found(loaded) == [("shop", Level.GOOD, "all that are needed are there, and accepted")]


def test_a_missing_file_is_a_problem(loaded: LoadedConfiguration, tmp_path: Path) -> None:
    folder(tmp_path).private_path("office").unlink()
    levels = [(subject, level) for subject, level, _ in found(loaded)]
    assert levels == [("shop", Level.PROBLEM)] * 2


def test_a_revoked_key_without_another_is_a_problem(loaded: LoadedConfiguration, tmp_path: Path) -> None:
    keys = folder(tmp_path)
    ring = keys.private("agent")
    keys.write("agent", revoked(ring, ring.keys[0].kid, time.time_ns()))
    ((_, level, text),) = found(loaded)
    assert level is Level.PROBLEM
    assert text.startswith("agent has no key that signs now")


def test_a_key_that_ends_soon_without_a_successor_is_a_warning(
    loaded: LoadedConfiguration, tmp_path: Path
) -> None:
    keys, now = folder(tmp_path), time.time_ns()
    ring = rotated(keys.private("office"), now, now + DAY, HOUR)
    keys.write("office", ring)
    assert [level for _, level, _ in found(loaded)] == [Level.GOOD]
    (successor,) = (key for key in ring.keys if key.not_before and key.use is Use.SIGN)
    keys.write("office", revoked(ring, successor.kid, now))
    ((_, level, text),) = found(loaded)
    assert level is Level.WARNING
    assert text == "the key of office that signs ends within 7 days, and none follows"
