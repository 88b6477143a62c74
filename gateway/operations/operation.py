"""One operation from its turn to its outcome: reads, calls or modifies, reads back; sends each at most once.

A set reads the object first, and changes nothing if the values are there already. Then it sends requests for
the differing values, step by step, up to the first that fails, and reads back: the values found decide, not
the answer.

The effects of operations, which the rest of the core carries out, and the port of a source come first.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias

import msgspec

from gateway.feed.operations import OperationAnswer, OperationKind, OperationRecord, OperationRequest
from gateway.feed.values import FeedValue
from gateway.inventory.objects import Entry
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import Direction
from gateway.model.secrets import SecretRules
from gateway.model.values import Reference, Value, Values
from gateway.operations.planning import Plan, Rejected, Setting, is_same


class Publish(msgspec.Struct, frozen=True):
    """The effect of publishing a record of an operation to all front ends and to the event log.

    Attributes:
        durable: call `OperationManager.recorded` when the log has the record on the disk.
    """

    record: OperationRecord
    durable: bool = False


class Send(msgspec.Struct, frozen=True):
    """The effect of giving a call, modification or fetch to the port of a source (its number), once."""

    source: int
    message: MethodCall | ObjectModify | ObjectFetch


class Reply(msgspec.Struct, frozen=True):
    """The effect of answering a request, behind all records that were published before."""

    to: ReplyTo
    answer: OperationAnswer


class SourcePort(Protocol):
    """Carries calls, modifications and fetches to one source, each at most once.

    Each is answered with its token, perhaps before the method returns: ``SOURCE_DOWN`` where it certainly was
    not sent, ``UNKNOWN`` at its deadline or when the link is lost after it was sent. Another answer
    may follow an ``UNKNOWN``. The observations that an operation led to precede its answer. Answers go to
    `OperationManager.answered`.

    No method waits or raises, but for internal errors: after an
    `gateway.dialects.console.UnsentError` nothing of it is sent.
    """

    def call(self, call: MethodCall) -> None:
        """Call a method."""
        ...

    def modify(self, modify: ObjectModify) -> None:
        """Set properties by a request of the dialect's own; ``READ_ONLY`` where the dialect has none."""
        ...

    def fetch(self, fetch: ObjectFetch) -> None:
        """Read an object again."""
        ...

    def precheck(self, request: MethodCall | ObjectModify) -> Answer | None:
        """Return the answer that `call` or `modify` would give at once; nothing is sent or changed.

        ``None`` where no known fact prevents the request.
        """
        ...


class Operations(Protocol):
    """The operations of the core, as a source sees them."""

    def connect(self, source: int, port: SourcePort) -> None:
        """Send operations on objects of the source (its number) through ``port`` from now on."""
        ...

    def answered(self, answer: Answer) -> None:
        """Take the answer to a call, modification or fetch."""
        ...

    def refused(self, report: OperationRequest) -> None:
        """Record what a listener refused by itself (`gateway.feed.client.refused_request`)."""
        ...


class NoOperations:
    """A stand-in for `Operations` in tests of sources; it carries out nothing."""

    def connect(self, source: int, port: SourcePort) -> None:
        """Do nothing: no operation is ever requested of the source."""

    def answered(self, answer: Answer) -> None:
        """Do nothing: no operation was requested."""

    def refused(self, report: OperationRequest) -> None:
        """Do nothing: nothing is recorded."""


class CallNext(msgspec.Struct, frozen=True):
    """The next step: call a method of the object."""

    method: str
    arguments: Values


class ModifyNext(msgspec.Struct, frozen=True):
    """The next step: set properties of the object, by name, as one request of the dialect's own."""

    values: Mapping[str, Value | None]


