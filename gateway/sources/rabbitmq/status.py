"""The parts of the broker that the source can read, with one line for people."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from gateway.model.observations import SourceState
from gateway.model.times import MINUTE
from gateway.sources.rabbitmq.management_api import (
    PAGE_SIZE,
    PAUSE_DEMANDED,
    Answer,
    Broken,
    Contradictory,
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
from gateway.sources.rabbitmq.path_proof import PathProof

ADMINISTRATORS_ONLY = "users, permissions and runtime parameters are not shown: that needs an administrator"
"""Shown although nothing is wrong, as without a writer: absent rows could be taken for absent objects."""
_EVENTS_ONLY = (
    "statistics are off on this broker: connections, channels and consumers are known by events only"
)
STATISTICS_OFF = f"{_EVENTS_ONLY}, and there are no counters"
"""Shown if ``management.disable_stats`` is set, or ``management_metrics_collection`` is not permitted."""
STATISTICS_OF_METRICS = f"{_EVENTS_ONLY}, and counters of queues by Prometheus' metrics"
"""Shown in the same case if Prometheus' metrics are read."""
WITHIN_BUDGET = "within the budget"
"""End of the text about classes that are read rarely."""
OVERVIEW = "overview"
"""The place of the overview among what is read."""
_NOT_ASKED = "not asked yet"

_NAMED = 3
"""Maximum number of objects that a text names."""
_LONGEST_NAME = 60
_SELDOM = 45_000_000_000
"""Nanoseconds between listings from which on a class is reported as read rarely: values are as old."""
_OFTEN = 30_000_000_000
"""Nanoseconds between listings below which a class is no longer reported as read rarely."""
_MINUTES = (2, 5, 15, 60)


def _some(names: Sequence[str], count: int) -> str:
    """Return the first names of ``count``, for people."""
    return ", ".join([repr(name)[:_LONGEST_NAME] for name in names[:_NAMED]] + ["..."] * (count > _NAMED))


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The state of the source.

    Attributes:
        detail: why it is so and what to do, in one line; empty if all is well.
        blocked: an alarm is raised, and the broker takes no messages over AMQP.
        changes_wait: see `gateway.model.observations.SourceStateSeen`.
        distrust: why no request of a console may be served; empty if it may.
        events_since: the time (ns) since which every event has been received, as far as is known; 0 while
            none is.
    """

    state: SourceState
    detail: str = ""
    blocked: bool = False
    changes_wait: bool = False
    distrust: str = ""
    events_since: int = 0


def failure_text(answer: Answer, user: str) -> str:
    """Return why the management API cannot be used now; empty for an answer of a usable one."""
    match answer:
        case Refused(login=True, reason=reason):
            return (
                f"the management API refuses user {user!r} ({reason}): check user and password, and that the"
                " user has the tag 'monitoring'"
            )
        case Unavailable(reason, pause=pause) if pause:
            return f"{PAUSE_DEMANDED} ({reason})"
        case Contradictory(reason) | Unavailable(reason, explained=True):
            return reason
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
    """The text about what may not or cannot be read.

    Attributes:
        text: the text.
        reason: what was answered.
        withheld: only administrators may read it.
        fails: reading it fails now, and may succeed at the next attempt.
        expected: nothing is wrong, because no account is configured that may read it.
    """

    text: str
    reason: str
    withheld: bool
    fails: bool
    expected: bool


@dataclass(frozen=True, slots=True)
class _Partly:
    """The text about a class of which a listing shows some objects only, or some in no readable form.

    Attributes:
        text: the text.
        since: when that began (ns).
        names: the objects that are in no readable form; an empty name stands for all without one.
        lasts: it is no matter of one moment, as the document of a connection that is being closed.
    """

    text: str
    since: int
    names: frozenset[str]
    lasts: bool


def refusal_text(request: ManagementRequest, refusal: Refused | Broken, user: str, writer: str = "") -> str:
    """Return the text about what may not or cannot be read; ``writer``, if any, reads as administrator."""
    if isinstance(refusal, Refused) and is_administrative(request):
        shut_out = writer and refusal.login
        refused = f", and the one who writes is refused ({refusal.reason})" if shut_out else ""
        return ADMINISTRATORS_ONLY + refused
    what = "the overview" if isinstance(request, OverviewRequest) else request.target.partition("?")[0]
    if isinstance(refusal, Broken) and refusal.permanent:
        return f"{what} are not shown: there are too many for the management API ({refusal.reason})"
    if isinstance(refusal, Broken) and refusal.reason.startswith(PAUSE_DEMANDED):
        return f"{what} are not shown: {refusal.reason}"
    if isinstance(refusal, Broken):
        return f"the broker cannot list {what} ({refusal.reason}): see its log"
    return f"user {user!r} may not read {what} ({refusal.reason}): give it the tag 'monitoring'"


class _Seldom:
    """Reports what is read rarely, in steps, so that the text does not change with each listing."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}
        self._intervals: Mapping[str, int] = {}
        self._texts: list[str] = []

    def texts(self, intervals: Mapping[str, int]) -> list[str]:
        """Return texts about collections that are listed rarely, with their intervals.

        Args:
            intervals: nanoseconds between listings of a collection; another mapping after a change.
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
        """Return minutes, rounded up; 0 for often. A reported step stays until it is much shorter."""
        said = self._said.get(collection, 0)
        if interval <= (_OFTEN if said else _SELDOM):
            return 0
        minutes = -(-interval // MINUTE)
        step = _MINUTES[min(bisect_left(_MINUTES, minutes), len(_MINUTES) - 1)]
        step = max(step, -(-minutes // step) * step)
        return said if step <= said < 6 * minutes else step


_NOT_CONNECTED = "events are not connected yet"
_SHORT_LIVED = frozenset({"queue", "connection", "channel", "consumer", "exchange", "binding"})
"""Classes whose objects are created and end with the broker's clients."""


