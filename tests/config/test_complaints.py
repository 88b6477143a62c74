"""Mistakes of a person in ``gateway.yaml``: the complaints, word for word, and their places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.model import Configuration
from gateway.yaml_documents import (
    MAX_COMPLAINTS,
    MAX_DEPTH,
    MAX_DOCUMENT_OCTETS,
    DocumentError,
    read_document,
)
from tests.config.sample import RABBITMQ, TAG, complaints


@pytest.fixture(params=[True, False], ids=["libyaml", "PyYAML"], autouse=True, scope="module")
def parser(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run with both parsers: a PyYAML that was built without libyaml has its own."""
    assert yaml.__with_libyaml__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", request.param)
        yield


def test_the_sample_that_the_others_vary_is_right() -> None:
    assert complaints(RABBITMQ) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1: version: is required"),
        ("site: Berlin\n", "1: version: is required"),
        ("version: 2\n", "1: version: must be 1"),
        ("version: true\n", "1: version: cannot be true or false"),
        ("version: 1\njmx: {heap: true}\n", "2: jmx.heap: cannot be true or false"),
        (
            "version: 1\nlog: {max_size: 0100}\n",
            "2: a whole number has decimal digits only, and no 0 before them; a text takes quotes",
        ),
        (
            "version: 1\nsnmp:\n  listen: ['127.0.0.1:7', '127.0.0.1:7']\n",
            "3: snmp.listen.1: has the port of snmp.listen.0, at the same address: take another",
        ),
        (
            "version: 1\nsnmp: {listen: ['127.0.0.1:7', '[::]:7', '0.0.0.0:7']}\n",
            "2: snmp.listen.2: has the port of snmp.listen.0, at the same address: take another",
        ),
        (
            "version: 1\njmx: {enabled: true}\nmetrics: {enabled: true, listen: '0.0.0.0:9990'}\n",
            "3: metrics.listen: has the port of jmx.listen, at the same address: take another",
        ),
        (  # Java listens at all addresses of both families then.
            (
                "version: 1\njmx: {enabled: true, listen: '[::]:7', hostname: g, allow_plain_text: true}\n"
                "metrics: {enabled: true, listen: '127.0.0.1:7'}\n"
            ),
            "3: metrics.listen: has the port of jmx.listen, at the same address: take another",
        ),
        (
            (
                "version: 1\njmx: {enabled: true, listen: '0.0.0.0:7', hostname: g, allow_plain_text: true}\n"
                "metrics: {enabled: true, listen: '[::1]:7'}\n"
            ),
            "3: metrics.listen: has the port of jmx.listen, at the same address: take another",
        ),
        ("version: 1\nsnpm: {}\n", "2: snpm: unknown key"),
        (RABBITMQ + "    interfal: 5s\n", "8: sources.orders.interfal: unknown key"),
        ("version: 1\nsite: A\nsite: B\n", "3: the key 'site' stands here for the second time"),
        ("version: 1\n1: 2\n", "2: 1: is no text: a key must be text"),
        ("version: 1\n? [site]\n: A\n", "2: a key is a word, no list and no mapping"),
        ("null", "1: takes keys with values"),
        ("[version, 1]", "1: takes keys with values"),
        ("version: 1\nsources: [orders]\n", "2: sources: takes keys with values"),
        ("version: 1\nsources:\n  orders:\n", "3: sources.orders: takes keys with values"),
        ("version: 1\nsite: 7\n", "2: site: must be text; put quotes around what looks like something else"),
        ("version: 1\nsnmp:\n  enabled: maybe\n", "3: snmp.enabled: must be true or false"),
        ("version: 1\nsnmp:\n  listen: 127.0.0.1:1161\n", "3: snmp.listen: takes a list"),
        (RABBITMQ + "    max_objects: many\n", "8: sources.orders.max_objects: must be a whole number"),
        (
            "version: 1\nfeed: {max_waiting_records: 5}\n",
            "2: feed.max_waiting_records: must be 1000 or more",
        ),
        (
            "version: 1\nhistory:\n  ends: 2\n",
            "3: history.ends: must be 10 or more",
        ),
        (
            RABBITMQ + "    budget: 0.9\n",
            "8: sources.orders.budget: must be 0.5 or less",
        ),
    ],
)
def test_keys_and_types(text: str, complaint: str) -> None:
    assert complaints(text) == [complaint]


def test_rules_that_differ_for_more_principals_than_the_front_ends_take() -> None:
    rules = [f"    - {{who: ['cli:user{number}'], invoke: [purge]}}\n" for number in range(254)]
    text = f"version: 1\noperations:\n  allow:\n{''.join(rules)}"
    assert complaints(text) == []
    (complaint,) = complaints(text + "    - {who: ['cli:another'], invoke: [purge]}\n")
    assert complaint.startswith("3: operations.allow: principals have 257 different sets of roles")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("version: 1\n---\nversion: 1\n", "2: a second document begins here; there can be one in a file"),
        (
            "version: 1\nsite: &name A\nstate: {folder: &name B}\n",
            "3: an anchor (&) of this name stands here for the second time",
        ),
        ("version: 1\n# \x07\n", "2: the character U+0007 has no place in a text"),
        ("version: 1\nsite: !!bool maybe\n", f"2: {TAG}"),
        ("version: 1\n<<: {site: A}\n", "2: '<<' merges nothing here: write the keys out"),
        ("version: 1\nsite: <<\n", "2: '<<' merges nothing here: write the keys out"),
        ("version: 1\nsite: 2026-02-30\n", "2: looks like a number or date and is none; a text takes quotes"),
        (f"version: {'9' * 5000}\n", "1: looks like a number or date and is none; a text takes quotes"),
        (
            f"version: {'1:' * 200}1.0\n",
            "1: looks like a number or date and is none; a text takes quotes",
        ),
    ],
)
def test_what_is_more_than_it_takes(text: str, complaint: str) -> None:
    assert complaints(text) == [complaint]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("version: 1\nsite: A: B\n", "2: is not YAML: mapping values are not allowed"),
        ("version: 1\n\tsite: A\n", "2: is not YAML: found "),
        ("version: 1\nsite: 'A\n", "3: is not YAML: found unexpected end of stream"),
        ("version: 1\nsite: [A\n", "3: is not YAML: "),
    ],
)
def test_what_is_not_yaml_is_said_in_the_words_of_its_parser(text: str, complaint: str) -> None:
    [said] = complaints(text)
    assert said.startswith(complaint)