class ReadNext(msgspec.Struct, frozen=True):
    """The next step: read the object again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an operation.

    Attributes:
        outcome: the published outcome.
        text: one line for people.
        element: the element concerned.
        code: the agent's own status.
        values: the values found, or a method's outputs, by name.
        reported: where the outcome is unknown: each request was answered all the same, so that nothing is
            under way any more.
    """

    outcome: Outcome
    text: str = ""
    element: str = ""
    code: int | None = None
    values: Mapping[str, FeedValue] = field(default_factory=dict)
    reported: bool = False


Next: TypeAlias = CallNext | ModifyNext | ReadNext | Ended

Step: TypeAlias = tuple[Setting, ...]
"""The settings that are sent as one request: several only by a request of the dialect's own."""


def steps_of(settings: Sequence[Setting]) -> list[Step]:
    """Return the steps of settings, in the requested order."""
    native = tuple(setting for setting in settings if not setting.method)
    # All elements that the dialect's own request sets are one step, at the place of the first of them: for
    # the broker it is one change, and of two requests one could be lost.
    first = native[:1]
    return [
        native if (setting,) == first else (setting,)
        for setting in settings
        if setting.method or (setting,) == first
    ]


def request_of(step: Step) -> CallNext | ModifyNext:
    """Return the request of a step."""
    if step[0].method:
        return CallNext(step[0].method, step[0].arguments)
    return ModifyNext({setting.element: setting.sent for setting in step})


def element_of(step: Step) -> str:
    """Return the element that the outcome of a step is about; empty for a step of several."""
    return step[0].element if len(step) == 1 else ""


def names_of(settings: Iterable[Setting]) -> str:
    """Return the names of elements, for a text."""
    return ", ".join(setting.element for setting in settings)


_SECRETS: Final = SecretRules()

_SAYS_NOTHING = frozenset({"", "OK"})

_REPORTED = frozenset({Outcome.APPLIED, Outcome.APPLIED_DIFFERENTLY, Outcome.NOT_APPLIED})


class Phase(enum.Enum):
    """The step of an operation that is under way."""

    TURN = "turn"
    READING = "reading"
    CALLING = "calling"
    VERIFYING = "verifying"
    OVER = "over"


