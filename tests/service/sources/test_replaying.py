"""A capture is replayed whatever stands in it, or refused with the line that is wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.links.capture_reading import CaptureError
from gateway.service.sources.replaying import Replayed, replayed
from tests.components.shipped_mappings import shipped_mappings

START = 1_800_000_000 * 10**9
HEAD = {
    "capture": 1,
    "source": "field",
    "dialect": "am2",
    "received": "to-console",
    "sent": "to-agent",
    "part": 1,
    "ns": START,
    "kind": "qmf",
    "settings": {"believe_anyone": True},
}
CONNECTED = {"ns": START, "event": "connected", "reply_to": "q"}
MAPPINGS = shipped_mappings()


def said(ns: int, body: bytes) -> dict[str, object]:
    reported = {"exchange": "amq.direct", "routing_key": "q", "body_b64": base64.b64encode(body).decode()}
    return {"ns": ns, "dir": "to-console", **reported}


@contextmanager
def replayed_lines(*lines: object) -> Iterator[Replayed]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "field.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="ascii")
        with replayed(path, MAPPINGS, lambda _change, _view, _now: None) as result:
            yield result


def test_what_was_learnt() -> None:
    broker = said(START + 10**9, b"AM2b\0\0\0\1" + bytes(16))
    unreadable = said(START + 2 * 10**9, b"nonsense")
    gone = {"ns": START + 3 * 10**9, "event": "disconnected", "detail": "it broke"}
    with replayed_lines(HEAD, CONNECTED, broker, unreadable, gone) as result:
        (source,) = result.view.sources.values()
        assert (source.name, source.kind, source.state.value) == ("field", "qmf", "down")
        assert result.end == START + 3 * 10**9
        assert result.remarks["protocol-error"] == 1
        assert [remark.line for remark in result.first_remarks] == [4]
        assert result.outcome.different == 2, "the captured session said nothing, neither B nor P"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([{**HEAD, "kind": "other"}], "line 1: sources of the kind 'other' cannot be replayed"),
        ([{key: HEAD[key] for key in HEAD if key != "kind"}], "line 1: 'kind' is not a text"),
        ([{**HEAD, "settings": {"trusted_users": 5}}], "line 1: 'settings' cannot be used: trusted_users"),
        ([HEAD, {**CONNECTED, "ns": "now"}], "line 2: 'ns' is not a whole number below 2\\^63"),
        (
            [HEAD, CONNECTED, CONNECTED],
            "line 3: the session cannot take this now: connected means nothing while greeting",
        ),
    ],
)
def test_what_is_no_capture_is_refused(lines: list[object], why: str) -> None:
    with pytest.raises(CaptureError, match=f"^{why}"), replayed_lines(*lines):
        pass


NUMBERS = st.sampled_from([0, START, START + 10**9, START + 10**12, 2**63 - 1]) | st.integers(0, 2**63 - 1)
TEXTS = st.text(max_size=5)
BODIES = st.sampled_from([b"AM2b\0\0\0\1" + bytes(16), b"AM2z\0\0\0\2\0\0\0\0", b"AM2h\0\0\0\0" + bytes(8)])
LINES = st.one_of(
    st.builds(lambda ns: {"ns": ns, "event": "tick"}, NUMBERS),
    st.builds(lambda ns: {**CONNECTED, "ns": ns}, NUMBERS),
    st.builds(lambda ns, text: {"ns": ns, "event": "disconnected", "detail": text}, NUMBERS, TEXTS),
    st.builds(
        lambda ns, since: {"ns": ns, "event": "resync", "reason": "doubt", "since": since}, NUMBERS, NUMBERS
    ),
    st.builds(said, NUMBERS, BODIES | st.binary(max_size=30)),
    st.builds(lambda ns: {"ns": ns, "event": "catch-up", "missed": "", "waiting": ns}, NUMBERS),
    st.builds(
        lambda ns, text: {
            "ns": ns,
            "event": "fetch",
            "token": 1,
            "package": text,
            "class": text,
            "hash": "",
            "agent": text,
            "native_id": text,
            "deadline": ns,
        },
        NUMBERS,
        TEXTS,
    ),
)


@given(st.lists(LINES, max_size=6))
def test_any_conversation_is_replayed_or_refused(lines: list[dict[str, object]]) -> None:
    with suppress(CaptureError), replayed_lines(HEAD, *lines) as result:
        assert result.end < 2**63
