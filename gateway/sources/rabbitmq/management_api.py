"""Requests to RabbitMQ's management API and their answers, as values."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Never, TypeAlias, cast
from urllib.parse import quote

from gateway.mapping.paths import Json, integer_at
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.object_places import Place, place_of
from gateway.sources.rabbitmq.path_proof import PathProof, path_of

ADMINISTRATIVE = frozenset({"user", "parameter", "permission", "topicPermission"})
"""Classes that need more than the tag ``monitoring``: an administrator, or a policymaker for parameters."""
PAGE_SIZE = 500
"""Number of objects on a page; RabbitMQ refuses more."""
_MOST_PAGES: Final = 10_000
"""Maximum number of pages of a collection; 500,000 objects are half as many small ones."""
LISTING_PATIENCE: Final = 8 * SECOND
"""Nanoseconds to wait for a listing, or a page of it, at first: less than until a broker counts as silent."""
LONGEST_PATIENCE: Final = 25 * SECOND
"""The same at most: meanwhile no other class is listed."""
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
    """A request for the overview: the cluster's name, the node that answers, versions, listeners, sizes."""

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return (
            "overview?columns=cluster_name,node,erlang_version,management_version,rabbitmq_version,"
            "disable_stats,listeners,object_totals"
        )


@dataclass(frozen=True, slots=True)
class ListingRequest:
    """A request for all objects of a class, or one page of them, limited to ``columns`` if there are any.

    ``page`` counts from 1; it means nothing for a collection that is read whole (see `PAGED_COLLECTIONS`).
    ``as_administrator``: this broker shows them to administrators only, as an answer has shown.
    ``lean``: without statistics, and whole: for each page of it the broker would list everything.
    ``totals_only``: without statistics, but with the totals of queues, which the broker counts anyway.
    ``patience``: nanoseconds to wait for the answer.
    """

    class_name: str
    collection: str
    columns: tuple[str, ...]
    page: int = 1
    as_administrator: bool = False
    lean: bool = False
    totals_only: bool = False
    page_size: int = PAGE_SIZE
    patience: int = LISTING_PATIENCE

    @property
    def has_pages(self) -> bool:
        """Whether it is read page by page."""
        return not self.lean and self.collection in PAGED_COLLECTIONS

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        query = ["disable_stats=true"] if self.lean else []
        if self.has_pages:
            query.append(f"page={self.page}&page_size={self.page_size}")
        if self.totals_only:
            query.append("disable_stats=true&enable_queue_totals=true")
        if self.columns:
            query.append(f"columns={quote(','.join(self.columns), safe=',')}")
        return f"{self.collection}?{'&'.join(query)}" if query else self.collection


def page_by_name(collection: str, name: str) -> str:
    """Return path and query of the first page of those objects of a collection whose names contain a name."""
    return f"{collection}?page=1&page_size={PAGE_SIZE}&name={path_of(name)}&use_regex=false"


_NAMES: Final = ("name", "vhost", "user")
"""Columns that say which object an answer is about."""


@dataclass(frozen=True, slots=True)
class ObjectRequest:
    """A request for one object: to find out whether it still exists, or with ``columns`` to read it.

    Where monitoring users are shown no page of it, the smallest listing is requested that has it.
    ``urgent``: a listing lacks the object, and the answer shows whether it has ended.
    """

    name: ObjectName
    collection: str
    columns: tuple[str, ...] = ()
    urgent: bool = False

    @property
    def place(self) -> Place:
        """The place of the object in the management API."""
        return place_of(self.name, self.collection)

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return self.place.target(self.columns or _NAMES)


@dataclass(frozen=True, slots=True)
class OwnerRequest:
    """A request for the connection that owns an exclusive queue, which no listing shows."""

    queue: ObjectName

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return f"{path_of('queues', *self.queue.parts)}?columns=vhost,name,owner_pid_details.name"


@dataclass(frozen=True, slots=True)
class BindingsRequest:
    """A request for the bindings of a queue, of which no statistics are read: a small answer."""

    queue: ObjectName

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return f"{path_of('queues', *self.queue.parts, 'bindings')}?columns=source,routing_key"


