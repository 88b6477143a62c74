"""The objects of the broker, from events and listings together."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from gateway.mapping.paths import Json, text_at
from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.broker_identity import Cluster
from gateway.sources.rabbitmq.cluster import (
    DEPRECATED_FEATURE,
    FEATURE_FLAG,
    KHEPRI,
    LIMITS,
    RECOVERY_LASTS,
    START_LATENESS,
    STARTING_AT_LONGEST,
    Features,
    NodeFailures,
    Nodes,
    NodeStart,
    VirtualHosts,
)
from gateway.sources.rabbitmq.event_gaps import CreationsWithoutEvent, UnseenCreations
from gateway.sources.rabbitmq.events import Changed, Created, Deleted
from gateway.sources.rabbitmq.forwarders import FORWARDERS, SHOVEL, ForwarderStates, shovel_of
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.listing import (
    Listing,
    ShownProperties,
    completed_binding,
    completed_queue,
    is_measured,
)
from gateway.sources.rabbitmq.management_api import ADMINISTRATIVE, NARROWED
from gateway.sources.rabbitmq.node_counters import NodeCounters
from gateway.sources.rabbitmq.object_lives import Change, Gone, KnownObject, listing_lag
from gateway.sources.rabbitmq.object_names import (
    ByteName,
    ByteNames,
    ObjectName,
    Processes,
    is_anonymous,
    is_never_shown,
    is_own,
    is_publication,
)
from gateway.sources.rabbitmq.own_queues import OwnQueues
from gateway.sources.rabbitmq.prometheus_statistics import PrometheusStatistics
from gateway.sources.rabbitmq.reading import ClassReader, Reading
from gateway.sources.rabbitmq.same_names import DISTINGUISHED, Distinguished, SameNames

WITHIN_VIRTUAL_HOST = frozenset({"queue", "exchange"})
"""Classes whose listings omit virtual hosts that may not be read. Connections are shown of all."""
_CONTENTS = WITHIN_VIRTUAL_HOST | FORWARDERS
"""Classes of which what is known of a virtual host ends, or is hidden, with it."""
_WITH_HOST_AND_NAME = ("queue", "exchange", "policy")
"""Classes whose objects have the name that a client chose in a virtual host."""
_FILTERED = _CONTENTS | {"binding", "policy", "operatorPolicy"}
"""All classes whose listings do so."""
_WITH_NODES = WITHIN_VIRTUAL_HOST | {"connection"}
"""Classes of which objects end with a node: those that are not durable, and connections."""
_HIDDEN = _FILTERED | {"consumer"}
"""Classes of which nothing new is shown in a virtual host that may not be read; consumers are listed."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The changes from one object of a listing; ``restarted`` names a node that has been started again."""

    changes: list[Change]
    restarted: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a complete listing.

    Attributes:
        changes: objects that are gone, virtual hosts whose state is now known.
        suspects: objects that a listing lacks for the first time.
        questioned: virtual hosts of which the source must ask whether they may be read.
        regained: a virtual host may be read that could not before.
        learned: it is known only now that a virtual host may be read, so that its own values can be shown.
    """

    changes: list[Change]
    suspects: list[ObjectName]
    questioned: list[str]
    regained: bool
    learned: bool


class BrokerView:
    """Applies events and listings to the known objects, and returns the changes.

    Args:
        readers: the reader of each class.
        show_own: whether the gateway's own queues and connections are shown.
        own_users: the gateway's users.
        management_virtual_host: the virtual host of the management exchange; empty if there is none.
        statistics: the statistics of a class that are read as metrics; ``None`` if there are none.

    Attributes:
        counters: knows whether counters go on.
        failures: distinguishes unreachable objects from ended ones.
        processes: objects by their Erlang process.
        without_event: new objects of which no event came.
        unseen: events of new objects in virtual hosts that may not be read any more.
        byte_names: gives names of listings their bytes back.
        same_names: distinguishes connections of one name.
        own_queues: knows which policies reach queues of the gateway's other sources.
        withheld: classes that may not be read. Their events are ignored: they would show some of the objects
            as if they were all.
        is_narrowed: the reader lacks the tag ``monitoring``, so that nothing which answers about classes of
            `NARROWED` lack has ended.
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        *,
        show_own: bool,
        own_users: frozenset[str],
        management_virtual_host: str = "",
        statistics: PrometheusStatistics | None = None,
    ) -> None:
        self.known = KnownObjects(readers)
        self.nodes = Nodes()
        self.hosts = VirtualHosts()
        self.features = Features()
        self._forwarders = ForwarderStates()
        self.failures = NodeFailures(readers, self.known, self.nodes)
        self.counters = NodeCounters(readers, self.known, self.nodes)
        self._readers = readers
        self._show_own = show_own
        self._own_users = own_users
        self._management_virtual_host = management_virtual_host
        self.withheld = set(ADMINISTRATIVE)
        self.is_narrowed = False
        self._complete_until = 0
        self._former_store = ""
        self.processes = Processes()
        self.statistics = statistics
        self._shown = ShownProperties()
        self.without_event = CreationsWithoutEvent()
        self.unseen = UnseenCreations()
        self.byte_names = ByteNames()
        self.same_names = SameNames(readers, self.known, self.processes, self.nodes)
        self.own_queues = OwnQueues()

    def left(self, objects: Iterable[KnownObject], complete_until: int) -> list[KnownObject]:
        """Take the objects that were known before the gateway's start; return them without statistics.

        Args:
            objects: all these objects.
            complete_until: when events were last received (ns); 0 if unknown.
        """
        self._complete_until = complete_until
        nodes: set[str] = set()
        cluster_names: set[object] = set()
        former: list[KnownObject] = []
        counts: dict[str, Values] = {}
        for known in self.same_names.restored(objects):
            former.append(known)
            self.byte_names.learn(known.name.parts)
            if known.name.class_name == "node":
                process, time, store = self.values(known, "osProcess", "startTime", "metadataStore")
                nodes.add(known.name.leaf)
                cluster_names.update(self.values(known, "clusterName"))
                self._former_store = store if isinstance(store, str) else self._former_store
                # In its first seconds a node reports neither.
                if process is not None and isinstance(time, int):
                    self.nodes.former[known.name.leaf] = NodeStart(process, time)
                    # Not by events, which a durable subscription may have to catch up with for long.
                    self.nodes.former_until = max(self.nodes.former_until, known.sampled)
                counts[known.name.leaf] = known.statistics
                former[-1] = replace(known, statistics=(None,) * len(known.statistics))
        name = next((name for name in cluster_names if isinstance(name, str)), "")
        self.nodes.identity.cluster = Cluster(name, frozenset(nodes))
        if former:
            self.counters.remember(counts, complete_until)
        return former

    def replaced(self, now: int) -> list[Change]:
        """Forget everything, because another broker is read; return the ends of all objects.

        When they have been published, their ends must be forgotten (`EndedObjects.forget_all`): a listing
        that shows one of their names shows an object of the other broker.
        """
        changes = self.known.end_all(now)
        self.nodes.retain(set())
        self.counters.forget()
        self.hosts, self.features = VirtualHosts(), Features()
        self.without_event, self.own_queues = CreationsWithoutEvent(), OwnQueues()
        self._forwarders = ForwarderStates()
        self.processes.forget()
        self.nodes.former.clear()
        self._former_store = ""
        return changes

    # The objects that events refer to.

    def connection_of(self, process: str) -> str | None:
        """Return the name of the connection that an Erlang process serves."""
        return self.processes.connection(process)

    def channel_of(self, process: str) -> str | None:
        """Return the name of the channel that an Erlang process serves."""
        return self.processes.channel(process)

    def consumer_of(self, virtual_host: str, queue: str, tag: str) -> ObjectName | None:
        """Return the one consumer of a queue with a tag, among those whose channel or connection is known."""
        found = [
            known.name
            for known in self.known.dependents(ObjectName("queue", (virtual_host, queue)), "consumer")
            if known.name.leaf == tag and not is_anonymous(known.name)
        ]
        return found[0] if len(found) == 1 else None

    def binding_of(self, headers: Mapping[str, Json]) -> ObjectName | None:
        """Return the one binding with arguments that an event reports."""
        host, kind, name = (headers.get(key) for key in ("vhost", "destination_kind", "destination_name"))
        if not (isinstance(kind, str) and isinstance(host, str) and isinstance(name, str)):
            return None
        if kind not in WITHIN_VIRTUAL_HOST:
            return None
        source, key = headers.get("source_name"), headers.get("routing_key")
        found = [
            known.name
            for known in self.known.dependents(ObjectName(kind, (host, name)), "binding")
            if self._property(known, "arguments")
            and (self._property(known, "source"), self._property(known, "routingKey")) == (source, key)
        ]
        return found[0] if len(found) == 1 else None

    # Events.

    def born(self, event: Created, now: int, *, recovering: bool = False) -> list[Change]:
        """Apply a creation event; ``recovering``: it is from before any client could connect to its node."""
        name = event.reading.name
        self.without_event.reported(name)
        if name.class_name == "connection" and event.process:
            # It is needed even if it is not shown: queues refer to it.
            self.processes.connection_opened(event.process, name.leaf)
        if not self.shows(name, event.document):
            self.known.ends.forget(name)
            if self.known.get(name) is None:
                self.unseen.created(event)
            return self._name_taken(name, event.document, now)
        if name.class_name in self.withheld:
            return []
        if name.class_name == "vhost":
            self.hosts.forget(name.leaf)
            self.hosts.question(name.leaf)
            self.known.ends.forget_all(partial(_is_within, name.leaf))
        outlives = self._outlives_node(event.reading)
        # RabbitMQ 4 also reports a binding that a client declares again, as most do when they connect.
        lasts = outlives or name.class_name == "binding"
        changes = self.known.created(
            self._completed(event.reading), event.time, now, lasts=lasts, recovered=outlives and recovering
        )
        if name.class_name == "channel" and event.process and self.known.get(name) is not None:
            self.processes.channel_opened(event.process, name.leaf)
        return changes

    def changed(self, event: Changed) -> None:
        """Apply an event that shows that an object exists: a listing that has the object is not outdated."""
        if event.name is not None:
            self.known.ends.forget(event.name)
            if (shovel := shovel_of(event.name)) is not None:
                self.known.ends.forget(shovel)
                self._forwarders.shovel_set(shovel)

    def shows(self, name: ObjectName, document: Mapping[str, Json]) -> bool:
        """Return whether an object is published, of which an event says ``document``."""
        if name.class_name in _HIDDEN and self.hosts.permitted(name.parts[0]) is False:
            return False
        return not self._leaves_out(name, document)

    def ended(self, event: Deleted, now: int) -> list[Change]:
        """Apply a deletion event."""
        name = event.name
        self.without_event.reported(name)
        self.unseen.ended(name)
        inside: list[Change] = []
        if name.class_name == "vhost":
            self.hosts.forget(name.leaf)
            # RabbitMQ reports neither creation nor end of the exchanges that it makes itself.
            for known in self._inside(name.leaf):
                by_event = not known.unread_since
                inside += self.known.deleted(known.name, event.time, now, by_event=by_event)
        elif name.class_name == "connection":
            self.processes.connection_closed(name.leaf)
            if name.plain is not name:
                self.same_names.forget_ended()
        elif (shovel := shovel_of(name)) is not None:
            self._forwarders.shovel_deleted(shovel)
            inside = self.known.deleted(shovel, event.time, now)
        changes = inside + self.known.deleted(name, event.time, now)
        if isinstance(name.leaf, ByteName) and not self._is_used(name.leaf):
            self.byte_names.forget(name.leaf)
        return changes

    def _is_used(self, leaf: ByteName) -> bool:
        """Return whether an object still has a name: others in virtual hosts, or of other classes, may."""
        hosts = [known.name.leaf for known in self.known.of_class("vhost")]
        inside = (ObjectName(kind, (host, leaf)) for kind in _WITH_HOST_AND_NAME for host in hosts)
        alone = (ObjectName(kind, (leaf,)) for kind in ("vhost", "user"))
        return any(
            self.known.get(one) is not None or self.known.remembered(one) is not None
            for one in chain(alone, inside)
            if one.class_name in self._readers
        )

    def name_of(self, class_name: str, document: Json) -> ObjectName | None:
        """Return the name of the object of a class in a document; ``None`` if it has none."""
        return self._readers[class_name].name_of(self.byte_names.named(document))

    def take(self, listing: Listing, document: Json, now: int) -> Taken:
        """Apply one object of a listing."""
        document = self.byte_names.named(document)
        item: Mapping[str, Json] = document if isinstance(document, Mapping) else {}
        reader = self._readers[listing.class_name]
        name = reader.name_of(item)
        listing.unnamed += name is None
        restarted = ""
        found = self._distinguished(listing, name, item)
        if found is not None and found.alike:
            listing.seen.update(found.alike)
            return Taken([change for one in found.alike for change in self.known.shown_as_one_of(one, now)])
        name = name if found is None else found.name
        if name is not None:
            listing.seen.add(name)
            if self.is_overtaken(listing, name):
                return Taken([])
            item, restarted = self._noticed(listing, name, item, now)
            if self._leaves_out(name, item):
                return Taken(self._name_taken(name, item, now))
        measured = listing.class_name == "queue" and self.nodes.measuring and is_measured(item)
        worked_out = self._worked_out(listing, item, name)
        reading = reader.read(worked_out, measured=measured, lean=listing.lean)
        reading = reading if found is None or reading is None else found.applied(reading, reader)
        changes = self._ended_with(restarted, now) if restarted else []
        if listing.class_name == "node" and name is not None:
            changes += self._ended_before(name.leaf, now)
            changes += self.counters.node_read(name.leaf, reading, now, restarted=bool(restarted))
        if reading is None:
            return Taken([*changes, *self._unreadable(listing, name, now)], restarted)
        if listing.early or self._is_unlisted(reading.name):
            return Taken(changes, restarted)
        if listing.class_name == "vhost" and not self.hosts.permitted(reading.name.leaf):
            # The broker shows zeros of a virtual host that may not be read.
            reading = replace(reading, statistics=(None,) * len(reading.statistics))
        changes += self._perhaps_new(reading.name, listing.began, now)
        reading, sampled = self._beside_known(listing, reading)
        changes += self.known.listed(self._completed(reading), listing.began, sampled, now)
        return Taken(changes, restarted)

    def _perhaps_new(self, name: ObjectName, began: int, now: int) -> list[Change]:
        """Apply the event of an object that a listing shows, if it came while nothing might be read there."""
        known, event = self.known, self.unseen.shown(name)
        if event is not None:
            return known.created(event.reading, event.time, now, lasts=self._outlives_node(event.reading))
        # One that is known now, was lately, or may have been refused, is not new.
        if not (known.refused or known.ending(name) or known.ends.get(name)):
            self.without_event.shown(name, began)
        return []

    def _distinguished(
        self, listing: Listing, name: ObjectName | None, item: Mapping[str, Json]
    ) -> Distinguished | None:
        if name is None or name.class_name not in DISTINGUISHED:
            return None
        return self.same_names.listed(name, item, listing)

    def _noticed(
        self, listing: Listing, name: ObjectName, item: Mapping[str, Json], now: int
    ) -> tuple[Mapping[str, Json], str]:
        """Take what a listed object shows of others; return it, completed, and a node that was restarted."""
        if listing.single:
            self.known.was_read_singly(name, now)
        self.own_queues.shown(name, item)
        if name.class_name in WITHIN_VIRTUAL_HOST:
            listing.hosts.add(name.parts[0])
        elif name.class_name == "node":
            item, again = self.nodes.completed(item, listing.sampled, self.features.metadata_store)
            return item, name.leaf if again else ""
        elif name.class_name == FEATURE_FLAG:
            self.features.listed_flag(item)
        return item, ""

    def is_overtaken(self, listing: Listing, name: ObjectName | None) -> bool:
        """Return whether a page of a listing may be older than what is known of one of its objects."""
        return name is not None and not listing.single and self.known.is_overtaken(name, listing.asked)

    def _unreadable(self, listing: Listing, name: ObjectName | None, now: int) -> list[Change]:
        """Show the object of a document that cannot be read as unread."""
        if name is None:
            return []
        listing.unreadable.add(name)
        return self.known.unread_alone(name, now)

    def ambiguous(self, listing: Listing, document: Json, now: int) -> list[Change]:
        """Keep the values of an object that a page shows twice with different ones, and show it as unread."""
        name = self.name_of(listing.class_name, document)
        if name is None:
            return []
        listing.seen.add(name)
        listing.ambiguous.add(name)
        if name.class_name in WITHIN_VIRTUAL_HOST:
            listing.hosts.add(name.parts[0])
        return self.known.unread_alone(name, now)

    def _name_taken(self, name: ObjectName, document: Mapping[str, Json], now: int) -> list[Change]:
        """End the known object of a name that another one has now, which is not shown."""
        self.known.leave_out(name)
        if self.known.get(name) is None or not self._leaves_out(name, document):
            return []
        return self.known.ended(name, now)

    def _beside_known(self, listing: Listing, reading: Reading) -> tuple[Reading, int]:
        """Return a listed object with other known values, and the time of its values."""
        known = self.known.get(reading.name)
        reading = self._shown.completed(reading, known, self._readers[listing.class_name].schema, listing)
        if listing.lean:
            return reading, known.sampled if known is not None else listing.sampled
        if self.statistics is None or reading.name.class_name != self.statistics.columns.class_name:
            return reading, listing.sampled
        return self.statistics.joined(reading, known, listing.sampled, single=listing.single)

    def _worked_out(
        self, listing: Listing, item: Mapping[str, Json], name: ObjectName | None
    ) -> Mapping[str, Json]:
        """Return an object of a listing with fields that are computed from the listing."""
        class_name = listing.class_name
        if class_name in FORWARDERS and name is not None:
            return self._with_failure(name, item, listing.sampled)
        if class_name == "vhost":
            return self.hosts.completed(item)
        if class_name == DEPRECATED_FEATURE:
            return self.features.completed(item)
        if class_name == "queue":
            return completed_queue(item)
        return completed_binding(item) if class_name == "binding" else item

    def _with_failure(self, name: ObjectName, item: Mapping[str, Json], sampled: int) -> Mapping[str, Json]:
        """Return a shovel or federation link with whether it fails."""
        known = self.known.get(name)
        failed = known is not None and self._property(known, "failing") is True
        added = item.get("gateway")
        found = added if isinstance(added, Mapping) else {}
        failing = self._forwarders.is_failing(name, found.get("state"), sampled, failed=failed)
        return {**item, "gateway": {**found, "failing": failing}}

    def _is_unlisted(self, name: ObjectName) -> bool:
        """Return whether it is in a virtual host that may not be read; consumers are listed all the same."""
        return name.class_name == "consumer" and self.hosts.permitted(name.parts[0]) is False

    def finish(self, listing: Listing, now: int) -> Finished:
        """Apply the end of a listing: objects that it lacks, and virtual hosts whose contents it showed."""
        changes: list[Change] = []
        regained = learned = False
        unlisted = 0
        for host in sorted(listing.hosts):
            regained |= self.hosts.permitted(host) is False
            learned |= self.hosts.permitted(host) is None
            changes += self.learn_permission(host, permitted=True, now=now)
        questioned: list[str] = []
        if listing.class_name == "exchange":
            # Every virtual host has exchanges, so one that shows none may not be read.
            questioned = [
                vhost.name.leaf
                for vhost in self.known.of_class("vhost")
                if vhost.name.leaf not in listing.hosts and self.hosts.permitted(vhost.name.leaf) is not False
            ]
            # As far as is known it may be read: then the listing is partial, and proves no end.
            listing.unnamed += sum(1 for host in questioned if self.hosts.permitted(host))
        elif listing.class_name in {FEATURE_FLAG, DEPRECATED_FEATURE}:
            unlisted = self._features_lacked(listing)
        elif listing.class_name == "node":
            self.nodes.retain({name.leaf for name in listing.seen})
            changes += self.counters.nodes_listed(now)
        if listing.early:
            return Finished(changes, [], questioned, regained, learned)
        # The broker may answer from a cache that it keeps for five times what it took to fill it.
        lag = max(listing_lag(listing.class_name), 6 * (now - listing.began))
        gone, suspects = self.known.swept(
            listing.class_name,
            listing.seen,
            listing.began,
            lag,
            now,
            partial(self._is_hidden, now=now),
            whole=not (listing.unnamed or unlisted),
        )
        listing.unlisted = unlisted or self.known.listings.lacking(listing.class_name)
        self._listed_whole(listing, lag)
        self.own_queues.listed(listing.class_name, listing.seen)
        self._forwarders.retain(listing.class_name, listing.seen)
        if listing.class_name == "queue":
            self._shown.retain(listing.seen)
            changes += self.failures.missed(listing.seen, now)
        if listing.class_name in _FILTERED - FORWARDERS:
            questioned += sorted({name.parts[0] for name in suspects} - set(questioned))
        if listing.class_name == "vhost":
            gone = [*gone, *self._contents_of(gone, now)]
            questioned += self.hosts.listed((name.leaf for name in listing.seen), listing.began)
        for host in questioned:
            self.hosts.question(host)
        return Finished(changes + gone, suspects, questioned, regained, learned)

    def _listed_whole(self, listing: Listing, lag: int) -> None:
        """Compare the events that came with a listing, if that shows all queues or exchanges."""
        if listing.class_name not in WITHIN_VIRTUAL_HOST:
            return
        if listing.unnamed or listing.unreadable or listing.ambiguous or listing.unlisted:
            self.without_event.incomplete(listing.class_name)
            return
        hosts = (known.name.leaf for known in self.known.of_class("vhost"))
        readable = frozenset(one for one in hosts if self.hosts.permitted(one) and not self.hosts.hides(one))
        self.without_event.listed(listing.class_name, listing.seen, listing.began, lag, readable)

    def _features_lacked(self, listing: Listing) -> int:
        """Take the end of a listing of features; return how many it lacks wrongly, which are all or none.

        A broker that has such a collection has some of them.
        """
        lacked = 0 if listing.seen else len(self.known.names_of(listing.class_name))
        if listing.class_name == FEATURE_FLAG and not lacked:
            self.features.flags_listed()
        return lacked

    def not_found(self, name: ObjectName, asked: int, now: int) -> list[Change]:
        """Take note that an object answered 404 to a request made at ``asked`` (ns)."""
        if self.is_out_of_reach(name, asked, now) or self._is_withheld(name) or name.class_name in FORWARDERS:
            return []  # a shovel that is restarted is missing for a moment
        gone = self.known.not_found(name, asked, now)
        return [*gone, *self._contents_of(gone, now)] if name.class_name == "vhost" else gone

    def lacked(self, name: ObjectName, asked: int, now: int) -> list[Change]:
        """Apply that an object whose class cannot be listed answered 404: it ends at the second time."""
        known = self.known.get(name)
        is_hidden = known is None or (known.missed and self.is_out_of_reach(name, asked, now))
        if is_hidden or self._is_withheld(name):
            return []
        gone = self.known.lacked(name, asked, now)
        return [*gone, *self._contents_of(gone, now)] if name.class_name == "vhost" else gone

    def _is_withheld(self, name: ObjectName) -> bool:
        """Return whether the reader may not see an object, as far as is known."""
        if name.class_name in _FILTERED:
            return self.hosts.hides(name.parts[0])
        doubtful = self.is_narrowed or self.known.listings.asks_for_all(name.class_name)
        return doubtful and name.class_name in NARROWED

    def is_out_of_reach(self, name: ObjectName, asked: int, now: int) -> bool:
        """Return whether an object may exist although the answer to a request of ``asked`` (ns) lacks it."""
        known = self.known.get(name)
        return known is not None and self.failures.hides(known, now, asked)

    def _contents_of(self, gone: list[Change], now: int) -> list[Change]:
        """End the contents of virtual hosts whose end was not reported; they may not have been readable."""
        changes: list[Change] = []
        for host in [change.object.name.leaf for change in gone if isinstance(change, Gone)]:
            if self.known.get(ObjectName("vhost", (host,))) is None:
                self.hosts.forget(host)
                for known in self._inside(host):
                    changes += self.known.ended(known.name, now)
        return changes

    def learn_limits(
        self, limits: Mapping[str, Mapping[str, Json] | None] | None, read_at: int
    ) -> list[Change]:
        """Apply the limits of all virtual hosts, as `VirtualHosts.learn_limits` takes them."""
        self.hosts.learn_limits(limits, read_at)
        changes: list[Change] = []
        for name in [vhost.name for vhost in self.known.of_class("vhost")]:
            limits_of_one = self.hosts.limits(name.leaf)
            for limit, element in LIMITS.items():
                vhost = self.known.get(name)
                if vhost is not None:
                    changes += self.known.with_property(vhost, element, limits_of_one.get(limit))
        return changes

    def learn_used_features(self, answer: Json) -> list[Change]:
        """Apply which deprecated features are in use."""
        self.features.learn_used(answer)
        changes: list[Change] = []
        for known in list(self.known.of_class(DEPRECATED_FEATURE)):
            changes += self.known.with_property(known, "inUse", self.features.is_used(known.name.leaf))
        return changes

    def everything_shown(self, readable: Container[str], now: int) -> list[Change]:
        """Publish what exists, once everything was listed that can be: the classes ``readable``.

        What existed before and is not listed, because it cannot be, is shown as unread.
        """

        def is_unread(known: KnownObject) -> bool:
            return known.name.class_name not in readable or self._is_hidden(known, now)

        changes = self.known.everything_shown(is_unread, readable, now)
        if "vhost" in readable:
            changes += self._outside_of_hosts(now)
        return changes + self.known.without_owner(readable, now)

    def _outside_of_hosts(self, now: int) -> list[Change]:
        """End unread objects in virtual hosts that do not exist."""
        return [
            change
            for class_name in sorted(WITHIN_VIRTUAL_HOST & self._readers.keys())
            for known in list(self.known.of_class(class_name))
            if known.unread_since and not self.knows_host(known.name.parts[0])
            for change in self.known.ended(known.name, now)
        ]

    def is_unconfirmed(self, class_name: str, now: int) -> bool:
        """Return whether a class has objects from before a gap that have not been confirmed since."""
        return self.known.unconfirmed(class_name, partial(self._is_hidden, now=now))

    def knows_host(self, host: str) -> bool:
        """Return whether a virtual host of this name is known to exist."""
        return self.known.get(ObjectName("vhost", (host,))) is not None

    def learn_permission(self, host: str, *, permitted: bool, now: int) -> list[Change]:
        """Apply whether the contents of a virtual host may be read."""
        if self.hosts.permitted(host) and not permitted:
            self.unseen.begin(host)
        if not self.hosts.learn(host, permitted=permitted):
            return []
        changes: list[Change] = []
        vhost = self.known.get(ObjectName("vhost", (host,)))
        if vhost is not None:
            changes += self.known.with_property(vhost, "state", self.hosts.state(host))
            if not permitted:
                changes += self.known.without_statistics(vhost.name, now)
        if not permitted:
            for inside in self._inside(host, _FILTERED):
                changes += self.known.out_of_sight(inside.name, now)
        return changes

    def _completed(self, reading: Reading) -> Reading:
        """Return a binding with what follows from its two ends: whether it is durable."""
        if reading.name.class_name != "binding":
            return reading
        ends = self.known.dependencies(reading, listed=False)
        if ends is None:
            return reading
        position = self._readers["binding"].schema.positions["durable"]
        properties = list(reading.properties)
        properties[position] = all(map(self._lasts, ends))
        return replace(reading, properties=tuple(properties))

    def _lasts(self, known: KnownObject) -> bool:
        """Return whether a queue or exchange is durable by the mapping's rules of its class."""
        transient = any(
            self._property(known, element) is True
            for element in ("exclusive", "autoDelete")
            if element in self._readers[known.name.class_name].schema.positions
        )
        named_by_broker = known.name.class_name == "queue" and known.name.leaf.startswith("amq.gen-")
        return self._property(known, "durable") is True and not transient and not named_by_broker

    def _ended_with(self, node: str, now: int) -> list[Change]:
        """End the objects that ended with the previous process of a node; listings lag behind.

        An object that may be of the present process already lives on, if listings show it.
        """
        started = self.nodes.started_after(node)
        former = [
            known
            for class_name in sorted(_WITH_NODES & self._readers.keys())
            for known in self.known.of_class(class_name)
            if known.first_seen <= started and self._ended_at_start(known, node)
        ]
        return [change for known in former for change in self.known.ended(known.name, now)]

    def _ended_before(self, node: str, now: int) -> list[Change]:
        """End objects from before the gateway's start that ended with a node that was started since.

        If the node's present start was noticed before, those ends have been published.
        """
        started = self.nodes.started_after(node)
        if not self._complete_until or self._ran_before(node):
            return []
        if node not in self.nodes.former and started <= self._complete_until:
            return []
        return self.known.forget_remembered(
            lambda known: (
                known.created <= started
                and known.name.class_name in _WITH_NODES
                and self._ended_at_start(known, node)
            ),
            now,
        )

    def starts_since(self, time: int) -> list[tuple[int, int]]:
        """Return the starts of nodes that may have been started after ``time`` (ns).

        Each is a time that is never too late, and one that is never too early. The broker's clock may differ.
        """
        starts = [
            (min(self.nodes.started_after(name), started - START_LATENESS), started)
            for name in self.nodes.names
            if time < (started := self.nodes.started(name))
            and not (self.nodes.ran_at(name, time) or self._ran_before(name, time))
        ]
        return starts + [(time, listed) for listed in self.nodes.starting if listed > time]

    def any_started_before(self, time: int) -> bool:
        """Return whether a node was started shortly before ``time`` (ns): it may still recover objects."""
        return bool(self.nodes.starting) or any(
            self.nodes.started(name) >= time - STARTING_AT_LONGEST
            and not (self.nodes.ran_at(name, time - RECOVERY_LASTS) or self._ran_before(name))
            for name in self.nodes.names
        )

    def _ran_before(self, node: str, time: int | None = None) -> bool:
        """Return whether a node runs in the same process as before the gateway's start.

        Args:
            node: its name.
            time: if given, as at that time (ns). The gateway before may have met the node's start and ended
                while events from before that start waited still.
        """
        former = self.nodes.former.get(node)
        if former is None or (time is not None and former.time > time):
            return False
        return self.nodes.is_start(node, former)

    def _ended_at_start(self, known: KnownObject, node: str) -> bool:
        """Return whether an object from before a node's start ended with the node's previous process."""
        alone = self.nodes.names == {node}
        if known.name.class_name == "exchange":
            # All nodes know it. Khepri keeps, and recovers, those that are not durable too.
            store = self.features.metadata_store or self._former_store
            return alone and store != KHEPRI and self._property(known, "durable") is False
        if known.name.class_name == "queue" and not self._ends_with_node(known):
            return False
        # An event does not name the node of a queue; where there is one only, it is this one.
        there = self._property(known, "node")
        return there == node or (there is None and alone)

    def mark_unconfirmed_since(self, since: int) -> bool:
        """Mark as unconfirmed objects of events since ``since`` (ns) that may have ended with a node.

        Events that waited report objects that were created before the node was started again, and not their
        ends.

        Returns:
            Whether there are such objects.
        """
        unconfirmed = [
            known.name
            for class_name in sorted(_WITH_NODES & self._readers.keys())
            for known in self.known.of_class(class_name)
            if known.first_seen >= since and not known.listed and self._may_end_with_node(known)
        ]
        self.known.mark_unconfirmed(unconfirmed)
        return bool(unconfirmed)

    def _may_end_with_node(self, known: KnownObject) -> bool:
        if known.name.class_name == "exchange":
            return self._property(known, "durable") is False
        return known.name.class_name == "connection" or self._ends_with_node(known)

    def is_recovered(self, event: Created, now: int, *, recovering: bool) -> bool:
        """Return whether a creation event is from a node that recovers its objects."""
        if not self._outlives_node(event.reading):
            return False
        return recovering or self.known.is_known_otherwise(event.reading, event.time, now)

    def _outlives_node(self, queue: Reading) -> bool:
        if queue.name.class_name != "queue":
            return False
        return self._property(queue, "durable") is True and self._property(queue, "exclusive") is not True

    def _ends_with_node(self, queue: KnownObject) -> bool:
        return self._property(queue, "durable") is False or self._property(queue, "exclusive") is True

    def values(self, known: KnownObject, *elements: str) -> list[Value | None]:
        """Return properties of a known object."""
        return [self._property(known, element) for element in elements]

    def _property(self, known: KnownObject | Reading, element: str) -> Value | None:
        return known.properties[self._readers[known.name.class_name].schema.positions[element]]

    def _inside(self, host: str, classes: frozenset[str] = _CONTENTS) -> Iterable[KnownObject]:
        return [
            known
            for class_name in sorted(classes & self._readers.keys())
            for known in self.known.of_class(class_name)
            if known.name.parts[0] == host
        ]

    def _is_hidden(self, known: KnownObject, now: int) -> bool:
        if known.name.class_name not in _FILTERED:
            return False
        return self.hosts.hides(known.name.parts[0]) or self.failures.hides(known, now)

    def _leaves_out(self, name: ObjectName, document: Mapping[str, Json]) -> bool:
        if is_never_shown(name, document):
            return True
        if name.class_name == SHOVEL and self._forwarders.is_left(name, text_at(document, "state")):
            return True
        if is_publication(name, document, self._own_users, self._management_virtual_host):
            return True
        return not self._show_own and is_own(name, document, self._own_users)


def _is_within(host: str, name: ObjectName) -> bool:
    return name.class_name in _HIDDEN and name.parts[0] == host
