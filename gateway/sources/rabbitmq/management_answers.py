"""Processes the answers of the management API, and finds out whether everything has been read.

Without I/O. `PollingPlan` decides the next request, `Visibility` knows which classes can be read, and
`BrokerView` which objects exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import Effect, Note
from gateway.mapping.paths import Json
from gateway.model.observations import current_until
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.broker_view import WITHIN_VIRTUAL_HOST, BrokerView, Finished
from gateway.sources.rabbitmq.cluster import DEPRECATED_FEATURE, FEATURE_FLAG, ResourceAlarms, listing_columns
from gateway.sources.rabbitmq.forwarders import FORWARDERS
from gateway.sources.rabbitmq.listing import Listing, listed_items, names_of_several, unambiguous_items
from gateway.sources.rabbitmq.management_api import (
    ADMINISTRATIVE,
    PAUSE_DEMANDED,
    UNMEASURED_COLLECTIONS,
    Answer,
    Broken,
    CertificatesRequest,
    Contradictory,
    Document,
    ListingRequest,
    ManagementRequest,
    NodeMemoryRequest,
    NotFound,
    ObjectRequest,
    OverviewRequest,
    OwnerRequest,
    PermissionRequest,
    Refused,
    SessionsRequest,
    Unavailable,
    UsedFeaturesRequest,
    UsersRequest,
    fault_of,
    is_administrative,
    page_of,
    spent_on,
)
from gateway.sources.rabbitmq.metrics_answers import MetricsAnswers
from gateway.sources.rabbitmq.object_lives import EVENT_DELAY
from gateway.sources.rabbitmq.object_names import ObjectName, is_anonymous
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.polling import PlannedReading, PollingPlan
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.rights import ImpersonatorCheck
from gateway.sources.rabbitmq.session_answers import SessionAnswers
from gateway.sources.rabbitmq.single_readings import OWN_PAGES, QueueOwners, SingleReadings
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.status import OVERVIEW, Visibility

_LISTED_WHOLE = frozenset({"connection", "channel"})
"""Classes of which nearly all elements are read: RabbitMQ takes longer to select them than to send all."""
_LONG_LISTING = 1_000
"""Number of queues from which on they are listed without statistics first, because that takes long."""
_STARTING_FAULTS = 3
_MOST_DEMANDS = 3
"""Demands of a pause, in turn, after which a class is one that cannot be read."""
AGAIN = SECOND
"""Nanoseconds until a class is listed again of which not all is confirmed."""
DATING_LIMIT = 15_000_000_000
"""Nanoseconds within which a node that starts reports since when it has run: at once, or 5 s later."""


class ManagementAnswers:
    """Processes answers.

    Args:
        config: settings of the source.
        readers: the reader of each class.
        view: changed by answers.
        alarms: the nodes' alarms, which listings show, too.
        stream: publishes what changes, and that everything has been read.
        impersonators: takes the broker's users.

    Attributes:
        plan: decides the next request.
        visibility: the classes that can be read, and whether they have been.
        metrics: processes metrics, which are read beside the management API.
        limits_interval: nanoseconds between two readings of the limits of virtual hosts.
    """

    def __init__(
        self,
        config: RabbitMqSourceConfig,
        readers: Mapping[str, ClassReader],
        view: BrokerView,
        alarms: ResourceAlarms,
        stream: ObservationStream,
        impersonators: ImpersonatorCheck,
    ) -> None:
        listings = [
            ListingRequest(
                name, reader.rule.listing, () if name in _LISTED_WHOLE else listing_columns(reader)
            )
            for name, reader in readers.items()
            if reader.rule.listing
        ]
        self.plan = PollingPlan(listings, config.polling, users=bool(config.management_virtual_host))
        classes = (listing.class_name for listing in listings)
        self.visibility = Visibility(classes, config.user, config.writer)
        self.visibility.awaits_events = config.awaits_events
        self._config = config
        self._readers = readers
        self._view = view
        self._alarms = alarms
        self._stream = stream
        self._impersonators = impersonators
        self._listings: dict[tuple[str, bool], Listing] = {}  # in progress, by class and `lean`
        self._listing: Listing | None = None  # the one whose page arrived last
        shared = view.same_names.is_ambiguous
        self._sessions = SessionAnswers(readers, view.known, stream, self.plan, self.visibility, shared)
        self.metrics = MetricsAnswers(readers, view, stream, self.plan)
        self._singly = SingleReadings(readers, view, stream, self.single)
        self.limits_interval = 0
        self._questioned: dict[ListingRequest, Broken] = {}
        self._gone_once: set[str] = set()
        self._late: dict[str, int] = {}  # how many listings of a class in turn were not answered in time
        self._demands: Counter[str] = Counter()  # how many listings of a class in turn had to wait
        self._early_faults = 0
        self._deferred: Unavailable | None = None
        self._answers_since = self._unanswered_since = 0
        self._owners = QueueOwners(readers, view, stream, self.plan)
        self._unmeasured = [one.class_name for one in listings if one.collection in UNMEASURED_COLLECTIONS]

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        return self._listing is not None and self._listing.waits

    def take(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        """Take the answer to a request that was sent at ``began`` and ended at ``ended`` (ns)."""
        self._unanswered_since = max(began, self.visibility.asked_at)  # others were answered meanwhile
        self.visibility.asked_at = 0
        self._deferred = answer if isinstance(answer, Unavailable) and answer.pause else None
        if self._deferred is not None:
            return self._paused(request, self._deferred, began, ended)
        return self._not_paused(request, answer, began, ended)

    def _not_paused(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        if isinstance(request, UsersRequest):
            # Its outcome says nothing about the rest, which is requested soon.
            return self._users(answer, began, ended)
        if self._is_starting(request, answer):
            answer = Unavailable("an error, as where a broker starts")
        fault = self._fault(request, answer)
        if isinstance(answer, Unavailable) and not answer.responded:
            # A late answer to any one question but that for the overview says nothing about the others.
            of_one = not isinstance(request, OverviewRequest)
            if (answer.late or answer.cut) and of_one and not self.visibility.failure:
                self.visibility.waits(self._unanswered_since)
                if isinstance(request, ListingRequest):
                    self._late[request.class_name] = self._late.get(request.class_name, 0) + 1
                    self.plan.late(request)
                return self._questionable(request, Broken(answer.reason), began, ended)
            return self._unanswered(request, answer, began, ended)
        if fault is not None:
            if isinstance(request, OverviewRequest):
                return self._unanswered(request, self.visibility.no_overview(answer), began, ended)
            return self._questionable(request, fault, began, ended)
        identity = self._view.nodes.identity
        if identity.conflict and not identity.settles(request, answer, began, ended):
            take = self._contradicted
        else:
            take = self._answers_again if self.visibility.answers() else self._taken
        return take(request, answer, began, ended)

    def _contradicted(self, request: ManagementRequest, _: Answer, began: int, ended: int, /) -> list[Effect]:
        """Take no answer while some are of another broker: overviews and nodes show when that has ended."""
        self.await_nodes(ended)
        if isinstance(request, OverviewRequest):
            self.plan.overview_read(ended)
        else:
            self.plan.poll_overview_soon(ended)
        return self._unanswered(request, Contradictory(self._view.nodes.identity.conflict), began, ended)

    def _paused(
        self, request: ManagementRequest, answer: Unavailable, began: int, ended: int
    ) -> list[Effect]:
        """Wait as long as the server demands; a long silence is reported with that reason.

        A class at which it demands that again and again cannot be read, if the overview can.
        """
        self.plan.pause(request, ended, answer.pause)
        if isinstance(request, ListingRequest):
            self._demands[request.class_name] += 1
        if self.visibility.failure:
            return self._fails(answer, began)
        self.visibility.waits(began)
        if isinstance(request, OverviewRequest):
            self._questioned.clear()  # the demand concerns no class alone
        elif isinstance(request, ListingRequest) and self._demands[request.class_name] >= _MOST_DEMANDS:
            fault = Broken(f"{PAUSE_DEMANDED} ({answer.reason})")
            return self._questionable(request, fault, began, ended)
        return []

    def _answers_again(
        self, request: ManagementRequest, answer: Answer, began: int, ended: int
    ) -> list[Effect]:
        self._early_faults = 0
        self._answers_since = ended
        self.plan.poll_soon(ended, values=True)
        self.plan.poll_overview_soon(ended)
        self.plan.retry(ended, at_once=False)
        effects: list[Effect] = [Note("management-answers")]
        # All else is requested again once it is known whether it is the same broker, since when nodes run.
        is_first = isinstance(request, ListingRequest) and request.class_name == "node"
        put_off = not (is_first or isinstance(request, OverviewRequest))
        if self._view.known.any_known and self.await_nodes(ended) and put_off:
            return effects
        return [*effects, *self._taken(request, answer, began, ended)]

    def _taken(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> list[Effect]:  # noqa: PLR0911  a case for each request
        match request:
            case OverviewRequest():
                return self._overview(request, answer, ended)
            case ListingRequest():
                return self._page(request, answer, began, ended)
            case PermissionRequest():
                return self._permission(request, answer, began, ended)
            case ObjectRequest():
                return self._single(request, answer, began, ended)
            case OwnerRequest():
                return [*self._owners.take(request, answer, began, ended), *self.serve(ended)]
            case SessionsRequest():
                return self._sessions.take(request, answer, began, ended)
            case UsedFeaturesRequest():
                return self._used_features(answer, began, ended)
            case NodeMemoryRequest() | CertificatesRequest():
                self.plan.extra_read(request, spent_on(answer, began, ended), ended)
                pause = self._config.polling.refused_users
                self._view.nodes.details.take(request, answer, ended, refused_pause=pause)
        return []

    def advance(self, now: int) -> list[Effect]:
        """Apply some more objects of the page that arrived; this is called while `busy`."""
        listing = self._listing
        if listing is None:
            return []
        effects: list[Effect] = []
        for _ in range(min(len(listing.items), self._config.items_at_once)):
            effects += self._item(listing, listing.items.popleft(), now)
        if not listing.items and listing.closing:
            self._listing = None
            self._listings.pop((listing.class_name, listing.lean), None)
            effects += self._listed(listing, now)
        return effects

    def silent(self, since: int) -> list[Effect]:
        """Treat objects as unconfirmed: a request of ``since`` (ns) was not answered for too long."""
        effects: list[Effect] = []
        if not self.visibility.failure:  # nor an answer: the caller still waits
            seconds = self._config.silence_limit / SECOND
            effects += self._fails(self._deferred or Unavailable(f"no answer for {seconds:g} s"), since)
        self.visibility.read_again()
        return effects

    def show_unread(self, now: int, *, at_once: bool = False) -> list[Effect]:
        """Show objects of classes as unread that could not be read for too long, although the rest could.

        ``at_once``: events are missing, too, so that objects may have ended unnoticed.
        """
        effects: list[Effect] = []
        patience = 0 if at_once else self._config.silence_limit
        for class_name, since in self.visibility.long_unread(now, patience).items():
            changes = self._view.known.unread(class_name, since, now, self._singly.current(now))
            effects += self._stream.apply(changes)
        return effects

    def ask_singly(self, now: int) -> None:
        """Request the next of the objects whose listing fails, if one is due and no other is under way."""
        self._singly.learn(self.visibility.not_readable)
        if self.plan.reads_singly:
            return
        request = self._singly.next_request(self.visibility.paths, now)
        if request is not None:
            self.plan.ask(request)

    def resync(self, reason: str, now: int, *, events_lost: bool = False) -> list[Effect]:
        """List everything again.

        Objects that cannot be listed are unread if their end may be among the ``events_lost``; if the
        broker's statistics are off, connections and all that belongs to them are such objects.
        """
        self.plan.poll_soon(now)
        effects: list[Effect] = [Note("resync", reason)]
        if events_lost:
            effects += self.show_unread(now, at_once=True)
        if events_lost and self.visibility.statistics_off:
            effects += self._unmeasured_unread(now)
        return effects

    def _unmeasured_unread(self, now: int) -> list[Effect]:
        changes = [change for name in self._unmeasured for change in self._view.known.unread(name, now, now)]
        return self._stream.apply(changes)

    def await_nodes(self, now: int) -> bool:
        """Read first which nodes were started again, if possible: they had other objects."""
        can_be = "node" in self.visibility.readable
        if can_be:
            self.plan.await_nodes(now + DATING_LIMIT)
        return can_be

    def ask_permission(self, host: str) -> None:
        """Ask soon whether the contents of a virtual host may be read."""
        if not self.plan.ask(PermissionRequest(host)):
            self._view.hosts.give_up(host)

    def serve(self, now: int) -> list[Effect]:
        """Report that what was published is current, as soon as everything has been read."""
        # Objects that were known before a gap are confirmed or removed first.
        unconfirmed = bool(self._view.hosts.questioned) or (
            not self.visibility.complete
            and any(self._view.is_unconfirmed(name, now) for name in self.visibility.readable)
        )
        complete = self.visibility.is_complete(unconfirmed=unconfirmed)
        if self.visibility.failure or not complete:
            return []
        shown = self._stream.apply(self._view.everything_shown(self.visibility.readable, now))
        return [*shown, *self._stream.complete(now, self.current_until)]

    def readings(self) -> Iterator[PlannedReading]:
        """Yield what is read again and again of objects that are known."""
        read_at = self._view.hosts.limits_read_at
        limits = PlannedReading("vhost", "limits of virtual hosts", self.limits_interval, read_at)
        overview_at = self.visibility.overview_read_at
        listeners = PlannedReading("node", "listeners of nodes", self._config.polling.overview, overview_at)
        for one in (*self.plan.readings(), *self.metrics.readings(), limits, listeners):
            if one.read_at and any(True for _ in self._view.known.of_class(one.class_name)):
                yield one

    def current_until(self) -> dict[str, int]:
        """Return until when the values of each class are current (ns): as long as all of them are."""
        until: dict[str, int] = {}
        for one in self.readings():
            end = current_until(one.read_at, one.interval, self._config.polling.stale_after)
            until[one.class_name] = min(end, until.get(one.class_name, end))
        return until

    def overdue(self, now: int) -> tuple[str, ...]:
        """Return the names of what was not read in time, for people."""
        ends = {
            one.what: current_until(one.read_at, one.interval, self._config.polling.stale_after)
            for one in self.readings()
        }
        return tuple(dict.fromkeys(what for what, end in ends.items() if end <= now))

    def _is_starting(self, request: ManagementRequest, answer: Answer) -> bool:
        """Return whether an error is taken for that of a broker that starts: a few times at most.

        For a moment, a starting RabbitMQ 4.3 has a crash report for each request about itself.
        """
        failed = isinstance(request, OverviewRequest) and isinstance(answer, Broken)
        early = failed and bool(self.visibility.failure) and self._early_faults < _STARTING_FAULTS
        self._early_faults += early
        return early

    def _fault(self, request: ManagementRequest, answer: Answer) -> Broken | None:
        """Return the fault of a response; that a collection is missing is none if the broker may lack it."""
        if (
            isinstance(request, ListingRequest)
            and isinstance(answer, NotFound)
            and self._readers[request.class_name].rule.may_be_missing
        ):
            return None
        return fault_of(request, answer)

    def _questionable(
        self, request: ManagementRequest, fault: Broken, began: int, ended: int
    ) -> list[Effect]:
        """Handle a response that is no listing: the overview, read next, shows whether all are like that."""
        if isinstance(request, ListingRequest):
            self._give_up(request)
            self._questioned[request] = fault
            self.plan.questioned(request, ended)
            return []
        self.plan.poll_overview_soon(ended)
        return self._taken(request, fault, began, ended)

    def _unanswered(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        self.plan.failed(request, ended)
        self._listing = None
        self._listings.clear()
        self._questioned.clear()
        return self._fails(answer, began)

    def _fails(self, answer: Answer, asked: int) -> list[Effect]:
        if not self.visibility.failure:
            self._view.known.mark_unconfirmed()
            # No listing shows limits, so earlier ones are not shown.
            self._view.hosts.learn_limits(None)
        news = self.visibility.fails(answer, asked)
        return [Note("management-unavailable", self.visibility.failure)] if news else []

    def _cannot_read(
        self, place: str, request: ManagementRequest, refusal: Refused | Broken, now: int
    ) -> list[Effect]:
        news = self.visibility.refuses(place, request, refusal, now)
        notes: list[Effect] = [Note("unreadable", news)] if news else []
        self._view.known.unlistable.add(place)
        missed = bool(self.visibility.events_missing) or not self.visibility.was_read_unbroken(place)
        return [*notes, *self.show_unread(now, at_once=missed)]

    def _overview(self, request: OverviewRequest, answer: Answer, ended: int) -> list[Effect]:
        self.plan.overview_read(ended)
        overview = answer.body if isinstance(answer, Document) else None
        if self._view.nodes.identity.named(overview, ended):
            self.await_nodes(ended)
        effects: list[Effect] = []
        if isinstance(answer, Document):
            self.visibility.paths = answer.paths or self.visibility.paths
            effects = self._overview_learned(answer.body, ended)
        # The management API responds, so an error concerns one class alone.
        for listing, fault in self._questioned.items():
            if self._late.get(listing.class_name) == 1:
                continue  # the connection may have led nowhere: it is listed again, by another one
            self.plan.refused(listing, ended)
            effects += self._cannot_read(listing.class_name, listing, fault, ended)
        self._questioned.clear()
        if isinstance(answer, Refused | Broken):
            effects += self._cannot_read(OVERVIEW, request, answer, ended)
        else:
            self.visibility.reads(OVERVIEW, ended)
        return [*effects, *self.serve(ended)]

    def _overview_learned(self, overview: Json, now: int) -> list[Effect]:
        self._learn_amount(overview)
        for class_name in self._singly.overview_read(overview):
            self._list_unconfirmed_again(class_name, now)
        if self._view.nodes.learn_overview(overview):
            # It was upgraded: what failed before may succeed now.
            self.plan.retry(now, at_once=True)
        off = self._view.nodes.statistics_off
        if off is self.visibility.statistics_off:
            return []
        self.plan.switch_statistics(now, off=off)
        self.visibility.statistics_switched(self._unmeasured if off else ())
        stopped = {*self._unmeasured, "queue"}
        self._listings = {key: one for key, one in self._listings.items() if key[0] not in stopped}
        if self._listing is not None and self._listing.class_name in stopped:
            self._listing = None
        if not off:
            return [Note("statistics-on")]
        self._questioned = {
            listing: fault
            for listing, fault in self._questioned.items()
            if listing.class_name not in self._unmeasured
        }
        # Connections that a listing showed ended if their node was started again, which it shows.
        return [Note("statistics-off"), *self._unmeasured_unread(now)]

    def _learn_amount(self, overview: Json) -> None:
        self.metrics.learn_listeners(overview)
        totals = overview.get("object_totals") if isinstance(overview, Mapping) else None
        for collection, size in totals.items() if isinstance(totals, Mapping) else ():
            if isinstance(size, int) and size > 0:
                self.plan.sized(collection, size)
        queues = totals.get("queues") if isinstance(totals, Mapping) else None
        if isinstance(queues, int) and queues > _LONG_LISTING and not self.visibility.complete:
            self.plan.list_names_first("queue")
            self.visibility.expects("queues", queues)

    def _users(self, answer: Answer, began: int, ended: int) -> list[Effect]:
        # The right may be missing permanently; a wrong password will be corrected.
        began = ended - spent_on(answer, began, ended)
        self.plan.users_read(began, ended, refused=isinstance(answer, Refused) and not answer.login)
        return [*self._impersonators.learn(answer)]

    def _page(self, request: ListingRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        rightless = isinstance(answer, Refused) and not answer.login
        if rightless and request.class_name == FEATURE_FLAG and not request.as_administrator:
            self.plan.ask_as_administrator(request, ended)
            return []
        if isinstance(answer, Refused | Broken):
            return self._page_refused(request, answer, ended)
        if isinstance(answer, NotFound):
            return self._missing(request, ended)
        self._gone_once.discard(request.class_name)
        self._late.pop(request.class_name, None)
        self._demands.pop(request.class_name, None)
        items, last = page_of(answer) or ([], True)
        applies = self._view.nodes.identity.applies(
            request.class_name, items, began, self.visibility.listed_since
        )
        if self._view.nodes.identity.conflict:
            return self._contradicted(request, answer, began, ended)
        if not applies and "node" in self.visibility.readable:
            self._give_up(request)
            self.plan.questioned(request, ended)
            self.await_nodes(ended)
            return []
        if request.page == 1:
            # Virtual hosts are listed while events wait, which may report that one was made again meanwhile.
            early = request.class_name == "vhost" and self.plan.awaits_events(ended)
            known = any(True for _ in self._view.known.of_class(request.class_name))
            begun = Listing(request.class_name, began, lean=request.lean, early=early and known)
            self._listings[request.class_name, request.lean] = begun
        listing = self._listings.get((request.class_name, request.lean))
        if listing is None:
            raise LocalProtocolError(f"page {request.page} of {request.collection} was not asked for")
        self._listing = listing
        self.visibility.reads(request.class_name, ended)
        self._view.known.unlistable.discard(request.class_name)
        if request.class_name in self._view.withheld:
            self._view.withheld.discard(request.class_name)
            for name in self._withheld_with(request.class_name):
                self.plan.permit(name, ended)
        items, ambiguous = unambiguous_items(request.class_name, listed_items(request.class_name, items))
        items = [*listing.held, *items]
        listing.twice |= names_of_several(request.class_name, items)
        listing.held = [] if last else self._view.same_names.undecided(request.class_name, items)
        listing.items.extend(items[: len(items) - len(listing.held)])
        listing.sampled, listing.asked = (began + ended) // 2, began
        listing.closing = last
        self.visibility.progress(request, answer)
        self.plan.page_read(request, began, ended, last=last, spent=spent_on(answer, began, ended))
        unread = [change for item in ambiguous for change in self._view.ambiguous(listing, item, ended)]
        return self._stream.apply(unread)

    def _give_up(self, request: ListingRequest) -> None:
        """Forget the listing of a class that is in progress, if one is."""
        given_up = self._listings.pop((request.class_name, request.lean), None)
        if self._listing is given_up:
            self._listing = None

    def _page_refused(self, request: ListingRequest, answer: Refused | Broken, ended: int) -> list[Effect]:
        permanent = isinstance(answer, Broken) and answer.permanent
        # A failure may pass soon, and a password be corrected; an event reports a right that is granted.
        withheld = isinstance(answer, Refused) and is_administrative(request)
        long = permanent or (isinstance(answer, Refused) and withheld and not answer.login)
        self.plan.refused(request, ended, long=long, withheld=withheld)
        if request.class_name == "node":
            self.plan.nodes_dated()
        self._give_up(request)
        if request.lean and permanent:  # too many for one answer: pages show them all the same
            return []
        if isinstance(answer, Refused) and withheld:
            self._withhold(request.class_name, answer, ended)
        return [*self._cannot_read(request.class_name, request, answer, ended), *self.serve(ended)]

    def _withhold(self, class_name: str, refusal: Refused, ended: int) -> None:
        """Stop listing a class that is refused, and those that depend on it; the broker logs each refusal."""
        self._view.withheld.add(class_name)
        for name in () if refusal.login else self._withheld_with(class_name):
            self._view.withheld.add(name)
            self.visibility.refuses(name, self.plan.withhold(name, ended), refusal, ended)

    def _withheld_with(self, class_name: str) -> list[str]:
        """Return the classes for administrators whose objects depend on those of this class."""
        classes = sorted(ADMINISTRATIVE & self._readers.keys())
        return [name for name in classes if class_name in self._readers[name].classes_needed]

    def _missing(self, request: ListingRequest, ended: int) -> list[Effect]:
        """Apply that the broker has no such collection: its objects cannot be read.

        A node that stops has no collections either. So if objects were known, the collection is requested
        twice.
        """
        if request.class_name not in self._gone_once and any(self._view.known.of_class(request.class_name)):
            self._gone_once.add(request.class_name)
            self._give_up(request)
            self.plan.questioned(request, ended)
            return []
        self.plan.missing(request, ended)
        self._give_up(request)
        self.visibility.reads(request.class_name, ended)
        self.visibility.documents_unreadable(request.class_name, (), 0, ended)
        self.visibility.listed(request.class_name, ended)
        changes = self._view.known.unread(request.class_name, ended, ended)
        return [*self._stream.apply(changes), *self.serve(ended)]

    def _item(self, listing: Listing, item: Json, now: int) -> list[Effect]:
        node = item if listing.class_name == "node" and isinstance(item, Mapping) else None
        if node is not None and self._view.is_overtaken(listing, self._view.name_of("node", node)):
            node = None
        if node is not None:
            self._alarms.listed(node, listing.began)
            item = self._alarms.completed(node, listing.began)
        taken = self._view.take(listing, item, now)
        if node is not None and self._view.nodes.learn_plugins(node):
            self.plan.retry(now, at_once=True)
        effects = self._stream.apply(taken.changes)
        if listing.class_name == "queue" and not self.visibility.statistics_off:
            self._owners.listed(item, now)
        if taken.restarted:
            effects += self.resync(f"node {taken.restarted} was restarted", now)
            self.plan.retry(now, at_once=True)
        return effects

    def single(self, class_name: str, item: Json, began: int, now: int) -> list[Effect]:
        """Apply one object that was requested at ``began`` (ns) and answered as in a listing."""
        return self._item(Listing(class_name, began, sampled=now, asked=began, single=True), item, now)

    def metrics_taken(self, now: int) -> list[Effect]:
        """Apply metrics, or a listing without statistics; together they may be all of a class."""
        class_name = self.metrics.completed(self.visibility.named, self._answers_since)
        if class_name:
            self.visibility.listed(class_name, self.visibility.named.get(class_name, 0))
        return self.serve(now) if class_name else []

    def _read_permissions(self, finished: Finished, now: int) -> None:
        """Ask which virtual hosts may be read, and list what may be read since now."""
        for host in finished.questioned:
            self.ask_permission(host)
        if finished.regained:
            self.plan.poll_soon(now)
        elif finished.learned:
            self.plan.poll_soon(now, "vhost")

    def _listed(self, listing: Listing, now: int) -> list[Effect]:
        self.plan.sized(self._readers[listing.class_name].rule.listing, len(listing.seen))
        finished = self._view.finish(listing, now)
        unreadable, ambiguous = (
            ["/".join(name.plain.parts) for name in names]
            for names in (listing.unreadable, listing.ambiguous)
        )
        news = self.visibility.documents_unreadable(
            listing.class_name, unreadable, listing.unnamed, now, listing.unlisted, ambiguous
        )
        notes: list[Effect] = [Note("unreadable", news)] if news else []
        self.metrics.listed(listing, now)
        self._read_permissions(finished, now)
        if listing.class_name == "queue":
            self._owners.retain(listing.seen)
        elif listing.class_name == "connection":
            self._view.same_names.forget_ended()
            notes += self._sessions.note_left_out(now)
        elif listing.class_name == DEPRECATED_FEATURE:
            self.plan.ask(UsedFeaturesRequest())
        if listing.class_name == "node":
            self._alarms.finished({name.leaf for name in listing.seen}, listing.began)
            self.visibility.without_majority = self._view.nodes.without_majority
            for question in self._view.nodes.questions(now) if self.visibility.complete else ():
                self.plan.ask(question)
            if self._view.nodes.are_dated:
                self.plan.nodes_dated()
            elif self.plan.awaits_nodes(now) or self._view.nodes.in_doubt:
                self.plan.poll_soon(now + AGAIN, "node")
        self._suspect(listing, finished.suspects, now)
        if listing.lean:
            # What it lacks must still be read.
            collection = self._readers[listing.class_name].rule.listing
            self.visibility.names_listed(listing.class_name, collection, len(listing.seen), listing.began)
            effects = self._stream.apply(finished.changes)
            return [*notes, *effects, *self.metrics_taken(now), *self.serve(now)]
        self.visibility.listed(listing.class_name, listing.began)
        self._list_unconfirmed_again(listing.class_name, now)
        return [*notes, *self._stream.apply(finished.changes), *self.serve(now)]

    def _list_unconfirmed_again(self, class_name: str, now: int) -> None:
        """List again what is not confirmed yet: a class not before the answers about what it lacks."""
        if self.visibility.complete:
            return
        again = self._view.known.listed_too_early()
        is_asked = self._view.known.listings.awaits(class_name)
        if not is_asked and self._view.is_unconfirmed(class_name, now):
            again.add(class_name)
        for name in again:
            self.plan.poll_soon(now + AGAIN, name)

    def _suspect(self, listing: Listing, suspects: list[ObjectName], now: int) -> None:
        """Ask missing objects whether they are gone, or at least some of them, and list the class again.

        Anonymous consumers, whose ends no event reports, wait for the next listing: otherwise each client of
        AMQP 1.0 that leaves would cause a listing. So do shovels and federation links, which are missing for
        a moment while they are restarted.
        """
        class_name = listing.class_name
        if suspects and self._singly.doubt(class_name, listing.began):
            self.plan.poll_overview_soon(now)
            if self._view.is_narrowed:
                return  # each question would be refused, and the broker logs that
        to_ask = self._singly.to_ask(class_name, suspects, listing.seen)[: self._config.suspects_asked]
        asked = {name for name in to_ask if self._asks_about(name)}
        for name in asked:
            self._view.known.listings.asked(name, listing.began)
        if class_name in OWN_PAGES:
            suspects = [name for name in suspects if name not in asked]
        elif asked or class_name in FORWARDERS or self._view.known.listings.are_partial(class_name):
            return  # before the answers the next listing would prove nothing
        if any(all(name.parts) and not is_anonymous(name) for name in suspects):
            self.plan.poll_soon(now, class_name)

    def _asks_about(self, name: ObjectName) -> bool:
        """Ask whether an object exists; return ``False`` if it cannot be asked, or too many are."""
        if self._view.same_names.is_ambiguous(name):
            return False  # its path shows any of them
        if name.class_name == "vhost":  # a monitoring user may not read its own page
            return self.plan.ask(PermissionRequest(name.leaf))
        within = name.class_name in WITHIN_VIRTUAL_HOST or name.class_name not in OWN_PAGES
        if within and self._view.hosts.permitted(name.parts[0]) is False:
            return False  # the broker logs each refusal
        request = self._singly.question(name)
        return not self.visibility.paths.fault(request.target) and self.plan.ask(request)

    def _permission(self, request: PermissionRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        self.plan.extra_read(request, spent_on(answer, began, ended), ended)
        host = request.virtual_host
        exists, refused = isinstance(answer, Document), isinstance(answer, Refused)
        doubts = self._view.known.answered(ObjectName("vhost", (host,)), ended, exists=exists, failed=refused)
        doubtful = self._stream.apply(doubts)
        self._list_unconfirmed_again("vhost", ended)
        if self._view.hosts.is_outdated(host, began):
            self.ask_permission(host)
            return [*doubtful, *self.serve(ended)]
        # If the virtual host is gone, an event or a listing reports that.
        if isinstance(answer, NotFound) and not self._view.knows_host(host):
            self._view.hosts.forget(host)
            return self.serve(ended)
        vhost = self._view.known.get(ObjectName("vhost", (host,)))
        if isinstance(answer, NotFound) and vhost is not None and vhost.missed:
            # The listing lacks it, too: its end was not reported.
            gone = self._stream.apply(self._view.not_found(vhost.name, began, ended))
            self._view.hosts.give_up(host)
            return [*gone, *self.serve(ended)]
        # The virtual host may have ended. What late events report of its contents is not hidden for that.
        unproven = isinstance(answer, NotFound) and not self._view.hosts.missed(host, ended)
        if unproven and "vhost" in self.visibility.readable:
            self.plan.poll_soon(ended, "vhost")
            return self.serve(ended)
        permitted = exists
        if isinstance(answer, Broken) or (isinstance(answer, Document) and not self._is_within(host, answer)):
            self._view.hosts.give_up(host)
            return self.serve(ended)
        before = self._view.hosts.permitted(host)
        changes = self._view.learn_permission(host, permitted=permitted, now=ended)
        effects = [*doubtful, *self._stream.apply(changes)]
        if permitted and before is not True:
            self.plan.poll_soon(ended)
        elif not permitted and before is not False:
            effects.append(Note("virtual-host-not-permitted", f"contents of {host!r} may not be read"))
        return [*effects, *self.serve(ended)]

    def _used_features(self, answer: Answer, began: int, ended: int) -> list[Effect]:
        self.plan.extra_read(UsedFeaturesRequest(), spent_on(answer, began, ended), ended)
        body = answer.body if isinstance(answer, Document) else None
        return self._stream.apply(self._view.learn_used_features(body))

    def _single(self, request: ObjectRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        self.plan.extra_read(request, spent_on(answer, began, ended), ended)
        if request.columns and request.urgent:
            effects = self._singly.answered(request, answer, began, ended)
            self._list_unconfirmed_again(request.name.class_name, ended)
            return [*effects, *self.serve(ended)]
        if request.columns:
            effects = self._singly.take(request, answer, began, ended)
            if self._view.known.listings.asks_for_all(request.name.class_name):
                self.plan.poll_overview_soon(ended)
            return [*effects, *self.serve(ended)]
        body = answer.body if isinstance(answer, Document) else None
        named = self._view.name_of(request.name.class_name, body)
        failed = isinstance(answer, Document | Broken | Refused) and named is None
        exists = named == request.name.plain
        changes = self._view.known.answered(request.name, ended, exists=exists, failed=failed)
        if isinstance(answer, NotFound):
            changes += self._view.not_found(request.name, began, ended)
            if self._view.known.get(request.name) is not None:  # the event of its end may be on its way
                self.plan.poll_soon(ended + EVENT_DELAY, request.name.class_name)
        self._list_unconfirmed_again(request.name.class_name, ended)
        return [*self._stream.apply(changes), *self.serve(ended)]

    @staticmethod
    def _is_within(host: str, answer: Document) -> bool:
        """Return whether exchanges in an answer are those of a virtual host, each of which has some."""
        items, _ = page_of(answer) or ([], True)
        return bool(items) and all(isinstance(one, Mapping) and one.get("vhost") == host for one in items)