@dataclass(frozen=True, slots=True)
class QueuePoliciesRequest:
    """A request for what policies make of a queue: the broker names those that apply, and their effects."""

    queue: ObjectName

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        columns = "policy,operator_policy,effective_policy_definition"
        return f"{path_of('queues', *self.queue.parts)}?columns={columns}"


@dataclass(frozen=True, slots=True)
class PoliciesRequest:
    """A request for the policies, or the operator policies, of a virtual host."""

    virtual_host: str
    operator: bool

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return path_of("operator-policies" if self.operator else "policies", self.virtual_host)


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A request that shows whether the contents of a virtual host may be read: each has exchanges."""

    virtual_host: str

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return f"{path_of('exchanges', self.virtual_host)}?page=1&page_size=1&columns=vhost,name"


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
        return path_of("connections", self.connection, "sessions")


@dataclass(frozen=True, slots=True)
class UsedFeaturesRequest:
    """A request for the deprecated features that are in use."""

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return "deprecated-features/used"


@dataclass(frozen=True, slots=True)
class NodeMemoryRequest:
    """A request for what a node uses its memory for."""

    node: str

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return path_of("nodes", self.node, "memory")


@dataclass(frozen=True, slots=True)
class CertificatesRequest:
    """A request for when the certificates of the node that answers expire.

    RabbitMQ's check names those that expire within a time: within 100 years, all that it has.
    """

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        return "health/checks/certificate-expiration/100/years"


DetailRequest: TypeAlias = NodeMemoryRequest | CertificatesRequest
"""Requests for details of nodes, which other answers do not wait for."""
ExtraRequest: TypeAlias = (
    ObjectRequest | OwnerRequest | PermissionRequest | UsedFeaturesRequest | DetailRequest
)
"""Requests that are sent once, when there is a reason."""
ManagementRequest: TypeAlias = (
    OverviewRequest
    | ListingRequest
    | UsersRequest
    | SessionsRequest
    | BindingsRequest
    | QueuePoliciesRequest
    | PoliciesRequest
    | ExtraRequest
)


NARROWED: Final = frozenset(
    {"vhost", "connection", "channel", "consumer", "streamConsumer", "streamPublisher"}
)
"""Classes of which listings show a user without the tag ``monitoring`` some objects only, without a word."""


def is_narrowed(overview: Json) -> bool:
    """Return whether an overview is that of a user without the tag ``monitoring``.

    It lacks the node that answers or, where the broker collects no statistics, the number of connections.
    """
    if not isinstance(overview, Mapping):
        return False
    totals = overview.get("object_totals")
    if overview.get("disable_stats") is True:
        return isinstance(totals, Mapping) and "connections" not in totals
    return "node" not in overview


def is_administrative(request: object) -> bool:
    """Return whether a request needs more than the tag ``monitoring``."""
    match request:
        case ListingRequest():
            return request.as_administrator or request.class_name in ADMINISTRATIVE
        case ObjectRequest():
            # A virtual host is listed to monitoring users, and has its own page for administrators only.
            return request.name.class_name in ADMINISTRATIVE | {"vhost"}
    return isinstance(request, UsersRequest)


@dataclass(frozen=True, slots=True)
class Document:
    """An answer in JSON.

    Attributes:
        body: its content.
        size: the number of its bytes; 0 if unknown.
        spent: nanoseconds from the sending of the request to the arrival of all bytes; 0 if unknown.
        paths: what is known of paths to the node that answered, if this is the overview.
    """

    body: Json
    size: int = field(default=0, compare=False)
    spent: int = field(default=0, compare=False)
    paths: PathProof | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NotFound:
    """The status 404: there is no such object."""


@dataclass(frozen=True, slots=True)
class BeyondLastPage:
    """The listing became shorter while its pages were read."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The user is refused. ``login``: user name or password is wrong; otherwise the user lacks a right."""

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
        pause: nanoseconds for which no request is to be sent, as the server, or a proxy before it, demands
            by the status 429, or by ``Retry-After``; 0 if it demands none.
        cut: a server was reached, and ended the connection before a whole answer.
        explained: the reason says itself what to do.
    """

    reason: str
    responded: bool = False
    late: bool = False
    pause: int = 0
    cut: bool = False
    explained: bool = False


@dataclass(frozen=True, slots=True)
class NotManagement:
    """An answer of a server that is no management API of RabbitMQ, or none that the gateway understands."""

    reason: str


@dataclass(frozen=True, slots=True)
class Contradictory:
    """Answers that cannot be of one broker; ``reason`` names both, for people."""

    reason: str


Answer: TypeAlias = (
    Document | NotFound | BeyondLastPage | Refused | Broken | Unavailable | NotManagement | Contradictory
)


def spent_on(answer: Answer, began: int, ended: int) -> int:
    """Return the nanoseconds that the broker took for an answer.

    A process that is short of processor time takes an answer late: that is no cost of the broker.

    Args:
        answer: the answer.
        began: when its request was made (ns).
        ended: when it was taken (ns).
    """
    spent = answer.spent if isinstance(answer, Document) else 0
    return min(spent, ended - began) if spent else ended - began


def api_advice(url: str) -> str:
    """Return what to do about a URL at which there is no overview; empty if nothing is known."""
    if not url.rstrip("/").endswith("/api"):
        return ""
    return f"the URL {url} ends in /api, which the gateway adds itself: leave it out"


NO_JSON = NotManagement("it answers with something else than JSON")


ENDED_EARLY: Final = "the connection ended before an answer, as it does on a port of AMQP"
"""The reason if a server closes or resets the connection; httpx has no text for it."""

WRONG_PASSWORD: Final = frozenset({"Login failed", "Not_Authorized"})
"""Reasons that RabbitMQ gives for a wrong name or password; the latter since 4.0."""


def is_login_refusal(error: str, reason: str) -> bool:
    """Return whether the login was refused, rather than a right."""
    # RabbitMQ spells the two cases apart: "authorized" for the login, "authorised" for a right.
    return error == "not_authorized" or reason in {"Login failed", "Not management user"}


def by_proxy(status: int) -> str:
    """Return the text about an error that has a body, and no ``error`` in JSON, as RabbitMQ's have."""
    return f"status {status} in another form than RabbitMQ's: a proxy's"


