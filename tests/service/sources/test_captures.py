"""The assignment of a source's sessions to files of captures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.config.files import LoadedConfiguration
from gateway.config.model import Configuration
from gateway.dialects import session
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.session import LinkUp
from gateway.links.capture_reading import captured_files
from gateway.service.sources.captures import Captures, CaptureTarget
from gateway.service.sources.standalone import CaptureStands, capture_source
from tests.links.captures import LeftCapture

CONFIG = ConsoleConfig(trust_anyone=True)
NOW = 1_800_000_000 * 10**9


@pytest.fixture(autouse=True)
def files_end_with_their_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be closed with the gateway that writes it, as if its process had ended."""
    monkeypatch.setattr("gateway.service.sources.captures.CaptureFile", LeftCapture)


def captured(captures: Captures) -> session.ConsoleSession:
    """Return a new session of the source ``field``."""
    return captures.session("field", "qmf", ConsoleSession(CONFIG), CONFIG)


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_a_source_without_capture_is_left_as_it_is(tmp_path: Path) -> None:
    captures = Captures(SystemClock(), {"other": CaptureTarget(tmp_path / "other.jsonl")})
    assert isinstance(captured(captures), ConsoleSession)
    assert list(tmp_path.iterdir()) == []


def test_a_gateway_that_is_started_again_keeps_what_was_captured_before(tmp_path: Path) -> None:
    target = CaptureTarget(tmp_path / "captures" / "field.jsonl", keeps=True)
    for _ in range(2):
        captured(Captures(SystemClock(), {"field": target})).handle(LinkUp("q"), NOW)

    files = captured_files(target.path)
    assert [file.name for file in files] == ["field.jsonl.1", "field.jsonl"]
    heads = [json.loads(file.read_text(encoding="utf-8").splitlines()[0]) for file in files]
    assert [head["part"] for head in heads] == [1, 1]
    assert {head["settings"]["trust_anyone"] for head in heads} == {True}


@pytest.mark.parametrize("keeps", [True, False])
def test_a_source_that_restarts_begins_another_file(tmp_path: Path, *, keeps: bool) -> None:
    path = tmp_path / "field.jsonl"
    captures = Captures(SystemClock(), {"field": CaptureTarget(path, keeps=keeps)})
    captured(captures)
    captured(captures).handle(LinkUp("q"), NOW)  # nothing had been captured yet
    assert captured_files(path) == [path]

    captured(captures).handle(LinkUp("q"), NOW)
    assert [lines(file) for file in captured_files(path)] == [3, 3]


def test_a_source_works_without_the_capture_that_cannot_be_made(tmp_path: Path) -> None:
    path = tmp_path / "none" / "field.jsonl"
    captures = Captures(SystemClock(), {"field": CaptureTarget(path)})
    assert isinstance(captured(captures), ConsoleSession)
    assert captures.trouble == {"field": f"{path}: No such file or directory"}


async def test_a_capture_that_cannot_be_made_ends_the_work(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hidden", encoding="ascii")
    amqp = {"url": "amqp://127.0.0.1:1", "user": "gateway", "password": {"file": "password"}}
    sources = {"field": {"kind": "qmf", "amqp": amqp, "trust_anyone": True}}
    settings = Configuration.model_validate({"version": 1, "sources": sources})
    loaded = LoadedConfiguration(settings, tmp_path / "gateway.yaml")
    reported: list[CaptureStands] = []

    target = CaptureTarget(tmp_path / "none" / "field.jsonl")
    await capture_source(loaded, "field", target, SystemClock(), reported.append)

    assert reported[-1].trouble.endswith("No such file or directory")
    assert (reported[-1].messages, reported[-1].records) == (0, 0)
