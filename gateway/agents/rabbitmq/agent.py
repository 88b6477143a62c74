"""The RabbitMQ agent: answers and events in, what consoles are to hear out. Without I/O.

Whoever drives it makes the requests that `RabbitMqAgent.next_request` asks for, one at a time, tells what
came of them, hands over events and deliveries, and carries out the effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from gateway.agents.rabbitmq.agent_config import SECOND, RabbitMqAgentConfig
from gateway.agents.rabbitmq.broker_events import BrokerEvents
from gateway.agents.rabbitmq.broker_view import BrokerView
from gateway.agents.rabbitmq.cluster import NEEDED_COLUMNS
from gateway.agents.rabbitmq.event_backlog import Loss
from gateway.agents.rabbitmq.events import Bound, Created
from gateway.agents.rabbitmq.impersonators import TAGS_EVENT, ImpersonatorCheck
from gateway.agents.rabbitmq.known_objects import KnownObject
from gateway.agents.rabbitmq.listing import Listing, page_of
from gateway.agents.rabbitmq.management_api import (
    Answer,
    Broken,
    Document,
    ListingRequest,
    ManagementRequest,
    NotFound,
    NotManagement,
    ObjectRequest,
    OverviewRequest,
    PermissionRequest,
    Refused,
    Unavailable,
    UsersRequest,
)
from gateway.agents.rabbitmq.object_names import ObjectName
from gateway.agents.rabbitmq.polling import PollingPlan
from gateway.agents.rabbitmq.reading import ClassReader, class_readers
from gateway.agents.rabbitmq.service import ConsoleService
from gateway.agents.rabbitmq.status import AgentStatus, Visibility
from gateway.dialects.effects import Binding, Delivery, Effect, Note, Send, WakeAt
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent import AgentConfig
from gateway.mapping.paths import Json
from gateway.mapping.rules import Mapping as MappingFile

_ANSWER_SINGLY = frozenset({"queue", "exchange", "connection"})
"""Classes whose objects a monitoring user may ask for one by one."""
AGAIN = 1_000_000_000
"""Until a class is listed again of which not all is confirmed (ns)."""
_HURRIED = {"alarm.set": "node", "alarm.cleared": "node", "vhost.down": "vhost"}
"""Events that change values of objects: the class to be listed soon."""


class RabbitMqAgent:
    """Serves a RabbitMQ as a QMF agent.

    Args:
        config: see `RabbitMqAgentConfig`.
        mapping: what is read and how it is shown.
        session: configuration of the QMF agent session.

    Raises:
        LocalProtocolError: AM2 cannot carry one of the mapping's classes or events.
        MappingError: an element of the mapping has no type, or an event refers to what there is not.
    """

    def __init__(self, config: RabbitMqAgentConfig, mapping: MappingFile, session: AgentConfig) -> None:
        self._config = config
        self._readers = class_readers(mapping)
        self._view = BrokerView(
            self._readers,
            show_own=config.show_own,
            own_users=config.own_users | {config.user},
            management_virtual_host=config.management_virtual_host,
        )
        self._events = BrokerEvents(mapping, self._readers, self._view)
        self._service = ConsoleService(
            session, self._readers, self._view.known, self._events.maker.schemas, config.flush_delay
        )
        self._plan = PollingPlan(
            (
                ListingRequest(name, reader.rule.listing, _columns(reader))
                for name, reader in self._readers.items()
                if reader.rule.listing
            ),
            config.polling,
            users=bool(config.management_virtual_host),
        )
        self._impersonators = ImpersonatorCheck(session.obey, config.user)
        self._listing: Listing | None = None
        listed = (name for name, reader in self._readers.items() if reader.rule.listing)
        self._visibility = Visibility(listed, config.user)
        self._linked = False
        self._woken_at = 0

    # What the driver asks.

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """What the link binds the agent's queue to."""
        return self._service.session.bindings()

    @property
    def event_keys(self) -> tuple[str, ...]:
        """Routing keys of the events that matter here."""
        return tuple(dict.fromkeys((*self._events.routing_keys, TAGS_EVENT)))

    @property
    def status(self) -> AgentStatus:
        """How far the agent can see the broker now."""
        return self._visibility.status(
            self._view.hosts.not_permitted,
            self._impersonators.distrust,
            blocked=self._events.alarms.blocked,
        )

    @property
    def unreadable(self) -> Mapping[str, int]:
        """How often a value or event was not what it should be, by place."""
        counts: dict[str, int] = {**self._events.reader.unreadable, **self._events.maker.unreadable}
        for reader in self._readers.values():
            counts.update(reader.unreadable)
        return counts

    @property
    def request_at(self) -> int:
        """When to ask for the next request (ns)."""
        return self._plan.due()

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        return self._listing is not None and self._listing.waits

    def known(self, class_name: str) -> Iterable[KnownObject]:
        """The objects of a class as the agent knows them."""
        return self._view.known.of_class(class_name)

    # The link's side, in the form that every session has.

    def connected(self, reply_to: str, now: int) -> list[Effect]:  # noqa: ARG002  agents await no replies
        """The link carries messages, and the agent's queue is bound."""
        self._linked = True
        return self._awake(self._served(now))

    def disconnected(self, detail: str, now: int) -> list[Effect]:  # noqa: ARG002  as every session's
        """The link carries nothing: what changes meanwhile is told when it is up again."""
        self._linked = False
        self._service.suspend()
        return []

    def resync(self, reason: str, now: int, since: int) -> list[Effect]:  # noqa: ARG002  as every session's
        """Requests may have been lost on the way: whoever sent them is told everything anew."""
        return self._awake(self._service.console_bound(now))

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a console's request."""
        return self._awake(self._service.receive(delivery, now))

    def unsent(self, messages: Iterable[Send]) -> None:
        """The link went down before these were sent: of them events are told when it is up again."""
        self._service.unsent(messages)

    def connection_blocked(self, now: int) -> None:
        """The broker takes nothing from a connection of ours, although no alarm was heard of."""
        self._events.alarms.connection_blocked(now)
        self._plan.hurry(now, "node")

    def tick(self, now: int) -> list[Effect]:
        """Do what is due: publish what changed, or fall silent when the broker has been so too long."""
        self._woken_at = 0
        self._view.known.forget_old_ends(now)
        silent_since = self._visibility.silent_since
        if not silent_since or now - silent_since < self._config.silence_limit:
            return self._awake([*self._forget_unread(now), *self._service.tick(now)])
        effects: list[Effect] = []
        if not self._visibility.failure:  # nor an answer: who asked is waiting still
            seconds = self._config.silence_limit / SECOND
            effects += self._fails(Unavailable(f"no answer for {seconds:g} s"), silent_since)
        self._visibility.read_again()
        return (
            [*effects, Note("agent-silent", self._visibility.failure)] if self._service.suspend() else effects
        )

    def _awake(self, effects: list[Effect]) -> list[Effect]:
        """``effects`` and the wish to be woken when something is due."""
        times = [self._service.wake_at, self._visibility.unread_until(self._config.silence_limit)]
        if self._visibility.silent_since and self._service.serving:
            times.append(self._visibility.silent_since + self._config.silence_limit)
        wake = min((time for time in times if time), default=0)
        if wake and wake != self._woken_at:
            self._woken_at = wake
            effects.append(WakeAt(wake))
        return effects

    # Events.

    def events_connected(self, now: int) -> list[Effect]:
        """Events arrive from now on; what happened before is in doubt."""
        again = bool(self._visibility.last_event)
        self._visibility.events_missing = ""
        self._events.lost()
        effects = self._doubted("events are connected", now)
        if again:
            effects += self._missed("they were not connected", now, now)
        self._visibility.last_event = now
        return effects

    def events_resumed(self, missed: str, now: int) -> list[Effect]:
        """Events arrive from now on, first those of meanwhile; ``missed``: why some before them may be lost.

        Until `events_caught_up` nobody is told that all is known.
        """
        self._visibility.events_missing = ""
        self._visibility.catching_up = True
        self._visibility.last_event = now
        if missed:
            self._events.lost()
            self._view.known.remember(())  # nobody will tell what became of these
        return self._awake(self._doubted(missed or "events are connected again", now))

    def events_caught_up(self) -> list[Effect]:
        """The events of meanwhile have all been told."""
        self._visibility.catching_up = False
        self._view.known.remember(())
        return []

    def events_lost(self, reason: str, now: int, since: int) -> list[Effect]:
        """Some events may have been lost since ``since``, although others arrive: list everything again."""
        self._events.lost()
        return [*self._doubted(reason, now), *self._missed(reason, now, since)]

    def tells_at_once(self, now: int) -> bool:
        """Whether consoles hear of an event at once when `tell_now` is called after it."""
        return self._service.tells_at_once(now)

    def tell_now(self, now: int) -> list[Effect]:
        """Tell what waits to be told together with what may follow."""
        return self._awake(self._service.tell_now(now))

    def remember(self, objects: Iterable[KnownObject]) -> None:
        """These existed when an agent before this one ended: should an event tell their end, it is told."""
        self._view.known.remember(objects)

    def _missed(self, reason: str, now: int, since: int) -> list[Effect]:
        since = min(since, self._visibility.last_event)
        self._visibility.last_event = now
        return self._awake(self._service.events_lost(Loss(0, since, now), reason, now))

    def events_missing(self, reason: str) -> list[Effect]:
        """No events arrive, for ``reason``, which people are told."""
        news = reason != self._visibility.events_missing
        self._visibility.events_missing = reason
        return [Note("events-missing", reason)] if news else []

    def event(
        self, key: str, headers: Mapping[str, object], timestamp: datetime | None, now: int
    ) -> list[Effect]:
        """An event arrived: its routing key, its headers and its AMQP timestamp."""
        self._visibility.last_event = now
        heard = self._events.take(key, headers, timestamp, now)
        effects = self._service.apply(heard.changes, now)
        effects += self._service.raise_events(heard.raised, now)
        match heard.event:
            case Created(reading) if reading.name.class_name == "vhost":
                self._ask_permission(reading.name.leaf)
            case Bound() as bound:
                effects += self._bound(bound, now)
        if key == TAGS_EVENT:
            self._plan.hurry_users(now)
            if self._visibility.refused:  # perhaps by ourselves, and perhaps not any more
                self._plan.hurry(now)
        elif key in _HURRIED:
            self._plan.hurry(now, _HURRIED[key])
        return self._awake(effects)

    def _ask_permission(self, host: str) -> None:
        if not self._plan.ask(PermissionRequest(host)):
            self._view.hosts.undoubt(host)

    def _bound(self, event: Bound, now: int) -> list[Effect]:
        console = event.routing_key.startswith(("#", "console"))
        where = (event.virtual_host, event.exchange)
        if not console or where != (self._config.management_virtual_host, self._config.management_exchange):
            return []
        return self._service.console_bound(now)

    def _doubted(self, reason: str, now: int) -> list[Effect]:
        self._plan.hurry(now)
        return [Note("resync", reason)]

    # Answers.

    def next_request(self, now: int) -> ManagementRequest | None:
        """The request to make now, if one is due and the last answer has been taken whole."""
        return None if self.busy else self._plan.next_request(now)

    def asked(self, now: int) -> list[Effect]:
        """The request is made now: silence counts from here, long before the request's own deadline."""
        self._visibility.asked_at = now
        return self._awake([])

    def answered(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        """What came of ``request``, made at ``began`` and over at ``ended`` (ns). `advance` may follow."""
        self._visibility.asked_at = 0
        if isinstance(request, UsersRequest):
            # Whatever comes of it says nothing about the rest, which is asked for soon enough.
            return self._users(answer, began, ended)
        if isinstance(answer, Unavailable | NotManagement) or (isinstance(answer, Refused) and answer.login):
            return self._awake(self._unanswered(request, answer, began, ended))
        effects: list[Effect] = []
        if self._visibility.answers():
            self._plan.hurry(ended)
            effects.append(Note("management-answers"))
        match request:
            case OverviewRequest():
                effects += self._overview(request, answer, ended)
            case ListingRequest():
                effects += self._page(request, answer, began, ended)
            case PermissionRequest():
                effects += self._permission(request, answer, began, ended)
            case ObjectRequest():
                effects += self._single(request, answer, began, ended)
        return self._awake(effects)

    def _unanswered(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        self._plan.failed(request, ended)
        self._listing = None
        return self._fails(answer, began)

    def _fails(self, answer: Answer, asked: int) -> list[Effect]:
        if not self._visibility.failure:
            self._view.known.doubt()
        news = self._visibility.fails(answer, asked)
        return [Note("management-unavailable", self._visibility.failure)] if news else []

    def _overview(self, request: OverviewRequest, answer: Answer, ended: int) -> list[Effect]:
        self._plan.overview_read(ended)
        if isinstance(answer, Refused | Broken):
            return self._cannot_read("overview", request, answer, ended)
        self._visibility.reads("overview", ended)
        if isinstance(answer, Document):
            self._view.nodes.learn_overview(answer.body)
        return []

    def _users(self, answer: Answer, began: int, ended: int) -> list[Effect]:
        self._plan.users_read(began, ended, refused=isinstance(answer, Refused))
        notes = self._impersonators.learn(answer)
        self._service.session.distrust(self._impersonators.distrust)
        return [*notes]

    def _cannot_read(
        self, place: str, request: ManagementRequest, refusal: Refused | Broken, now: int
    ) -> list[Effect]:
        news = self._visibility.refuses(place, request, refusal, now)
        notes: list[Effect] = [Note("unreadable", news)] if news else []
        return [*notes, *self._forget_unread(now)]

    def _forget_unread(self, now: int) -> list[Effect]:
        """What could not be read for too long, although the rest could, is not known any more."""
        effects: list[Effect] = []
        for class_name in self._visibility.long_unread(now, self._config.silence_limit):
            effects += self._service.apply(self._view.known.unread(class_name, now), now)
        return effects

    def _page(self, request: ListingRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        if isinstance(answer, Refused | Broken):
            self._plan.refused(request, ended)
            self._listing = None
            return [*self._cannot_read(request.class_name, request, answer, ended), *self._served(ended)]
        page = page_of(answer)
        if page is None:
            return self._unanswered(request, self._visibility.no_listing(request), began, ended)
        items, last = page
        if request.page == 1:
            self._listing = Listing(request.class_name, began)
        if self._listing is None:
            raise LocalProtocolError(f"page {request.page} of {request.collection} was not asked for")
        self._visibility.reads(request.class_name, ended)
        self._listing.items.extend(items)
        self._listing.sampled = (began + ended) // 2
        self._listing.closing = last
        self._plan.page_read(request, began, ended, last=last)
        return []

    def advance(self, now: int) -> list[Effect]:
        """Take some more objects of the page that arrived; call it while `busy`."""
        listing = self._listing
        if listing is None:
            return []
        effects: list[Effect] = []
        for _ in range(min(len(listing.items), self._config.items_at_once)):
            effects += self._item(listing, listing.items.popleft(), now)
        if not listing.items and listing.closing:
            self._listing = None
            effects += self._listed(listing, now)
        return self._awake(effects)

    def _item(self, listing: Listing, item: Json, now: int) -> list[Effect]:
        taken = self._view.take(listing, item, now)
        if listing.class_name == "node" and isinstance(item, Mapping):
            self._events.alarms.listed(item, listing.began)
        effects = self._service.apply(taken.changes, now)
        if taken.restarted:
            effects += self._doubted(f"node {taken.restarted} was restarted", now)
        return effects

    def _listed(self, listing: Listing, now: int) -> list[Effect]:
        finished = self._view.finish(listing, now)
        for host in finished.doubted:
            self._ask_permission(host)
        if finished.regained:
            self._plan.hurry(now)
        if listing.class_name == "node":
            self._events.alarms.finished({name.leaf for name in listing.seen}, listing.began)
        self._suspect(listing.class_name, finished.suspects, now)
        self._visibility.listed(listing.class_name)
        if not self._visibility.complete and self._view.is_unconfirmed(listing.class_name):
            self._plan.hurry(now + AGAIN, listing.class_name)
        return [*self._service.apply(finished.changes, now), *self._served(now)]

    def _suspect(self, class_name: str, suspects: list[ObjectName], now: int) -> None:
        """Objects are missing: ask for each whether it is gone, or list the class again."""
        if len(suspects) > self._config.suspects_asked or class_name not in _ANSWER_SINGLY:
            if suspects:
                self._plan.hurry(now, class_name)
            return
        collection = self._readers[class_name].rule.listing
        for name in suspects:
            if all(name.parts):
                self._plan.ask(ObjectRequest(name, collection))

    def _permission(self, request: PermissionRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        self._plan.extra_read(request, began, ended)
        host = request.virtual_host
        if isinstance(answer, NotFound):
            self._view.hosts.forget(host)
            return self._served(ended)
        if isinstance(answer, Broken):
            self._view.hosts.undoubt(host)
            return self._served(ended)
        before = self._view.hosts.permitted(host)
        permitted = isinstance(answer, Document)
        changes = self._view.learn_permission(host, permitted=permitted, now=ended)
        effects = self._service.apply(changes, ended)
        if permitted and before is not True:
            self._plan.hurry(ended)
        elif not permitted and before is not False:
            effects.append(Note("virtual-host-not-permitted", f"contents of {host!r} may not be read"))
        return [*effects, *self._served(ended)]

    def _single(self, request: ObjectRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        self._plan.extra_read(request, began, ended)
        effects: list[Effect] = []
        if isinstance(answer, NotFound):
            effects = self._service.apply(self._view.known.not_found(request.name, began, ended), ended)
        elif isinstance(answer, Document):
            self._view.known.confirmed(request.name)
        return [*effects, *self._served(ended)]

    # Towards consoles.

    def _served(self, now: int) -> list[Effect]:
        """Begin, or begin again, to speak to consoles as soon as there is something true to tell."""
        # What was known before the broker was out of sight is confirmed or gone before it is vouched for.
        doubtful = self._view.hosts.doubted or (
            not self._visibility.complete and any(map(self._view.is_unconfirmed, self._visibility.readable))
        )
        complete = self._visibility.is_complete(doubtful=doubtful)
        if not self._linked or self._visibility.failure or not complete:
            return []
        return self._service.begin(now)


def _columns(reader: ClassReader) -> tuple[str, ...]:
    needed = NEEDED_COLUMNS.get(reader.schema.key.name, ())
    return tuple(dict.fromkeys((*reader.columns, *needed)))
