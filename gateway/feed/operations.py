"""Operations on the feed: requests of front ends, their answers, and the records of all operations.

A front end sends an `OperationRequest` on its connection; the `OperationAnswer` comes on the same one, behind
every batch that the operation led to, so that a read after the answer shows what was set. All front ends
receive an `OperationRecord` of every operation, in batches like all other records.
"""

from __future__ import annotations

import enum
from typing import Annotated, TypeAlias

import msgspec

from gateway.feed.values import FeedStruct, FoundValues, NamedValues
from gateway.model.operations import Outcome, Principal


class SetElements(FeedStruct, frozen=True, tag="set"):
    """Give elements of an object these values, in this order, as one operation.

    ``values`` is by element name; an `ObjectLink` stands for a reference, ``None`` takes the value away of an
    element that may be absent.
    """

    values: NamedValues


class InvokeMethod(FeedStruct, frozen=True, tag="invoke"):
    """Call a method of an object; ``arguments`` are the ``IN`` and ``INOUT`` ones by name.

    An argument that is left out has its default, or is absent where it is optional; one that is ``None`` is
    absent.
    """

    method: str
    arguments: NamedValues = msgspec.field(default_factory=dict)


class ReadFresh(FeedStruct, frozen=True, tag="read"):
    """Read an object again from who manages it."""


Action: TypeAlias = SetElements | InvokeMethod | ReadFresh


class FrontEndRefusal(FeedStruct, frozen=True):
    """Why a front end has refused something by itself, for the record.

    Attributes:
        outcome: as of a check that failed.
        text: one line for people.
        element: the element, argument or method that it is about.
        attempts: for how many it stands; of more than one only the number is known.
    """

    outcome: Outcome
    text: str
    element: str = ""
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 1


class OperationRequest(FeedStruct, frozen=True, tag="request"):
    """A request of a front end.

    Attributes:
        request: the front end's number for it, unique on its connection.
        principal: for whom.
        source: number of the source.
        class_name: ``package:class`` of the object.
        row: of the object.
        action: what to do.
        timeout: nanoseconds after which the front end waits no longer; the configured deadline bounds it too.
        check_only: check as far as the core can, and do nothing.
        reports_failed_check: a request that fails its check is recorded by the front end, which knows more of
            it (`refusal`): the core records it only where the policy refuses it, as it does of a check.
        refusal: the front end has refused it by itself: record that, and do nothing. Object and action are
            given as far as they are known (row 0: unknown); ``None`` stands for a value that is not recorded.
        reference: the front end's name for it, repeated in its records: so the front end finds its operation
            also where it never gets the answer. Unique among all front ends; empty where that does not
            matter. What one principal asks for under one reference is carried out once: who asks again within
            a minute gets the same answer.
        sent: when the front end sent it, nanoseconds of the clock that all event loops of a machine share
            (``CLOCK_MONOTONIC``): a core that was stopped meanwhile has so much less time. 0 for just now.
    """

    request: int
    principal: Principal
    source: int
    class_name: str
    row: int
    action: Action
    timeout: int
    check_only: bool = False
    refusal: FrontEndRefusal | None = None
    reference: str = ""
    sent: int = 0
    reports_failed_check: bool = False


class OperationAnswer(FeedStruct, frozen=True, tag="answer"):
    """What came of a request. One with ``UNKNOWN`` is the last on its connection all the same.

    Attributes:
        request: the front end's number.
        operation_id: the same in every front end and in the log; empty where nothing was tried: after
            ``check_only``, and where the check failed.
        outcome: ``APPLIED`` of a check means that nothing known here speaks against it.
        text: one line for people.
        element: the element, argument or method that the outcome is about; empty where it is about all.
        code: the dialect's own status; ``None`` where the agent did not answer.
        values: by name, the outputs of a method, or the values found when a set was read back, or all that
            was read. What is absent is left out.
    """

    request: int
    operation_id: str
    outcome: Outcome
    text: str = ""
    element: str = ""
    code: int | None = None
    values: FoundValues = msgspec.field(default_factory=dict)

    @property
    def has_failed_check(self) -> bool:
        """Whether the request failed before anything was tried: nothing has changed, and nothing will."""
        return not self.operation_id and self.outcome not in (Outcome.APPLIED, Outcome.UNKNOWN)


class OperationKind(enum.Enum):
    """What an operation does."""

    SET = "set"
    INVOKE = "invoke"
    READ = "read"


def kind_of(action: Action) -> OperationKind:
    """What an action does."""
    match action:
        case SetElements():
            return OperationKind.SET
        case InvokeMethod():
            return OperationKind.INVOKE
        case ReadFresh():
            return OperationKind.READ


def without_values(action: Action) -> Action:
    """The same with the names of values alone, as the record of what was refused has it."""
    match action:
        case SetElements(values):
            return SetElements(dict.fromkeys(values))
        case InvokeMethod(method, arguments):
            return InvokeMethod(method, dict.fromkeys(arguments))
        case ReadFresh():
            return action


class OperationState(enum.Enum):
    """How far an operation is.

    ``begun``: recorded before anything is sent. ``ended``: with an outcome. ``settled``: ended as unknown,
    and now it is known what came of it, or, where the outcome is unknown still, that nobody will know. A
    refused operation has one record, ``ended``.
    """

    BEGUN = "begun"
    ENDED = "ended"
    SETTLED = "settled"


class OperationRecord(FeedStruct, frozen=True, tag="operation"):
    """An operation as it stands; replaces the former record of the same ``number``.

    A snapshot has the last ones again. Secrets are masked in all values.

    Attributes:
        number: ascending within the epoch.
        operation_id: ``<gateway uuid>.<epoch>.o<number>``.
        kind: what it does.
        state: how far it is.
        principal: for whom.
        source: number of the source.
        class_name: ``package:class`` of the object.
        row: of the object; 0 where there is none such.
        stable_name: of the object; empty where there is none such.
        leaf_name: of the object.
        method: that was invoked.
        values: what was to be set, or the arguments, by name.
        former: what the elements were before, by name; one that was absent is left out.
        found: what was read back, the outputs of a method, by name.
        outcome: ``None`` while it is under way.
        element: what the outcome is about.
        code: the dialect's own status.
        text: one line for people.
        began: when it was asked for, nanoseconds of the gateway's clock.
        ended: when the outcome was known; 0 while it is under way.
        attempts: for how many this record stands; more than one were refused, and only their number is known.
        reference: of the request; empty where a core before this one was asked.
        absent: names of elements that were to have no value any more, and of arguments to be absent.
    """

    number: int
    operation_id: str
    kind: OperationKind
    state: OperationState
    principal: Principal
    source: int
    class_name: str
    row: int
    stable_name: str
    leaf_name: str
    method: str = ""
    values: FoundValues = msgspec.field(default_factory=dict)
    former: FoundValues = msgspec.field(default_factory=dict)
    found: FoundValues = msgspec.field(default_factory=dict)
    outcome: Outcome | None = None
    element: str = ""
    code: int | None = None
    text: str = ""
    began: int = 0
    ended: int = 0
    attempts: int = 1
    reference: str = ""
    absent: tuple[str, ...] = ()
