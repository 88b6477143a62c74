"""The replay of a capture of a recorded Qpid broker has the same messages and the same result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_config import HeartbeatRules, Heartbeats
from gateway.dialects.session import PropertiesMissing
from gateway.model.observations import Observation
from gateway.service.sources.captures import Captures, CaptureTarget
from gateway.service.sources.replaying import replayed
from gateway.service.sources.standalone import temporary_inventory
from tests.components.shipped_mappings import shipped_mappings
from tests.dialects.qmf.recordings import PEERS
from tests.dialects.qmf.replaying import Replay, publications

MAPPINGS = shipped_mappings()


@dataclass(frozen=True)
class Standing:
    """A clock that stands."""

    time: int

    def now(self) -> int:
        return self.time


@pytest.mark.parametrize("peer", PEERS)
def test_a_captured_peer_is_replayed_to_the_letter(tmp_path: Path, peer: str) -> None:
    path = tmp_path / "field.jsonl"
    with temporary_inventory(MAPPINGS, publications(peer)[0].at) as passing:
        source = passing.inventory.add_source("field", "qmf")

        def observe(observations: tuple[Observation, ...], now: int) -> None:
            unidentified = source.counters["unidentified"]
            passing.inventory.observed(source, observations, now)
            if source.counters["unidentified"] != unidentified:
                console.handle(PropertiesMissing(), now)

        heartbeats = HeartbeatRules(Heartbeats.AUTO)
        config = ConsoleConfig(trust_anyone=True, heartbeats=heartbeats, secrets=passing.secrets)
        replay = Replay(peer, observe, config)
        console = ConsoleSession(config)
        captures = Captures(Standing(replay.now), {"field": CaptureTarget(path)})
        replay.session = captures.session("field", "qmf", console, config)  # type: ignore[assignment]  # as a session
        replay.plays()
        assert not captures.trouble
        captures.files["field"].close()
        objects = {(one.stable_name, one.native_id) for one in source.objects()}
    with replayed(path, MAPPINGS, lambda _change, _view, _now: None) as result:
        assert (result.outcome.different, result.outcome.differences) == (0, [])
        assert result.outcome.same == len(replay.sent)
        shown = [one.record for one in result.view.objects.values()]
        assert {(one.stable_name, one.native_id) for one in shown} == objects
