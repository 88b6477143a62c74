"""The form of a method: a generator of requests, each given its answer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.management_changes import Change, Lookup, Purge
from gateway.sources.rabbitmq.object_names import ObjectName


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after so many nanoseconds; others have their turn meanwhile."""

    duration: int


@dataclass(frozen=True, slots=True)
class Result:
    """What a method gave back, where it is more than that it was done.

    Attributes:
        text: one line for people.
        outputs: its OUT arguments, in the order of the schema.
        confirmed: the broker has said what came of it, so that whoever called need not wait until the object
            shows it.
    """

    text: str
    outputs: Values
    confirmed: bool


Step: TypeAlias = Change | Lookup | Purge | Pause
Steps: TypeAlias = Generator[Step, Json, None]
"""The steps of a method. A `Lookup` is answered with what was found, ``None`` where there is nothing. A
`Purge` is answered with the number of messages, ``None`` where it is not known; any other step with ``None``.
A step that fails ends the method, unless it catches the `CallFailedError`."""

ResultSteps: TypeAlias = Generator[Step, Json, Result | None]
"""The steps of a method that may give something back."""

ReadSteps: TypeAlias = Generator[Lookup, Json, "Mapping[str, Json] | None"]
"""The steps that read one object; it returns what a listing would show of it, ``None`` where it is gone."""


class CallFailedError(Exception):
    """A call ends with this status; the text is one line for people."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        self.text = " ".join(text.split())
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call as its method sees it.

    Attributes:
        target: the object.
        created: when it was created, nanoseconds; 0 where that is not known.
        arguments: by name; what is absent is left out.
        lockout: the virtual hosts and users whom the configuration allows to be locked out.
    """

    target: ObjectName
    created: int = 0
    arguments: Mapping[str, Value] = field(default_factory=dict)
    lockout: frozenset[str] = frozenset()

    def text(self, name: str) -> str:
        """An argument of type string; empty where it is absent."""
        value = self.arguments.get(name, "")
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        """An argument of an integer type; 0 where it is absent."""
        value = self.arguments.get(name, 0)
        return value if isinstance(value, int) else 0

    def flag(self, name: str) -> bool:
        """An argument of type bool; false where it is absent."""
        return self.arguments.get(name) is True


def _always(_document: Mapping[str, Json]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Method:
    """What a method does, and what is seen of it afterwards.

    Attributes:
        steps: the requests that it makes.
        ends: the object is gone after it.
        settled: whether what the broker shows of the object afterwards is what the method led to. Of what it
            shows late, such as statistics, it is asked again and again for some seconds.
        unsettled: what is added to the answer where it is not so by then: who reads the object is not to take
            what is shown for what the method led to.
        lists: classes of which other objects change too, to be listed soon.
    """

    steps: Callable[[Invocation], ResultSteps]
    ends: bool = False
    settled: Callable[[Mapping[str, Json]], bool] = _always
    unsettled: str = ""
    lists: tuple[str, ...] = ()


def refuse_lockout(call: Invocation, what: str, limit: int) -> None:
    """Refuse a limit of no connections at all, unless the configuration names whom it locks out.

    Raises:
        CallFailedError: it does not.
    """
    if limit == 0 and call.target.leaf not in call.lockout:
        raise CallFailedError(
            Status.FORBIDDEN,
            f"0 locks everybody out of {what} {call.target.leaf!r}, the gateway's agent too: if that is"
            " meant, name it under 'allow_lockout' in the source's 'writing'",
        )
