"""The manager under any order of events: no call twice, one answer to each, and no false report.

A boiler stands for the world: a call is carried out by it at any time after it was sent, or never, and may be
answered before, after, truthfully or not at all; readings have its state at the time of the reading.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.feed.operations import OperationKind, OperationState, SetElements
from gateway.model.observations import ObjectSeen, ResyncBegan, SourceState, SourceStateSeen
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.times import SECOND
from tests.operations.works import Works, boiler

LIMITS = st.integers(1, 4)
CERTAIN = [outcome for outcome in Outcome if outcome is not Outcome.UNKNOWN]
FAILURES = [Outcome.REMOTE_FAILURE, Outcome.SOURCE_DOWN, Outcome.OBJECT_GONE, Outcome.UNKNOWN]


class Interleaving(RuleBasedStateMachine):
    """The manager against a boiler that behaves in any way."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.works = Works(Path(self._folder.name), max_running=3, sets_natively=True)
        self.limit = 5
        self.speed = 20
        self.done: set[int] = set()
        self.truly_done: set[int] = set()
        self.answered: dict[int, Outcome] = {}

    def teardown(self) -> None:
        self._folder.cleanup()

    # ---- norths ---------------------------------------------------------------------------------------

    @rule(limit=LIMITS, timeout=st.integers(1, 12))
    def set(self, limit: int, timeout: int) -> None:
        self.works.ask(SetElements({"limit": limit}), timeout=timeout * SECOND)

    @rule(speed=LIMITS, limit=LIMITS)
    def set_both(self, speed: int, limit: int) -> None:
        self.works.set(speed=speed, limit=limit)

    @rule()
    def purge(self) -> None:
        self.works.invoke("purge")

    @rule()
    def read(self) -> None:
        self.works.read()

    # ---- the log and the clock ------------------------------------------------------------------------

    @rule()
    def the_log_has_all(self) -> None:
        for record in list(self.works.reported):
            self.works.recorded(record.number)

    @rule(is_quick=st.booleans())
    def the_log_is_quick(self, *, is_quick: bool) -> None:
        self.works.auto_record = is_quick

    @rule(seconds=st.sampled_from([0, 1, 1, 3, 11, 40]))
    def time_passes(self, seconds: int) -> None:
        self.works.wait(seconds * SECOND)

    # ---- the boiler -----------------------------------------------------------------------------------

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def it_carries_out(self, data: st.DataObject) -> None:
        self.carry_out(data.draw(st.sampled_from(self.open)))

    @precondition(lambda self: self.open)
    @rule()
    def all_goes_well_for_a_while(self) -> None:
        for _ in range(4):
            for message in self.open:
                self.carry_out(message)
                self.answer(message)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), speed=st.sampled_from([None, 40]))
    def it_says_that_it_did_and_did_something_else(self, data: st.DataObject, speed: int | None) -> None:
        message = data.draw(st.sampled_from(self.open))
        if isinstance(message, ObjectModify) and message.token not in self.done:
            self.done.add(message.token)
            self.speed = speed or self.speed
            self.answered[message.token] = Outcome.APPLIED
            self.works.answer(to=message)

    @rule(limit=LIMITS)
    def another_sets_it(self, limit: int) -> None:
        self.limit = limit

    @rule()
    def it_is_reported(self) -> None:
        self.works.publish(self.seen())

    @precondition(lambda self: self.changes)
    @rule(data=st.data())
    def it_answers_late(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.changes))
        if call.token in self.truly_done:
            self.answer(call)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def it_answers_truly(self, data: st.DataObject) -> None:
        self.answer(data.draw(st.sampled_from(self.open)))

    @precondition(lambda self: self.answered)
    @rule(data=st.data())
    def an_answer_comes_twice(self, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(sorted(self.answered)))
        message = next(message for message in self.works.sent if message.token == token)
        self.works.answer(self.answered[token], to=message, code=_code(self.answered[token]))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), outcome=st.sampled_from(FAILURES))
    def it_fails(self, data: st.DataObject, outcome: Outcome) -> None:
        message = data.draw(st.sampled_from(self.open))
        if message.token not in self.done:
            self.done.add(message.token)  # it says that it did not, and never will
            self.answered[message.token] = outcome
            self.works.answer(outcome, to=message, code=_code(outcome))

    # ---- the link -------------------------------------------------------------------------------------

    @rule()
    def the_link_is_lost_and_comes_back(self) -> None:
        self.works.publish(SourceStateSeen(SourceState.DOWN, "lost"))
        for message in list(self.works.sent):
            if message.token not in self.answered:
                self.answered[message.token] = Outcome.UNKNOWN
                self.works.answer(Outcome.UNKNOWN, "the link was lost", to=message, code=None)
        self.works.synchronise(self.seen(), boiler("south"))

    @rule()
    def its_agent_starts_again(self) -> None:
        self.works.publish(ResyncBegan(restarted=True))
        self.works.synchronise(self.seen(), boiler("south"))

    # ---- what holds -----------------------------------------------------------------------------------

    @invariant()
    def no_call_is_sent_twice(self) -> None:
        tokens = [message.token for message in self.works.sent]
        assert len(tokens) == len(set(tokens))
        begun = [r for r in self.works.reported if r.state is OperationState.BEGUN]
        changes = [r for r in begun if r.kind is not OperationKind.READ]
        assert len(self.works.calls) <= len(changes)
        assert len(self.works.modifications) <= len([r for r in changes if "speed" in r.values])

    @invariant()
    def nothing_is_sent_that_was_not_reported(self) -> None:
        begins = 0
        for step in self.works.order:
            begins += step.startswith("begun")
            assert begins or not step.endswith(("Fetch", "Call", "Modify"))

    @invariant()
    def each_operation_ends_once_and_settles_once_at_most(self) -> None:
        reported: dict[int, list[OperationState]] = {}
        for record in self.works.reported:
            reported.setdefault(record.number, []).append(record.state)
        for states in reported.values():
            assert states in (
                [OperationState.BEGUN],
                [OperationState.BEGUN, OperationState.ENDED],
                [OperationState.BEGUN, OperationState.ENDED, OperationState.SETTLED],
                [OperationState.ENDED],
            )
        settled = [r for r in self.works.reported if r.state is OperationState.SETTLED]
        assert all(record.outcome in CERTAIN for record in settled)

    @invariant()
    def what_is_reported_as_applied_was_found(self) -> None:
        for record in self.works.reported:
            if record.outcome is Outcome.APPLIED and record.kind is OperationKind.SET:
                assert record.found == record.values

    @invariant()
    def what_is_reported_as_applied_of_a_call_was_done(self) -> None:
        purges = [r for r in self.works.reported if r.outcome is Outcome.APPLIED and r.method == "purge"]
        done = [c for c in self.works.calls if c.method == "purge" and c.token in self.truly_done]
        assert len(purges) <= len(done)

    @invariant()
    def each_request_is_answered_in_time(self) -> None:
        self.works.wait(0)  # what is due already is so at once
        wake_at = self.works.manager.wake_at
        assert wake_at is None or wake_at > self.works.now

    @property
    def open(self) -> list[MethodCall | ObjectModify | ObjectFetch]:
        """The messages that were sent and not answered yet."""
        return [message for message in self.works.sent if message.token not in self.answered]

    @property
    def changes(self) -> list[MethodCall | ObjectModify]:
        """The sent messages that change something."""
        return [*self.works.calls, *self.works.modifications]

    def carry_out(self, message: MethodCall | ObjectModify | ObjectFetch) -> None:
        """Carry out a call or modification, once."""
        if isinstance(message, ObjectFetch) or message.token in self.done:
            return
        self.done.add(message.token)
        self.truly_done.add(message.token)
        if isinstance(message, ObjectModify):
            speed = message.values["speed"]
            assert isinstance(speed, int)
            self.speed = speed
        elif message.method == "setLimit":
            assert isinstance(message.arguments[0], int)
            self.limit = message.arguments[0]

    def answer(self, message: MethodCall | ObjectModify | ObjectFetch) -> None:
        """Answer truthfully."""
        if isinstance(message, ObjectFetch):
            self.answered[message.token] = Outcome.APPLIED
            self.works.answer(to=message, found=self.seen())
        elif message.token in self.truly_done:
            self.answered[message.token] = Outcome.APPLIED
            self.works.answer(to=message)

    def seen(self) -> ObjectSeen:
        return dataclasses.replace(boiler(limit=self.limit, speed=self.speed), sampled=self.works.now)


def _code(outcome: Outcome) -> int | None:
    """Return the status of an answer; an unknown outcome with one would be final."""
    return None if outcome is Outcome.UNKNOWN else 0


TestInterleaving = Interleaving.TestCase
TestInterleaving.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
