"""The schedule of requests to the management API, which limits the load on the broker. Without I/O.

One request is sent at a time. The share of time that requests take stays within a budget: classes that are
cheap to list are listed at their own pace, others as often as these leave time for (one of 1.2 s at 3.5 %
comes every 34 s), each slowed down as much as it costs. Failures make pauses longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from gateway.model.times import SECOND
from gateway.sources.rabbitmq.amqp10_sessions import NEVER, SessionRounds
from gateway.sources.rabbitmq.management_api import (
    LISTING_PATIENCE,
    LONGEST_PATIENCE,
    PAGE_SIZE,
    UNMEASURED_COLLECTIONS,
    ExtraRequest,
    ListingRequest,
    ManagementRequest,
    OverviewRequest,
    SessionsRequest,
    UsersRequest,
)
from gateway.sources.rabbitmq.questions import Questions
from gateway.sources.rabbitmq.source_config import RARELY, SESSIONS_SHARE, PollingConfig

_LEAST_LISTED = 1 / 10
"""Share of the budget that listings get at least."""
_RECENT = 3
"""Number of listings of which the cheapest one is taken for what a listing costs."""
_LONG_PAGE: Final = 2 * SECOND
"""Mean nanoseconds of a page from which on other classes are listed between the pages of a listing."""
_PATIENCE_OF_THOUSAND: Final = SECOND
"""Nanoseconds by which the wait for a page grows with each 1,000 objects."""
SMALL_PAGE: Final = 100
"""Number of objects on a page of a class whose larger pages were not answered in time."""

NEEDED_BY_EVENTS: Final = frozenset({"node", "vhost"})
"""Classes of objects on which objects that events report depend."""


@dataclass(slots=True)
class _ClassPlan:
    """The plan of one class.

    Attributes:
        read_from: when the last whole listing began (ns); 0 before the first.
        cost: the duration of a whole listing (ns), smoothed over ``readings``.
        recent: the durations of the last whole listings (ns), `_RECENT` at most.
        again: the listing in progress may lack an object that was found.
        withheld: listing it needs rights that are missing.
        refusals: the number of times in a row that it could not be listed.
        held_until: it is not listed before this time (ns), for whatever reason.
        page_size: number of objects on a page.
        patience: nanoseconds to wait for a page.
    """

    first_page: ListingRequest
    interval: int
    due: int = 0
    began: int = 0
    read_from: int = 0
    spent: int = 0
    cost: float = 0.0
    recent: tuple[int, ...] = ()
    readings: int = 0
    again: bool = False
    withheld: bool = False
    refusals: int = 0
    held_until: int = 0
    page_size: int = PAGE_SIZE
    patience: int = LISTING_PATIENCE

    def first_request(self) -> ListingRequest:
        """Return the request that begins a listing."""
        return replace(self.first_page, page_size=self.page_size, patience=self.patience)


@dataclass(frozen=True, slots=True)
class PlannedReading:
    """Elements of a class that are read together, again and again.

    Attributes:
        class_name: the class.
        what: its name for people.
        interval: the planned nanoseconds between two readings.
        read_at: when the last complete reading began (ns).
    """

    class_name: str
    what: str
    interval: int
    read_at: int


class PollingPlan:
    """Decides the next request.

    Args:
        listings: the first page of each class's listing, in the order in which to read them at first.
        config: the intervals and the budget.
        users: whether the users are read, too.

    Attributes:
        intervals: current nanoseconds between listings of a collection, for those that were listed often
            enough to know. It is another mapping after each change.
        sessions: decides which AMQP 1.0 connection is asked for its sessions, and when.
    """

    def __init__(
        self,
        listings: Iterable[ListingRequest],
        config: PollingConfig | None = None,
        *,
        users: bool = False,
    ) -> None:
        self._config = config or PollingConfig()
        self._classes = {
            first.class_name: _ClassPlan(
                first, self._config.slow.get(first.class_name, self._config.interval)
            )
            for first in listings
        }
        self._set_aside: dict[str, _ClassPlan] = {}
        self.intervals: Mapping[str, int] = {}
        self.sessions = SessionRounds(
            self._config.missing_pause,
            self._config.refused_pause,
            SESSIONS_SHARE * self._config.budget,
            self._config.longest_interval,
        )
        self._pages: dict[str, tuple[ListingRequest, int]] = {}  # the next of each listing, and when
        self._overview_due = 0
        self._users_due = 0 if users else NEVER
        self._users_refused = False
        self._reserved = 0.0
        self._beside: dict[str, tuple[int, float]] = {}
        self._elsewhere: Mapping[str, int] = {}
        self._first_time = self._config.first_time
        self._questions = Questions(self._config)
        self._failures = self._demands = 0
        self._paused_until = 0
        self._held_until = 0
        self._nodes_awaited_until = 0
        self._nodes_first = False

    def hold(self, until: int) -> None:
        """List only what is needed to understand events, until a time (ns) or `release`.

        Events of the time before are taken first: a listing would show their outcome, without the times.
        """
        self._held_until = until
        self._put_off_page()

    def hold_at_most(self, until: int) -> None:
        """Limit a `hold` to a time (ns)."""
        self._held_until = min(self._held_until, until)

    def release(self) -> None:
        """List everything again."""
        self._held_until = 0

    def await_nodes(self, until: int) -> None:
        """List little but the nodes, until a time (ns) or `nodes_dated`; nothing else before `nodes_listed`.

        If a node was started again, the objects have ended that end with it, and a listing does not show
        that: another object of the same name may be there already.
        """
        self._nodes_awaited_until = until
        self._nodes_first = True
        for plan in self._classes.values():
            if plan.first_page.class_name == "node":
                plan.due = 0
        self._succeeded(0)
        self._put_off_page()

    def nodes_listed(self) -> None:
        """List virtual hosts, too: the nodes are those of the broker that is known."""
        self._nodes_first = False

    def nodes_dated(self) -> None:
        """End `await_nodes`: it is known since when each node has run, or cannot be found out."""
        self._nodes_awaited_until = 0
        self._nodes_first = False

    def awaits_nodes(self, now: int) -> bool:
        """Return whether `await_nodes` still holds."""
        return now < self._nodes_awaited_until

    @property
    def _little_until(self) -> int:
        return max(self._held_until, self._nodes_awaited_until)

    def _put_off_page(self) -> None:
        for key, (page, _) in list(self._pages.items()):
            if page.class_name not in NEEDED_BY_EVENTS:
                self._classes[key].due = 0
                del self._pages[key]

    def awaits_events(self, now: int) -> bool:
        """Return whether events that happened before now are waited for."""
        return now < self._held_until

    def is_holding(self, now: int) -> bool:
        """Return whether only what events need is listed."""
        return now < self._little_until

    def _due(self, plan: _ClassPlan) -> int:
        class_name = plan.first_page.class_name
        if self._nodes_first and class_name != "node":
            return max(plan.due, self._little_until)
        return plan.due if class_name in NEEDED_BY_EVENTS else max(plan.due, self._little_until)

    def due(self) -> int:
        """Return when the next request is due (ns)."""
        soonest = min((due for _, due in self._pages.values()), default=NEVER)
        if soonest == NEVER or self._others_meanwhile:
            startable = (self._due(plan) for key, plan in self._classes.items() if key not in self._pages)
            soonest = min(soonest, *startable, NEVER)
        soonest = min(
            soonest, self._overview_due, self._users_due, self.sessions.due(), self._questions.due()
        )
        return max(soonest, self._paused_until)

    def next_request(self, now: int) -> ManagementRequest | None:
        """Return the request to send now, or ``None``; its end must be reported before the next."""
        if now < self._paused_until:
            return None
        if now >= min(self._overview_due, self._users_due):
            return OverviewRequest() if now >= self._overview_due else UsersRequest()
        question = None if self._nodes_first and self.awaits_nodes(now) else self._question(now)
        if question is not None:
            return question
        page, page_due = min(self._pages.values(), key=itemgetter(1), default=(None, NEVER))
        if page is not None and (now >= page_due or not self._others_meanwhile):
            return page if now >= page_due else None
        # Ties go to the class named first: what others refer to comes before them.
        startable = [key for key in self._classes if key not in self._pages]
        soonest = min(startable, key=lambda key: self._due(self._classes[key]), default=None)
        if soonest is None or now < self._due(self._classes[soonest]):
            return None
        plan = self._classes[soonest]
        plan.spent = 0
        plan.again = False
        first = plan.first_request()
        self._pages[soonest] = first, now
        return first

    @property
    def _others_meanwhile(self) -> bool:
        """Whether other classes are listed between the pages of a listing, because these take long."""
        return any(page.page > 1 and self._takes_long(key, page) for key, (page, _) in self._pages.items())

    def _takes_long(self, key: str, page: ListingRequest) -> bool:
        return self._classes[key].spent >= (page.page - 1) * _LONG_PAGE

    def _question(self, now: int) -> ManagementRequest | None:
        question = self._questions.next(now)
        if question is not None:
            return question
        connection = self.sessions.next_connection(now)
        return None if connection is None else SessionsRequest(connection)

    def page_read(
        self, request: ListingRequest, began: int, ended: int, *, last: bool, spent: int | None = None
    ) -> None:
        """Take the arrival of a page.

        Args:
            request: the request.
            began: when it was sent (ns).
            ended: when its answer was taken (ns).
            last: it is the last page.
            spent: nanoseconds that the broker took for it; by default, all that passed.
        """
        self._nodes_first = self._nodes_first and request.class_name != "node"
        self._succeeded(ended)
        spent = ended - began if spent is None else spent
        plan = self._classes[_key(request)]
        if request.page == 1:
            plan.began = began
        plan.spent += spent
        is_first = plan.readings == 0 and self._first_time > 0
        self._first_time -= spent
        if not last:
            # Other clients of the management API get as much of the broker's time as the gateway.
            due = ended if is_first else ended + spent
            self._pages[_key(request)] = replace(request, page=request.page + 1), due
            return
        self._pages.pop(_key(request), None)
        # Others who keep the machines busy make a listing longer, never shorter. Taken for the cost, that
        # would put off the next one by minutes.
        plan.recent = (*plan.recent[1 - _RECENT :], plan.spent)
        cost = min(plan.recent)
        plan.cost = 0.7 * plan.cost + 0.3 * cost if plan.readings > 1 else cost
        plan.read_from = plan.began
        plan.readings += 1
        plan.withheld = False
        plan.refusals = 0
        plan.due = max(plan.began + self._pause(plan), ended)
        if plan.interval == NEVER:
            del self._classes[_key(request)]
        self._note_intervals()

    def overview_read(self, ended: int) -> None:
        """Take the arrival, or the failure, of the overview."""
        self._succeeded(ended)
        self._overview_due = ended + self._config.overview

    def users_read(self, began: int, ended: int, *, refused: bool) -> None:
        """Take the arrival, or the failure, of the users; ``refused``: they may not be read."""
        self._users_refused = refused
        pause = self._config.refused_users if refused else self._config.overview
        within_budget = min(int((ended - began) / self._config.budget), self._config.longest_interval)
        self._users_due = ended + max(pause, within_budget)

    def poll_users_soon(self, now: int) -> None:
        """Read the users now, because tags have changed, unless that is not done or was refused."""
        if self._users_due != NEVER and not self._users_refused:
            self._users_due = min(self._users_due, now)

    def extra_read(self, request: ExtraRequest, spent: int, ended: int) -> None:
        """Take the answer about a single object or virtual host, for which the broker took ``spent`` (ns)."""
        self._succeeded(ended)
        self._questions.answered(request, spent, ended)

    def refused(
        self, request: ListingRequest, ended: int, *, long: bool = False, withheld: bool = False
    ) -> None:
        """Do not list this for a pause that doubles each time, or for ``long``, because it was refused.

        ``withheld``: it needs a right that monitoring does not need.
        """
        self._succeeded(ended)
        self._pages.pop(_key(request), None)
        plan = self._classes[_key(request)]
        plan.withheld = withheld
        least = self._config.refused_users if long else self._config.refused_pause
        most = max(least, self._config.longest_refused_pause)
        plan.due = ended + min(least << min(plan.refusals, 30), most)
        plan.held_until = ended + least
        plan.refusals += 1
        self._note_intervals()

    def ask_as_administrator(self, request: ListingRequest, ended: int) -> None:
        """List a class as the administrator, because the reading user may not."""
        self._succeeded(ended)
        self._pages.pop(_key(request), None)
        plan = self._classes[request.class_name]
        plan.first_page = replace(plan.first_page, as_administrator=True)
        plan.due = ended

    def withhold(self, class_name: str, ended: int) -> ListingRequest:
        """Stop listing a class, because a class on which it depends may not be listed."""
        request = self._classes[class_name].first_page
        self.refused(request, ended, long=True, withheld=True)
        return request

    def permit(self, class_name: str, now: int) -> None:
        """List a class again after `withhold`."""
        plan = self._classes[class_name]
        if plan.withheld:
            plan.refusals, plan.withheld, plan.due = 0, False, now

    def missing(self, request: ListingRequest, ended: int) -> None:
        """Do not list a collection for long, because the broker does not have it (see `retry`)."""
        self._succeeded(ended)
        self._pages.pop(_key(request), None)
        plan = self._classes[request.class_name]
        plan.refusals = 1
        plan.due = ended + self._config.missing_pause
        # A source that was down, or whose events were, is complete only when this was asked for again. Unlike
        # a refusal it costs the broker nothing, and needs no long pause.
        plan.held_until = ended + self._config.first_pause
        self._note_intervals()

    def questioned(self, request: ListingRequest, ended: int) -> None:
        """Read the overview next, because this answer is not that of a listing."""
        plan = self._classes[_key(request)]
        plan.due = max(plan.due, ended + plan.interval)
        self._pages.pop(_key(request), None)
        self.poll_overview_soon(ended)

    def late(self, request: ListingRequest) -> None:
        """Ask for less, or wait longer, because a page was not answered in time: smaller pages come first.

        They do not help if the broker makes each page from all objects; then the wait grows.
        """
        plan = self._classes[_key(request)]
        if request.has_pages and request.page_size > SMALL_PAGE:
            plan.page_size = SMALL_PAGE
        else:
            plan.page_size = PAGE_SIZE
            plan.patience = min(2 * plan.patience, LONGEST_PATIENCE)

    def sized(self, collection: str, size: int) -> None:
        """Wait longer for the listings of a collection the more objects it has."""
        patience = min(LISTING_PATIENCE + size // 1_000 * _PATIENCE_OF_THOUSAND, LONGEST_PATIENCE)
        for plan in self._classes.values():
            if plan.first_page.collection == collection:
                plan.patience = max(plan.patience, patience)

    def switch_statistics(self, now: int, *, off: bool) -> None:
        """Stop or resume the listings that need the broker's statistics, which are off or on now.

        The totals of queues can be read all the same.
        """
        every = {**self._set_aside, **self._classes}
        unmeasured = {
            name for name, plan in every.items() if plan.first_page.collection in UNMEASURED_COLLECTIONS
        }
        stopped = {*unmeasured, "queue"}
        self._pages = {key: one for key, one in self._pages.items() if one[0].class_name not in stopped}
        for name in self._set_aside:
            every[name].due, every[name].refusals = now, 0
        for name, plan in every.items():
            plan.first_page = replace(plan.first_page, totals_only=off and name == "queue")
        aside = unmeasured if off else set()
        self._classes = {name: plan for name, plan in every.items() if name not in aside}
        self._set_aside = {name: every[name] for name in aside}
        self._note_intervals()

    def poll_overview_soon(self, now: int) -> None:
        """Read the overview before anything else."""
        self._overview_due = min(self._overview_due, now)

    def retry(self, now: int, *, at_once: bool) -> None:
        """Shorten the pauses of classes that could not be listed, because it may be possible now.

        ``at_once``: there is a reason to expect that, such as a changed right or another version of the
        broker. Otherwise the shortest pause since the last refusal is kept.
        """
        if at_once:
            self.sessions.retry(now)
        for plan in self._classes.values():
            if plan.refusals:
                plan.refusals = 1
                plan.due = now if at_once else min(plan.due, max(now, plan.held_until))

    def failed(self, request: ManagementRequest, ended: int) -> None:
        """Try again after a pause that grows with each failure, because nothing answers.

        A listing starts again. This request waits until another one was sent, which may succeed.
        """
        for key in self._pages:
            self._classes[key].due = ended + self._classes[key].interval
        self._pages.clear()
        if isinstance(request, SessionsRequest):
            self.sessions.failed(request.connection, ended)
        if isinstance(request, ExtraRequest):
            self._questions.failed(request, ended)
        pause = self._config.first_pause << min(self._failures, 30)
        self._paused_until = ended + min(pause, self._config.longest_pause)
        self._failures += 1

    def try_again(self, now: int) -> None:
        """End the pause after failures, because something shows that the broker is back."""
        if not self._demands:
            self._paused_until = min(self._paused_until, now)
            self._failures = 0

    def pause(self, request: ManagementRequest, ended: int, pause: int) -> None:
        """Send nothing for ``pause`` (ns), because a server demands that, and then the same request again.

        If that is repeated, other requests come first: the demand may concern this one alone.
        """
        if self._demands:
            self.failed(request, ended)
        self._demands += 1
        self._paused_until = ended + pause

    @property
    def demanded_until(self) -> int:
        """The time until which a server demands that nothing is sent (ns); 0 for no demand."""
        return self._paused_until if self._demands else 0

    def demand(self, until: int) -> None:
        """Send nothing until a time (ns), because a server demands that in answer to an operation."""
        self._demands = self._demands or 1
        self._paused_until = max(self._paused_until, until)

    def sessions_read(self, request: SessionsRequest, began: int, ended: int, *, found: bool) -> None:
        """Take the sessions of a connection; not ``found``: it has ended, or the broker shows none."""
        self._succeeded(ended)
        if found:
            self.sessions.answered(request.connection, began, ended)
        else:
            self.sessions.not_found(request.connection, ended)

    @property
    def reads_singly(self) -> bool:
        """Whether an object waits that is read by itself because its class cannot be listed."""
        return self._questions.reads_singly

    def ask(self, request: ExtraRequest) -> bool:
        """Ask about a single object or virtual host soon; return ``False`` if too many questions wait."""
        return self._questions.add(request)

    def list_without_statistics(
        self, class_name: str, now: int, *, share: float, intervals: Mapping[str, int]
    ) -> None:
        """List a class without statistics, and rarely with them, because they are read elsewhere.

        Args:
            class_name: the class.
            now: the time (ns).
            share: share of time that reading elsewhere may take, which listings do not get.
            intervals: nanoseconds between two readings elsewhere, by the name that people see.
        """
        plan = self._classes[class_name]
        self._reserved = share
        self._elsewhere = intervals
        plan.interval = self._config.lean
        first = replace(plan.first_page, columns=(), lean=True, totals_only=False)
        lean = self._classes.setdefault(_key(first), _ClassPlan(first, self._config.lean, due=now))
        lean.interval = self._config.lean
        self._note_intervals()

    def list_with_statistics(self, class_name: str, now: int) -> None:
        """List a class with its statistics again, and soon."""
        plan = self._classes[class_name]
        lean = self._classes.get(_lean_key(class_name))
        if lean is None:
            return
        # It may be under way, and is dropped at its end.
        lean.interval = lean.due = NEVER
        self._reserved = 0.0
        self._elsewhere = {}
        plan.interval = self._config.interval
        plan.due = min(plan.due, max(now, plan.began + self._bearable(plan)))
        self._note_intervals()

    def read_beside(self, what: str, interval: int, share: float) -> None:
        """Take note of something that is read elsewhere at an interval, and takes time from listings."""
        if self._beside.get(what, (0, 0.0)) != (interval, share):
            self._beside[what] = (interval, share)
            self._note_intervals()

    def list_names_first(self, class_name: str) -> None:
        """List a class without statistics in its turn, and with them, which takes long, after all others."""
        plan = self._classes[class_name]
        if plan.readings == 0 and plan.due == 0 and not self._pages:
            first = replace(plan.first_page, columns=(), lean=True, totals_only=False)
            lean = _ClassPlan(first, NEVER)
            keys = {_key(first) if name == class_name else name: one for name, one in self._classes.items()}
            self._classes = {**keys, _key(first): lean, class_name: plan}

    def awaits_names(self, class_name: str) -> bool:
        """Return whether the first listing of a class, of names only, is still to come."""
        lean = self._classes.get(_lean_key(class_name))
        return lean is not None and lean.interval == NEVER > lean.due and not lean.refusals

    def poll_soon(self, now: int, class_name: str = "", *, values: bool = False) -> None:
        """List a class, or all of them, as soon as the broker allows: something may have been missed.

        Classes that could not be listed keep their pause (see `retry`).
        ``values``: statistics are listed, too.
        """
        for name, plan in self._classes.items():
            is_meant = class_name in {plan.first_page.class_name, ""} and (
                values or _lean_key(name) not in self._classes
            )
            if is_meant and plan.interval != NEVER and not plan.refusals:
                plan.again = name in self._pages
                plan.due = min(plan.due, max(now, plan.began + self._bearable(plan)))

    @property
    def budget(self) -> float:
        """The share of time that all requests together may take."""
        return self._config.budget

    @property
    def longest_interval(self) -> int:
        """The longest nanoseconds to which the budget may lengthen the time between two readings."""
        return self._config.longest_interval

    def interval(self, class_name: str) -> int:
        """Return the current nanoseconds between listings of a class."""
        return self._interval(self._classes[class_name])

    def readings(self) -> Iterator[PlannedReading]:
        """Yield what is listed again and again, and was listed; of AMQP 1.0 the sessions that are shown."""
        bearable = self._bearable_cost()
        for plan in self._classes.values():
            # What cannot be listed is not late: its objects are unread.
            if plan.read_from and plan.interval != NEVER and not plan.refusals:
                what = plan.first_page.collection
                if plan.first_page.lean:
                    what += " without statistics"
                interval = self._interval_of(plan, bearable)
                yield PlannedReading(plan.first_page.class_name, what, interval, plan.read_from)
        if self.sessions.round_time and (read_at := self.sessions.read_at):
            for class_name in ("session", "link"):
                yield PlannedReading(class_name, "sessions", self.sessions.round_time, read_at)

    def _note_intervals(self) -> None:
        # What the first listing costs is not held against a broker that has only just started.
        # Nor is an interval reported for what hardly changes.
        plans = [plan for plan in self._classes.values() if plan.interval < RARELY]
        known = [
            plan for plan in plans if plan.readings > 1 and not plan.withheld and not plan.first_page.lean
        ]
        bearable = self._bearable_cost()
        listed = {
            plan.first_page.collection + self._but(plan): self._interval_of(plan, bearable) for plan in known
        }
        beside = {what: every for what, (every, _) in self._beside.items()}
        self.intervals = {**listed, **beside, **self._elsewhere}
        if self.sessions.round_time:
            self.intervals = {**self.intervals, "sessions": self.sessions.round_time}

    def _but(self, plan: _ClassPlan) -> str:
        key = _lean_key(plan.first_page.class_name)
        return ", but for depths and counters" if key in self._classes else ""

    def _pause(self, plan: _ClassPlan) -> int:
        if plan.again:
            return self._bearable(plan)
        if plan.readings == 1 and _lean_key(plan.first_page.class_name) not in self._classes:
            return max(plan.interval, self._bearable(plan))
        return self._interval(plan)

    def _bearable(self, plan: _ClassPlan) -> int:
        """Return the shortest nanoseconds from one listing to the next that the broker is asked to bear."""
        return int(plan.cost / self._config.urgent_share)

    def _succeeded(self, ended: int) -> None:
        """End the pauses; one that is demanded and not over stays: this request was under way already."""
        if self._demands and ended < self._paused_until:
            return
        self._failures = self._demands = 0
        self._paused_until = 0

    def _interval(self, plan: _ClassPlan) -> int:
        """Return its own interval, or a longer one if the budget demands it."""
        return self._interval_of(plan, self._bearable_cost())

    def _interval_of(self, plan: _ClassPlan, bearable: float) -> int:
        """Return the same where `_bearable_cost` is known, which is that of all classes."""
        within_budget = int(plan.interval * plan.cost / bearable)
        return max(plan.interval, min(within_budget, self._config.longest_interval))

    def _bearable_cost(self) -> float:
        """Return the nanoseconds that a listing may cost at its own interval; infinity where all fit.

        Expensive classes share what cheap ones leave, by their paces. A listing that costs twice what is left
        comes half as often as it should: bindings, of which events report all, do not take the time that
        connections need.
        """
        budget = self._config.budget
        sessions = SESSIONS_SHARE * budget if self.sessions.round_time else 0
        beside = sum(share for _, share in self._beside.values())
        # What is read elsewhere keeps to its shares, so that something is always left for listings. Without
        # the lower bound an error in any of them would make listings follow one another without a pause.
        left = max(budget * _LEAST_LISTED, budget - self._reserved - sessions - beside)
        pace = sum(1 / one.interval for one in self._classes.values())
        for one in sorted(self._classes.values(), key=lambda one: one.cost):
            bearable = left / pace
            if one.cost > bearable:
                return bearable
            left -= one.cost / one.interval
            pace -= 1 / one.interval
        return math.inf


def _key(request: ListingRequest) -> str:
    return _lean_key(request.class_name) if request.lean else request.class_name


def _lean_key(class_name: str) -> str:
    return f"{class_name} without statistics"