COMPRESSED: Final = (
    "a proxy in front of the management API compresses its answers, although each request excludes that:"
    " disable that there, or give the broker's own URL"
)
"""The reason if an answer is compressed, and what to do."""

_TOO_MANY_REQUESTS: Final = 429
_PAUSE_DIGITS: Final = 9
_UNAVAILABLE: Final = 503
PAUSE_DEMANDED: Final = "the management API, or a proxy in front of it, demands a pause"
"""The reason for which a request is not sent, or not answered, that a server may answer later."""
PAUSES_SECONDS: Final = 20.0
"""Maximum time for which a command waits because the management API demands it."""
LONGEST_DEMANDED: Final = 60 * SECOND
"""Maximum nanoseconds for which a demanded pause is kept."""
_PAUSE: Final = 5 * SECOND
"""The pause after a status 429 that names none."""


def demanded_pause(retry_after: str, now: datetime) -> int:
    """Return the pause (ns) of a ``Retry-After`` (RFC 9110 section 10.2.3), at most `LONGEST_DEMANDED`.

    It is 0 for a text that is neither a number of seconds nor a date.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:_PAUSE_DIGITS]) * SECOND, LONGEST_DEMANDED)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # a year of twenty digits
        return 0
    seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return min(max(0, int(seconds * SECOND)), LONGEST_DEMANDED)


def pause_of(status: int, retry_after: int) -> int:
    """Return the pause (ns) that a status demands, by its ``Retry-After`` (`demanded_pause`); 0 for none."""
    return {_TOO_MANY_REQUESTS: retry_after or _PAUSE, _UNAVAILABLE: retry_after}.get(status, 0)


NO_API: Final = "the node has no management API now, as where it starts or stops"


def is_without_api(headers: Mapping[str, str]) -> bool:
    """Return whether a response with these headers, and the status 404, is of a node without management API.

    While a node starts or stops, its web server answers that to every path, with the same body as the
    management API, whose answers depend on the origin, and have a policy. A proxy may drop these headers, and
    replaces the server's name.
    """
    is_of_api = "origin" in headers.get("vary", "") or "content-security-policy" in headers
    return headers.get("server") == "Cowboy" and not is_of_api


def answer_of(  # noqa: PLR0911  a case for each status
    status: int, body: bytes, pause: int = 0, *, lacks_api: bool = False
) -> Answer:
    """Return what an HTTP response means. Any status and any body give an answer; nothing raises.

    Args:
        status: its status.
        body: its body.
        pause: the nanoseconds that its ``Retry-After`` demands (`demanded_pause`); 0 if there is none.
        lacks_api: its headers say so (`is_without_api`).
    """
    match status:
        case 200:
            return _document(body) or listing_in_parts(body) or NO_JSON
        case 401 | 403:
            document = _document(body)
            error, reason = _error(document)
            text = f"status {status}" if error or not body else by_proxy(status)
            return Refused(is_login_refusal(error, reason) or document is None, reason or text)
        case 404 if is_withheld(body):
            return Refused(login=False, reason=WITHHELD)
        case 404:
            missing = Unavailable(NO_API, responded=True) if lacks_api else NotFound()
            return missing if is_missing(body) else NotManagement("it knows no such path (404)")
        case 400:
            error, reason = _error(_document(body))
            return BeyondLastPage() if error == "page_out_of_range" else NotManagement(reason or "status 400")
        case 503 if not pause and (expiring := _expiring(body)):
            return expiring
    if status >= 500 or status == _TOO_MANY_REQUESTS:  # noqa: PLR2004  the class of server errors
        _, reason = _error(_document(body))
        text = f"status {status}{': ' if reason else ''}{reason}"
        demanded = pause_of(status, pause)
        unavailable = demanded or status in {502, 503, 504}
        return Unavailable(text, responded=True, pause=demanded) if unavailable else Broken(text)
    return NotManagement(f"it answers with status {status}")


_MISSING: Final = "Object Not Found"
"""The error of RabbitMQ 3.10 to 4.3 in the place of an object that does not exist."""


def is_missing(body: bytes) -> bool:
    """Return whether the body of a status 404 is RabbitMQ's own, and not that of a proxy."""
    return error_of(body)[0] == _MISSING


