"""How much of the broker the source can see, in one line for people."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from gateway.model.observations import SourceState
from gateway.sources.rabbitmq.management_api import (
    PAGE_SIZE,
    Answer,
    Broken,
    Document,
    ListingRequest,
    ManagementRequest,
    NotFound,
    NotManagement,
    OverviewRequest,
    Refused,
    Unavailable,
    is_administrative,
)

ADMINISTRATORS_ONLY = "users, permissions and runtime parameters are not shown: that needs an administrator"
"""Said although nothing is wrong, as without a writer: no rows could be taken for no such objects."""
_EVENTS_ONLY = (
    "statistics are off on this broker: connections, channels and consumers are known by events only"
)
STATISTICS_OFF = f"{_EVENTS_ONLY}, and there are no counters"
"""Said where ``management.disable_stats`` is set, or ``management_metrics_collection`` is not permitted."""
STATISTICS_OF_METRICS = f"{_EVENTS_ONLY}, and counters of queues by Prometheus' metrics"
"""Said there where these are read."""
WITHIN_BUDGET = "within the budget"
"""Ends what is said of classes that are read seldom."""
_NOT_ASKED = "not asked yet"

_MINUTE = 60_000_000_000
_SELDOM = 45_000_000_000
"""What is listed less often is said to be (ns): values are shown as fresh that may be as old."""
_OFTEN = 30_000_000_000
"""What is listed more often is not said to be listed seldom any more (ns)."""
_MINUTES = (2, 5, 15, 60)


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The state of the source and a line that says why it is so and what to do; empty where all is well.

    ``blocked``: an alarm is raised, and the broker takes no messages over AMQP. ``changes_wait``: as of
    `gateway.model.observations.SourceStateSeen`. ``distrust``: why no request of a console may be served;
    empty where nothing speaks against it. ``events_since``: since when (ns) every event of the broker has
    been received, as far as is known; 0 while none is.
    """

    state: SourceState
    detail: str = ""
    blocked: bool = False
    changes_wait: bool = False
    distrust: str = ""
    events_since: int = 0


def failure_text(answer: Answer, user: str) -> str:
    """Why the management API is of no use now; empty for an answer that is."""
    match answer:
        case Refused(login=True, reason=reason):
            return (
                f"the management API refuses user {user!r} ({reason}): check user and password, and that the"
                " user has the tag 'monitoring'"
            )
        case Unavailable(reason):
            return f"the management API does not answer ({reason}): is the broker running, is its URL right?"
        case NotManagement(reason):
            return (
                f"there is no RabbitMQ management API at that URL ({reason}): check the URL, and that the"
                " plugin rabbitmq_management is enabled"
            )
    return ""


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """What may not or cannot be read, in one line; ``withheld``: it is for administrators only."""

    text: str
    withheld: bool


def refusal_text(request: ManagementRequest, refusal: Refused | Broken, user: str, writer: str = "") -> str:
    """What may not or cannot be read; ``writer`` is asked where an administrator is needed, if there."""
    if isinstance(refusal, Refused) and is_administrative(request):
        shut_out = writer and refusal.login
        refused = f", and the one who writes is refused ({refusal.reason})" if shut_out else ""
        return ADMINISTRATORS_ONLY + refused
    what = "the overview" if isinstance(request, OverviewRequest) else request.target.partition("?")[0]
    if isinstance(refusal, Broken) and refusal.lasting:
        return f"{what} are not shown: there are too many for the management API ({refusal.reason})"
    if isinstance(refusal, Broken):
        return f"the broker cannot list {what} ({refusal.reason}): see its log"
    return f"user {user!r} may not read {what} ({refusal.reason}): give it the tag 'monitoring'"


