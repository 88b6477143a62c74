"""The search for secrets finds each form, and nothing where there is none."""

from __future__ import annotations

import base64
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.components.leaks import as_it_is, files_below, forms, leaked_below, leaks

SECRET = "s3cret/of+us=4&all"


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        SECRET[::-1],
        urllib.parse.quote(SECRET, safe=""),
        f"amqp://user:{urllib.parse.quote_plus(SECRET)}@host",
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        SECRET.encode().hex(" "),
    ],
)
def test_each_form_is_found(text: str) -> None:
    assert leaks({"ours": SECRET}, [("log", f"before {text} after".encode())]) == ["log has ours"]


@given(st.binary(max_size=10), st.binary(max_size=10))
def test_base64_is_found_wherever_the_secret_begins(before: bytes, after: bytes) -> None:
    whole = before + SECRET.encode() + after
    for encoded in (base64.b64encode(whole), base64.urlsafe_b64encode(whole)):
        assert leaks({"ours": SECRET}, [("log", b"Basic " + encoded)]) == ["log has ours"]


@pytest.mark.parametrize("begin", range(8))
@pytest.mark.parametrize("length", range(16, 24))
def test_a_long_secret_is_found_wherever_it_begins(begin: int, length: int) -> None:
    secret = bytes(range(64, 64 + length)).decode("ascii")
    for form in forms(secret):
        assert leaks({"ours": secret}, [("log", bytes(begin) + form)]) == ["log has ours"]


def test_files_that_are_left_out_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "one").write_text(SECRET)
    (tmp_path / "log").write_text("nothing")
    assert leaks({"ours": SECRET}, files_below(tmp_path, [tmp_path / "secrets"])) == []
    assert leaks({"ours": SECRET}, files_below(tmp_path, [])) == [f"{tmp_path}/secrets/one has ours"]


def test_a_secret_of_a_gateway_is_found_outside_of_its_place(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("leaking")
    place = folder / "state" / "secrets"
    place.mkdir(parents=True)
    (place / "community").write_text("Zm9vYmFyYmF6cXV4\n")
    (folder / "secret-0").write_text("Zm9vYmFyYmF6cXV5")
    (folder / "snmp.conf").write_text("defCommunity Zm9vYmFyYmF6cXV4")
    assert leaked_below(folder) == []
    log = folder / "log"
    log.write_text("a login with Zm9vYmFyYmF6cXV5")
    try:
        for in_forms in (forms, as_it_is):
            assert leaked_below(folder, in_forms) == [f"{log} has a line of {folder / 'secret-0'}"]
        log.write_text("a login with Zm9vYmFyYmF6cXV5"[::-1])
        assert leaked_below(folder, as_it_is) == []
        assert len(leaked_below(folder)) == 1
    finally:
        log.unlink()