WITHHELD: Final = "the user has no permission in this virtual host"
"""The reason of a refusal for which RabbitMQ gives none."""


def is_withheld(body: bytes) -> bool:
    """Return whether the body of a status 404 means a virtual host in which the user has no permission.

    RabbitMQ 4.3 answers that for a virtual host that exists, where earlier versions answer 401.
    """
    return error_of(body)[0] == "not_found"


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
        case Document() if isinstance(request, ListingRequest) and page_of(answer, request.page) is None:
            return Broken(f"{request.collection} is no listing")
    return None


def _expiring(body: bytes) -> Document | None:
    """Return RabbitMQ's answer where it has certificates to name: a failed check has the status 503."""
    document = _document(body)
    has_some = (
        document and isinstance(document.body, Mapping) and isinstance(document.body.get("expired"), list)
    )
    return document if has_some else None


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


def page_of(answer: Answer, asked: int = 0) -> tuple[list[Json], bool] | None:
    """Return the objects of a page, and whether it is the last; ``None`` if the answer is no page.

    The parts of the API without pages send a small collection whole, as a plain list.

    Args:
        answer: the answer.
        asked: the number of the page that was requested; 0 for any.
    """
    if isinstance(answer, BeyondLastPage):
        return [], True
    if not isinstance(answer, Document):
        return None
    if isinstance(answer.body, list):
        return answer.body, True
    if not isinstance(answer.body, Mapping):
        return None
    items = answer.body.get("items")
    page, pages = (integer_at(answer.body, key) for key in ("page", "page_count"))
    if not isinstance(items, list) or page is None or pages is None or pages > _MOST_PAGES:
        return None
    # A server that shows the same page whatever is requested would be asked for the next one for ever.
    return (items[:PAGE_SIZE], page >= pages or not items) if asked in (0, page) else None


