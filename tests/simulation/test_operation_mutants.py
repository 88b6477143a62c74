"""Operations that are broken on purpose: the invariants detect each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import msgspec
import pytest

from gateway.eventlog.record import AnyRecord, LogRecord, RecordKind
from gateway.eventlog.recorder import LogRecorder
from gateway.feed.client import FeedLink
from gateway.feed.operations import OperationAnswer, OperationRecord, OperationRequest, OperationState
from gateway.feed.records import Batch
from gateway.feed.values import FeedValue
from gateway.model.operations import Answer, Outcome
from gateway.model.secrets import SecretRules
from gateway.operations.audit import Redaction
from gateway.operations.manager import OperationManager, Repeats
from gateway.operations.operation import Effect, Ended, Next, Operation, ReplyTo, Send
from gateway.operations.reconciler import Reconciler
from gateway.snmp.set_requests import Retransmissions
from tests.simulation.core import Parts
from tests.simulation.simulation import Made, Simulation
from tests.simulation.test_mutants import SEEDS
from tests.simulation.violations import ViolationError

Break = Callable[[pytest.MonkeyPatch], None]


class SendsAgain(OperationManager):
    """A manager that repeats a call when no answer arrived."""

    sent: Mapping[int, Send] = {}

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        again = self.sent.get(answer.token)
        effects = super().answered(answer, now)
        self.sent = {**self.sent, **{one.message.token: one for one in effects if isinstance(one, Send)}}
        return [*effects, again] if again is not None and answer.outcome is Outcome.UNKNOWN else effects

    def recorded(self, number: int, now: int, trouble: str = "") -> list[Effect]:
        effects = super().recorded(number, now, trouble)
        self.sent = {**self.sent, **{one.message.token: one for one in effects if isinstance(one, Send)}}
        return effects


class MixesAnswers(OperationManager):
    """A manager that takes an answer for the one to the call that waits longest."""

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        return super().answered(
            msgspec.structs.replace(answer, token=min(self._waiting_for, default=answer.token)), now
        )


class Hopeful(OperationManager):
    """A manager that takes a call without an answer for done."""

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        hoped = Outcome.APPLIED if answer.outcome is Outcome.UNKNOWN else answer.outcome
        return super().answered(msgspec.structs.replace(answer, outcome=hoped), now)


class Disheartened(OperationManager):
    """A manager that takes a call without an answer for not sent."""

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        feared = Outcome.SOURCE_DOWN if answer.outcome is Outcome.UNKNOWN else answer.outcome
        return super().answered(msgspec.structs.replace(answer, outcome=feared), now)


class GivesNothingUp(OperationManager):
    """A manager that ignores operations which a former core had begun."""

    def recover(self, begun: Iterable[OperationRecord], now: int) -> list[Effect]:
        return super().recover([record for record in begun if not record.number], now)[:0]


class AsksNoLog(OperationManager):
    """A manager that sends before the begin is in the log."""

    def submit(self, request: OperationRequest, reply: ReplyTo, now: int) -> list[Effect]:
        effects = super().submit(request, reply, now)
        begun = [number for number, one in self._under_way.items() if not one.is_recorded]
        return [*effects, *(more for number in begun for more in self.recorded(number, now))]


class SettlesUnread(Reconciler):
    """A reconciler that settles an unknown outcome as not applied, without reading."""

    def tick(self, now: int) -> list[Effect]:
        ended = Ended(Outcome.NOT_APPLIED, "nothing was heard of it")
        return [effect for one in self._pending for effect in self._settle(one, ended, now)]


class LogsNoEnd(LogRecorder):
    """A recorder that omits the ends of operations."""

    def apply(self, batch: Batch, now: int) -> list[AnyRecord]:
        return [record for record in super().apply(batch, now) if not _is_end(record)]


def _is_end(record: AnyRecord) -> bool:
    if not isinstance(record, LogRecord) or record.kind is not RecordKind.OPERATION:
        return False
    return record.state == OperationState.ENDED.value


def asks_twice(patch: pytest.MonkeyPatch) -> None:
    """Make the link repeat a request whose outcome is unknown, such as after the core's end."""
    ask = FeedLink.ask

    async def twice(link: FeedLink, request: OperationRequest) -> OperationAnswer:
        answer = await ask(link, request)
        return await ask(link, request) if answer.outcome is Outcome.UNKNOWN else answer

    patch.setattr(FeedLink, "ask", twice)


