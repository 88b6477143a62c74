"""Two agents beside a broker's own, on a live RabbitMQ: one is stopped, hangs, and leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.demo.broker import PrivateBroker
from tests.components.waiting import wait_until
from tests.remote_agents.farm import farm

EVENTS = "SELECT event FROM log WHERE kind = 'event' AND event IN ('agentLost', 'agentBack') ORDER BY seq"
STATES = "SELECT state FROM log WHERE kind = 'agent' AND agent = '1.11' ORDER BY seq"


@pytest.mark.long
def test_an_agent_that_hangs_stops_or_leaves_is_the_only_one_that_is_doubted(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with farm(rabbitmq, tmp_path) as there:
        mill = there.agents.is_.mill
        wait_until(lambda: there.stale() == {"shed 10": "false", "shed 11": "false"}, "both are shown")

        mill.is_stopped = True
        wait_until(lambda: there.stale() == {"shed 10": "false", "shed 11": "true"}, "it is missed")
        assert there.states() == {"farm": "synchronised"}
        # It may have been asked for its objects when it stopped.
        reasons = "it is silent", "it does not answer: no answer to FetchObjects"
        assert there.detail() in {f"agent 1.11 is stale: {reason}" for reason in reasons}

        mill.hangs, mill.is_stopped = True, False
        wait_until(lambda: "does not answer" in there.detail(), "it speaks, and does not answer")
        assert there.stale() == {"shed 10": "false", "shed 11": "true"}

        mill.hangs = False
        wait_until(lambda: there.stale() == {"shed 10": "false", "shed 11": "false"}, "it was asked again")
        assert there.detail() == ""

        there.agents.do(lambda: there.agents.is_.leaves(mill))
        wait_until(lambda: there.stale() == {"shed 10": "false"}, "it is gone, and what it had")
        assert there.states() == {"farm": "synchronised"}

        assert [one["state"] for one in there.ask_log(STATES)][-1] == "gone"
        assert [one["event"] for one in there.ask_log(EVENTS)] == ["agentLost", "agentBack", "agentLost"]
