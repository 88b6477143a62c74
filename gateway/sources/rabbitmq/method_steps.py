"""The form of a method: a generator of requests, each given its answer. Its arguments as JSON."""

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
    """Go on after so many nanoseconds; others have their turn meanwhile."""

    duration: int


@dataclass(frozen=True, slots=True)
class Result:
    """What a method gave back, where it is more than that it was done.

    Attributes:
        text: one line for people.
        outputs: its OUT arguments, in the order of the schema.
        confirmed: the broker has said what came of it, so that the caller need not wait until the object
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


_SECRETS = SecretRules()


def json_of(value: Value) -> Json:
    """``value`` as JSON.

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
    """What is written by a user to whom ``present`` was shown masked: what is as it was shown stays as it is.

    A password is kept together with all of the text that it stood in only: whoever may not read it could
    else have it sent to a host of his own.

    Raises:
        CallFailedError: something is masked that was not so before.
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
