"""Bodies decoded at the command line."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli.decode import decode
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.messages import BrokerRequest, CommandComplete
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import COMMAND, amqp_gateway, environment
from tests.components.waiting import DEADLINE

GREETING = write(BrokerRequest(3))


def lines(tmp_path: Path, dialect: str, *objects: object) -> list[dict[str, Any]]:
    """Return the output for captured bodies."""
    file = tmp_path / "captured.jsonl"
    file.write_text(
        "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in objects), encoding="utf-8"
    )
    ended = amqp_gateway("decode", "--dialect", dialect, "--jsonl", "body_b64", file)
    assert ended.code is ExitCode.OK, ended.errors
    return [json.loads(line) for line in ended.output.splitlines()]


def b64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def test_a_body_is_shown_readably(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(GREETING + write(CommandComplete(3)))
    ended = amqp_gateway("decode", "--dialect", "am2", file)
    assert ended.code is ExitCode.OK
    assert ended.output == (
        "message: BrokerRequest\nsequence: 3\n---\nmessage: CommandComplete\nsequence: 3\ncode: 0\ntext: OK\n"
    )
    as_json = amqp_gateway("decode", "--dialect", "am2", "--json", file)
    assert json.loads(as_json.output)["messages"][0] == {"message": "BrokerRequest", "sequence": 3}


def test_what_is_no_body_is_reported_with_where_and_what_was_expected(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"O|T=Tank\n")
    ended = amqp_gateway("decode", "--dialect", "ami", file)
    assert ended.code is ExitCode.WRONG_VALUE
    assert "this is no body of ami: at offset" in ended.errors
    assert "in line 1" in ended.errors


def test_names_of_strangers_move_no_terminal(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_text('O|T="Tank"|x="\\u001b[2J"\n')
    assert "\x1b" not in amqp_gateway("decode", "--dialect", "ami", file).output


def test_each_captured_line_has_its_answer(tmp_path: Path) -> None:
    found = lines(
        tmp_path,
        "am01",
        {"body_b64": b64(b"AM01P\0"), "routing_key": "agent", "rev": "nonsense", "undecodable": True},
        {"body_b64": b64(b"AM1P\0\0\0\1"), "routing_key": "agent"},
        {"body_b64": b64(b"AM01"), "routing_key": 7},
        {"body_b64": "not base64"},
        {"body_b64": "QUFB\u00e9"},
        {"body_b64": 5},
        {"other": ""},
        "no JSON",
        [1],
    )
    assert [one["ok"] for one in found] == [True, True] + [False] * 7
    assert [one["messages"][0]["message"] for one in found[:2]] == ["PackageQuery", "PackageQuery"]
    assert found[0] == {
        "ok": True,
        "messages": [{"message": "PackageQuery", "sequence": 0, "revisions": ["2008-02"]}],
        "reencoded": True,
    }
    assert all(isinstance(one["error"], str) and one["error"] for one in found[2:])


def test_octets_of_a_connection_need_not_be_whole_lines(tmp_path: Path) -> None:
    found = lines(
        tmp_path,
        "ami",
        {"connection": 1, "dir": "to-relay", "body_b64": b64(b"S|level=4")},
        {"connection": 1, "dir": "to-application", "body_b64": b64(b"X\n")},
        {"connection": 1, "dir": "to-relay", "body_b64": b64(b"2\n")},
        {"dir": "to-relay", "body_b64": b64(b"S|level=4")},
    )
    values = [[reported.get("values") for reported in one["messages"]] for one in found]
    assert values == [[], [{}], [{"level": 42}], [{"level": 4}]]


def test_a_line_that_is_too_long_has_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cli.decode.MAX_LINE", 50)
    file = tmp_path / "captured.jsonl"
    file.write_text(
        "".join(f'{{"body": "{b64(GREETING * many)}"}}\n' for many in (1, 100, 1)), encoding="utf-8"
    )
    ended = CliRunner().invoke(decode, ["--dialect", "am2", "--jsonl", "body", str(file)])
    assert [json.loads(line)["ok"] for line in ended.output.splitlines()] == [True, False, True]


def test_a_byte_order_mark_is_passed_over_and_other_encodings_are_reported(tmp_path: Path) -> None:
    line = json.dumps({"body_b64": b64(GREETING)})
    (one,) = lines(tmp_path, "am2", f"\ufeff{line}")
    assert one["ok"]
    file = tmp_path / "utf-16.jsonl"
    file.write_text(line, encoding="utf-16")
    ended = amqp_gateway("decode", "--dialect", "am2", "--jsonl", "body_b64", file)
    assert json.loads(ended.output) == {"ok": False, "error": "the line is no JSON in UTF-8"}


def test_control_sequences_of_a_terminal_are_escaped_in_json_too(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_text('S|a="\\u009b2J \\u00e9 \\u202e"\n')
    ended = amqp_gateway("decode", "--dialect", "ami", "--json", file)
    assert '"\\u009b2J é \\u202e"' in ended.output
    assert json.loads(ended.output)["messages"][0]["values"] == {"a": "\x9b2J é \u202e"}


def test_a_disk_without_room_for_what_is_printed_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(GREETING)
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(  # noqa: S603  our own command
            [*COMMAND, "decode", "--dialect", "am2", str(file)],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=DEADLINE,
            check=False,
        )
    assert ended.returncode == ExitCode.FAILED
    assert (
        ended.stderr == b"amqp-gateway: No space left on device: the output is cut off, whatever was done: "
        b"look whether it was, else free some space, and run the command again\n"
    )


@pytest.mark.parametrize("dialect", ["cml", "am01", "am1", "am2", "ami"])
def test_hostile_lines_are_answered(tmp_path: Path, dialect: str) -> None:
    bodies = [b"", b"\0" * 100, b"<" * 10_000, b"AM2" * 5000, bytes(range(256))]
    objects = [{"body_b64": b64(body)} for body in bodies]
    assert len(lines(tmp_path, dialect, *objects, "[" * 100_000)) == len(bodies) + 1
