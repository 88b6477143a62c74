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
    """Set elements of an object to these values, in this order, as one operation.

    ``values`` is by element name; an `ObjectLink` stands for a reference, ``None`` removes the value of an
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
    """Read an object again from the agent or broker that manages it."""


Action: TypeAlias = SetElements | InvokeMethod | ReadFresh


class FrontEndRefusal(FeedStruct, frozen=True):
    """The reason why a front end refused a request by itself, for the record.

    Attributes:
        outcome: the outcome, as that of a failed check.
        text: one line for people.
        element: the element, argument or method concerned.
        attempts: the number of attempts that it stands for; of more than one only the number is known.
    """

    outcome: Outcome
    text: str
    element: str = ""
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 1


class OperationRequest(FeedStruct, frozen=True, tag="request"):
    """A request of a front end.

    Attributes:
        request: the front end's number for it, unique on its connection.
        principal: the requester.
        source: number of the source.
        class_name: ``package:class`` of the object.
        row: row of the object.
        action: the requested action.
        timeout: nanoseconds for which the front end waits; the configured deadline limits it, too.
        check_only: whether to check as far as the core can, and do nothing.
        reports_failed_check: whether the front end records a failed check itself, because it knows more of
            the request (`refusal`). The core then records only what the policy refuses, as it does for a
            check.
        refusal: set where the front end has refused the request by itself: the core records that, and does
            nothing. Object and action are given as far as they are known (row 0: unknown); ``None`` stands
            for a value that is not recorded.
        reference: the front end's name for the request, repeated in its records, so that the front end finds
            its operation even if the answer is lost. Unique among all front ends; empty where that does not
            matter. Requests of one principal with the same reference are carried out once: a repetition
            within a minute gets the same answer.
        ends: the number of the last end of an object of the source that the front end had received when it
            chose the object: the request means the life that this object had then, and none that begins
            later. ``None`` stands for any life.
        sent: the time at which the front end sent it, nanoseconds of the clock that all event loops of a
            machine share (``CLOCK_MONOTONIC``). A core that was stopped meanwhile has that much less time. 0
            stands for now.
        stable_name: the name of the object, for the record of a request that is refused because the core has
            not read the object again since its start; empty where the front end does not know it.
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
    ends: int | None = None
    stable_name: str = ""


class OperationAnswer(FeedStruct, frozen=True, tag="answer"):
    """The result of a request. An answer with ``UNKNOWN`` is final on its connection, too.

    Attributes:
        request: the front end's number.
        operation_id: the same in every front end and in the log; empty where nothing was attempted: after
            ``check_only``, and where the check failed.
        outcome: the result; ``APPLIED`` of a check means that the core found no reason to refuse it.
        text: one line for people.
        element: the element, argument or method concerned; empty where it is the whole request.
        code: the dialect's own status; ``None`` where the agent did not answer.
        values: by name, the outputs of a method, or the values found when a set was read back, or all values
            that were read. Absent values are left out.
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
        """Whether the request failed before anything was attempted: nothing has changed, and nothing will."""
        return not self.operation_id and self.outcome not in (Outcome.APPLIED, Outcome.UNKNOWN)


class LoginReport(FeedStruct, frozen=True, tag="login"):
    """A report of logins that a front end accepted, for the event log; it has no answer.

    Attributes:
        principal: the user, with the address.
        times: the number of logins that it stands for.
    """

    principal: Principal
    times: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 1


class ReloadRequest(FeedStruct, frozen=True, tag="reload"):
    """A request to take the policy from the file of the configuration again.

    Its answer is an `OperationAnswer`: ``APPLIED``, ``REFUSED`` where the file is wrong, or ``UNKNOWN`` where
    an error of the core left open what of it holds.

    Attributes:
        request: the front end's number for it, unique on its connection.
        principal: the requester.
    """

    request: int
    principal: Principal


class OperationKind(enum.Enum):
    """The kind of an operation."""

    SET = "set"
    INVOKE = "invoke"
    READ = "read"


def kind_of(action: Action) -> OperationKind:
    """Return the kind of an action."""
    match action:
        case SetElements():
            return OperationKind.SET
        case InvokeMethod():
            return OperationKind.INVOKE
        case ReadFresh():
            return OperationKind.READ


def without_values(action: Action) -> Action:
    """Return the action with the names of its values only, as a refused request is recorded."""
    match action:
        case SetElements(values):
            return SetElements(dict.fromkeys(values))
        case InvokeMethod(method, arguments):
            return InvokeMethod(method, dict.fromkeys(arguments))
        case ReadFresh():
            return action


class OperationState(enum.Enum):
    """The state of an operation.

    ``begun``: recorded before anything is sent. ``ended``: it has an outcome. ``settled``: it ended as
    unknown, and its outcome was found out later, or it is certain that it cannot be found out. A refused
    operation has one record, ``ended``.
    """

    BEGUN = "begun"
    ENDED = "ended"
    SETTLED = "settled"


class OperationRecord(FeedStruct, frozen=True, tag="operation"):
    """An operation in its present state; replaces an earlier record of the same ``number``.

    A snapshot repeats the last ones. Secrets are masked in all values.

    Attributes:
        number: ascending within the epoch.
        operation_id: ``<gateway uuid>.<epoch>.o<number>``.
        kind: the kind of the operation.
        state: its state.
        principal: the requester.
        source: number of the source.
        class_name: ``package:class`` of the object.
        row: row of the object; 0 where there is no such object.
        stable_name: stable name of the object; empty where there is no such object.
        leaf_name: leaf name of the object.
        method: the invoked method.
        values: the values to be set, or the arguments, by name.
        previous: the values of the elements before, by name; absent ones are left out.
        found: the values that were read back, or the outputs of a method, by name.
        outcome: ``None`` while it is under way.
        element: the element that the outcome concerns.
        code: the dialect's own status.
        text: one line for people.
        began: the time of the request, nanoseconds of the gateway's clock.
        ended: the time at which the outcome was known; 0 while it is under way.
        attempts: the number of attempts that it stands for; more than one were refused, and only their number
            is known.
        reference: the reference of the request; empty where it was sent to an earlier core.
        absent: names of elements whose values were to be removed, and of arguments to be absent.
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
    previous: FoundValues = msgspec.field(default_factory=dict)
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

    def without_object(self) -> OperationRecord:
        """Return it without what it was about: as of an attempt on an object that there is not."""
        return msgspec.structs.replace(
            self,
            source=0,
            class_name="",
            row=0,
            stable_name="",
            leaf_name="",
            values={},
            previous={},
            found={},
            element="",
            code=None,
            absent=(),
        )
