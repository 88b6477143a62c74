"""The objects of a broker as their parents list them: what is new, what is gone, what is left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.cml.console_config import ConsoleConfig, ShortLived
from gateway.dialects.cml.console_views import ClassView
from gateway.dialects.cml.messages import InspectRequest, Spelling
from gateway.dialects.cml.object_ids import OPENAMQ_LIMIT
from gateway.dialects.cml.schema import Children
from gateway.dialects.cml.writer import write_message
from gateway.dialects.errors import LocalProtocolError

ROOT: Final = 0


@dataclass(slots=True, eq=False)
class Known:
    """An object that may be inspected.

    Attributes:
        parent: who lists it; ``None`` of the root.
        class_name: as its parent says it, later as it says itself; empty where nobody said.
        body: of the request to inspect it; empty before the first one.
        children: by number, as they were listed last; ``None`` for those that are not inspected, or not yet.
        left_out: how many more it lists that are none of these.
        native_id: as it was observed; empty before.
        name: as it was told last.
        round: in which it was answered last.
        attempts: to inspect it, since it was answered last.
        busy: a request about it has no answer yet.
        private: it ends when somebody's connection does, as it says itself.
        shut: it is there, and not shown: why.
        view: of its class, where it is shown.
    """

    number: int
    parent: Known | None
    class_name: str
    body: bytes = b""
    children: dict[int, Known | None] = field(default_factory=dict)
    left_out: int = 0
    native_id: str = ""
    name: str = ""
    round: int = -1
    attempts: int = 0
    busy: bool = False
    private: bool = False
    shut: str = ""
    view: ClassView | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing changes.

    Attributes:
        new: to be inspected from now on.
        gone: not listed any more, each behind those in it.
        seen_once: whether there are some to be inspected when they are listed once more.
    """

    new: tuple[Known, ...]
    gone: tuple[Known, ...]
    seen_once: bool