class Visibility:
    """The parts of the broker that the source can read, and whether it has read all of them.

    Args:
        listed: the classes that are listed.
        user: the user who reads; named in texts for people.
        writer: the user who changes the broker, and reads classes that need an administrator; empty for none.

    Attributes:
        failure: why the management API cannot be used now; empty while it can.
        login_refused: the management API refused the login when it was used last.
        asked_at: when the unanswered request was sent (ns); 0 while there is none.
        complete: everything has been read since the source was stale.
        was_complete: everything has been read once.
        events_missing: why no events arrive; empty while they do.
        events_missing_since: since when that was found out (ns); 0 while they arrive.
        events_may_be_dropped: by which policies the broker may drop events; empty if by none.
        awaits_events: it is not complete before it is known whether events arrive.
        events_are_kept: a durable subscription keeps the events while there is no connection.
        catching_up: events from the time without a connection are being received.
        replacement: which broker is read in the place of which since the start; empty if none is.
        without_majority: why changes may wait in the broker; empty if they do not.
        had_events: events were found to arrive, or are missed since everything was read.
        unbroken_since: the time since which every event has arrived, as far as is known (ns); 0 while they do
            not.
        named: the classes that were listed without statistics since the source was stale, and when that
            listing began (ns).
        paths: what becomes of names in paths on the way to the management API.
    """

    def __init__(self, listed: Iterable[str], user: str, writer: str = "") -> None:
        self.failure = _NOT_ASKED
        self.login_refused = False
        self.asked_at = 0
        self._failing_since = 0
        self.complete = False
        self.events_missing = _NOT_CONNECTED
        self.events_missing_since = 0
        self.events_may_be_dropped = ""
        self.awaits_events = False
        self.events_are_kept = False
        self.catching_up = False
        self.without_majority = ""
        self.replacement = ""
        self.had_events = False
        self.unbroken_since = 0
        self.named: dict[str, int] = {}
        self.paths = PathProof()
        self._listed_from: dict[str, int] = {}
        self._user = user
        self._writer = writer
        self._listed = frozenset(listed)
        self._unlisted = set(self._listed)
        self._unlistable: frozenset[str] = frozenset()
        self._refusals: dict[str, _Unreadable] = {}
        self._partly: dict[str, _Partly] = {}
        self.was_complete = False
        self._read_at: dict[str, int] = {}
        self._unread_since: dict[str, int] = {}
        self.left_out = ""
        self._seldom = _Seldom()
        self._progress: dict[str, str] = {}
        self._read_whole: set[str] = set()

    def answers(self) -> bool:
        """Note that the management API answers; return whether that has changed."""
        news = bool(self.failure)
        self.failure = ""
        self.login_refused = False
        self._failing_since = 0
        return news

    def waits(self, asked: int) -> None:
        """Note that a request of ``asked`` (ns) was not answered; the next answer shows whether any is."""
        self._failing_since = self._failing_since or asked

    @property
    def silent_since(self) -> int:
        """The time at which the first unanswered request was sent (ns); 0 while there is none."""
        return self._failing_since or self.asked_at

    def no_overview(self, answer: Answer) -> Answer:
        """Return the meaning of an answer to the overview that is none; any other answer unchanged.

        The parts of a broker's API start and stop one by one, and the overview may be among the first to
        stop.
        """
        if self.was_complete and isinstance(answer, NotFound):
            return Unavailable("there is no overview, as where a broker starts or stops")
        return NotManagement("there is no overview") if isinstance(answer, NotFound) else answer

    def fails(self, answer: Answer, asked: int) -> bool:
        """Note that the request of ``asked`` (ns) failed; return whether the reason is new."""
        text = failure_text(answer, self._user)
        news = text != self.failure
        self.login_refused = isinstance(answer, Refused)
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
    def not_readable(self) -> dict[str, tuple[str, int]]:
        """The listed classes that should be readable and are not: what was answered, and since when (ns)."""
        return {
            name: (one.reason, self._unread_since[name])
            for name, one in self._refusals.items()
            if name in self._listed and not one.expected
        }

    @property
    def overview_not_readable(self) -> dict[str, tuple[str, int]]:
        """The overview, if it cannot be read although the rest can: as `not_readable`."""
        one = self._refusals.get(OVERVIEW)
        return {} if one is None else {OVERVIEW: (one.reason, self._unread_since[OVERVIEW])}

    @property
    def overview_read_at(self) -> int:
        """When the overview was read last (ns); 0 for never."""
        return self._read_at.get(OVERVIEW, 0)

    @property
    def read_in_part(self) -> dict[str, tuple[str, int]]:
        """The listed classes of which some objects are stale, and the others are read: as `not_readable`."""
        return {name: (one.text, one.since) for name, one in self._partly.items() if one.lasts}

    def events_arrive(self) -> None:
        """Note that events arrive from now on."""
        self.events_missing, self.events_missing_since = "", 0

    @property
    def lacks_events(self) -> bool:
        """Whether events should arrive, and it was found out that they do not."""
        return self.awaits_events and self.events_missing not in {"", _NOT_CONNECTED}

    def documents_unreadable(
        self,
        class_name: str,
        names: Iterable[str],
        unnamed: int,
        now: int,
        unlisted: int = 0,
        ambiguous: Collection[str] = (),
    ) -> str:
        """Note which objects of a class a listing showed in a form that cannot be read, or lacked wrongly.

        The ``ambiguous`` ones were on one page twice, with different values. What one listing shows so may be
        a matter of the moment, as where something is made or closed; what two show of one object lasts.

        Returns:
            What is new, with the first names, for the log; else empty. The detail and alarms are read also by
            those who see only some of the objects, so these have no name in them: each such object is stale.
        """
        former = self._partly.pop(class_name, None)
        readable = sorted(names)
        text = ""
        if count := len(readable) + unnamed:
            text = f"of class {class_name} {count} cannot be read"
        elif ambiguous:
            text = f"the broker lists {len(ambiguous)} of class {class_name} twice, with different values"
            text = f"{text}: their former values stay"
        elif unlisted:
            text = f"the broker lists class {class_name} without {unlisted} objects that may exist"
        if text:
            shown = frozenset((*readable, *ambiguous, *[""] * bool(unnamed)))
            lasts = unlisted > 0 or (former is not None and not former.names.isdisjoint(shown))
            since = former.since if former is not None else now
            self._partly[class_name] = _Partly(text, since, shown, lasts)
        named = readable or sorted(ambiguous)
        is_news = named and (former is None or not former.names.issuperset(named))
        return f"{text}: {_some(named, len(named))}" if is_news else ""

    def statistics_switched(self, unlistable: Iterable[str]) -> None:
        """Set the classes that cannot be listed because the broker's statistics are off; may be none."""
        self._unlistable = frozenset(unlistable)
        self._unlisted -= self._unlistable
        for class_name in self._unlistable:
            self._partly.pop(class_name, None)
            self._refusals.pop(class_name, None)
            self._unread_since.pop(class_name, None)

    @property
    def statistics_off(self) -> bool:
        """Whether the broker's statistics are off."""
        return bool(self._unlistable)

    def read_again(self) -> None:
        """Note that all values are stale, and not complete before all has been read again."""
        # What failed before may succeed: it is tried again before everything counts as read.
        fails = {place for place, one in self._refusals.items() if one.fails}
        self._unlisted = set(self.readable | (self._listed & fails))
        self.named.clear()
        self._read_whole.clear()
        self.complete = False

    def refuses(self, place: str, request: ManagementRequest, refusal: Refused | Broken, now: int) -> str:
        """Note that this may not or cannot be read; return the text, empty if it was reported before."""
        self._unread_since.setdefault(place, self._read_at.get(place, now))
        text = refusal_text(request, refusal, self._user, self._writer)
        former = self._refusals.get(place)
        withheld = isinstance(refusal, Refused) and is_administrative(request)
        fails = isinstance(refusal, Broken) and not refusal.permanent
        expected = withheld and not (self._writer and isinstance(refusal, Refused) and refusal.login)
        self._refusals[place] = _Unreadable(text, refusal.reason, withheld, fails, expected)
        self._partly.pop(place, None)
        if isinstance(request, ListingRequest):
            self._progress.pop(request.collection, None)
        self._unlisted.discard(place)
        return text if former is None or former.text != text else ""

    def reads(self, place: str, now: int) -> None:
        """Note that this can be read."""
        self._read_at[place] = now
        self._refusals.pop(place, None)
        self._unread_since.pop(place, None)

    def unread_until(self, now: int, patience: int) -> int:
        """Return when the next class will have been unreadable for ``patience`` (ns); 0 for never."""
        times = (since + patience for since in self._unread_since.values())
        return min((time for time in times if time > now), default=0)

    def long_unread(self, now: int, patience: int) -> dict[str, int]:
        """Return the listed classes that have been unreadable for ``patience`` (ns), and since when."""
        return {
            place: since
            for place, since in self._unread_since.items()
            if now - since >= patience and place in self._listed
        }

    def was_read_unbroken(self, place: str) -> bool:
        """Return whether a class was listed since when every event has arrived, as far as is known."""
        return bool(self.unbroken_since) and self.listed_since(place, self.unbroken_since)

    def progress(self, request: ListingRequest, answer: Answer) -> None:
        """Note a page: until all of a class has been read once, the text says how many objects are left."""
        body = answer.body if isinstance(answer, Document) else None
        total = body.get("total_count") if isinstance(body, Mapping) else None
        read = request.page * request.page_size
        if request.collection in self._read_whole:
            return
        if isinstance(total, int) and read < total:
            what = "values of " if request.class_name in self.named else ""
            self._progress[request.collection] = f"{what}{request.collection}: {read:,} of {total:,} read"
        elif not request.lean:
            self._progress.pop(request.collection, None)
            self._read_whole.add(request.collection)

    def expects(self, collection: str, amount: int) -> None:
        """Note that a collection of so many objects will be read, of which none is known yet."""
        if collection not in self._read_whole:
            self._progress.setdefault(collection, f"{collection}: 0 of {amount:,} read")

    def names_listed(self, class_name: str, collection: str, amount: int, began: int) -> None:
        """Note the end of a listing without statistics, of so many objects, which began then (ns)."""
        self.named[class_name] = began
        if amount > PAGE_SIZE and collection not in self._read_whole:
            self._progress[collection] = f"values of {collection}: 0 of {amount:,} read"

    @property
    def in_progress(self) -> bool:
        """Whether a class is known in part, because its long first listing has not ended."""
        return bool(self._progress)

    def listed(self, class_name: str, began: int) -> None:
        """Note the end of a listing of this class, which began then (ns)."""
        self._unlisted.discard(class_name)
        self._listed_from[class_name] = began

    def was_listed(self, class_names: Iterable[str]) -> bool:
        """Return whether these classes have been listed, as far as they may be read."""
        return self._listed_from.keys() >= self.readable.intersection(class_names)

    def listed_since(self, class_name: str, time: int) -> bool:
        """Return whether a class was listed, by a listing that began at ``time`` (ns) or later."""
        return self._listed_from.get(class_name, 0) >= time

    def all_listed_from(self, time: int) -> bool:
        """Return whether all classes of short-lived objects were listed since ``time`` (ns)."""
        return all(self.listed_since(name, time) for name in self.readable & _SHORT_LIVED)

    def has_listed(self, class_names: Iterable[str]) -> bool:
        """Return whether these classes have been listed, and the management API still answers."""
        return not self.failure and self._unlisted.isdisjoint(class_names)

    def is_complete(self, *, unconfirmed: bool) -> bool:
        """Return whether everything that can be read has been read; ``unconfirmed`` objects delay that.

        If nothing can be read, nothing is fresh.
        """
        # Objects that come and go before events arrive would not be seen.
        awaited = self.awaits_events and self.events_missing == _NOT_CONNECTED
        self.complete = self.complete or not (self._unlisted or unconfirmed or awaited or not self.readable)
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
        overdue: Collection[str] = (),
        others_dropped: str = "",
    ) -> SourceStatus:
        """Return the status, with one line for people.

        Args:
            not_permitted: the number of virtual hosts that may not be read.
            distrust: why no request of a console is accepted; empty if requests are.
            intervals: nanoseconds between listings of a collection; another mapping after a change.
            blocked: whether the broker takes no messages.
            statistics: why statistics do not come from the configured place; empty if they do.
            counted: whether statistics of queues come from elsewhere than listings.
            overdue: what was not read in time, so that objects are stale.
            others_dropped: by which policies other sources of the gateway may lose messages; empty for none.
        """
        if self.failure:
            state = SourceState.CONNECTING if self.failure == _NOT_ASKED else SourceState.DOWN
            return SourceStatus(
                state, self.failure, blocked, distrust=distrust, events_since=self.unbroken_since
            )
        parts = [one for one in (distrust, self.replacement, self.without_majority) if one]
        if not_permitted:
            hosts = "1 virtual host" if not_permitted == 1 else f"{not_permitted} virtual hosts"
            parts.append(f"contents of {hosts} may not be read")
        parts += [self.paths.text] if self.paths.text else []
        if self.statistics_off:
            parts.append(STATISTICS_OF_METRICS if counted else STATISTICS_OFF)
        parts += self._refused_texts(withheld=False)
        parts += [one.text for one in self._partly.values()]
        if self.events_missing:
            parts.append(f"short-lived queues and connections cannot be seen: {self.events_missing}")
        elif self.events_may_be_dropped:
            parts.append(self.events_may_be_dropped)
        parts += [others_dropped] if others_dropped else []
        if self.catching_up:
            parts.append("receiving the events of the time before")
        if self.left_out:
            parts.append(self.left_out)
        parts += [f"{', '.join(overdue)}: stale, because not read in time"] if overdue else []
        parts += [statistics] if statistics else []
        parts += self._progress.values()
        parts += self._seldom.texts(intervals)
        # Last, because SNMP cuts a long line, and this part is always there without a writer.
        parts += self._refused_texts(withheld=True)
        known = self.complete and not self.catching_up
        fails = self.not_readable or self.overview_not_readable or self.read_in_part or overdue
        misses = self.lacks_events or self.events_may_be_dropped
        trusted = SourceState.DEGRADED if fails or misses else SourceState.SYNCHRONISED
        state = trusted if known else SourceState.SYNCHRONISING
        waits = bool(self.without_majority)
        return SourceStatus(state, "; ".join(parts), blocked, waits, distrust, self.unbroken_since)

    def _refused_texts(self, *, withheld: bool) -> list[str]:
        """Return why something is not shown, each text once: for administrators only, or all else."""
        texts = (one.text for one in self._refusals.values() if one.withheld is withheld)
        return list(dict.fromkeys(texts))
