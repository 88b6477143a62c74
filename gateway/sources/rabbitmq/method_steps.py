"""The form of a method: a generator of requests, which gets the answer to each; and its arguments as JSON."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.model.secrets import MASK, SecretRules, mask_uris
from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.management_changes import Change, Lookup, Purge
from gateway.sources.rabbitmq.object_names import ObjectName


@dataclass(frozen=True, slots=True)
class Pause:
    """Continue after so many nanoseconds; other operations proceed meanwhile."""

    duration: int


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a method that returns more than its success.

    Attributes:
        text: one line for people.
        outputs: its OUT arguments, in the order of the schema.
        confirmed: the broker has confirmed the outcome, so the caller need not wait until the object shows
            it.
    """

    text: str
    outputs: Values
    confirmed: bool


Step: TypeAlias = Change | Lookup | Purge | Pause
Steps: TypeAlias = Generator[Step, Json, None]
"""The steps of a method.

A `Lookup` is answered with what was found, or ``None``. A `Purge` is answered with the number of messages, or
``None`` if it is unknown; any other step with ``None``. A step that fails ends the method, unless it catches
the `CallFailedError`.
"""

ResultSteps: TypeAlias = Generator[Step, Json, Result | None]
"""The steps of a method that may return a result."""

ReadSteps: TypeAlias = Generator[Lookup, Json, "Mapping[str, Json] | None"]
"""The steps that read one object. They return what a listing would show of it, or ``None`` if it is gone."""


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
        created: when it was created, nanoseconds; 0 if unknown.
        arguments: by name; absent ones are left out.
        lockout: the virtual hosts and users whom the configuration allows to be locked out.
    """

    target: ObjectName
    created: int = 0
    arguments: Mapping[str, Value] = field(default_factory=dict)
    lockout: frozenset[str] = frozenset()

    def text(self, name: str) -> str:
        """Return an argument of type string; empty if it is absent."""
        value = self.arguments.get(name, "")
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        """Return an argument of an integer type; 0 if it is absent."""
        value = self.arguments.get(name, 0)
        return value if isinstance(value, int) else 0

    def flag(self, name: str) -> bool:
        """Return an argument of type bool; false if it is absent."""
        return self.arguments.get(name) is True


def _always(_document: Mapping[str, Json]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Method:
    """What a method does, and how its effect shows.

    Attributes:
        steps: the requests that it sends.
        ends: the object is gone after it.
        settled: whether the broker shows the effect on the object. The object is read repeatedly for some
            seconds, because the broker shows statistics late.
        unsettled: added to the answer if it does not show the effect by then, as a warning to readers of the
            object.
        lists: classes of which other objects change, too, and which are listed soon.
    """

    steps: Callable[[Invocation], ResultSteps]
    ends: bool = False
    settled: Callable[[Mapping[str, Json]], bool] = _always
    unsettled: str = ""
    lists: tuple[str, ...] = ()


_SECRETS = SecretRules()


def json_of(value: Value) -> Json:
    """Return ``value`` as JSON.

    Raises:
        CallFailedError: JSON has no such value.
    """
    if isinstance(value, Mapping):
        return {key: json_of(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [json_of(inner) for inner in value]
    if isinstance(value, str | int | float):
        return value
    raise CallFailedError(Status.INVALID_PARAMETER, f"JSON knows no {type(value).__name__}")


def unmasked(written: Json, present: Json) -> Json:
    """Return what a user writes who was shown ``present`` with masks, with masked parts as they are.

    A password is kept only if the rest of its text is unchanged: a user who may not read it could otherwise
    have it sent to another host.

    Raises:
        CallFailedError: a masked part was not there before.
    """
    if isinstance(written, Mapping):
        before = present if isinstance(present, Mapping) else {}
        kept = {key: inner for key, inner in before.items() if _SECRETS.hides(key) and key not in written}
        return {**kept, **{key: unmasked(inner, before.get(key)) for key, inner in written.items()}}
    if isinstance(written, list):
        return [_unmasked_text(item, present) if isinstance(item, str) else item for item in written]
    return _unmasked_text(written, present) if isinstance(written, str) else written


def _unmasked_text(written: str, present: Json) -> str:
    if not _SECRETS.shows_mask(written):
        return written
    for text in present if isinstance(present, list) else [present]:
        if isinstance(text, str) and mask_uris(text) == written:
            return text
    raise CallFailedError(
        Status.INVALID_PARAMETER,
        f"the password behind {MASK} is kept only where nothing else of the text is changed: write it again",
    )
