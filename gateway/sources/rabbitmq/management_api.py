"""Requests to RabbitMQ's management API and their answers, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Never, TypeAlias, cast
from urllib.parse import quote

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.object_names import ObjectName

ADMINISTRATIVE = frozenset({"user", "parameter", "permission", "topicPermission"})
"""Classes that need more than the tag ``monitoring``: an administrator, or a policymaker for parameters."""
PAGE_SIZE = 500
"""Number of objects on a page; RabbitMQ refuses more."""
UNMEASURED_COLLECTIONS = frozenset(
    {"connections", "channels", "consumers", "stream/consumers", "stream/publishers"}
)
"""Collections that cannot be trusted where a broker's statistics are off.

RabbitMQ then answers 400 to some of them and 200 to others, with less than there is or nothing at all.
"""
PAGED_COLLECTIONS = frozenset({"queues", "exchanges", "connections", "channels"})
"""Collections that are read page by page.

They may be large, and every version from 3.10 to 4.3 has pages of them. All others are read whole: most of
them ignore ``page``, and ``/api/vhosts?page=1`` of every 4.x answers 500 and writes a crash report.
"""


@dataclass(frozen=True, slots=True)
class OverviewRequest:
    """A request for the overview: the cluster's name, versions, listeners and number of queues."""

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return (
            "overview?columns=cluster_name,erlang_version,management_version,rabbitmq_version,disable_stats,"
            "listeners,object_totals.queues"
        )


@dataclass(frozen=True, slots=True)
class ListingRequest:
    """A request for all objects of a class, or one page of them, limited to ``columns`` if there are any.

    ``page`` counts from 1; it means nothing for a collection that is read whole (see `PAGED_COLLECTIONS`).
    ``as_administrator``: this broker shows them to administrators only, as an answer has shown.
    ``lean``: without statistics, and whole: for each page of it the broker would list everything.
    ``totals_only``: without statistics, but with the totals of queues, which the broker counts anyway.
    """

    class_name: str
    collection: str
    columns: tuple[str, ...]
    page: int = 1
    as_administrator: bool = False
    lean: bool = False
    totals_only: bool = False

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        query = ["disable_stats=true"] if self.lean else []
        if not self.lean and self.collection in PAGED_COLLECTIONS:
            query.append(f"page={self.page}&page_size={PAGE_SIZE}")
        if self.totals_only:
            query.append("disable_stats=true&enable_queue_totals=true")
        if self.columns:
            query.append(f"columns={quote(','.join(self.columns), safe=',')}")
        return f"{self.collection}?{'&'.join(query)}" if query else self.collection


@dataclass(frozen=True, slots=True)
class ObjectRequest:
    """A request for one object, to find out whether it still exists."""

    name: ObjectName
    collection: str

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        parts = "/".join(quote(part, safe="") for part in self.name.parts)
        return f"{self.collection}/{parts}?columns=name"


@dataclass(frozen=True, slots=True)
class OwnerRequest:
    """A request for the connection that owns an exclusive queue, which no listing shows."""

    queue: ObjectName

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        parts = "/".join(quote(part, safe="") for part in self.queue.parts)
        return f"queues/{parts}?columns=owner_pid_details.name"


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A request that shows whether the contents of a virtual host may be read: each has exchanges."""

    virtual_host: str

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return f"exchanges/{quote(self.virtual_host, safe='')}?page=1&page_size=1&columns=name"


@dataclass(frozen=True, slots=True)
class UsersRequest:
    """A request for all users with their tags, which only an administrator may read. There are no pages."""

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return "users?columns=name,tags"


@dataclass(frozen=True, slots=True)
class SessionsRequest:
    """A request for the sessions and links of an AMQP 1.0 connection."""

    connection: str

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return f"connections/{quote(self.connection, safe='')}/sessions"


@dataclass(frozen=True, slots=True)
class UsedFeaturesRequest:
    """A request for the deprecated features that are in use."""

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return "deprecated-features/used"


ExtraRequest: TypeAlias = ObjectRequest | OwnerRequest | PermissionRequest | UsedFeaturesRequest
"""Requests that are sent once, when there is a reason."""
ManagementRequest: TypeAlias = (
    OverviewRequest | ListingRequest | UsersRequest | SessionsRequest | ExtraRequest
)


def is_administrative(request: object) -> bool:
    """Return whether a request needs more than the tag ``monitoring``."""
    match request:
        case ListingRequest():
            return request.as_administrator or request.class_name in ADMINISTRATIVE
        case ObjectRequest():
            return request.name.class_name in ADMINISTRATIVE
    return isinstance(request, UsersRequest)


@dataclass(frozen=True, slots=True)
class Document:
    """An answer in JSON; ``size`` is its number of bytes, 0 if unknown."""

    body: Json
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class NotFound:
    """The status 404: there is no such object."""


@dataclass(frozen=True, slots=True)
class BeyondLastPage:
    """The listing became shorter while its pages were read."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The status 401 or 403. ``login``: user name or password is wrong; otherwise the user lacks a right."""

    login: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The failure of a request, as by a status 5xx or a too large answer; other requests may succeed.

    ``permanent``: the failure probably lasts long, and another attempt costs the broker much.
    """

    reason: str
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The lack of an answer for now: connection refused, deadline passed, status 503.

    Attributes:
        reason: in one line for people.
        responded: a server responded, but not with the requested answer.
        late: a server was reached, and no answer came in time.
    """

    reason: str
    responded: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True)
