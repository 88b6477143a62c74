"""Under any events, calls and fetches are sent at most once, and answered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.messages import (
    Heartbeat,
    MethodResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import LossSuspected, NotSent, Send
from gateway.model.operations import Answer, Outcome
from tests.dialects.qmf.console_story import synchronised
from tests.dialects.qmf.operations_story import (
    OUTPUTS,
    calls,
    drain,
    fetches,
)

_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["call", "fetch", "answer", "unsent"]), st.integers(0, 5)),
        st.tuples(st.sampled_from(["time", "down", "up", "resync", "beat"]), st.just(0)),
    ),
    max_size=40,
)


class _Run:
    """A console, the operations requested of it, and its answers."""

    def __init__(self) -> None:
        self.play = synchronised()
        self.asked: set[int] = set()
        self.answers: dict[int, list[Outcome]] = {}

    def note(self) -> None:
        for step in self.play.left():
            if isinstance(step, Answer):
                self.answers.setdefault(step.token, []).append(step.outcome)

    @property
    def sent(self) -> list[Send]:
        return [one for one in self.play.sent if one.not_after]

    def ask(self, event: str) -> None:
        token = len(self.asked) + 1
        self.asked.add(token)
        if event == "call":
            calls(self.play, drain(self.play, token))
        else:
            fetches(self.play, token)

    def end(self, event: str, send: Send) -> None:
        if event == "answer":
            sequence = int.from_bytes(send.body[4:8], "big")
            self.play.arrives(MethodResponse(sequence, 0, "OK", OUTPUTS))
        else:
            self.play.take(self.play.session.handle(NotSent([send], "test"), self.play.now))

    def happens(self, event: str) -> None:
        play = self.play
        is_down = play.session.state is State.DISCONNECTED
        if event == "time":
            play.time_passes(4)
        elif event == "down" and not is_down:
            play.disconnects()
        elif event == "up" and is_down:
            play.connects()
        elif event == "resync":
            play.take(play.session.handle(LossSuspected("test"), play.now))
        elif event == "beat":
            play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")


@given(_EVENTS)
def test_each_operation_is_sent_at_most_once_and_answered_before_long(events: list[tuple[str, int]]) -> None:
    run = _Run()
    for event, which in events:
        if event in {"call", "fetch"}:
            run.ask(event)
        elif event in {"answer", "unsent"}:
            if run.sent:
                run.end(event, run.sent[which % len(run.sent)])
        else:
            run.happens(event)
        run.note()
    run.play.time_passes(20)
    run.note()

    sequences = [one.body[4:8] for one in run.sent]
    assert len(sequences) == len(set(sequences))
    assert set(run.answers) == run.asked
    for outcomes in run.answers.values():
        assert len(outcomes) == 1 or (len(outcomes) == 2 and outcomes[0] is Outcome.UNKNOWN)
