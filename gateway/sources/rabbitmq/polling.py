"""The schedule of requests to the management API, which limits the load on the broker. Without I/O.

One request is sent at a time. The share of time that requests take stays within a budget: classes that are
cheap to list are listed at their own pace, others as often as these leave time for (one of 1.2 s at 3.5 %
comes every 34 s), each slowed down as much as it costs. Failures make pauses longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final

from gateway.sources.rabbitmq.amqp10_sessions import NEVER, SessionRounds
from gateway.sources.rabbitmq.management_api import (
    UNMEASURED_COLLECTIONS,
    ExtraRequest,
    ListingRequest,
    ManagementRequest,
    OverviewRequest,
    PermissionRequest,
    SessionsRequest,
    UsersRequest,
)
from gateway.sources.rabbitmq.source_config import RARELY, SESSIONS_SHARE, PollingConfig

_LEAST_LISTED = 1 / 10
"""Share of the budget that listings get at least."""
_RECENT = 3
"""Number of listings of which the middle one is taken for what a listing costs."""
MAX_EXTRA_REQUESTS = 1_000
"""Maximum number of waiting questions about single objects and virtual hosts; a listing answers the rest."""

NEEDED_BY_EVENTS: Final = frozenset({"node", "vhost"})
"""Classes of objects on which objects that events report depend."""


@dataclass(slots=True)
class _ClassPlan:
    """The plan of one class.

    Attributes:
        cost: the duration of a whole listing (ns), smoothed over ``readings``.
        recent: the durations of the last whole listings (ns), `_RECENT` at most.
        again: the listing in progress may lack an object that was found.
        withheld: listing it needs rights that are missing.
        refusals: the number of times in a row that it could not be listed.
        held_until: it is not listed before this time (ns), for whatever reason.
    """

    first_page: ListingRequest
    interval: int
    due: int = 0
    began: int = 0
    spent: int = 0
    cost: float = 0.0
    recent: tuple[int, ...] = ()
    readings: int = 0
    again: bool = False
    withheld: bool = False
    refusals: int = 0
    held_until: int = 0


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
            self._config.missing_pause, self._config.refused_pause, SESSIONS_SHARE * self._config.budget
        )
        self._page: ListingRequest | None = None
        self._page_due = 0
        self._overview_due = 0
        self._users_due = 0 if users else NEVER
        self._users_refused = False
        self._reserved = 0.0
        self._beside: dict[str, tuple[int, float]] = {}
        self._elsewhere: Mapping[str, int] = {}
        self._first_time = self._config.first_time
        self._extras: dict[ExtraRequest, None] = {}
        self._extra_due = 0
        self._failures = 0
        self._paused_until = 0
        self._held_until = 0
        self._nodes_awaited_until = 0

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
        """List little but the nodes, until a time (ns) or `nodes_dated`.

        If a node was started again, the objects have ended that end with it, and a listing does not show
        that: another object of the same name may be there already.
        """
        self._nodes_awaited_until = until
        self._succeeded()
        self._put_off_page()

    def nodes_dated(self) -> None:
        """End `await_nodes`: it is known since when each node has run, or cannot be found out."""
        self._nodes_awaited_until = 0

    def awaits_nodes(self, now: int) -> bool:
        """Return whether `await_nodes` still holds."""
        return now < self._nodes_awaited_until

    @property
    def _little_until(self) -> int:
        return max(self._held_until, self._nodes_awaited_until)

    def _put_off_page(self) -> None:
        if self._page is not None and self._page.class_name not in NEEDED_BY_EVENTS:
            self._classes[_key(self._page)].due = 0
            self._page = None

    def awaits_events(self, now: int) -> bool:
        """Return whether events that happened before now are waited for."""
        return now < self._held_until

    def is_holding(self, now: int) -> bool:
        """Return whether only what events need is listed."""
        return now < self._little_until

    def _due(self, plan: _ClassPlan) -> int:
        is_held = plan.first_page.class_name not in NEEDED_BY_EVENTS
        return max(plan.due, self._little_until) if is_held else plan.due

    def due(self) -> int:
        """Return when the next request is due (ns)."""
        if self._page is not None:
            soonest = self._page_due
        else:
            soonest = min(self._due(plan) for plan in self._classes.values())
        soonest = min(soonest, self._overview_due, self._users_due, self.sessions.due())
        if self._extras:
            soonest = min(soonest, self._extra_due)
        return max(soonest, self._paused_until)

    def next_request(self, now: int) -> ManagementRequest | None:
        """Return the request to send now, or ``None``; its end must be reported before the next."""
        if now < self._paused_until:
            return None
        if now >= min(self._overview_due, self._users_due):
            return OverviewRequest() if now >= self._overview_due else UsersRequest()
        question = self._question(now)
        if question is not None:
            return question
        if self._page is not None:
            return self._page if now >= self._page_due else None
        # Ties go to the class named first: what others refer to comes before them.
        soonest = min(self._classes.values(), key=self._due)
        if now < self._due(soonest):
            return None
        soonest.spent = 0
        soonest.again = False
        self._page, self._page_due = soonest.first_page, now
        return self._page

    def _question(self, now: int) -> ManagementRequest | None:
        if self._extras and now >= self._extra_due:
            return next(iter(self._extras))
        connection = self.sessions.next_connection(now)
        return None if connection is None else SessionsRequest(connection)

    def page_read(self, request: ListingRequest, began: int, ended: int, *, last: bool) -> None:
        """Take the arrival of a page; ``last``: it is the last one."""
        self._succeeded()
        plan = self._classes[_key(request)]
        if request.page == 1:
            plan.began = began
        plan.spent += ended - began
        is_first = plan.readings == 0 and self._first_time > 0
        self._first_time -= ended - began
        if not last:
            self._page = replace(request, page=request.page + 1)
            # Other clients of the management API get as much of the broker's time as the gateway.
            self._page_due = ended if is_first else ended + (ended - began)
            return
        self._page = None
        # A single slow listing says little: the broker filled its caches, had only just started, or a machine
        # stood still. Taken for the cost, it would put off the next one by minutes.
        plan.recent = (*plan.recent[1 - _RECENT :], plan.spent)
        cost = median_low(plan.recent)
        plan.cost = 0.7 * plan.cost + 0.3 * cost if plan.readings > 1 else cost
        plan.readings += 1
        plan.withheld = False
        plan.refusals = 0
        plan.due = max(plan.began + self._pause(plan), ended)
        if plan.interval == NEVER:
            del self._classes[_key(request)]
        self._note_intervals()

    def overview_read(self, ended: int) -> None:
        """Take the arrival, or the failure, of the overview."""
        self._succeeded()
        self._overview_due = ended + self._config.overview

    def users_read(self, began: int, ended: int, *, refused: bool) -> None:
        """Take the arrival, or the failure, of the users; ``refused``: they may not be read."""
        self._users_refused = refused
        pause = self._config.refused_users if refused else self._config.overview
        self._users_due = ended + max(pause, int((ended - began) / self._config.budget))

    def poll_users_soon(self, now: int) -> None:
        """Read the users now, because tags have changed, unless that is not done or was refused."""
        if self._users_due != NEVER and not self._users_refused:
            self._users_due = min(self._users_due, now)

    def extra_read(self, request: ExtraRequest, began: int, ended: int) -> None:
        """Take the answer about a single object or virtual host."""
        self._succeeded()
        self._extras.pop(request, None)
        # While it is not known whether a virtual host may be read, nothing is complete.
        is_urgent = isinstance(request, PermissionRequest)
        share = self._config.urgent_share if is_urgent else self._config.budget
        self._extra_due = ended + int((ended - began) / share)

    def refused(
        self, request: ListingRequest, ended: int, *, long: bool = False, withheld: bool = False
    ) -> None:
        """Do not list this for a pause that doubles each time, or for ``long``, because it was refused.

        ``withheld``: it needs a right that monitoring does not need.
        """
        self._succeeded()
        self._page = None
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
        self._succeeded()
        self._page = None
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
        self._succeeded()
        self._page = None
        plan = self._classes[request.class_name]
        plan.refusals = 1
        plan.due = ended + self._config.missing_pause
        # A source that was down is complete only when this was asked for again.
        plan.held_until = ended + self._config.refused_pause
        self._note_intervals()

    def questioned(self, request: ListingRequest, ended: int) -> None:
        """Read the overview next, because this answer is not that of a listing."""
        plan = self._classes[_key(request)]
        plan.due = max(plan.due, ended + plan.interval)
        self._page = None
        self.poll_overview_soon(ended)

    def switch_statistics(self, now: int, *, off: bool) -> None:
        """Stop or resume the listings that need the broker's statistics, which are off or on now.

        The totals of queues can be read all the same.
        """
        every = {**self._set_aside, **self._classes}
        unmeasured = {
            name for name, plan in every.items() if plan.first_page.collection in UNMEASURED_COLLECTIONS
        }
        if self._page is not None and self._page.class_name in {*unmeasured, "queue"}:
            self._page = None
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
        if self._page is not None:
            plan = self._classes[_key(self._page)]
            plan.due = ended + plan.interval
            self._page = None
        if isinstance(request, SessionsRequest):
            self.sessions.failed(request.connection, ended)
        if isinstance(request, ExtraRequest) and request in self._extras:
            del self._extras[request]
            self._extras[request] = None
            self._extra_due = ended + self._config.refused_pause
        pause = self._config.first_pause << min(self._failures, 30)
        self._paused_until = ended + min(pause, self._config.longest_pause)
        self._failures += 1

    def sessions_read(self, request: SessionsRequest, began: int, ended: int, *, found: bool) -> None:
        """Take the sessions of a connection; not ``found``: it has ended, or the broker shows none."""
        self._succeeded()
        if found:
            self.sessions.answered(request.connection, began, ended)
        else:
            self.sessions.not_found(request.connection, ended)

    def ask(self, request: ExtraRequest) -> bool:
        """Ask about a single object or virtual host soon; return ``False`` if too many questions wait."""
        if len(self._extras) >= MAX_EXTRA_REQUESTS:
            return False
        self._extras[request] = None
        return True

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
        if plan.readings == 0 and plan.due == 0 and self._page is None:
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
                plan.again = self._page is not None and _key(self._page) == name
                plan.due = min(plan.due, max(now, plan.began + self._bearable(plan)))

    @property
    def budget(self) -> float:
        """The share of time that all requests together may take."""
        return self._config.budget

    def interval(self, class_name: str) -> int:
        """Return the current nanoseconds between listings of a class."""
        return self._interval(self._classes[class_name])

    def _note_intervals(self) -> None:
        # What the first listing costs is not held against a broker that has only just started.
        # Nor is an interval reported for what hardly changes.
        plans = [plan for plan in self._classes.values() if plan.interval < RARELY]
        known = [
            plan for plan in plans if plan.readings > 1 and not plan.withheld and not plan.first_page.lean
        ]
        listed = {plan.first_page.collection + self._but(plan): self._interval(plan) for plan in known}
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

    def _succeeded(self) -> None:
        self._failures = 0
        self._paused_until = 0

    def _interval(self, plan: _ClassPlan) -> int:
        """Return its own interval, or a longer one if the budget demands it.

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
                return max(plan.interval, int(plan.interval * plan.cost / bearable))
            left -= one.cost / one.interval
            pace -= 1 / one.interval
        return plan.interval


def _key(request: ListingRequest) -> str:
    return _lean_key(request.class_name) if request.lean else request.class_name


def _lean_key(class_name: str) -> str:
    return f"{class_name} without statistics"
