"""Objects that a session knew from before a restart are in its capture, and are restored by a replay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.dialects.ami.relay import RelayConfig, RelaySession
from gateway.dialects.session import BytesReceived, Effect, Listening, ObjectsRestored, Peer, PeerConnected
from gateway.links.capture import LONGEST, CapturedSession
from gateway.links.capture_reading import CaptureError
from gateway.links.replay import replay
from gateway.model.observations import ObjectSeen
from gateway.model.operations import MethodCall
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.dialects.ami.relay_play import RelayPlay
from tests.links.captures import START, capture_file, lines, reading
from tests.links.test_stream_capture import GreetingSession

REPORTED = (
    'O|T="Tank"|I="t1"|level=42|state="open"|since=1700000000000T|raw="AQID"U|share=0.5',
    'O|T="Tank"|level=1',
    'A|I="a1"|T="Leak"|L=3|where="t1"',
    "S|load=5",
)


def known_before(*reported: str) -> tuple[RelayConfig, list[ObjectSeen]]:
    """Return the config with the classes of an application that sent these lines, and its known objects."""
    play = RelayPlay()
    play.logs_in()
    play.says(*reported)
    objects = {step.native_id: step for step in play.left() if isinstance(step, ObjectSeen)}
    return RelayConfig(schemas=tuple(play.schemas.values())), [
        seen for seen in objects.values() if seen.properties
    ]


def capture(path: Path, config: RelayConfig, known: list[ObjectSeen]) -> None:
    """Capture a session with restored objects, and a call for one of them after its application is back."""
    session = CapturedSession(RelaySession(config), capture_file(path))
    session.handle(ObjectsRestored(known), START)
    session.handle(Listening(), START + 1)
    session.handle(PeerConnected(1, Peer("127.0.0.1")), START + 2)
    session.handle(BytesReceived(1, b'L|I="pump-7"\nC|I="drain"|N="Drain"|M="1"\n'), START + 3)
    arguments = ("Tank", "t1")
    key = ClassKey("ami-relay", "application")
    session.handle(MethodCall(7, key, "pump-7", "pump-7", "drain", arguments, START + SECOND), START + 4)


def test_a_call_for_an_object_of_before_is_replayed(tmp_path: Path) -> None:
    config, known = known_before(*REPORTED)
    assert len(known) == len(REPORTED)
    capture(tmp_path / "plant.jsonl", config, known)

    written = lines(tmp_path / "plant.jsonl")
    assert [line["event"] for line in written if "event" in line] == ["restored", "started", "opened", "call"]
    assert len(written[1]["objects"]) == len(known)
    outcome = replay(reading(tmp_path / "plant.jsonl"), RelaySession(config))
    assert (outcome.different, outcome.passed_over) == (0, 0)
    assert outcome.same


def test_what_is_read_back_is_what_was_known(tmp_path: Path) -> None:
    config, known = known_before(*REPORTED)
    capture(tmp_path / "plant.jsonl", config, known)

    class Remembering(GreetingSession):
        """A session that keeps the restored objects."""

        known: tuple[ObjectSeen, ...] = ()

        def restore(self, sightings: Sequence[ObjectSeen], now: int) -> list[Effect]:
            assert now == START
            self.known += tuple(sightings)
            return []

    session = Remembering()
    replay(reading(tmp_path / "plant.jsonl"), session)
    assert session.known == tuple(known)


def test_many_objects_stand_in_many_records_and_one_that_is_too_long_is_counted(tmp_path: Path) -> None:
    third = "x" * (LONGEST // 3)
    config, known = known_before(*(f'O|T="Tank"|I="t{number}"|note="{third}"' for number in range(4)))
    longest = (*(known[-1].properties or ())[:3], 4 * third)
    known[-1] = replace(known[-1], properties=longest)
    capture(tmp_path / "plant.jsonl", config, known)

    restored = [line for line in lines(tmp_path / "plant.jsonl") if line.get("event") == "restored"]
    assert [(len(line["objects"]), line.get("left_out", 0)) for line in restored] == [(2, 0), (1, 1)]
    outcome = replay(reading(tmp_path / "plant.jsonl"), RelaySession(config))
    assert (outcome.different, outcome.passed_over) == (0, 0)


def test_a_session_that_remembers_nothing_passes_it_over(tmp_path: Path) -> None:
    config, known = known_before(*REPORTED)
    capture(tmp_path / "plant.jsonl", config, known)
    outcome = replay(reading(tmp_path / "plant.jsonl"), GreetingSession())
    assert outcome.passed_over == 3  # what was restored, the start, the call


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"hash": "zz"}, "these are not objects"),
        ({"properties": None}, "'properties' is no list"),
        ({"statistics": [{"bytes": "?"}]}, "these are not objects"),
        ({"sampled": -1}, "'sampled' is not a whole number"),
        ({"native_id": 5}, "'native_id' is not a text"),
    ],
)
def test_what_is_no_object_is_an_error(tmp_path: Path, broken: dict[str, object], reason: str) -> None:
    config, known = known_before(*REPORTED)
    path = tmp_path / "plant.jsonl"
    capture(path, config, known)
    first, restored, *others = path.read_text().splitlines()
    reported = json.loads(restored)
    reported["objects"][0] |= broken
    path.write_text("\n".join((first, json.dumps(reported), *others, "")))
    with pytest.raises(CaptureError, match=f"line 2: .*{reason}"):
        replay(reading(path), RelaySession(config))


def test_objects_that_no_session_would_know_are_left_out(tmp_path: Path) -> None:
    config, known = known_before(*REPORTED)
    path = tmp_path / "plant.jsonl"
    capture(path, config, known)
    first, restored, *others = path.read_text().splitlines()
    reported = json.loads(restored)
    for one in reported["objects"]:
        one["native_id"] = "pump-7|Tank|t1"  # all of them one
        one["properties"] = [{"map": {}} for _ in one["properties"]]
    path.write_text("\n".join((first, json.dumps(reported), *others, "")))
    assert replay(reading(path), RelaySession(config)).different
