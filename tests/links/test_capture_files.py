"""A capture of several files: their sequence, and the position at which a replay begins."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway.links.capture import CapturedSession
from gateway.links.capture_file import make_room
from gateway.links.capture_reading import CaptureError, captured_files, opened_capture
from gateway.links.replay import Outcome, replay
from tests.links.captures import AskingSession, capture_file, converse, lines, reading


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    converse(CapturedSession(AskingSession(), capture_file(path, largest_file=2000, files=3)), answers=30)

    files = captured_files(path)
    assert [file.name for file in files] == ["shop.jsonl.2", "shop.jsonl.1", "shop.jsonl"]
    assert all(file.stat().st_size <= 2000 for file in files)
    parts = [reading(file).head.part for file in files]
    assert parts == [parts[0], parts[0] + 1, parts[0] + 2]
    assert [lines(file)[0]["reply_to"] for file in files] == ["q", "q", "q"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_later_part_begins_with_a_link_that_is_up(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    converse(CapturedSession(AskingSession(), capture_file(path, largest_file=2000, files=1)), answers=30)
    session = AskingSession()

    replay(reading(path), session)

    assert captured_files(path) == [path]
    assert session.reply_to == "q"


def test_a_session_is_read_from_the_first_file_that_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    converse(CapturedSession(AskingSession(), capture_file(path, 2000, files=100)), answers=30)
    with opened_capture(path) as capture:
        whole = replay(capture, AskingSession())
    assert whole == Outcome(events=62, same=31)

    first, *_, last_but_one, _newest = captured_files(path)
    first.unlink()
    with opened_capture(path) as capture:
        assert capture.head.part == 2
        numbers = [record.line for record in capture.records]
    assert numbers == sorted(set(numbers))

    last_but_one.write_text("something else", encoding="ascii")
    with opened_capture(path) as capture:
        assert capture.head.part == len(captured_files(path)) + 1


def test_what_was_before_a_file_that_is_missing_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    converse(CapturedSession(AskingSession(), capture_file(path, 2000, files=100)), answers=30)
    newest = reading(path).head.part
    path.with_name("shop.jsonl.2").unlink()
    with opened_capture(path) as capture:
        assert capture.head.part == newest - 1


def test_a_session_before_is_another_capture(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    for answers in (30, 2):
        make_room(path, 100)
        converse(CapturedSession(AskingSession(), capture_file(path, 2000, files=100)), answers)
    with opened_capture(path) as capture:
        assert replay(capture, AskingSession()) == Outcome(events=6, same=3)


def test_a_file_that_is_no_capture_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "shop.jsonl").write_text("{}\n", encoding="ascii")
    with pytest.raises(CaptureError), opened_capture(tmp_path / "shop.jsonl"):
        pass