class _Seldom:
    """Says what is listed seldom, in steps, so that not each listing says something else."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        self._intervals: Mapping[str, int] = {}
        self._texts: list[str] = []

    def texts(self, intervals: Mapping[str, int]) -> list[str]:
        """What is listed seldom, and how seldom.

        Args:
            intervals: nanoseconds between listings of a collection; another mapping where they changed.
        """
        if intervals is not self._intervals:
            self._intervals = intervals
            steps = {
                collection: self._step(collection, interval) for collection, interval in intervals.items()
            }
            self._said = {collection: minutes for collection, minutes in steps.items() if minutes}
            self._texts = self._written()
        return self._texts

    def _written(self) -> list[str]:
        together: dict[int, list[str]] = {}
        for collection, minutes in sorted(self._said.items(), key=itemgetter(1)):
            together.setdefault(minutes, []).append(collection)
        return [
            f"{', '.join(alike)}: read every {latest} min at the latest, {WITHIN_BUDGET}"
            for latest, alike in together.items()
        ]

    def _step(self, collection: str, interval: int) -> int:
        """Minutes, rounded up; 0 for often. One that was said stays until much less is true."""
        said = self._said.get(collection, 0)
        if interval <= (_OFTEN if said else _SELDOM):
            return 0
        minutes = -(-interval // _MINUTE)
        step = _MINUTES[min(bisect_left(_MINUTES, minutes), len(_MINUTES) - 1)]
        step = max(step, -(-minutes // step) * step)
        return said if step <= said < 6 * minutes else step


_NOT_CONNECTED = "events are not connected yet"
_SHORT_LIVED = frozenset({"queue", "connection", "channel", "consumer", "exchange", "binding"})
"""Classes whose objects come and go with the broker's clients."""


