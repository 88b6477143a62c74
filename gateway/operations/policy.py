"""Who may change what: the only place that decides. Nothing is allowed unless a permission says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gateway.model.operations import Principal


@dataclass(frozen=True, slots=True)
class Permission:
    """What some principals may do with some objects; patterns are as of a shell, case counts.

    Attributes:
        who: principals, such as ``jmx:operator``.
        sources: patterns of sources' names.
        classes: patterns of ``package:class``.
        objects: patterns of stable names.
        set: patterns of elements that may be set.
        invoke: patterns of methods that may be called; one that is dangerous must be named as it is.
        read: whether objects may be read again.
    """

    who: frozenset[str]
    sources: tuple[str, ...] = ("*",)
    classes: tuple[str, ...] = ("*:*",)
    objects: tuple[str, ...] = ("*",)
    set: tuple[str, ...] = ()
    invoke: tuple[str, ...] = ()
    read: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What something is to be done with.

    Attributes:
        source: name of the source.
        class_name: ``package:class``.
        object_name: stable name.
    """

    source: str
    class_name: str
    object_name: str


@dataclass(frozen=True, slots=True)
class SetElement:
    """Set one element."""

    element: str


@dataclass(frozen=True, slots=True)
class CallMethod:
    """Call a method; ``dangerous`` if it cannot be undone, or if nobody knows that it can."""

    method: str
    dangerous: bool


@dataclass(frozen=True, slots=True)
class ReadAnew:
    """Read an object again."""


Wish = SetElement | CallMethod | ReadAnew


class Policy:
    """Decides.

    Args:
        permissions: one that fits is enough.
    """

    def __init__(self, permissions: Iterable[Permission] = ()) -> None:
        self._permissions = tuple(permissions)

    def decide(self, principal: Principal, subject: Subject, wish: Wish) -> bool:
        """Whether ``principal`` may do it."""
        return any(
            str(principal) in permission.who
            and _fits(subject.source, permission.sources)
            and _fits(subject.class_name, permission.classes)
            and _fits(subject.object_name, permission.objects)
            and _allows(permission, wish)
            for permission in self._permissions
        )


def _allows(permission: Permission, wish: Wish) -> bool:
    match wish:
        case SetElement(element):
            return _fits(element, permission.set)
        case CallMethod(method, dangerous):
            return method in permission.invoke or (not dangerous and _fits(method, permission.invoke))
        case ReadAnew():
            return permission.read


def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
