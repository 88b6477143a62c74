"""``amqp-gateway audit`` without a gateway: its answers, and its errors in one line each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.eventlog.audit_statements import AuditKey, public_text
from gateway.eventlog.segment import list_segments
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Ended, new_site
from tests.eventlog.audited import AuditedLog
from tests.eventlog.logs import segment, update


def command(*words: str | Path) -> Ended:
    found = CliRunner().invoke(main, list(map(str, words)))
    return Ended(ExitCode(found.exit_code), found.stdout, found.stderr)


@pytest.fixture
async def log(tmp_path: Path) -> AuditedLog:
    """A log with the key and the heads beside it."""
    made = AuditedLog(tmp_path)
    await made.write(2)
    (tmp_path / "public.pem").write_text(public_text(made.key.public_key))
    (tmp_path / "heads").write_text("".join(f"{line}\n\n" for line in made.heads))
    return made


def verified(log: AuditedLog, *more: str | Path) -> Ended:
    beside = log.folder.parent
    given = ("--folder", log.folder, "--public-key", beside / "public.pem", "--heads", beside / "heads")
    return command("audit", "verify", *given, *more)


def test_a_log_that_is_whole(log: AuditedLog) -> None:
    found = verified(log)
    first, *rest = found.output.splitlines()
    assert found.code == ExitCode.OK
    assert first.endswith(
        ": 8 audited records, 1 to 8, of 2026-11-20T14:05:06.000000Z to 2026-11-20T15:05:12.000000Z"
    )
    assert rest == [
        "2 signed heads fit; the last one, of 2026-11-20T15:05:12.000000Z, is of record 8",
        "no audited record is missing, changed, moved or added",
    ]


def test_what_is_not_signed_yet_is_counted(log: AuditedLog) -> None:
    (log.folder.parent / "heads").write_text(log.heads[0])
    found = verified(log)
    assert "4 records at the end are not signed yet" in found.output
    (chain,) = map(json.loads, verified(log, "--json").output.splitlines())
    assert (chain["last"], chain["signed"], chain["heads"]) == (8, 4, 1)


def test_a_problem_is_a_line_and_the_exit_code(log: AuditedLog) -> None:
    list_segments(log.folder)[0].path.unlink()
    found = verified(log)
    assert found.code == ExitCode.DIFFERENCE
    assert found.output.startswith("missing: audit records 1 to 4 are missing, before 2026-11-20T15:")
    assert found.output.endswith("problems: 1\n")


def test_a_log_without_audited_records(tmp_path: Path) -> None:
    segment(tmp_path, 1, map(update, range(1, 5)))
    key = tmp_path / "key.pem"
    key.write_text(public_text(AuditKey.generate().public_key))
    found = command("audit", "verify", "--folder", tmp_path, "--public-key", key)
    assert found.code == ExitCode.OK
    assert found.output == f"{tmp_path}: there are no audited records: an earlier version wrote this log\n"


def test_a_damaged_segment_is_reported(log: AuditedLog) -> None:
    path = list_segments(log.folder)[0].path
    path.write_bytes(b"{" + path.read_bytes())
    found = verified(log)
    assert found.code == ExitCode.DIFFERENCE
    assert "amqp-gateway log verify reports each damaged file" in found.errors


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("no key", "a public key in PEM is expected, as `amqp-gateway audit key` prints it"),
        (AuditKey.generate().text, "a public key in PEM is expected, as `amqp-gateway audit key` prints it"),
    ],
    ids=["absent", "text", "private key"],
)
def test_what_is_no_public_key(log: AuditedLog, content: str | None, said: str) -> None:
    path = log.folder.parent / "other.pem"
    if content is not None:
        path.write_text(content)
    found = command("audit", "verify", "--folder", log.folder, "--public-key", path)
    assert (found.code, found.errors) == (ExitCode.USAGE, f"amqp-gateway: {path}: {said}\n")


def test_heads_that_cannot_be_read(log: AuditedLog) -> None:
    found = verified(log, "--heads", log.folder.parent / "absent")
    assert found.code == ExitCode.USAGE
    assert found.errors.endswith("absent: cannot be read: No such file or directory\n")


def test_a_line_without_an_end_is_no_head_and_takes_no_memory(log: AuditedLog) -> None:
    (log.folder.parent / "heads").write_bytes(b"x" * 100_000)
    found = verified(log)
    assert found.code == ExitCode.DIFFERENCE
    assert "line 1: is no signed statement: longer than 4096 bytes" in found.output


def test_there_is_no_key_before_the_first_start(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    found = command("audit", "key", "--config", site.configuration)
    assert found.code == ExitCode.STATE
    assert "there is no key yet: the gateway makes it at its first start" in found.errors


def test_a_key_that_is_none(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    (site.state.path / "secrets" / "audit-key.pem").write_text("none")
    found = command("audit", "key", "--config", site.configuration)
    assert found.code == ExitCode.STATE
    assert "a private key of Ed25519 in PEM is expected" in found.errors
    assert "remove the file: then a new key is made" in found.errors