def test_every_mistake_is_reported_at_once() -> None:
    text = "version: 1\nsnpm: {}\nsnmp:\n  enabled: maybe\n"
    assert set(complaints(text)) == {"2: snpm: unknown key", "4: snmp.enabled: must be true or false"}


def test_very_many_mistakes_are_not_all_reported() -> None:
    text = "version: 1\n" + "".join(f"key{number}: 1\n" for number in range(1000))

    reported = complaints(text)

    assert reported[:2] == ["2: key0: unknown key", "3: key1: unknown key"]
    assert reported[MAX_COMPLAINTS:] == [f"1: and {1000 - MAX_COMPLAINTS} more"]


def test_a_key_of_many_lines_makes_one_line() -> None:
    assert complaints('version: 1\n"a\\nb": 1\n') == ["2: 'a\\nb': unknown key"]


def test_a_long_key_is_shortened() -> None:
    assert complaints(f"version: 1\n? {'k' * 5000}\n: 1\n") == [f"2: {'k' * 80}...: unknown key"]


def test_aliases_stand_for_what_was_written_once() -> None:
    text = RABBITMQ.replace("{env: PASSWORD}", "&secret {env: PASSWORD}") + (
        "  more: {kind: rabbitmq, management: 'http://127.0.0.1', user: gateway, password: *secret}\n"
    )
    assert complaints(text) == []


def test_aliases_do_not_multiply() -> None:
    laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n"
    for number in range(1, 12):
        laughs += f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n"
    assert complaints(laughs) == ["6: holds more than 500000 values"]


def test_an_alias_of_what_it_stands_in() -> None:
    assert complaints("version: 1\nsources: &all {orders: *all}\n") == [
        "2: an alias (*) of what it stands in"
    ]


def test_nesting_is_bounded() -> None:
    assert complaints("[" * 1000) == [f"1: is nested deeper than {MAX_DEPTH} levels"]


def test_a_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_bytes(b"#" * (MAX_DOCUMENT_OCTETS + 1))
    with pytest.raises(DocumentError) as raised:
        read_document(path, Configuration)
    assert str(raised.value) == f"{path}:1: is larger than {MAX_DOCUMENT_OCTETS} bytes"


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"^/dev/zero:1: cannot be read: is no regular file$"):
        read_document(Path("/dev/zero"), Configuration)


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_bytes("version: 1\nsite: München\n".encode("latin-1"))
    with pytest.raises(DocumentError) as raised:
        read_document(path, Configuration)
    assert str(raised.value) == f"{path}:2: is not UTF-8 text"


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as raised:
        read_document(tmp_path / "gateway.yaml", Configuration)
    assert str(raised.value) == f"{tmp_path}/gateway.yaml:1: cannot be read: No such file or directory"


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r":1: cannot be read: Is a directory$"):
        read_document(tmp_path, Configuration)


KEYS = ["version: 1", "sources:", "  a:", "kind: qmf", "password:", "\n", "\n  ", "# "]
SIGNS = ["&a", "*a", "!t", "<<:", "- ", "{", "}", "[", "]", "'", '"', "|", "? ", ": ", ", ", "="]
ODD_NUMBERS = ["0x", "0b_", "1:0", ".inf", "~", "2001-01-99"]
WORDS = st.sampled_from([*KEYS, *SIGNS, *ODD_NUMBERS])


@given(st.text() | st.lists(WORDS | st.characters(exclude_categories=["Cs"]), max_size=30).map("".join))
def test_any_text_is_a_configuration_or_complaints(text: str) -> None:
    for complaint in complaints(text):
        line, _, said = complaint.partition(": ")
        assert int(line) >= 1
        assert said


@given(st.binary(max_size=200))
def test_any_octets_are_a_configuration_or_complaints(
    tmp_path_factory: pytest.TempPathFactory, octets: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(octets)
    try:
        read_document(path, Configuration)
    except DocumentError as error:
        assert str(error).startswith(f"{path}:")  # noqa: PT017  either outcome is right


def test_a_list_is_not_called_too_short_for_what_is_wrong_in_it() -> None:
    (complaint,) = complaints("version: 1\nsnmp: { listen: [nowhere] }\n")
    assert complaint.startswith("2: snmp.listen.0: ")


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("{who: ['cli:*'], invoke: [purge]}", "4: operations.allow.0.who.0: a rule names its principals one"),
        (
            "{who: ['jmx:another'], invoke: [purge]}",
            "4: operations.allow.0.who.0: 'jmx:another' is not known",
        ),
        ("{who: ['cli:a'], set: ['rabbitmq:queue.*']}", "4: operations.allow.0.set.0: elements and methods"),
    ],
)
def test_what_can_match_nothing(rule: str, complaint: str) -> None:
    (found,) = complaints(f"version: 1\noperations:\n  allow:\n    - {rule}\n")
    assert found.startswith(complaint)
