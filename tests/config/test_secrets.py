"""Secrets are read from their configured places, and are in no text of ours."""

from __future__ import annotations

import ast
import re
import tempfile
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.config.secret_places import CREDENTIALS, MAX_SECRET_OCTETS, SecretError
from gateway.config.types import SecretSource
from gateway.service.state.snmp_security import StoredKeys
from gateway.snmp.message import Message
from gateway.snmp.templates.credentials import Community

ROOT = Path(__file__).parents[2]


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


def test_a_credential_of_systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("hunter2\n", encoding="utf-8")
    monkeypatch.setenv(CREDENTIALS, str(tmp_path))
    assert SecretSource(credential="orders").read(Path("/")).get_secret_value() == "hunter2"
    with pytest.raises(SecretError) as raised:
        SecretSource(credential="none").read(Path("/"))
    assert str(raised.value) == f"{tmp_path}/none: the secret cannot be read: No such file or directory"


def test_a_credential_where_systemd_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CREDENTIALS, raising=False)
    with pytest.raises(SecretError) as raised:
        SecretSource(credential="orders").read(Path("/"))
    assert str(raised.value).startswith(
        "the credential orders is not there, because $CREDENTIALS_DIRECTORY is not set: "
    )
    assert "LoadCredential=orders" in str(raised.value)


@pytest.mark.parametrize("name", ["", "../password", "/etc/shadow", ".hidden", "a b", "x" * 256])
def test_a_credential_is_a_file_of_its_folder(name: str) -> None:
    with pytest.raises(ValidationError):
        SecretSource(credential=name)


@pytest.mark.parametrize("places", [{}, {"env": "NAME", "credential": "orders"}])
def test_a_secret_has_one_place(places: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="give one of 'file', 'env' and 'credential'"):
        SecretSource.model_validate(places)


@given(st.binary(max_size=200))
def test_no_error_repeats_a_part_of_the_file(octets: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "password"
        path.write_bytes(octets)
        try:
            secret = SecretSource(file=path).read(Path("/"))
        except SecretError as error:
            text = "".join(traceback.format_exception(error)).replace(str(path), "")
            assert "codec" not in text
        else:
            assert secret.get_secret_value() == octets.decode().rstrip()


NAMES = re.compile(
    "(password|passphrase|community|secret|token|credential|authentication_key|privacy_key|private_key)$"
)
TEXTS = {"str", "bytes", "str | None", "bytes | None"}


def test_no_value_of_ours_shows_a_secret_when_it_is_printed() -> None:
    """A field that is called as a secret is of a type that never prints, or is left out of the text."""
    showing = []
    for path in sorted((ROOT / "gateway").rglob("*.py")):
        for part in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(part, ast.ClassDef):
                continue
            masked = any(isinstance(each, ast.FunctionDef) and each.name == "__repr__" for each in part.body)
            for each in part.body:
                if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
                    continue
                is_hidden = masked or "repr=False" in ast.unparse(each)
                if NAMES.search(each.target.id) and ast.unparse(each.annotation) in TEXTS and not is_hidden:
                    showing.append(f"{path.relative_to(ROOT)}: {part.name}.{each.target.id}")
    assert showing == []


def test_keys_of_users_and_communities_are_not_printed() -> None:
    keys = StoredKeys(engine_id="80001f8880", authentication="sha", authentication_key="ab" * 20)
    message = Message(1, b"hunter2", 0xA0, 0, 0)
    for text in (repr(keys), str(keys), repr(Community("hunter2")), repr(message), f"{message}"):
        assert "abab" not in text
        assert "hunter2" not in text


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


@pytest.mark.parametrize(
    ("octets", "remark"),
    [
        (b"hunter2", ""),
        (b"hun ter2\r\n\n", ""),
        (b"\xef\xbb\xbfhunter2\n", "begins with a byte order mark, which counts"),
        (b" hunter2\n", "begins with white space, which counts"),
        (b"hunter2 \n", "ends with white space, which does not count"),
        (b"hunter2\nhunter3\n", "has several lines, which all count"),
    ],
)
def test_what_is_probably_not_meant_so_in_a_file(tmp_path: Path, octets: bytes, remark: str) -> None:
    (tmp_path / "password").write_bytes(octets)
    place = SecretSource(file=Path("password"))
    assert place.read(tmp_path).get_secret_value() == octets.decode().rstrip()
    assert place.remark(tmp_path).startswith(f"{tmp_path}/password: {remark}" if remark else "")
    assert bool(place.remark(tmp_path)) is bool(remark)


def test_a_file_without_end_is_not_read_to_it() -> None:
    with pytest.raises(SecretError, match="/dev/zero: "):
        SecretSource(file=Path("/dev/zero")).read(Path("/"))
