"""A listing that is being read, page by page."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.management_api import PAGE_SIZE, Answer, BeyondLastPage, Document
from gateway.sources.rabbitmq.object_names import ObjectName


@dataclass(slots=True)
class Listing:
    """What arrived of a listing of one class.

    Attributes:
        began: when its first page was asked for (ns).
        seen: the objects that it showed.
        hosts: the virtual hosts that these belong to, where the class lives in virtual hosts.
        items: what arrived and has not been taken yet.
        sampled: when the page that ``items`` are from was read (ns).
        closing: no page comes after these items.
        lean: it is one without statistics, which lacks some properties too.
        single: it is no listing, but one object asked for by itself.
    """

    class_name: str
    began: int
    seen: set[ObjectName] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    items: deque[Json] = field(default_factory=deque)
    sampled: int = 0
    closing: bool = False
    lean: bool = False
    single: bool = False

    @property
    def waits(self) -> bool:
        """Whether something is to be taken from it, if only its end."""
        return bool(self.items) or self.closing


def page_of(answer: Answer) -> tuple[list[Json], bool] | None:
    """Objects of a page, and whether it is the last; ``None`` where the answer is no page.

    Small collections come whole, as a plain list, from the parts of the API that do not know pages.
    """
    if isinstance(answer, BeyondLastPage):
        return [], True
    if not isinstance(answer, Document):
        return None
    if isinstance(answer.body, list):
        return answer.body, True
    if not isinstance(answer.body, Mapping):
        return None
    items, page, pages = (answer.body.get(key) for key in ("items", "page", "page_count"))
    if not isinstance(items, list) or not isinstance(page, int) or not isinstance(pages, int):
        return None
    return items[:PAGE_SIZE], page >= pages or not items