def knows_no_retransmission(patch: pytest.MonkeyPatch) -> None:
    """Make the SNMP process and the core carry out retransmissions as new requests."""
    patch.setattr(Repeats, "running", lambda *_: None)
    patch.setattr(Repeats, "ended", lambda *_: None)
    patch.setattr(Retransmissions, "is_running", lambda *_: False)
    patch.setattr(Retransmissions, "ended", lambda *_: None)
    patch.setattr(Retransmissions, "end", lambda lately, key, *_: lately._running.discard(key))  # noqa: SLF001


def never_reads_back(patch: pytest.MonkeyPatch) -> None:
    """Take a set that was answered as done for done, without reading the object back."""
    answered = Operation.answered

    def at_once(operation: Operation, answer: Answer, now: int) -> Next:
        step = answered(operation, answer, now)
        if isinstance(step, Ended) and step.outcome is Outcome.UNKNOWN:
            return replace(step, outcome=Outcome.APPLIED)
        return step

    patch.setattr(Operation, "answered", at_once)


def trusts_reports(patch: pytest.MonkeyPatch) -> None:
    """Take a set that was reported as done for done, whatever was read back."""
    verdict = Operation.verdict
    patch.setattr(Operation, "verdict", lambda *args: replace(verdict(*args), outcome=Outcome.APPLIED))


def settles_unread(patch: pytest.MonkeyPatch) -> None:
    """Replace the reconciler by `SettlesUnread`."""
    patch.setattr("gateway.operations.manager.Reconciler", SettlesUnread)


def publishes_secrets(patch: pytest.MonkeyPatch) -> None:
    """Publish secret values unmasked."""

    def masked(
        _: Redaction, values: Mapping[str, FeedValue | None], __: frozenset[str] = frozenset()
    ) -> dict[str, FeedValue]:
        return {name: value for name, value in values.items() if value is not None}

    patch.setattr(Redaction, "masked", masked)
    patch.setattr(SecretRules, "hides", lambda *_: False)


def _manager(manager: type[OperationManager]) -> Made:
    return Made(core=Parts(manager=manager))


MADE = (
    ("a manager that sends again", _manager(SendsAgain)),
    ("a manager that takes another call's answer", _manager(MixesAnswers)),
    ("a manager that takes the unknown for done", _manager(Hopeful)),
    ("a manager that takes the unknown for not sent", _manager(Disheartened)),
    ("a manager that gives nothing up", _manager(GivesNothingUp)),
    ("a manager that does not wait for the log", _manager(AsksNoLog)),
    ("a log without ends of operations", Made(mirror=LogsNoEnd)),
)


@pytest.mark.prove
@pytest.mark.parametrize("made", [pytest.param(made, id=name) for name, made in MADE])
def test_a_broken_part_is_noticed(made: Made) -> None:
    _is_noticed(made)


PATCHED = (knows_no_retransmission, never_reads_back, trusts_reports, settles_unread, publishes_secrets)


@pytest.mark.parametrize(
    "patched", [asks_twice, *(pytest.param(one, marks=pytest.mark.prove) for one in PATCHED)]
)
def test_a_broken_behaviour_is_noticed(patched: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    patched(monkeypatch)
    _is_noticed(Made())


def _is_noticed(made: Made) -> None:
    for seed in range(SEEDS):
        try:
            Simulation(seed, made).run()
        except ViolationError:
            return
    pytest.fail(f"not noticed in {SEEDS} simulations")