class NotManagement:
    """An answer of a server that is no management API of RabbitMQ, or none that the gateway understands."""

    reason: str


Answer: TypeAlias = Document | NotFound | BeyondLastPage | Refused | Broken | Unavailable | NotManagement


NO_JSON = NotManagement("it answers with something else than JSON")


ENDED_EARLY: Final = "the connection ended before an answer, as it does on a port of AMQP"
"""The reason if a server closes or resets the connection; httpx has no text for it."""

WRONG_PASSWORD: Final = frozenset({"Login failed", "Not_Authorized"})
"""Reasons that RabbitMQ gives for a wrong name or password; the latter since 4.0."""


def is_login_refusal(error: str, reason: str) -> bool:
    """Return whether the login was refused, rather than a right."""
    # RabbitMQ spells the two cases apart: "authorized" for the login, "authorised" for a right.
    return error == "not_authorized" or reason in {"Login failed", "Not management user"}


def answer_of(status: int, body: bytes) -> Answer:
    """Return what an HTTP response means. Any status and any body give an answer; nothing raises."""
    match status:
        case 200:
            return _document(body) or NO_JSON
        case 401 | 403:
            document = _document(body)
            error, reason = _error(document)
            return Refused(is_login_refusal(error, reason) or document is None, reason or f"status {status}")
        case 404:
            document = _document(body)
            return NotManagement("it knows no such path (404)") if document is None else NotFound()
        case 400:
            error, reason = _error(_document(body))
            return BeyondLastPage() if error == "page_out_of_range" else NotManagement(reason or "status 400")
    if status >= 500:  # noqa: PLR2004  the class of server errors
        _, reason = _error(_document(body))
        text = f"status {status}{': ' if reason else ''}{reason}"
        return Unavailable(text, responded=True) if status in {502, 503, 504} else Broken(text)
    return NotManagement(f"it answers with status {status}")


def fault_of(request: ManagementRequest, answer: Answer) -> Broken | None:
    """Return the fault of an HTTP response that may concern this request alone, or the whole management API.

    The result is ``None`` for an answer that the request can have, and if no server responded. Only the
    answer to another request shows which of the two it is.
    """
    match answer:
        case Refused(login=True, reason=reason) if not is_administrative(request):
            return Broken(reason)
        case NotManagement(reason) | Unavailable(reason, responded=True):
            return Broken(reason)
        case NotFound() if isinstance(request, ListingRequest | OverviewRequest):
            return Broken("status 404")
        case Document() if isinstance(request, ListingRequest) and page_of(answer) is None:
            return Broken(f"{request.collection} is no listing")
    return None


def _document(body: bytes) -> Document | None:
    try:
        parsed = json.loads(body, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return None
    return Document(cast("Json", parsed), len(body))


def error_of(body: bytes) -> tuple[str, str]:
    """Return name and reason in an error's JSON, in one line each; empty if it has none."""
    return _error(_document(body))


def _error(document: Document | None) -> tuple[str, str]:
    body = document.body if document is not None else None
    if not isinstance(body, Mapping):
        return "", ""
    error, reason = body.get("error"), body.get("reason")
    return (
        error if isinstance(error, str) else "",
        " ".join(_plain(reason).split())[:200] if isinstance(reason, str) else "",
    )


def _plain(reason: str) -> str:
    """Return ``reason`` as it was before RabbitMQ escaped it for a browser; the ampersand comes last."""
    return reason.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def page_of(answer: Answer) -> tuple[list[Json], bool] | None:
    """Return the objects of a page, and whether it is the last; ``None`` if the answer is no page.

    The parts of the API without pages send a small collection whole, as a plain list.
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


LONG_BYTES: Final = 64 * 1024
"""Size of a body above which it is decoded in steps; a shorter one takes about a millisecond."""
_AT_ONCE: Final = 50
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class ArrayDecoder:
    """Decodes a JSON array, a few of its elements at a time.

    A listing of 20,000 queues is 6 MB and takes a tenth of a second to decode; nothing else would run
    meanwhile.

    Args:
        body: the array in UTF-8.

    Attributes:
        elements: the elements that have been decoded.
    """

    def __init__(self, body: bytes) -> None:
        self.elements: list[Json] = []
        self._text = body.decode()
        self._decode = json.JSONDecoder(parse_constant=no_constant).raw_decode
        self._position = self._after_space(0)
        self._expect("[")

    def steps(self) -> Iterator[None]:
        """Decode some elements in each step.

        Raises:
            ValueError: the text is no JSON.
            RecursionError: an element is nested too deeply.
        """
        if self._text.startswith("]", self._position):
            self._position += 1
        else:
            yield from self._decoded()
        if self._after_space(self._position) != len(self._text):
            raise ValueError("something stands behind the array")

    def _decoded(self) -> Iterator[None]:
        while True:
            element, end = self._decode(self._text, self._position)
            self.elements.append(element)
            self._position = self._after_space(end)
            if self._text.startswith("]", self._position):
                self._position += 1
                return
            self._expect(",")
            if len(self.elements) % _AT_ONCE == 0:
                yield

    def _expect(self, character: str) -> None:
        if not self._text.startswith(character, self._position):
            raise ValueError(f"no {character!r} at character {self._position}")
        self._position = self._after_space(self._position + 1)

    def _after_space(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        return match.end() if match is not None else position


def no_constant(name: str) -> Never:
    """Raise `ValueError` for NaN and infinities, which Python accepts in JSON and the standard does not."""
    raise ValueError(f"{name} is no JSON")