LONG_BYTES: Final = 64 * 1024
"""Size of a body above which it is decoded in steps; a shorter one takes about a millisecond."""
_AT_ONCE: Final = 50
_TOKENS_AT_ONCE: Final = 2_000
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_ITEMS: Final = re.compile(r'\s*(?:\[|\{(?:[^\[{]*,)?\s*"items"\s*:\s*\[)')
# No whole strings: one that does not end would be read to the end of the body from each quote in it.
_TOKEN: Final = re.compile(r'\\.|["\[\]{},]', re.DOTALL)
_NO_UTF8: Final = re.compile("[\udc80-\udcff]")


class ListingDecoder:
    """Decodes a listing, or a page of one, a few of its objects at a time.

    A listing of 20,000 queues is 6 MB and takes a tenth of a second to decode; nothing else would run
    meanwhile. One object may have a number that JSON does not have, or bytes that are not UTF-8: null is in
    its place, and the others are read.

    Args:
        body: the listing in UTF-8.

    Attributes:
        elements: the objects that have been decoded.
        document: the answer, once all steps are taken.

    Raises:
        ValueError: the body does not begin as a listing does.
    """

    def __init__(self, body: bytes) -> None:
        self.elements: list[Json] = []
        self.document: Document | None = None
        self._size = len(body)
        self._text = body.decode("utf-8", "surrogateescape")
        self._is_utf8 = _NO_UTF8.search(self._text) is None
        self._decode = json.JSONDecoder(parse_constant=no_constant).raw_decode
        start = _ITEMS.match(self._text)
        if start is None:
            raise ValueError("it does not begin as a listing does")
        self._start = start.end()

    def steps(self) -> Iterator[None]:
        """Decode some objects in each step.

        Raises:
            ValueError: the text is no whole listing, or none of its objects is JSON.
        """
        end = self._after_space(self._start)
        if not self._text.startswith("]", end):
            end = yield from self._decoded(end)
        around = _document(f"{self._text[: self._start]}{self._text[end:]}".encode("utf-8", "replace"))
        if around is None:
            raise ValueError("something else stands around the objects")
        page = around.body if isinstance(around.body, Mapping) else None
        body: Json = self.elements if page is None else {**page, "items": self.elements}
        self.document = Document(body, self._size)

    def _decoded(self, position: int) -> Generator[None, None, int]:
        """Decode the elements, of which the first begins there; return where the array ends."""
        faulty = 0
        while True:
            element, end = self._element(position)
            if end is None:
                faulty += 1
                end = yield from self._end_of_faulty(position)
            self.elements.append(element)
            if self._text[end] == "]":
                break
            position = self._after_space(end + 1)
            if len(self.elements) % _AT_ONCE == 0:
                yield
        if faulty == len(self.elements):
            raise ValueError("no object is JSON")
        return end

    def _element(self, position: int) -> tuple[Json, int | None]:
        """Return the element that begins there, and where it ends; null and ``None`` if it is no JSON."""
        try:
            element, end = self._decode(self._text, position)
        except (ValueError, RecursionError):
            return None, None
        end = self._after_space(end)
        is_whole = self._text.startswith((",", "]"), end)
        if not is_whole or not (self._is_utf8 or _NO_UTF8.search(self._text, position, end) is None):
            return None, None
        return element, end

    def _end_of_faulty(self, position: int) -> Generator[None, None, int]:
        """Return where the element ends that begins there and is no JSON."""
        depth, is_in_string = 0, False
        for count, token in enumerate(_TOKEN.finditer(self._text, position), start=1):
            if count % _TOKENS_AT_ONCE == 0:
                yield
            mark = token[0]
            is_in_string ^= mark == '"'
            if is_in_string:
                continue
            if depth == 0 and mark in {",", "]"}:
                return token.start()
            depth += (mark in {"[", "{"}) - (mark in {"]", "}"})
        raise ValueError(f"the object at character {position} does not end")

    def _after_space(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        return match.end() if match is not None else position


def listing_in_parts(body: bytes) -> Document | None:
    """Return a listing of which some objects are no JSON; ``None`` for a body that is no whole listing."""
    try:
        decoder = ListingDecoder(body)
        deque(decoder.steps(), maxlen=0)
    except ValueError:
        return None
    return decoder.document


def no_constant(name: str) -> Never:
    """Raise `ValueError` for NaN and infinities, which Python accepts in JSON and the standard does not."""
    raise ValueError(f"{name} is no JSON")
