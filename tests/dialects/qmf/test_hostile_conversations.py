"""Under any messages of agents and any failures of the link, the console goes on, within its bounds."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_config import HeartbeatRules, Heartbeats
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import LossSuspected, PropertiesMissing, Send, TimerExpired, WakeAt
from gateway.model.observations import AgentLost, ResyncBegan, ResyncEnded
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import synchronised
from tests.dialects.qmf.playbook import QUEUE, ConsolePlay
from tests.dialects.qmf.recordings import PEERS, recorded

KEYS = (QUEUE, "schema.package", *(f"console.obj.1.{bank}.x.y" for bank in range(5)), "console.heartbeat.1.3")
LIMIT = 3


@cache
def bodies() -> tuple[bytes, ...]:
    """Return one body of each sort that real peers sent, of every peer."""
    found: dict[tuple[str, str, int], bytes] = {}
    for peer in PEERS:
        for one in recorded(peer):
            found.setdefault((peer, "".join(sorted(one.records)), len(one.body).bit_length()), one.body)
    return tuple(found.values())


def config(mode: Heartbeats) -> ConsoleConfig:
    return ConsoleConfig(
        trust_anyone=True,
        heartbeats=HeartbeatRules(mode),
        class_limit=20,
        agent_limit=LIMIT,
        object_limit=LIMIT,
        request_limit=10,
    )


_SAID = st.tuples(
    st.just("said"), st.integers(0, 10_000), st.sampled_from(KEYS), st.integers(0, 40), st.integers(0, 3)
)
_HAPPENS = st.tuples(
    st.sampled_from(["time", "long", "down", "up", "resync", "unnamed"]),
    *(st.just(0), st.just(""), st.just(0), st.just(0)),
)


class _Run:
    def __init__(self, mode: Heartbeats, start: str) -> None:
        if start == "synchronised":
            self.play = synchronised(config(mode))
        else:
            self.play = ConsolePlay(config(mode))
            self.play.connects()
        self.open: set[str] = set()

    def said(self, which: int, key: str, sequence: int, spoilt: int) -> None:
        body = bytearray(bodies()[which % len(bodies())])
        body[4:8] = sequence.to_bytes(4, "big")
        if spoilt:
            body = body[: len(body) * spoilt // 4]
        self.play.arrives_octets(bytes(body), key=key, user="")

    def happens(self, event: str) -> None:
        play = self.play
        session, now, down = play.session, play.now, play.session.state is State.DISCONNECTED
        if event == "time":
            play.time_passes(3)
        elif event == "long":
            play.time_passes(100)
        elif event == "up" and down:
            play.connects()
        elif event == "down" and not down:
            play.disconnects()
        elif event == "resync":
            play.take(session.handle(LossSuspected("test"), now))
        elif event == "unnamed":
            session.handle(PropertiesMissing(), now)

    def look(self) -> None:
        """Assert that each resync ends once after it begins, and does not begin again before that."""
        for step in self.play.left():
            if isinstance(step, ResyncBegan) and not step.restarted:
                assert step.agent not in self.open
                self.open.add(step.agent)
            elif isinstance(step, ResyncBegan):
                self.open.add(step.agent)
            elif isinstance(step, ResyncEnded):
                self.open.discard(step.agent)
            elif isinstance(step, AgentLost):
                assert step.agent not in self.open or step.agent == "1.0"
        assert len(self.open) <= LIMIT + 1


@given(
    st.sampled_from(Heartbeats),
    st.sampled_from(["synchronised", "greeting"]),
    st.lists(st.one_of(_SAID, _SAID, _SAID, _HAPPENS), max_size=60),
)
def test_nothing_that_agents_say_stops_a_console(
    mode: Heartbeats, start: str, events: list[tuple[str, int, str, int, int]]
) -> None:
    run = _Run(mode, start)
    for event, which, key, sequence, spoilt in events:
        if event == "said":
            run.said(which, key, sequence, spoilt)
        else:
            run.happens(event)
        run.look()
    now = run.play.now
    run.play.take(run.play.session.handle(TimerExpired(), now))
    again = run.play.session.handle(TimerExpired(), now)
    assert not [one for one in again if isinstance(one, Send)], "what is sent waits for time to pass"
    assert all(one.time > now for one in again if isinstance(one, WakeAt))
    assert len(run.play.session.definitions) <= 20
    assert now < run.play.now + SECOND