class Operation:
    """An operation without I/O: it takes the result of each step, and returns the next one.

    Args:
        plan: the plan of the operation.
        deadline: nanoseconds of the gateway's clock.

    Attributes:
        phase: the present phase.
        former: the former values of the elements of a set, by name, as far as known.
    """

    def __init__(self, plan: Plan, deadline: int) -> None:
        self.plan = plan
        self.deadline = deadline
        self.phase = Phase.TURN
        self.former: dict[str, FeedValue] = _values_of(plan.target.entry, _readable(plan.settings))
        self._pending: list[Step] = []
        self._done: list[Setting] = []
        self._notices: list[str] = []
        self._failure: Ended | None = None

    @property
    def can_be_read(self) -> bool:
        """Whether reading the object shows the outcome: of a set whose elements all can be read."""
        settings = self.plan.settings
        return bool(settings) and all(setting.readable for setting in settings)

    def start(self) -> Next:
        """Return the first step."""
        if self.plan.kind is OperationKind.INVOKE:
            assert self.plan.method is not None
            self.phase = Phase.CALLING
            return CallNext(self.plan.method.name, self.plan.arguments)
        self.phase = Phase.READING
        return ReadNext()

    def answered(self, answer: Answer, now: int) -> Next:
        """Take the answer to the step under way; return the next step."""
        match self.phase:
            case Phase.READING if self.plan.kind is OperationKind.READ:
                return self._over(self._read(answer))
            case Phase.READING:
                return self._read_before(answer, now)
            case Phase.CALLING if self.plan.kind is OperationKind.INVOKE:
                return self._over(self._called(answer))
            case Phase.CALLING:
                return self._set(answer, now)
            case _:
                return self._over(self._verified(answer))

    def expired(self) -> Ended:
        """Return the end of an operation whose deadline has passed."""
        text = "no answer came in time"
        match self.phase:
            case Phase.TURN:
                ended = Ended(Outcome.NOT_NOW, "the time was up before its turn came: nothing was sent")
            case Phase.READING if self.plan.kind is OperationKind.SET:
                ended = Ended(
                    Outcome.SOURCE_DOWN, f"{text} when the object was read to begin with: nothing was set"
                )
            case Phase.VERIFYING if self._failure is not None:
                ended = self._not_read_back(self._failure)
            case Phase.VERIFYING:
                ended = Ended(Outcome.UNKNOWN, f"reported as done, but not read back: {text}", reported=True)
            case Phase.CALLING:
                element = element_of(self._pending[0]) if self._pending else ""
                text = f"{text}: it may have been carried out, or may still be{self._set_before()}"
                ended = Ended(Outcome.UNKNOWN, text, element)
            case _:
                ended = Ended(Outcome.UNKNOWN, text)
        return self._over(ended)

    def foreseen(self) -> list[tuple[str, CallNext | ModifyNext]]:
        """Return the requests that would be sent in the object's known state, each with its element.

        A request that sets several elements comes once for each, and then as it is.

        Raises:
            Rejected: it would send nothing, for this reason.
        """
        if self.plan.method is not None:
            return [("", CallNext(self.plan.method.name, self.plan.arguments))]
        entry = self.plan.target.entry
        differing = [] if entry is None else self._to_be_set(entry)
        steps = [(setting,) for setting in differing] + [one for one in steps_of(differing) if len(one) > 1]
        return [(element_of(step), request_of(step)) for step in steps]

    def first_difference(self, entry: Entry) -> Setting | None:
        """Return the first readable element of a set that lacks the requested value."""
        return next(self._differing(entry), None)

    def found(self, entry: Entry | None) -> dict[str, FeedValue]:
        """Return the known values of a set's elements by name."""
        return _values_of(entry, _readable(self.plan.settings))

    def verdict(self, entry: Entry) -> Ended:
        """Return the outcome of a set that was reported as done, by the values read afterwards."""
        found, setting = self.found(entry), next(self._differing(entry, as_shown=True), None)
        reported = "" if self._pending else "reported as done, but "
        if setting is None:
            return Ended(Outcome.APPLIED, values=found)
        name = setting.element
        if is_same(found.get(name), self.former.get(name)):
            text = f"{reported}{name} is what it was before"
            return Ended(Outcome.NOT_APPLIED, text, name, values=found)
        text = f"{reported}{name} has another value than the one asked for"
        return Ended(Outcome.APPLIED_DIFFERENTLY, text, name, values=found)

    def late(self, answer: Answer) -> Ended:
        """Return the outcome by a late answer, where reading the object does not show it."""
        text = f"answered late: {answer.text}" if answer.text else "answered late"
        left = [setting for step in self._pending[1:] for setting in step]
        if answer.outcome is Outcome.APPLIED and left:
            text = f"{text}; the time was up before {names_of(left)} was set"
            return Ended(Outcome.NOT_NOW, text, left[0].element, answer.code)
        outputs = self.outputs(answer.outputs) if self.plan.method else {}
        element = element_of(self._pending[0]) if self._pending else ""
        return Ended(answer.outcome, text, element, answer.code, outputs)

    def noted(self, text: str) -> None:
        """Add the agent's text, when it reported something as set, to the text of the outcome."""
        if text not in _SAYS_NOTHING and text not in self._notices:
            self._notices.append(text)

    def with_remarks(self, ended: Ended) -> Ended:
        """Return an end whose text also has the unreadable elements, effects, and the texts of the agent."""
        remarks = list(self._notices)
        unread = [setting for setting in self._done if not setting.readable]
        if unread and ended.outcome in _REPORTED:
            remarks.insert(0, f"{names_of(unread)} cannot be read back: reported as done")
        sent = [
            *self._done,
            *(self._pending[0] if self._pending and ended.outcome is Outcome.UNKNOWN else ()),
        ]
        remarks += [f"{setting.element}: {setting.effect}" for setting in sent if setting.effect]
        return replace(ended, text="; ".join(filter(None, (ended.text, *remarks))))

    # ---- a call, a reading ----------------------------------------------------------------------------

    def _called(self, answer: Answer) -> Ended:
        return Ended(answer.outcome, answer.text, "", answer.code, self.outputs(answer.outputs))

    def _read(self, answer: Answer) -> Ended:
        entry = self.plan.target.entry
        if answer.outcome is Outcome.APPLIED and entry is None:
            return Ended(Outcome.OBJECT_GONE, "it is gone")
        if answer.outcome is not Outcome.APPLIED or entry is None:
            return Ended(answer.outcome, answer.text, "", answer.code)
        elements = entry.class_record.schema.elements
        named = {elements[position].name: value for position, value in entry.record.values.items()}
        values = {name: value for name, value in named.items() if name in self.plan.target.readable}
        return Ended(answer.outcome, answer.text, "", answer.code, values)

    def outputs(self, outputs: Values) -> dict[str, FeedValue]:
        """Return the outputs of a method by name."""
        assert self.plan.method is not None
        names = [a.name for a in self.plan.method.arguments if a.direction is not Direction.IN]
        source = self.plan.target.source

        def resolved(value: Value) -> FeedValue:
            if isinstance(value, Reference):
                return source.link(value.native_id) or value.native_id
            return value

        return {
            name: resolved(value) for name, value in zip(names, outputs, strict=False) if value is not None
        }

    # ---- a set ----------------------------------------------------------------------------------------

    def _read_before(self, answer: Answer, now: int) -> Next:
        entry = self.plan.target.entry
        # Of the reading only: nothing of the set was sent, so its outcome is certain.
        if answer.outcome is Outcome.UNKNOWN:
            text = f"{answer.text or 'it was not read to begin with'}: nothing was set"
            return self._over(Ended(Outcome.SOURCE_DOWN, text, "", answer.code))
        if answer.outcome is not Outcome.APPLIED:
            return self._over(Ended(answer.outcome, answer.text, "", answer.code))
        if entry is None:
            return self._over(Ended(Outcome.OBJECT_GONE, "it is gone: nothing was set"))
        self.former = self.found(entry)
        try:
            self._pending = steps_of(self._to_be_set(entry))
        except Rejected as refusal:
            return self._over(Ended(refusal.outcome, refusal.text, refusal.element))
        if not self._pending:
            text = "it has these values already: nothing was sent"
            return self._over(Ended(Outcome.APPLIED, text, values=self.former))
        return self._set_next(now)

    def _to_be_set(self, entry: Entry) -> list[Setting]:
        """Return settings that differ or are unreadable; raise `Rejected` if ``***`` would be a password."""
        unreadable = [setting for setting in self.plan.settings if not setting.readable]
        differing = [*self._differing(entry), *unreadable]
        for setting in differing:
            if not setting.method and isinstance(setting.sent, str) and _SECRETS.shows_mask(setting.sent):
                # The value was read from here, where passwords in URIs are masked, and is written back.
                text = f"{setting.element} has *** where a password is hidden: give the password"
                raise Rejected(Outcome.WRONG_VALUE, text, setting.element)
        return [setting for setting in self.plan.settings if setting in differing]

    def _set_next(self, now: int) -> Next:
        step = self._pending[0]
        # Between two steps: what is not sent yet is certainly not set.
        if now >= self.deadline:
            text = f"the time was up before {names_of(step)} was set{self._set_before()}"
            return self._over(Ended(Outcome.NOT_NOW, text, element_of(step)))
        self.phase = Phase.CALLING
        return request_of(step)

    def _set(self, answer: Answer, now: int) -> Next:
        step = self._pending[0]
        if answer.outcome is Outcome.APPLIED:
            self._done += self._pending.pop(0)
            self.noted(answer.text)
            return self._set_next(now) if self._pending else self._verify()
        text = f"{answer.text}{self._set_before()}"
        ended = Ended(answer.outcome, text, element_of(step), answer.code)
        if self._is_perhaps_partly_done(step, answer):
            self._failure = ended
            return self._verify()
        return self._over(ended)

    def _is_perhaps_partly_done(self, step: Step, answer: Answer) -> bool:
        """Return whether something may have been set although this step has failed."""
        if answer.outcome in {Outcome.UNKNOWN, Outcome.SOURCE_DOWN}:
            return False
        if answer.outcome is Outcome.REMOTE_FAILURE or self._done:
            return True
        # Who refuses one of several elements may have set those before it.
        return len(step) > 1 and answer.code is not None and answer.outcome is not Outcome.OBJECT_GONE

    def _verify(self) -> Next:
        if not _readable(self.plan.settings):
            failure = self._failure
            return self._over(Ended(Outcome.APPLIED) if failure is None else self._not_read_back(failure))
        self.phase = Phase.VERIFYING
        return ReadNext()

    def _verified(self, answer: Answer) -> Ended:
        failure, entry = self._failure, self.plan.target.entry
        if answer.outcome is Outcome.OBJECT_GONE or (answer.outcome is Outcome.APPLIED and entry is None):
            text = "reported as done, but not read back: the object is gone"
            return failure or Ended(Outcome.UNKNOWN, text, reported=True)
        if answer.outcome is not Outcome.APPLIED or entry is None:
            if failure is not None:
                return self._not_read_back(failure)
            text = f"reported as done, but not read back: {answer.text}"
            return Ended(Outcome.UNKNOWN, text, reported=True)
        verdict = self.verdict(entry)
        if failure is None:
            return verdict
        # What is found counts, and not what was said: an agent may report a failure after it has set the
        # values.
        if verdict.outcome is Outcome.APPLIED and self.can_be_read:
            text = f"reported as failed ({failure.text}), but the values asked for are there"
            return Ended(Outcome.APPLIED, text, "", failure.code, verdict.values)
        return Ended(failure.outcome, failure.text, failure.element, failure.code, verdict.values)

    def _not_read_back(self, failure: Ended) -> Ended:
        """Return the end of a failure without reading back: of several elements some may be set."""
        if len(self._pending[0]) == 1:
            return failure
        text = f"reported as failed ({failure.text}), perhaps in part only, and not read back"
        return Ended(Outcome.UNKNOWN, text, "", failure.code, reported=True)

    def _differing(self, entry: Entry, *, as_shown: bool = False) -> Iterator[Setting]:
        """Yield the elements that lack the requested value; ``as_shown``: a masked part counts as equal."""
        values = self.found(entry)
        return (
            setting
            for setting in self.plan.settings
            if setting.readable
            and not _is_there(values.get(setting.element), setting.shown if as_shown else setting.wanted)
        )

    def _set_before(self) -> str:
        return f"; {names_of(self._done)} was set before" if self._done else ""

    def _over(self, ended: Ended) -> Ended:
        self.phase = Phase.OVER
        return self.with_remarks(ended)


def _is_there(value: FeedValue | None, wanted: FeedValue | None) -> bool:
    """Return whether a value is the requested one; for ``None`` an empty value counts, too."""
    # Dialects without absent values send an empty one instead.
    if wanted is None and isinstance(value, str | Mapping | tuple):
        return not value
    return is_same(value, wanted)


def _readable(settings: Iterable[Setting]) -> list[Setting]:
    return [setting for setting in settings if setting.readable]


def _values_of(entry: Entry | None, settings: Iterable[Setting]) -> dict[str, FeedValue]:
    """Return values by name: versions of a class differ in the positions of elements."""
    if entry is None:
        return {}
    positions, values = entry.class_record.schema.positions, entry.record.values
    known = ((s.element, values.get(positions.get(s.element, -1))) for s in settings)
    return {name: value for name, value in known if value is not None}


ReplyTo: TypeAlias = Callable[[OperationAnswer], None]
"""Takes the answer to a request; nothing in this package calls it."""

Effect: TypeAlias = Publish | Send | Reply