class Tree:
    """The objects of one run of a broker.

    Args:
        config: what is inspected, and how much.
        former: class and name (empty where it was not told) of what an earlier tree had, by number: it counts
            as listed once.

    Attributes:
        left_out: how many are listed beyond `ConsoleConfig.object_limit`.
        passed_over: how many are listed and not inspected, because they come and go.
    """

    def __init__(self, config: ConsoleConfig, former: Mapping[int, tuple[str, str]] | None = None) -> None:
        self._config = config
        self._former = former or {}
        self.root = Known(ROOT, None, "")
        self._objects = {ROOT: self.root}
        self._entries = 0
        self._private: set[int] = set()
        self.left_out = 0
        self.passed_over = 0

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def not_read_yet(self) -> int:
        """How many may be inspected, and were not answered yet; looks at all of them."""
        return sum(1 for one in self._objects.values() if not one.native_id and not one.shut)

    @property
    def leaves_private_alone(self) -> bool:
        """Whether what ends with connections is not inspected."""
        return self._config.short_lived is ShortLived.NO

    def find(self, number: int) -> Known | None:
        """The object of this number that may be inspected."""
        return self._objects.get(number)

    def may_end(self, known: Known) -> bool:
        """Whether an object ends when somebody's connection does."""
        return known.private or known.class_name in self._config.short_lived_classes

    def inspection(self, known: Known) -> bytes:
        """The request to inspect an object.

        Nobody needs the class in it: one whose name no request can carry is left out.
        """
        if not known.body:
            spelling = self._config.spelling
            try:
                known.body = write_message(InspectRequest(known.number, known.class_name), spelling)
            except LocalProtocolError:
                known.body = write_message(InspectRequest(known.number), spelling)
        return known.body

    def numbers(self) -> dict[int, tuple[str, str]]:
        """All that were listed, for the tree that follows; of a tree that was not read, those before it."""
        if not self.root.native_id:
            return dict(self._former)
        listed = {number: ("", "") for known in self._objects.values() for number in known.children}
        shown = {one.number: (one.class_name, one.name) for one in self._objects.values() if one.native_id}
        return {**listed, **shown}

    def forget_former(self) -> None:
        """Numbers of before mean nothing: the broker was restarted."""
        self._former = {}

    def is_another(self, known: Known) -> bool:
        """Whether the number meant another object in the tree before this one."""
        class_name, name = self._former.get(known.number, ("", ""))
        return bool(class_name) and (class_name, name) != (known.class_name, known.name)

    def list_children(self, parent: Known, listed: Iterable[tuple[Children, int]]) -> Listing:
        """Compare what ``parent`` lists with what it listed before."""
        before = parent.children
        parent.children = children = {}
        self._entries -= len(before)
        self.left_out -= parent.left_out
        parent.left_out = 0
        self.passed_over -= self._passed_over_in(before)
        new: list[Known] = []
        seen_once = False
        for kind, number in listed:
            if number in children:
                continue
            if self._entries >= self._config.object_limit and not before.get(number):
                parent.left_out += 1
                continue
            self._entries += 1
            known = before.get(number)
            if known is None:
                known = self._adopted(parent, kind.class_name, number, listed_before=number in before)
                if known is not None:
                    new.append(known)
                elif self._is_candidate(kind.class_name, number):
                    seen_once = True
            children[number] = known
        self.left_out += parent.left_out
        self.passed_over += self._passed_over_in(children)
        ended = [number for number in before if number not in children]
        self._private.difference_update(ended)
        gone = [one for one in map(before.get, ended) if one is not None]
        return Listing(tuple(new), tuple(one for each in gone for one in self.remove(each)), seen_once)

    def remove(self, known: Known) -> list[Known]:
        """Remove an object and all in it; returns them, each behind those in it."""
        removed = [known]
        for one in removed:  # which grows meanwhile
            removed += [child for child in one.children.values() if child is not None]
            self._entries -= len(one.children)
            self.left_out -= one.left_out
            self.passed_over -= self._passed_over_in(one.children)
            del self._objects[one.number]
            one.children, one.left_out = {}, 0
        if known.parent is not None and known.number in known.parent.children:
            del known.parent.children[known.number]
            self._entries -= 1
        return removed[::-1]

    def leave_alone(self, known: Known) -> list[Known]:
        """Do not inspect it any more, although it is listed; returns what is removed, as `remove`."""
        removed = self.remove(known)
        assert known.parent is not None  # the root is nobody's
        known.parent.children[known.number] = None
        self._entries += 1
        self.passed_over += 1
        self._private.add(known.number)
        return removed

    def _adopted(self, parent: Known, class_name: str, number: int, *, listed_before: bool) -> Known | None:
        """The object, if it may be inspected now."""
        if not self._is_candidate(class_name, number):
            return None
        if self._is_careful(parent, class_name) and not (listed_before or number in self._former):
            return None
        known = self._objects[number] = Known(number, parent, class_name)
        return known

    def _is_candidate(self, class_name: str, number: int) -> bool:
        """Whether it may be inspected one day. What two objects list belongs to the first."""
        if number in self._objects or number in self._private or not self._can_be_asked_for(number):
            return False
        return not (self.leaves_private_alone and class_name in self._config.short_lived_classes)

    def _is_careful(self, parent: Known, class_name: str) -> bool:
        """Whether an object may end at any time, with somebody's connection, as far as is known."""
        config = self._config
        if config.short_lived is ShortLived.YES:
            return False
        of_its_class = class_name in config.short_lived_classes or class_name in config.doubtful_classes
        return of_its_class or self.may_end(parent)

    def _can_be_asked_for(self, number: int) -> bool:
        return self._config.spelling is not Spelling.OPENAMQ or number < OPENAMQ_LIMIT

    def _passed_over_in(self, children: Mapping[int, Known | None]) -> int:
        if not self.leaves_private_alone:
            return 0
        return sum(1 for one in children.values() if one is None)
