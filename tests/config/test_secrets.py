"""Secrets are read from their configured places, and are in no text of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.types import MAX_SECRET_OCTETS, SecretError, SecretSource


def test_a_secret_of_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n", encoding="utf-8")
    secret = SecretSource(file=Path("password")).read(tmp_path)
    assert secret.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(secret)


def test_a_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUR_PASSWORD", "hunter2")
    assert SecretSource(env="OUR_PASSWORD").read(tmp_path).get_secret_value() == "hunter2"


@pytest.mark.parametrize("value", ["", None])
def test_a_variable_that_is_not_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    monkeypatch.delenv("OUR_PASSWORD", raising=False)
    if value is not None:
        monkeypatch.setenv("OUR_PASSWORD", value)
    with pytest.raises(SecretError) as raised:
        SecretSource(env="OUR_PASSWORD").read(tmp_path)
    assert str(raised.value) == ("the environment variable OUR_PASSWORD is not set: it should hold a secret")


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SecretError) as raised:
        SecretSource(file=Path("password")).read(tmp_path)
    assert str(raised.value) == (f"{tmp_path}/password: the secret cannot be read: No such file or directory")


@pytest.mark.parametrize(
    ("octets", "what"),
    [
        (b"", f"a secret has 1 to {MAX_SECRET_OCTETS} bytes, this has none"),
        (b" \n", f"a secret has 1 to {MAX_SECRET_OCTETS} bytes, this has none"),
        (b"x" * (MAX_SECRET_OCTETS + 1), f"a secret has 1 to {MAX_SECRET_OCTETS} bytes, this has more"),
        (b"hunter\xff2", "the secret cannot be read: not UTF-8 text"),
    ],
)
def test_a_file_that_holds_no_secret(tmp_path: Path, octets: bytes, what: str) -> None:
    (tmp_path / "password").write_bytes(octets)
    with pytest.raises(SecretError) as raised:
        SecretSource(file=Path("password")).read(tmp_path)
    assert str(raised.value) == f"{tmp_path}/password: {what}"


def test_a_file_without_end_is_not_read_to_it() -> None:
    with pytest.raises(SecretError, match="this has more"):
        SecretSource(file=Path("/dev/zero")).read(Path("/"))
