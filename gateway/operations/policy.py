"""The policy of operations: nothing is allowed unless a permission of the configuration says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gateway.model.operations import Principal


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission of operations for some principals and objects; shell patterns that respect case.

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
    """The object of an operation, as permissions name it.

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
    """A request to set one element."""

    element: str


@dataclass(frozen=True, slots=True)
class CallMethod:
    """A request to call a method.

    Attributes:
        method: its name.
        dangerous: it cannot be undone, or no mapping says that it can: only a rule that names it allows it.
        described: a mapping describes the method.
    """

    method: str
    dangerous: bool
    described: bool = True


@dataclass(frozen=True, slots=True)
class ReadObject:
    """A request to read an object again."""


Wish = SetElement | CallMethod | ReadObject


class Policy:
    """Decides whether a principal may carry out an operation.

    Args:
        permissions: the permissions; one that fits is enough.
    """

    def __init__(self, permissions: Iterable[Permission] = ()) -> None:
        self._permissions = tuple(permissions)

    def decide(self, principal: Principal, subject: Subject, wish: Wish) -> bool:
        """Return whether ``principal`` may carry out ``wish`` on ``subject``."""
        return any(
            str(principal) in permission.who
            and _fits(subject.source, permission.sources)
            and _fits(subject.class_name, permission.classes)
            and _fits(subject.object_name, permission.objects)
            and _allows(permission, wish)
            for permission in self._permissions
        )

    def denial(self, principal: Principal, subject: Subject, wish: Wish) -> str:
        """Return why an operation is not allowed, and the rule that would allow it, on one line."""
        where = f"{subject.class_name} {subject.object_name} of {subject.source}"
        match wish:
            case SetElement(element):
                what, rule = f"set {element}", f"set: [{element}]"
            case CallMethod(method):
                what, rule = f"call {method}", f"invoke: [{method}]"
                # A pattern would fit, so that the user has to know why it does not.
                if self.decide(principal, subject, CallMethod(method, dangerous=False)):
                    known = "cannot be undone"
                    danger = known if wish.described else f"is in no mapping, so perhaps it {known}"
                    return (
                        f"the rules under operations.allow let {principal} call methods by pattern, and "
                        f"{method} {danger}: {where}; one of them has to name it, {rule}"
                    )
            case ReadObject():
                what, rule = "read it again", "read: true"
        return (
            f"no rule under operations.allow lets {principal} {what}: {where}; "
            f'it takes one with who: ["{principal}"] and {rule}'
        )


def _allows(permission: Permission, wish: Wish) -> bool:
    match wish:
        case SetElement(element):
            return _fits(element, permission.set)
        case CallMethod(method, dangerous):
            # A pattern such as * was not written with this method in mind: what cannot be undone has to be
            # named.
            return method in permission.invoke or (not dangerous and _fits(method, permission.invoke))
        case ReadObject():
            return permission.read


def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