class Visibility:
    """What of the broker can be seen, and whether it has all been seen.

    Args:
        listed: the classes that are listed.
        user: who reads; named in texts for people.
        writer: who changes the broker, and reads what an administrator is needed for; empty for none.

    Attributes:
        failure: why the management API is of no use now; empty while it is.
        asked_at: when what is not answered yet was asked (ns); 0 while nothing is asked.
        complete: whether everything has been read since the source was stale.
        was_complete: whether everything has been read once.
        events_missing: why no events arrive; empty while they do.
        awaits_events: it is not complete before it is known whether events arrive.
        catching_up: events of the time without a connection are being received.
        without_majority: why changes may wait in the broker; empty where they do not.
        last_event: when the last one arrived, or when they were found to arrive (ns); 0 for never.
        unbroken_since: since when every event has arrived, as far as is known (ns); 0 while they do not.
        named: the classes that were listed without statistics since the source was stale, and when
            that listing began (ns).
    """

    def __init__(self, listed: Iterable[str], user: str, writer: str = "") -> None:
        self.failure = _NOT_ASKED
        self.asked_at = 0
        self._failing_since = 0
        self.complete = False
        self.events_missing = _NOT_CONNECTED
        self.awaits_events = False
        self.catching_up = False
        self.without_majority = ""
        self.last_event = 0
        self.unbroken_since = 0
        self.named: dict[str, int] = {}
        self._listed_from: dict[str, int] = {}
        self._user = user
        self._writer = writer
        self._listed = frozenset(listed)
        self._unlisted = set(self._listed)
        self._unlistable: frozenset[str] = frozenset()
        self._refusals: dict[str, _Unreadable] = {}
        self.was_complete = False
        self._read_at: dict[str, int] = {}
        self._unread_since: dict[str, int] = {}
        self.left_out = ""
        self._seldom = _Seldom()
        self._progress: dict[str, str] = {}
        self._read_whole: set[str] = set()

    def answers(self) -> bool:
        """The management API answers; whether that is news."""
        news = bool(self.failure)
        self.failure = ""
        self._failing_since = 0
        return news

    def waits(self, asked: int) -> None:
        """What was asked at ``asked`` (ns) was not answered; whether anything is, the next answer shows."""
        self._failing_since = self._failing_since or asked

    @property
    def silent_since(self) -> int:
        """When what it does not answer, or has not yet, was asked first (ns); 0 while nothing is awaited."""
        return self._failing_since or self.asked_at

    def no_overview(self, answer: Answer) -> Answer:
        """What an answer to the overview means that is none; any other as it is.

        The parts of a broker's API come and go one by one, and the overview may be among the first to go.
        """
        if self.was_complete and isinstance(answer, NotFound):
            return Unavailable("there is no overview, as where a broker starts or stops")
        return NotManagement("there is no overview") if isinstance(answer, NotFound) else answer

    def fails(self, answer: Answer, asked: int) -> bool:
        """The management API is of no use, as who asked at ``asked`` (ns) found; whether that is news."""
        text = failure_text(answer, self._user)
        news = text != self.failure
        if not self.failure:
            self.read_again()
        self.failure = text
        self._failing_since = self._failing_since or asked
        return news

    @property
    def refused(self) -> bool:
        """Whether something may not or cannot be read."""
        return bool(self._refusals)

    @property
    def readable(self) -> frozenset[str]:
        """The listed classes that may be read, as far as that was tried."""
        return self._listed - self._refusals.keys() - self._unlistable

    @property
    def unread(self) -> frozenset[str]:
        """The listed classes that could not be read when they were last asked for, as reader or writer."""
        return frozenset(name for name, one in self._refusals.items() if not one.withheld) & self._listed

    def statistics_switched(self, unlistable: Iterable[str]) -> None:
        """Classes cannot be listed because the broker's statistics are off; none where they are on."""
        self._unlistable = frozenset(unlistable)
        self._unlisted -= self._unlistable
        for class_name in self._unlistable:
            self._refusals.pop(class_name, None)
            self._unread_since.pop(class_name, None)

    @property
    def statistics_off(self) -> bool:
        """Whether the broker's statistics are off."""
        return bool(self._unlistable)

    def read_again(self) -> None:
        """What is known is stale: it is not complete before all has been read again."""
        self._unlisted = set(self.readable)
        self.named.clear()
        self._read_whole.clear()
        self.complete = False

    def refuses(self, place: str, request: ManagementRequest, refusal: Refused | Broken, now: int) -> str:
        """This may not or cannot be read, and is not waited for; what to say of it, empty if it was said."""
        self._unread_since.setdefault(place, self._read_at.get(place, now))
        text = refusal_text(request, refusal, self._user, self._writer)
        former = self._refusals.get(place)
        withheld = isinstance(refusal, Refused) and is_administrative(request)
        self._refusals[place] = _Unreadable(text, withheld)
        if isinstance(request, ListingRequest):
            self._progress.pop(request.collection, None)
        self._unlisted.discard(place)
        return text if former is None or former.text != text else ""

    def reads(self, place: str, now: int) -> None:
        """This can be read."""
        self._read_at[place] = now
        self._refusals.pop(place, None)
        self._unread_since.pop(place, None)

    def unread_until(self, patience: int) -> int:
        """When the next class will not have been read for ``patience`` (ns); 0 for never."""
        return min((since + patience for since in self._unread_since.values() if since), default=0)

    def long_unread(self, now: int, patience: int) -> list[str]:
        """The classes that could not be read for ``patience`` (ns), each once: their values are unknown."""
        long = [place for place, since in self._unread_since.items() if since and now - since >= patience]
        self._unread_since.update(dict.fromkeys(long, 0))
        return [place for place in long if place in self._listed]

    def progress(self, request: ListingRequest, answer: Answer) -> None:
        """A page arrived: until all of a class has been read once, people see how many more there are."""
        body = answer.body if isinstance(answer, Document) else None
        total = body.get("total_count") if isinstance(body, Mapping) else None
        read = request.page * PAGE_SIZE
        if request.collection in self._read_whole:
            return
        if isinstance(total, int) and read < total:
            what = "values of " if request.class_name in self.named else ""
            self._progress[request.collection] = f"{what}{request.collection}: {read:,} of {total:,} read"
        elif not request.lean:
            self._progress.pop(request.collection, None)
            self._read_whole.add(request.collection)

    def expects(self, collection: str, amount: int) -> None:
        """A collection of so many objects is to be read, of which none is known yet."""
        if collection not in self._read_whole:
            self._progress.setdefault(collection, f"{collection}: 0 of {amount:,} read")

    def names_listed(self, class_name: str, collection: str, amount: int, began: int) -> None:
        """A listing without statistics of so many objects, which began then (ns), is complete."""
        self.named[class_name] = began
        if amount > PAGE_SIZE and collection not in self._read_whole:
            self._progress[collection] = f"values of {collection}: 0 of {amount:,} read"

    @property
    def in_progress(self) -> bool:
        """Whether a class is known in part: the first listing of it that is long has not come to its end."""
        return bool(self._progress)

    def listed(self, class_name: str, began: int) -> None:
        """A listing of this class, which began then (ns), is complete."""
        self._unlisted.discard(class_name)
        self._listed_from[class_name] = began

    def was_listed(self, class_names: Iterable[str]) -> bool:
        """Whether listings of these classes have been complete, as far as they may be read."""
        return self._listed_from.keys() >= self.readable.intersection(class_names)

    def listed_since(self, class_name: str, time: int) -> bool:
        """Whether a class was listed, by a listing that began at ``time`` (ns) or later."""
        return self._listed_from.get(class_name, 0) >= time

    def all_listed_from(self, time: int) -> bool:
        """Whether all that comes and goes was listed, by listings that began at ``time`` (ns) or later."""
        return all(self.listed_since(name, time) for name in self.readable & _SHORT_LIVED)

    def has_listed(self, class_names: Iterable[str]) -> bool:
        """Whether listings of these classes are complete, and the management API still answers."""
        return not self.failure and self._unlisted.isdisjoint(class_names)

    def is_complete(self, *, doubtful: bool) -> bool:
        """Whether everything has been read; what is ``doubtful`` delays it, but does not take it back.

        Everything that can be read: where that is nothing, nothing is fresh.
        """
        # What came and went before events arrive would not be seen.
        awaited = self.awaits_events and self.events_missing == _NOT_CONNECTED
        self.complete = self.complete or not (self._unlisted or doubtful or awaited or not self.readable)
        self.was_complete |= self.complete
        return self.complete

    def status(
        self,
        not_permitted: int,
        distrust: str,
        intervals: Mapping[str, int],
        *,
        blocked: bool,
        statistics: str = "",
        counted: bool = False,
    ) -> SourceStatus:
        """In one line for people.

        Args:
            not_permitted: how many virtual hosts may not be read.
            distrust: why no request of a console is accepted; empty where requests are.
            intervals: nanoseconds between listings of a collection; another mapping where they changed.
            blocked: whether the broker takes no messages.
            statistics: why statistics do not come from where they should; empty where they do.
            counted: whether statistics of queues come from elsewhere than listings.
        """
        if self.failure:
            state = SourceState.CONNECTING if self.failure == _NOT_ASKED else SourceState.DOWN
            return SourceStatus(
                state, self.failure, blocked, distrust=distrust, events_since=self.unbroken_since
            )
        parts = [one for one in (distrust, self.without_majority) if one]
        if not_permitted:
            hosts = "1 virtual host" if not_permitted == 1 else f"{not_permitted} virtual hosts"
            parts.append(f"contents of {hosts} may not be read")
        if self.statistics_off:
            parts.append(STATISTICS_OF_METRICS if counted else STATISTICS_OFF)
        parts += self._refused_texts(withheld=False)
        if self.events_missing:
            parts.append(f"short-lived queues and connections cannot be seen: {self.events_missing}")
        if self.catching_up:
            parts.append("receiving the events of the time before")
        if self.left_out:
            parts.append(self.left_out)
        parts += [statistics] if statistics else []
        parts += self._progress.values()
        parts += self._seldom.texts(intervals)
        # Last, because SNMP cuts a long line, and this part of it is there for ever where there is no writer.
        parts += self._refused_texts(withheld=True)
        known = self.complete and not self.catching_up
        state = SourceState.SYNCHRONISED if known else SourceState.SYNCHRONISING
        waits = bool(self.without_majority)
        return SourceStatus(state, "; ".join(parts), blocked, waits, distrust, self.unbroken_since)

    def _refused_texts(self, *, withheld: bool) -> list[str]:
        """Why something is not shown, each once: what is for administrators only, or all else."""
        texts = (one.text for one in self._refusals.values() if one.withheld is withheld)
        return list(dict.fromkeys(texts))
